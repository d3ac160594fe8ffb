/// How much inference may try. Real templates need a fraction of it.
///
/// ```
/// use rolecall_infer::Limits;
/// assert!(Limits::default().renders > 50);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Conversations rendered; behind them nothing more is found out.
    pub renders: usize,
    /// Steps of the template for each of them: real ones take less than 10,000.
    pub instructions: u64,
    /// Bytes that one of them may come to.
    pub output_bytes: usize,
    /// Bytes of one assistant's turn beyond what was asked to stand there.
    pub turn_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { renders: 160, instructions: 30_000, output_bytes: 1 << 18, turn_bytes: 4096 }
    }
}
