use std::hash::Hasher;
use std::io::{self, BufRead, BufReader, Read};

use twox_hash::XxHash64;

/// The size of the read buffer in bytes.
const BUFFER: usize = 256 << 10;

/// The maximum length of a line in bytes, so that memory does not grow with the input.
const LONGEST: u64 = 2 << 30;

/// A block of input lines, which one thread processes at a time.
#[derive(Debug, Default)]
pub struct LineBlock {
    /// The number of the first line, from 1.
    pub first: u64,
    bytes: Vec<u8>,
    /// The end of each line in `bytes`.
    ends: Vec<usize>,
    /// The position in the input after this block.
    pub mark: LineMark,
}

/// A position in the input between two lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineMark {
    pub bytes: u64,
    pub lines: u64,
    /// The digest of all bytes before this position.
    pub digest: u64,
}

/// The size limits of a block.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub lines: usize,
    /// A block exceeds this by at most one line.
    pub bytes: usize,
    /// Whether a block ends where the next read may wait, because a writer that sends single lines
    /// waits for their results.
    pub prompt: bool,
}

/// A reader that splits the input into blocks of whole lines.
pub struct Lines {
    reader: BufReader<Box<dyn Read + Send>>,
    size: Size,
    at: u64,
    lines: u64,
    digest: XxHash64,
    /// The error that ends the input, reported after the lines before it.
    failed: Option<io::Error>,
}

impl LineBlock {
    /// Returns the lines unchanged, each with its number.
    pub fn lines(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let spans = starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end]);
        (self.first..).zip(spans)
    }
}

impl Lines {
    pub fn new(input: Box<dyn Read + Send>, size: Size) -> Lines {
        let reader = BufReader::with_capacity(BUFFER, input);
        Lines { reader, size, at: 0, lines: 0, digest: XxHash64::with_seed(0), failed: None }
    }

    /// Skips to the position where an earlier run stopped. Returns `false` if this is not the input
    /// of that run.
    pub fn skip_to(&mut self, mark: LineMark) -> io::Result<bool> {
        let mut last = b'\n';
        while self.at < mark.bytes {
            let buffer = self.reader.fill_buf()?;
            let most = usize::try_from(mark.bytes - self.at).unwrap_or(usize::MAX);
            let taken = &buffer[..buffer.len().min(most)];
            let [.., end] = taken else { return Ok(false) };
            last = *end;
            self.digest.write(taken);
            let count = taken.len();
            self.at += count as u64;
            self.reader.consume(count);
        }
        self.lines = mark.lines;
        // A last line without a line break may have grown since then.
        Ok(self.digest.finish() == mark.digest && (last == b'\n' || self.reader.fill_buf()?.is_empty()))
    }

    /// Returns the next block, or `None` at the end of the input.
    pub fn next_block(&mut self) -> io::Result<Option<LineBlock>> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let mut block = LineBlock { first: self.lines + 1, ..LineBlock::default() };
        while block.ends.len() < self.size.lines && block.bytes.len() < self.size.bytes {
            let before = block.bytes.len();
            match self.reader.by_ref().take(LONGEST).read_until(b'\n', &mut block.bytes) {
                Ok(0) => break,
                Ok(read) if read as u64 == LONGEST && !block.bytes.ends_with(b"\n") => {
                    block.bytes.truncate(before);
                    let line = self.lines + block.ends.len() as u64 + 1;
                    self.failed = Some(io::Error::other(format!("line {line} is longer than {} GiB", LONGEST >> 30)));
                    break;
                }
                Ok(_) => {}
                Err(error) => {
                    block.bytes.truncate(block.ends.last().copied().unwrap_or_default());
                    self.failed = Some(error);
                    break;
                }
            }
            block.ends.push(block.bytes.len());
            if self.size.prompt && self.reader.buffer().is_empty() {
                break;
            }
        }
        if block.ends.is_empty() {
            return self.failed.take().map_or(Ok(None), Err);
        }
        self.at += block.bytes.len() as u64;
        self.lines += block.ends.len() as u64;
        self.digest.write(&block.bytes);
        block.mark = LineMark { bytes: self.at, lines: self.lines, digest: self.digest.finish() };
        Ok(Some(block))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size { lines: 2, bytes: 100, prompt: false };

    fn lines(text: &'static str) -> Lines {
        Lines::new(Box::new(text.as_bytes()), SIZE)
    }

    fn texts(block: &LineBlock) -> Vec<(u64, &str)> {
        block.lines().map(|(number, line)| (number, std::str::from_utf8(line).unwrap())).collect()
    }

    #[test]
    fn blocks_hold_whole_lines_and_count_on() {
        let mut lines = lines("a\n\nb\r\nc");
        assert_eq!(texts(&lines.next_block().unwrap().unwrap()), [(1, "a\n"), (2, "\n")]);
        let block = lines.next_block().unwrap().unwrap();
        assert_eq!(texts(&block), [(3, "b\r\n"), (4, "c")]);
        assert_eq!((block.mark.bytes, block.mark.lines), (7, 4));
        assert!(lines.next_block().unwrap().is_none());
    }

    #[test]
    fn a_mark_is_found_again_in_the_same_input_alone() {
        let mut first = lines("a\nb\nc\nd\n");
        let mark = first.next_block().unwrap().unwrap().mark;
        for (text, same) in
            [("a\nb\nc\nd\n", true), ("a\nb\nX\n", true), ("a\nb\n", true), ("a\nX\nc\n", false), ("a\n", false)]
        {
            assert_eq!(lines(text).skip_to(mark).unwrap(), same, "{text:?}");
        }
        let mut again = lines("a\nb\nc\nd\n");
        again.skip_to(mark).unwrap();
        let (expected, found) = (first.next_block().unwrap().unwrap(), again.next_block().unwrap().unwrap());
        assert_eq!((texts(&expected), expected.mark), (texts(&found), found.mark));
    }

    #[test]
    fn a_last_line_that_became_longer_is_another_input() {
        let mut short = lines("a\nb");
        let mark = short.next_block().unwrap().unwrap().mark;
        assert!(lines("a\nb").skip_to(mark).unwrap());
        assert!(!lines("a\nbc\n").skip_to(mark).unwrap());
    }
}
