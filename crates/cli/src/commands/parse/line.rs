//! Parses a line of `parse --jsonl`: a request with the model's output.

use rolecall::conversation::Json;
use rolecall::conversation::json;
use rolecall::conversation::json::Object;
use rolecall::dataset::{self, Shape};
use rolecall::parse::ParseOptions;
use rolecall::{Reading, Request, Stop, answer};
use rolecall_conversation::{Place, Problem};

use crate::batch::Line;
use crate::job::only_request;
use crate::reading::{ParseRun, request_of_one_word, with_ids_of};
use crate::refusal::Refusal;

/// Returns `{"id"?, "message", "finish_reason", "malformed", "warnings"?}`.
pub fn answer(reader: &ParseRun, policies: &ParseOptions, line: Line<'_>) -> Result<Json, Refusal> {
    let request = read(line.text)?;
    let stop = stop_of(&request.other)?;
    let chunks = chunks_of(&request.other)?;
    let id = request.id.clone();
    let context = reader.context(request, None, &with_ids_of(policies, line.number))?;
    let mut parser = context.text_parser();
    let mut reading = Reading::default();
    for chunk in &chunks {
        parser.push_text(chunk, &mut |event| reading.add(&event));
    }
    parser.finish(stop, &mut |event| reading.add(&event));
    let mut answer = answer::of_reading(id.as_ref(), &reading);
    answer::add_warnings(&mut answer, context.warnings());
    Ok(answer)
}

/// Reads the request. A request without messages becomes a one-word conversation.
fn read(text: &str) -> Result<Request, Refusal> {
    match json::parse(text).map_err(rolecall_openai::Error::from)? {
        Json::Object(mut object) if object.get("messages").is_none() => {
            let words = request_of_one_word(object.get("tools").cloned())?;
            let messages = words.conversation.messages.iter().map(|message| Json::Object(message.as_object().clone()));
            object.insert("messages", Json::Array(messages.collect()));
            Ok(Request::from_json(Json::Object(object))?)
        }
        // A key of other shapes is the output here, so only this one is determined.
        Json::Object(object) if Shape::of(&object) == Some(Shape::Harmony) => {
            only_request(dataset::read(text, Some(Shape::Harmony))?.1)
        }
        other => Ok(Request::from_json(other)?),
    }
}

fn chunks_of(line: &Object) -> Result<Vec<String>, Refusal> {
    let given = |key: &str| line.get(key).filter(|value| !value.is_null());
    match (given("output"), given("chunks")) {
        (Some(Json::String(output)), None) => Ok(vec![output.clone()]),
        (None, Some(Json::Array(chunks))) => {
            let text = |(at, chunk): (usize, &Json)| match chunk {
                Json::String(text) => Ok(text.clone()),
                other => Err(wrong_type(&format!("chunks[{at}]"), "a string", other)),
            };
            chunks.iter().enumerate().map(text).collect()
        }
        (Some(Json::String(_)), Some(other)) => Err(wrong_type("chunks", "nothing next to `output`", other)),
        (Some(other), _) => Err(wrong_type("output", "a string", other)),
        (None, Some(other)) => Err(wrong_type("chunks", "a list of strings", other)),
        (None, None) => {
            let problem = Problem::Missing;
            Err(rolecall_conversation::Error { place: Place::field("output"), problem }.into())
        }
    }
}

fn stop_of(line: &Object) -> Result<Stop, Refusal> {
    const KNOWN: &str = "`stop`, `tool_calls`, `length`, `abort`";
    match line.get("finish_reason") {
        None | Some(Json::Null) => Ok(Stop::End),
        Some(Json::String(reason)) => match reason.as_str() {
            "stop" | "tool_calls" => Ok(Stop::End),
            "length" => Ok(Stop::Length),
            "abort" => Ok(Stop::Abort),
            found => {
                let problem = Problem::UnknownType { known: KNOWN, found: found.to_owned() };
                Err(rolecall_conversation::Error { place: Place::field("finish_reason"), problem }.into())
            }
        },
        Some(other) => Err(wrong_type("finish_reason", "a string", other)),
    }
}

fn wrong_type(field: &str, expected: &'static str, found: &Json) -> Refusal {
    let problem = Problem::WrongType { expected, found: found.kind() };
    rolecall_conversation::Error { place: Place::field(field.to_owned()), problem }.into()
}
