use std::ops::Range;

use crate::Event;
use crate::marks::{Found, Here, Input, Marks};
use crate::pending::View;

/// A place in the output, and where its events go. Every reader takes one and moves it over what it has read.
pub(crate) struct Cursor<'p, 'e> {
    view: View<'p>,
    /// The next byte to read.
    pub at: usize,
    /// Receives the events.
    pub on: &'e mut dyn FnMut(Event<'_>),
}

impl<'p> Cursor<'p, '_> {
    pub fn new<'e>(view: View<'p>, at: usize, on: &'e mut dyn FnMut(Event<'_>)) -> Cursor<'p, 'e> {
        Cursor { view, at, on }
    }

    /// Runs `read` with no more of the output than this view has.
    pub fn within<T>(&mut self, view: View<'p>, read: impl FnOnce(&mut Cursor<'p, '_>) -> T) -> T {
        let mut inner = Cursor { view, at: self.at, on: &mut *self.on };
        let result = read(&mut inner);
        self.at = inner.at;
        result
    }

    pub fn view(&self) -> View<'p> {
        self.view
    }

    /// Whether no more output follows.
    pub fn is_last(&self) -> bool {
        self.view.is_last
    }

    pub fn input(&self) -> Input<'p> {
        self.view.input()
    }

    pub fn text(&self) -> &'p str {
        self.view.text()
    }

    /// The text from here on.
    pub fn rest(&self) -> &'p str {
        &self.view.text()[self.at..]
    }

    /// The next character.
    pub fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub fn is_at_end(&self) -> bool {
        self.at == self.view.text().len()
    }

    /// A part of the output without what belongs to the prompt.
    pub fn shown(&self, range: Range<usize>) -> &'p str {
        self.view.shown(range)
    }

    /// The text up to a byte, without what belongs to the prompt; the cursor moves there.
    pub fn take_up_to(&mut self, end: usize) -> &'p str {
        let text = self.view.shown(self.at..end);
        self.at = end;
        text
    }

    /// The byte offset of this place in the output.
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

    /// Skips as much of `pad` as is there, which may be less than all of it; `seen` counts its bytes. False if more may come.
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

    /// Which marker is here.
    pub fn marker_here<A>(&self, markers: &Marks<A>) -> Here {
        markers.at(self.input(), self.at, self.is_last())
    }

    /// The next marker from a byte on.
    pub fn find_marker<A>(&self, markers: &Marks<A>, from: usize) -> Found {
        markers.find(self.input(), from, self.is_last())
    }
}
