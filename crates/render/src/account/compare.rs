//! Comparison of a text with the pieces of a prompt that come from it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use rolecall_conversation::{Json, json};

use super::Change;

/// A piece of a prompt that comes from a text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fragment<'p> {
    pub text: &'p str,
    /// The offset of the piece in the text, if it is a verbatim part of it and known.
    pub offset: Option<usize>,
    /// The offset of the piece in the prompt, if it is known.
    pub at: Option<usize>,
}

/// What the pieces of a prompt tell about a leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    Written,
    /// Some of its bytes are missing.
    InPart(Vec<Range<usize>>),
    /// It is there in another form.
    Changed(Change),
    /// No piece comes from it, but the run read it.
    Seen,
    /// Nothing is known of it.
    Unseen,
}

/// How many times its own length is searched in a text at most for pieces whose place in it is not known. Those that
/// come later count as rewritten, so that nothing is taken for written that was not compared.
const MOST_SEARCHES: usize = 64;

/// The bytes that may be searched in a text of any length.
const SMALL: usize = 1 << 16;

/// Compares a text with the pieces of a prompt that come from it, in the order of the prompt. White
/// space at the ends of the text does not count.
pub(crate) fn compare(text: &str, fragments: &[Fragment<'_>], prompt: &str) -> Sign {
    let kept = text.trim_start();
    let start = text.len() - kept.len();
    let within = start..start + kept.trim_end().len();
    let (mut covered, mut change) = (Cover::default(), None);
    let (mut furthest, mut left) = (0, text.len().saturating_mul(MOST_SEARCHES).saturating_add(SMALL));
    for fragment in fragments {
        let range = match fragment.offset {
            Some(offset) => {
                let range = offset..offset + fragment.text.len();
                // A part that was not written yet comes after a later one.
                let is_all = offset <= within.start && range.end >= within.end;
                if !is_all && offset < furthest && !covered.has(&range) {
                    change = Some(Change::Rewritten);
                }
                Some(range)
            }
            None => {
                let found = if left == 0 { None } else { find(text, fragment.text, furthest) };
                left = left.saturating_sub(found.as_ref().map_or(text.len(), |(range, _)| range.len()) + 1);
                match found {
                    Some((range, how)) => {
                        change = how.or(change);
                        Some(range)
                    }
                    // A quote that the template put around it.
                    None if fragment.text.trim_matches(['"', '\'']).trim().is_empty() => None,
                    None => {
                        change = Some(Change::Rewritten);
                        None
                    }
                }
            }
        };
        if let Some(range) = range {
            furthest = furthest.max(range.end);
            covered.add(range);
        }
    }
    if fragments.windows(2).any(|pair| is_divided(pair, prompt)) {
        change = change.or(Some(Change::Rewritten));
    }
    let mut missing = covered.gaps(within);
    if missing.len().saturating_mul(fragments.len()) <= SMALL {
        missing.retain(|gap| !is_spelled(text, gap, fragments, prompt));
    }
    match (change, missing.is_empty()) {
        (Some(change), true) => Sign::Changed(change),
        (Some(Change::Rewritten), false) => Sign::Changed(changed_all(text, fragments)),
        (_, false) => Sign::InPart(missing),
        (None, true) => Sign::Written,
    }
}

/// Reports whether the template writes something of its own between two parts of a text that belong together.
fn is_divided(pair: &[Fragment<'_>], prompt: &str) -> bool {
    let [Fragment { text, offset: Some(offset), at: Some(at) }, Fragment { offset: Some(next), at: Some(later), .. }] =
        pair
    else {
        return false;
    };
    let between = || prompt.get(at + text.len()..*later);
    offset + text.len() == *next && between().is_some_and(|between| !between.is_empty())
}

/// The parts of a text that are written: ranges that neither overlap nor touch, by their starts.
#[derive(Clone, Debug, Default)]
struct Cover(BTreeMap<usize, usize>);

impl Cover {
    fn add(&mut self, Range { mut start, mut end }: Range<usize>) {
        while let Some((&first, &last)) = self.0.range(..=end).next_back().filter(|(_, last)| **last >= start) {
            self.0.remove(&first);
            (start, end) = (start.min(first), end.max(last));
        }
        self.0.insert(start, end);
    }

    fn has(&self, range: &Range<usize>) -> bool {
        range.is_empty() || self.0.range(..=range.start).next_back().is_some_and(|(_, end)| *end >= range.end)
    }

    /// Returns the parts of a range that are not covered.
    fn gaps(&self, within: Range<usize>) -> Vec<Range<usize>> {
        let (mut at, mut gaps) = (within.start, Vec::new());
        for (&start, &end) in self.0.range(..within.end) {
            if start > at {
                gaps.push(at..start);
            }
            at = at.max(end);
        }
        if at < within.end {
            gaps.push(at..within.end);
        }
        gaps
    }
}

/// Returns how a text was changed if only all of its pieces together tell.
fn changed_all(text: &str, fragments: &[Fragment<'_>]) -> Change {
    let joined: String = fragments.iter().map(|fragment| fragment.text).collect();
    find(text, &joined, 0).and_then(|(_, change)| change).unwrap_or(Change::Rewritten)
}

/// Reports whether the template itself spells a missing part where it was, such as the tags around
/// reasoning that it takes out of a content and puts back.
fn is_spelled(text: &str, gap: &Range<usize>, fragments: &[Fragment<'_>], prompt: &str) -> bool {
    let Some(gone) = text.get(gap.clone()) else { return false };
    let said = gone.trim();
    let before = |at: usize| {
        let before = prompt.get(..at).unwrap_or_default();
        if said.is_empty() { before.ends_with(gone) } else { before.trim_end().ends_with(said) }
    };
    let after = |at: usize| {
        let after = prompt.get(at..).unwrap_or_default();
        if said.is_empty() { after.starts_with(gone) } else { after.trim_start().starts_with(said) }
    };
    fragments.iter().any(|fragment| match (fragment.offset, fragment.at) {
        (Some(offset), Some(at)) if offset == gap.end => before(at),
        (Some(offset), Some(at)) if offset + fragment.text.len() == gap.start => after(at + fragment.text.len()),
        _ => false,
    })
}

/// Returns the part of a text that a piece stands for, and how it was changed. Quoting for JSON is
/// no change. The part is searched from a byte on, and then in the whole text.
fn find(text: &str, piece: &str, from: usize) -> Option<(Range<usize>, Option<Change>)> {
    let there = |piece: &str| {
        let later = text.get(from..).and_then(|rest| Some(from + rest.find(piece)?));
        let at = later.or_else(|| text.find(piece)).filter(|_| !piece.is_empty())?;
        Some(at..at + piece.len())
    };
    if let Some(range) = there(piece) {
        return Some((range, None));
    }
    let trimmed = piece.trim();
    if let Some(range) = there(trimmed) {
        return Some((range, None));
    }
    if let Some(range) = there(&without_quotes(trimmed, '"')) {
        return Some((range, None));
    }
    if let Some(range) = without_python(trimmed).as_deref().and_then(there) {
        return Some((range, Some(Change::PythonValue)));
    }
    let html = without_entities(trimmed);
    if let Cow::Owned(html) = &html
        && let Some(range) = there(html).or_else(|| there(&without_quotes(html, '"')))
    {
        return Some((range, Some(Change::HtmlEscaped)));
    }
    // The case of some letters changes their length, so the range is only known to be the whole.
    let is_same = text.trim().to_lowercase() == trimmed.to_lowercase();
    is_same.then_some((0..text.len(), Some(Change::LetterCase)))
}

/// Returns the text of a JSON string, of which a quote may be missing at either end.
fn without_quotes(piece: &str, quote: char) -> Cow<'_, str> {
    let inner = piece.strip_prefix(quote).unwrap_or(piece);
    // A quote at the end that belongs to the text is escaped.
    let ends = inner.ends_with(quote) && {
        let before = &inner[..inner.len() - 1];
        (before.len() - before.trim_end_matches('\\').len()).is_multiple_of(2)
    };
    let inner = if ends { &inner[..inner.len() - 1] } else { inner };
    if !inner.contains('\\') {
        return Cow::Borrowed(inner);
    }
    match json::parse(&format!("\"{inner}\"")) {
        Ok(Json::String(text)) => Cow::Owned(text),
        _ => Cow::Borrowed(inner),
    }
}

/// Returns the text of a Python string in single quotes.
fn without_python(piece: &str) -> Option<String> {
    let inner = piece.strip_prefix('\'')?.strip_suffix('\'')?;
    let mut text = String::with_capacity(inner.len());
    let mut rest = inner.chars();
    while let Some(c) = rest.next() {
        let escaped = if c == '\\' {
            rest.next()?
        } else {
            text.push(c);
            continue;
        };
        let digits = match escaped {
            'x' => 2,
            'u' => 4,
            'U' => 8,
            'n' | 'r' | 't' => {
                text.push(match escaped {
                    'n' => '\n',
                    'r' => '\r',
                    _ => '\t',
                });
                continue;
            }
            other => {
                text.push(other);
                continue;
            }
        };
        let code: String = rest.by_ref().take(digits).collect();
        text.push(char::from_u32(u32::from_str_radix(&code, 16).ok()?)?);
    }
    Some(text)
}

/// Returns a text with its HTML entities decoded.
fn without_entities(piece: &str) -> Cow<'_, str> {
    if !piece.contains('&') {
        return Cow::Borrowed(piece);
    }
    let mut decoded = piece.to_owned();
    for (entity, character) in ENTITIES {
        decoded = decoded.replace(entity, character);
    }
    Cow::Owned(decoded)
}

/// The entities that Jinja's escaping writes, with `&amp;` last.
pub(crate) const ENTITIES: [(&str, &str); 5] =
    [("&#34;", "\""), ("&#39;", "'"), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")];

#[cfg(test)]
mod tests {
    use super::*;

    fn known(text: &str, offset: usize) -> Fragment<'_> {
        Fragment { text, offset: Some(offset), at: None }
    }

    fn changed(text: &str) -> Fragment<'_> {
        Fragment { text, offset: None, at: None }
    }

    fn in_part(missing: std::ops::Range<usize>) -> Sign {
        Sign::InPart([missing].into())
    }

    #[test]
    fn white_space_at_the_ends_is_not_missed_and_any_other_is() {
        assert_eq!(compare("  a b  ", &[known("a b", 2)], ""), Sign::Written);
        assert_eq!(compare(" a  b", &[known("a", 1), known("b", 4)], ""), in_part(2..4));
        assert_eq!(compare("ab", &[known("b", 1)], ""), in_part(0..1));
    }

    #[test]
    fn repeated_pieces_cover_a_text_and_pieces_in_another_order_change_it() {
        assert_eq!(compare("abcd", &[known("ab", 0), known("cd", 2), known("ab", 0)], ""), Sign::Written);
        assert_eq!(compare("abcd", &[known("cd", 2), known("abcd", 0)], ""), Sign::Written);
        let swapped = compare("abcd", &[known("cd", 2), known("ab", 0)], "");
        assert_eq!(swapped, Sign::Changed(Change::Rewritten));
    }

    #[test]
    fn a_text_that_is_written_letter_by_letter_is_changed() {
        let piece = |text, offset, at| Fragment { text, offset: Some(offset), at: Some(at) };
        let pieces = |ats: [usize; 2]| [piece("a", 0, ats[0]), piece("b", 1, ats[1])];
        assert_eq!(compare("ab", &pieces([0, 3]), "a, b"), Sign::Changed(Change::Rewritten));
        assert_eq!(compare("ab", &pieces([0, 2]), "a b"), Sign::Changed(Change::Rewritten));
        assert_eq!(compare("ab", &pieces([0, 1]), "ab"), Sign::Written);
    }

    #[test]
    fn each_form_of_a_text_is_recognized() {
        assert_eq!(compare("a\n\"b\"", &[changed(r#""a\n\"b\"""#)], ""), Sign::Written);
        assert_eq!(compare("it's", &[changed(r"'it\'s'")], ""), Sign::Changed(Change::PythonValue));
        assert_eq!(
            compare("a<b", &[known("a", 0), changed("&lt;"), known("b", 2)], ""),
            Sign::Changed(Change::HtmlEscaped)
        );
        assert_eq!(compare("Paris", &[changed("PARIS")], ""), Sign::Changed(Change::LetterCase));
        assert_eq!(compare("Paris", &[changed("Rome")], ""), Sign::Changed(Change::Rewritten));
        // Letters in another order.
        assert_eq!(
            compare("abc", &[known("c", 2), known("b", 1), known("a", 0)], ""),
            Sign::Changed(Change::Rewritten)
        );
        // A part of it, quoted.
        assert_eq!(compare("a b", &[changed("\"a\"")], ""), in_part(1..3));
    }

    #[test]
    fn what_the_template_spells_itself_is_not_missing() {
        let prompt = "<think>\nR\n</think>\n\nA";
        let fragments = [("R", 7, 8), ("A", 16, 20)];
        let fragments = fragments.map(|(text, offset, at)| Fragment { text, offset: Some(offset), at: Some(at) });
        assert_eq!(compare("<think>R</think>A", &fragments, prompt), Sign::Written);
        assert_eq!(compare("<think>R</think>A", &fragments[1..], "\nA"), in_part(0..16));
    }

    #[test]
    fn the_work_grows_with_the_text_however_a_template_writes_it() {
        let text = "ab ".repeat(1 << 17);
        let letters = |at: usize| Fragment { text: &text[at..=at], offset: Some(at), at: Some(at) };
        let backwards: Vec<Fragment<'_>> = (0..text.len()).rev().map(letters).collect();
        let odd: Vec<Fragment<'_>> = (0..text.len()).step_by(2).map(letters).collect();
        let other = vec![changed("AB"); text.len()];
        let began = std::time::Instant::now();
        assert_eq!(compare(&text, &backwards, &text), Sign::Changed(Change::Rewritten));
        assert!(matches!(compare(&text, &odd, &text), Sign::InPart(missing) if missing.len() > 1 << 16));
        assert_eq!(compare(&text, &other, &text), Sign::Changed(Change::Rewritten));
        assert!(began.elapsed().as_secs() < 20);
    }
}
