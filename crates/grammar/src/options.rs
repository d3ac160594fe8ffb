use rolecall_conversation::Tool;

use crate::Token;

/// What a reply is asked for.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The tools offered.
    pub tools: Vec<Tool>,
    /// Whether calls are made.
    pub choice: ToolChoice,
    /// Whether a turn makes one call at most.
    pub one_call: bool,
    /// Whether the model reasons first.
    pub reasoning: Reasoning,
    /// Texts that the tokenizer has as one token each, with their ids where known: in the format's own text they are these tokens, as they
    /// are in the prompts that the model learned from. Needed for engines that tell tokens from text (llguidance).
    pub tokens: Vec<Token>,
    /// How the prompt ends, where that differs from the format's generation prompt. What it opened is understood.
    pub prompt_tail: Option<String>,
}

/// Whether calls are made, as in OpenAI's `tool_choice`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// None.
    None,
    /// As the model likes: an answer, calls, or an answer that ends in calls.
    #[default]
    Auto,
    /// At least one, and nothing before it.
    Required,
    /// Of this tool.
    Named(String),
}

/// Whether the model reasons before it answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reasoning {
    /// Not, unless the prompt has opened reasoning.
    #[default]
    Off,
    /// As it likes.
    Optional,
    /// Always.
    Required,
    /// It has: the grammar begins behind the mark that closes reasoning, where engines with a reasoning parser start it.
    Over,
}
