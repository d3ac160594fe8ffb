//! What the wire formats of engines share.

use rolecall::conversation::Json;
use rolecall::conversation::json::Object;

use crate::request::number::{self, of_double};
use crate::request::sampling::Sampling;

/// Reads ids. Returns `None` if an item is no id.
pub(super) fn ids(value: &Json) -> Option<Vec<u32>> {
    value.as_array()?.iter().map(number::id).collect()
}

/// Returns a value that is there and not null.
pub(super) fn given<'a>(object: &'a Object, key: &str) -> Option<&'a Json> {
    object.get(key).filter(|value| !value.is_null())
}

pub(super) fn count(object: &Object, key: &str) -> Option<u64> {
    number::count(object.get(key)?)
}

pub(super) fn text<'a>(object: &'a Object, key: &str) -> Option<&'a str> {
    object.get(key)?.as_str()
}

pub(super) fn inner<'a>(object: &'a Object, key: &str) -> Option<&'a Object> {
    object.get(key)?.as_object()
}

/// Adds what is set.
pub(super) fn set(object: &mut Object, key: &str, value: Option<impl Into<Json>>) {
    if let Some(value) = value {
        object.insert(key, value.into());
    }
}

/// Adds the settings that all engines have under the same names.
pub(super) fn set_shared(object: &mut Object, sampling: &Sampling) {
    set(object, "temperature", sampling.temperature.map(of_double));
    set(object, "top_p", sampling.top_p.map(of_double));
    set(object, "min_p", sampling.min_p.map(of_double));
    set(object, "presence_penalty", sampling.presence_penalty.map(of_double));
    set(object, "frequency_penalty", sampling.frequency_penalty.map(of_double));
}

/// Returns what is added to logits, by ids as texts.
pub(super) fn biases_by_id(sampling: &Sampling) -> Option<Object> {
    let bias = |(id, bias): &(u32, f64)| (id.to_string(), of_double(*bias));
    (!sampling.logit_bias.is_empty()).then(|| sampling.logit_bias.iter().map(bias).collect())
}

pub(super) fn json_ids(ids: &[u32]) -> Json {
    Json::Array(ids.iter().map(|id| Json::from(i64::from(*id))).collect())
}

pub(super) fn whole(number: Option<u64>) -> Option<i64> {
    number.map(|number| i64::try_from(number).unwrap_or(i64::MAX))
}
