use serde_json::Value;

use super::super::Error;
use super::super::base64::decode_base64;
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
