//! Escapes in strings that the layout writes unchanged between quotes.
//!
//! Models escape quotes even where the template does not. In a call in Python, they write every
//! other escape of a Python string too.

use std::borrow::Cow;

use crate::reply::List;

/// The escapes that a string may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Escapes {
    /// Only that of the quote around the string.
    Quote(char),
    /// Those of Python.
    Python,
}

/// What an escape stands for.
enum Meaning {
    /// It may continue.
    Open,
    Is(char),
    /// It is no escape, so its text is kept. The last character may begin another one.
    Text,
    /// It ended before the last character.
    Ended(char),
}

impl Escapes {
    pub(super) fn of(list: &List, quote: char) -> Escapes {
        if list.is_python { Escapes::Python } else { Escapes::Quote(quote) }
    }
}

/// Replaces the escapes in the next text of a string. `open` is the start of an escape that is not
/// complete.
pub(super) fn read<'t>(open: &mut String, text: &'t str, escapes: Escapes, is_over: bool) -> Cow<'t, str> {
    if open.is_empty() && !text.contains('\\') {
        return text.into();
    }
    let mut out = String::new();
    for character in text.chars() {
        add(open, character, escapes, &mut out);
    }
    if is_over {
        let meaning = meaning(open, None, escapes);
        let rest = std::mem::take(open);
        match meaning {
            Meaning::Ended(character) => out.push(character),
            _ => out.push_str(&rest),
        }
    }
    out.into()
}

fn add(open: &mut String, character: char, escapes: Escapes, out: &mut String) {
    if open.is_empty() {
        match character {
            '\\' => open.push(character),
            _ => out.push(character),
        }
        return;
    }
    match meaning(open, Some(character), escapes) {
        Meaning::Open => open.push(character),
        Meaning::Is(found) => {
            open.clear();
            out.push(found);
        }
        Meaning::Text => {
            out.push_str(&std::mem::take(open));
            add(open, character, escapes, out);
        }
        Meaning::Ended(found) => {
            open.clear();
            out.push(found);
            add(open, character, escapes, out);
        }
    }
}

/// Returns the meaning of a backslash and the text after it, with the next character.
fn meaning(open: &str, next: Option<char>, escapes: Escapes) -> Meaning {
    let rest = &open[1.min(open.len())..];
    match (escapes, rest.chars().next(), next) {
        (Escapes::Quote(quote), _, Some(next)) if next == quote => Meaning::Is(next),
        (Escapes::Quote(_), ..) => Meaning::Text,
        (Escapes::Python, None, Some(next)) => match next {
            '\\' | '\'' | '"' => Meaning::Is(next),
            'a' => Meaning::Is('\u{7}'),
            'b' => Meaning::Is('\u{8}'),
            'f' => Meaning::Is('\u{c}'),
            'n' => Meaning::Is('\n'),
            'r' => Meaning::Is('\r'),
            't' => Meaning::Is('\t'),
            'v' => Meaning::Is('\u{b}'),
            'x' | 'u' | 'U' | '0'..='7' => Meaning::Open,
            // Like Python, keep the backslash of an unknown escape. A line break stays as well.
            _ => Meaning::Text,
        },
        (Escapes::Python, Some('0'..='7'), next) => octal(rest, next),
        (Escapes::Python, Some(kind), Some(next)) => code(kind, &rest[1..], next),
        (Escapes::Python, ..) => Meaning::Text,
    }
}

/// Reads up to three octal digits.
fn octal(digits: &str, next: Option<char>) -> Meaning {
    match next {
        Some('0'..='7') if digits.len() < 3 => Meaning::Open,
        _ => u32::from_str_radix(digits, 8).ok().and_then(char::from_u32).map_or(Meaning::Text, Meaning::Ended),
    }
}

/// Reads the digits of a character code. Half of a surrogate pair is text without the other half.
fn code(kind: char, digits: &str, next: char) -> Meaning {
    let length = match kind {
        'x' => 2,
        'u' => 4,
        _ => 8,
    };
    let all = format!("{digits}{next}");
    let (first, second) = (all.get(..length), all.get(length..).unwrap_or_default());
    let is_hex = |text: &str| text.chars().all(|c| c.is_ascii_hexdigit());
    let Some(first) = first.filter(|first| is_hex(first)) else {
        return if is_hex(&all) && all.len() < length { Meaning::Open } else { Meaning::Text };
    };
    let found = u32::from_str_radix(first, 16).unwrap_or(u32::MAX);
    if let Some(character) = char::from_u32(found) {
        return Meaning::Is(character);
    }
    let is_high = kind == 'u' && (0xd800..0xdc00).contains(&found);
    match second.strip_prefix("\\u") {
        _ if !is_high => Meaning::Text,
        Some(low) if is_hex(low) && low.len() == 4 => {
            let unit = |digits: &str| u16::from_str_radix(digits, 16).unwrap_or_default();
            match char::decode_utf16([unit(first), unit(low)]).next() {
                Some(Ok(character)) => Meaning::Is(character),
                _ => Meaning::Text,
            }
        }
        Some(low) if is_hex(low) && low.len() < 4 => Meaning::Open,
        None if "\\u".starts_with(second) => Meaning::Open,
        _ => Meaning::Text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn python(text: &str) -> String {
        let whole = read(&mut String::new(), text, Escapes::Python, true).into_owned();
        let mut open = String::new();
        let mut pieces: String = text
            .chars()
            .map(|character| read(&mut open, &character.to_string(), Escapes::Python, false).into_owned())
            .collect();
        pieces.push_str(&read(&mut open, "", Escapes::Python, true));
        assert_eq!(whole, pieces, "{text:?} in pieces");
        whole
    }

    #[test]
    fn strings_have_the_escapes_of_python() {
        assert_eq!(python(r#"a \"b\" \'c\' \\ d"#), r#"a "b" 'c' \ d"#);
        assert_eq!(python(r"a\nb\tc\x41\u00e9\U0001f44d\101\0"), "a\nb\tcA\u{e9}\u{1f44d}A\0");
        assert_eq!(python(r"\ud83d\udc4d"), "\u{1f44d}");
        // What is no escape stays as it is.
        for text in [r"C:\dir", r"\u12", r"\u12g4", r"\xg", r"\ud83d", r"\ud83dx", r"\ud83d\u0041", "a\\\nb", "\\"] {
            assert_eq!(python(text), text);
        }
        assert_eq!(python(r"\u12\n"), "\\u12\n");
    }

    #[test]
    fn other_strings_have_only_the_escape_of_their_quote() {
        let text = read(&mut String::new(), r#"a\'b\"c\n\\"#, Escapes::Quote('\''), true).into_owned();
        assert_eq!(text, r#"a'b\"c\n\\"#);
    }
}
