use rolecall_render::ProbeBudget;

/// How much inference may try. Real templates need a fraction of it; where one needs more, nothing is inferred.
///
/// ```
/// use rolecall_infer::Limits;
/// assert!(Limits::default().steps > 1_000_000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Steps of the template over all conversations, as a [`ProbeBudget`] counts them.
    pub steps: u64,
    /// Steps of the template for each of them: real ones take less than 10,000.
    pub instructions: u64,
    /// Bytes that one of them may come to.
    pub output_bytes: usize,
    /// Bytes of one assistant's turn beyond what was asked to stand there.
    pub turn_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { steps: ProbeBudget::USUAL, instructions: 30_000, output_bytes: 1 << 18, turn_bytes: 4096 }
    }
}
