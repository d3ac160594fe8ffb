use rolecall::answer::of_reading;
use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, object};
use rolecall::{Event, Reading, Stop};

use crate::Fault;
use crate::reply::usage::{Usage, whole};
use crate::reply::writer::{Done, Frames, Opening, ReplyWriter};
use crate::turn::context::Excess;

/// Writes a value in each line, with what is new since the line before.
#[derive(Default)]
pub struct LineWriter {
    usage: Usage,
}

impl LineWriter {
    fn line(&self, text: &str, reason: Json) -> Object {
        line(text, &self.usage, reason)
    }
}

impl ReplyWriter for LineWriter {
    fn begin(&mut self, opening: &Opening<'_>, _: &mut Frames) {
        self.usage = opening.usage.clone();
    }

    fn count(&mut self, _: usize, ids: u64) {
        self.usage.reply = ids;
    }

    fn event(&mut self, _: usize, event: &Event<'_>, out: &mut Frames) {
        match event {
            Event::Content(text) => out.line(&self.line(text, Json::Null).into()),
            Event::Reasoning(text) => {
                let mut line = self.line("", Json::Null);
                line.insert("reasoning_content", (*text).into());
                out.line(&line.into());
            }
            _ => {}
        }
    }

    fn end(&mut self, done: &Done<'_>, out: &mut Frames) {
        let Some(said) = done.said.first() else { return };
        let mut line = line("", done.usage, reason(&said.reading));
        add_calls(&mut line, &said.reading);
        out.line(&line.into());
    }

    fn fault(&mut self, fault: &Fault, out: &mut Frames) {
        out.line(&fault.to_json());
    }

    fn whole(&mut self, done: &Done<'_>) -> Json {
        let Some(said) = done.said.first() else { return nothing("stop".into()) };
        let mut answer = line(&said.reading.content, done.usage, reason(&said.reading));
        if let Some(reasoning) = &said.reading.reasoning {
            answer.insert("reasoning_content", reasoning.as_str().into());
        }
        add_calls(&mut answer, &said.reading);
        answer.into()
    }
}

/// Returns the answer to a request that asks for no reply.
pub fn nothing(reason: Json) -> Json {
    line("", &Usage::default(), reason).into()
}

/// Returns the answer to a conversation that is too long. Its input is all of it, as far as it was counted.
pub fn too_long(excess: Excess) -> Json {
    line("", &Usage { prompt: excess.tokens, ..Usage::default() }, "length".into()).into()
}

/// Returns an answer or a part of it. What the conversation had before is not part of its input.
fn line(text: &str, usage: &Usage, reason: Json) -> Object {
    object! {
        "text" => text, "tokens" => whole(usage.reply),
        "input_tokens" => whole(usage.prompt.saturating_sub(usage.kept)), "history_tokens" => whole(usage.kept),
        "finish_reason" => reason,
    }
}

fn reason(reading: &Reading) -> Json {
    if reading.stop == Some(Stop::Length) { "length" } else { "stop" }.into()
}

fn add_calls(answer: &mut Object, reading: &Reading) {
    if let (false, Json::Object(of)) = (reading.calls.is_empty(), of_reading(None, reading))
        && let Some(calls) = of.get("message").and_then(Json::as_object).and_then(|message| message.get("tool_calls"))
    {
        answer.insert("tool_calls", calls.clone());
    }
}
