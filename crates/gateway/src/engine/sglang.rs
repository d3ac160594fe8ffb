//! SGLang, `/generate`. Source: its documentation of the native API and of sampling parameters. The
//! engine itself was not run.

use rolecall::conversation::Json;
use rolecall::conversation::json::Object;
use rolecall::conversation::object;

use super::{Ask, End, Piece, biases_by_id, count, ids, json_ids, set, set_shared, whole};
use crate::number::of_double;

pub(super) fn body(ask: &Ask) -> Object {
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
    object! { "input_ids" => json_ids(&ask.ids), "sampling_params" => params, "stream" => true }
}

/// Reads a frame after `before` ids. Its ids are all so far, or only the new ones, depending on how the
/// server was started.
pub(super) fn piece(frame: &Object, before: usize) -> Option<Piece> {
    let info = frame.get("meta_info")?.as_object()?;
    let mut ids = ids(frame.get("output_ids"))?;
    let total = usize::try_from(count(info, "completion_tokens")?).ok()?;
    if ids.len() == total && total >= before {
        ids.drain(..before);
    } else if ids.len() + before != total {
        return None;
    }
    let reason = info.get("finish_reason").filter(|reason| !reason.is_null());
    let end = match reason {
        None => None,
        Some(reason) => Some(match reason.as_object()?.get("type")?.as_str()? {
            "stop" => End::Stop,
            "length" => End::Length,
            _ => End::Abort,
        }),
    };
    Some(Piece { ids, end, cached: count(info, "cached_tokens"), ..Piece::default() })
}
