use rolecall_conversation::Tool;
use rolecall_format::CallsInReasoning;

/// How output is to be read. Every choice has a default that suits an OpenAI-compatible server.
#[derive(Clone, Debug, Default)]
pub struct ParseOptions {
    /// The tools offered: they say of what type an argument is where the syntax does not.
    pub tools: Vec<Tool>,
    /// How the prompt ends, from the generation prompt on at the latest; earlier text does no harm. What it opened is understood.
    pub prompt_tail: String,
    /// Calls inside reasoning; where it is not said, what the format says of its models, and else drafts.
    pub calls_in_reasoning: Option<CallsInReasoning>,
    /// Names that no tool has.
    pub unknown_names: UnknownNames,
    /// Text behind a call.
    pub text_after_calls: TextAfterCalls,
    /// How strictly JSON is read.
    pub json: Json,
    /// Whether arguments are compared with the tool's schema; what differs is reported, and nothing is dropped.
    pub check_schema: bool,
    /// How many calls a turn may have; what stands behind the last one is text.
    pub max_calls: Option<usize>,
    /// Ids for calls whose model writes none.
    pub ids: Ids,
    /// The most bytes that are kept back for one open value (a name, a key, an argument that is typed only when it is whole).
    pub cap: Option<usize>,
}

/// What a call of a name that no tool has is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownNames {
    /// A call; the caller sees to it. (Where a layout has no mark of its own for a call, it is text.)
    #[default]
    Pass,
    /// Text.
    Text,
}

/// What text behind a call is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TextAfterCalls {
    /// Content, in its order.
    #[default]
    Content,
    /// Reported as malformed, and content.
    Report,
}

/// How strictly JSON is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Json {
    /// As RFC 8259 has it, but raw newlines and tabs inside strings are taken for what they are.
    #[default]
    Lenient,
    /// As RFC 8259 has it.
    Strict,
}

/// How ids are made for calls whose model writes none, and whose family has no form of its own (`call-ids`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ids {
    /// `call_` and 24 letters and digits made of a value of the caller's and the call's index: the same value, the same ids.
    Seeded(u64),
    /// Nine letters and digits, likewise.
    Nine(u64),
}

impl Default for Ids {
    fn default() -> Ids {
        Ids::Seeded(0)
    }
}
