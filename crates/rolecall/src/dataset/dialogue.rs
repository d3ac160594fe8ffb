//! Turns of `from` and `value`, and instructions with their answers.

use rolecall_conversation::json::{self, Object};
use rolecall_conversation::{Json, Place, Problem, object};
use rolecall_openai::Error;

use super::{Draft, FieldOrigin, Origins, message, missing, take_text, wrong_type};

/// The messages of a conversation that is read, and where each comes from.
#[derive(Default)]
pub(super) struct Messages {
    pub messages: Vec<Json>,
    pub origins: Origins,
}

/// The roles by the names that published datasets use in `from`.
const SPEAKERS: &[(&str, &str)] = &[
    ("human", "user"),
    ("user", "user"),
    ("gpt", "assistant"),
    ("assistant", "assistant"),
    ("model", "assistant"),
    ("chatgpt", "assistant"),
    ("bing", "assistant"),
    ("bard", "assistant"),
    ("function_call", "assistant"),
    ("tool_call", "assistant"),
    ("system", "system"),
    ("tool", "tool"),
    ("observation", "tool"),
    ("function_response", "tool"),
    ("tool_response", "tool"),
];
/// The speakers whose texts are calls.
const CALLERS: [&str; 2] = ["function_call", "tool_call"];
const KNOWN: &str = "`human`, `gpt`, `system`, `tool`, `observation`, `function_call`";

/// Reads `{"conversations": [{"from", "value"}, ..], "system"?, "tools"?}`.
pub(super) fn read(mut object: Object) -> Result<Draft, Error> {
    let turns = match object.remove("conversations") {
        Some(Json::Array(turns)) => turns,
        Some(other) => return Err(wrong_type("conversations", "a list of turns", &other)),
        None => return Err(missing("conversations")),
    };
    let mut messages = Messages::default();
    let begins_with_system = turns.first().is_some_and(|turn| speaker(turn) == Some("system"));
    if let Some(system) = take_text(&mut object, "system")? {
        if begins_with_system {
            return Err(Error::SystemBeside);
        }
        messages.push(message("system", system), "system".to_owned());
    }
    for (at, turn) in turns.into_iter().enumerate() {
        messages.add_turn(turn, format!("conversations[{at}]"))?;
    }
    read_tools(&mut object)?;
    let Messages { messages, origins } = messages;
    object.insert("messages", Json::Array(messages));
    Ok(Draft { object, side: None, origins })
}

impl Messages {
    /// Adds the messages of a turn: none if its calls belong to the message before, two if it holds a
    /// call and its result.
    pub(super) fn add_turn(&mut self, turn: Json, path: String) -> Result<(), Error> {
        match turn {
            Json::Object(turn) if is_call_with_result(&turn) => self.add_call_with_result(turn, &path),
            turn => {
                let is_caller = speaker(&turn).is_some_and(|from| CALLERS.contains(&from));
                let field = if is_caller { format!("{path}.value") } else { String::new() };
                match read_turn(turn, &path)? {
                    Json::Object(message) if is_caller => {
                        self.add_calls(message, path, &field);
                    }
                    message => self.push(message, path),
                }
                Ok(())
            }
        }
    }

    /// Reads a call and its result in one turn:
    /// `{"role": "tool", "name", "parameters", "observation"?}`.
    fn add_call_with_result(&mut self, mut turn: Object, path: &str) -> Result<(), Error> {
        turn.remove("role");
        let (name, parameters) = (turn.remove("name"), turn.remove("parameters"));
        let name = name.ok_or_else(|| missing(format!("{path}.name")))?;
        let parameters = parameters.unwrap_or(Json::Null);
        let observation = turn.remove("observation").filter(|observation| !observation.is_null());
        let function = object! { "name" => name, "arguments" => as_arguments(parameters) };
        let call = object! { "type" => "function", "function" => Json::Object(function) };
        let mut message = object! { "role" => "assistant", "tool_calls" => vec![Json::Object(call)] };
        turn.iter().for_each(|(key, value)| message.insert(key, value.clone()));
        let first = self.add_calls(message, path.to_owned(), path);
        if let Some(origins) = self.origins.messages.last_mut() {
            let function = format!("tool_calls[{first}].function");
            origins.push(FieldOrigin::field(format!("{function}.name"), format!("{path}.name")));
            origins.push(FieldOrigin::field(format!("{function}.arguments"), format!("{path}.parameters")));
        }
        if let Some(observation) = observation {
            // The maker's code writes a result that is no text as JSON, with Python's separators.
            let text = match observation {
                Json::String(text) => text,
                other => json::write(&other, &json::Layout::default()),
            };
            self.push(super::message("tool", text), format!("{path}.observation"));
        }
        Ok(())
    }

    /// Adds a message that only has calls to the assistant's message before it, as trainers do, or as
    /// a message of its own. `source` is the path of the calls. Returns the number of the first one.
    fn add_calls(&mut self, mut message: Object, path: String, source: &str) -> usize {
        let calls = match message.remove("tool_calls") {
            Some(Json::Array(calls)) => calls,
            _ => Vec::new(),
        };
        let continues = matches!(self.messages.last(), Some(Json::Object(last)) if is_one_turn(last, &message));
        if !continues {
            self.push(Json::Object(object! { "role" => "assistant" }), path);
        }
        let (Some(Json::Object(last)), Some(origins)) = (self.messages.last_mut(), self.origins.messages.last_mut())
        else {
            return 0;
        };
        message.iter().for_each(|(key, value)| last.insert(key, value.clone()));
        let mut all = match last.remove("tool_calls") {
            Some(Json::Array(before)) => before,
            _ => Vec::new(),
        };
        let first = all.len();
        for call in calls {
            origins.push(FieldOrigin::field(format!("tool_calls[{}]", all.len()), source.to_owned()));
            all.push(call);
        }
        last.insert("tool_calls", Json::Array(all));
        first
    }

    /// Adds a message that comes from one place.
    pub(super) fn push(&mut self, message: Json, path: String) {
        self.messages.push(message);
        self.origins.paths.push(path);
        self.origins.messages.push(Vec::new());
    }
}

/// Reports whether calls belong to the message before them: the assistant speaks on, and nothing that
/// is known of both differs.
fn is_one_turn(before: &Object, calls: &Object) -> bool {
    let is_assistant = before.get("role").and_then(Json::as_str) == Some("assistant");
    let agrees = |(key, value): (&str, &Json)| before.get(key).is_none_or(|known| known == value);
    // A message has one weight, so that turns with different ones stay apart.
    let weighs_same = |key: &str| before.get(key).is_some() == calls.get(key).is_some();
    is_assistant && calls.iter().all(agrees) && ["weight", "loss"].into_iter().all(weighs_same)
}

/// Reports whether a turn holds a call together with its result, as the fine-tuning files of some
/// makers have it.
fn is_call_with_result(turn: &Object) -> bool {
    turn.get("role").and_then(Json::as_str) == Some("tool")
        && turn.get("content").is_none()
        && (turn.get("parameters").is_some() || turn.get("observation").is_some())
}

/// Converts a turn to a message. `path` is the turn's path.
fn read_turn(turn: Json, path: &str) -> Result<Json, Error> {
    let mut turn = match turn {
        Json::Object(turn) => turn,
        other => return Err(wrong_type(path, "a turn: an object with `from` and `value`", &other)),
    };
    if turn.get("from").is_none() {
        // Some datasets use OpenAI's keys under `conversations`.
        return match (turn.get("role").is_some(), turn.get("value").is_some()) {
            (true, false) => Ok(Json::Object(turn)),
            (true, true) => Err(two_ways(path, "role", "value")),
            (false, _) => Err(missing(format!("{path}.from"))),
        };
    }
    if let Some(other) = ["role", "content"].into_iter().find(|key| turn.get(key).is_some()) {
        return Err(two_ways(path, "from", other));
    }
    let from = match turn.remove("from") {
        Some(Json::String(from)) => from,
        Some(other) => return Err(wrong_type(format!("{path}.from"), "a string", &other)),
        None => return Err(missing(format!("{path}.from"))),
    };
    let Some((_, role)) = SPEAKERS.iter().find(|(name, _)| *name == from) else {
        let problem = Problem::UnknownType { known: KNOWN, found: from };
        return Err(rolecall_conversation::Error { place: Place::field(format!("{path}.from")), problem }.into());
    };
    let value = turn.remove("value").ok_or_else(|| missing(format!("{path}.value")))?;
    let mut message = object! { "role" => *role };
    if CALLERS.contains(&from.as_str()) {
        message.insert("tool_calls", Json::Array(read_calls(&value, &format!("{path}.value"))?));
    } else {
        message.insert("content", value);
    }
    for (key, value) in turn.iter() {
        message.insert(key, value.clone());
    }
    Ok(Json::Object(message))
}

fn two_ways(path: &str, one: &str, other: &str) -> Error {
    Error::TwoWays { one: format!("{path}.{one}"), other: format!("{path}.{other}") }
}

fn speaker(turn: &Json) -> Option<&str> {
    let turn = turn.as_object()?;
    turn.get("from").or_else(|| turn.get("role"))?.as_str()
}

/// Reads `{"name", "arguments"}` as JSON text, or a list of them.
fn read_calls(value: &Json, path: &str) -> Result<Vec<Json>, Error> {
    const CALL: &str = "a call as JSON text: an object with `name` and `arguments`, or a list of them";
    let parsed = match value {
        Json::String(text) => json::parse_unique(text).map_err(|_| wrong_type(path, CALL, value))?,
        other => other.clone(),
    };
    let calls = match parsed {
        Json::Array(calls) => calls,
        call => vec![call],
    };
    if calls.is_empty() {
        return Err(wrong_type(path, CALL, value));
    }
    let function = |call: Json| match call {
        Json::Object(mut call) if call.get("name").is_some() && call.get("arguments").is_some() => {
            let arguments = call.remove("arguments").unwrap_or(Json::Null);
            call.insert("arguments", as_arguments(arguments));
            Ok(Json::Object(object! { "type" => "function", "function" => Json::Object(call) }))
        }
        _ => Err(wrong_type(path, CALL, value)),
    };
    calls.into_iter().map(function).collect()
}

/// Returns arguments as an object if they are the JSON text of one. Templates write a text quoted.
fn as_arguments(arguments: Json) -> Json {
    match arguments.as_str().map(json::parse_unique) {
        Some(Ok(object @ Json::Object(_))) => object,
        _ => arguments,
    }
}

/// Reads tools given as JSON text, or without the wrapper that names their type.
pub(super) fn read_tools(object: &mut Object) -> Result<(), Error> {
    const TOOLS: &str = "a list of tools, or its JSON text";
    let tools = match object.remove("tools") {
        None | Some(Json::Null) => return Ok(()),
        Some(Json::String(text)) if text.trim().is_empty() => return Ok(()),
        Some(Json::String(text)) => {
            json::parse_unique(&text).map_err(|_| wrong_type("tools", TOOLS, &Json::from(text.as_str())))?
        }
        Some(other) => other,
    };
    let Json::Array(tools) = tools else { return Err(wrong_type("tools", TOOLS, &tools)) };
    let wrap = |tool: Json| match &tool {
        Json::Object(bare) if bare.get("type").is_none() && bare.get("name").is_some() => {
            Json::Object(object! { "type" => "function", "function" => tool })
        }
        _ => tool,
    };
    if !tools.is_empty() {
        object.insert("tools", Json::Array(tools.into_iter().map(wrap).collect()));
    }
    Ok(())
}

/// Reads `{"instruction", "input"?, "output", "system"?, "history"?}`. The input is put below the
/// instruction, as trainers do.
pub(super) fn of_instruction(object: Object) -> Result<Draft, Error> {
    let mut draft = begin_instruction(object)?;
    let output = match draft.object.remove("output") {
        Some(Json::String(output)) => output,
        Some(other) => return Err(wrong_type("output", "a string", &other)),
        None => return Err(missing("output")),
    };
    if let Some(Json::Array(messages)) = draft.object.get_mut("messages") {
        messages.push(message("assistant", output));
    }
    draft.origins.paths.push("output".to_owned());
    Ok(draft)
}

/// Reads everything up to the instruction, as [`of_instruction`] does.
pub(super) fn begin_instruction(mut object: Object) -> Result<Draft, Error> {
    let (mut messages, mut paths) = (Vec::new(), Vec::new());
    let mut add = |role: &str, content: String, path: String| {
        messages.push(message(role, content));
        paths.push(path);
    };
    if let Some(system) = take_text(&mut object, "system")? {
        add("system", system, "system".into());
    }
    match object.remove("history") {
        None | Some(Json::Null) => {}
        Some(Json::Array(rounds)) => {
            for (at, round) in rounds.into_iter().enumerate() {
                const ROUND: &str = "a pair of texts: a question and its answer";
                match &round {
                    Json::Array(pair) => match pair.as_slice() {
                        [Json::String(asked), Json::String(answered)] => {
                            add("user", asked.clone(), format!("history[{at}][0]"));
                            add("assistant", answered.clone(), format!("history[{at}][1]"));
                        }
                        _ => return Err(wrong_type(format!("history[{at}]"), ROUND, &round)),
                    },
                    _ => return Err(wrong_type(format!("history[{at}]"), ROUND, &round)),
                }
            }
        }
        Some(other) => return Err(wrong_type("history", "a list of pairs of texts", &other)),
    }
    // Only a null counts as missing. Trainers send an empty instruction as an empty message.
    let is_given = object.get("instruction").is_some_and(|instruction| !instruction.is_null());
    let instruction = take_text(&mut object, "instruction")?;
    let input = take_text(&mut object, "input")?;
    let asked = match (instruction, input) {
        (Some(instruction), Some(input)) => format!("{instruction}\n{input}"),
        (Some(text), None) | (None, Some(text)) => text,
        (None, None) if is_given => String::new(),
        (None, None) => return Err(missing("instruction")),
    };
    add("user", asked, "instruction".into());
    read_tools(&mut object)?;
    object.insert("messages", Json::Array(messages));
    Ok(Draft { object, side: None, origins: Origins::of_paths(paths) })
}
