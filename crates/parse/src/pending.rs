use std::cell::Cell;
use std::ops::Range;

use crate::marks::Input;

/// Output that could not be read yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pending {
    text: String,
    /// By byte, whether a control token wrote it; empty where nobody knows.
    control: Vec<bool>,
    /// Where its first byte stands in the output.
    start: u64,
    /// How many of its bytes are the prompt's.
    hidden: usize,
    /// Up to where it was tried to read calls in reasoning, and there are none.
    tried: Cell<usize>,
}

impl Pending {
    /// Takes more of the output, and whether a control token wrote it, if that is known.
    pub fn push(&mut self, piece: &str, is_control: Option<bool>) {
        let before = self.text.len();
        self.text.push_str(piece);
        if is_control.is_some() || !self.control.is_empty() {
            // What the prompt wrote may have been a control token.
            self.control.resize(self.hidden.max(self.control.len()).min(before), true);
            self.control.resize(before, false);
            self.control.resize(before + piece.len(), is_control.unwrap_or(false));
        }
    }

    /// What there is so far is the prompt's.
    pub fn hide(&mut self) {
        self.hidden = self.text.len();
        self.start = 0;
        self.control.clear();
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn view(&self, is_last: bool) -> View<'_> {
        View { pending: self, end: self.text.len(), is_last }
    }

    /// A part of it without what is the prompt's.
    pub fn shown(&self, range: Range<usize>) -> &str {
        &self.text[range.start.max(self.hidden).min(range.end)..range.end]
    }

    /// Where a byte of it stands in the output; what is the prompt's stands before its start.
    pub fn offset(&self, at: usize) -> u64 {
        self.start + at.saturating_sub(self.hidden) as u64
    }

    /// Whether a call in reasoning that begins here was tried and is none.
    pub fn is_tried(&self, at: usize) -> bool {
        at < self.tried.get()
    }

    pub fn set_tried(&self, end: usize) {
        self.tried.set(end);
    }

    pub fn drop_up_to(&mut self, at: usize) {
        self.start += (at - self.hidden.min(at)) as u64;
        self.hidden -= self.hidden.min(at);
        self.tried.set(self.tried.get().saturating_sub(at));
        match at == self.text.len() {
            true => self.text.clear(),
            false => drop(self.text.drain(..at)),
        }
        self.control.drain(..at.min(self.control.len()));
    }
}

/// Output that may be read now: up to where a cap ends.
#[derive(Clone, Copy)]
pub(crate) struct View<'p> {
    pending: &'p Pending,
    end: usize,
    /// Whether no more output follows.
    pub is_last: bool,
}

impl<'p> View<'p> {
    /// No more than so many bytes of it, however much there is, so that a cap ends at the same byte in every chunking.
    pub fn up_to(self, end: usize) -> View<'p> {
        if end >= self.end {
            return self;
        }
        let end = self.input().up_to(end).text.len();
        View { end, is_last: false, ..self }
    }

    /// Whether it ends before another view of the same output.
    pub fn is_shorter_than(self, other: View<'_>) -> bool {
        self.end < other.end
    }

    pub fn text(self) -> &'p str {
        &self.pending.text[..self.end]
    }

    pub fn input(self) -> Input<'p> {
        let control = &self.pending.control;
        Input { text: self.text(), control: &control[..self.end.min(control.len())] }
    }

    /// A part of it without what is the prompt's.
    pub fn shown(self, range: Range<usize>) -> &'p str {
        self.pending.shown(range)
    }

    /// Where a byte of it stands in the output.
    pub fn offset(self, at: usize) -> u64 {
        self.pending.offset(at)
    }

    /// Whether a call in reasoning that begins here was tried and is none.
    pub fn is_tried(self, at: usize) -> bool {
        self.pending.is_tried(at)
    }

    /// Notes that no call begins in the reasoning up to here.
    pub fn set_tried(self, end: usize) {
        self.pending.set_tried(end);
    }
}
