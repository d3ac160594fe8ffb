use rolecall_conversation::{Json, Tool};

use crate::Token;

/// The requirements for a reply.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The tools that the request offers.
    pub tools: Vec<Tool>,
    /// The tool choice.
    pub choice: ToolChoice,
    /// What an answer is.
    pub answer: Answer,
    /// Whether a turn makes at most one call.
    pub one_call: bool,
    /// Whether the model reasons before it answers.
    pub reasoning: Reasoning,
    /// Texts that the tokenizer encodes as one token each, with their ids if known. In the format's
    /// own text, they are these tokens, as in the prompts that the model was trained on. Engines
    /// that distinguish tokens from text (llguidance) need them.
    pub tokens: Vec<Token>,
    /// The end of the prompt, if it differs from the format's generation prompt. The grammar takes
    /// into account what it has opened.
    pub prompt_tail: Option<String>,
}

/// Whether the model makes calls, as in OpenAI's `tool_choice`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// No calls.
    None,
    /// The model decides: an answer, calls, or an answer that ends in calls.
    #[default]
    Auto,
    /// At least one call, with nothing before it.
    Required,
    /// A call to this tool.
    Named(String),
}

/// What an answer is, as in OpenAI's `response_format`.
///
/// JSON has one space after commas and colons, or none. Next to possible calls, a reply is such an
/// answer or calls, and calls have no text before them.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Answer {
    /// Text.
    #[default]
    Free,
    /// A JSON object, as `json_object` asks for.
    Object,
    /// A JSON value that fits a schema, as `json_schema` asks for. The grammar enforces what it can
    /// and reports the rest as notes.
    Schema(Json),
}

/// Whether the model reasons before it answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reasoning {
    /// The model does not reason, unless the prompt has opened reasoning.
    #[default]
    Off,
    /// The model decides.
    Optional,
    /// The model always reasons.
    Required,
    /// The model has already reasoned. The grammar begins after the marker that closes reasoning,
    /// where engines with a reasoning parser start it.
    Over,
}

impl Reasoning {
    /// The values by their words.
    pub const ALL: [(&'static str, Reasoning); 4] = [
        ("off", Reasoning::Off),
        ("optional", Reasoning::Optional),
        ("required", Reasoning::Required),
        ("over", Reasoning::Over),
    ];
}
