use rolecall::grammar::{Grammar, Note};

use super::Kind;
use crate::Fault;

/// What a reply must follow, in the language of an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A grammar of llama.cpp.
    Gbnf(String),
    /// A structural tag of xgrammar, which vLLM and SGLang use.
    StructuralTag(String),
}

impl Shape {
    /// Prints a grammar for a kind of engine, with notes of what the grammar does not say. xgrammar gets whole
    /// schemas, and may enforce some of that.
    pub fn of(kind: Kind, grammar: &Grammar) -> Result<(Shape, Vec<Note>), Fault> {
        match kind {
            Kind::LlamaCpp => {
                let printed = grammar.to_gbnf();
                Ok((Shape::Gbnf(printed.text), printed.notes))
            }
            Kind::OpenAi => {
                let message = "the engine takes no grammar, so calls cannot be required, chosen or limited";
                Err(Fault::at("tool_choice", "unsupported_parameter", message))
            }
            Kind::Vllm | Kind::Sglang => {
                Ok((Shape::StructuralTag(grammar.to_structural_tag().text), grammar.to_gbnf().notes))
            }
        }
    }
}
