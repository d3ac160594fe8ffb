use rolecall_render::ProbeBudget;

/// Limits on the probing that inference does. Real templates need a fraction of it. If a template
/// needs more, nothing is inferred.
///
/// ```
/// use rolecall_infer::Limits;
/// assert!(Limits::default().steps > 1_000_000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The total number of template steps for all probes, as counted by a [`ProbeBudget`].
    pub steps: u64,
    /// The number of template steps for each probe. Real templates take fewer than 10,000.
    pub instructions: u64,
    /// The number of output bytes for each probe.
    pub output_bytes: usize,
    /// The number of bytes in one assistant's turn beyond the text that the probe put there.
    pub turn_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { steps: ProbeBudget::USUAL, instructions: 30_000, output_bytes: 1 << 18, turn_bytes: 4096 }
    }
}
