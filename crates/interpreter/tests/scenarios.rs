//! The scenarios of InternLM2's and ChatGLM3's documents, end to end: the model's words from a script, the code in a
//! real kernel. The words are those of the documents where they run as they are printed.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::sync::Arc;

use rolecall::conversation::{Json, Message, json};
use rolecall_interpreter::agent::{Agent, Callable, Policy, ToolError, Toolbox, TurnEnd};
use rolecall_interpreter::{Folder, Interpreter, Stop};

use crate::common::script::{Script, empty, message, request};
use crate::common::session;

struct Weather;

impl Callable for Weather {
    fn name(&self) -> &str {
        "get_current_weather"
    }

    fn definition(&self) -> Json {
        json::parse(r#"{"name": "get_current_weather", "description": "Get the current weather in a given location", "parameters": {"type": "object", "properties": {"location": {"type": "string"}, "unit": {"type": "string"}}, "required": ["location"]}}"#).unwrap()
    }

    fn call(&self, arguments: &str, _: &Stop) -> Result<String, ToolError> {
        assert_eq!(arguments, r#"{"location": "Shanghai"}"#);
        Ok(r#"{"temperature": 22}"#.into())
    }
}

/// Runs a conversation of one or more turns of the user, and returns the whole text that the model saw and wrote.
fn play(
    format: &str,
    begin: &str,
    files: &[(&str, &[u8])],
    users: &[Message],
    replies: &[&str],
    has_code: bool,
) -> Option<(String, Option<Folder>)> {
    let (model, mut script) = Script::new(format, replies);
    let mut toolbox = Toolbox::default();
    if !begin.contains("no tools") {
        toolbox = toolbox.with(Arc::new(Weather));
    }
    if has_code {
        let session = session()?;
        for (name, bytes) in files {
            session.folder().write(name, bytes).unwrap();
        }
        toolbox = toolbox.with_interpreter(Box::new(session));
    }
    let begin = if begin == "no tools" { empty() } else { request(begin) };
    let mut agent =
        Agent::new(&model, begin, toolbox, Policy::default().allowing(["get_current_weather", "code_interpreter"]))
            .unwrap();
    for user in users {
        let end = agent.turn(std::slice::from_ref(user), &mut script, &Stop::default(), &mut |_| {}).unwrap();
        assert_eq!(end, TurnEnd::Answer);
    }
    let text = String::from_utf8(agent.session().bytes()).unwrap();
    // What was sent turn by turn is what the format writes for the whole conversation.
    let whole = request(&json::write(&agent.conversation(), &json::Layout::compact()));
    let stock = model.prompt(whole).unwrap();
    assert!(
        stock.text().trim_end().starts_with(text.trim_end()) || text.trim_end().starts_with(stock.text().trim_end()),
        "{text}\n---\n{}",
        stock.text()
    );
    Some((text, agent.folder()))
}

const SYSTEM: &str = r#"[{"role": "system", "content": "You are InternLM2-Chat, a harmless AI assistant"}]"#;

#[test]
fn the_weather_tool_of_internlm2() {
    let replies = [
        "Sure, I will search for the weather of Shanghai.<|action_start|><|plugin|>\n{\"name\": \"get_current_weather\", \"parameters\": {\"location\": \"Shanghai\"}}<|action_end|><|im_end|>",
        "The weather in Shanghai is 22 celsius<|im_end|>",
    ];
    let (text, _) =
        play("internlm2", SYSTEM, &[], &[Message::user("I want to know today's weather in Shanghai")], &replies, false)
            .unwrap();
    let end = "<|im_start|>user\nI want to know today's weather in Shanghai<|im_end|>\n<|im_start|>assistant\nSure, I will search for the weather of Shanghai.<|action_start|><|plugin|>\n{\"name\": \"get_current_weather\", \"parameters\": {\"location\": \"Shanghai\"}}<|action_end|><|im_end|>\n<|im_start|>environment name=<|plugin|>\n{\"temperature\": 22}<|im_end|>\n<|im_start|>assistant\nThe weather in Shanghai is 22 celsius<|im_end|>";
    assert!(text.trim_end().ends_with(end), "{text}");
}

const RAIN: &[u8] = b"WindDir9am,WindDir3pm,Rainfall\nW,WNW,0.6\nNNW,WSW,0.0\nW,WSW,1.4\n";

/// The document's code has a line break within a text, and a package that draws in a browser.
const AS_PRINTED: &str = "import plotly.express as px\nimport pandas as pd\n\ndf = pd.read_csv('data.csv')\n\nfig = px.scatter(df, x='WindDir9am', y='Rainfall', labels={'Rainfall': '\n\nRainfall'})\nfig.show()";

const MENDED: &str = "import matplotlib.pyplot as plt\nimport pandas as pd\n\ndf = pd.read_csv('data.csv')\nplt.scatter(df['WindDir9am'], df['Rainfall'])\nplt.title('Rainfall vs Wind Direction')\nplt.show()";

#[test]
fn a_dataset_with_a_plot_and_code_that_fails_first() {
    let call = |code: &str| {
        format!(
            "I have processed the data and visualized it for you.\n\n<|action_start|><|interpreter|>\n```python\n{code}\n```<|action_end|>\n<|im_end|>"
        )
    };
    let (first, second) = (call(AS_PRINTED), call(MENDED));
    let replies =
        [&*first, &*second, "The chart has a clear title.<|im_end|>", "The code uses a scatter plot.<|im_end|>"];
    let user = message(
        r#"{"role": "user", "content": [{"type": "text", "text": "Please help me process and visualize this dataset."}, {"type": "file", "file": {"path": "data.csv", "size": "10K"}}]}"#,
    );
    let users = [user, Message::user("Can you explain the code?")];
    // Both in one: tools are offered, too.
    let Some((text, folder)) = play("internlm2", SYSTEM, &[("data.csv", RAIN)], &users, &replies, true) else { return };
    assert!(
        text.contains("<|im_start|>system name=<|interpreter|>\n")
            && text.contains("<|im_start|>system name=<|plugin|>\n"),
        "{text}"
    );
    assert!(
        text.contains("<|im_start|>user name=file\n[{\"path\": \"data.csv\", \"size\": \"10K\"}]<|im_end|>"),
        "{text}"
    );
    assert!(text.contains("SyntaxError: unterminated string literal"), "{text}");
    assert!(
        text.contains("<|im_start|>environment name=<|interpreter|>\n![image](/mnt/data/output-1.png)<|im_end|>"),
        "{text}"
    );
    assert_eq!(&folder.unwrap().read("output-1.png").unwrap()[..4], b"\x89PNG");
}

#[test]
fn the_file_of_chatglm3_and_the_heart() {
    let lines: Vec<String> = (0..219)
        .map(|at| {
            let kind = if at < 116 { "survivor" } else { "killer" };
            format!(r#"{{"file_name": "{at}.png", "name": "N{at}", "type": "{kind}", "description": "d"}}"#)
        })
        .collect();
    let file = lines.join("\n");
    let user = message(&format!(
        r#"{{"role": "user", "content": [{{"type": "file", "file": {{"path": "/mnt/data/metadata.jsonl", "size": {}}}}}, {{"type": "text", "text": "Are there missing or abnormal values in the file?"}}]}}"#,
        file.len()
    ));
    let call =
        |said: &str, code: &str| format!("\n{said}<|assistant|>interpreter\n```python\n{code}\n```<|observation|>");
    let read = call(
        "We start by loading the file:",
        "import json\n\n# Load the uploaded file\ndata = []\nwith open(\"/mnt/data/metadata.jsonl\", 'r') as file:\n    for line in file:\n        data.append(json.loads(line))\n\n# Display the first few records to get a sense of the data\ndata[:1]",
    );
    let missing = call(
        "Next, I will check for missing values in these fields.",
        "# Check for missing values in each column\nmissing_values = {key: sum(1 for item in data if key not in item) for key in data[0].keys()}\n\nmissing_values",
    );
    let kinds = call(
        "Next, I look at the types.",
        "# Check the distribution of values in the 'type' column\ntype_distribution = {key: sum(1 for item in data if item['type'] == key) for key in sorted(set(item['type'] for item in data))}\n\ntype_distribution",
    );
    let heart = format!("interpreter\n```python\n{HEART}\n```<|observation|>");
    let replies =
        [&*read, &*missing, &*kinds, "\nNo abnormal values.<|user|>", &*heart, "\nThis is a shape of heart.<|user|>"];
    let users = [user, Message::user("Help me draw a heart")];
    let Some((text, folder)) =
        play("chatglm3", "no tools", &[("metadata.jsonl", file.as_bytes())], &users, &replies, true)
    else {
        return;
    };
    let shown = [
        format!("<|user|>\n#File: /mnt/data/metadata.jsonl\n#Size: {}\n#File uploaded\nAre there missing", file.len()),
        "<|observation|>\n```result\n[{'file_name': '0.png', 'name': 'N0', 'type': 'survivor', 'description': 'd'}]\n```<|assistant|>".to_owned(),
        "<|observation|>\n```result\n{'file_name': 0, 'name': 0, 'type': 0, 'description': 0}\n```<|assistant|>".to_owned(),
        "<|observation|>\n```result\n{'killer': 103, 'survivor': 116}\n```<|assistant|>".to_owned(),
        "<|observation|>\n```result\n[Image]\n```<|assistant|>\nThis is a shape of heart.".to_owned(),
    ];
    let mut rest = text.as_str();
    for part in &shown {
        let at = rest.find(part).unwrap_or_else(|| panic!("{part}\n---\n{rest}"));
        rest = &rest[at + part.len()..];
    }
    let picture = folder.unwrap().read("output-1.png").unwrap();
    assert!(picture.len() > 5000);
}

const HEART: &str = "import numpy as np\nimport matplotlib.pyplot as plt\n\n# The parametric equation for the shape of a heart\ndef heart(t):\n    x = 16 * np.sin(t) ** 3\n    y = 13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)\n    return x, y\n\nt = np.linspace(0, 2 * np.pi, 1000)\nx, y = heart(t)\n\nplt.figure(figsize=(6, 6))\nplt.plot(x, y, color='red')\nplt.axis('equal')\nplt.axis('off')\nplt.show()";
