//! Output targets: the rendering itself, or a captured value.

use super::{Usual, World};
use crate::builtins::{Args, json};
use crate::error::{Fault, LimitKind, Res};
use crate::input::Tag;
use crate::limits::Charge;
use crate::output::{MarkId, Offset, Origin, Run};
use crate::value::builder::{Builder, Pieces};
use crate::value::text::{Parts, Slice, Str};

/// The most bytes that are reserved before they are needed.
const MOST_ROOM: usize = 1 << 20;

/// The bytes of a text from which on those that were reserved and not needed are given back.
const MUCH: usize = 1 << 13;

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
            Sink::Output(OutputSink { mut text, runs, .. }) => {
                // A prompt may be kept for long.
                if text.capacity() > MUCH.max(text.len() + text.len() / 2) {
                    text.shrink_to_fit();
                }
                (text, runs)
            }
            Sink::Capture(_) => (String::new(), Vec::new()),
        }
    }

    /// Counts bytes that an earlier rendering wrote. Returns false if they exceed the limit.
    pub(super) fn count_before(&mut self, bytes: usize) -> bool {
        let Sink::Output(output) = self else { return false };
        output.most.checked_sub(bytes).map(|most| output.most = most).is_some()
    }

    /// Returns the output from a byte on, as text and runs whose ends count from there.
    pub(super) fn since(&self, start: usize) -> Option<(&str, Vec<Run>)> {
        let Sink::Output(output) = self else { return None };
        let first = output.runs.partition_point(|run| run.end as usize <= start);
        let before = first.checked_sub(1).map_or(0, |before| output.runs[before].end as usize);
        let shifted = |(at, run): (usize, &Run)| {
            // The first one may begin earlier.
            let origin = if at == 0 { run.origin.forward(start.saturating_sub(before)) } else { run.origin };
            Run { origin, end: run.end - start as u32, mark: run.mark }
        };
        Some((output.text.get(start..)?, output.runs[first..].iter().enumerate().map(shifted).collect()))
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

    #[inline(always)]
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

    /// Pushes a literal of the template.
    #[inline(never)]
    pub(super) fn push_literal(&mut self, world: &World<'a>, id: u32, text: &'a str) -> Res<()> {
        self.push_slice(world, Slice { text, origin: Origin::Literal { id, offset: Offset::new(0) } })
    }

    /// Pushes a caller's string.
    #[inline(never)]
    pub(super) fn push_input(&mut self, world: &World<'a>, tag: Tag, text: &'a str) -> Res<()> {
        self.push_slice(world, Slice { text, origin: Origin::Input { tag, offset: Offset::new(0) } })
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

    /// Writes the result of `tojson`.
    pub(super) fn push_json(&mut self, world: &World<'a>, args: Args<'_, 'a>) -> Res<()> {
        let mark = world.current_mark();
        match self {
            Sink::Output(output) => json::print(world, &mut Direct { world, output, mark }, args),
            Sink::Capture(builder) => {
                builder.set_mark(mark);
                json::print(world, builder, args)
            }
        }
    }
}

/// Writes pieces of the current loop pass to the output.
struct Direct<'w, 'a> {
    world: &'w World<'a>,
    output: &'w mut OutputSink,
    mark: MarkId,
}

impl<'a> Pieces<'a> for Direct<'_, 'a> {
    fn reserve(&mut self, bytes: usize) -> Res<()> {
        self.world.work(bytes)?;
        self.output.check(bytes)
    }

    #[inline]
    fn push_engine(&mut self, text: &str) -> Res<()> {
        self.output.push_engine(text, self.mark)
    }

    fn push_marked(&mut self, text: &str, origin: Origin, mark: MarkId) -> Res<()> {
        self.output.push(text, origin, settled(self.world, mark, self.mark))
    }

    #[inline]
    fn push_quoted(&mut self, text: &str, origin: Origin) -> Res<()> {
        self.output.push_quoted(text, origin, self.mark)
    }

    fn push_str(&mut self, text: &Str<'a>) -> Res<()> {
        match text {
            Str::Slice(Slice { text, origin: Origin::Engine }) => self.output.push_engine(text, self.mark),
            Str::Slice(slice) => self.output.push(slice.text, slice.origin, self.mark),
            joined => {
                self.world.work(joined.weight())?;
                self.output.push_parts(self.world, joined.all_parts(), self.mark)
            }
        }
    }
}

/// Returns the pass of a piece written by another pass. A pass nested in the writing one is more
/// specific and is kept. The writing pass replaces any other.
fn settled(world: &World<'_>, own: MarkId, writing: MarkId) -> MarkId {
    let is_kept = own == writing || !writing.is_some() || (own.is_some() && world.is_inside(own, writing));
    if is_kept { own } else { writing }
}

impl OutputSink {
    /// Checks that this many more bytes fit.
    #[inline]
    fn check(&self, bytes: usize) -> Res<()> {
        if self.text.len() + bytes > self.most {
            return Err(Fault::limit(LimitKind::Output, self.most));
        }
        Ok(())
    }

    /// Adds a run that ends where the text ends.
    #[inline]
    fn push_run(&mut self, origin: Origin, mark: MarkId) -> Res<()> {
        if self.runs.len() >= self.charged_runs {
            self.cover_runs()?;
        }
        self.runs.push(Run { origin, end: self.text.len() as u32, mark });
        Ok(())
    }

    /// Extends the last run, which has the same source as `origin`, if the text from `start` on
    /// continues it.
    #[inline(never)]
    fn continues_last(&mut self, start: usize, origin: Origin) -> bool {
        let before = self.runs.len().checked_sub(2).map_or(0, |at| self.runs[at].end as usize);
        match self.runs.last_mut() {
            Some(last) if last.origin.continues_as(start - before, origin) => {
                last.end = self.text.len() as u32;
                true
            }
            _ => false,
        }
    }

    #[inline]
    fn push_engine(&mut self, text: &str, mark: MarkId) -> Res<()> {
        self.check(text.len())?;
        self.text.push_str(text);
        match self.runs.last_mut() {
            Some(Run { origin: Origin::Engine, end, mark: last }) if *last == mark => {
                *end = self.text.len() as u32;
                Ok(())
            }
            _ if text.is_empty() => Ok(()),
            _ => self.push_run(Origin::Engine, mark),
        }
    }

    #[inline]
    fn push_quoted(&mut self, text: &str, origin: Origin, mark: MarkId) -> Res<()> {
        if !matches!(self.runs.last(), Some(Run { origin: Origin::Engine, .. })) {
            // It may continue the last piece.
            self.push("\"", origin, mark)?;
            self.push(text, origin, mark)?;
            return self.push("\"", origin, mark);
        }
        self.check(text.len() + 2)?;
        self.text.reserve(text.len() + 2);
        self.text.push('"');
        self.text.push_str(text);
        self.text.push('"');
        self.push_run(origin, mark)
    }

    #[inline(always)]
    fn push(&mut self, text: &str, origin: Origin, mark: MarkId) -> Res<()> {
        if text.is_empty() {
            return Ok(());
        }
        let start = self.text.len();
        self.check(text.len())?;
        self.text.push_str(text);
        if let Some(last) = self.runs.last()
            && last.mark == mark
            && last.origin.has_source_of(origin)
            && self.continues_last(start, origin)
        {
            return Ok(());
        }
        self.push_run(origin, mark)
    }

    /// Pushes the parts of a string.
    fn push_parts<'a>(&mut self, world: &World<'a>, mut parts: Parts<'_>, mark: MarkId) -> Res<()> {
        let text = parts.text();
        // The first part may continue the last run.
        let Some(first) = parts.next() else { return Ok(()) };
        let settle = |own: MarkId| settled(world, own, mark);
        self.push(first.text, first.origin, settle(first.mark))?;
        let rest = &text[first.text.len()..];
        self.check(rest.len())?;
        let mut end = self.text.len();
        self.text.push_str(rest);
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
