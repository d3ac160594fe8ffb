use std::collections::{BTreeMap, VecDeque};
use std::num::NonZero;
use std::ops::ControlFlow;
use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use super::kept::Kept;
use super::memory::{Memory, MemoryOwner};

/// Texts of this length are encoded on all processors.
pub(crate) const LONG_TEXT: usize = 1 << 18;
/// The length of the piece that a processor encodes at once, and the bytes in which a place for
/// the next one is sought.
const PIECE: usize = 1 << 16;
const SOUGHT: usize = 1 << 12;

/// A range of a text that is cut into pieces.
#[derive(Clone, Copy)]
pub(crate) struct LongText<'a> {
    pub owner: &'a MemoryOwner,
    pub start: usize,
    pub end: usize,
}

/// A piece of a text: its number and its range.
#[derive(Clone, Copy)]
struct TextPiece {
    number: usize,
    range: (usize, usize),
}

/// The pieces of a text that nobody encodes yet.
///
/// A worker takes those whose number belongs to it, so that it knows their words if the same text, or
/// one that begins alike, comes again; and others' pieces if those are behind.
struct OpenPieces<'a, P> {
    text: LongText<'a>,
    find_place: &'a P,
    number: usize,
    workers: usize,
    /// The pieces that are left for others.
    left: VecDeque<TextPiece>,
}

impl<P: Fn(usize, usize) -> Option<usize>> OpenPieces<'_, P> {
    /// Takes a piece that was left for another worker.
    fn take(&mut self, is_wanted: impl Fn(&TextPiece) -> bool) -> Option<TextPiece> {
        let at = self.left.iter().position(is_wanted)?;
        self.left.remove(at)
    }

    fn next(&mut self, worker: usize) -> Option<TextPiece> {
        let workers = self.workers;
        let is_own = |piece: &TextPiece| piece.number % workers == worker;
        if let Some(piece) = self.take(is_own) {
            return Some(piece);
        }
        while self.left.len() < 2 * workers
            && let Some(piece) = self.cut()
        {
            if is_own(&piece) {
                return Some(piece);
            }
            self.left.push_back(piece);
        }
        self.left.pop_front()
    }

    /// Cuts off a piece.
    fn cut(&mut self) -> Option<TextPiece> {
        let start = self.text.start;
        let from = start + PIECE;
        let end = (from + SOUGHT < self.text.end).then(|| (self.find_place)(from, from + SOUGHT)).flatten()?;
        let piece = TextPiece { number: self.number, range: (start, end) };
        (self.text.start, self.number) = (end, self.number + 1);
        Some(piece)
    }
}

/// Where the tokens of a text go.
pub(crate) trait Destination<K> {
    fn tokens(&mut self) -> &mut Vec<K>;

    /// Called when the tokens up to byte `end` are there. Breaks if no more are wanted.
    fn has_reached(&mut self, end: usize) -> ControlFlow<()>;
}

impl LongText<'_> {
    /// Encodes pieces of the range on all processors. `find_place` returns a place between two
    /// positions at which a word begins, whatever precedes it. Returns where the rest begins; it is
    /// also the rest if no more tokens are wanted.
    pub fn encode<K: Kept, E: Send>(
        self,
        memory: &mut Memory,
        find_place: impl Fn(usize, usize) -> Option<usize> + Sync,
        encode: impl Fn((usize, usize), &mut Memory, &mut Vec<K>) -> Result<(), E> + Sync,
        out: &mut impl Destination<K>,
    ) -> Result<usize, E> {
        let workers = processors().min((self.end - self.start) / PIECE) - 1;
        if workers == 0 {
            return Ok(self.start);
        }
        let (number, left) = (0, VecDeque::new());
        let pieces = Mutex::new(OpenPieces { text: self, find_place: &find_place, number, workers: workers + 1, left });
        let spare = Mutex::new(Vec::<Vec<K>>::new());
        let next = |worker| lock(&pieces).next(worker);
        let encode_apart = |piece: TextPiece, memory: &mut Memory| {
            let mut tokens = lock(&spare).pop().unwrap_or_default();
            tokens.clear();
            let done = encode(piece.range, memory, &mut tokens);
            (piece, done.map(|()| tokens))
        };
        thread::scope(|scope| {
            let (sender, receiver) = sync_channel(workers);
            for worker in 1..=workers {
                let sender = sender.clone();
                scope.spawn(move || {
                    self.owner.with_spare_memory(worker, |memory| {
                        while let Some(piece) = next(worker)
                            && sender.send(encode_apart(piece, memory)).is_ok()
                        {}
                    });
                });
            }
            drop(sender);
            let (mut at, mut number) = (self.start, 0);
            // Few pieces wait for one before them.
            let most_done = 2 * workers;
            let mut done = BTreeMap::new();
            loop {
                if let Some((TextPiece { range, .. }, tokens)) = done.remove(&number) {
                    let tokens: Vec<K> = tokens?;
                    out.tokens().extend_from_slice(&tokens);
                    lock(&spare).push(tokens);
                    at = range.1;
                } else if let Ok((piece, tokens)) = receiver.try_recv() {
                    done.insert(piece.number, (piece, tokens));
                    continue;
                } else if let Some(piece) = (done.len() < most_done)
                    .then(|| next(0))
                    .flatten()
                    .or_else(|| lock(&pieces).take(|piece| piece.number == number))
                {
                    if piece.number > number {
                        done.insert(piece.number, encode_apart(piece, memory));
                        continue;
                    }
                    encode(piece.range, memory, out.tokens())?;
                    at = piece.range.1;
                } else if let Ok((piece, tokens)) = receiver.recv() {
                    done.insert(piece.number, (piece, tokens));
                    continue;
                } else {
                    return Ok(at);
                }
                number += 1;
                if out.has_reached(at).is_break() {
                    return Ok(at);
                }
            }
        })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the number of processors that this process may use.
fn processors() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    *PROCESSORS.get_or_init(|| thread::available_parallelism().map_or(1, NonZero::get))
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::{LongText, MemoryOwner, OpenPieces, PIECE, SOUGHT};

    #[test]
    fn a_worker_takes_its_own_pieces_and_those_that_others_leave() {
        let owner = MemoryOwner::new();
        let text = LongText { owner: &owner, start: 0, end: 9 * PIECE + SOUGHT };
        let find_place = &|from, _| Some(from);
        let mut pieces = OpenPieces { text, find_place, number: 0, workers: 2, left: VecDeque::new() };
        let numbers: Vec<usize> = std::iter::from_fn(|| pieces.next(1)).map(|piece| piece.number).collect();
        // Four are left at most.
        assert_eq!(numbers, [1, 3, 5, 0, 7, 2, 4, 6]);
    }
}
