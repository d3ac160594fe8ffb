use std::ops::Range;
use std::sync::Arc;

use rolecall_text::{Source, Text};

use crate::error::Place;
use crate::input::Tag;

/// Where a piece of text came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Written in the template.
    Literal {
        /// Which literal: a number that [`Output::literal`] and [`crate::Template::literal`] know.
        id: u32,
        /// Where in the literal the piece begins, in bytes; none where the piece is not a verbatim part of it.
        offset: Offset,
    },
    /// From the caller's input.
    Input {
        /// What the caller calls the string, or the key.
        tag: Tag,
        /// Where in the string the piece begins, in bytes; none where the piece is not a verbatim part of it (a case
        /// change, an escape, JSON).
        offset: Offset,
    },
    /// Made by the engine without text of either: digits, `True`, braces and commas of a printed list. Names that a
    /// template gives as keywords (`dict(a=1)`) count as the engine's too.
    Engine,
}

/// A place in a string that may be unknown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Offset(u32);

impl Offset {
    pub(crate) const UNKNOWN: Offset = Offset(u32::MAX);

    pub(crate) fn new(at: usize) -> Offset {
        // Strings beyond 4 GiB have known pieces only up to there.
        Offset(u32::try_from(at).unwrap_or(u32::MAX))
    }

    /// The bytes before it, if known.
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
    /// The origin of what comes so many bytes later in the same source.
    #[inline]
    pub(crate) fn forward(self, bytes: usize) -> Origin {
        match self {
            Origin::Literal { id, offset } => Origin::Literal { id, offset: offset.forward(bytes) },
            Origin::Input { tag, offset } => Origin::Input { tag, offset: offset.forward(bytes) },
            Origin::Engine => Origin::Engine,
        }
    }

    /// The origin of text that was made from text of this origin and is not a verbatim part of it.
    #[inline]
    pub(crate) fn changed(self) -> Origin {
        match self {
            Origin::Input { tag, .. } => Origin::Input { tag, offset: Offset::UNKNOWN },
            Origin::Literal { id, .. } => Origin::Literal { id, offset: Offset::UNKNOWN },
            Origin::Engine => Origin::Engine,
        }
    }

    /// Whether text of the other origin, right behind `bytes` of this, continues it.
    #[inline]
    pub(crate) fn continues_as(self, bytes: usize, other: Origin) -> bool {
        self.forward(bytes) == other
    }
}

/// The number of a [`Mark`]; 0 is no mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MarkId(pub(crate) u32);

impl MarkId {
    /// Whether there is a mark.
    pub fn is_some(self) -> bool {
        self.0 != 0
    }
}

/// One pass through the body of a loop over input values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The pass of an outer loop inside which this one ran.
    pub outer: MarkId,
    /// Which loop: the bytes of the source before its tag.
    pub loop_at: u32,
    /// What the caller calls the item; for a pair of a key and a value, what it calls the value.
    pub item: Tag,
    /// Which pass, from 0.
    pub index: u32,
}

/// A run of output that one thing wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'o> {
    /// The characters.
    pub text: &'o str,
    /// Where they begin in the output, in bytes.
    pub start: usize,
    /// What wrote them.
    pub origin: Origin,
    /// The innermost pass of a loop over input values that emitted them (where none did: that put them together).
    pub mark: MarkId,
}

/// What the engine keeps of a [`Piece`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) origin: Origin,
    pub(crate) end: u32,
    pub(crate) mark: MarkId,
}

/// What a `{% generation %}` block wrote. As in transformers, the start of a block inside a macro or a captured block is
/// where the output stood when that began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation {
    /// Where the output stood, in bytes.
    pub start: usize,
    /// How many bytes the block wrote.
    pub bytes: usize,
    /// How many characters these are.
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
    /// The steps that the rendering took, as [`crate::Limits::instructions`] counts them.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The text alone.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text alone, without a copy.
    pub fn into_string(self) -> String {
        self.text
    }

    /// The pieces in order; they join to the text.
    pub fn pieces(&self) -> impl Iterator<Item = Piece<'_>> {
        let mut start = 0;
        self.runs.iter().map(move |run| {
            let from = std::mem::replace(&mut start, run.end as usize);
            Piece { text: &self.text[from..start], start: from, origin: run.origin, mark: run.mark }
        })
    }

    /// A pass of a loop, by its number.
    pub fn mark(&self, id: MarkId) -> Option<&Mark> {
        self.marks.get((id.0 as usize).checked_sub(1)?)
    }

    /// A mark and those around it, the innermost first.
    pub fn marks(&self, id: MarkId) -> impl Iterator<Item = &Mark> {
        let mut next = id;
        std::iter::from_fn(move || {
            let mark = self.mark(next)?;
            next = mark.outer;
            Some(mark)
        })
    }

    /// What stood inside `{% generation %}` blocks, in the order in which they ended.
    pub fn generations(&self) -> &[Generation] {
        &self.generations
    }

    /// The same as transformers gives them: in characters of the output.
    pub fn generation_spans(&self) -> Vec<Range<usize>> {
        let mut starts: Vec<usize> = self.generations.iter().map(|generation| generation.start).collect();
        starts.sort_unstable();
        starts.dedup();
        // One walk over the text gives the characters before each start.
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

    /// A literal of the template.
    pub fn literal(&self, id: u32) -> Option<Literal<'_>> {
        self.literals.get(id)
    }

    /// The output as a [`Text`], with the sources that the caller gives the pieces.
    pub fn to_text(&self, mut source: impl FnMut(&Piece<'_>) -> Source) -> Text {
        let mut text = Text::with_capacity(self.text.len(), self.runs.len());
        for piece in self.pieces() {
            text.push(piece.text, source(&piece));
        }
        text
    }
}

/// Text that is written in a template: between its tags, or as a string in an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Literal<'t> {
    /// The characters, without escapes.
    pub text: &'t str,
    /// Whether it stands between tags (and not in quotes).
    pub is_data: bool,
    /// The bytes of the source before it.
    pub offset: usize,
    source: &'t str,
}

impl Literal<'_> {
    /// Where it begins. This reads the source up to there: ask for the places that are shown, not for those of all pieces.
    pub fn place(&self) -> Place {
        crate::error::place_of(self.source, self.offset)
    }
}

/// All literals of a template.
#[derive(Debug, Default)]
pub(crate) struct Literals {
    pub(crate) source: String,
    /// Their characters, one behind the other.
    texts: String,
    entries: Vec<LiteralEntry>,
}

#[derive(Debug)]
struct LiteralEntry {
    /// Where its characters end; they begin where those before it end.
    end: u32,
    offset: u32,
    is_data: bool,
}

impl Literals {
    /// None yet, with room for those of a source of so many bytes.
    pub(crate) fn with_room(bytes: usize) -> Literals {
        Literals {
            source: String::new(),
            texts: String::with_capacity(bytes),
            entries: Vec::with_capacity(bytes / 64 + 8),
        }
    }

    /// Adds one, and gives its number.
    pub(crate) fn push(&mut self, text: &str, offset: u32, is_data: bool) -> u32 {
        self.texts.push_str(text);
        self.entries.push(LiteralEntry { end: self.texts.len() as u32, offset, is_data });
        self.entries.len() as u32 - 1
    }

    /// The characters of each.
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
