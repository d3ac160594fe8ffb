//! Strings that know where they came from. A [`Str`] does not turn into `str` by accident: [`Str::plain`] is the way.

use std::ops::Range;
use std::rc::Rc;

use super::builder::Builder;
use crate::error::Res;
use crate::limits::Charge;
use crate::output::{MarkId, Offset, Origin, Run};
use crate::vm::World;

/// A string of one origin, borrowed from the template or from an input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice<'a> {
    pub(crate) text: &'a str,
    pub(crate) origin: Origin,
}

/// A string.
#[derive(Clone, Debug)]
pub(crate) enum Str<'a> {
    Slice(Slice<'a>),
    Joined(Rc<Joined>),
}

/// A string that was put together, with the origin of each of its pieces.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(super) text: Box<str>,
    pub(super) runs: Box<[Run]>,
    /// Marked as safe HTML (Python's `Markup`): strings that are added to it are escaped.
    pub(super) is_markup: bool,
    pub(super) _charge: Charge,
}

/// A run of a string.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'s> {
    pub(crate) text: &'s str,
    pub(crate) origin: Origin,
    pub(crate) mark: MarkId,
}

impl<'a> Str<'a> {
    /// Text that the engine makes, which must be static.
    pub(crate) fn engine(text: &'static str) -> Str<'a> {
        Str::Slice(Slice { text, origin: Origin::Engine })
    }

    pub(crate) fn empty() -> Str<'a> {
        Str::engine("")
    }

    /// Text that the engine makes.
    pub(crate) fn made(world: &World<'a>, text: String) -> Res<Str<'a>> {
        let mut builder = Builder::new(world);
        builder.push(&text, Origin::Engine)?;
        builder.finish()
    }

    pub(crate) fn input(text: &'a str, tag: crate::Tag) -> Str<'a> {
        Str::Slice(Slice { text, origin: Origin::Input { tag, offset: Offset::new(0) } })
    }

    /// The characters, without their origin.
    pub(crate) fn plain(&self) -> &str {
        match self {
            Str::Slice(slice) => slice.text,
            Str::Joined(joined) => &joined.text,
        }
    }

    /// What it costs to copy it.
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

    /// The same text, as safe HTML or not.
    pub(crate) fn with_markup(self, world: &World<'a>, is_markup: bool) -> Res<Str<'a>> {
        if self.is_markup() == is_markup {
            return Ok(self);
        }
        let mut builder = Builder::new(world);
        builder.push_str(&self)?;
        builder.finish_as(is_markup)
    }

    /// The parts of a range, in order.
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

    /// The origin of the byte at an offset; at the end, that of the last one.
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

    /// A part of the string; the range lies on character borders.
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

    /// The range that `part`, a piece of [`Str::plain`], takes up.
    pub(crate) fn range_of(&self, part: &str) -> Range<usize> {
        let start = (part.as_ptr() as usize).saturating_sub(self.plain().as_ptr() as usize).min(self.plain().len());
        start..(start + part.len()).min(self.plain().len())
    }

    /// Each part's characters through a function; what comes out has the origin of what went in.
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

/// See [`Str::parts`].
#[derive(Clone)]
pub(crate) struct Parts<'s> {
    text: &'s str,
    runs: &'s [Run],
    /// The origin of the whole text, where it has but one.
    single: Option<Origin>,
    /// Where the first of the runs begins.
    run_start: usize,
    start: usize,
    end: usize,
}

impl<'s> Parts<'s> {
    /// All parts of a text by the runs that cover it.
    pub(super) fn of_runs(text: &'s str, runs: &'s [Run]) -> Parts<'s> {
        Parts { text, runs, single: None, run_start: 0, start: 0, end: text.len() }
    }

    /// What it costs to copy them.
    pub(crate) fn weight(&self) -> usize {
        self.text.len() + size_of_val(self.runs)
    }

    /// The whole text.
    pub(crate) fn text(&self) -> &'s str {
        self.text
    }
}

impl<'s> Iterator for Parts<'s> {
    type Item = Part<'s>;

    fn next(&mut self) -> Option<Part<'s>> {
        if self.start >= self.end {
            return None;
        }
        if let Some(origin) = self.single {
            let part = Part {
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
        let part = Part { text: &self.text[self.start..end], origin, mark: run.mark };
        self.run_start = end;
        self.start = end;
        Some(part)
    }
}
