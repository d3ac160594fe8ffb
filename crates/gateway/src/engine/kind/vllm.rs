//! vLLM, `/v1/completions` with `return_token_ids`. The engine itself was not run. Sources: vLLM's
//! documentation of its server and of structured outputs, and its `entrypoints/openai/completion`.
//!
//! - `logprobs` with `return_tokens_as_token_ids` names tokens as `token_id:5`. The most likely tokens are
//!   an object, in which the sampled token is one more.
//! - A grammar is a structural tag, as a text, in `structured_outputs`. It begins with the reply's first
//!   token. So the server must run without `--reasoning-parser`, with which grammars begin after the
//!   reasoning.

use rolecall::conversation::Json;
use rolecall::conversation::json::Object;
use rolecall::conversation::object;
use rolecall::grammar::{Grammar, Note};

use crate::Fault;
use crate::engine::about::{ContextSource, Page};
use crate::engine::fields::{biases_by_id, count, given, ids, inner, json_ids, set, set_shared, text, whole};
use crate::engine::generating::Sofar;
use crate::engine::trouble::Trouble;
use crate::engine::wire::Wire;
use crate::engine::{Ask, End, EnginePiece, EngineShape, Odds, Word};
use crate::request::number::{self, of_double};

pub(super) struct Vllm;

impl Wire for Vllm {
    fn path(&self) -> &'static str {
        "/v1/completions"
    }

    fn ids_key(&self) -> Option<&'static str> {
        Some("prompt")
    }

    fn needs_room(&self) -> bool {
        true
    }

    fn counts_last(&self) -> bool {
        true
    }

    fn shape(&self, grammar: &Grammar) -> Result<(EngineShape, Vec<Note>), Fault> {
        Ok(EngineShape::structural_tag(grammar))
    }

    fn pages(&self) -> &'static [Page] {
        &[Page {
            paths: &["/version"],
            context: ContextSource::No,
            read: |page, about| about.build = text(page, "version").map(str::to_owned),
        }]
    }

    fn refuses_unknown_models(&self) -> bool {
        true
    }

    fn body(&self, ask: &Ask, room: Option<u64>) -> Object {
        let sampling = &ask.sampling;
        let mut body = object! {
            "stream" => true, "return_token_ids" => true,
            "skip_special_tokens" => false, "stop_token_ids" => json_ids(&ask.stop_ids),
            "stream_options" => object! { "include_usage" => true, "continuous_usage_stats" => true },
        };
        // Its own default is 16, also for null.
        set(&mut body, "max_tokens", whole(sampling.max_tokens.or(room)));
        set_shared(&mut body, sampling);
        set(&mut body, "top_k", whole(sampling.top_k));
        set(&mut body, "repetition_penalty", sampling.repetition_penalty.map(of_double));
        set(&mut body, "seed", whole(sampling.seed));
        set(&mut body, "logit_bias", biases_by_id(sampling));
        if let Some(most) = ask.logprobs {
            body.insert("logprobs", i64::from(most).into());
            body.insert("return_tokens_as_token_ids", true.into());
        }
        if let Some(EngineShape::StructuralTag(tag)) = &ask.shape {
            body.insert("structured_outputs", object! { "structural_tag" => tag.as_str() }.into());
        }
        body
    }

    fn piece(&self, frame: &Object, sofar: &Sofar) -> Result<EnginePiece, Trouble> {
        let details = inner(frame, "usage").and_then(|usage| inner(usage, "prompt_tokens_details"));
        let cached = details.and_then(|details| count(details, "cached_tokens"));
        let choices = frame.get("choices").and_then(Json::as_array).ok_or(Trouble::Broken)?;
        let Some(choice) = choices.first() else { return Ok(EnginePiece { cached, ..EnginePiece::default() }) };
        let choice = choice.as_object().ok_or(Trouble::Broken)?;
        let (ids, odds) = sampled(choice, sofar).ok_or(Trouble::Broken)?;
        let end =
            match given(choice, "finish_reason").map(|reason| reason.as_str().ok_or(Trouble::Broken)).transpose()? {
                None => None,
                Some("stop") => Some(End::Stop),
                Some("length") => Some(End::Length),
                Some(other) => return Err(Trouble::aborted(text(choice, "stop_reason").or(Some(other)))),
            };
        Ok(EnginePiece { ids, odds, end, cached, ..EnginePiece::default() })
    }
}

fn sampled(choice: &Object, sofar: &Sofar) -> Option<(Vec<u32>, Vec<Odds>)> {
    // The last frame may have none.
    let ids = given(choice, "token_ids").map_or(Some(Vec::new()), ids)?;
    let Some(most) = sofar.logprobs.filter(|_| !ids.is_empty()) else { return Some((ids, Vec::new())) };
    let logprobs = inner(choice, "logprobs")?;
    let each = logprobs.get("token_logprobs")?.as_array()?;
    let tops = logprobs.get("top_logprobs")?.as_array()?;
    let odds = ids.iter().zip(each.iter().zip(tops)).map(|(id, (logprob, top))| {
        let top = top.as_object().map_or(Some(Vec::new()), |top| top.iter().map(likely).collect())?;
        Some(Odds::new(Word::Id(*id), number::double(logprob), top, most))
    });
    let odds = odds.collect::<Option<Vec<Odds>>>()?;
    (odds.len() == ids.len()).then_some((ids, odds))
}

fn likely((token, logprob): (&str, &Json)) -> Option<(Word, f64)> {
    Some((Word::Id(token.strip_prefix("token_id:")?.parse().ok()?), number::double(logprob)?))
}
