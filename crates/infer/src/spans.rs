//! Ranges of a sequence that one step finds and another one cuts at.

use std::ops::Range;

/// Ranges in order, of which none is empty or overlaps another. Cutting a sequence at them never
/// fails.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spans(Vec<Range<usize>>);

impl Spans {
    /// Adds a range. Returns whether it was added: one that is empty or overlaps another is not.
    #[must_use]
    pub fn add(&mut self, range: Range<usize>) -> bool {
        let at = self.0.partition_point(|known| known.end <= range.start);
        let is_free = range.start < range.end && self.0.get(at).is_none_or(|next| range.end <= next.start);
        if is_free {
            self.0.insert(at, range);
        }
        is_free
    }

    pub fn iter(&self) -> impl Iterator<Item = &Range<usize>> {
        self.0.iter()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the range that contains a position.
    pub fn around(&self, at: usize) -> Option<&Range<usize>> {
        self.0.iter().find(|range| range.contains(&at))
    }

    /// Cuts a sequence: for each range, the elements between the range before it and itself, and its
    /// own. The last pair has the elements after all ranges.
    pub fn cut<'a, T>(&self, sequence: &'a [T]) -> Vec<(&'a [T], &'a [T])> {
        let (mut pairs, mut rest, mut done) = (Vec::with_capacity(self.0.len() + 1), sequence, 0);
        for range in &self.0 {
            let (before, more) = rest.split_at(range.start.saturating_sub(done).min(rest.len()));
            let (own, more) = more.split_at(range.len().min(more.len()));
            pairs.push((before, own));
            (rest, done) = (more, range.end);
        }
        pairs.push((rest, &[]));
        pairs
    }
}

impl FromIterator<Range<usize>> for Spans {
    /// Collects the ranges that can be added.
    fn from_iter<I: IntoIterator<Item = Range<usize>>>(ranges: I) -> Spans {
        let mut spans = Spans::default();
        for range in ranges {
            let _ = spans.add(range);
        }
        spans
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_added_can_be_cut_at() {
        let ranges = || (0..6).flat_map(|start| (0..6).map(move |end| Range { start, end }));
        for first in ranges() {
            for (second, third) in ranges().flat_map(|second| ranges().map(move |third| (second.clone(), third))) {
                let spans: Spans = [first.clone(), second, third].into_iter().collect();
                let sequence: Vec<usize> = (0..4).collect();
                let cut = spans.cut(&sequence);
                assert_eq!(cut.len(), spans.len() + 1);
                let joined: Vec<usize> = cut.iter().flat_map(|(before, own)| [*before, *own].concat()).collect();
                assert_eq!(joined, sequence, "{spans:?}");
            }
        }
    }

    #[test]
    fn what_overlaps_is_not_added() {
        let mut spans = Spans::default();
        assert!(spans.add(4..6) && spans.add(0..2) && spans.add(2..4));
        assert!(!spans.add(5..7) && !spans.add(1..2) && !spans.add(9..9));
        assert_eq!(spans.cut(b"abcdefg"), [(&b""[..], &b"ab"[..]), (b"", b"cd"), (b"", b"ef"), (b"g", b"")]);
    }
}
