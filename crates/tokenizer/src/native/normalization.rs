use std::borrow::Cow;
use std::sync::LazyLock;

use unicode_normalization_alignments::char::canonical_combining_class;
use unicode_normalization_alignments::{IsNormalized, UnicodeNormalization, is_nfc_quick};

use super::char_classes::decode;

/// A text in the form that is split into words, with a mapping to the original bytes.
pub(crate) struct NormalizedText<'a> {
    pub text: Cow<'a, str>,
    /// The runs from left to right, without gaps; empty if the text is unchanged.
    runs: Vec<NormalizedRun>,
}

/// A stretch of normalized text. Positions take 32 bits, because long texts can have very many
/// runs.
struct NormalizedRun {
    /// The first normalized byte of the run.
    at: u32,
    /// The original byte that corresponds to it.
    original: u32,
    /// For a character that composing produced, the end of the original text that it covers;
    /// otherwise `NONE`.
    end: u32,
}

impl NormalizedRun {
    /// The caller ensures that the text is shorter than 4 GiB.
    fn new(at: usize, original: usize, end: Option<usize>) -> NormalizedRun {
        NormalizedRun { at: at as u32, original: original as u32, end: end.map_or(NONE, |end| end as u32) }
    }
}

const NONE: u32 = u32::MAX;

impl<'a> NormalizedText<'a> {
    /// Returns the text unchanged.
    pub fn unchanged(text: &'a str) -> Self {
        Self { text: Cow::Borrowed(text), runs: Vec::new() }
    }

    /// Returns the text in Unicode normalization form C, as the reference crate composes it.
    pub fn composed(text: &'a str) -> Self {
        let mut normalized = Self::unchanged(text);
        // `runs` and `text` cover everything before this byte once there is a change.
        let mut copied = 0;
        let mut at = 0;
        while let Some((start, end)) = next_stretch(text, at) {
            at = end;
            let stretch = &text[start..end];
            if stretch.nfc().all(|(_, change)| change == 0) && stretch.nfc().map(|(c, _)| c).eq(stretch.chars()) {
                continue;
            }
            let out = normalized.text.to_mut();
            if normalized.runs.is_empty() {
                out.clear();
            }
            if copied < start {
                normalized.runs.push(NormalizedRun::new(out.len(), copied, None));
                out.push_str(&text[copied..start]);
            }
            let mut left = text[start..end].char_indices().map(|(at, c)| (start + at, start + at + c.len_utf8()));
            // The reference crate's alignment of the previous character, or an empty one at the
            // start.
            let mut last = text[..start].char_indices().next_back().map_or((0, 0), |(at, _)| (at, start));
            for (c, change) in stretch.nfc() {
                let mut span = last;
                if change <= 0 {
                    span = left.next().unwrap_or(last);
                    last = (change..0).fold(span, |last, _| left.next().unwrap_or(last));
                }
                normalized.runs.push(NormalizedRun::new(out.len(), span.0, Some(span.1)));
                out.push(c);
            }
            copied = end;
        }
        if !normalized.runs.is_empty() && copied < text.len() {
            let out = normalized.text.to_mut();
            normalized.runs.push(NormalizedRun::new(out.len(), copied, None));
            out.push_str(&text[copied..]);
        }
        normalized
    }

    pub fn is_changed(&self) -> bool {
        !self.runs.is_empty()
    }

    /// Returns the original bytes that normalized bytes correspond to.
    pub fn original(&self, start: usize, end: usize) -> (usize, usize) {
        self.original_near(&mut 0, start, end)
    }

    /// Returns the original bytes that normalized bytes correspond to. `near` is the number of a run at
    /// or before them, from which on they are sought, and then that of theirs.
    pub fn original_near(&self, near: &mut usize, start: usize, end: usize) -> (usize, usize) {
        if self.runs.is_empty() {
            return (start, end);
        }
        let from = match self.run(near, start) {
            Some(run) if run.end != NONE => run.original as usize,
            Some(run) => run.original as usize + (start - run.at as usize),
            None => start,
        };
        let to = match self.run(&mut near.clone(), end.saturating_sub(1)) {
            Some(run) if run.end != NONE => run.end as usize,
            Some(run) => run.original as usize + (end - run.at as usize),
            None => end,
        };
        (from, to)
    }

    /// Returns the last run that begins at `at` or before it.
    fn run(&self, near: &mut usize, at: usize) -> Option<&NormalizedRun> {
        let begins = |run: &NormalizedRun| run.at as usize <= at;
        // The next runs are likely the ones.
        let [this, next] = [*near, *near + 1].map(|number| self.runs.get(number).is_some_and(begins));
        if !this || next {
            let from = if this { *near + 1 } else { 0 };
            let behind = self.runs.get(from..)?.partition_point(begins);
            *near = (from + behind).checked_sub(1)?;
        }
        self.runs.get(*near)
    }
}

/// Returns the next stretch at or after `from` that composing could change. It ends before a
/// character that composing leaves alone.
fn next_stretch(text: &str, from: usize) -> Option<(usize, usize)> {
    let at = next_unstable(text.as_bytes(), from)?;
    // It may compose with the character before it.
    let start = text.get(from..at)?.char_indices().next_back().map_or(at, |(before, _)| from + before);
    let end = text[at..].char_indices().find(|&(_, c)| STABLE.holds(c)).map_or(text.len(), |(ahead, _)| at + ahead);
    Some((start, end))
}

/// Returns the next character at or after `from` that composing could change.
fn next_unstable(bytes: &[u8], from: usize) -> Option<usize> {
    if bytes.get(from..)?.is_ascii() {
        return None;
    }
    let stable = &*STABLE;
    let mut at = from;
    loop {
        // Characters below U+0300 never compose with the character before them.
        while let Some(block) = bytes.get(at..).and_then(<[u8]>::first_chunk::<32>)
            && block.iter().fold(0, |most, &byte| byte.max(most)) < 0xCC
        {
            at += block.len();
        }
        at += find_lead(bytes.get(at..)?)?;
        while let Some(&first @ 0xCC..) = bytes.get(at) {
            let second = bytes.get(at + 1).copied().unwrap_or_default();
            let length = match stable.of_two(first, second) {
                Some(length) => length,
                None => {
                    let (code, length) = decode(bytes, at)?;
                    if !stable.holds_code(code) {
                        return Some(at);
                    }
                    length
                }
            };
            at += length;
        }
    }
}

/// Returns the place of the first byte from 0xCC on.
fn find_lead(bytes: &[u8]) -> Option<usize> {
    const EACH: u64 = u64::MAX / 0xFF;
    let (words, rest) = bytes.as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        // The highest bit of each byte that has it, and whose other bits reach it with 0x34 more.
        let found = ((word & (EACH * 0x7F)) + EACH * 0x34) & word & (EACH * 0x80);
        if found != 0 {
            return Some(at * 8 + found.trailing_zeros() as usize / 8);
        }
    }
    rest.iter().position(|&byte| byte >= 0xCC).map(|at| words.len() * 8 + at)
}

/// The characters that composing leaves alone whatever precedes them.
struct Stable {
    /// One bit for each.
    bits: Vec<u64>,
    /// For the first two bytes of a character, its length if they tell that it is one of them;
    /// otherwise 0.
    two_bytes: Box<[[u8; 64]; 64]>,
}

static STABLE: LazyLock<Stable> = LazyLock::new(|| {
    let mut bits = vec![0u64; char::MAX as usize / 64 + 1];
    let mut two_bytes = Box::new([[0; 64]; 64]);
    for c in '\0'..=char::MAX {
        let is_stable = canonical_combining_class(c) == 0 && is_nfc_quick(std::iter::once(c)) == IsNormalized::Yes;
        if is_stable {
            bits[c as usize / 64] |= 1 << (c as u32 % 64);
        }
        let mut encoded = [0; 4];
        if let [first, second, rest @ ..] = c.encode_utf8(&mut encoded).as_bytes() {
            let length = &mut two_bytes[usize::from(first & 0x3F)][usize::from(second & 0x3F)];
            let is_first = rest.iter().all(|&byte| byte == 0x80);
            *length = if is_stable && (is_first || *length > 0) { c.len_utf8() as u8 } else { 0 };
        }
    }
    Stable { bits, two_bytes }
});

impl Stable {
    fn holds(&self, c: char) -> bool {
        self.holds_code(c as usize)
    }

    fn holds_code(&self, code: usize) -> bool {
        self.bits.get(code / 64).is_some_and(|bits| bits >> (code % 64) & 1 == 1)
    }

    /// Returns the length of a character if its first two bytes tell that it is one of them.
    #[inline]
    fn of_two(&self, first: u8, second: u8) -> Option<usize> {
        let length = self.two_bytes[usize::from(first & 0x3F)][usize::from(second & 0x3F)];
        (length > 0).then_some(usize::from(length))
    }
}

#[cfg(test)]
mod tests {
    use super::{NormalizedText, STABLE, find_lead};

    #[test]
    fn a_lead_byte_is_found_wherever_it_is() {
        for byte in 0..=u8::MAX {
            for at in 0..20 {
                let mut bytes = [0xCB; 20];
                bytes[at] = byte;
                assert_eq!(find_lead(&bytes), (byte >= 0xCC).then_some(at), "{byte} at {at}");
            }
        }
    }

    #[test]
    fn two_bytes_tell_only_what_all_their_characters_are() {
        for c in '\u{80}'..=char::MAX {
            let mut encoded = [0; 4];
            let bytes = c.encode_utf8(&mut encoded).as_bytes();
            if let Some(length) = STABLE.of_two(bytes[0], bytes[1]) {
                assert!(length == bytes.len() && STABLE.holds(c), "{c:?}");
            }
        }
        assert_eq!(STABLE.of_two(0xE4, 0xB8), Some(3), "Chinese is told by two bytes");
    }

    #[test]
    fn a_mark_is_found_wherever_it_is() {
        for (plain, marked, composed) in [("a", "e\u{301}", "é"), ("文", "か\u{3099}", "が")] {
            for before in 0..70 {
                for after in [0, 1, 40] {
                    let around = |middle: &str| plain.repeat(before) + middle + &plain.repeat(after);
                    assert_eq!(NormalizedText::composed(&around(marked)).text, around(composed));
                    assert!(!NormalizedText::composed(&around(composed)).is_changed());
                }
            }
        }
    }
}
