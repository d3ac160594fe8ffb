use rolecall::grammar::{Grammar, Note};

use super::EngineKind;
use crate::{Fault, FaultCode};

/// What a reply must follow, in the language of an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineShape {
    /// A grammar of llama.cpp.
    Gbnf(String),
    /// A structural tag of xgrammar, which vLLM and SGLang use.
    StructuralTag(String),
}

impl EngineShape {
    /// Prints a grammar for a kind of engine, with notes of what the grammar does not say. xgrammar gets whole
    /// schemas, and may enforce some of that.
    pub fn of(kind: EngineKind, grammar: &Grammar) -> Result<(EngineShape, Vec<Note>), Fault> {
        match kind {
            EngineKind::LlamaCpp => {
                let printed = grammar.to_gbnf();
                Ok((EngineShape::Gbnf(printed.text), printed.notes))
            }
            EngineKind::OpenAi => {
                let message = "the engine takes no grammar, so calls cannot be required, chosen or limited";
                Err(Fault::at("tool_choice", FaultCode::UnsupportedParameter, message))
            }
            EngineKind::Vllm | EngineKind::Sglang => {
                Ok((EngineShape::StructuralTag(grammar.to_structural_tag().text), grammar.to_gbnf().notes))
            }
        }
    }
}
