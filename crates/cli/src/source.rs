use std::ops::Range;

use rolecall::template::NamedTemplate;

/// A text that a diagnostic can point into.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// The name: a path, or `<stdin>`.
    pub name: String,
    pub text: String,
}

/// A position in a text: byte offset, line and column.
#[derive(Clone, Copy, Debug)]
pub struct Spot {
    offset: usize,
    pub line: usize,
    pub column: usize,
}

impl Default for Spot {
    fn default() -> Spot {
        Spot { offset: 0, line: 1, column: 1 }
    }
}

impl Source {
    /// Returns a template's text with `\n` line ends, in which the engine counts its lines.
    pub fn of_template(named: &NamedTemplate) -> Source {
        Source { name: named.place(), text: named.source.replace("\r\n", "\n").replace('\r', "\n") }
    }

    /// Returns the position of a byte offset. Counts from `known` if that comes first, else from
    /// the start.
    pub fn spot_from(&self, known: Spot, offset: usize) -> Spot {
        let offset = self.border(offset);
        let known = if known.offset > offset { Spot::default() } else { known };
        let between = &self.text[known.offset..offset];
        let column = match between.rfind('\n') {
            Some(at) => between[at + 1..].chars().count() + 1,
            None => known.column + between.chars().count(),
        };
        Spot { offset, line: known.line + between.matches('\n').count(), column }
    }

    /// Returns the line and column of a byte offset, both counted from 1. Columns count characters.
    pub fn line_and_column(&self, offset: usize) -> (usize, usize) {
        let before = &self.text[..self.border(offset)];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }

    /// Returns the range of the line that contains a byte offset, without its line break.
    pub fn line_around(&self, offset: usize) -> Range<usize> {
        let offset = self.border(offset);
        let start = self.text[..offset].rfind('\n').map_or(0, |at| at + 1);
        let end = self.text[offset..].find('\n').map_or(self.text.len(), |at| offset + at);
        start..end.max(start)
    }

    /// Returns the character boundary at or before an offset.
    fn border(&self, offset: usize) -> usize {
        let mut offset = offset.min(self.text.len());
        while !self.text.is_char_boundary(offset) {
            offset -= 1;
        }
        offset
    }
}
