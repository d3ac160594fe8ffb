use std::cell::Cell;
use std::ops::Range;

use crate::marks::PendingInput;

/// Output that is not parsed yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pending {
    text: String,
    /// For each byte, whether a control token wrote it; empty if unknown.
    control: Vec<bool>,
    /// Offset of the first byte in the output.
    start: u64,
    /// The number of bytes that belong to the prompt.
    hidden: usize,
    /// The end of the text in which calls in reasoning were tried without success.
    tried: Cell<usize>,
}

impl Pending {
    /// Appends output. `is_control` tells whether a control token wrote it, if that is known.
    pub fn push(&mut self, piece: &str, is_control: Option<bool>) {
        let before = self.text.len();
        if self.text.capacity() == 0 {
            self.text.reserve(piece.len().max(256));
        }
        self.text.push_str(piece);
        if is_control.is_some() || !self.control.is_empty() {
            // Text of the prompt may come from a control token.
            self.control.resize(self.hidden.max(self.control.len()).min(before), true);
            self.control.resize(before, false);
            self.control.resize(before + piece.len(), is_control.unwrap_or(false));
        }
    }

    /// Records that the text so far belongs to the prompt.
    pub fn hide(&mut self) {
        self.hidden = self.text.len();
        self.start = 0;
        self.control.clear();
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Counts output that was read without becoming pending.
    pub fn skip(&mut self, length: usize) {
        self.start += length as u64;
    }

    pub fn view(&self, is_last: bool) -> PendingView<'_> {
        PendingView { pending: self, end: self.text.len(), is_last }
    }

    /// Returns a part of the text, without the text that belongs to the prompt.
    pub fn shown(&self, range: Range<usize>) -> &str {
        &self.text[range.start.max(self.hidden).min(range.end)..range.end]
    }

    /// Returns the offset of a byte in the output. Bytes of the prompt have the offset of the
    /// output's start.
    pub fn offset(&self, at: usize) -> u64 {
        self.start + at.saturating_sub(self.hidden) as u64
    }

    /// Reports whether a call in reasoning was already tried at this byte, without success.
    pub fn is_tried(&self, at: usize) -> bool {
        at < self.tried.get()
    }

    pub fn set_tried(&self, end: usize) {
        self.tried.set(end);
    }

    /// Forgets the text that was not read, as if it had not been pushed.
    pub fn drop_rest(&mut self) {
        self.text.clear();
        self.control.clear();
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

/// The pending output that may be read now. A cap may limit it.
#[derive(Clone, Copy)]
pub(crate) struct PendingView<'p> {
    pending: &'p Pending,
    end: usize,
    /// Whether no more output follows.
    pub is_last: bool,
}

impl<'p> PendingView<'p> {
    /// Limits the view to `end` bytes, so that a cap ends at the same byte in every chunking.
    pub fn up_to(self, end: usize) -> PendingView<'p> {
        if end >= self.end {
            return self;
        }
        let end = self.input().up_to(end).text.len();
        PendingView { end, is_last: false, ..self }
    }

    /// Reports whether the view ends before another view of the same output.
    pub fn is_shorter_than(self, other: PendingView<'_>) -> bool {
        self.end < other.end
    }

    pub fn text(self) -> &'p str {
        &self.pending.text[..self.end]
    }

    pub fn input(self) -> PendingInput<'p> {
        let control = &self.pending.control;
        PendingInput { text: self.text(), control: &control[..self.end.min(control.len())] }
    }

    /// Returns a part of the text, without the text that belongs to the prompt.
    pub fn shown(self, range: Range<usize>) -> &'p str {
        self.pending.shown(range)
    }

    /// Returns the offset of a byte in the output.
    pub fn offset(self, at: usize) -> u64 {
        self.pending.offset(at)
    }

    /// Reports whether a call in reasoning was already tried at this byte, without success.
    pub fn is_tried(self, at: usize) -> bool {
        self.pending.is_tried(at)
    }

    /// Records that no call begins in the reasoning up to this byte.
    pub fn set_tried(self, end: usize) {
        self.pending.set_tried(end);
    }
}
