//! Prompts with one answer, or with a better and a worse one.

use rolecall_conversation::json::Object;
use rolecall_conversation::{Json, Place, Problem};
use rolecall_openai::Error;

use super::dialogue::{Messages, read_tools};
use super::{Draft, Origins, Side, message, missing, wrong_type};

const TURNS: &str = "a string, a message or a list of messages";

/// Messages, with the path of each.
type Turns = (Vec<Json>, Vec<String>);

/// Reads `{"prompt", "completion"}`, which are texts or lists of messages.
pub(super) fn completion(mut object: Object) -> Result<Draft, Error> {
    let prompt = turns(take(&mut object, "prompt")?, "user", "prompt")?;
    let answer = turns(take(&mut object, "completion")?, "assistant", "completion")?;
    draft(object, &prompt, answer, None)
}

/// Reads `{"prompt"?, "chosen", "rejected"}`, with ShareGPT's `conversations` instead of the
/// prompt, or OpenAI's keys. Without a prompt, each answer holds the whole conversation.
pub(super) fn preference(mut object: Object) -> Result<Vec<Draft>, Error> {
    let is_openai = object.get("preferred_output").is_some();
    let sources = ["prompt", "conversations", "instruction"];
    let mut given = sources.into_iter().chain(is_openai.then_some("input")).filter(|key| {
        // A prompt of `null` counts as missing.
        object.get(key).is_some_and(|value| !value.is_null())
    });
    let source = given.next();
    if let (Some(one), Some(other)) = (source, given.next()) {
        return Err(Error::TwoWays { one: one.to_owned(), other: other.to_owned() });
    }
    let prompt = match source {
        None => (Vec::new(), Vec::new()),
        Some("prompt") => turns(take(&mut object, "prompt")?, "user", "prompt")?,
        Some("input") => of_input(&mut object)?,
        Some(source) => {
            let read = if source == "instruction" { super::dialogue::begin_instruction } else { super::dialogue::read };
            let begun = read(object)?;
            object = begun.object;
            match object.remove("messages") {
                Some(Json::Array(messages)) => (messages, begun.origins.paths),
                _ => return Err(missing(source)),
            }
        }
    };
    if let Some(unread) = ["input", "output"].into_iter().find(|key| object.get(key).is_some()) {
        return Err(Error::TwoWays { one: "chosen".into(), other: unread.to_owned() });
    }
    let keys = if is_openai { ["preferred_output", "non_preferred_output"] } else { ["chosen", "rejected"] };
    let mut sides = Vec::new();
    for (key, side) in keys.into_iter().zip([Side::Chosen, Side::Rejected]) {
        let answer = turns(take(&mut object, key)?, "assistant", key)?;
        sides.push((behind(&prompt, answer, key)?, side));
    }
    sides.into_iter().map(|((prompt, answer), side)| draft(object.clone(), &prompt, answer, Some(side))).collect()
}

/// Reads OpenAI's `input`: messages, tools and other keys.
fn of_input(object: &mut Object) -> Result<Turns, Error> {
    let mut input = match take(object, "input")? {
        Json::Object(input) => input,
        other => return Err(wrong_type("input", "an object with `messages`", &other)),
    };
    let messages = input.remove("messages").ok_or_else(|| missing("input.messages"))?;
    for (key, value) in input.iter() {
        if object.get(key).is_some() {
            return Err(Error::TwoWays { one: key.to_owned(), other: format!("input.{key}") });
        }
        object.insert(key, value.clone());
    }
    turns(messages, "user", "input.messages")
}

/// Joins a prompt and its answer. Some datasets repeat the prompt at the start of the answer; it is
/// then left out here.
fn behind(prompt: &Turns, answer: Turns, key: &str) -> Result<(Turns, Turns), Error> {
    let role = |message: &Json| message.as_object().and_then(|message| Some(message.get("role")?.as_str()?.to_owned()));
    let said = |message: &Json| message.as_object().and_then(|message| message.get("content").cloned());
    let is_answer = |message: &Json| role(message).as_deref() == Some("assistant");
    if prompt.0.is_empty() || answer.0.first().is_some_and(is_answer) {
        return Ok((prompt.clone(), answer));
    }
    // A prompt that is a text is the last question.
    let asked = answer.0.iter().take_while(|message| !is_answer(message)).count();
    let repeats = prompt.0.len() <= asked
        && prompt
            .0
            .iter()
            .zip(&answer.0[asked - prompt.0.len()..])
            .all(|(a, b)| role(a) == role(b) && said(a) == said(b));
    let whole = answer.0.len() >= prompt.0.len()
        && prompt.0.iter().zip(&answer.0).all(|(a, b)| role(a) == role(b) && said(a) == said(b));
    match repeats || whole {
        true => Ok(((Vec::new(), Vec::new()), answer)),
        false => Err(Error::TwoWays { one: "prompt".into(), other: format!("{key}[0]") }),
    }
}

fn take(object: &mut Object, key: &'static str) -> Result<Json, Error> {
    object.remove(key).ok_or_else(|| missing(key))
}

/// Reads a text of the given role, or messages.
fn turns(value: Json, role: &str, path: &str) -> Result<Turns, Error> {
    Ok(match value {
        Json::String(text) => (vec![message(role, text)], vec![path.to_owned()]),
        Json::Object(turn) => {
            let mut read = Messages::default();
            add_turn(&mut read, Json::Object(turn), path.to_owned())?;
            (read.messages, read.origins.paths)
        }
        Json::Array(list) => {
            let mut read = Messages::default();
            for (at, turn) in list.into_iter().enumerate() {
                add_turn(&mut read, turn, format!("{path}[{at}]"))?;
            }
            (read.messages, read.origins.paths)
        }
        other => return Err(wrong_type(path, TURNS, &other)),
    })
}

/// Reads a message in OpenAI's keys or ShareGPT's.
fn add_turn(read: &mut Messages, turn: Json, path: String) -> Result<(), Error> {
    match turn.as_object() {
        Some(object) if object.get("from").is_some() => read.add_turn(turn, path)?,
        Some(_) => read.push(turn, path),
        None => return Err(wrong_type(path, "a message", &turn)),
    }
    Ok(())
}

fn draft(mut object: Object, prompt: &Turns, answer: Turns, side: Option<Side>) -> Result<Draft, Error> {
    if answer.0.is_empty() {
        return Err(rolecall_conversation::Error {
            place: Place::field(match side {
                None => "completion",
                Some(Side::Chosen) => "chosen",
                Some(Side::Rejected) => "rejected",
            }),
            problem: Problem::NoMessages,
        }
        .into());
    }
    let (mut messages, mut paths) = prompt.clone();
    messages.extend(answer.0);
    paths.extend(answer.1);
    read_tools(&mut object)?;
    object.insert("messages", Json::Array(messages));
    Ok(Draft { object, side, origins: Origins::of_paths(paths) })
}
