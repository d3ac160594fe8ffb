use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::error::{Fault, LimitKind, Res};
use crate::output::Run;

/// What a template may use. Every limit is always on; a limit that is hit is an error of its own kind.
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
    /// Expressions and blocks inside each other in the source.
    pub nesting: usize,
    /// Steps of the compiled program; every 16 bytes that an operation walks over count as one more.
    pub instructions: u64,
    /// Bytes of output.
    pub output_bytes: usize,
    /// Bytes of strings, lists and dicts alive at one time, not counting the inputs.
    pub live_bytes: usize,
    /// Macros, call blocks and recursive loops inside each other.
    pub recursion: usize,
    /// Lists and dicts inside each other.
    pub depth: usize,
    /// Items of one loop.
    pub loop_length: usize,
    /// Bits of one integer.
    pub integer_bits: u64,
}

impl Limits {
    /// The limit of a kind that may be raised ([`LimitKind::RAISED`]); none for the others.
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

    /// Sets the limit of a kind that may be raised, higher or lower. False for another kind.
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

/// Digits of an integer that Python prints or reads.
pub(crate) const INTEGER_DIGITS: usize = 4300;

/// Items of one `range`, as the sandbox has it.
pub(crate) const MAX_RANGE: usize = 100_000;

/// Counts the bytes of values that are alive, and holds the fuel that is left.
#[derive(Debug)]
pub(crate) struct Meter {
    live: Cell<usize>,
    most: usize,
    /// Fuel, but for what the running machine has taken in advance.
    fuel: Cell<u64>,
    /// What there was of it, in steps, for messages.
    instructions: u64,
    /// Buffers in which strings were put together, to be used again.
    buffers: RefCell<Vec<(String, Vec<Run>)>>,
}

/// Buffers that are larger are not kept.
pub(crate) const KEPT_BYTES: usize = 64 << 10;

impl Meter {
    pub(crate) fn new(most: usize, fuel: u64, instructions: u64) -> Meter {
        Meter { live: Cell::new(0), most, fuel: Cell::new(fuel), instructions, buffers: RefCell::default() }
    }

    /// Uses fuel.
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

    /// Takes fuel, or what is left of it.
    pub(crate) fn take_fuel(&self, most: u64) -> u64 {
        let taken = self.fuel.get().min(most);
        self.fuel.set(self.fuel.get() - taken);
        taken
    }

    /// The fuel that nobody has taken.
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

    /// Whether so many bytes more may live; asked before they are allocated.
    pub(crate) fn check(&self, bytes: usize) -> Res<()> {
        if self.live.get().saturating_add(bytes) > self.most {
            return Err(Fault::limit(LimitKind::Memory, self.most));
        }
        Ok(())
    }
}

/// Bytes that count as alive until this is dropped.
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

    /// Nothing yet, to be resized.
    pub(crate) fn none(meter: &Rc<Meter>) -> Charge {
        Charge { meter: Rc::clone(meter), bytes: 0 }
    }

    /// The charge itself, leaving nothing.
    pub(crate) fn take(&mut self) -> Charge {
        let bytes = std::mem::take(&mut self.bytes);
        Charge { meter: Rc::clone(&self.meter), bytes }
    }

    /// Counts more bytes, or fewer.
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
