//! vLLM, `/v1/completions` with `return_token_ids`. Source: its documentation of the server. The engine
//! itself was not run.

use rolecall::conversation::Json;
use rolecall::conversation::json::Object;
use rolecall::conversation::object;

use super::{Ask, End, Piece, biases_by_id, count, ids, json_ids, set, set_shared, whole};
use crate::number::of_double;

pub(super) fn body(ask: &Ask) -> Object {
    let sampling = &ask.sampling;
    let mut body = object! {
        "prompt" => json_ids(&ask.ids), "stream" => true, "return_token_ids" => true,
        "skip_special_tokens" => false, "stop_token_ids" => json_ids(&ask.stop_ids),
        "stream_options" => object! { "include_usage" => true, "continuous_usage_stats" => true },
    };
    set(&mut body, "model", ask.model.as_deref());
    // Its own default is 16.
    body.insert("max_tokens", whole(sampling.max_tokens).map_or(Json::Null, Json::from));
    set_shared(&mut body, sampling);
    set(&mut body, "top_k", whole(sampling.top_k));
    set(&mut body, "repetition_penalty", sampling.repetition_penalty.map(of_double));
    set(&mut body, "seed", whole(sampling.seed));
    set(&mut body, "logit_bias", biases_by_id(sampling));
    body
}

pub(super) fn piece(frame: &Object) -> Option<Piece> {
    let usage = frame.get("usage").and_then(Json::as_object);
    let details = usage.and_then(|usage| usage.get("prompt_tokens_details")).and_then(Json::as_object);
    let cached = details.and_then(|details| count(details, "cached_tokens"));
    let choices = frame.get("choices")?.as_array()?;
    let Some(choice) = choices.first() else { return Some(Piece { cached, ..Piece::default() }) };
    let choice = choice.as_object()?;
    let ids = match choice.get("token_ids") {
        // The last frame may have none.
        None | Some(Json::Null) => Vec::new(),
        tokens => ids(tokens)?,
    };
    let end = match choice.get("finish_reason").and_then(Json::as_str) {
        None => None,
        Some("stop") => Some(End::Stop),
        Some("length") => Some(End::Length),
        Some(_) => Some(End::Abort),
    };
    Some(Piece { ids, end, cached, ..Piece::default() })
}
