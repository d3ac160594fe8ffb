use std::ops::ControlFlow;

use super::automaton::TooHard;
use super::char_window::CharWindow;
use super::scanner::{AT_MARK, Automata, BACK, END, ROW, SET_MARK, STOP, Scanner};

/// The number of places at which a text is read at once. The steps at one place wait for each other,
/// but not for those at another.
const LANES: usize = 4;
/// The bytes of a lane, and the bytes in which a place for the next lane is sought.
const LENGTH: usize = 512;
const SOUGHT: usize = 64;
/// Shorter texts are read at one place.
const SHORTEST: usize = 128;
/// The room for the ends of words in a lane: each byte could end one.
const ROOM: usize = (LENGTH + SOUGHT).next_power_of_two();

/// The memory for a text while it is read, reused from text to text.
pub(crate) struct Lanes {
    lanes: [Lane; LANES],
    ends: Box<[WordEnds; LANES]>,
    columns: Box<[u8; LANES * LENGTH]>,
    /// The ends of the words in all lanes.
    pub joined: Vec<u32>,
    pub(super) window: CharWindow,
}

/// The columns of the bytes from one place on.
struct WindowColumns<'a> {
    start: usize,
    columns: &'a [u8],
}

/// The ends of the words in a lane.
type WordEnds = [u32; ROOM];

/// A place at which a text is read.
#[derive(Clone, Copy, Default)]
struct Lane {
    at: usize,
    limit: usize,
    row: u32,
    mark: usize,
    /// The start of the word before the first end, and the row at the start of the current word.
    word: usize,
    word_row: u32,
    count: usize,
}

/// A text while it is read.
pub(crate) struct Scan<'a> {
    pub scanner: &'a Scanner,
    pub automata: Automata<'a>,
    pub text: &'a str,
    pub end: usize,
    /// The number of bytes that may still be read again.
    pub patience: usize,
}

impl Default for Lanes {
    fn default() -> Self {
        Self {
            lanes: [Lane::default(); LANES],
            ends: Box::new([[0; ROOM]; LANES]),
            columns: Box::new([0; LANES * LENGTH]),
            joined: Vec::new(),
            window: CharWindow::default(),
        }
    }
}

impl Lanes {
    /// Calls `visit` with runs of neighboring words from `start` on: the start of the first word
    /// and the end of each.
    pub fn split(
        &mut self,
        scan: &mut Scan<'_>,
        start: usize,
        row: u32,
        visit: &mut impl FnMut(usize, &[u32]) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, TooHard> {
        let mut lane = Lane::at(start, row);
        let mut word = start;
        loop {
            let used = self.place(scan, lane);
            let filled = (scan.end - lane.at).min(LANES * LENGTH);
            scan.scanner.fill_columns(scan.automata.classes, scan.text, lane.at, &mut self.columns[..filled]);
            let columns = WindowColumns { start: lane.at, columns: &self.columns[..filled] };
            if used == LANES {
                read_together(&mut self.lanes, &mut self.ends, &columns, scan)?;
            }
            for (lane, ends) in self.lanes[..used].iter_mut().zip(&mut *self.ends) {
                lane.read(ends, &columns, scan)?;
            }
            lane = self.lanes[used - 1];
            let is_over = lane.at >= scan.end && lane.finish(&mut self.ends[used - 1], scan)?;
            self.lanes[used - 1].count = lane.count;
            self.joined.clear();
            for at in 0..used {
                let next = (at + 1 < used).then(|| self.lanes[at + 1].word as u32);
                let mut ends = self.ends[at].get(..self.lanes[at].count).unwrap_or_default();
                // The next lane begins with the end of this one's last word.
                if next.is_some() && ends.last().copied() == next {
                    ends = &ends[..ends.len() - 1];
                }
                self.joined.extend_from_slice(ends);
            }
            if let Some(&last) = self.joined.last()
                && visit(std::mem::replace(&mut word, last as usize), &self.joined).is_break()
            {
                return Ok(ControlFlow::Break(()));
            }
            if is_over {
                return Ok(ControlFlow::Continue(()));
            }
            (lane.word, lane.count) = (word, 0);
        }
    }

    /// Places lanes in the next bytes, where words begin. Returns their number.
    fn place(&mut self, scan: &Scan<'_>, first: Lane) -> usize {
        let length = (scan.end - first.at).min(LANES * LENGTH);
        self.lanes[0] = Lane { limit: first.at + length.min(LENGTH), ..first };
        // A word that began long before may be read again, with more ends than a lane has room for.
        if length < SHORTEST || first.at + LENGTH + SOUGHT > first.word + ROOM {
            return 1;
        }
        let stride = length / LANES;
        for lane in 1..LANES {
            let from = first.at + lane * stride;
            let to = from + SOUGHT.min(stride - 1);
            let found = scan.scanner.find_word_start(scan.automata.classes, scan.text, from, to);
            let Some((place, row)) = found else { return lane };
            self.lanes[lane - 1].limit = place;
            let limit = first.at + length.min((lane + 1) * stride + SOUGHT);
            self.lanes[lane] = Lane { limit, ..Lane::at(place, row) };
        }
        LANES
    }
}

/// Reads until one of the lanes is done.
fn read_together(
    lanes: &mut [Lane; LANES],
    ends: &mut [WordEnds; LANES],
    columns: &WindowColumns<'_>,
    scan: &mut Scan<'_>,
) -> Result<(), TooHard> {
    while let Some(steps) = lanes.iter().map(|lane| lane.limit.saturating_sub(lane.at)).min()
        && steps > 0
    {
        let read = match scan.automata.outer.is_empty() {
            true => read_columns::<false>(lanes, ends, columns, scan.scanner, steps),
            false => read_columns::<true>(lanes, ends, columns, scan.scanner, steps),
        };
        if read < steps {
            for (lane, ends) in lanes.iter_mut().zip(&mut *ends) {
                lane.step(ends, columns, scan)?;
            }
        }
    }
    Ok(())
}

/// Reads bytes in all lanes, up to one in any lane after which text has to be read again. Returns
/// their number in each lane. `NESTED` is whether there are outer patterns.
///
/// Nothing in here waits for a decision about the text, except where words end before the last
/// character.
#[inline(always)]
fn read_columns<const NESTED: bool>(
    lanes: &mut [Lane; LANES],
    ends: &mut [WordEnds; LANES],
    columns: &WindowColumns<'_>,
    scanner: &Scanner,
    steps: usize,
) -> usize {
    let starts = lanes.each_ref().map(|lane| lane.at);
    // In variables of their own, which the processor's registers can hold.
    let [Some(text_0), Some(text_1), Some(text_2), Some(text_3)] = starts.map(|at| columns.part(at, steps)) else {
        return 0;
    };
    let mut rows = lanes.each_ref().map(|lane| lane.row);
    let mut counts = lanes.each_ref().map(|lane| lane.count);
    let mut marks = lanes.each_ref().map(|lane| lane.mark);
    let mut word_rows = lanes.each_ref().map(|lane| lane.word_row);
    let mut done = 0;
    for (((&column_0, &column_1), &column_2), &column_3) in text_0.iter().zip(text_1).zip(text_2).zip(text_3) {
        let cells = [
            scanner.cell(rows[0], usize::from(column_0)),
            scanner.cell(rows[1], usize::from(column_1)),
            scanner.cell(rows[2], usize::from(column_2)),
            scanner.cell(rows[3], usize::from(column_3)),
        ];
        let all = cells[0] | cells[1] | cells[2] | cells[3];
        if all & (STOP | AT_MARK | BACK | SET_MARK) != 0 {
            if all & STOP != 0 {
                break;
            }
            for lane in 0..LANES {
                let (ends, at, cell) = (&mut ends[lane], starts[lane] + done, cells[lane]);
                ends[counts[lane] % ROOM] = marks[lane] as u32;
                counts[lane] += usize::from(cell & AT_MARK != 0);
                ends[counts[lane] % ROOM] = (at as u32).wrapping_sub(1);
                counts[lane] += usize::from(cell & BACK != 0);
                marks[lane] = if cell & SET_MARK != 0 { at } else { marks[lane] };
                if NESTED && cell & (AT_MARK | BACK) != 0 {
                    word_rows[lane] = rows[lane];
                }
            }
        }
        for lane in 0..LANES {
            let cell = cells[lane];
            ends[lane][counts[lane] % ROOM] = (starts[lane] + done) as u32;
            counts[lane] += (cell >> 31) as usize;
            if NESTED {
                word_rows[lane] = if cell & END != 0 { rows[lane] } else { word_rows[lane] };
            }
            rows[lane] = cell & ROW;
        }
        done += 1;
    }
    for (at, lane) in lanes.iter_mut().enumerate() {
        (lane.at, lane.row, lane.count) = (starts[at] + done, rows[at], counts[at]);
        (lane.mark, lane.word_row) = (marks[at], word_rows[at]);
    }
    done
}

impl WindowColumns<'_> {
    #[inline(always)]
    fn part(&self, at: usize, length: usize) -> Option<&[u8]> {
        self.columns.get(at.wrapping_sub(self.start)..)?.get(..length)
    }
}

impl Lane {
    fn at(at: usize, row: u32) -> Self {
        Self { at, limit: at, row, mark: at, word: at, word_row: row, count: 0 }
    }

    /// Reads up to the limit.
    fn read(&mut self, ends: &mut WordEnds, columns: &WindowColumns<'_>, scan: &mut Scan<'_>) -> Result<(), TooHard> {
        // A copy, which the processor's registers can hold.
        let mut lane = *self;
        while lane.at < lane.limit {
            lane.step(ends, columns, scan)?;
        }
        *self = lane;
        Ok(())
    }

    /// Reads one byte, or one character outside the window.
    #[inline(always)]
    fn step(&mut self, ends: &mut WordEnds, columns: &WindowColumns<'_>, scan: &mut Scan<'_>) -> Result<(), TooHard> {
        let (column, length) = match columns.columns.get(self.at.wrapping_sub(columns.start)) {
            Some(&column) => (usize::from(column), 1),
            None => scan.scanner.read_column(scan.automata.classes, scan.text, self.at).ok_or(TooHard)?,
        };
        let cell = scan.scanner.cell(self.row, column);
        if cell & (STOP | AT_MARK | BACK) != 0 {
            if cell & STOP != 0 {
                return self.read_again(ends, scan);
            }
            self.end_earlier(cell, ends);
            self.word_row = self.row;
        }
        if cell & SET_MARK != 0 {
            self.mark = self.at;
        }
        ends[self.count % ROOM] = self.at as u32;
        self.count += (cell >> 31) as usize;
        self.word_row = if cell & END != 0 { self.row } else { self.word_row };
        self.row = cell & ROW;
        self.at += length;
        Ok(())
    }

    /// Reads the word again that began at the last end of a word.
    #[inline(never)]
    fn read_again(&mut self, ends: &mut WordEnds, scan: &mut Scan<'_>) -> Result<(), TooHard> {
        let start = self.last_end(ends).unwrap_or(self.word);
        let mut outer = scan.scanner.outer(self.word_row).to_vec();
        let (end, looked) = scan.automata.next_word(scan.text, start, scan.end, &mut outer, &mut scan.patience)?;
        let again = looked.max(self.at).saturating_sub(end);
        scan.patience = scan.patience.checked_sub(again).ok_or(TooHard)?;
        self.push(ends, end);
        // Each of the next bytes could end a word. Only a lane that is alone is limited by this.
        self.limit = self.limit.min(end + ROOM - self.count);
        self.row = scan.scanner.restart(&outer);
        (self.at, self.mark, self.word_row) = (end, end, self.row);
        Ok(())
    }

    /// Ends words before the last character.
    fn end_earlier(&mut self, cell: u32, ends: &mut WordEnds) {
        if cell & AT_MARK != 0 {
            self.push(ends, self.mark);
        }
        if cell & BACK != 0 {
            self.push(ends, self.at - 1);
        }
    }

    fn push(&mut self, ends: &mut WordEnds, end: usize) {
        ends[self.count % ROOM] = end as u32;
        self.count += 1;
    }

    fn last_end(&self, ends: &WordEnds) -> Option<usize> {
        self.count.checked_sub(1).map(|last| ends[last % ROOM] as usize)
    }

    /// Ends the last words at the end of the text. Returns false if they have to be read again.
    fn finish(&mut self, ends: &mut WordEnds, scan: &mut Scan<'_>) -> Result<bool, TooHard> {
        if self.last_end(ends).unwrap_or(self.word) == scan.end {
            return Ok(true);
        }
        let cell = scan.scanner.cell(self.row, scan.scanner.end_column());
        if cell & STOP != 0 {
            self.read_again(ends, scan)?;
            return Ok(self.at == scan.end);
        }
        self.end_earlier(cell, ends);
        self.push(ends, scan.end);
        Ok(true)
    }
}
