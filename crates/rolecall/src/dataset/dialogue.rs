//! Turns of `from` and `value`, and instructions with their answers.

use rolecall_conversation::json::{self, Object};
use rolecall_conversation::{Json, Place, Problem, object};
use rolecall_openai::Error;

use super::{Draft, Origins, message, missing, take_text, wrong_type};

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
    ("system", "system"),
    ("tool", "tool"),
    ("observation", "tool"),
    ("function_response", "tool"),
];
const KNOWN: &str = "`human`, `gpt`, `system`, `tool`, `observation`, `function_call`";

/// Reads `{"conversations": [{"from", "value"}, ..], "system"?, "tools"?}`.
pub(super) fn read(mut object: Object) -> Result<Draft, Error> {
    let turns = match object.remove("conversations") {
        Some(Json::Array(turns)) => turns,
        Some(other) => return Err(wrong_type("conversations", "a list of turns", &other)),
        None => return Err(missing("conversations")),
    };
    let (mut messages, mut paths) = (Vec::new(), Vec::new());
    let begins_with_system = turns.first().is_some_and(|turn| speaker(turn) == Some("system"));
    if let Some(system) = take_text(&mut object, "system")? {
        if begins_with_system {
            return Err(Error::SystemBeside);
        }
        messages.push(message("system", system));
        paths.push("system".to_owned());
    }
    for (at, turn) in turns.into_iter().enumerate() {
        let path = format!("conversations[{at}]");
        messages.push(read_turn(turn, &path)?);
        paths.push(path);
    }
    read_tools(&mut object)?;
    object.insert("messages", Json::Array(messages));
    Ok(Draft { object, side: None, origins: Origins::of_paths(paths) })
}

/// Converts a turn to a message. `path` is the turn's path.
pub(super) fn read_turn(turn: Json, path: &str) -> Result<Json, Error> {
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
    if from == "function_call" {
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
    let function = |call: Json| match &call {
        Json::Object(object) if object.get("name").is_some() && object.get("arguments").is_some() => {
            Ok(Json::Object(object! { "type" => "function", "function" => call }))
        }
        _ => Err(wrong_type(path, CALL, value)),
    };
    calls.into_iter().map(function).collect()
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
    let instruction = take_text(&mut object, "instruction")?;
    let input = take_text(&mut object, "input")?;
    let asked = match (instruction, input) {
        (Some(instruction), Some(input)) => format!("{instruction}\n{input}"),
        (Some(text), None) | (None, Some(text)) => text,
        (None, None) => return Err(missing("instruction")),
    };
    add("user", asked, "instruction".into());
    read_tools(&mut object)?;
    object.insert("messages", Json::Array(messages));
    Ok(Draft { object, side: None, origins: Origins::of_paths(paths) })
}
