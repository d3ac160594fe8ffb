//! Limits on the parts of a file. A malicious file could otherwise make a text, a pattern or a
//! search grow without bound.

use serde_json::Value;

use super::super::Error;

/// The number of parts of a normalizer or a pre-tokenizer, including nested ones; real files have
/// ten.
const MOST_PARTS: usize = 64;
/// The number of parts that spell text in the byte alphabet, which doubles every non-ASCII byte.
const MOST_BYTE_LEVELS: usize = 2;
/// The number of replacement tables.
const MOST_CHARSMAPS: usize = 1;
/// The factor by which a series of replacements may grow a text.
const LARGEST_GROWTH: usize = 64;
/// The length of a pattern in bytes; the longest known pattern has 2,000.
const LONGEST_PATTERN: usize = 1 << 16;
/// The size of a pattern with counted repetitions expanded.
const LARGEST_PATTERN: usize = 1 << 16;
/// The number of characters of a word that is searched for pieces, which takes quadratic time; real
/// files use 100 or 200.
const LONGEST_WORD: usize = 1 << 12;
/// The length in bytes of a piece of a unigram model; the crate copies every prefix at every
/// position.
const LONGEST_PIECE: usize = 1 << 8;

/// Rejects a normalizer or a pre-tokenizer that exceeds the limits. `place` is its key in the file.
pub(super) fn check_parts(place: &str, value: &Value) -> Result<(), Error> {
    let mut sum = Sum { growth: 1, ..Sum::default() };
    add(place, value, &mut sum)?;
    let too_much = |what: &str| Err(Error::unsupported(place, what));
    if sum.parts > MOST_PARTS {
        return too_much("more parts than any tokenizer has");
    }
    if sum.byte_levels > MOST_BYTE_LEVELS || sum.growth > LARGEST_GROWTH {
        return too_much("replacements that let a text grow without bound");
    }
    if sum.charsmaps > MOST_CHARSMAPS {
        return too_much("more than one table of replacements");
    }
    Ok(())
}

/// Rejects a piece so long that the search takes quadratic time at every position of a text.
pub(super) fn check_piece(piece: &str) -> Result<(), Error> {
    match piece.len() > LONGEST_PIECE {
        true => {
            let found = format!("a piece of {} bytes, more than {LONGEST_PIECE}", piece.len());
            Err(Error::unsupported("model.vocab", found))
        }
        false => Ok(()),
    }
}

/// Rejects a word length with which a single word takes longer than a text.
pub(super) fn check_word(most: usize) -> Result<(), Error> {
    match most > LONGEST_WORD {
        true => Err(Error::unsupported("model.max_input_chars_per_word", most.to_string())),
        false => Ok(()),
    }
}

#[derive(Default)]
struct Sum {
    parts: usize,
    byte_levels: usize,
    charsmaps: usize,
    growth: usize,
}

// Checks the fields and not only the `type`, because the crate accepts some parts without one.
fn add(place: &str, value: &Value, sum: &mut Sum) -> Result<(), Error> {
    sum.parts += 1;
    sum.byte_levels += usize::from(value["type"] == "ByteLevel");
    sum.charsmaps += usize::from(value["type"] == "Precompiled" || !value["precompiled_charsmap"].is_null());
    for field in ["content", "prepend"] {
        let length = value[field].as_str().map_or(0, |text| text.chars().count());
        sum.growth = sum.growth.saturating_mul(length.max(1));
    }
    for kind in ["Regex", "String"] {
        if let Some(pattern) = value["pattern"][kind].as_str() {
            check_pattern(place, pattern, kind == "Regex")?;
        }
    }
    let inner = ["normalizers", "pretokenizers"].into_iter().filter_map(|key| value[key].as_array()).flatten();
    for part in inner {
        if sum.parts > MOST_PARTS {
            break;
        }
        add(place, part, sum)?;
    }
    Ok(())
}

fn check_pattern(place: &str, pattern: &str, is_regex: bool) -> Result<(), Error> {
    let place = || format!("{place}.pattern");
    if pattern.len() > LONGEST_PATTERN {
        return Err(Error::unsupported(place(), format!("{} bytes, more than {LONGEST_PATTERN}", pattern.len())));
    }
    match is_regex && written_out(pattern) > LARGEST_PATTERN {
        true => Err(Error::unsupported(place(), "nested repetitions beyond those of any tokenizer")),
        false => Ok(()),
    }
}

/// Returns the approximate number of atoms of a pattern with `{n}` expanded n times.
///
/// The pattern's compiler reports errors in the pattern; this estimate only must not be too low.
fn written_out(pattern: &str) -> usize {
    let bytes = pattern.as_bytes();
    // For each open group, the sum of its atoms and the size of its last atom.
    let mut open = vec![(0usize, 0usize)];
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let (mut closed, mut length) = (Some(1), 1);
        match byte {
            b'\\' => length = escape_length(&bytes[at..]),
            b'[' => length = class_length(&bytes[at..]),
            b'(' => {
                open.push((0, 0));
                closed = None;
            }
            b')' if open.len() > 1 => {
                let (sum, last) = open.pop().unwrap_or_default();
                closed = Some(sum.saturating_add(last).saturating_add(1));
            }
            b'{' => {
                let (count, found) = repetition(&bytes[at..]);
                length = found;
                if let Some((_, last)) = open.last_mut() {
                    *last = last.saturating_mul(count);
                }
                closed = None;
            }
            _ => {}
        }
        if let (Some(atom), Some((sum, last))) = (closed, open.last_mut()) {
            *sum = sum.saturating_add(*last);
            *last = atom;
        }
        at += length.max(1);
    }
    open.into_iter().fold(0, |all, (sum, last)| all.saturating_add(sum).saturating_add(last))
}

fn escape_length(bytes: &[u8]) -> usize {
    let has_name = matches!(bytes.get(1), Some(b'p' | b'P' | b'x' | b'u' | b'k' | b'g')) && bytes.get(2) == Some(&b'{');
    match has_name {
        true => bytes.iter().position(|&byte| byte == b'}').map_or(bytes.len(), |end| end + 1),
        false => 2,
    }
}

fn class_length(bytes: &[u8]) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 1,
            b'[' => depth += 1,
            b']' => depth -= 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            break;
        }
    }
    at
}

/// Returns the largest number between braces, and the length including the braces. Braces around
/// anything else repeat nothing.
fn repetition(bytes: &[u8]) -> (usize, usize) {
    let Some(end) = bytes.iter().position(|&byte| byte == b'}') else { return (1, 1) };
    let inside = std::str::from_utf8(&bytes[1..end]).unwrap_or_default();
    let numbers: Option<Vec<usize>> =
        inside.split(',').map(|part| if part.trim().is_empty() { Some(0) } else { part.trim().parse().ok() }).collect();
    match numbers {
        Some(numbers) => (numbers.into_iter().max().unwrap_or(1).max(1), end + 1),
        None if inside.bytes().all(|byte| byte.is_ascii_digit() || byte == b',' || byte == b' ') => {
            (usize::MAX, end + 1)
        }
        None => (1, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::written_out;

    #[test]
    fn counted_repetitions_are_written_out() {
        let cases = [
            ("abc", 3),
            (r"a{3}b{2,4}", 7),
            (r"(ab){3}", 9),
            (r"\p{N}{1,3}|[^\r\n{]{5}", 9),
            (r"(((a{10}){10}){10})", 1113),
            (r"\s{512}(?!\S)|\s{256}", 774),
            ("a{99999999999999999999}", usize::MAX),
            ("a{x}", 4),
        ];
        for (pattern, most) in cases {
            let found = written_out(pattern);
            assert!(found >= most.min(found.max(1)) && (found <= most || most == usize::MAX), "{pattern}: {found}");
            assert!(most != usize::MAX || found == usize::MAX, "{pattern}: {found}");
        }
        assert!(written_out("(((a{1000}){1000}){1000}){1000}") > 1 << 30);
        assert!(written_out("((((?=a)){1000}){1000}){1000}") > 1 << 29);
    }
}
