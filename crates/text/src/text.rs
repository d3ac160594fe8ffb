use std::fmt;
use std::ops::Range;

/// The source of a piece of text. The number has no meaning in this crate; the caller assigns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Source(pub u32);

/// A run of text from one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// The text.
    pub text: &'a str,
    /// The source.
    pub source: Source,
    /// The byte offset in the whole text.
    pub start: usize,
}

/// A string that records the [`Source`] of every byte.
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
    /// The end of each piece with its source, in ascending order. An end can repeat, because a
    /// piece can be empty: it then marks a place.
    ends: Vec<(usize, Source)>,
}

impl Text {
    /// Creates an empty text.
    pub fn new() -> Text {
        Text::default()
    }

    /// Creates an empty text with capacity for a number of bytes and pieces.
    pub fn with_capacity(bytes: usize, pieces: usize) -> Text {
        Text { characters: String::with_capacity(bytes), ends: Vec::with_capacity(pieces) }
    }

    /// Creates a text from its characters, and the end and source of each piece.
    ///
    /// Returns `None` if the ends are not ascending, are not on character boundaries, or do not
    /// reach the end of the characters.
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

    /// Appends characters. They join the last piece if it has the same source. Appending an empty
    /// string does nothing.
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

    /// Appends characters as a separate piece, even if they are empty. Two control tokens in a row
    /// stay separate, and an empty piece can mark a place.
    #[inline]
    pub fn push_apart(&mut self, characters: &str, source: Source) {
        self.characters.push_str(characters);
        self.ends.push((self.characters.len(), source));
    }

    /// Appends another text, with its pieces unchanged.
    #[inline]
    pub fn append(&mut self, other: &Text) {
        let shift = self.characters.len();
        self.characters.push_str(&other.characters);
        self.ends.extend(other.ends.iter().map(|&(end, source)| (end + shift, source)));
    }

    /// Appends another text. If both meet in pieces of the source `joined`, these become one piece.
    #[inline]
    pub fn append_joining(&mut self, other: &Text, joined: Source) {
        let meet = self.ends.last().is_some_and(|last| last.1 == joined);
        if meet && other.ends.first().is_some_and(|first| first.1 == joined) {
            self.ends.pop();
        }
        self.append(other);
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        self.characters.len()
    }

    /// Reports whether the text has no characters.
    pub fn is_empty(&self) -> bool {
        self.characters.is_empty()
    }

    /// Returns the pieces in order, including empty ones.
    pub fn pieces(&self) -> Pieces<'_> {
        Pieces { text: self, next: 0, start: 0 }
    }

    /// Returns the pieces from a byte offset on, with the first one cut at the offset.
    ///
    /// The offset must be on a character boundary. Empty pieces directly before it are left out.
    pub fn pieces_from(&self, start: usize) -> Pieces<'_> {
        let next = match start {
            0 => 0,
            start => self.ends.partition_point(|&(end, _)| end <= start),
        };
        Pieces { text: self, next, start: start.min(self.characters.len()) }
    }

    /// Returns the pieces that overlap a range, cut at its ends. The range must be on character
    /// boundaries.
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

    /// Returns the source of the byte at an offset.
    pub fn source_at(&self, offset: usize) -> Option<Source> {
        let at = self.ends.partition_point(|&(end, _)| end <= offset);
        self.ends.get(at).map(|&(_, source)| source)
    }

    /// Returns a part of the text with its sources, or `None` if the range is not on character
    /// boundaries.
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

    /// Returns the text without white space at either end.
    pub fn trim(&self) -> Text {
        self.trim_matches(char::is_whitespace)
    }

    /// Returns the text without unwanted characters at either end.
    pub fn trim_matches(&self, unwanted: impl Fn(char) -> bool) -> Text {
        let start = self.characters.len() - self.characters.trim_start_matches(&unwanted).len();
        let kept = self.characters[start..].trim_end_matches(&unwanted).len();
        self.slice(start..start + kept).expect("trimming ends on character borders")
    }

    /// Applies a function to the characters of every piece. Each result keeps the source of its
    /// piece.
    pub fn map(&self, mut change: impl FnMut(&str) -> String) -> Text {
        let mut changed = Text::with_capacity(self.len(), self.ends.len());
        for piece in self.pieces() {
            changed.push_apart(&change(piece.text), piece.source);
        }
        changed
    }

    /// Returns the characters without their sources.
    pub fn plain(&self) -> &str {
        &self.characters
    }

    /// Converts the text to its characters, without a copy.
    pub fn into_plain(self) -> String {
        self.characters
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.pieces().map(|piece| (piece.source.0, piece.text))).finish()
    }
}

/// An iterator over the pieces of a [`Text`], in order.
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
        // An empty piece directly before a byte is left out, unless it is at the start of the text.
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
        // Pieces are joined only in the given source, and only if both have it.
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
