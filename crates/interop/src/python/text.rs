//! Parser for Python string literals.

use rolecall_format::LoadError;

use super::mistake;

/// Reports whether a text starts with a string literal.
pub(super) fn begins(rest: &str) -> bool {
    let prefix = rest.trim_start_matches(|character: char| character.is_ascii_alphabetic());
    rest.len() - prefix.len() <= 2 && prefix.starts_with(['\'', '"'])
}

/// Returns the offset after the string whose quote is at an offset. A string that is not closed ends with its line, or
/// with the file.
pub(super) fn end(source: &str, quote_at: usize) -> usize {
    let rest = &source[quote_at..];
    let quote = &rest[..1];
    let triple = quote.repeat(3);
    let closing = if rest.starts_with(&triple) { triple.as_str() } else { quote };
    let mut at = quote_at + closing.len();
    while let Some(first) = source[at..].chars().next() {
        if source[at..].starts_with(closing) {
            return at + closing.len();
        }
        if closing.len() == 1 && matches!(first, '\n' | '\r') {
            return at;
        }
        at += if first == '\\' { 1 } else { 0 };
        at += source[at..].chars().next().map_or(0, char::len_utf8);
    }
    at
}

/// Parses one string and appends its characters with their byte offsets. Returns the offset after
/// the string.
pub(super) fn read(source: &str, start: usize, characters: &mut Vec<(usize, char)>) -> Result<usize, LoadError> {
    let quote_at = start + source[start..].find(['\'', '"']).unwrap_or(0);
    let raw = match source[start..quote_at].to_ascii_lowercase().as_str() {
        "" | "u" => false,
        "r" => true,
        prefix => {
            let message = format!("strings with the prefix `{prefix}` are not supported");
            return Err(mistake("not_a_literal", message, start..quote_at + 1, "write a plain string"));
        }
    };
    let quote = &source[quote_at..quote_at + 1];
    let triple = quote.repeat(3);
    let closing = if source[quote_at..].starts_with(&triple) { triple.as_str() } else { quote };
    let mut at = quote_at + closing.len();
    loop {
        let rest = &source[at..];
        if rest.starts_with(closing) {
            return Ok(at + closing.len());
        }
        let Some(first) = rest.chars().next().filter(|first| closing.len() == 3 || !matches!(first, '\n' | '\r'))
        else {
            let message = format!("expected `{closing}` at the end of this string");
            return Err(mistake(
                "open_string",
                message,
                start..at,
                "close the string, or write `\\n` for a line break",
            ));
        };
        match first {
            '\\' if raw => {
                // In a raw string, a quote after a backslash does not close the string. The
                // backslash stays.
                characters.push((at, '\\'));
                at += 1;
                if let Some(next) = source[at..].chars().next().filter(|next| !matches!(next, '\n' | '\r')) {
                    characters.push((at, next));
                    at += next.len_utf8();
                }
            }
            '\\' => at = escape(source, at, characters)?,
            // Python reads each line break of a file as one `\n`.
            '\r' => {
                characters.push((at, '\n'));
                at += if rest.starts_with("\r\n") { 2 } else { 1 };
            }
            other => {
                characters.push((at, other));
                at += other.len_utf8();
            }
        }
    }
}

/// Parses an escape and returns the offset after it.
fn escape(source: &str, at: usize, characters: &mut Vec<(usize, char)>) -> Result<usize, LoadError> {
    let rest = &source[at + 1..];
    let Some(first) = rest.chars().next() else {
        return Err(mistake(
            "open_string",
            "expected a character after `\\`, found the end of the file".into(),
            at..at + 1,
            "close the string",
        ));
    };
    let plain = match first {
        'n' => Some('\n'),
        't' => Some('\t'),
        'r' => Some('\r'),
        'a' => Some('\u{7}'),
        'b' => Some('\u{8}'),
        'f' => Some('\u{c}'),
        'v' => Some('\u{b}'),
        '\\' | '\'' | '"' => Some(first),
        _ => None,
    };
    if let Some(plain) = plain {
        characters.push((at, plain));
        return Ok(at + 2);
    }
    let number = match first {
        // A line continuation.
        '\r' if rest.starts_with("\r\n") => return Ok(at + 3),
        '\n' | '\r' => return Ok(at + 2),
        'x' => Some((1, 2, 16)),
        'u' => Some((1, 4, 16)),
        'U' => Some((1, 8, 16)),
        '0'..='7' => Some((0, rest.chars().take(3).take_while(|digit| digit.is_digit(8)).count(), 8)),
        _ => None,
    };
    let Some((skipped, digits, radix)) = number else {
        if first == 'N' {
            let message = "escapes with a character name are not supported".to_owned();
            return Err(mistake("bad_escape", message, at..at + 2, "write the character itself"));
        }
        // Python: the backslash of an unknown escape is literal.
        characters.push((at, '\\'));
        return Ok(at + 1);
    };
    let written =
        rest.get(skipped..skipped + digits).filter(|digits| digits.chars().all(|digit| digit.is_digit(radix)));
    let code = written.and_then(|digits| u32::from_str_radix(digits, radix).ok());
    match code.and_then(char::from_u32) {
        Some(character) => {
            characters.push((at, character));
            Ok(at + 1 + skipped + digits)
        }
        None => {
            let message = "this escape is not a valid character".to_owned();
            Err(mistake("bad_escape", message, at..at + 1 + first.len_utf8(), "write the character itself"))
        }
    }
}
