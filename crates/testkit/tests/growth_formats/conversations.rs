//! Conversations with everything that may depend on an earlier or a later message.

use rolecall::conversation::{Conversation, Message, json};
use rolecall::stability::{Case, Pace};

const FUNCTION: &str = r#"{"type": "function", "function": {"name": "f", "description": "F.", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}}"#;
const INTERPRETER: &str = r#"{"type": "code_interpreter"}"#;

/// The names of conversations, and their messages by the words of [`message`].
const CONVERSATIONS: [(&str, &str); 34] = [
    ("turns", "user answer user answer user answer user"),
    ("system", "system user answer user answer user"),
    ("blank system", "empty-system user answer blank-system user answer"),
    ("two systems", "system second-system user answer user"),
    ("late system", "user answer system user answer second-system user answer"),
    ("late blank system", "user empty-system answer blank-system user answer"),
    ("users in a row", "user second-user user answer user user answer"),
    ("assistants in a row", "user answer second-answer reasoned user answer"),
    ("assistant first", "answer user answer user answer"),
    ("assistant first and system", "system answer answer user answer user"),
    ("empty texts", "empty-user empty-answer blank-user empty-answer empty-user"),
    ("reasoning", "user reasoned user reasoned second-user answer"),
    ("names", "named answer user answer named"),
    ("parts", "parts answer parts answer"),
    ("other roles", "human gpt narrator user"),
    ("own roles", "observation user model user answer"),
    ("one call each", "user calls:1 result:1 answer user calls:1 result:1 answer"),
    ("calls in a row", "user calls:1 result:1 calls:2 result:2 answer user"),
    ("parallel calls", "system user calls:1,2 result:1 result:2 answer user calls:1,2 result:2 result:1"),
    ("unanswered calls", "user calls:1,2 result:1 user calls:1 answer"),
    ("results alone", "user bare bare answer bare user bare"),
    (
        "ids in a form",
        "user calls:1 result:1 user calls:functions.f:0 result:functions.f:0 user calls:1 result:1 answer",
    ),
    (
        "given ids first",
        "user calls:functions.f:0 result:functions.f:0 user calls:1 result:1 calls:call00000 result:call00000",
    ),
    (
        "ids generated before",
        "user calls:1 result:1 calls:call00000 result:call00000 user calls:call00001 result:call00001",
    ),
    (
        "ids cut",
        "user calls:abcdefgh1,x-abcdefgh1 result:x-abcdefgh1 answer user calls:y-abcdefgh1 result:y-abcdefgh1 calls:abcdefgh1",
    ),
    ("no ids", "user calls: bare user calls: bare answer"),
    ("shared ids", "user calls:1,1 result:1 result:1 calls:1 result:1 calls:1,2 result:1"),
    ("interpreter", "user calls:py-1 result:py-1 answer user calls:py-2,2 result:py-2 result:2 result:py-1 answer"),
    ("interpreter by order", "user calls:py-2,2 bare bare from-interpreter user calls:py-1 bare answer"),
    ("own fields", "user native bare answer user metadata bare answer"),
    ("tools in a system message", "offers user calls:1 result:1 user answer"),
    ("tools in a late message", "user answer offers-late calls:1 result:1 offers-late answer"),
    ("interpreter in a late message", "user metadata bare offers-interpreter user answer offers user"),
    ("one user", "user"),
];

/// Returns all conversations, with and without tools.
pub fn all() -> Vec<(String, Conversation)> {
    let both = format!("{FUNCTION}, {INTERPRETER}");
    let offers = [("", ""), (", a tool", FUNCTION), (", the interpreter", INTERPRETER), (", both", &both)];
    let mut built = Vec::new();
    for (name, words) in CONVERSATIONS {
        let messages: Vec<String> = words.split(' ').map(message).collect();
        for (offered, tools) in offers {
            let tools = if tools.is_empty() { String::new() } else { format!(r#", "tools": [{tools}]"#) };
            let text = format!(r#"{{"messages": [{}]{tools}}}"#, messages.join(", "));
            let conversation = Conversation::from_json(json::parse(&text).unwrap()).unwrap();
            built.push((format!("{name}{offered}"), conversation));
        }
    }
    let cases = Case::all().into_iter().filter(|case| case.pace == Pace::AtOnce);
    built.extend(cases.map(|case| (case.name, case.conversation)));
    built
}

/// Returns the JSON of a message.
fn message(word: &str) -> String {
    let (word, ids) = word.split_once(':').unwrap_or((word, ""));
    let text = |role: &str, text: &str| format!(r#"{{"role": "{role}", "content": "{text}"}}"#);
    let offering = |role: &str, tool: &str| format!(r#"{{"role": "{role}", "content": "S", "tools": [{tool}]}}"#);
    match word {
        "system" => text("system", " S "),
        "second-system" => text("system", "S2"),
        "empty-system" => text("system", ""),
        "blank-system" => text("system", "  "),
        "user" => text("user", "U"),
        "second-user" => text("user", "U2"),
        "empty-user" => text("user", ""),
        "blank-user" => text("user", " "),
        "answer" => text("assistant", " A\\n"),
        "second-answer" => text("assistant", "A2"),
        "empty-answer" => text("assistant", ""),
        "human" | "gpt" | "narrator" | "observation" | "model" => text(word, "X"),
        "reasoned" => r#"{"role": "assistant", "content": "A", "reasoning_content": "R"}"#.to_owned(),
        "named" => r#"{"role": "user", "content": "U", "name": "N"}"#.to_owned(),
        "parts" => r#"{"role": "user", "content": [{"type": "text", "text": "U1"}, {"type": "text", "text": "U2"}]}"#
            .to_owned(),
        "bare" => r#"{"role": "tool", "content": "bare"}"#.to_owned(),
        "from-interpreter" => r#"{"role": "tool", "name": "interpreter", "content": "2"}"#.to_owned(),
        "native" => {
            r#"{"role": "assistant", "content": "code", "metadata": "interpreter", "mode": "interpreter"}"#.to_owned()
        }
        "metadata" => r#"{"role": "assistant", "content": "code", "metadata": "f", "mode": "f"}"#.to_owned(),
        "offers" => offering("system", FUNCTION),
        "offers-late" => offering("user", FUNCTION),
        "offers-interpreter" => offering("system", INTERPRETER),
        "calls" => {
            let calls: Vec<String> = ids.split(',').map(call).collect();
            format!(r#"{{"role": "assistant", "content": "", "tool_calls": [{}]}}"#, calls.join(", "))
        }
        "result" => format!(r#"{{"role": "tool", "tool_call_id": "{ids}", "content": "result {ids}"}}"#),
        other => panic!("no message is called {other}"),
    }
}

fn call(id: &str) -> String {
    let function = r#"{"name": "f", "arguments": "{\"a\": 1}"}"#;
    match id {
        "" => format!(r#"{{"type": "function", "function": {function}}}"#),
        id if id.starts_with("py") => {
            format!(r#"{{"id": "{id}", "type": "code_interpreter", "code_interpreter": {{"input": "1+1"}}}}"#)
        }
        id => format!(r#"{{"id": "{id}", "type": "function", "function": {function}}}"#),
    }
}

/// Reads a message.
pub fn read(text: &str) -> Message {
    Message::from_object(json::parse(text).unwrap().as_object().unwrap().clone()).unwrap()
}
