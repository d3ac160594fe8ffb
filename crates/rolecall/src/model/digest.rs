use twox_hash::XxHash3_128;

/// Returns the digest of a text, as hexadecimal digits.
pub(crate) fn digest(text: &str) -> String {
    format!("{:032x}", XxHash3_128::oneshot(text.as_bytes()))
}
