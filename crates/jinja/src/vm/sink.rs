//! Output targets: the rendering itself, or a captured value.

use super::{Usual, World};
use crate::error::{Fault, LimitKind, Res};
use crate::limits::Charge;
use crate::output::{MarkId, Origin, Run};
use crate::value::builder::Builder;
use crate::value::text::{Parts, Slice, Str};

/// The most bytes that are reserved before they are needed.
const MOST_ROOM: usize = 1 << 20;

pub(super) enum Sink<'a> {
    Output(OutputSink),
    Capture(Builder<'a>),
}

/// The output of the rendering. Its bytes have their own limit; its runs count as live memory.
pub(super) struct OutputSink {
    text: String,
    runs: Vec<Run>,
    most: usize,
    charge: Charge,
    charged_runs: usize,
}

impl<'a> Sink<'a> {
    pub(super) fn output(world: &World<'a>, usual: &Usual) -> Sink<'a> {
        Sink::Output(OutputSink {
            text: String::with_capacity(usual.bytes().clamp(256, MOST_ROOM)),
            runs: Vec::with_capacity(usual.runs().clamp(16, MOST_ROOM / 24)),
            most: world.limits.output_bytes.min(u32::MAX as usize),
            charge: Charge::none(&world.meter),
            charged_runs: 0,
        })
    }

    pub(super) fn capture(world: &World<'a>) -> Sink<'a> {
        Sink::Capture(Builder::new(world))
    }

    pub(super) fn take(&mut self) -> Sink<'a> {
        let Sink::Output(output) = self else { return std::mem::replace(self, Sink::closed()) };
        let (text, runs) = (std::mem::take(&mut output.text), std::mem::take(&mut output.runs));
        let charge = output.charge.take();
        Sink::Output(OutputSink { text, runs, most: output.most, charge, charged_runs: 0 })
    }

    fn closed() -> Sink<'a> {
        Sink::Output(OutputSink {
            text: String::new(),
            runs: Vec::new(),
            most: 0,
            charge: Charge::none(&std::rc::Rc::new(crate::limits::Meter::new(0, 0, 0))),
            charged_runs: 0,
        })
    }

    pub(super) fn into_output(self) -> (String, Vec<Run>) {
        match self {
            Sink::Output(output) => (output.text, output.runs),
            Sink::Capture(_) => (String::new(), Vec::new()),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Sink::Output(output) => output.text.len(),
            Sink::Capture(builder) => builder.len(),
        }
    }

    /// Returns the number of characters written since the output was `start` bytes long.
    pub(super) fn characters_since(&self, start: usize) -> usize {
        match self {
            Sink::Output(output) => crate::value::char_count(&output.text[start..]),
            Sink::Capture(builder) => builder.characters_since(start),
        }
    }

    pub(super) fn finish(self) -> Res<Str<'a>> {
        match self {
            Sink::Capture(builder) => builder.finish(),
            Sink::Output(_) => Ok(Str::empty()),
        }
    }

    #[inline]
    pub(super) fn push_slice(&mut self, world: &World<'a>, slice: Slice<'a>) -> Res<()> {
        let mark = world.current_mark();
        match self {
            Sink::Output(output) => output.push(slice.text, slice.origin, mark),
            Sink::Capture(builder) => {
                builder.set_mark(mark);
                builder.push_slice(slice)
            }
        }
    }

    pub(super) fn push_engine(&mut self, world: &World<'a>, text: &str) -> Res<()> {
        let mark = world.current_mark();
        match self {
            Sink::Output(output) => output.push(text, Origin::Engine, mark),
            Sink::Capture(builder) => {
                builder.set_mark(mark);
                builder.push(text, Origin::Engine)
            }
        }
    }

    pub(super) fn push_str(&mut self, world: &World<'a>, text: &Str<'a>) -> Res<()> {
        let joined = match text {
            Str::Slice(slice) => return self.push_slice(world, *slice),
            joined => joined,
        };
        world.work(joined.weight())?;
        let mark = world.current_mark();
        match self {
            Sink::Output(output) => output.push_parts(world, joined.all_parts(), mark),
            Sink::Capture(builder) => {
                builder.set_mark(mark);
                builder.push_str(joined)
            }
        }
    }

    /// Pushes the text of a builder.
    pub(super) fn push_built(&mut self, world: &World<'a>, built: Builder<'a>) -> Res<()> {
        let Sink::Output(output) = self else { return self.push_str(world, &built.finish()?) };
        built.pour(|parts| {
            world.work(parts.weight())?;
            output.push_parts(world, parts, world.current_mark())
        })
    }
}

impl OutputSink {
    #[inline]
    fn push(&mut self, text: &str, origin: Origin, mark: MarkId) -> Res<()> {
        if text.is_empty() {
            return Ok(());
        }
        let start = self.text.len();
        if start + text.len() > self.most {
            return Err(Fault::limit(LimitKind::Output, self.most));
        }
        self.text.push_str(text);
        let end = self.text.len() as u32;
        let before = self.runs.len().checked_sub(2).map_or(0, |at| self.runs[at].end as usize);
        if let Some(last) = self.runs.last_mut()
            && last.mark == mark
            && last.origin.continues_as(start - before, origin)
        {
            last.end = end;
            return Ok(());
        }
        if self.runs.len() >= self.charged_runs {
            self.cover_runs()?;
        }
        self.runs.push(Run { origin, end, mark });
        Ok(())
    }

    /// Pushes the parts of a string.
    fn push_parts<'a>(&mut self, world: &World<'a>, mut parts: Parts<'_>, mark: MarkId) -> Res<()> {
        let text = parts.text();
        // The first part may continue the last run.
        let Some(first) = parts.next() else { return Ok(()) };
        // A pass nested in the writing one is more specific and is kept. The writing pass replaces
        // any other.
        let settle = |own: MarkId| {
            let is_kept = own == mark || !mark.is_some() || (own.is_some() && world.is_inside(own, mark));
            if is_kept { own } else { mark }
        };
        self.push(first.text, first.origin, settle(first.mark))?;
        let rest = &text[first.text.len()..];
        let start = self.text.len();
        if start + rest.len() > self.most {
            return Err(Fault::limit(LimitKind::Output, self.most));
        }
        self.text.push_str(rest);
        let mut end = start;
        let mut known = (MarkId::default(), settle(MarkId::default()));
        for part in parts {
            end += part.text.len();
            if known.0 != part.mark {
                known = (part.mark, settle(part.mark));
            }
            if self.runs.len() >= self.charged_runs {
                self.cover_runs()?;
            }
            self.runs.push(Run { origin: part.origin, end: end as u32, mark: known.1 });
        }
        Ok(())
    }

    #[cold]
    fn cover_runs(&mut self) -> Res<()> {
        let wanted = (self.charged_runs + self.charged_runs / 2).max(64);
        if self.charge.resize(wanted * size_of::<Run>()).is_ok() {
            self.charged_runs = wanted;
            return Ok(());
        }
        self.charged_runs = self.runs.len() + 1;
        self.charge.resize(self.charged_runs * size_of::<Run>())
    }
}
