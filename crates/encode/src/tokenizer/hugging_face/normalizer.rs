use serde_json::Value;

use super::super::Error;
use super::super::sentencepiece::charsmap::Charsmap;

/// A text may grow this many times in one replacement after another; a hostile file could double it without end.
const LARGEST_GROWTH: usize = 4096;

/// Refuses a normalizer that would make the crate panic, or a text grow without bound.
pub(super) fn check_normalizer(value: &Value) -> Result<(), Error> {
    let mut growth = 1;
    check(value, &mut growth)
}

// Looks for the fields and not for the `type`: the crate accepts some normalizers without one.
fn check(value: &Value, growth: &mut usize) -> Result<(), Error> {
    for field in ["content", "prepend"] {
        let length = value[field].as_str().map_or(0, |text| text.chars().count());
        *growth = growth.saturating_mul(length.max(1));
    }
    if *growth > LARGEST_GROWTH {
        return Err(Error::unsupported("normalizer", "replacements that make a text grow without bound"));
    }
    if value["type"] == "Precompiled" || !value["precompiled_charsmap"].is_null() {
        // The crate panics without the table, and follows its offsets unchecked.
        let table = value["precompiled_charsmap"].as_str().and_then(decode_base64);
        let table = table.ok_or_else(|| Error::malformed("normalizer.precompiled_charsmap", "not base64"))?;
        Charsmap::from_bytes(&table)?;
    }
    value["normalizers"].as_array().into_iter().flatten().try_for_each(|inner| check(inner, growth))
}

/// As strict as the crate's decoder, which panics on what it does not like: padded, and without stray bits.
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_suffix("==").or(text.strip_suffix('=')).unwrap_or(text).as_bytes();
    // Padding fills the last group, and a group of padding alone is none.
    if !text.len().is_multiple_of(4) || text.len() != digits.len().next_multiple_of(4) {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for chunk in digits.chunks(4) {
        let mut bits = 0u32;
        for &digit in chunk {
            bits = bits << 6 | u32::from(base64_value(digit)?);
        }
        bits <<= 6 * (4 - chunk.len());
        let [_, decoded @ ..] = bits.to_be_bytes();
        let (kept, stray) = decoded.split_at(chunk.len() * 6 / 8);
        if stray.iter().any(|&byte| byte != 0) {
            return None;
        }
        bytes.extend_from_slice(kept);
    }
    Some(bytes)
}

fn base64_value(digit: u8) -> Option<u8> {
    match digit {
        b'A'..=b'Z' => Some(digit - b'A'),
        b'a'..=b'z' => Some(digit - b'a' + 26),
        b'0'..=b'9' => Some(digit - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}
