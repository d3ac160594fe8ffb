use super::Json;

/// Returns the spellings of the keys, strings, numbers and literals of a value in the text that it
/// was parsed from, in order.
///
/// Returns `None` if the text has a different number of them, for example because a key occurs
/// twice.
///
/// ```
/// use rolecall_conversation::json;
/// let text = r#"{"a": 1e5, "b": ["\u00e9", null]}"#;
/// let spellings = json::spellings(&json::parse(text)?, text);
/// assert_eq!(spellings.expect("no key twice"), [r#""a""#, "1e5", r#""b""#, r#""\u00e9""#, "null"]);
/// # Ok::<(), json::ParseError>(())
/// ```
pub fn spellings(value: &Json, text: &str) -> Option<Vec<String>> {
    let expected = count(value);
    let mut found = Vec::with_capacity(expected);
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let length = match byte {
            b'"' => string_length(&bytes[at..]),
            byte if is_between(*byte) => 0,
            _ => bytes[at..].iter().take_while(|byte| !is_between(**byte) && **byte != b'"').count(),
        };
        if length > 0 {
            found.push(text.get(at..at + length)?.to_owned());
        }
        at += length.max(1);
    }
    (found.len() == expected).then_some(found)
}

fn is_between(byte: u8) -> bool {
    b" \t\r\n,:[]{}".contains(&byte)
}

/// Returns the length of the string at the start of `bytes`, including its quotes.
fn string_length(bytes: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn count(value: &Json) -> usize {
    match value {
        Json::Array(items) => items.iter().map(count).sum(),
        Json::Object(object) => object.iter().map(|(_, value)| 1 + count(value)).sum(),
        _ => 1,
    }
}
