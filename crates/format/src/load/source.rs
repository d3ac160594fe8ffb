//! Maps the characters of a TOML string to their positions in the file, taking escapes into
//! account.

/// Returns the position in the token of each byte of the decoded string, and of its end. Returns
/// nothing for a token that is not a string.
pub(super) fn offsets(token: &str) -> Vec<usize> {
    let (quote, escapes) = match token {
        t if t.starts_with("\"\"\"") => ("\"\"\"", true),
        t if t.starts_with("'''") => ("'''", false),
        t if t.starts_with('"') => ("\"", true),
        t if t.starts_with('\'') => ("'", false),
        _ => return Vec::new(),
    };
    let mut at = quote.len();
    if quote.len() == 3 {
        // A newline immediately after the opening quotes is not part of the string.
        let rest = &token[at..];
        at += if rest.starts_with("\r\n") { 2 } else { usize::from(rest.starts_with('\n')) };
    }
    let end = token.len().saturating_sub(quote.len()).max(at);
    let mut places = Vec::new();
    while at < end {
        let rest = &token[at..end];
        let Some(first) = rest.chars().next() else { break };
        let (written, decoded) = match (escapes, first) {
            (true, '\\') => escape(rest),
            // TOML may read CR LF as LF, so it counts as one decoded byte.
            (_, '\r') if rest.starts_with("\r\n") => (2, 1),
            _ => (first.len_utf8(), first.len_utf8()),
        };
        places.extend(std::iter::repeat_n(at, decoded));
        at += written;
    }
    places.push(end);
    places
}

/// Returns the number of bytes of an escape in the file, and of the text it denotes.
fn escape(rest: &str) -> (usize, usize) {
    let digits = match rest.as_bytes().get(1) {
        Some(b'u') => 4,
        Some(b'U') => 8,
        Some(b'x') => 2,
        Some(b'\n' | b'\r' | b' ' | b'\t') => {
            let body = &rest[1..];
            return (1 + body.len() - body.trim_start().len(), 0);
        }
        _ => return (2, 1),
    };
    let code = rest.get(2..2 + digits).and_then(|digits| u32::from_str_radix(digits, 16).ok()).and_then(char::from_u32);
    (2 + digits, code.map_or(1, char::len_utf8))
}

#[cfg(test)]
mod tests {
    use super::offsets;

    #[test]
    fn every_byte_of_an_escaped_character_stands_where_the_escape_does() {
        assert_eq!(offsets(r#""\U0001F600x""#), [1, 1, 1, 1, 11, 12]);
        assert_eq!(offsets(r#""\u00e9x""#), [1, 1, 7, 8]);
        assert_eq!(offsets(r#""a\x41b""#), [1, 2, 6, 7]);
        assert_eq!(offsets("XXX\nabXXX".replace('X', "'").as_str()), [4, 5, 6]);
    }

    #[test]
    fn every_character_is_found_behind_escapes() {
        let cases = [
            (r#""a\nb""#, "a\nb"),
            (r#""\u00e9\U0001F600x\"""#, "é😀x\""),
            ("'a\\n'", "a\\n"),
            ("\"\"\"\na\\\n   b\"\"\"", "ab"),
            ("'''\r\nab'''", "ab"),
        ];
        for (token, decoded) in cases {
            let places = offsets(token);
            assert_eq!(places.len(), decoded.len() + 1, "{token}");
            for (at, character) in decoded.char_indices().filter(|(_, c)| c.is_ascii_lowercase()) {
                assert!(token[places[at]..].starts_with(character), "{token} at {at}");
            }
        }
    }
}
