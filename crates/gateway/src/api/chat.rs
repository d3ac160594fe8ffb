//! OpenAI's chat completions. Source: its API reference.

use rolecall::answer::{Chunks, Completion};
use rolecall::conversation::json::{self, Object};
use rolecall::conversation::{Json, object};
use rolecall::{Event, Request};

use super::effort::Effort;
use crate::clock::{now, random};
use crate::gateway::Gateway;
use crate::reply::token_odds::TokenOdds;
use crate::reply::writer::{Done, Frames, Opening, ReplyWriter, WholeReply};
use crate::request::chat_request::ChatRequest;
use crate::{Fault, FaultCode};

/// The name of the level of reasoning.
const EFFORT: &str = "reasoning_effort";

/// Reads a request.
pub fn read(gateway: &Gateway, body: &str) -> Result<(ChatRequest, Box<dyn ReplyWriter>), Fault> {
    refuse_functions(body)?;
    let mut request = Request::from_text(body)?;
    if let Some(level) = request.other.remove(EFFORT).filter(|level| !level.is_null()) {
        let level = level.as_str();
        let level =
            level.ok_or_else(|| Fault::at(EFFORT, FaultCode::WrongType, format!("{EFFORT}: expected a text")))?;
        let model = &gateway.model(request.other.get("model"))?.model;
        Effort::read(level, EFFORT)?.add_to(model, EFFORT, &mut request.conversation.template_kwargs)?;
    }
    let wanted = ChatRequest::read(gateway, request)?;
    let completion =
        Completion { id: format!("chatcmpl-{:016x}", random()), model: wanted.served.name.clone(), created: now() };
    let chunks = vec![Chunks::new(completion.clone()); wanted.choices];
    let has_usage = wanted.has_usage;
    let odds = wanted.logprobs.map(|_| vec![Vec::new(); wanted.choices]);
    Ok((wanted, Box::new(ChatWriter { completion, chunks, has_usage, odds })))
}

/// Refuses OpenAI's first form of tools: a client that sends it reads no `tool_calls`.
fn refuse_functions(body: &str) -> Result<(), Fault> {
    let has_functions =
        || json::parse(body).is_ok_and(|body| body.as_object().is_some_and(|body| body.get("functions").is_some()));
    if body.contains(r#""functions""#) && has_functions() {
        let help = Some("send `tools`: the reply has `tool_calls`".into());
        return Err(Fault { help, ..Fault::unsupported("functions") });
    }
    Ok(())
}

/// Writes chat completions.
struct ChatWriter {
    completion: Completion,
    /// By choice.
    chunks: Vec<Chunks>,
    has_usage: bool,
    /// By choice, how likely the tokens were that no chunk has yet. `None` if nobody asked.
    odds: Option<Vec<Vec<Json>>>,
}

impl ReplyWriter for ChatWriter {
    fn begin(&mut self, opening: &Opening<'_>, _: &mut Frames) {
        for chunks in &mut self.chunks {
            *chunks = chunks.clone().holding_calls(opening.holds_calls);
        }
    }

    fn event(&mut self, choice: usize, event: &Event<'_>, out: &mut Frames) {
        let Some(chunks) = self.chunks.get_mut(choice) else { return };
        for mut chunk in chunks.of_event(event) {
            set_index(&mut chunk, choice);
            if let Some(odds) = self.odds.as_mut().and_then(|odds| odds.get_mut(choice)).filter(|odds| !odds.is_empty())
            {
                set_odds(&mut chunk, std::mem::take(odds));
            }
            out.data(&chunk);
        }
    }

    fn odds(&mut self, choice: usize, odds: &TokenOdds) {
        if let Some(waiting) = self.odds.as_mut().and_then(|waiting| waiting.get_mut(choice)) {
            waiting.push(odds.to_json());
        }
    }

    fn end(&mut self, done: &Done<'_>, out: &mut Frames) {
        if let (true, Some(chunks)) = (self.has_usage, self.chunks.first()) {
            out.data(&chunks.of_usage(done.usage.to_json()));
        }
        out.done();
    }

    fn whole(&mut self, done: &Done<'_>) -> Json {
        let of = |(choice, said): (usize, &WholeReply)| {
            let mut value = self.completion.of_reading(&said.reading);
            set_index(&mut value, choice);
            if self.odds.is_some() {
                set_odds(&mut value, said.odds.iter().map(TokenOdds::to_json).collect());
            }
            value
        };
        let mut values = done.said.iter().enumerate().map(of);
        let mut whole = values.next().unwrap_or(Json::Null);
        let Json::Object(completion) = &mut whole else { return whole };
        for value in values {
            if let (Some(Json::Array(choices)), Json::Object(mut value)) = (completion.get_mut("choices"), value)
                && let Some(Json::Array(more)) = value.remove("choices")
            {
                choices.extend(more);
            }
        }
        completion.insert("usage", done.usage.to_json());
        whole
    }
}

/// Sets the index of the only choice.
fn set_index(value: &mut Json, index: usize) {
    if let (Some(choice), 1..) = (choice_of(value), index) {
        choice.insert("index", Json::from(index as i64));
    }
}

/// Sets how likely the tokens of the only choice were.
fn set_odds(value: &mut Json, odds: Vec<Json>) {
    if let Some(choice) = choice_of(value) {
        choice.insert("logprobs", object! { "content" => odds, "refusal" => Json::Null }.into());
    }
}

fn choice_of(value: &mut Json) -> Option<&mut Object> {
    let Json::Object(value) = value else { return None };
    match value.get_mut("choices") {
        Some(Json::Array(choices)) => match choices.first_mut() {
            Some(Json::Object(choice)) => Some(choice),
            _ => None,
        },
        _ => None,
    }
}
