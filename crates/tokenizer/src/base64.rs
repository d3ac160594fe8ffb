//! Decodes base64 as tokenizer files use it.

/// Decodes base64 as strictly as the reference's decoder, which panics on invalid input: padding is
/// required, and unused bits must be zero.
pub(super) fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_suffix("==").or(text.strip_suffix('=')).unwrap_or(text).as_bytes();
    // Padding only completes the last group; a group of padding alone is invalid.
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
