/// The maximum nesting depth of a value.
pub(crate) const MAX_DEPTH: usize = 4_096;

/// The open brackets, one bit each.
#[derive(Clone, Debug, Default)]
pub(super) struct Nest {
    /// Whether each bracket is a brace, the innermost in the lowest bit.
    bits: u64,
    depth: usize,
    /// The bits of the outer brackets, 64 levels each.
    outer: Vec<u64>,
}

impl Nest {
    /// Opens a bracket. Returns `false` at the maximum depth.
    pub(super) fn open(&mut self, is_brace: bool) -> bool {
        if self.depth == MAX_DEPTH {
            return false;
        }
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.outer.push(self.bits);
        }
        self.bits = self.bits << 1 | u64::from(is_brace);
        self.depth += 1;
        true
    }

    /// Closes the innermost bracket.
    pub(super) fn close(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.bits >>= 1;
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.bits = self.outer.pop().unwrap_or_default();
        }
    }

    /// Reports whether the innermost bracket is a brace, if any is open.
    pub(super) fn innermost(&self) -> Option<bool> {
        (self.depth > 0).then_some(self.bits & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_close_in_the_order_in_which_they_opened() {
        let mut nest = Nest::default();
        let kinds: Vec<bool> = (0..MAX_DEPTH).map(|level| level % 3 == 0 || level % 7 == 1).collect();
        for kind in &kinds {
            assert!(nest.open(*kind));
        }
        assert!(!nest.open(true));
        for kind in kinds.iter().rev() {
            assert_eq!(nest.innermost(), Some(*kind));
            nest.close();
        }
        assert_eq!(nest.innermost(), None);
    }
}
