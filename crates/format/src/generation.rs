/// The maker's generation settings. Each value is present only if known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Generation {
    /// Stop texts.
    pub stop: Vec<String>,
    /// Stop ids, if a model's files name them.
    pub stop_ids: Vec<u32>,
    /// Stop texts for filling a gap.
    pub infill_stop: Vec<String>,
    /// The maximum number of tokens in a session.
    pub session_len: Option<u64>,
    /// The maximum number of tokens in a reply.
    pub max_new_tokens: Option<u64>,
    /// The sampling temperature.
    pub temperature: Option<f64>,
    /// The cumulative probability of nucleus sampling.
    pub top_p: Option<f64>,
    /// The number of most likely tokens to sample from.
    pub top_k: Option<u64>,
    /// The least probability of a token, relative to the most likely one, if a model's files name it.
    pub min_p: Option<f64>,
    /// The penalty for repeated tokens. 1 means none.
    pub repetition_penalty: Option<f64>,
}
