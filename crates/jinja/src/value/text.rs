//! Strings that track their origins. A [`Str`] converts to `str` only explicitly, with
//! [`Str::plain`].

use std::ops::Range;
use std::rc::Rc;

use super::builder::{Builder, Pieces};
use crate::error::Res;
use crate::limits::Charge;
use crate::output::{MarkId, Offset, Origin, Run};
use crate::vm::World;

/// A string with a single origin, borrowed from the template or from an input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice<'a> {
    pub(crate) text: &'a str,
    pub(crate) origin: Origin,
}

/// A string.
#[derive(Clone, Debug)]
pub(crate) enum Str<'a> {
    Slice(Slice<'a>),
    Joined(Rc<JoinedText>),
}

/// A string built from pieces, with the origin of each.
#[derive(Debug)]
pub(crate) struct JoinedText {
    pub(super) text: Box<str>,
    pub(super) runs: Box<[Run]>,
    /// Whether it is safe HTML (Python's `Markup`): strings added to it are escaped.
    pub(super) is_markup: bool,
    pub(super) _charge: Charge,
}

impl JoinedText {
    /// Returns the text, its runs, and whether it is safe HTML.
    pub(crate) fn parts(&self) -> (&str, &[Run], bool) {
        (&self.text, &self.runs, self.is_markup)
    }

    /// Creates a string from the parts of an earlier one.
    pub(crate) fn restored(world: &World<'_>, text: Box<str>, runs: Box<[Run]>, is_markup: bool) -> Res<JoinedText> {
        let bytes = text.len() + runs.len() * size_of::<Run>() + size_of::<JoinedText>();
        Ok(JoinedText { _charge: Charge::new(&world.meter, bytes)?, text, runs, is_markup })
    }
}

/// A part of a string with a single origin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StringPart<'s> {
    pub(crate) text: &'s str,
    pub(crate) origin: Origin,
    pub(crate) mark: MarkId,
}

impl<'a> Str<'a> {
    /// Creates a string from static text that the engine generates.
    pub(crate) fn engine(text: &'static str) -> Str<'a> {
        Str::Slice(Slice { text, origin: Origin::Engine })
    }

    pub(crate) fn empty() -> Str<'a> {
        Str::engine("")
    }

    /// Creates a string from text that the engine generates.
    pub(crate) fn made(world: &World<'a>, text: String) -> Res<Str<'a>> {
        let mut builder = Builder::new(world);
        builder.push(&text, Origin::Engine)?;
        builder.finish()
    }

    pub(crate) fn input(text: &'a str, tag: crate::Tag) -> Str<'a> {
        Str::Slice(Slice { text, origin: Origin::Input { tag, offset: Offset::new(0) } })
    }

    /// Creates a string from a part of a literal.
    pub(crate) fn literal(text: &'a str, id: u32, start: usize) -> Str<'a> {
        Str::Slice(Slice { text, origin: Origin::Literal { id, offset: Offset::new(start) } })
    }

    /// Returns the text without its origins.
    pub(crate) fn plain(&self) -> &str {
        match self {
            Str::Slice(slice) => slice.text,
            Str::Joined(joined) => &joined.text,
        }
    }

    /// Returns the number of bytes to copy.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Str::Slice(slice) => slice.text.len(),
            Str::Joined(joined) => joined.text.len() + joined.runs.len() * size_of::<Run>(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.plain().is_empty()
    }

    pub(crate) fn is_markup(&self) -> bool {
        matches!(self, Str::Joined(joined) if joined.is_markup)
    }

    /// Returns the same text, marked as safe HTML or not.
    pub(crate) fn with_markup(self, world: &World<'a>, is_markup: bool) -> Res<Str<'a>> {
        if self.is_markup() == is_markup {
            return Ok(self);
        }
        let mut builder = Builder::new(world);
        builder.push_str(&self)?;
        builder.finish_as(is_markup)
    }

    /// Returns the parts of a range, in order.
    pub(crate) fn parts(&self, range: Range<usize>) -> Parts<'_> {
        match self {
            Str::Slice(slice) => Parts {
                text: slice.text,
                runs: &[],
                single: Some(slice.origin),
                run_start: 0,
                start: range.start,
                end: range.end,
            },
            Str::Joined(joined) => {
                let first = joined.runs.partition_point(|run| run.end as usize <= range.start);
                let run_start = first.checked_sub(1).map_or(0, |before| joined.runs[before].end as usize);
                let runs = &joined.runs[first..];
                Parts { text: &joined.text, runs, single: None, run_start, start: range.start, end: range.end }
            }
        }
    }

    pub(crate) fn all_parts(&self) -> Parts<'_> {
        self.parts(0..self.plain().len())
    }

    /// Returns the origin of the byte at an offset, or at the end, that of the last byte.
    pub(crate) fn origin_at(&self, offset: usize) -> Origin {
        match self {
            Str::Slice(slice) => slice.origin.forward(offset),
            Str::Joined(joined) => {
                let at = joined
                    .runs
                    .partition_point(|run| run.end as usize <= offset)
                    .min(joined.runs.len().saturating_sub(1));
                let start = at.checked_sub(1).map_or(0, |before| joined.runs[before].end as usize);
                joined.runs.get(at).map_or(Origin::Engine, |run| run.origin.forward(offset.saturating_sub(start)))
            }
        }
    }

    /// Returns a substring; the range must lie on character boundaries.
    pub(crate) fn slice(&self, world: &World<'a>, range: Range<usize>) -> Res<Str<'a>> {
        match self {
            Str::Slice(slice) => {
                let origin = slice.origin.forward(range.start);
                Ok(Str::Slice(Slice { text: &slice.text[range], origin }))
            }
            Str::Joined(joined) if range == (0..joined.text.len()) => Ok(self.clone()),
            Str::Joined(joined) => {
                let mut builder = Builder::new(world);
                builder.push_range(self, range)?;
                builder.finish_as(joined.is_markup)
            }
        }
    }

    /// Returns the range of `part`, which must be a subslice of [`Str::plain`].
    pub(crate) fn range_of(&self, part: &str) -> Range<usize> {
        let start = (part.as_ptr() as usize).saturating_sub(self.plain().as_ptr() as usize).min(self.plain().len());
        start..(start + part.len()).min(self.plain().len())
    }

    /// Applies a function to the text of each part, keeping the part's origin.
    pub(crate) fn map(&self, world: &World<'a>, mut change: impl FnMut(&str) -> String) -> Res<Str<'a>> {
        let mut builder = Builder::new(world);
        for part in self.all_parts() {
            world.work(32)?;
            let changed = change(part.text);
            world.work(changed.len())?;
            let origin = if changed == part.text { part.origin } else { part.origin.changed() };
            builder.push_marked(&changed, origin, part.mark)?;
        }
        builder.finish_as(self.is_markup())
    }
}

/// An iterator over the parts of a string; see [`Str::parts`].
#[derive(Clone)]
pub(crate) struct Parts<'s> {
    text: &'s str,
    runs: &'s [Run],
    /// The origin of the whole text, if there is only one.
    single: Option<Origin>,
    /// The start of the first run.
    run_start: usize,
    start: usize,
    end: usize,
}

impl<'s> Parts<'s> {
    /// Returns the whole text.
    pub(crate) fn text(&self) -> &'s str {
        self.text
    }
}

impl<'s> Iterator for Parts<'s> {
    type Item = StringPart<'s>;

    fn next(&mut self) -> Option<StringPart<'s>> {
        if self.start >= self.end {
            return None;
        }
        if let Some(origin) = self.single {
            let part = StringPart {
                text: &self.text[self.start..self.end],
                origin: origin.forward(self.start),
                mark: MarkId::default(),
            };
            self.start = self.end;
            return Some(part);
        }
        let (run, rest) = self.runs.split_first()?;
        self.runs = rest;
        let end = (run.end as usize).min(self.end);
        let origin = run.origin.forward(self.start - self.run_start);
        let part = StringPart { text: &self.text[self.start..end], origin, mark: run.mark };
        self.run_start = end;
        self.start = end;
        Some(part)
    }
}
