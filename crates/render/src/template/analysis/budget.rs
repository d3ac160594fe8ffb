use std::cell::Cell;

use crate::Error;

/// The total number of steps for all probes of one template.
///
/// ```
/// use rolecall_render::ProbeBudget;
/// let budget = ProbeBudget::new(100);
/// budget.spend(99);
/// assert_eq!((budget.left(), budget.check().is_ok()), (1, true));
/// budget.spend(1);
/// assert_eq!(budget.check().unwrap_err().code(), "limit-probes");
/// ```
#[derive(Debug)]
pub struct ProbeBudget {
    steps: u64,
    left: Cell<u64>,
}

/// The number of bytes of output or other text that count as one step, as in the template engine.
const BYTES_OF_STEP: u64 = 16;
/// The number of bytes of template source that count as one step, because each rendering prepares
/// the literals and an error locates a position in the source.
const SOURCE_OF_STEP: u64 = 64;
/// The fixed number of steps for building, passing and inspecting a conversation.
const CONVERSATION: u64 = 200;

impl ProbeBudget {
    /// The default budget of an analysis: ten times the steps of the most expensive reference
    /// template.
    pub const USUAL: u64 = 4_000_000;

    /// Creates a budget with this number of steps.
    pub fn new(steps: u64) -> ProbeBudget {
        ProbeBudget { steps, left: Cell::new(steps) }
    }

    /// Returns the number of remaining steps.
    pub fn left(&self) -> u64 {
        self.left.get()
    }

    /// Returns the number of steps taken.
    pub fn spent(&self) -> u64 {
        self.steps - self.left.get()
    }

    /// Takes this number of steps, or all that remain.
    pub fn spend(&self, steps: u64) {
        self.left.set(self.left.get().saturating_sub(steps));
    }

    /// Takes the steps for a conversation: those of its rendering, and those for a source and an
    /// output of these sizes.
    pub fn spend_on(&self, steps: u64, source: usize, output: usize) {
        self.spend(steps.saturating_add(CONVERSATION + source as u64 / SOURCE_OF_STEP + output as u64 / BYTES_OF_STEP));
    }

    /// Returns an error if no steps remain. Results obtained until then are unreliable.
    pub fn check(&self) -> Result<(), Error> {
        match self.left.get() {
            0 => Err(Error::Probes { steps: self.steps }),
            _ => Ok(()),
        }
    }
}

impl Default for ProbeBudget {
    fn default() -> ProbeBudget {
        ProbeBudget::new(ProbeBudget::USUAL)
    }
}
