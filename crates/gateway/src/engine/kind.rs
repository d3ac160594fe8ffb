use rolecall::conversation::json::Object;

use super::body::Body;
use super::choice::ModelChoice;
use super::generating::Sofar;
use super::trouble::Trouble;
use super::{Ask, EnginePiece, llama_cpp, openai, sglang, vllm};

/// A kind of engine, by its wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    /// llama.cpp's server: `/completion`.
    LlamaCpp,
    /// vLLM: `/v1/completions` with `return_token_ids`.
    Vllm,
    /// SGLang: `/generate`.
    Sglang,
    /// Any engine with OpenAI's `/v1/completions`. It gets text and returns text.
    OpenAi,
}

impl EngineKind {
    /// The kinds by their words.
    pub const ALL: [(&'static str, EngineKind); 4] = [
        ("llama.cpp", EngineKind::LlamaCpp),
        ("vllm", EngineKind::Vllm),
        ("sglang", EngineKind::Sglang),
        ("openai", EngineKind::OpenAi),
    ];

    /// Reports whether the engine gets text instead of ids, and returns text.
    pub fn is_by_text(self) -> bool {
        self == EngineKind::OpenAi
    }

    /// Reports whether the engine counts ids in a frame after the end of the reply.
    pub(super) fn counts_last(self) -> bool {
        matches!(self, EngineKind::Vllm | EngineKind::OpenAi)
    }

    pub(super) fn path(self) -> &'static str {
        match self {
            EngineKind::LlamaCpp => "/completion",
            EngineKind::Vllm | EngineKind::OpenAi => "/v1/completions",
            EngineKind::Sglang => "/generate",
        }
    }

    /// Reports whether a request without a limit must say how long its reply can be.
    pub(super) fn needs_room(self) -> bool {
        matches!(self, EngineKind::Vllm | EngineKind::OpenAi)
    }

    /// Writes the body of a request. The room is the most ids that a reply can have, for an engine that
    /// must be told.
    pub(super) fn body(self, ask: &Ask, choice: &ModelChoice, room: Option<u64>) -> Body {
        let (key, mut body) = match self {
            EngineKind::LlamaCpp => (Some("prompt"), llama_cpp::body(ask)),
            EngineKind::Vllm => (Some("prompt"), vllm::body(ask, room)),
            EngineKind::Sglang => (Some("input_ids"), sglang::body(ask)),
            EngineKind::OpenAi => (None, openai::body(ask, room)),
        };
        choice.add_to(&mut body);
        match key {
            Some(key) => Body::with_ids(key, &ask.ids, body),
            None => Body::new(body),
        }
    }

    /// Reads a frame of an answer.
    pub(super) fn piece(self, frame: &Object, sofar: &Sofar) -> Result<EnginePiece, Trouble> {
        match self {
            EngineKind::LlamaCpp => llama_cpp::piece(frame, sofar),
            EngineKind::Vllm => vllm::piece(frame, sofar),
            EngineKind::Sglang => sglang::piece(frame, sofar),
            EngineKind::OpenAi => openai::piece(frame),
        }
    }
}
