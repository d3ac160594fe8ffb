use serde_json::{Map, Value, json};

/// A call that a model makes.
pub struct Call {
    /// The function.
    pub name: &'static str,
    /// Its arguments.
    pub arguments: Map<String, Value>,
}

/// A short call.
pub fn weather(city: &str, days: u32) -> Call {
    let arguments = Map::from_iter([("city".to_owned(), json!(city)), ("days".to_owned(), json!(days))]);
    Call { name: "get_weather", arguments }
}

/// A call that writes a file of so many bytes.
pub fn write_file(bytes: usize) -> Call {
    let arguments =
        Map::from_iter([("path".to_owned(), json!("src/server.rs")), ("content".to_owned(), json!(code(bytes)))]);
    Call { name: "write_file", arguments }
}

/// The tools that both calls are of, in OpenAI's shape.
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

/// A program of so many bytes: lines, indents, quotes and backslashes, no markup.
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
    // A text that ends in white space would be another text where a layout trims it.
    text.pop();
    text.push('}');
    text
}
