use std::fmt;

/// The reason why a request has no grammar.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A call is required, but the format has no layout for calls.
    NoCalls {
        /// The format's name.
        format: String,
    },
    /// A call is required, but no tools are offered.
    NoTools,
    /// A tool is a text, so that its name and its arguments are not known.
    ToolText {
        /// The index of the tool, from 0.
        tool: usize,
    },
    /// A call to a tool is required, but it is not offered.
    UnknownTool {
        /// The requested name.
        name: String,
        /// The names of the offered tools.
        offered: Vec<String>,
    },
    /// Code is required, but the format has no layout for it.
    NoInterpreter {
        /// The format's name.
        format: String,
    },
    /// Reasoning is requested, but the format has no place for it.
    NoReasoning {
        /// The format's name.
        format: String,
    },
    /// The schema of the answer is not a schema.
    NotASchema {
        /// What it is.
        found: &'static str,
    },
    /// No value fits the schema of the answer.
    NoAnswer,
    /// The end of the prompt is not one that a reply can continue.
    Opening {
        /// The end of the prompt.
        tail: String,
    },
}

impl Error {
    /// Returns a stable name for the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            Error::NoCalls { .. } => "no_calls",
            Error::NoTools => "no_tools",
            Error::ToolText { .. } => "tool_text",
            Error::UnknownTool { .. } => "unknown_tool",
            Error::NoInterpreter { .. } => "no_interpreter",
            Error::NoReasoning { .. } => "no_reasoning",
            Error::NotASchema { .. } => "not_a_schema",
            Error::NoAnswer => "no_answer",
            Error::Opening { .. } => "opening",
        }
    }

    /// Returns a hint on how to fix the error.
    pub fn help(&self) -> String {
        match self {
            Error::NoCalls { .. } => "add a layout `call` to the format, or use the tool choice `none`".into(),
            Error::NoTools => "offer a tool, or use the tool choice `none`".into(),
            Error::ToolText { .. } => "write the tool as an object, or use the tool choice `none`".into(),
            Error::UnknownTool { offered, .. } => match offered.is_empty() {
                true => "offer the tool".into(),
                false => {
                    let offered: Vec<String> = offered.iter().map(|name| format!("`{name}`")).collect();
                    format!("the offered tools are {}", offered.join(", "))
                }
            },
            Error::NoInterpreter { .. } => "add a layout `call-interpreter` to the format, or name another tool".into(),
            Error::NoReasoning { .. } => {
                "do not request reasoning, or put `{reasoning}` into the layout `assistant`".into()
            }
            Error::NotASchema { .. } => "pass a JSON Schema, which is an object".into(),
            Error::NoAnswer => {
                "look for an empty `enum`, bounds that exclude each other, and a required property that contains itself"
                    .into()
            }
            Error::Opening { .. } => "pass the end of the prompt, starting at the generation prompt".into(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoCalls { format } => write!(f, "a call is required, but `{format}` has no layout for calls"),
            Error::NoTools => write!(f, "a call is required, but no tools are offered"),
            Error::ToolText { tool } => {
                write!(f, "tools[{tool}] is a text, so that neither its name nor its arguments are known")
            }
            Error::UnknownTool { name, .. } => write!(f, "a call to `{name}` is required, but it is not offered"),
            Error::NoInterpreter { format } => write!(f, "code is required, but `{format}` has no layout for it"),
            Error::NoReasoning { format } => write!(f, "reasoning is requested, but `{format}` has no place for it"),
            Error::NotASchema { found } => write!(f, "expected an object as the answer's schema, found {found}"),
            Error::NoAnswer => write!(f, "no value fits the answer's schema"),
            Error::Opening { tail } => {
                write!(
                    f,
                    "expected a prompt that a reply can continue, found one that ends with `{}`",
                    tail.escape_debug()
                )
            }
        }
    }
}

impl std::error::Error for Error {}
