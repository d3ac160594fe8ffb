use rolecall_conversation::Tool;
use rolecall_format::CallsInReasoning;

/// Options for parsing output. The defaults suit an OpenAI-compatible server.
#[derive(Clone, Debug, Default)]
pub struct ParseOptions {
    /// The tools offered. They give the type of an argument where the syntax does not. If one is a text, the names
    /// are not known, and the tools are not used.
    pub tools: Vec<Tool>,
    /// The end of the prompt. It starts at the generation prompt or earlier. The parser continues
    /// from the state it leaves, such as inside reasoning.
    pub prompt_tail: String,
    /// How to treat calls inside reasoning. `None` uses the format's setting, which defaults to calls
    /// if the reasoning is never closed.
    pub calls_in_reasoning: Option<CallsInReasoning>,
    /// How to treat reasoning that is still open when the model ends its turn. `None` leaves it
    /// reasoning.
    pub unclosed_reasoning: Option<UnclosedReasoning>,
    /// How to treat calls to unknown tools.
    pub unknown_names: UnknownNames,
    /// How to treat text after a call.
    pub text_after_calls: TextAfterCalls,
    /// How strictly to parse JSON.
    pub json: Json,
    /// Whether to check arguments against the tool's schema. Differences are reported, and nothing
    /// is dropped.
    pub check_schema: bool,
    /// The maximum number of calls in a turn. Calls beyond it are text.
    pub max_calls: Option<usize>,
    /// How to generate ids for calls whose model writes none.
    pub ids: Ids,
    /// The maximum number of bytes to hold back for one open value: a name, a key, or an argument
    /// whose type is known only at its end.
    pub cap: Option<usize>,
}

impl ParseOptions {
    /// Drops the tools if one of them is a text: its name is not known, so no name of a call is unknown.
    pub(crate) fn forget_texts(&mut self) {
        if self.tools.iter().any(|tool| matches!(tool, Tool::Text(_))) {
            self.tools.clear();
        }
    }

    /// Returns the names of the tools offered.
    pub(crate) fn names(&self) -> Vec<String> {
        self.tools.iter().map(|tool| tool.name().to_owned()).collect()
    }
}

/// How to treat reasoning that is still open when the model ends its turn. It is reported in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnclosedReasoning {
    /// It stays reasoning.
    #[default]
    Reasoning,
    /// It becomes content. Reasoning is therefore held back until it is closed or the output ends, up to
    /// the [`cap`](ParseOptions::cap).
    Content,
}

impl UnclosedReasoning {
    /// The values by their words.
    pub const ALL: [(&'static str, UnclosedReasoning); 2] =
        [("reasoning", UnclosedReasoning::Reasoning), ("content", UnclosedReasoning::Content)];

    /// Returns the value of a word.
    pub fn of_word(word: &str) -> Option<UnclosedReasoning> {
        UnclosedReasoning::ALL.into_iter().find(|(known, _)| *known == word).map(|(_, value)| value)
    }

    /// Returns the word of the value.
    pub fn word(self) -> &'static str {
        match self {
            UnclosedReasoning::Reasoning => "reasoning",
            UnclosedReasoning::Content => "content",
        }
    }
}

/// How to treat calls to unknown tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownNames {
    /// Report it, emit the call and leave it to the caller. If the layout has no marker for calls, it
    /// is text.
    #[default]
    Pass,
    /// Treat the call as text.
    Text,
}

impl UnknownNames {
    /// The values by their words.
    pub const ALL: [(&'static str, UnknownNames); 2] = [("pass", UnknownNames::Pass), ("text", UnknownNames::Text)];
}

/// How to treat text after a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TextAfterCalls {
    /// Emit it as content, in order.
    #[default]
    Content,
    /// Report it as malformed, and emit it as content.
    Report,
}

impl TextAfterCalls {
    /// The values by their words.
    pub const ALL: [(&'static str, TextAfterCalls); 2] =
        [("content", TextAfterCalls::Content), ("report", TextAfterCalls::Report)];
}

/// How strictly to parse JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Json {
    /// RFC 8259, but strings may contain raw newlines and tabs.
    #[default]
    Lenient,
    /// RFC 8259.
    Strict,
}

/// How to generate ids for calls whose model writes none, if the family has no form for them
/// (`call-ids`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ids {
    /// `call_` and 24 letters and digits, derived from this seed and the call's index. The same
    /// seed gives the same ids.
    Seeded(u64),
    /// Nine letters and digits, derived in the same way.
    Nine(u64),
}

impl Default for Ids {
    fn default() -> Ids {
        Ids::Seeded(0)
    }
}
