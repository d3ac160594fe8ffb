use super::{EngineShape, PromptIds};
use crate::request::sampling::Sampling;

/// What an engine is to generate.
#[derive(Clone, Debug, Default)]
pub struct Ask {
    /// The ids of the prompt.
    pub ids: PromptIds,
    /// The text of the prompt, for an engine [by text](super::EngineKind::is_by_text).
    pub text: Option<String>,
    /// How to sample.
    pub sampling: Sampling,
    /// The ids that end the reply.
    pub stop_ids: Vec<u32>,
    /// The texts of these, for an engine by text.
    pub stop_texts: Vec<String>,
    /// What the reply must follow, from [`Engine::shape_of`](super::Engine::shape_of).
    pub shape: Option<EngineShape>,
    /// The number of most likely tokens to report for each token, with their log probabilities. With 0,
    /// only the sampled token's is reported.
    pub logprobs: Option<u32>,
    /// The engine's name for the model.
    pub model: Option<String>,
}
