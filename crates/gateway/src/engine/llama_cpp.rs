//! llama.cpp's server, `/completion`. Source: the server's README, and version 2026.10 of it.

use rolecall::conversation::Json;
use rolecall::conversation::json::Object;
use rolecall::conversation::object;

use super::{Ask, End, Piece, Spoken, count, ids, json_ids, set, set_shared, whole};
use crate::number::of_double;

pub(super) fn body(ask: &Ask) -> Object {
    let sampling = &ask.sampling;
    let mut body = object! {
        "prompt" => json_ids(&ask.ids), "stream" => true, "return_tokens" => true, "cache_prompt" => true,
    };
    set(&mut body, "n_predict", whole(sampling.max_tokens));
    set_shared(&mut body, sampling);
    set(&mut body, "top_k", whole(sampling.top_k));
    set(&mut body, "repeat_penalty", sampling.repetition_penalty.map(of_double));
    // Its seeds have 32 bits, of which the largest means any.
    set(&mut body, "seed", whole(sampling.seed.map(|seed| seed % u64::from(u32::MAX))));
    let bias = |(id, bias): &(u32, f64)| Json::Array(vec![i64::from(*id).into(), of_double(*bias)]);
    let biases: Vec<Json> = sampling.logit_bias.iter().map(bias).collect();
    set(&mut body, "logit_bias", (!biases.is_empty()).then_some(biases));
    set(&mut body, "grammar", ask.gbnf.as_deref());
    body
}

/// Reads a frame after `before` ids. The server sends nothing while a character is incomplete, and then
/// only the last of its ids, with the text of all of them.
pub(super) fn piece(frame: &Object, before: usize) -> Option<Piece> {
    let ids = match frame.get("tokens") {
        None => Vec::new(),
        tokens => ids(tokens)?,
    };
    let total = count(frame, "tokens_predicted").and_then(|total| usize::try_from(total).ok());
    let missing = total.map_or(0, |total| total.saturating_sub(before + ids.len()));
    let mut piece = Piece { ids, ..Piece::default() };
    if missing > 0 {
        let text = frame.get("content").and_then(Json::as_str)?.to_owned();
        piece.spoken = Some(Spoken { text, count: missing + piece.ids.len() });
        piece.ids.clear();
    }
    if frame.get("stop").and_then(Json::as_bool) != Some(true) {
        return Some(piece);
    }
    let end = match frame.get("stop_type").and_then(Json::as_str)? {
        "eos" | "word" => End::Stop,
        "limit" => End::Length,
        _ => End::Abort,
    };
    let cached = frame.get("timings").and_then(Json::as_object).and_then(|timings| count(timings, "cache_n"));
    Some(Piece { end: Some(end), cached, ..piece })
}
