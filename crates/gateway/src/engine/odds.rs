/// How likely a sampled token was, and which tokens were the most likely at its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Odds {
    /// The token.
    pub word: Word,
    /// The token's log probability, if the engine tells it.
    pub logprob: Option<f64>,
    /// The most likely tokens with their log probabilities, the most likely first.
    pub top: Vec<(Word, f64)>,
}

/// How an engine names a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// By its id.
    Id(u32),
    /// By its text.
    Text(String),
}

impl Odds {
    /// Keeps a number of most likely tokens, in order. Engines add the sampled token to them, or do not
    /// sort them.
    pub(super) fn new(word: Word, logprob: Option<f64>, mut top: Vec<(Word, f64)>, most: u32) -> Odds {
        top.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        top.truncate(most as usize);
        Odds { word, logprob, top }
    }
}
