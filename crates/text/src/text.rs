use std::fmt;
use std::ops::Range;

/// What wrote a piece of text: a number that means nothing here and everything to whoever gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Source(pub u32);

/// A run of text with one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// The characters.
    pub text: &'a str,
    /// What wrote them.
    pub source: Source,
    /// Where they begin in the whole text, in bytes.
    pub start: usize,
}

/// One string whose every byte knows its [`Source`].
///
/// ```
/// use rolecall_text::{Source, Text};
/// let mut text = Text::new();
/// text.push("ab", Source(1));
/// text.push("c", Source(2));
/// assert_eq!(text.source_at(2), Some(Source(2)));
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Text {
    characters: String,
    /// Where each piece ends, in ascending order; an end may repeat (an empty piece is a mark that holds a place).
    ends: Vec<(usize, Source)>,
}

impl Text {
    /// An empty text.
    pub fn new() -> Text {
        Text::default()
    }

    /// An empty text with room for so many bytes and pieces.
    pub fn with_capacity(bytes: usize, pieces: usize) -> Text {
        Text { characters: String::with_capacity(bytes), ends: Vec::with_capacity(pieces) }
    }

    /// A text of characters that are there already, told where each piece ends and what wrote it; none if the ends do not
    /// ascend to the last byte over character borders.
    ///
    /// ```
    /// use rolecall_text::{Source, Text};
    /// let text = Text::from_ends("abc".to_owned(), vec![(2, Source(1)), (3, Source(2))]);
    /// assert_eq!(text.and_then(|text| text.source_at(2)), Some(Source(2)));
    /// assert_eq!(Text::from_ends("abc".to_owned(), vec![(2, Source(1))]), None);
    /// ```
    pub fn from_ends(characters: String, ends: Vec<(usize, Source)>) -> Option<Text> {
        let is_right = ends.is_sorted_by_key(|&(end, _)| end)
            && ends.last().map_or(0, |&(end, _)| end) == characters.len()
            && ends.iter().all(|&(end, _)| characters.is_char_boundary(end));
        is_right.then_some(Text { characters, ends })
    }

    /// Appends characters; they join the last piece if it has the same source. Nothing to append leaves no trace.
    #[inline]
    pub fn push(&mut self, characters: &str, source: Source) {
        if characters.is_empty() {
            return;
        }
        self.characters.push_str(characters);
        let end = self.characters.len();
        match self.ends.last_mut() {
            Some(last) if last.1 == source => last.0 = end,
            _ => self.ends.push((end, source)),
        }
    }

    /// Appends characters as a piece of its own, even an empty one: two control tokens in a row stay two, and a mark stays.
    #[inline]
    pub fn push_apart(&mut self, characters: &str, source: Source) {
        self.characters.push_str(characters);
        self.ends.push((self.characters.len(), source));
    }

    /// Appends another text, piece by piece, as it is.
    #[inline]
    pub fn append(&mut self, other: &Text) {
        let shift = self.characters.len();
        self.characters.push_str(&other.characters);
        self.ends.extend(other.ends.iter().map(|&(end, source)| (end + shift, source)));
    }

    /// Appends another text; where both meet in this source, the two pieces become one.
    #[inline]
    pub fn append_joining(&mut self, other: &Text, joined: Source) {
        let meet = self.ends.last().is_some_and(|last| last.1 == joined);
        if meet && other.ends.first().is_some_and(|first| first.1 == joined) {
            self.ends.pop();
        }
        self.append(other);
    }

    /// The bytes in all.
    pub fn len(&self) -> usize {
        self.characters.len()
    }

    /// Whether there are no characters.
    pub fn is_empty(&self) -> bool {
        self.characters.is_empty()
    }

    /// The pieces in order, empty ones too.
    pub fn pieces(&self) -> Pieces<'_> {
        Pieces { text: self, next: 0, start: 0 }
    }

    /// The pieces from a byte on, the first one cut there; it lies on a character border. Empty pieces right before it are
    /// left out.
    pub fn pieces_from(&self, start: usize) -> Pieces<'_> {
        let next = match start {
            0 => 0,
            start => self.ends.partition_point(|&(end, _)| end <= start),
        };
        Pieces { text: self, next, start: start.min(self.characters.len()) }
    }

    /// The pieces that touch a range, cut at its ends; none where the range does not lie on character borders.
    pub fn pieces_in(&self, range: Range<usize>) -> impl Iterator<Item = Piece<'_>> {
        let next = self.ends.partition_point(|&(end, _)| end <= range.start);
        let start = next.checked_sub(1).map_or(0, |before| self.ends[before].0);
        let touching = Pieces { text: self, next, start }.take_while(move |piece| piece.start < range.end);
        touching.filter_map(move |piece| {
            let from = piece.start.max(range.start);
            let to = (piece.start + piece.text.len()).min(range.end);
            Some(Piece { text: self.characters.get(from..to)?, source: piece.source, start: from })
        })
    }

    /// What wrote the byte at this offset.
    pub fn source_at(&self, offset: usize) -> Option<Source> {
        let at = self.ends.partition_point(|&(end, _)| end <= offset);
        self.ends.get(at).map(|&(_, source)| source)
    }

    /// A part of the text with its sources; none if the range does not lie on character borders.
    pub fn slice(&self, range: Range<usize>) -> Option<Text> {
        let characters = self.characters.get(range.clone())?;
        let first = self.ends.partition_point(|&(end, _)| end <= range.start);
        let mut part = Text::with_capacity(characters.len(), 4);
        part.characters.push_str(characters);
        for &(end, source) in &self.ends[first..] {
            part.ends.push((end.min(range.end) - range.start, source));
            if end >= range.end {
                break;
            }
        }
        if characters.is_empty() {
            part.ends.clear();
        }
        Some(part)
    }

    /// The text without white space at either end.
    pub fn trim(&self) -> Text {
        self.trim_matches(char::is_whitespace)
    }

    /// The text without the characters at either end that the caller names.
    pub fn trim_matches(&self, unwanted: impl Fn(char) -> bool) -> Text {
        let start = self.characters.len() - self.characters.trim_start_matches(&unwanted).len();
        let kept = self.characters[start..].trim_end_matches(&unwanted).len();
        self.slice(start..start + kept).expect("trimming ends on character borders")
    }

    /// Every piece's characters through a function; each result has the source of its piece.
    pub fn map(&self, mut change: impl FnMut(&str) -> String) -> Text {
        let mut changed = Text::with_capacity(self.len(), self.ends.len());
        for piece in self.pieces() {
            changed.push_apart(&change(piece.text), piece.source);
        }
        changed
    }

    /// The characters alone; their sources are left behind.
    pub fn plain(&self) -> &str {
        &self.characters
    }

    /// The characters alone, without a copy.
    pub fn into_plain(self) -> String {
        self.characters
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.pieces().map(|piece| (piece.source.0, piece.text))).finish()
    }
}

/// The pieces of a [`Text`], in order.
#[derive(Clone, Debug)]
pub struct Pieces<'a> {
    text: &'a Text,
    next: usize,
    start: usize,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        let &(end, source) = self.text.ends.get(self.next)?;
        let piece = Piece { text: &self.text.characters[self.start..end], source, start: self.start };
        self.next += 1;
        self.start = end;
        Some(piece)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.text.ends.len() - self.next;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Pieces<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Text {
        let mut text = Text::new();
        text.push("  ab", Source(1));
        text.push("é ", Source(2));
        text.push_apart("", Source(9));
        text.push_apart("x", Source(3));
        text.push_apart("y ", Source(3));
        text
    }

    fn listed(text: &Text) -> Vec<(&str, u32)> {
        text.pieces().map(|piece| (piece.text, piece.source.0)).collect()
    }

    #[test]
    fn pieces_concatenate_to_the_text() {
        let text = sample();
        let joined: String = text.pieces().map(|piece| piece.text).collect();
        assert_eq!(joined, text.plain());
        assert_eq!(listed(&text), [("  ab", 1), ("é ", 2), ("", 9), ("x", 3), ("y ", 3)]);
    }

    #[test]
    fn neighbours_of_one_source_join_and_marks_stay() {
        let mut text = Text::new();
        text.push("a", Source(1));
        text.push("b", Source(1));
        text.push("", Source(2));
        text.push_apart("", Source(2));
        assert_eq!(listed(&text), [("ab", 1), ("", 2)]);
    }

    #[test]
    fn every_slice_keeps_the_source_of_every_byte() {
        let text = sample();
        for start in 0..=text.len() {
            for end in start..=text.len() {
                let Some(part) = text.slice(start..end) else {
                    assert!(text.plain().get(start..end).is_none());
                    continue;
                };
                assert_eq!(part.plain(), &text.plain()[start..end]);
                for offset in start..end {
                    assert_eq!(part.source_at(offset - start), text.source_at(offset), "{start}..{end} at {offset}");
                }
            }
        }
    }

    #[test]
    fn the_pieces_of_every_range_are_those_of_its_bytes() {
        let text = sample();
        for start in 0..=text.len() {
            for end in start..=text.len() {
                let Some(within) = text.plain().get(start..end) else { continue };
                let pieces: Vec<Piece<'_>> =
                    text.pieces_in(start..end).filter(|piece| !piece.text.is_empty()).collect();
                assert_eq!(pieces.iter().map(|piece| piece.text).collect::<String>(), within, "{start}..{end}");
                let mut at = start;
                for piece in pieces {
                    assert_eq!(piece.start, at, "{start}..{end}");
                    for offset in piece.start..piece.start + piece.text.len() {
                        assert_eq!(Some(piece.source), text.source_at(offset), "{start}..{end} at {offset}");
                    }
                    at += piece.text.len();
                }
            }
            if text.plain().is_char_boundary(start) {
                let rest: Vec<(&str, usize)> = text.pieces_from(start).map(|piece| (piece.text, piece.start)).collect();
                assert_eq!(rest.iter().map(|(text, _)| *text).collect::<String>(), text.plain()[start..]);
                assert!(rest.iter().all(|(text, at)| sample().plain()[*at..].starts_with(text)), "{start}: {rest:?}");
            }
        }
        // An empty piece right before a byte is left out, one at the very start is not.
        assert_eq!(text.pieces_from(7).map(|piece| piece.source.0).collect::<Vec<_>>(), [3, 3]);
        assert_eq!(text.pieces_from(0).len(), 5);
        assert_eq!(text.source_at(text.len()), None);
    }

    #[test]
    fn texts_are_joined_as_they_are_or_where_they_meet() {
        let (one, mut two) = (sample(), sample());
        two.append(&one);
        assert_eq!(two.plain(), one.plain().repeat(2));
        assert_eq!(two.pieces().len(), 10);
        for offset in 0..one.len() {
            assert_eq!(two.source_at(offset + one.len()), one.source_at(offset), "{offset}");
        }
        let text = |characters: &str, source: u32| {
            let mut text = Text::new();
            text.push(characters, Source(source));
            text
        };
        let joined = |mut first: Text, second: &Text| {
            first.append_joining(second, Source(1));
            first.pieces().map(|piece| (piece.text.to_owned(), piece.source.0)).collect::<Vec<_>>()
        };
        assert_eq!(joined(text("a", 1), &text("b", 1)), [("ab".to_owned(), 1)]);
        // Only in the source that is named, and only where both have it.
        assert_eq!(joined(text("a", 2), &text("b", 2)).len(), 2);
        assert_eq!(joined(text("a", 1), &text("b", 2)).len(), 2);
        assert_eq!(joined(text("a", 2), &text("b", 1)).len(), 2);
    }

    #[test]
    fn ends_that_do_not_fit_the_text_are_refused() {
        let from = |ends: &[usize]| {
            let ends = ends.iter().map(|end| (*end, Source(1))).collect();
            Text::from_ends("aé".to_owned(), ends).is_some()
        };
        assert!(from(&[3]) && from(&[1, 3]) && from(&[0, 1, 1, 3]));
        assert!(!from(&[2, 3]) && !from(&[3, 1]) && !from(&[1]) && !from(&[4]) && !from(&[]));
        assert!(Text::from_ends(String::new(), Vec::new()).is_some());
    }

    #[test]
    fn trimming_reaches_through_pieces() {
        let mut text = Text::new();
        text.push(" ", Source(1));
        text.push("\n a", Source(2));
        text.push(" \u{3000}", Source(3));
        assert_eq!(listed(&text.trim()), [("a", 2)]);
        let mut blank = Text::new();
        blank.push("  ", Source(1));
        assert!(blank.trim().is_empty());
    }

    #[test]
    fn a_mapped_piece_has_the_source_of_the_original() {
        assert_eq!(listed(&sample().map(str::to_uppercase))[1], ("É ", 2));
    }
}
