use std::ops::Range;

/// A text that a diagnostic can point into.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// What it is called: a path, or `<stdin>`.
    pub name: String,
    pub text: String,
}

/// A byte of a text, with its line and column.
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
    /// Line and column of a byte, counted from one that is known where that is before it.
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

    /// Line and column of a byte, both from 1; columns are characters.
    pub fn line_and_column(&self, offset: usize) -> (usize, usize) {
        let before = &self.text[..self.border(offset)];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }

    /// The line around a byte, without its break.
    pub fn line_around(&self, offset: usize) -> Range<usize> {
        let offset = self.border(offset);
        let start = self.text[..offset].rfind('\n').map_or(0, |at| at + 1);
        let end = self.text[offset..].find('\n').map_or(self.text.len(), |at| offset + at);
        start..end.max(start)
    }

    /// The character border at or before an offset.
    fn border(&self, offset: usize) -> usize {
        let mut offset = offset.min(self.text.len());
        while !self.text.is_char_boundary(offset) {
            offset -= 1;
        }
        offset
    }
}
