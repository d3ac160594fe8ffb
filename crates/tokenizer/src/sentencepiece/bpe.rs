use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap};

use super::model::Model;
use super::{PieceRange, Reading};

/// Byte-pair merging by the scores of the pieces, as in sentencepiece.
pub(super) struct Bpe {
    /// Whether no learned piece contains a space after another character, so that words merge
    /// separately.
    words_apart: bool,
}

const SPACE: char = '\u{2581}';

struct Symbol {
    start: usize,
    end: usize,
    previous: Option<usize>,
    next: Option<usize>,
    /// A user-defined piece, which is neither merged nor split.
    frozen: Option<u32>,
}

/// A pair of neighbors that may become a piece. The best score goes first, then the leftmost pair.
struct Pair {
    score: f32,
    left: usize,
    right: usize,
    length: usize,
}

impl Bpe {
    pub fn new(model: &Model) -> Self {
        let holds_inner_space = |text: &str| text.trim_start_matches(SPACE).contains(SPACE);
        Self { words_apart: !model.pieces.iter().any(|piece| holds_inner_space(&piece.text)) }
    }

    pub fn encode(&self, text: &str, model: &Model, reading: &Reading) -> Vec<PieceRange> {
        let mut found = Vec::with_capacity(text.len() / 3);
        let mut work = Work::default();
        let mut start = 0;
        while start < text.len() {
            let end = self.word_end(text, start);
            work.merge_word(text, start, end, model, reading, &mut found);
            start = end;
        }
        found
    }

    fn word_end(&self, text: &str, start: usize) -> usize {
        if !self.words_apart {
            return text.len();
        }
        let bare = text[start..].trim_start_matches(SPACE);
        let length = bare.find(SPACE).unwrap_or(bare.len());
        text.len() - bare.len() + length
    }
}

/// The state for one word, reused between words to save allocations.
#[derive(Default)]
struct Work {
    symbols: Vec<Symbol>,
    agenda: BinaryHeap<Pair>,
    /// The position at which each piece that may be split again was merged.
    halves: HashMap<(usize, usize), usize>,
}

impl Work {
    fn merge_word(
        &mut self,
        text: &str,
        start: usize,
        end: usize,
        model: &Model,
        reading: &Reading,
        found: &mut Vec<PieceRange>,
    ) {
        self.cut(text, start, end, reading);
        for right in 1..self.symbols.len() {
            self.propose(right - 1, right, text, model, reading);
        }
        while let Some(pair) = self.agenda.pop() {
            self.merge(&pair, text, model, reading);
        }
        let mut next = self.symbols.first().map(|_| 0);
        while let Some(index) = next {
            let symbol = &self.symbols[index];
            match symbol.frozen {
                Some(piece) => found.push(PieceRange { start: symbol.start, end: symbol.end, piece: Some(piece) }),
                None => self.resegment(symbol.start, symbol.end, text, model, reading, found),
            }
            next = symbol.next;
        }
    }

    fn cut(&mut self, text: &str, start: usize, end: usize, reading: &Reading) {
        self.symbols.clear();
        self.agenda.clear();
        self.halves.clear();
        let mut at = start;
        while let Some(first) = text[at..end].chars().next() {
            let matched = if reading.matched.is_empty() {
                None
            } else {
                reading.matched.longest_prefix(&text.as_bytes()[at..end])
            };
            let length = matched.map_or(first.len_utf8(), |(length, _)| length);
            let index = self.symbols.len();
            self.symbols.push(Symbol {
                start: at,
                end: at + length,
                previous: index.checked_sub(1),
                next: (at + length < end).then_some(index + 1),
                frozen: matched.map(|(_, piece)| piece),
            });
            at += length;
        }
    }

    fn propose(&mut self, left: usize, right: usize, text: &str, model: &Model, reading: &Reading) {
        let (start, middle, end) = {
            let (left, right) = (&self.symbols[left], &self.symbols[right]);
            if left.frozen.is_some() || right.frozen.is_some() {
                return;
            }
            (left.start, left.end, right.end)
        };
        let Some(id) = model.piece_id(&text[start..end]).filter(|&id| reading.is_open(id)) else { return };
        let piece = &model.pieces[id as usize];
        self.agenda.push(Pair { score: piece.score, left, right, length: end - start });
        if reading.is_apart(id, piece) {
            self.halves.insert((start, end), middle);
        }
    }

    fn merge(&mut self, pair: &Pair, text: &str, model: &Model, reading: &Reading) {
        let (left, right) = (&self.symbols[pair.left], &self.symbols[pair.right]);
        // A symbol that was merged away is empty, and one that has grown since gives a different
        // length.
        let is_stale = left.start == left.end || right.start == right.end || right.end - left.start != pair.length;
        if is_stale {
            return;
        }
        let (end, next, previous) = (right.end, right.next, left.previous);
        self.symbols[pair.right].start = end;
        self.symbols[pair.left].end = end;
        self.symbols[pair.left].next = next;
        if let Some(next) = next {
            self.symbols[next].previous = Some(pair.left);
            self.propose(pair.left, next, text, model, reading);
        }
        if let Some(previous) = previous {
            self.propose(previous, pair.left, text, model, reading);
        }
    }

    /// Splits unused pieces again into the halves that they were merged from.
    fn resegment(
        &self,
        start: usize,
        end: usize,
        text: &str,
        model: &Model,
        reading: &Reading,
        found: &mut Vec<PieceRange>,
    ) {
        let mut open = vec![(start, end)];
        while let Some((start, end)) = open.pop() {
            let piece = model.piece_id(&text[start..end]).filter(|&id| reading.is_open(id));
            let is_unused = piece.is_some_and(|id| reading.is_apart(id, &model.pieces[id as usize]));
            match self.halves.get(&(start, end)) {
                Some(&middle) if is_unused => open.extend([(middle, end), (start, middle)]),
                // sentencepiece: an unused piece that was not merged is unknown text.
                _ => found.push(PieceRange { start, end, piece: piece.filter(|_| !is_unused) }),
            }
        }
    }
}

impl Ord for Pair {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_score = self.score.total_cmp(&other.score);
        by_score.then_with(|| Reverse(self.left).cmp(&Reverse(other.left)))
    }
}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Pair {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Pair {}
