//! llama.cpp's server, `/completion`. Source: the server's README, and its version of October 2026, which
//! the tests run.
//!
//! - It has no ids that end a reply. It ends by itself at the tokens that the model file names as ends,
//!   and [`EngineStream`](crate::engine::EngineStream) is dropped at all others. Its texts that end a reply (`stop`)
//!   are not used: they would also match where a model spells a control token with ordinary tokens.
//! - It keeps the ids back that leave a character incomplete, and no option makes it tell them while it
//!   streams: neither `n_probs` nor the last frame has them. [`Hidden`](crate::engine::hidden::Hidden) finds them.
//! - `n_probs` adds `completion_probabilities`. There, `logprob` is that of the softmax of the logits,
//!   before any setting of the sampler.
//! - A grammar is GBNF, in `grammar`.

use std::path::Path;

use rolecall::conversation::Json;
use rolecall::conversation::json::Object;
use rolecall::conversation::object;
use rolecall::grammar::{Grammar, Note};

use crate::Fault;
use crate::engine::about::{About, ContextSource, Page};
use crate::engine::fields::{count, given, ids, inner, set, set_shared, text, whole};
use crate::engine::generating::Sofar;
use crate::engine::model_choice::ModelChoice;
use crate::engine::trouble::Trouble;
use crate::engine::wire::Wire;
use crate::engine::{Ask, End, EnginePiece, EngineShape, Odds, Spoken, Word};
use crate::request::number::{self, of_double};

pub(super) struct LlamaCpp;

impl Wire for LlamaCpp {
    fn path(&self) -> &'static str {
        "/completion"
    }

    fn ids_key(&self) -> Option<&'static str> {
        Some("prompt")
    }

    fn hides_ids(&self) -> bool {
        true
    }

    fn shape(&self, grammar: &Grammar) -> Result<(EngineShape, Vec<Note>), Fault> {
        let printed = grammar.to_gbnf();
        Ok((EngineShape::Gbnf(printed.text), printed.notes))
    }

    fn pages(&self) -> &'static [Page] {
        &[Page { paths: &["/props"], context: ContextSource::Alone, read: read_props }]
    }

    fn adapters(&self) -> Option<&'static str> {
        Some("/lora-adapters")
    }

    fn adapter<'a>(&self, adapter: &'a Json) -> Option<(Vec<&'a str>, ModelChoice)> {
        let adapter = adapter.as_object()?;
        let path = Path::new(text(adapter, "path")?);
        let names = [path.file_stem(), path.file_name(), Some(path.as_os_str())];
        let names = names.into_iter().flatten().filter_map(|name| name.to_str()).collect();
        let id = i64::try_from(count(adapter, "id")?).ok()?;
        let chosen = object! { "id" => id, "scale" => 1_i64 };
        Some((names, ModelChoice::by("lora", vec![Json::from(chosen)])))
    }

    fn body(&self, ask: &Ask, _: Option<u64>) -> Object {
        let sampling = &ask.sampling;
        let mut body = object! { "stream" => true, "return_tokens" => true, "cache_prompt" => true };
        set(&mut body, "n_predict", whole(sampling.max_tokens));
        set_shared(&mut body, sampling);
        set(&mut body, "top_k", whole(sampling.top_k));
        set(&mut body, "repeat_penalty", sampling.repetition_penalty.map(of_double));
        // Its seeds have 32 bits, of which the largest means any.
        set(&mut body, "seed", whole(sampling.seed.map(|seed| seed % u64::from(u32::MAX))));
        let bias = |(id, bias): &(u32, f64)| Json::Array(vec![i64::from(*id).into(), of_double(*bias)]);
        let biases: Vec<Json> = sampling.logit_bias.iter().map(bias).collect();
        set(&mut body, "logit_bias", (!biases.is_empty()).then_some(biases));
        // With 0, it reports none at all.
        set(&mut body, "n_probs", ask.logprobs.map(|most| i64::from(most.max(1))));
        if let Some(EngineShape::Gbnf(grammar)) = &ask.shape {
            body.insert("grammar", grammar.as_str().into());
        }
        body
    }

    /// Reads a frame. The server sends nothing while a character is incomplete, and then only the last of its
    /// ids, with the text of all of them.
    fn piece(&self, frame: &Object, sofar: &Sofar) -> Result<EnginePiece, Trouble> {
        let mut piece = sampled(frame, sofar).ok_or(Trouble::Broken)?;
        if frame.get("stop").and_then(Json::as_bool) != Some(true) {
            return Ok(piece);
        }
        piece.end = match text(frame, "stop_type") {
            Some("eos" | "word") => Some(End::Stop),
            Some("limit") => Some(End::Length),
            Some(_) => return Err(Trouble::aborted(None)),
            None => return Err(Trouble::Broken),
        };
        piece.cached = inner(frame, "timings").and_then(|timings| count(timings, "cache_n"));
        Ok(piece)
    }
}

fn read_props(props: &Object, about: &mut About) {
    let settings = inner(props, "default_generation_settings");
    about.context = settings.and_then(|settings| count(settings, "n_ctx"));
    about.slots = count(props, "total_slots");
    about.build = text(props, "build_info").map(str::to_owned);
}

fn sampled(frame: &Object, sofar: &Sofar) -> Option<EnginePiece> {
    let ids = frame.get("tokens").map_or(Some(Vec::new()), ids)?;
    let odds = match sofar.logprobs {
        Some(most) if !ids.is_empty() => odds(frame, most)?,
        _ => Vec::new(),
    };
    let total = count(frame, "tokens_predicted").and_then(|total| usize::try_from(total).ok());
    let missing = total.map_or(0, |total| total.saturating_sub(sofar.count + ids.len()));
    if missing == 0 {
        return Some(EnginePiece { ids, odds, ..EnginePiece::default() });
    }
    let last = ids.last().copied();
    let spoken = Spoken { text: text(frame, "content")?.to_owned(), count: missing + ids.len(), last };
    Some(EnginePiece { odds, spoken: Some(spoken), ..EnginePiece::default() })
}

fn odds(frame: &Object, most: u32) -> Option<Vec<Odds>> {
    let each = given(frame, "completion_probabilities")?.as_array()?.iter();
    each.map(|token| {
        let token = token.as_object()?;
        let top = token.get("top_logprobs")?.as_array()?.iter().filter_map(|likely| {
            let likely = likely.as_object()?;
            Some((Word::Id(number::id(likely.get("id")?)?), number::double(likely.get("logprob")?)?))
        });
        let word = Word::Id(number::id(token.get("id")?)?);
        Some(Odds::new(word, token.get("logprob").and_then(number::double), top.collect(), most))
    })
    .collect()
}
