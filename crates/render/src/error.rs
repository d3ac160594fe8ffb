use std::fmt;

use rolecall_conversation::Place;

use crate::CodeError;

/// An error that occurs while rendering a conversation.
///
/// ```
/// use rolecall_conversation::{Conversation, Message};
/// use rolecall_format::builtin;
/// use rolecall_render::{Options, Writer};
///
/// let registry = builtin();
/// let format = registry.get("llama2").expect("built in");
/// let conversation = Conversation::new(vec![Message::user("a"), Message::user("b")]);
/// let error = Writer::format(format.clone(), Options::default()).render(&conversation).unwrap_err();
/// assert_eq!(error.code(), "rule_broken");
/// assert_eq!(error.to_string(), "message 1: expected an assistant message, found a user message (rule `turns`)");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A role that the format does not know.
    UnknownRole {
        /// The index of the message, from 0.
        message: usize,
        /// The role as the message spells it.
        role: String,
        /// The roles that the format knows.
        known: Vec<String>,
        /// The accepted aliases of these roles.
        aliases: Vec<String>,
    },
    /// A broken rule of the format.
    Rule {
        /// The index of the message that breaks the rule, from 0.
        message: usize,
        /// The rule's name in the format file.
        rule: &'static str,
        /// A description of the violation.
        what: String,
        /// How to fix it.
        help: String,
    },
    /// Content that the format has no place for.
    NoPlace {
        /// The position of the content in the conversation.
        place: Place,
        /// The format's name.
        format: String,
        /// A description of the content.
        what: String,
        /// How to fix it.
        help: String,
    },
    /// A tool that is a text, for a chat template, which takes objects.
    ToolText {
        /// The index of the tool, from 0.
        tool: usize,
    },
    /// An option that the format does not have.
    UnknownOption {
        /// The option's name.
        name: String,
        /// The format's name.
        format: String,
        /// The options that the format has.
        known: Vec<String>,
    },
    /// A value that an option does not accept.
    BadOption {
        /// The option's name.
        name: String,
        /// The value.
        value: String,
        /// The values that the option accepts. If empty, it accepts any text.
        known: Vec<String>,
    },
    /// Raw model output in a message that the assistant's layout cannot parse.
    BadRawOutput {
        /// The index of the message, from 0.
        message: usize,
        /// The layout's name.
        layout: &'static str,
    },
    /// A message that does not have exactly one gap for the model to fill.
    Gap {
        /// The index of the message, from 0.
        message: usize,
        /// The text that marks a gap.
        mark: String,
        /// The number of gaps found.
        found: usize,
    },
    /// A chat template that is invalid, rejects the conversation or exceeds a limit.
    Template {
        /// The engine's error, with the position in the template.
        error: rolecall_jinja::Error,
        /// The index of the message that the template was processing, from 0, if any.
        message: Option<usize>,
    },
    /// A template that is code refuses the conversation, or cannot be given it.
    Code(CodeError),
    /// Probe conversations that together exceed the step budget of a template's analysis.
    Probes {
        /// The number of steps allowed for all probes together.
        steps: u64,
    },
    /// JSON so deeply nested that its indentation exceeds the limit.
    Indentation {
        /// The value whose indentation exceeds the limit, counting everything printed before it.
        place: Place,
        /// The maximum number of bytes of line breaks and spaces in one prompt.
        most: usize,
    },
    /// A conversation in which no token carries loss.
    NoLoss,
    /// A stop token that is in the prompt but carries no loss, although its reply does.
    MaskedStop {
        /// The index of the message, from 0.
        message: usize,
    },
    /// A null content that the template writes as the word `None`, which carries loss.
    NullWord {
        /// The index of the message, from 0.
        message: usize,
    },
    /// A last reply without a stop token.
    NoFinalStop {
        /// The index of the message, from 0.
        message: usize,
    },
    /// A conversation whose last message is to be continued, so that its end is not known.
    Unfinished {
        /// The index of the message, from 0.
        message: usize,
    },
    /// A format, or a chat template without `{% generation %}` blocks, although these were to
    /// determine the loss.
    NoTags,
    /// A last message that cannot be continued.
    NothingToContinue {
        /// The index of the last message, from 0.
        message: usize,
        /// The reason.
        what: &'static str,
    },
}

impl Error {
    /// Returns a stable name for the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            Error::UnknownRole { .. } => "unknown_role",
            Error::Rule { .. } => "rule_broken",
            Error::NoPlace { .. } => "no_place",
            Error::ToolText { .. } => "tool_text",
            Error::UnknownOption { .. } => "unknown_option",
            Error::BadOption { .. } => "bad_option",
            Error::BadRawOutput { .. } => "bad_raw_output",
            Error::Gap { .. } => "gap",
            Error::Template { error, .. } => error.kind().code(),
            Error::Code(error) => error.kind.code(),
            Error::Probes { .. } => "limit-probes",
            Error::Indentation { .. } => "too_much_indentation",
            Error::NoLoss => "no_loss",
            Error::MaskedStop { .. } => "masked_stop",
            Error::NullWord { .. } => "null_word",
            Error::NoFinalStop { .. } => "no_final_stop",
            Error::Unfinished { .. } => "unfinished",
            Error::NoTags => "no_tags",
            Error::NothingToContinue { .. } => "nothing_to_continue",
        }
    }

    /// Returns the position in the conversation, if the error has one.
    pub fn place(&self) -> Option<Place> {
        match self {
            Error::UnknownRole { message, .. } => Some(Place::message(*message, "role")),
            Error::Rule { message, .. } => Some(Place::message(*message, "")),
            Error::NoPlace { place, .. } | Error::Indentation { place, .. } => Some(place.clone()),
            Error::ToolText { tool } => Some(Place::field(format!("tools[{tool}]"))),
            Error::BadRawOutput { message, .. }
            | Error::NothingToContinue { message, .. }
            | Error::NullWord { message }
            | Error::Gap { message, .. } => Some(Place::message(*message, "content")),
            Error::Template { message, .. } => message.map(|message| Place::message(message, "")),
            Error::Code(CodeError { message: Some(message), field, .. }) => {
                Some(Place::message(*message, field.clone()))
            }
            Error::Code(CodeError { message: None, field, .. }) => {
                Some(Place::field(field.clone())).filter(|_| !field.is_empty())
            }
            Error::MaskedStop { message } | Error::NoFinalStop { message } | Error::Unfinished { message } => {
                Some(Place::message(*message, ""))
            }
            Error::UnknownOption { .. }
            | Error::BadOption { .. }
            | Error::Probes { .. }
            | Error::NoLoss
            | Error::NoTags => None,
        }
    }

    /// Returns a hint on how to fix the error.
    pub fn help(&self) -> String {
        match self {
            Error::UnknownRole { known, aliases, .. } if aliases.is_empty() => format!("use one of {}", listed(known)),
            Error::UnknownRole { known, aliases, .. } => {
                format!("use one of {}, or one of their other names, {}", listed(known), listed(aliases))
            }
            Error::Rule { help, .. } | Error::NoPlace { help, .. } => help.clone(),
            Error::ToolText { .. } => TOOL_TEXT_HELP.into(),
            Error::UnknownOption { known, .. } if known.is_empty() => "this format has no options".into(),
            Error::UnknownOption { known, .. } => format!("its options are {}", listed(known)),
            Error::BadOption { known, .. } if known.is_empty() => "pass a string".into(),
            Error::BadOption { known, .. } => format!("use one of {}", listed(known)),
            Error::BadRawOutput { .. } => "send the model's output unchanged, or send the call as `tool_calls`".into(),
            Error::Gap { mark, .. } => format!("put `{mark}` once where the model should write"),
            Error::Template { error, .. } => template_help(error.kind()).to_owned(),
            Error::Code(error) => error.help.clone(),
            Error::Probes { .. } => "use a template that does less work per conversation, or name a format".into(),
            Error::Indentation { .. } => "nest the schema or the arguments less deeply".into(),
            Error::NoLoss => "include an assistant message without `\"weight\": 0` or `\"loss\": false`".into(),
            Error::MaskedStop { .. } => {
                "derive the loss from origins instead of the template's tags, or allow masked stop tokens".into()
            }
            Error::NullWord { .. } => "write a content, or allow null words".into(),
            Error::NoFinalStop { .. } => "append a stop token, or accept a reply without one".into(),
            Error::Unfinished { .. } => "drop `continue_final_message`, since a training text is complete".into(),
            Error::NoTags => {
                "derive the loss from origins, or mark the template's replies with `{% generation %}`".into()
            }
            Error::NothingToContinue { .. } => {
                "end the messages with an assistant message that has text, or drop `continue_final_message`".into()
            }
        }
    }
}

/// How to fix a tool that is a text.
pub(crate) const TOOL_TEXT_HELP: &str =
    "write the tool as an object, or use a format whose tools may be texts (its rule `tool-texts`), as LMFlow's";

fn template_help(kind: rolecall_jinja::ErrorKind) -> &'static str {
    use rolecall_jinja::{ErrorKind, LimitKind};
    match kind {
        ErrorKind::Rejected => "the template itself rejects this conversation: change what its message names",
        ErrorKind::Syntax => "the template is not valid Jinja: check the position it names",
        ErrorKind::Limit(kind) if LimitKind::RAISED.contains(&kind) => {
            "raise the limit only for a template that you trust"
        }
        ErrorKind::Limit(_) => "this limit cannot be raised: fix the template, or shorten the input that it repeats",
        ErrorKind::Security => "templates must not do this: check the position it names",
        _ => "pass the fields that the template reads there, or fix the template",
    }
}

fn listed(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::UnknownRole { message, role, .. } => {
                write!(f, "message {message}: `{role}` is not a role of this format")
            }
            Error::Rule { message, rule, what, .. } => write!(f, "message {message}: {what} (rule `{rule}`)"),
            Error::NoPlace { place, format, what, .. } => {
                write!(f, "{place}: format `{format}` has no place for {what}")
            }
            Error::ToolText { tool } => {
                write!(f, "tools[{tool}]: chat templates take tools as objects, found a text")
            }
            Error::UnknownOption { name, format, .. } => write!(f, "format `{format}` has no option `{name}`"),
            Error::BadOption { name, value, .. } => write!(f, "option `{name}` does not take `{value}`"),
            Error::BadRawOutput { message, layout } => {
                write!(f, "message {message}: the layout `{layout}` cannot parse the raw model output")
            }
            Error::Gap { message, mark, found } => {
                write!(f, "message {message}: expected one `{mark}` where the model should write, found {found}")
            }
            Error::Template { error, message: Some(message) } => write!(f, "message {message}: {error}"),
            Error::Template { error, message: None } => write!(f, "{error}"),
            Error::Code(error) => write!(f, "{error}"),
            Error::Probes { steps } => {
                write!(f, "probing the template takes more than {steps} steps over all conversations")
            }
            Error::Indentation { place, most } => {
                write!(f, "{place}: indenting it takes more than {most} bytes of spaces and line breaks in one prompt")
            }
            Error::NoLoss => write!(f, "no part of the conversation carries loss, so nothing can be learned from it"),
            Error::MaskedStop { message } => {
                write!(f, "message {message}: the reply carries loss, but the token that ends it does not")
            }
            Error::NullWord { message } => {
                write!(
                    f,
                    "message {message}: the template writes its null content as the word `None`, which carries loss"
                )
            }
            Error::NoFinalStop { message } => {
                write!(f, "message {message}: the prompt has no token that ends this reply")
            }
            Error::Unfinished { message } => {
                write!(f, "message {message}: a message to be continued has no end that could be learned")
            }
            Error::NoTags => {
                write!(f, "the loss was to follow the chat template's tags, but it has no `{{% generation %}}` block")
            }
            Error::NothingToContinue { message, what } => write!(f, "message {message}: nothing to continue: {what}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Template { error, .. } => Some(error),
            _ => None,
        }
    }
}
