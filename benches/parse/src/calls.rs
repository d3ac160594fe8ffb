use serde_json::{Map, Value, json};

/// A tool call of a model.
pub struct Call {
    /// The name of the function.
    pub name: &'static str,
    /// The arguments.
    pub arguments: Map<String, Value>,
}

/// Returns a short call.
pub fn weather(city: &str, days: u32) -> Call {
    let arguments = Map::from_iter([("city".to_owned(), json!(city)), ("days".to_owned(), json!(days))]);
    Call { name: "get_weather", arguments }
}

/// Returns a call that writes a file of the given number of bytes.
pub fn write_file(bytes: usize) -> Call {
    let arguments =
        Map::from_iter([("path".to_owned(), json!("src/server.rs")), ("content".to_owned(), json!(code(bytes)))]);
    Call { name: "write_file", arguments }
}

/// Returns the tools of both calls, in OpenAI's shape.
pub fn tools() -> Vec<Value> {
    let tool = |name: &str, properties: Value| {
        json!({"type": "function", "function": {
            "name": name, "description": "", "parameters": {"type": "object", "properties": properties},
        }})
    };
    vec![
        tool("get_weather", json!({"city": {"type": "string"}, "days": {"type": "integer"}})),
        tool("write_file", json!({"path": {"type": "string"}, "content": {"type": "string"}})),
    ]
}

/// Makes a program of the given number of bytes: lines, indentation, quotes and backslashes, no
/// markup.
fn code(bytes: usize) -> String {
    let lines = [
        "pub fn answer(request: &Request) -> Result<Response, Error> {\n",
        "    let name = request.header(\"name\").unwrap_or(\"nobody\");\n",
        "    // A line of the log: who asked, and when.\n",
        "    log.push(format!(\"{name}\\t{}\\n\", request.time));\n",
        "    let total: f64 = rows.iter().map(|row| row.price * 1.19).sum();\n",
        "    Ok(Response { status: 200, body: total.to_string() })\n",
        "}\n",
        "\n",
    ];
    let mut text = String::with_capacity(bytes + 80);
    for line in lines.iter().cycle() {
        text.push_str(line);
        if text.len() >= bytes {
            break;
        }
    }
    text.truncate(bytes);
    // A layout that trims would change a text that ends in white space.
    text.pop();
    text.push('}');
    text
}
