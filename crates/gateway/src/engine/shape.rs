use rolecall::grammar::{Grammar, Note};

/// What a reply must follow, in the language of an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineShape {
    /// A grammar of llama.cpp.
    Gbnf(String),
    /// A structural tag of xgrammar, which vLLM and SGLang use.
    StructuralTag(String),
}

impl EngineShape {
    /// Prints a grammar for xgrammar, with notes of what the grammar does not say. xgrammar gets whole schemas, and
    /// may enforce some of that.
    pub(super) fn structural_tag(grammar: &Grammar) -> (EngineShape, Vec<Note>) {
        (EngineShape::StructuralTag(grammar.to_structural_tag().text), grammar.to_gbnf().notes)
    }
}
