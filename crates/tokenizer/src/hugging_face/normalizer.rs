use serde_json::Value;

use super::super::Error;
use super::super::base64::decode_base64;
use super::super::sentencepiece::charsmap::Charsmap;
use super::limits::check_parts;

/// Rejects a normalizer that would make the crate panic or let a text grow without bound.
pub(super) fn check_normalizer(value: &Value) -> Result<(), Error> {
    check_parts("normalizer", value)?;
    check_charsmaps(value)
}

// Checks the fields rather than the `type`, because the crate accepts some normalizers without one.
fn check_charsmaps(value: &Value) -> Result<(), Error> {
    if value["type"] == "Precompiled" || !value["precompiled_charsmap"].is_null() {
        // The crate panics if the table is missing, and follows its offsets unchecked.
        let table = value["precompiled_charsmap"].as_str().and_then(decode_base64);
        let table = table.ok_or_else(|| Error::malformed("normalizer.precompiled_charsmap", "not base64"))?;
        Charsmap::from_bytes(&table)?;
    }
    value["normalizers"].as_array().into_iter().flatten().try_for_each(check_charsmaps)
}
