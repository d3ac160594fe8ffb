//! Prompts with their answers: one, or a better and a worse one.

use rolecall_conversation::Json;
use rolecall_conversation::json::Object;
use rolecall_openai::Error;

use super::dialogue::{read_tools, read_turn};
use super::{Draft, Side, message, missing, wrong_type};

const TURNS: &str = "a string, a message or a list of messages";

/// Messages, and where each stands.
type Turns = (Vec<Json>, Vec<String>);

/// `{"prompt", "completion"}`: texts, or lists of messages.
pub(super) fn completion(mut object: Object) -> Result<Draft, Error> {
    let prompt = turns(take(&mut object, "prompt")?, "user", "prompt")?;
    let answer = turns(take(&mut object, "completion")?, "assistant", "completion")?;
    draft(object, &prompt, answer, None)
}

/// `{"prompt"?, "chosen", "rejected"}`, with ShareGPT's `conversations` in place of the prompt, or OpenAI's keys. Without a prompt,
/// both answers hold all of the conversation.
pub(super) fn preference(mut object: Object) -> Result<Vec<Draft>, Error> {
    let mut prompt = (Vec::new(), Vec::new());
    let is_openai = object.get("preferred_output").is_some();
    if is_openai {
        let mut input = match object.remove("input") {
            Some(Json::Object(input)) => input,
            Some(other) => return Err(wrong_type("input", "an object with `messages`", &other)),
            None => return Err(missing("input")),
        };
        prompt = turns(input.remove("messages").ok_or_else(|| missing("input.messages"))?, "user", "input.messages")?;
        for (key, value) in input.iter() {
            object.insert(key, value.clone());
        }
    } else if object.get("conversations").is_some() {
        let begun = super::dialogue::read(object)?;
        object = begun.object;
        if let Some(Json::Array(messages)) = object.remove("messages") {
            prompt = (messages, begun.paths);
        }
    } else if let Some(given) = object.remove("prompt").filter(|given| !given.is_null()) {
        prompt = turns(given, "user", "prompt")?;
    }
    let keys = if is_openai { ["preferred_output", "non_preferred_output"] } else { ["chosen", "rejected"] };
    let mut sides = Vec::new();
    for (key, side) in keys.into_iter().zip([Side::Chosen, Side::Rejected]) {
        sides.push((turns(take(&mut object, key)?, "assistant", key)?, side));
    }
    sides.into_iter().map(|(answer, side)| draft(object.clone(), &prompt, answer, Some(side))).collect()
}

fn take(object: &mut Object, key: &'static str) -> Result<Json, Error> {
    object.remove(key).ok_or_else(|| missing(key))
}

/// What is said there: a text of a role, or messages.
fn turns(value: Json, role: &str, path: &str) -> Result<Turns, Error> {
    Ok(match value {
        Json::String(text) => (vec![message(role, text)], vec![path.to_owned()]),
        Json::Object(turn) => (vec![turn_of(Json::Object(turn), path)?], vec![path.to_owned()]),
        Json::Array(list) => {
            let paths: Vec<String> = (0..list.len()).map(|at| format!("{path}[{at}]")).collect();
            let read = list.into_iter().zip(&paths).map(|(turn, path)| turn_of(turn, path));
            (read.collect::<Result<_, _>>()?, paths)
        }
        other => return Err(wrong_type(path, TURNS, &other)),
    })
}

/// A message in OpenAI's keys or ShareGPT's.
fn turn_of(turn: Json, path: &str) -> Result<Json, Error> {
    match turn.as_object() {
        Some(object) if object.get("from").is_some() => read_turn(turn, path),
        Some(_) => Ok(turn),
        None => Err(wrong_type(path, "a message", &turn)),
    }
}

fn draft(mut object: Object, prompt: &Turns, answer: Turns, side: Option<Side>) -> Result<Draft, Error> {
    let (mut messages, mut paths) = prompt.clone();
    messages.extend(answer.0);
    paths.extend(answer.1);
    read_tools(&mut object)?;
    object.insert("messages", Json::Array(messages));
    Ok(Draft { object, side, paths })
}
