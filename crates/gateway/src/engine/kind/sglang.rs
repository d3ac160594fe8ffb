//! SGLang, `/generate`. The engine itself was not run. Sources: its documentation of the native API, of
//! sampling parameters and of structured outputs, and `managers/tokenizer_manager.py` for the frames.
//!
//! - Each frame has everything so far, unless the server runs with `--incremental-streaming-output`. That
//!   option is better for long replies.
//! - `return_logprob` adds lists of `[logprob, id, text]` to `meta_info`. They are as long as the ids, or
//!   all so far.
//! - A grammar is a structural tag, as a text, among the sampling parameters.
//! - A reply that is given up ends with the reason `abort`, with a message and a status.

use rolecall::conversation::Json;
use rolecall::conversation::json::Object;
use rolecall::conversation::object;
use rolecall::grammar::{Grammar, Note};

use crate::Fault;
use crate::engine::about::{About, ContextSource, Page};
use crate::engine::fields::{biases_by_id, count, given, ids, json_ids, set, set_shared, text, whole};
use crate::engine::generating::Sofar;
use crate::engine::model_choice::ModelChoice;
use crate::engine::trouble::Trouble;
use crate::engine::wire::Wire;
use crate::engine::{Ask, End, EnginePiece, EngineShape, Odds, Word};
use crate::request::number::{self, of_double};

pub(super) struct Sglang;

impl Wire for Sglang {
    fn path(&self) -> &'static str {
        "/generate"
    }

    fn ids_key(&self) -> Option<&'static str> {
        Some("input_ids")
    }

    fn shape(&self, grammar: &Grammar) -> Result<(EngineShape, Vec<Note>), Fault> {
        Ok(EngineShape::structural_tag(grammar))
    }

    fn pages(&self) -> &'static [Page] {
        &[Page { paths: &["/server_info", "/get_server_info"], context: ContextSource::AfterModels, read: read_info }]
    }

    fn choose(&self, name: &str, card: &Object) -> ModelChoice {
        match given(card, "parent") {
            Some(_) => ModelChoice::by("lora_path", name),
            None => ModelChoice::default(),
        }
    }

    fn body(&self, ask: &Ask, _: Option<u64>) -> Object {
        let sampling = &ask.sampling;
        let mut params = object! { "stop_token_ids" => json_ids(&ask.stop_ids), "skip_special_tokens" => false };
        // Its own default is 128.
        params.insert("max_new_tokens", whole(sampling.max_tokens).map_or(Json::Null, Json::from));
        set_shared(&mut params, sampling);
        // 0 means all tokens elsewhere.
        set(&mut params, "top_k", whole(sampling.top_k).map(|top_k| if top_k == 0 { -1 } else { top_k }));
        set(&mut params, "repetition_penalty", sampling.repetition_penalty.map(of_double));
        set(&mut params, "sampling_seed", whole(sampling.seed));
        set(&mut params, "logit_bias", biases_by_id(sampling));
        if let Some(EngineShape::StructuralTag(tag)) = &ask.shape {
            params.insert("structural_tag", tag.as_str().into());
        }
        let mut body = object! { "sampling_params" => params, "stream" => true };
        if let Some(most) = ask.logprobs {
            body.insert("return_logprob", true.into());
            body.insert("top_logprobs_num", i64::from(most).into());
        }
        body
    }

    fn piece(&self, frame: &Object, sofar: &Sofar) -> Result<EnginePiece, Trouble> {
        let info = frame.get("meta_info").and_then(Json::as_object).ok_or(Trouble::Broken)?;
        let end = end(info)?;
        let ids = new_ids(frame, info, sofar.count).ok_or(Trouble::Broken)?;
        let odds = match sofar.logprobs {
            Some(most) if !ids.is_empty() => odds(info, &ids, most).ok_or(Trouble::Broken)?,
            _ => Vec::new(),
        };
        Ok(EnginePiece { ids, odds, end, cached: count(info, "cached_tokens"), ..EnginePiece::default() })
    }
}

fn read_info(info: &Object, about: &mut About) {
    about.build = text(info, "version").map(str::to_owned);
    about.slots = count(info, "max_running_requests");
    about.context = about.context.or(count(info, "context_length"));
}

fn end(info: &Object) -> Result<Option<End>, Trouble> {
    let Some(reason) = given(info, "finish_reason") else { return Ok(None) };
    let reason = reason.as_object().ok_or(Trouble::Broken)?;
    match text(reason, "type") {
        Some("stop") => Ok(Some(End::Stop)),
        Some("length") => Ok(Some(End::Length)),
        None => Err(Trouble::Broken),
        Some(_) => Err(Trouble::Aborted {
            why: text(reason, "message").map(str::to_owned),
            status: count(reason, "status_code").and_then(|status| u16::try_from(status).ok()),
        }),
    }
}

/// Returns the ids after the first `before`.
fn new_ids(frame: &Object, info: &Object, before: usize) -> Option<Vec<u32>> {
    let mut ids = given(frame, "output_ids").map_or(Some(Vec::new()), ids)?;
    let total = usize::try_from(count(info, "completion_tokens")?).ok()?;
    if ids.len() == total && total >= before {
        ids.drain(..before);
    } else if ids.len() + before != total {
        return None;
    }
    Some(ids)
}

/// Returns the odds of the new ids, which are the last in each list.
fn odds(info: &Object, new: &[u32], most: u32) -> Option<Vec<Odds>> {
    let last = |key: &str| {
        let all = info.get(key)?.as_array()?;
        all.get(all.len().checked_sub(new.len())?..)
    };
    let each = last("output_token_logprobs")?;
    let tops = if most == 0 { &[][..] } else { last("output_top_logprobs")? };
    let odds = new.iter().zip(each).enumerate().map(|(at, (id, token))| {
        let logprob = token.as_array()?.first().and_then(number::double);
        let top = tops.get(at).and_then(Json::as_array).unwrap_or_default();
        Some(Odds::new(Word::Id(*id), logprob, top.iter().map(likely).collect::<Option<Vec<_>>>()?, most))
    });
    odds.collect()
}

fn likely(token: &Json) -> Option<(Word, f64)> {
    match token.as_array()? {
        [logprob, id, ..] => Some((Word::Id(number::id(id)?), number::double(logprob)?)),
        _ => None,
    }
}
