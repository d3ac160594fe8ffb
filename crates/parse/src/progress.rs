use std::fmt::Debug;

/// Checks that a loop terminates: the remaining work must shrink in each round. Only debug builds
/// check it.
///
/// The remaining work is usually a pair: the unread bytes, and a rank that falls if a round reads
/// none.
#[derive(Debug)]
pub(crate) struct Falling<M> {
    last: Option<M>,
}

impl<M> Default for Falling<M> {
    fn default() -> Falling<M> {
        Falling { last: None }
    }
}

impl<M: Debug + PartialOrd> Falling<M> {
    /// Checks the remaining work at the beginning of a round.
    #[inline]
    pub fn check(&mut self, left: M) {
        if cfg!(debug_assertions) {
            debug_assert!(
                self.last.as_ref().is_none_or(|last| left < *last),
                "no progress: {left:?} is left after {:?}",
                self.last
            );
            self.last = Some(left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_bytes_or_a_lower_rank_is_progress() {
        let mut progress = Falling::default();
        for left in [(3, 1), (2, 9), (2, 3), (0, 4), (0, 0)] {
            progress.check(left);
        }
    }

    #[test]
    #[should_panic(expected = "no progress")]
    #[cfg(debug_assertions)]
    fn a_round_that_reads_nothing_in_the_same_state_is_none() {
        let mut progress = Falling::default();
        progress.check((3, 1));
        progress.check((3, 1));
    }
}
