/// Where the pieces of a text stand in the output. Between two of them, the output has what is not in the text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Offsets(Vec<(usize, u64)>);

/// The most pieces of which the last half is kept. Searches look less far back.
const MOST: usize = 1024;

impl Offsets {
    /// Adds a piece that begins at a byte of the text, and at an offset of the output.
    pub fn add(&mut self, at: usize, offset: u64) {
        if self.0.last().is_some_and(|(start, from)| from + (at - start) as u64 == offset) {
            return;
        }
        if self.0.len() == MOST {
            self.0.drain(..MOST / 2);
        }
        self.0.push((at, offset));
    }

    /// Returns the offset of a byte of the text.
    pub fn offset(&self, at: usize) -> u64 {
        let piece = self.0.iter().rev().find(|(start, _)| *start <= at);
        piece.map_or(0, |(start, offset)| offset + (at - start) as u64)
    }

    /// Forgets the text up to a byte, which becomes the first one.
    pub fn cut(&mut self, at: usize) {
        let first = (0, self.offset(at));
        let later = self.0.iter().filter(|(start, _)| *start > at).map(|(start, offset)| (start - at, *offset));
        self.0 = [first].into_iter().chain(later).collect();
    }

    /// Forgets all of it.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}
