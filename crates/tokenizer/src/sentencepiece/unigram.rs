use super::model::{Model, PieceKind};
use super::trie::Trie;
use super::{PieceRange, Reading};

/// The search for the most probable pieces, as in sentencepiece's optimized encoder.
pub(super) struct Unigram {
    trie: Trie,
    unknown_score: f32,
    largest_score: f32,
}

/// The best way to reach a position: the start of its last piece, and the piece.
#[derive(Clone, Copy)]
struct Best {
    score: f32,
    start: usize,
    piece: Option<u32>,
}

impl Unigram {
    pub fn new(model: &Model) -> Self {
        let pieces = (0..).zip(&model.pieces);
        let searched = pieces.filter(|(_, piece)| matches!(piece.kind, PieceKind::Normal | PieceKind::UserDefined));
        let scores = || model.pieces.iter().filter(|piece| piece.kind == PieceKind::Normal).map(|piece| piece.score);
        // sentencepiece: the maximum starts at the smallest positive float.
        let largest_score = scores().fold(f32::MIN_POSITIVE, f32::max);
        let smallest_score = scores().fold(f32::MAX, f32::min);
        Self {
            trie: Trie::new(searched.map(|(id, piece)| (piece.text.as_str(), id)).collect()),
            unknown_score: smallest_score - 10.0,
            largest_score,
        }
    }

    pub fn encode(&self, text: &str, model: &Model, reading: &Reading) -> Vec<PieceRange> {
        let best = self.search(text, model, reading);
        let mut found = Vec::new();
        let mut end = text.len();
        while let Some(Best { start, piece, .. }) = best[end] {
            found.push(PieceRange { start, end, piece });
            end = start;
        }
        found.reverse();
        found
    }

    fn search(&self, text: &str, model: &Model, reading: &Reading) -> Vec<Option<Best>> {
        let mut best: Vec<Option<Best>> = vec![None; text.len() + 1];
        for (start, first) in text.char_indices() {
            let so_far = best[start].map_or(0.0, |best| best.score);
            let one = first.len_utf8();
            let mut has_one = false;
            self.trie.prefixes(&text.as_bytes()[start..], |length, id| {
                if !reading.is_open(id) {
                    return;
                }
                let piece = &model.pieces[id as usize];
                // sentencepiece: a user-defined piece gets a bonus that makes it always win. The
                // sums are floats.
                let score = match piece.kind {
                    PieceKind::UserDefined => (f64::from(length as f32 * self.largest_score) - 0.1) as f32,
                    _ => piece.score,
                };
                keep_better(&mut best[start + length], score + so_far, start, Some(id));
                has_one |= length == one;
            });
            if !has_one {
                keep_better(&mut best[start + one], self.unknown_score + so_far, start, None);
            }
        }
        best
    }
}

fn keep_better(best: &mut Option<Best>, score: f32, start: usize, piece: Option<u32>) {
    if best.is_none_or(|best| score > best.score) {
        *best = Some(Best { score, start, piece });
    }
}
