//! Renderings that can be taken up where they stopped, when a list gets more items.
//!
//! One list of the inputs, the growing one, may only be extended between renderings. The engine
//! reads it through [`TrackedList`], which notices every read that depends on the list's end: its
//! length, or a request for an item that does not exist. There is no other way to the list, so
//! nothing that depends on its end can be overlooked. At the top of a loop over the list, while
//! nothing has depended on its end yet, the state of the machine is kept as a [`Checkpoint`]. It is
//! the state that a rendering of any longer list has at the same place, so such a rendering can
//! start there.
//!
//! What comes before that loop may depend on the list's end all the same: a loop that searches the
//! messages, or a test of the last one. Such a [`Stretch`] is rendered again for the longer list,
//! from a state near the list's end if it is a loop. If its output and the state after it are the
//! same, then so is everything up to the next stretch.

mod checkpoint;
mod growing;
mod tracked;

use std::any::Any;

use crate::input::{Inputs, Tag};

pub use checkpoint::Checkpoint;
pub(crate) use checkpoint::{
    FrozenAbsence, FrozenLoop, FrozenMark, FrozenOrigin, FrozenRun, FrozenState, FrozenText, FrozenValue, Items,
    Stretch, Wrote,
};
pub(crate) use growing::KeptStates;
pub use growing::{Growing, Grown};
pub(crate) use tracked::TrackedList;

/// Where a value is in the caller's inputs, for all renderings of a growing list. The engine does
/// not interpret it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InputPlace {
    /// A value that the caller numbers.
    pub root: u64,
    /// The way from there: an index for each list or dict.
    pub path: Vec<u32>,
}

/// Inputs with a list that may get more items later.
pub trait GrowingInputs: Inputs {
    /// Returns the growing list.
    fn growing(&self) -> &dyn Any;

    /// Returns the number of its items. Unlike [`Inputs::len`], this is not a read by the template.
    fn count(&self) -> usize;

    /// Returns the value that may differ between renderings of the growing list, if there is one.
    fn switch(&self) -> Option<&dyn Any>;

    /// Returns the place of a value, or `None` if it cannot be found again.
    fn place(&self, node: &dyn Any) -> Option<InputPlace>;

    /// Returns the value at a place.
    fn node<'a>(&'a self, place: &InputPlace) -> Option<&'a dyn Any>;

    /// Returns the place of the value that has a tag.
    fn tag_place(&self, tag: Tag) -> Option<InputPlace>;

    /// Returns the tag of the value at a place.
    fn place_tag(&self, place: &InputPlace) -> Option<Tag>;
}
