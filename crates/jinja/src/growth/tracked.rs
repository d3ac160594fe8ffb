use std::any::Any;
use std::cell::Cell;

use super::GrowingInputs;
use crate::input::{InputEntry, InputNode, InputValue, Inputs, Tag};
use crate::vm::address;

/// Notices what a rendering reads of the inputs that may differ for a longer list.
pub(crate) struct TrackedList<'a> {
    pub(crate) inputs: &'a dyn GrowingInputs,
    list: usize,
    switch: usize,
    has_ended: Cell<bool>,
    has_switched: Cell<bool>,
}

impl<'a> TrackedList<'a> {
    pub(crate) fn new(inputs: &'a dyn GrowingInputs) -> TrackedList<'a> {
        TrackedList {
            inputs,
            list: address(inputs.growing()),
            switch: inputs.switch().map_or(0, address),
            has_ended: Cell::new(false),
            has_switched: Cell::new(false),
        }
    }

    /// Reports whether something depended on the end of the list.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.get()
    }

    /// Reports whether the switch was read.
    pub(crate) fn has_switched(&self) -> bool {
        self.has_switched.get()
    }

    /// Forgets what was read so far.
    pub(crate) fn clear(&self) {
        self.has_ended.set(false);
        self.has_switched.set(false);
    }

    #[inline]
    fn note_end(&self, list: &dyn Any) {
        if address(list) == self.list {
            self.has_ended.set(true);
        }
    }

    #[inline]
    fn note_switch(&self, node: &dyn Any) {
        if address(node) == self.switch {
            self.has_switched.set(true);
        }
    }
}

impl Inputs for TrackedList<'_> {
    fn value<'n>(&'n self, node: &'n dyn Any) -> InputValue<'n> {
        self.note_switch(node);
        self.inputs.value(node)
    }

    fn tag(&self, node: &dyn Any) -> Tag {
        self.inputs.tag(node)
    }

    fn len(&self, node: &dyn Any) -> usize {
        self.note_end(node);
        self.inputs.len(node)
    }

    fn item<'n>(&'n self, list: &'n dyn Any, index: usize) -> Option<&'n dyn Any> {
        let found = self.inputs.item(list, index);
        if found.is_none() {
            self.note_end(list);
        }
        found
    }

    fn get<'n>(&'n self, dict: &'n dyn Any, key: &str) -> Option<&'n dyn Any> {
        self.inputs.get(dict, key)
    }

    fn entry<'n>(&'n self, dict: &'n dyn Any, index: usize) -> Option<InputEntry<'n>> {
        self.inputs.entry(dict, index)
    }

    fn spellings<'n>(&'n self, node: &'n dyn Any) -> Option<&'n [String]> {
        self.inputs.spellings(node)
    }

    fn look<'n>(&'n self, node: &'n dyn Any) -> InputNode<'n> {
        self.note_switch(node);
        self.inputs.look(node)
    }

    fn look_at<'n>(&'n self, list: &'n dyn Any, index: usize) -> Option<InputNode<'n>> {
        let found = self.inputs.look_at(list, index);
        if found.is_none() {
            self.note_end(list);
        }
        found
    }

    fn look_entry<'n>(&'n self, dict: &'n dyn Any, index: usize) -> Option<(InputEntry<'n>, InputNode<'n>)> {
        self.inputs.look_entry(dict, index)
    }

    fn look_up<'n>(&'n self, dict: &'n dyn Any, key: &str, found: &mut Option<InputNode<'n>>) {
        self.inputs.look_up(dict, key, found);
    }
}
