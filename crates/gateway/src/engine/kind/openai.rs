//! Any engine with OpenAI's older completions, `/v1/completions`, by text. Sources: OpenAI's API reference,
//! and the README of llama.cpp's server, whose endpoint the tests of wire formats were compared with.
//!
//! Only OpenAI's own fields are sent.
//!
//! - The engine encodes the text itself. So a control token that a message spells is one to the engine,
//!   and what the engine's tokenizer puts before every text is there, whatever the template writes.
//! - The reply is text, too. Many engines leave control tokens out of it. Calls whose markers are such
//!   tokens cannot be read then.
//! - The engine does not say which stop text ended the reply.
//! - Ids are counted in the usage. OpenAI sends it in a frame after the end of the reply, without choices.
//!   llama.cpp's server sends it with the end. If an engine sends none, each frame with text counts as one
//!   id.

use rolecall::conversation::Json;
use rolecall::conversation::json::Object;
use rolecall::conversation::object;

use crate::engine::fields::{count, given, inner, set, text, whole};
use crate::engine::generating::Sofar;
use crate::engine::trouble::Trouble;
use crate::engine::wire::Wire;
use crate::engine::{Ask, End, EnginePiece};
use crate::request::number::of_double;

pub(super) struct OpenAi;

impl Wire for OpenAi {
    fn path(&self) -> &'static str {
        "/v1/completions"
    }

    fn needs_room(&self) -> bool {
        true
    }

    fn counts_last(&self) -> bool {
        true
    }

    fn refuses_unknown_models(&self) -> bool {
        true
    }

    fn body(&self, ask: &Ask, room: Option<u64>) -> Object {
        let sampling = &ask.sampling;
        let mut body = object! {
            "prompt" => ask.text.as_deref().unwrap_or_default(), "stream" => true,
            "stream_options" => object! { "include_usage" => true },
        };
        // OpenAI's own default is 16, and vLLM's too, also for null. Most other engines take null for no limit.
        body.insert("max_tokens", whole(sampling.max_tokens.or(room)).map_or(Json::Null, Json::from));
        let stops: Vec<Json> = ask.stop_texts.iter().map(|stop| Json::from(stop.as_str())).collect();
        set(&mut body, "stop", (!stops.is_empty()).then_some(stops));
        set(&mut body, "temperature", sampling.temperature.map(of_double));
        set(&mut body, "top_p", sampling.top_p.map(of_double));
        set(&mut body, "presence_penalty", sampling.presence_penalty.map(of_double));
        set(&mut body, "frequency_penalty", sampling.frequency_penalty.map(of_double));
        set(&mut body, "seed", whole(sampling.seed));
        body
    }

    fn piece(&self, frame: &Object, _: &Sofar) -> Result<EnginePiece, Trouble> {
        let usage = inner(frame, "usage");
        let counted = usage.and_then(|usage| count(usage, "completion_tokens"));
        let details = usage.and_then(|usage| inner(usage, "prompt_tokens_details"));
        let cached = details.and_then(|details| count(details, "cached_tokens"));
        let choices = frame.get("choices").and_then(Json::as_array).ok_or(Trouble::Broken)?;
        let Some(choice) = choices.first() else {
            return Ok(EnginePiece { counted, cached, ..EnginePiece::default() });
        };
        let choice = choice.as_object().ok_or(Trouble::Broken)?;
        let text = match given(choice, "text") {
            None => String::new(),
            Some(text) => text.as_str().ok_or(Trouble::Broken)?.to_owned(),
        };
        Ok(EnginePiece { text, end: end(choice)?, counted, cached, ..EnginePiece::default() })
    }
}

fn end(choice: &Object) -> Result<Option<End>, Trouble> {
    let Some(reason) = given(choice, "finish_reason") else { return Ok(None) };
    match reason.as_str() {
        Some("stop") => Ok(Some(End::Stop)),
        Some("length") => Ok(Some(End::Length)),
        Some(other) => Err(Trouble::aborted(text(choice, "stop_reason").or(Some(other)))),
        None => Err(Trouble::Broken),
    }
}
