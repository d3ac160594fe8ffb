//! Packing: several samples in one sequence.

use std::collections::BTreeSet;
use std::fmt;

/// The number of ids that wait for a fit, in sequences and as a number. The greater of both counts,
/// but a sequence is not worth more memory than [`MOST_IDS`] ids unless it is very long.
const SEQUENCES: usize = 8;
const MOST_IDS: usize = 1 << 22;
const MANY_SEQUENCES: usize = 256;
/// The number of samples that wait, if they fill some sequences.
const MOST_SAMPLES: usize = 1 << 16;

/// A sample to be packed.
#[derive(Clone, Debug, PartialEq)]
pub struct Slot<T> {
    /// Where the sample comes from, for example the number of its row.
    pub source: T,
    /// The token ids.
    pub ids: Vec<u32>,
    /// The loss weight of each id.
    pub weights: Vec<f32>,
}

/// A sequence of several samples.
#[derive(Clone, Debug, PartialEq)]
pub struct PackedSamples<T> {
    /// The sources of the samples, in order.
    pub sources: Vec<T>,
    /// The ids of all samples.
    pub ids: Vec<u32>,
    /// The loss weight of each id.
    pub weights: Vec<f32>,
    /// The number of ids of each sample.
    pub lengths: Vec<usize>,
}

/// A sample that cannot be packed, because it has no ids or too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong {
    /// The number of ids of the sample.
    pub ids: usize,
    /// The number of ids of a sequence.
    pub most: usize,
}

/// Packs samples in sequences of at most `length` ids: best fit, longest samples first.
///
/// The packer holds a window of samples. When the window is full, it packs them, returns the fuller
/// half of the sequences, and keeps the samples of the rest. The result depends only on the samples
/// and their order. Every sample is in exactly one sequence.
///
/// ```
/// use rolecall::training::{Packer, Slot};
/// let mut packer = Packer::new(8);
/// let mut sequences = Vec::new();
/// for (row, length) in [5, 2, 4, 3].into_iter().enumerate() {
///     sequences.extend(packer.push(Slot { source: row, ids: vec![7; length], weights: vec![1.0; length] })?);
/// }
/// sequences.extend(packer.finish());
/// assert_eq!(sequences[0].sources, [0, 3]);
/// assert_eq!(sequences[0].cu_seqlens(), [0, 5, 8]);
/// assert_eq!(sequences[0].position_ids(), [0, 1, 2, 3, 4, 0, 1, 2]);
/// assert_eq!(sequences[1].sources, [1, 2]);
/// # Ok::<(), rolecall::training::TooLong>(())
/// ```
#[derive(Clone, Debug)]
pub struct Packer<T> {
    length: usize,
    /// The samples in order of arrival, each with its number.
    waiting: Vec<(u64, Slot<T>)>,
    waiting_ids: usize,
    next: u64,
    sequences: u64,
    packed_ids: u64,
}

impl<T> Packer<T> {
    /// Creates a packer for sequences of at most `length` ids.
    pub fn new(length: u32) -> Packer<T> {
        // Boundaries are 32-bit integers with a sign.
        let length = length.min(i32::MAX as u32) as usize;
        Packer { length, waiting: Vec::new(), waiting_ids: 0, next: 0, sequences: 0, packed_ids: 0 }
    }

    /// Adds a sample, and returns the sequences that are complete.
    pub fn push(&mut self, slot: Slot<T>) -> Result<Vec<PackedSamples<T>>, TooLong> {
        let ids = slot.ids.len();
        if ids == 0 || ids > self.length {
            return Err(TooLong { ids, most: self.length });
        }
        self.waiting.push((self.next, slot));
        self.next += 1;
        self.waiting_ids += ids;
        let window = (self.length * SEQUENCES).max(MOST_IDS.min(self.length * MANY_SEQUENCES));
        let is_full =
            self.waiting_ids >= window || self.waiting.len() >= MOST_SAMPLES && self.waiting_ids >= 2 * self.length;
        Ok(if is_full { self.pack(false) } else { Vec::new() })
    }

    /// Returns the sequences of all samples that are left.
    pub fn finish(&mut self) -> Vec<PackedSamples<T>> {
        self.pack(true)
    }

    /// Returns the number of sequences so far.
    pub fn sequences(&self) -> u64 {
        self.sequences
    }

    /// Returns which part of the sequences so far is filled, from 0 to 1.
    pub fn fill_rate(&self) -> f64 {
        match self.sequences {
            0 => 1.0,
            count => self.packed_ids as f64 / (count as f64 * self.length as f64),
        }
    }

    fn pack(&mut self, all: bool) -> Vec<PackedSamples<T>> {
        let bins = self.best_fit();
        let fill = |bin: &Vec<usize>| bin.iter().map(|at| self.waiting[*at].1.ids.len()).sum::<usize>();
        let mut order: Vec<(usize, usize)> = bins.iter().map(fill).zip(0..).collect();
        order.sort_by_key(|(fill, at)| (std::cmp::Reverse(*fill), *at));
        if !all {
            order.truncate(bins.len().div_ceil(2));
        }
        let mut taken: Vec<&Vec<usize>> = order.iter().map(|(_, at)| &bins[*at]).collect();
        taken.sort_by_key(|bin| bin.first().copied());
        let mut samples: Vec<Option<(u64, Slot<T>)>> = self.waiting.drain(..).map(Some).collect();
        let packed: Vec<PackedSamples<T>> = taken
            .into_iter()
            .map(|bin| PackedSamples::of(bin.iter().filter_map(|at| samples[*at].take().map(|(_, slot)| slot))))
            .collect();
        self.waiting.extend(samples.into_iter().flatten());
        self.waiting_ids = self.waiting.iter().map(|(_, slot)| slot.ids.len()).sum();
        self.sequences += packed.len() as u64;
        self.packed_ids += packed.iter().map(|packed| packed.ids.len() as u64).sum::<u64>();
        packed
    }

    /// Assigns the waiting samples to sequences: each, from the longest on, to the fullest sequence
    /// that has room. Returns the samples of each sequence in order of arrival.
    fn best_fit(&self) -> Vec<Vec<usize>> {
        let length = |at: usize| self.waiting[at].1.ids.len();
        let mut order: Vec<usize> = (0..self.waiting.len()).collect();
        order.sort_by_key(|at| (std::cmp::Reverse(length(*at)), *at));
        let mut bins: Vec<Vec<usize>> = Vec::new();
        // The room in each sequence that is not full.
        let mut rooms: BTreeSet<(usize, usize)> = BTreeSet::new();
        for at in order {
            let fit = rooms.range((length(at), 0)..).next().copied();
            let (room, bin) = match fit {
                Some(fit) => {
                    rooms.remove(&fit);
                    fit
                }
                None => {
                    bins.push(Vec::new());
                    (self.length, bins.len() - 1)
                }
            };
            bins[bin].push(at);
            let left = room - length(at);
            if left > 0 {
                rooms.insert((left, bin));
            }
        }
        bins.iter_mut().for_each(|bin| bin.sort_unstable());
        bins
    }
}

impl<T> PackedSamples<T> {
    fn of(slots: impl Iterator<Item = Slot<T>>) -> PackedSamples<T> {
        let mut packed =
            PackedSamples { sources: Vec::new(), ids: Vec::new(), weights: Vec::new(), lengths: Vec::new() };
        for slot in slots {
            packed.lengths.push(slot.ids.len());
            packed.sources.push(slot.source);
            packed.ids.extend(slot.ids);
            packed.weights.extend(slot.weights);
        }
        packed
    }

    /// Returns the position of each id in its own sample.
    pub fn position_ids(&self) -> Vec<u32> {
        self.lengths.iter().flat_map(|length| 0..*length as u32).collect()
    }

    /// Returns the boundaries of the samples as flash-attention's kernels for variable lengths take
    /// them: 0, and the end of each sample.
    pub fn cu_seqlens(&self) -> Vec<i32> {
        let mut end = 0;
        let ends = self.lengths.iter().map(|length| {
            end += *length as i32;
            end
        });
        std::iter::once(0).chain(ends).collect()
    }

    /// Returns the number of ids of the longest sample.
    pub fn max_seqlen(&self) -> usize {
        self.lengths.iter().copied().max().unwrap_or_default()
    }
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ids {
            0 => f.write_str("a sample without ids cannot be packed"),
            ids => write!(f, "the conversation has {ids} ids, expected at most {} to pack it", self.most),
        }
    }
}

impl std::error::Error for TooLong {}
