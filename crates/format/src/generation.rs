/// How the maker lets the model speak: each value only where it is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Generation {
    /// Texts to stop at.
    pub stop: Vec<String>,
    /// Ids to stop at, where the files of a model name some.
    pub stop_ids: Vec<u32>,
    /// Texts to stop at where a gap is filled.
    pub infill_stop: Vec<String>,
    /// Tokens that a session may hold.
    pub session_len: Option<u64>,
    /// Tokens that one answer may have.
    pub max_new_tokens: Option<u64>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Nucleus sampling: the probability that is kept.
    pub top_p: Option<f64>,
    /// How many of the likeliest tokens are kept.
    pub top_k: Option<u64>,
    /// How much a repeated token is punished; 1 is not at all.
    pub repetition_penalty: Option<f64>,
}
