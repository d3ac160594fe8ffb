use std::ops::Range;
use std::rc::Rc;

use super::text::{Joined, Parts, Slice, Str};
use crate::error::{Fault, LimitKind, Res};
use crate::limits::{Charge, KEPT_BYTES};
use crate::output::{MarkId, Origin, Run};
use crate::vm::World;

/// Puts a string together, piece by piece.
pub(crate) struct Builder<'a> {
    text: String,
    runs: Vec<Run>,
    /// Where the runs end; text behind it was made by the engine.
    closed: usize,
    /// The only thing pushed so far, not copied yet.
    single: Option<Slice<'a>>,
    charge: Charge,
    charged: usize,
    /// Bytes that fuel was used for.
    burnt: usize,
    /// The pass of a loop in which new pieces are written.
    mark: MarkId,
}

/// What a run costs beside its characters.
const RUN_BYTES: usize = size_of::<Run>();

impl<'a> Builder<'a> {
    pub(crate) fn new(world: &World<'a>) -> Builder<'a> {
        Builder {
            text: String::new(),
            runs: Vec::new(),
            closed: 0,
            single: None,
            charge: Charge::none(&world.meter),
            charged: 0,
            burnt: 0,
            mark: world.current_mark(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.text.len() + self.single.map_or(0, |slice| slice.text.len())
    }

    pub(crate) fn characters_since(&self, start: usize) -> usize {
        let text = self.single.map_or(&*self.text, |slice| slice.text);
        text.get(start..).map_or(0, super::char_count)
    }

    /// What is pushed from here on is written in this pass of a loop.
    #[inline]
    pub(crate) fn set_mark(&mut self, mark: MarkId) {
        if self.mark != mark {
            self.close();
            self.mark = mark;
        }
    }

    /// Room for so many bytes, which are counted at once: a size that a template names is checked here first.
    pub(crate) fn reserve(&mut self, bytes: usize) -> Res<()> {
        self.flush()?;
        self.cover(bytes, 1)?;
        self.text.reserve(bytes);
        Ok(())
    }

    /// Counts what is about to be pushed.
    #[inline]
    fn cover(&mut self, bytes: usize, runs: usize) -> Res<()> {
        // One run more, for what the engine made before.
        let needed = self.text.len() + bytes + (self.runs.len() + runs + 1) * RUN_BYTES;
        if needed <= self.charged {
            return Ok(());
        }
        self.cover_slowly(needed)
    }

    #[cold]
    fn cover_slowly(&mut self, needed: usize) -> Res<()> {
        if needed >= u32::MAX as usize {
            return Err(Fault::limit(LimitKind::Memory, u32::MAX));
        }
        // Whatever is written costs fuel by the byte, here where it costs little to count.
        self.charge.meter().burn((needed - self.burnt) as u64)?;
        self.burnt = needed;
        if self.text.capacity() == 0 {
            (self.text, self.runs) = self.charge.meter().take_buffers();
        }
        let roomy = needed + needed / 2 + 256;
        let wanted = if self.charge.resize(roomy).is_ok() {
            roomy
        } else {
            self.charge.resize(needed)?;
            needed
        };
        self.charged = wanted;
        Ok(())
    }

    #[inline]
    fn flush(&mut self) -> Res<()> {
        match self.single.take() {
            Some(slice) => self.push_marked(slice.text, slice.origin, MarkId::default()),
            None => Ok(()),
        }
    }

    /// Makes a run of what the engine wrote last.
    #[inline]
    fn close(&mut self) {
        if self.text.len() > self.closed {
            self.closed = self.text.len();
            self.runs.push(Run { origin: Origin::Engine, end: self.closed as u32, mark: self.mark });
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, text: &str, origin: Origin) -> Res<()> {
        if origin == Origin::Engine {
            return self.push_engine(text);
        }
        self.push_marked(text, origin, MarkId::default())
    }

    /// Pushes what the engine makes itself.
    #[inline]
    pub(crate) fn push_engine(&mut self, text: &str) -> Res<()> {
        if self.single.is_some() {
            self.flush()?;
        }
        self.cover(text.len(), 0)?;
        self.text.push_str(text);
        Ok(())
    }

    pub(crate) fn push_char(&mut self, c: char, origin: Origin) -> Res<()> {
        self.push(c.encode_utf8(&mut [0; 4]), origin)
    }

    /// Pushes a piece; one that has no mark yet gets that of the builder.
    #[inline]
    pub(crate) fn push_marked(&mut self, text: &str, origin: Origin, mark: MarkId) -> Res<()> {
        if text.is_empty() {
            return Ok(());
        }
        if self.single.is_some() {
            self.flush()?;
        }
        self.cover(text.len(), 1)?;
        self.close();
        let mark = if mark.is_some() { mark } else { self.mark };
        self.text.push_str(text);
        self.note_run(origin, mark);
        Ok(())
    }

    /// Makes a run of the text behind the last one, or adds it to that.
    #[inline]
    fn note_run(&mut self, origin: Origin, mark: MarkId) {
        let start = self.closed;
        self.closed = self.text.len();
        let end = self.closed as u32;
        let before = self.runs.len().checked_sub(2).map_or(0, |at| self.runs[at].end as usize);
        if let Some(last) = self.runs.last_mut()
            && last.mark == mark
            && last.origin.continues_as(start - before, origin)
        {
            last.end = end;
            return;
        }
        self.runs.push(Run { origin, end, mark });
    }

    /// Pushes a piece in double quotes, which have its origin.
    pub(crate) fn push_quoted(&mut self, text: &str, origin: Origin) -> Res<()> {
        self.flush()?;
        self.cover(text.len() + 2, 1)?;
        self.close();
        self.text.push('"');
        self.text.push_str(text);
        self.text.push('"');
        self.closed = self.text.len();
        self.runs.push(Run { origin, end: self.closed as u32, mark: self.mark });
        Ok(())
    }

    /// Pushes a piece of the template or of an input, which is not copied as long as it is the only one.
    #[inline]
    pub(crate) fn push_slice(&mut self, slice: Slice<'a>) -> Res<()> {
        if self.single.is_none() && self.text.is_empty() {
            if !slice.text.is_empty() {
                self.single = Some(slice);
            }
            return Ok(());
        }
        self.push(slice.text, slice.origin)
    }

    pub(crate) fn push_str(&mut self, text: &Str<'a>) -> Res<()> {
        match text {
            Str::Slice(slice) => self.push_slice(*slice),
            Str::Joined(joined) => self.push_joined(joined),
        }
    }

    fn push_joined(&mut self, joined: &Joined) -> Res<()> {
        let Some((first, rest)) = joined.runs.split_first() else { return Ok(()) };
        self.flush()?;
        self.cover(joined.text.len(), joined.runs.len())?;
        self.close();
        // The first run may continue what was written last.
        let mark = self.mark;
        let settle = |own: MarkId| if own.is_some() { own } else { mark };
        let shift = self.text.len();
        self.text.push_str(&joined.text[..first.end as usize]);
        self.note_run(first.origin, settle(first.mark));
        self.text.push_str(&joined.text[first.end as usize..]);
        self.closed = self.text.len();
        let moved = |run: &Run| Run { origin: run.origin, end: run.end + shift as u32, mark: settle(run.mark) };
        self.runs.extend(rest.iter().map(moved));
        Ok(())
    }

    pub(crate) fn push_range(&mut self, text: &Str<'a>, range: Range<usize>) -> Res<()> {
        if let Str::Slice(slice) = text {
            let origin = slice.origin.forward(range.start);
            return self.push_slice(Slice { text: &slice.text[range], origin });
        }
        for part in text.parts(range) {
            self.push_marked(part.text, part.origin, part.mark)?;
        }
        Ok(())
    }

    /// Hands what was put together over without making a string of it.
    pub(crate) fn pour(mut self, into: impl FnOnce(Parts<'_>) -> Res<()>) -> Res<()> {
        self.flush()?;
        self.close();
        into(Parts::of_runs(&self.text, &self.runs))?;
        self.charge.meter().give_buffers(self.text, self.runs);
        Ok(())
    }

    pub(crate) fn finish(self) -> Res<Str<'a>> {
        self.finish_as(false)
    }

    pub(crate) fn finish_as(mut self, is_markup: bool) -> Res<Str<'a>> {
        if !is_markup {
            if let Some(slice) = self.single {
                return Ok(Str::Slice(slice));
            }
            if self.text.is_empty() {
                return Ok(Str::empty());
            }
        }
        self.flush()?;
        self.close();
        self.charge.resize(self.text.len() + self.runs.len() * RUN_BYTES + size_of::<Joined>())?;
        let is_large = self.text.len() + self.runs.len() * RUN_BYTES > KEPT_BYTES;
        let (text, runs): (Box<str>, Box<[Run]>) = if is_large {
            (self.text.into(), self.runs.into())
        } else {
            // The roomy buffers are used again; what is kept has no more room than it needs.
            let kept = (self.text.as_str().into(), self.runs.as_slice().into());
            self.charge.meter().give_buffers(self.text, self.runs);
            kept
        };
        Ok(Str::Joined(Rc::new(Joined { text, runs, is_markup, _charge: self.charge })))
    }
}
