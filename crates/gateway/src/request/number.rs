//! Numbers in JSON values.

use rolecall::conversation::Json;
use rolecall::conversation::json::Number;

/// Returns an integer that fits.
pub fn integer(value: &Json) -> Option<i64> {
    match value {
        Json::Number(number) => number.as_i64(),
        _ => None,
    }
}

/// Returns an integer from 0 that fits.
pub fn count(value: &Json) -> Option<u64> {
    integer(value).and_then(|number| u64::try_from(number).ok())
}

/// Returns a token id.
pub fn id(value: &Json) -> Option<u32> {
    integer(value).and_then(|number| u32::try_from(number).ok())
}

/// Returns the nearest double that is finite.
pub fn double(value: &Json) -> Option<f64> {
    match value {
        Json::Number(number) => number.as_f64().filter(|number| number.is_finite()),
        _ => None,
    }
}

/// Returns a finite number as JSON.
pub fn of_double(value: f64) -> Json {
    Number::from_spelling(&value.to_string()).map_or(Json::Null, Json::Number)
}
