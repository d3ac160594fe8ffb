use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, object};
use rolecall::{Event, Stop};

use super::blocks::{Blocks, Mode};
use super::fault::shape;
use super::history::Sources;
use crate::Fault;
use crate::clock::random;
use crate::reply::usage::{Usage, whole};
use crate::reply::writer::{Done, Frames, Opening, ReplyWriter};

/// Writes messages.
pub struct MessageWriter {
    id: String,
    model: String,
    sources: Sources,
    blocks: Blocks,
}

impl MessageWriter {
    pub fn new(model: &str, sources: Sources, blocks: Blocks) -> MessageWriter {
        let id = format!("msg_{:016x}{:016x}", random(), random());
        MessageWriter { id, model: model.to_owned(), sources, blocks }
    }

    fn message(&self, content: Vec<Json>, end: Object, usage: Object) -> Json {
        let mut message = object! {
            "id" => self.id.as_str(), "type" => "message", "role" => "assistant", "model" => self.model.as_str(),
            "content" => content,
        };
        end.iter().for_each(|(key, value)| message.insert(key, value.clone()));
        message.insert("usage", usage.into());
        message.into()
    }
}

impl ReplyWriter for MessageWriter {
    fn placed(&self, fault: Fault) -> Fault {
        self.sources.placed(fault)
    }

    fn begin(&mut self, opening: &Opening<'_>, out: &mut Frames) {
        self.blocks.mode = if opening.holds_calls { Mode::HoldingCalls } else { Mode::Streamed };
        let end = object! { "stop_reason" => Json::Null, "stop_sequence" => Json::Null };
        let message = self.message(Vec::new(), end, usage_of(opening.usage));
        out.named("message_start", &object! { "type" => "message_start", "message" => message }.into());
        out.named("ping", &object! { "type" => "ping" }.into());
    }

    fn event(&mut self, _: usize, event: &Event<'_>, out: &mut Frames) {
        self.blocks.take(event, out);
    }

    fn end(&mut self, done: &Done<'_>, out: &mut Frames) {
        self.blocks.close(out);
        let delta = object! { "type" => "message_delta", "delta" => end_of(done), "usage" => usage_of(done.usage) };
        out.named("message_delta", &delta.into());
        out.named("message_stop", &object! { "type" => "message_stop" }.into());
    }

    fn fault(&mut self, fault: &Fault, out: &mut Frames) {
        out.named("error", &shape(fault, None));
    }

    fn whole(&mut self, done: &Done<'_>) -> Json {
        self.blocks.close(&mut Frames::default());
        let content = std::mem::take(&mut self.blocks.finished);
        self.message(content, end_of(done), usage_of(done.usage))
    }
}

/// Returns why the reply ended.
fn end_of(done: &Done<'_>) -> Object {
    let said = done.said.first();
    let text = said.and_then(|said| said.stop_text.as_deref());
    let stop = said.and_then(|said| said.reading.stop);
    let reason = match (stop, text) {
        (Some(Stop::Length), _) => "max_tokens",
        (_, Some(_)) => "stop_sequence",
        _ if said.is_some_and(|said| !said.reading.calls.is_empty()) => "tool_use",
        _ => "end_turn",
    };
    object! { "stop_reason" => reason, "stop_sequence" => text.map_or(Json::Null, Json::from) }
}

/// Returns the usage. What the engine already had is not among the ids of the input.
fn usage_of(usage: &Usage) -> Object {
    let cached = usage.cached.unwrap_or(0);
    object! {
        "input_tokens" => whole(usage.prompt.saturating_sub(cached)),
        "cache_creation_input_tokens" => 0,
        "cache_read_input_tokens" => whole(cached),
        "output_tokens" => whole(usage.reply),
        "output_tokens_details" => object! { "thinking_tokens" => whole(usage.reasoning) },
        "kept_tokens" => whole(usage.kept),
    }
}
