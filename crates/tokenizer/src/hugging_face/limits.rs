//! What the parts of a file may cost: a hostile one could make a text, a pattern or a search grow without end.

use serde_json::Value;

use super::super::Error;

/// Parts of a normalizer or a pre-tokenizer, those inside others included; real ones have ten.
const MOST_PARTS: usize = 64;
/// Parts that spell text in the alphabet of bytes, which doubles every byte that is no ASCII.
const MOST_BYTE_LEVELS: usize = 2;
/// Tables of replacements.
const MOST_CHARSMAPS: usize = 1;
/// A text may grow this many times in one replacement after another.
const LARGEST_GROWTH: usize = 64;
/// Bytes of a pattern; the longest known has 2,000.
const LONGEST_PATTERN: usize = 1 << 16;
/// What a pattern comes to when its counted repetitions are written out.
const LARGEST_PATTERN: usize = 1 << 16;
/// Characters of a word that is searched for pieces, which takes their square; real files say 100 or 200.
const LONGEST_WORD: usize = 1 << 12;
/// Bytes of a piece of a unigram model; the crate copies every prefix at every place.
const LONGEST_PIECE: usize = 1 << 8;

/// Refuses a normalizer or a pre-tokenizer beyond all bounds. `place` is its key in the file.
pub(super) fn check_parts(place: &str, value: &Value) -> Result<(), Error> {
    let mut sum = Sum { growth: 1, ..Sum::default() };
    add(place, value, &mut sum)?;
    let too_much = |what: &str| Err(Error::unsupported(place, what));
    if sum.parts > MOST_PARTS {
        return too_much("more parts than any tokenizer has");
    }
    if sum.byte_levels > MOST_BYTE_LEVELS || sum.growth > LARGEST_GROWTH {
        return too_much("replacements that make a text grow without bound");
    }
    if sum.charsmaps > MOST_CHARSMAPS {
        return too_much("more than one table of replacements");
    }
    Ok(())
}

/// Refuses a piece that makes every place of a text cost its square.
pub(super) fn check_piece(piece: &str) -> Result<(), Error> {
    match piece.len() > LONGEST_PIECE {
        true => {
            let found = format!("a piece of {} bytes, {LONGEST_PIECE} at most", piece.len());
            Err(Error::unsupported("model.vocab", found))
        }
        false => Ok(()),
    }
}

/// Refuses a word length that makes one word cost more than a text.
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

// Looks for the fields and not for the `type` alone: the crate accepts some parts without one.
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
        return Err(Error::unsupported(place(), format!("{} bytes, {LONGEST_PATTERN} at most", pattern.len())));
    }
    match is_regex && written_out(pattern) > LARGEST_PATTERN {
        true => Err(Error::unsupported(place(), "repetitions in repetitions that no tokenizer has")),
        false => Ok(()),
    }
}

/// About how many atoms a pattern has when `{n}` is written out n times.
///
/// What is wrong with a pattern says its compiler; here it need only not come out too small.
fn written_out(pattern: &str) -> usize {
    let bytes = pattern.as_bytes();
    // The sum of each open group, and what its last atom comes to.
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

/// The largest number between braces, and the length with them; braces around anything else repeat nothing.
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
