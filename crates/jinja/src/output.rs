use std::ops::Range;
use std::sync::Arc;

use rolecall_text::{Source, Text};

use crate::error::Location;
use crate::input::Tag;

/// The origin of a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Literal text of the template.
    Literal {
        /// The number of the literal, for [`Output::literal`] and [`crate::Template::literal`].
        id: u32,
        /// The byte offset of the piece in the literal; unknown unless the piece is a verbatim part
        /// of it.
        offset: Offset,
    },
    /// Text from the caller's input.
    Input {
        /// The caller's tag for the string or the key.
        tag: Tag,
        /// The byte offset of the piece in the string; unknown unless the piece is a verbatim part
        /// of it (unlike the result of a case change, an escape or JSON).
        offset: Offset,
    },
    /// Text that the engine generated: digits, `True`, braces and commas of a printed list. Keyword
    /// names in a template (`dict(a=1)`) also count as the engine's.
    Engine,
}

/// A byte offset in a string, which may be unknown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Offset(u32);

impl Offset {
    pub(crate) const UNKNOWN: Offset = Offset(u32::MAX);

    pub(crate) fn new(at: usize) -> Offset {
        // In strings longer than 4 GiB, offsets are known only up to that size.
        Offset(u32::try_from(at).unwrap_or(u32::MAX))
    }

    /// Returns the byte offset, if it is known.
    pub fn get(self) -> Option<usize> {
        (self.0 != u32::MAX).then_some(self.0 as usize)
    }

    fn forward(self, bytes: usize) -> Offset {
        match self.0 {
            u32::MAX => self,
            at => Offset::new(at as usize + bytes),
        }
    }
}

impl std::fmt::Debug for Offset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.get() {
            Some(at) => write!(f, "{at}"),
            None => f.write_str("?"),
        }
    }
}

impl Origin {
    /// Returns the origin of the text that follows after this many bytes of the same source.
    #[inline]
    pub(crate) fn forward(self, bytes: usize) -> Origin {
        match self {
            Origin::Literal { id, offset } => Origin::Literal { id, offset: offset.forward(bytes) },
            Origin::Input { tag, offset } => Origin::Input { tag, offset: offset.forward(bytes) },
            Origin::Engine => Origin::Engine,
        }
    }

    /// Returns the origin of text that was derived from text of this origin and is not a verbatim
    /// part of it.
    #[inline]
    pub(crate) fn changed(self) -> Origin {
        match self {
            Origin::Input { tag, .. } => Origin::Input { tag, offset: Offset::UNKNOWN },
            Origin::Literal { id, .. } => Origin::Literal { id, offset: Offset::UNKNOWN },
            Origin::Engine => Origin::Engine,
        }
    }

    /// Reports whether text of the other origin comes from the same source, at any offset.
    #[inline]
    pub(crate) fn has_source_of(self, other: Origin) -> bool {
        match (self, other) {
            (Origin::Literal { id, .. }, Origin::Literal { id: other, .. }) => id == other,
            (Origin::Input { tag, .. }, Origin::Input { tag: other, .. }) => tag == other,
            (Origin::Engine, Origin::Engine) => true,
            _ => false,
        }
    }

    /// Reports whether text of the other origin, directly after `bytes` of this one, continues it.
    #[inline]
    pub(crate) fn continues_as(self, bytes: usize, other: Origin) -> bool {
        self.forward(bytes) == other
    }
}

/// The number of a [`Mark`], or 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MarkId(pub(crate) u32);

impl MarkId {
    /// Reports whether there is a mark.
    pub fn is_some(self) -> bool {
        self.0 != 0
    }
}

/// A pass through the body of a loop over input values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The pass of the enclosing loop, if any.
    pub outer: MarkId,
    /// The loop, identified by the byte offset of its tag in the source.
    pub loop_at: u32,
    /// The caller's tag for the item; for a key-value pair, the tag of the value.
    pub item: Tag,
    /// The index of the pass, counted from 0.
    pub index: u32,
}

/// A run of output text with a single origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'o> {
    /// The text.
    pub text: &'o str,
    /// The byte offset of the text in the output.
    pub start: usize,
    /// The origin of the text.
    pub origin: Origin,
    /// The innermost pass of a loop over input values that wrote the text to the output; if no loop
    /// did, the pass that built it.
    pub mark: MarkId,
}

/// The engine's record of a [`Piece`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) origin: Origin,
    pub(crate) end: u32,
    pub(crate) mark: MarkId,
}

/// The output of a `{% generation %}` block. As in transformers, a block inside a macro or a
/// captured block starts at the position of the output when that macro or captured block began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation {
    /// The position in the output where the block starts, in bytes.
    pub start: usize,
    /// The number of bytes in the block.
    pub bytes: usize,
    /// The number of characters in the block.
    pub characters: usize,
}

/// A rendered template.
#[derive(Clone, Debug)]
pub struct Output {
    pub(crate) text: String,
    pub(crate) runs: Vec<Run>,
    pub(crate) marks: Vec<Mark>,
    pub(crate) generations: Vec<Generation>,
    pub(crate) literals: Arc<Literals>,
    pub(crate) steps: u64,
}

impl Output {
    /// Returns the number of steps that the rendering took, as [`crate::Limits::instructions`]
    /// counts them.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Returns the rendered text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Converts the output into its text without copying it.
    pub fn into_string(self) -> String {
        self.text
    }

    /// Returns the pieces in order; together they form the text.
    pub fn pieces(&self) -> impl Iterator<Item = Piece<'_>> {
        let mut start = 0;
        self.runs.iter().map(move |run| {
            let from = std::mem::replace(&mut start, run.end as usize);
            Piece { text: &self.text[from..start], start: from, origin: run.origin, mark: run.mark }
        })
    }

    /// Returns the loop pass with the given number.
    pub fn mark(&self, id: MarkId) -> Option<&Mark> {
        self.marks.get((id.0 as usize).checked_sub(1)?)
    }

    /// Returns a loop pass and the passes that enclose it, innermost first.
    pub fn marks(&self, id: MarkId) -> impl Iterator<Item = &Mark> {
        let mut next = id;
        std::iter::from_fn(move || {
            let mark = self.mark(next)?;
            next = mark.outer;
            Some(mark)
        })
    }

    /// Returns the `{% generation %}` blocks, in the order in which they ended.
    pub fn generations(&self) -> &[Generation] {
        &self.generations
    }

    /// Returns the `{% generation %}` blocks as transformers reports them: as ranges of characters
    /// of the output.
    pub fn generation_spans(&self) -> Vec<Range<usize>> {
        let mut starts: Vec<usize> = self.generations.iter().map(|generation| generation.start).collect();
        starts.sort_unstable();
        starts.dedup();
        // One pass over the text counts the characters before each start.
        let mut characters = Vec::with_capacity(starts.len());
        let (mut from, mut before) = (0, 0);
        for start in &starts {
            before += self.text.get(from..*start).map_or(0, |text| text.chars().count());
            from = *start;
            characters.push(before);
        }
        let span = |generation: &Generation| {
            let start = starts.binary_search(&generation.start).map_or(0, |at| characters[at]);
            start..start + generation.characters
        };
        self.generations.iter().map(span).collect()
    }

    /// Returns the literal with the given number.
    pub fn literal(&self, id: u32) -> Option<Literal<'_>> {
        self.literals.get(id)
    }

    /// Converts the output to a [`Text`], where the caller chooses the source of each piece.
    pub fn to_text(&self, mut source: impl FnMut(&Piece<'_>) -> Source) -> Text {
        let mut text = Text::with_capacity(self.text.len(), self.runs.len());
        for piece in self.pieces() {
            text.push(piece.text, source(&piece));
        }
        text
    }
}

/// Literal text in a template: text between tags, or a string in an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Literal<'t> {
    /// The text, with escapes resolved.
    pub text: &'t str,
    /// Whether the text is between tags rather than in quotes.
    pub is_data: bool,
    /// The byte offset in the source.
    pub offset: usize,
    source: &'t str,
}

impl Literal<'_> {
    /// Returns the location of the literal. This scans the source up to there, so call it only for
    /// locations that are shown, not for every piece.
    pub fn place(&self) -> Location {
        crate::error::place_of(self.source, self.offset)
    }
}

/// All literals of a template.
#[derive(Debug, Default)]
pub(crate) struct Literals {
    pub(crate) source: String,
    /// The concatenated texts.
    texts: String,
    entries: Vec<LiteralEntry>,
}

#[derive(Debug)]
struct LiteralEntry {
    /// The end of the text, which starts where the previous one ends.
    end: u32,
    offset: u32,
    is_data: bool,
}

impl Literals {
    /// Creates an empty table with room for the literals of a source of this many bytes.
    pub(crate) fn with_room(bytes: usize) -> Literals {
        Literals {
            source: String::new(),
            texts: String::with_capacity(bytes),
            entries: Vec::with_capacity(bytes / 64 + 8),
        }
    }

    /// Adds a literal and returns its number.
    pub(crate) fn push(&mut self, text: &str, offset: u32, is_data: bool) -> u32 {
        self.texts.push_str(text);
        self.entries.push(LiteralEntry { end: self.texts.len() as u32, offset, is_data });
        self.entries.len() as u32 - 1
    }

    /// Returns the text of each literal.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        let mut start = 0;
        self.entries.iter().map(move |entry| {
            let from = std::mem::replace(&mut start, entry.end as usize);
            &self.texts[from..start]
        })
    }

    pub(crate) fn text(&self, id: u32) -> Option<&str> {
        let end = self.entries.get(id as usize)?.end;
        let start = id.checked_sub(1).map_or(0, |before| self.entries[before as usize].end);
        self.texts.get(start as usize..end as usize)
    }

    pub(crate) fn get(&self, id: u32) -> Option<Literal<'_>> {
        let entry = self.entries.get(id as usize)?;
        let text = self.text(id)?;
        Some(Literal { text, is_data: entry.is_data, offset: entry.offset as usize, source: &self.source })
    }
}
