use std::collections::VecDeque;
use std::fmt;

use rolecall::conversation::Json;
use rolecall::conversation::json::{self, Object};
use rolecall::session::Finish;

use super::{Engine, EngineError, OwnCall, Sampled, Sampling, ToolResult, Toolbox};
use crate::Stop;

/// Events that were written down, line by line: an engine and tools that do the same again.
///
/// ```
/// use rolecall_interpreter::agent::{Replay, Toolbox};
/// let replay = Replay::from_lines(r#"{"type": "message", "ids": [1, 2], "finish": "stop", "message": {"role": "assistant", "content": "a"}}"#)?;
/// assert_eq!(replay.remaining(), 1);
/// # Ok::<(), rolecall_interpreter::agent::ReplayError>(())
/// ```
#[derive(Debug)]
pub struct Replay {
    replies: VecDeque<(Vec<u32>, Finish)>,
    results: VecDeque<(OwnCall, ToolResult)>,
}

/// A line of a record that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayError {
    /// Its number, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub why: String,
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} of the record: {}", self.line, self.why)
    }
}

impl std::error::Error for ReplayError {}

impl Replay {
    /// Reads events, as [`AgentEvent::to_json`](super::AgentEvent::to_json) writes them. Only messages and results matter.
    pub fn from_lines(text: &str) -> Result<Replay, ReplayError> {
        let mut replay = Replay { replies: VecDeque::new(), results: VecDeque::new() };
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let failed = |why: String| ReplayError { line: at + 1, why };
            let event = json::parse(line).map_err(|error| failed(error.to_string()))?;
            let Json::Object(event) = &event else { return Err(failed("expected an object".into())) };
            match event.get("type").and_then(Json::as_str) {
                Some("message") => replay.replies.push_back(reply(event).map_err(failed)?),
                Some("result") => replay.results.push_back(result(event).map_err(failed)?),
                Some(_) => {}
                None => return Err(failed("expected a `type`".into())),
            }
        }
        Ok(replay)
    }

    /// Returns how many replies have not been given yet.
    pub fn remaining(&self) -> usize {
        self.replies.len()
    }

    /// Returns a toolbox that offers the same, and answers as it was recorded.
    #[must_use]
    pub fn toolbox(&mut self, toolbox: Toolbox) -> Toolbox {
        toolbox.replaying(std::mem::take(&mut self.results))
    }
}

impl Engine for Replay {
    fn sample(&mut self, _: &Sampling, _: &Stop, take: &mut dyn FnMut(Sampled<'_>)) -> Result<Finish, EngineError> {
        let (ids, finish) =
            self.replies.pop_front().ok_or_else(|| EngineError("the record has no further reply".into()))?;
        take(Sampled::Ids(&ids));
        Ok(finish)
    }
}

fn text<'a>(event: &'a Object, key: &str) -> Result<&'a str, String> {
    event.get(key).and_then(Json::as_str).ok_or_else(|| format!("expected a text `{key}`"))
}

fn reply(event: &Object) -> Result<(Vec<u32>, Finish), String> {
    let ids = event.get("ids").and_then(Json::as_array).ok_or("expected a list `ids`")?;
    let id = |value: &Json| match value {
        Json::Number(number) => number.as_i64().and_then(|id| u32::try_from(id).ok()),
        _ => None,
    };
    let ids = ids.iter().map(id).collect::<Option<Vec<u32>>>().ok_or("expected ids of tokens")?;
    let finish = match text(event, "finish")? {
        "stop" => Finish::Stop,
        "length" => Finish::Length,
        "abort" => Finish::Abort,
        other => return Err(format!("expected `stop`, `length` or `abort`, not `{other}`")),
    };
    Ok((ids, finish))
}

fn result(event: &Object) -> Result<(OwnCall, ToolResult), String> {
    let (name, input) = match event.get("code") {
        Some(_) => (None, text(event, "code")?),
        None => (Some(text(event, "name")?.to_owned()), text(event, "arguments")?),
    };
    let call = OwnCall { index: 0, of: 1, id: String::new(), name, input: input.to_owned() };
    let pictures = event.get("pictures").and_then(Json::as_array).unwrap_or_default();
    let pictures = pictures.iter().filter_map(Json::as_str).map(str::to_owned).collect();
    // The code of an error is for people. The model reads its text.
    let error = event.get("error").map(|_| "recorded");
    Ok((call, ToolResult { text: text(event, "text")?.to_owned(), pictures, error }))
}
