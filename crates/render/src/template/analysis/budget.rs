use std::cell::Cell;

use crate::Error;

/// Steps that all conversations tried out on one template may take together.
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

/// Bytes of output or of other text that cost as much as a step: what an operation of a template costs, too.
const BYTES_OF_STEP: u64 = 16;
/// A rendering is made ready for each literal, and an error names a place of the source: so many bytes of that cost a step.
const SOURCE_OF_STEP: u64 = 64;
/// What a conversation costs beside that: it is made, handed over and looked at.
const CONVERSATION: u64 = 200;

impl ProbeBudget {
    /// What an analysis may take: ten times as much as the most expensive of the reference templates does.
    pub const USUAL: u64 = 4_000_000;

    /// So many steps.
    pub fn new(steps: u64) -> ProbeBudget {
        ProbeBudget { steps, left: Cell::new(steps) }
    }

    /// Steps that nobody has taken.
    pub fn left(&self) -> u64 {
        self.left.get()
    }

    /// Steps that were taken.
    pub fn spent(&self) -> u64 {
        self.steps - self.left.get()
    }

    /// Takes steps, or what is left of them.
    pub fn spend(&self, steps: u64) {
        self.left.set(self.left.get().saturating_sub(steps));
    }

    /// Takes what a conversation has cost: the steps of its rendering, and what is done with a source and an output of so many
    /// bytes.
    pub fn spend_on(&self, steps: u64, source: usize, output: usize) {
        self.spend(steps.saturating_add(CONVERSATION + source as u64 / SOURCE_OF_STEP + output as u64 / BYTES_OF_STEP));
    }

    /// An error once nothing is left: what was found out until then is not to be relied on.
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
