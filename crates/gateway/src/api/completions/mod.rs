//! OpenAI's older completions, which continue a text. Source: its API reference, and the types in its
//! Python SDK, version 3.57.
//!
//! No template is applied: this is what LMDeploy calls the capability `completion`. `prompt` reads the
//! prompts, and `answer` writes the answer, in which `likely` has the log probabilities.
//!
//! - A prompt that is a text is ordinary text: what spells a control token stays text, and the header
//!   `x-rolecall-as-text` names it. With `reference_encoding`, it is that token, as in the tokenizer's reference. The
//!   token comes before the text that the tokenizer puts before every text, unless `add_special_tokens` is false.
//! - A prompt of ids is sent as it is.
//! - `logprobs` is about the tokens of the reply's text. The offset of a token is the number of characters of
//!   the text before it. Engines are not asked for the log probabilities of a prompt.
//! - Control tokens in replies are left out of the text, unless `skip_special_tokens` is false. Both
//!   names and both defaults are those of the engines' own servers.

mod answer;
mod likely;
mod prompt;

use std::sync::Arc;

use rolecall::conversation::Json;
use rolecall::conversation::json::{self, Object};

use crate::gateway::Gateway;
use crate::reply::writer::ReplyWriter;
use crate::request::by_text;
use crate::request::chat_request::{check_usage, choices, likely_tokens, usage};
use crate::request::completing::CompletionRequest;
use crate::request::labels::{LABELS, check_label};
use crate::request::neutral::is_neutral;
use crate::request::number;
use crate::request::sampling::{SETTINGS, Sampling};
use crate::request::texts::TextEncoding;
use crate::turn::context::Bound;
use crate::{Fault, FaultCode};
use answer::CompletionWriter;
use likely::Likely;
use prompt::Prompts;

/// The most replies of an answer.
const MOST_REPLIES: usize = 128;

/// The most likely tokens that OpenAI's API reports at most.
const MOST_LOGPROBS: u32 = 5;

/// Reads a request.
pub fn read(gateway: &Gateway, body: &str) -> Result<(CompletionRequest, Box<dyn ReplyWriter>), Fault> {
    let value = json::parse_unique(body).map_err(rolecall::request::Error::from)?;
    let Json::Object(body) = value else {
        return Err(Fault::new(FaultCode::WrongType, "expected a JSON object"));
    };
    let served = Arc::clone(gateway.model(body.get("model"))?);
    let (mut sampling, mut applied) = Sampling::read(&body, &served.model)?;
    let mut wishes = Wishes { choices: 1, has_bos: true, skips_markers: true, ..Wishes::default() };
    for (key, value) in body.iter().filter(|(_, value)| !value.is_null()) {
        wishes.set(key, value)?;
    }
    if wishes.is_echoed && wishes.logprobs.is_some() {
        let message = "logprobs: not supported together with `echo`: the engine is not asked about the prompt";
        let help = Some("leave one of the two out".into());
        return Err(Fault { help, ..Fault::at("logprobs", FaultCode::Conflict, message) });
    }
    if served.engine.kind().is_by_text() {
        by_text::restrict_sampling(&mut sampling, &mut applied)?;
        let chosen = [
            ("add_special_tokens", !wishes.has_bos),
            ("skip_special_tokens", !wishes.skips_markers),
            ("logprobs", wishes.logprobs.is_some()),
        ];
        if let Some((name, _)) = chosen.iter().find(|(_, is_set)| *is_set) {
            return Err(by_text::unsupported(name));
        }
    }
    check_usage(wishes.has_usage, wishes.is_streamed)?;
    // More replies than are returned would have to be ranked.
    let best = body.get("best_of").filter(|best| !best.is_null());
    if best.is_some_and(|best| number::integer(best) != Some(wishes.choices as i64)) {
        return Err(Fault::unsupported("best_of"));
    }
    let how = TextEncoding { has_bos: wishes.has_bos, is_reference: wishes.is_reference };
    let prompts = Prompts::read(&body, &served, how, Bound::of(&served, &gateway.limits))?;
    if prompts.ids.len().saturating_mul(wishes.choices) > MOST_REPLIES {
        let message = format!(
            "prompt: {} prompts with {} replies each, and at most {MOST_REPLIES} replies are allowed",
            prompts.ids.len(),
            wishes.choices
        );
        return Err(Fault::at("prompt", FaultCode::TooManyPrompts, message));
    }
    let echoes = if wishes.is_echoed { prompts.texts(&served)? } else { vec![String::new(); prompts.ids.len()] };
    let likely = wishes.logprobs.map(|most| vec![Likely::new(most); prompts.ids.len() * wishes.choices]);
    let writer = CompletionWriter::new(&served.name, echoes, wishes.choices, wishes.has_usage, likely);
    let texts = prompts.for_engine(&served)?;
    // An engine by text encodes the text itself.
    let is_text = !wishes.is_reference && !served.engine.kind().is_by_text();
    let as_text = if is_text { prompts.spelled(&served)? } else { Vec::new() };
    let completing = CompletionRequest {
        served,
        prompts: prompts.ids,
        texts,
        as_text,
        sampling,
        applied,
        choices: wishes.choices,
        skips_markers: wishes.skips_markers,
        logprobs: wishes.logprobs,
        is_streamed: wishes.is_streamed,
    };
    Ok((completing, Box::new(writer)))
}

/// What a request says about the answer.
#[derive(Default)]
struct Wishes {
    choices: usize,
    has_bos: bool,
    is_reference: bool,
    skips_markers: bool,
    is_echoed: bool,
    /// The number of most likely tokens.
    logprobs: Option<u32>,
    is_streamed: bool,
    has_usage: bool,
}

impl Wishes {
    fn set(&mut self, key: &str, value: &Json) -> Result<(), Fault> {
        let flag = || {
            value
                .as_bool()
                .ok_or_else(|| Fault::at(key, FaultCode::WrongType, format!("{key}: expected true or false")))
        };
        match key {
            "model" | "prompt" | "best_of" => {}
            "n" => self.choices = choices(value)?,
            "stream" => self.is_streamed = flag()?,
            "stream_options" => self.has_usage = usage(value)?,
            "echo" => self.is_echoed = flag()?,
            "logprobs" => self.logprobs = Some(likely_tokens(key, value, MOST_LOGPROBS)?),
            "add_special_tokens" => self.has_bos = flag()?,
            "reference_encoding" => self.is_reference = flag()?,
            "skip_special_tokens" => self.skips_markers = flag()?,
            key if is_neutral(key, value)? => {}
            // LMDeploy's completions have both names for the most tokens of a reply.
            key if SETTINGS.contains(&key) => {}
            key if LABELS.contains(&key) => check_label(key, value)?,
            key => return Err(Fault::unsupported(key)),
        }
        Ok(())
    }
}

/// Returns the error for a prompt.
fn wrong(why: &str) -> Fault {
    Fault::at("prompt", FaultCode::WrongValue, format!("prompt: {why}"))
}

/// Returns the value of a field that must be there.
fn needed<'a>(body: &'a Object, key: &str) -> Result<&'a Json, Fault> {
    let value = body.get(key).filter(|value| !value.is_null());
    value.ok_or_else(|| Fault::at(key, FaultCode::MissingField, format!("{key}: this field is needed")))
}
