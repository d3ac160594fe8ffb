//! JSON values.

use fastrand::Rng;
use rolecall::conversation::Json;
use rolecall::conversation::json::Number;

/// Makes a JSON value of any kind. `text` supplies its strings and keys.
pub fn value(rng: &mut Rng, depth: usize, text: &mut dyn FnMut(&mut Rng) -> String) -> Json {
    match rng.u8(..if depth == 0 { 6 } else { 9 }) {
        0 => Json::Null,
        1 => Json::Bool(rng.bool()),
        2 | 3 => Json::Number(number(rng)),
        4 | 5 => Json::String(text(rng)),
        6 | 7 => Json::Object((0..rng.usize(..4)).map(|_| (text(rng), value(rng, depth - 1, text))).collect()),
        _ => Json::Array((0..rng.usize(..4)).map(|_| value(rng, depth - 1, text)).collect()),
    }
}

/// Returns a number in one of many spellings.
pub fn number(rng: &mut Rng) -> Number {
    let spellings = ["0", "-0", "1.0", "1e5", "1E+05", "-0.5e-3", "12345678901234567890123", "3.1400", "0.0", "7"];
    let spelling = spellings[rng.usize(..spellings.len())];
    Number::from_spelling(spelling).expect("each is a JSON number")
}
