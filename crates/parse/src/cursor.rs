use std::ops::Range;

use crate::Event;
use crate::marks::{Here, MarkSearch, Marks, PendingInput};
use crate::pending::PendingView;

/// A position in the output, and the receiver of its events. Every reader advances it over the text
/// that it has read.
pub(crate) struct Cursor<'p, 'e> {
    view: PendingView<'p>,
    /// The next byte to read.
    pub at: usize,
    /// Receives the events.
    pub on: &'e mut dyn FnMut(Event<'_>),
}

impl<'p> Cursor<'p, '_> {
    pub fn new<'e>(view: PendingView<'p>, at: usize, on: &'e mut dyn FnMut(Event<'_>)) -> Cursor<'p, 'e> {
        Cursor { view, at, on }
    }

    /// Runs `read` with a cursor that is limited to `view`.
    pub fn within<T>(&mut self, view: PendingView<'p>, read: impl FnOnce(&mut Cursor<'p, '_>) -> T) -> T {
        let mut inner = Cursor { view, at: self.at, on: &mut *self.on };
        let result = read(&mut inner);
        self.at = inner.at;
        result
    }

    pub fn view(&self) -> PendingView<'p> {
        self.view
    }

    /// Reports whether no more output follows.
    pub fn is_last(&self) -> bool {
        self.view.is_last
    }

    pub fn input(&self) -> PendingInput<'p> {
        self.view.input()
    }

    pub fn text(&self) -> &'p str {
        self.view.text()
    }

    /// Returns the text from here on.
    pub fn rest(&self) -> &'p str {
        &self.view.text()[self.at..]
    }

    /// Returns the next character.
    pub fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub fn is_at_end(&self) -> bool {
        self.at == self.view.text().len()
    }

    /// Returns a part of the output, without the text that belongs to the prompt.
    pub fn shown(&self, range: Range<usize>) -> &'p str {
        self.view.shown(range)
    }

    /// Moves to `end` and returns the text in between, without the text that belongs to the prompt.
    pub fn take_up_to(&mut self, end: usize) -> &'p str {
        let text = self.view.shown(self.at..end);
        self.at = end;
        text
    }

    /// Returns the byte offset of this position in the output.
    pub fn offset(&self) -> u64 {
        self.view.offset(self.at)
    }

    pub fn emit(&mut self, event: Event<'_>) {
        (self.on)(event);
    }

    /// Skips white space and returns how much there was.
    pub fn skip_space(&mut self) -> usize {
        let rest = self.rest();
        let spaces = rest.len() - rest.trim_start().len();
        self.at += spaces;
        spaces
    }

    /// Skips the part of `pad` that is here, and counts its bytes in `seen`. Returns false if more
    /// of it may come.
    pub fn skip_pad(&mut self, pad: &str, seen: &mut usize) -> bool {
        while let Some(expected) = pad[*seen..].chars().next() {
            match self.peek() {
                Some(found) if found == expected => {
                    *seen += expected.len_utf8();
                    self.at += expected.len_utf8();
                }
                None if !self.is_last() => return false,
                _ => *seen = pad.len(),
            }
        }
        true
    }

    /// Returns the marker that begins here.
    pub fn marker_here<A>(&self, markers: &Marks<A>) -> Here {
        markers.at(self.input(), self.at, self.is_last())
    }

    /// Returns the next marker from a byte on.
    pub fn find_marker<A>(&self, markers: &Marks<A>, from: usize) -> MarkSearch {
        markers.find(self.input(), from, self.is_last())
    }
}
