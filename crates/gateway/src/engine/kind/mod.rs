//! The kinds of engines. Each has a file with its [`Wire`] and a row here.

mod llama_cpp;
mod openai;
mod sglang;
mod vllm;

use super::wire::Wire;

/// Generates the enum, its words and its wire formats from one table.
macro_rules! kinds {
    ($($(#[$about:meta])* $kind:ident = $word:literal, $wire:expr;)+) => {
        /// A kind of engine, by its wire format.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum EngineKind {
            $($(#[$about])* $kind,)+
        }

        impl EngineKind {
            /// The kinds by their words.
            pub const ALL: [(&'static str, EngineKind); [$($word),+].len()] = [$(($word, EngineKind::$kind)),+];

            pub(super) fn wire(self) -> &'static dyn Wire {
                match self { $(EngineKind::$kind => &$wire,)+ }
            }
        }
    };
}

kinds! {
    /// llama.cpp's server: `/completion`.
    LlamaCpp = "llama.cpp", llama_cpp::LlamaCpp;
    /// vLLM: `/v1/completions` with `return_token_ids`.
    Vllm = "vllm", vllm::Vllm;
    /// SGLang: `/generate`.
    Sglang = "sglang", sglang::Sglang;
    /// Any engine with OpenAI's `/v1/completions`. It gets text and returns text.
    OpenAi = "openai", openai::OpenAi;
}

impl EngineKind {
    /// Returns the kind of a word.
    pub fn of_word(word: &str) -> Option<EngineKind> {
        EngineKind::ALL.iter().find(|(known, _)| *known == word).map(|(_, kind)| *kind)
    }

    /// Returns the word for this kind.
    pub fn word(self) -> &'static str {
        EngineKind::ALL.iter().find(|(_, known)| *known == self).map_or("", |(word, _)| word)
    }

    /// Reports whether the engine gets text instead of ids, and returns text.
    pub fn is_by_text(self) -> bool {
        self.wire().ids_key().is_none()
    }
}
