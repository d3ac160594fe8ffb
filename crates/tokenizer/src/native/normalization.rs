use std::borrow::Cow;
use std::sync::LazyLock;

use unicode_normalization_alignments::char::canonical_combining_class;
use unicode_normalization_alignments::{IsNormalized, UnicodeNormalization, is_nfc_quick};

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
        if self.runs.is_empty() {
            return (start, end);
        }
        let from = match self.run(start) {
            Some(run) if run.end != NONE => run.original as usize,
            Some(run) => run.original as usize + (start - run.at as usize),
            None => start,
        };
        let to = match self.run(end.saturating_sub(1)) {
            Some(run) if run.end != NONE => run.end as usize,
            Some(run) => run.original as usize + (end - run.at as usize),
            None => end,
        };
        (from, to)
    }

    fn run(&self, at: usize) -> Option<&NormalizedRun> {
        self.runs.get(self.runs.partition_point(|run| run.at as usize <= at).checked_sub(1)?)
    }
}

/// Returns the next stretch at or after `from` that composing could change. It ends before a
/// character that composing leaves alone.
fn next_stretch(text: &str, from: usize) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    let mut at = from;
    let mut start = from;
    loop {
        // Characters below U+0300 never compose with the character before them.
        let skipped = bytes.get(at..)?.iter().position(|&byte| byte >= 0xCC)?;
        if skipped > 0 {
            at += skipped;
            start = at - 1;
            while !text.is_char_boundary(start) {
                start -= 1;
            }
        }
        let c = text[at..].chars().next()?;
        if !STABLE.holds(c) {
            break;
        }
        start = at;
        at += c.len_utf8();
    }
    let end = text[at..].char_indices().find(|&(_, c)| STABLE.holds(c)).map_or(text.len(), |(ahead, _)| at + ahead);
    Some((start, end))
}

/// The characters that composing leaves alone whatever precedes them, as a bit set.
struct Stable(Vec<u64>);

static STABLE: LazyLock<Stable> = LazyLock::new(|| {
    let mut bits = vec![0u64; char::MAX as usize / 64 + 1];
    for c in '\0'..=char::MAX {
        if canonical_combining_class(c) == 0 && is_nfc_quick(std::iter::once(c)) == IsNormalized::Yes {
            bits[c as usize / 64] |= 1 << (c as u32 % 64);
        }
    }
    Stable(bits)
});

impl Stable {
    fn holds(&self, c: char) -> bool {
        self.0.get(c as usize / 64).is_some_and(|bits| bits >> (c as u32 % 64) & 1 == 1)
    }
}
