use std::sync::Arc;

use super::{Checkpoint, Stretch};
use crate::output::Output;

/// What a rendering keeps, from which that of a longer list can be taken up.
///
/// It is cheap to clone, and its size does not depend on the length of the list.
#[derive(Clone, Debug, Default)]
pub struct Growing {
    /// The parts of the template that must be rendered again.
    pub(crate) stretches: Vec<Arc<Stretch>>,
    pub(crate) kept: KeptStates,
    /// The number of passes after the latest state, if that one can always be taken up.
    pub(crate) near: Option<usize>,
}

/// The states from which a rendering can be taken up, if nothing changes in the stretches before
/// them.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptStates {
    /// The number of stretches before them.
    pub(crate) stretches: usize,
    /// The latest states, the earliest first.
    pub(crate) checkpoints: Vec<Arc<Checkpoint>>,
}

/// The end of a rendering.
#[derive(Debug)]
pub struct Grown {
    /// The byte of the whole output at which `output` begins.
    pub start: usize,
    /// The output from there on.
    pub output: Output,
    /// What the next rendering can take up.
    pub growing: Growing,
    /// The state that was taken up; without one, the template was rendered from its start.
    pub from: Option<Arc<Checkpoint>>,
}

impl Growing {
    /// Returns the state that is taken up if nothing changes in what comes before it.
    pub fn latest(&self) -> Option<&Checkpoint> {
        self.kept.checkpoints.last().map(|checkpoint| &**checkpoint)
    }

    /// Returns the bytes of the output at which the rendering may be taken up.
    pub fn starts(&self) -> impl Iterator<Item = usize> {
        let stretches = self.stretches.iter().filter_map(|stretch| stretch.from.as_ref());
        stretches.chain(&self.kept.checkpoints).map(|checkpoint| checkpoint.written)
    }

    /// Forgets states before this byte of the output.
    pub fn after(mut self, byte: usize) -> Growing {
        self.kept.checkpoints.retain(|checkpoint| checkpoint.written >= byte);
        self
    }
}
