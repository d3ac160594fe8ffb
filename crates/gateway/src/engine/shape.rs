use rolecall::grammar::Grammar;

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
    /// Prints a grammar for a kind of engine.
    pub fn of(kind: Kind, grammar: &Grammar) -> Result<Shape, Fault> {
        match kind {
            Kind::LlamaCpp => Ok(Shape::Gbnf(grammar.to_gbnf().text)),
            Kind::OpenAi => {
                let message = "the engine takes no grammar, so calls cannot be required, chosen or limited";
                Err(Fault::at("tool_choice", "unsupported_parameter", message))
            }
            Kind::Vllm | Kind::Sglang => Ok(Shape::StructuralTag(grammar.to_structural_tag().text)),
        }
    }
}
