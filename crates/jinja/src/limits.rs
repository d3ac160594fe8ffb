use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::error::{Fault, LimitKind, Res};
use crate::output::Run;

/// The resource limits of a template. Every limit is always active, and each has its own error
/// kind.
///
/// ```
/// use rolecall_jinja::{Context, Environment, ErrorKind, LimitKind, Limits, Template};
/// let template = Template::compile("{{ 'a' * 10**9 }}", &Limits::default())?;
/// let error = template.render(&Context::new(), &Environment::default()).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Limit(LimitKind::Memory));
/// # Ok::<(), rolecall_jinja::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of template source.
    pub source_bytes: usize,
    /// Nested expressions and blocks in the source.
    pub nesting: usize,
    /// Steps of the compiled program; every 16 bytes that an operation processes count as one more.
    pub instructions: u64,
    /// Bytes of output.
    pub output_bytes: usize,
    /// Bytes of strings, lists and dicts alive at the same time, without the inputs.
    pub live_bytes: usize,
    /// Nested macros, call blocks and recursive loops.
    pub recursion: usize,
    /// Nested lists and dicts.
    pub depth: usize,
    /// Items of one loop.
    pub loop_length: usize,
    /// Bits of one integer.
    pub integer_bits: u64,
}

impl Limits {
    /// Returns the limit of a kind that can be raised ([`LimitKind::RAISED`]), or `None` for the
    /// other kinds.
    ///
    /// ```
    /// use rolecall_jinja::{LimitKind, Limits};
    /// let mut limits = Limits::default();
    /// assert!(limits.set(LimitKind::Loop, 2_000_000));
    /// assert_eq!((limits.loop_length, limits.get(LimitKind::Loop)), (2_000_000, Some(2_000_000)));
    /// assert!(!limits.set(LimitKind::Recursion, 2_000_000));
    /// ```
    pub fn get(&self, kind: LimitKind) -> Option<u64> {
        Some(match kind {
            LimitKind::Instructions => self.instructions,
            LimitKind::Output => self.output_bytes as u64,
            LimitKind::Memory => self.live_bytes as u64,
            LimitKind::Source => self.source_bytes as u64,
            LimitKind::Loop => self.loop_length as u64,
            LimitKind::Integer => self.integer_bits,
            _ => return None,
        })
    }

    /// Sets the limit of a kind that can be raised, to a higher or lower value. Returns false for
    /// the other kinds.
    pub fn set(&mut self, kind: LimitKind, most: u64) -> bool {
        let count = usize::try_from(most).unwrap_or(usize::MAX);
        match kind {
            LimitKind::Instructions => self.instructions = most,
            LimitKind::Output => self.output_bytes = count,
            LimitKind::Memory => self.live_bytes = count,
            LimitKind::Source => self.source_bytes = count,
            LimitKind::Loop => self.loop_length = count,
            LimitKind::Integer => self.integer_bits = most,
            _ => return false,
        }
        true
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            source_bytes: 1 << 18,
            nesting: 150,
            instructions: 3_000_000,
            output_bytes: 16 << 20,
            live_bytes: 24 << 20,
            recursion: 200,
            depth: 200,
            loop_length: 1_000_000,
            integer_bits: 1 << 16,
        }
    }
}

/// The most digits of an integer that Python prints or parses.
pub(crate) const INTEGER_DIGITS: usize = 4300;

/// The most items of one `range` in the sandbox.
pub(crate) const MAX_RANGE: usize = 100_000;

/// Counts the bytes of live values and holds the remaining fuel.
#[derive(Debug)]
pub(crate) struct Meter {
    live: Cell<usize>,
    most: usize,
    /// The remaining fuel, without the fuel that the running machine took in advance.
    fuel: Cell<u64>,
    /// The initial fuel in steps, for error messages.
    instructions: u64,
    /// String-building buffers, kept for reuse.
    buffers: RefCell<Vec<(String, Vec<Run>)>>,
}

/// The largest buffer that is kept.
pub(crate) const KEPT_BYTES: usize = 64 << 10;

impl Meter {
    pub(crate) fn new(most: usize, fuel: u64, instructions: u64) -> Meter {
        Meter { live: Cell::new(0), most, fuel: Cell::new(fuel), instructions, buffers: RefCell::default() }
    }

    /// Consumes fuel.
    pub(crate) fn burn(&self, fuel: u64) -> Res<()> {
        match self.fuel.get().checked_sub(fuel) {
            Some(left) => {
                self.fuel.set(left);
                Ok(())
            }
            None => {
                self.fuel.set(0);
                Err(Fault::limit(LimitKind::Instructions, self.instructions))
            }
        }
    }

    /// Takes this much fuel, or all that remains.
    pub(crate) fn take_fuel(&self, most: u64) -> u64 {
        let taken = self.fuel.get().min(most);
        self.fuel.set(self.fuel.get() - taken);
        taken
    }

    /// Returns the fuel that has not been taken.
    pub(crate) fn fuel_left(&self) -> u64 {
        self.fuel.get()
    }

    pub(crate) fn take_buffers(&self) -> (String, Vec<Run>) {
        self.buffers.borrow_mut().pop().unwrap_or_default()
    }

    pub(crate) fn give_buffers(&self, mut text: String, mut runs: Vec<Run>) {
        let mut buffers = self.buffers.borrow_mut();
        if buffers.len() < 4 && text.capacity() + runs.capacity() * size_of::<Run>() <= KEPT_BYTES {
            text.clear();
            runs.clear();
            buffers.push((text, runs));
        }
    }

    /// Checks that this many more bytes fit the limit; called before they are allocated.
    pub(crate) fn check(&self, bytes: usize) -> Res<()> {
        if self.live.get().saturating_add(bytes) > self.most {
            return Err(Fault::limit(LimitKind::Memory, self.most));
        }
        Ok(())
    }
}

/// Bytes that count as alive until this value is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    meter: Rc<Meter>,
    bytes: usize,
}

impl Charge {
    pub(crate) fn new(meter: &Rc<Meter>, bytes: usize) -> Res<Charge> {
        meter.check(bytes)?;
        meter.live.set(meter.live.get() + bytes);
        Ok(Charge { meter: Rc::clone(meter), bytes })
    }

    pub(crate) fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Creates an empty charge, to be resized.
    pub(crate) fn none(meter: &Rc<Meter>) -> Charge {
        Charge { meter: Rc::clone(meter), bytes: 0 }
    }

    /// Takes the bytes of the charge and leaves it empty.
    pub(crate) fn take(&mut self) -> Charge {
        let bytes = std::mem::take(&mut self.bytes);
        Charge { meter: Rc::clone(&self.meter), bytes }
    }

    /// Changes the number of bytes counted.
    pub(crate) fn resize(&mut self, bytes: usize) -> Res<()> {
        if bytes > self.bytes {
            self.meter.check(bytes - self.bytes)?;
        }
        self.meter.live.set(self.meter.live.get() + bytes - self.bytes);
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.meter.live.set(self.meter.live.get().saturating_sub(self.bytes));
    }
}
