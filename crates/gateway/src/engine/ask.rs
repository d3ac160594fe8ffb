use super::Shape;
use crate::sampling::Sampling;

/// What an engine is to generate.
#[derive(Clone, Debug, Default)]
pub struct Ask {
    /// The ids of the prompt.
    pub ids: Vec<u32>,
    /// How to sample.
    pub sampling: Sampling,
    /// The ids that end the reply.
    pub stop_ids: Vec<u32>,
    /// What the reply must follow, from [`Engine::shape_of`](super::Engine::shape_of).
    pub shape: Option<Shape>,
    /// The number of most likely tokens to report for each token, with their log probabilities. With 0,
    /// only the sampled token's is reported.
    pub logprobs: Option<u32>,
    /// The engine's name for the model.
    pub model: Option<String>,
}
