use super::automaton::Automaton;

/// The number of bytes, per byte of text, that may be examined in vain before the text is left to
/// the reference crate.
const PATIENCE: usize = 64;

/// Splits a text into words that are merged separately, with one pattern or several nested
/// patterns.
pub(crate) struct Words {
    splits: Vec<Split>,
}

/// A pattern that splits a text into its matches and the text between them.
pub(crate) struct Split {
    pub automaton: Automaton,
    /// Whether the text between matches is dropped.
    pub drops_gaps: bool,
}

/// A text on which a pattern repeatedly looks far ahead.
pub(crate) struct TooHard;

impl Words {
    pub fn new(splits: Vec<Split>) -> Self {
        Self { splits }
    }

    pub fn drop_text(&self) -> bool {
        self.splits.iter().any(|split| split.drops_gaps)
    }

    /// Calls `visit` with the bounds of each word, left to right.
    pub fn split(&self, text: &str, mut visit: impl FnMut(usize, usize)) -> Result<(), TooHard> {
        let mut patience = text.len().saturating_add(64).saturating_mul(PATIENCE);
        self.split_by(&self.splits, text, (0, text.len()), &mut patience, &mut visit)
    }

    fn split_by(
        &self,
        splits: &[Split],
        text: &str,
        (start, end): (usize, usize),
        patience: &mut usize,
        visit: &mut impl FnMut(usize, usize),
    ) -> Result<(), TooHard> {
        let Some((split, inner)) = splits.split_first() else {
            visit(start, end);
            return Ok(());
        };
        let (mut at, mut open) = (start, start);
        while at < end {
            let (found, looked) = split.automaton.find(text, at, end);
            if let Some(behind) = found {
                if open < at && !split.drops_gaps {
                    self.split_by(inner, text, (open, at), patience, visit)?;
                }
                self.split_by(inner, text, (at, behind), patience, visit)?;
                *patience = patience.checked_sub(looked.saturating_sub(behind)).ok_or(TooHard)?;
                (at, open) = (behind, behind);
            } else {
                *patience = patience.checked_sub(looked - at).ok_or(TooHard)?;
                at += 1;
                while !text.is_char_boundary(at) {
                    at += 1;
                }
            }
        }
        if open < end && !split.drops_gaps {
            self.split_by(inner, text, (open, end), patience, visit)?;
        }
        Ok(())
    }
}
