use std::fmt;

use rolecall_conversation::Place;

/// A conversation that a format refuses.
///
/// ```
/// use rolecall_conversation::{Conversation, Message};
/// use rolecall_format::builtin;
/// use rolecall_render::{Options, render};
///
/// let registry = builtin();
/// let format = registry.get("llama2").expect("built in");
/// let conversation = Conversation::new(vec![Message::user("a"), Message::user("b")]);
/// let error = render(&conversation, format, &Options::default()).unwrap_err();
/// assert_eq!(error.code(), "rule_broken");
/// assert_eq!(error.to_string(), "message 1: a user message where the assistant's is due (rule `turns`)");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A role that the format does not know.
    UnknownRole {
        /// The message, from 0.
        message: usize,
        /// The role as it is spelled there.
        role: String,
        /// The roles that there are.
        known: Vec<String>,
        /// Other names that are read as one of them.
        aliases: Vec<String>,
    },
    /// A rule of the format is broken.
    Rule {
        /// The message that breaks it, from 0.
        message: usize,
        /// The rule, as the format file names it.
        rule: &'static str,
        /// What the rule says, of this message.
        what: String,
        /// What to do.
        help: String,
    },
    /// The format has no place for something.
    NoPlace {
        /// Where it stands in the conversation.
        place: Place,
        /// The format's name.
        format: String,
        /// What it is.
        what: String,
        /// What to do.
        help: String,
    },
    /// An option that the format has not got.
    UnknownOption {
        /// Its name.
        name: String,
        /// The format's name.
        format: String,
        /// The options that there are.
        known: Vec<String>,
    },
    /// A value that an option does not take.
    BadOption {
        /// The option.
        name: String,
        /// The value.
        value: String,
        /// The values that it takes; any text, if empty.
        known: Vec<String>,
    },
    /// A message's raw model output is not what the assistant's layout writes.
    BadRawOutput {
        /// The message, from 0.
        message: usize,
        /// The layout.
        layout: &'static str,
    },
    /// What was rendered before is not how the new prompt begins.
    Rewritten {
        /// The message whose turn differs, from 0; none for what the format adds.
        message: Option<usize>,
        /// The bytes that are the same.
        offset: usize,
    },
    /// Not one gap for the model to fill.
    Gap {
        /// The message, from 0.
        message: usize,
        /// What marks the gap.
        mark: String,
        /// How often it is there.
        found: usize,
    },
    /// The chat template is wrong, refuses the conversation or asks too much.
    Template {
        /// What the engine says, with the place in the template.
        error: rolecall_jinja::Error,
        /// The message that the template was at, from 0, if it was at one.
        message: Option<usize>,
    },
    /// The conversations that are tried out on a chat template, to know what it takes and writes, ask too much together.
    Probes {
        /// The steps that there were for all of them.
        steps: u64,
    },
    /// The format prints JSON in indented lines, and what is nested so deep would be spaces for the most part.
    Indentation {
        /// What is too much, with all that is printed before it.
        place: Place,
        /// The bytes of line breaks and spaces that a prompt may have for it.
        most: usize,
    },
    /// Nothing of the conversation carries loss.
    NoLoss,
    /// There is nothing to continue in the last message.
    NothingToContinue {
        /// The last message, from 0.
        message: usize,
        /// Why.
        what: &'static str,
    },
}

impl Error {
    /// A stable name for the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            Error::UnknownRole { .. } => "unknown_role",
            Error::Rule { .. } => "rule_broken",
            Error::NoPlace { .. } => "no_place",
            Error::UnknownOption { .. } => "unknown_option",
            Error::BadOption { .. } => "bad_option",
            Error::BadRawOutput { .. } => "bad_raw_output",
            Error::Rewritten { .. } => "rewritten",
            Error::Gap { .. } => "gap",
            Error::Template { error, .. } => error.kind().code(),
            Error::Probes { .. } => "limit-probes",
            Error::Indentation { .. } => "too_much_indentation",
            Error::NoLoss => "no_loss",
            Error::NothingToContinue { .. } => "nothing_to_continue",
        }
    }

    /// Where in the conversation, if it is in it.
    pub fn place(&self) -> Option<Place> {
        match self {
            Error::UnknownRole { message, .. } => Some(Place::message(*message, "role")),
            Error::Rule { message, .. } => Some(Place::message(*message, "")),
            Error::NoPlace { place, .. } | Error::Indentation { place, .. } => Some(place.clone()),
            Error::BadRawOutput { message, .. }
            | Error::NothingToContinue { message, .. }
            | Error::Gap { message, .. } => Some(Place::message(*message, "content")),
            Error::Rewritten { message, .. } | Error::Template { message, .. } => {
                message.map(|message| Place::message(message, ""))
            }
            Error::UnknownOption { .. } | Error::BadOption { .. } | Error::Probes { .. } | Error::NoLoss => None,
        }
    }

    /// What to do about it.
    pub fn help(&self) -> String {
        match self {
            Error::UnknownRole { known, aliases, .. } if aliases.is_empty() => format!("use one of {}", listed(known)),
            Error::UnknownRole { known, aliases, .. } => {
                format!("use one of {}, or one of their other names, {}", listed(known), listed(aliases))
            }
            Error::Rule { help, .. } | Error::NoPlace { help, .. } => help.clone(),
            Error::UnknownOption { known, .. } if known.is_empty() => "this format has no options".into(),
            Error::UnknownOption { known, .. } => format!("its options are {}", listed(known)),
            Error::BadOption { known, .. } if known.is_empty() => "give a text".into(),
            Error::BadOption { known, .. } => format!("use one of {}", listed(known)),
            Error::BadRawOutput { .. } => "send what the model wrote unchanged, or the call as `tool_calls`".into(),
            Error::Rewritten { .. } => {
                "render the whole conversation, or render the first part as it stands in it".into()
            }
            Error::Gap { mark, .. } => format!("put `{mark}` once where the model is to write"),
            Error::Template { error, .. } => template_help(error.kind()).to_owned(),
            Error::Probes { .. } => "use a template that does less for each conversation, or name a format".into(),
            Error::Indentation { .. } => "nest the schema or the arguments less deep".into(),
            Error::NoLoss => "give an assistant message that has no `\"weight\": 0` and no `\"loss\": false`".into(),
            Error::NothingToContinue { .. } => {
                "end the messages with an assistant message that has text, or drop `continue_final_message`".into()
            }
        }
    }
}

fn template_help(kind: rolecall_jinja::ErrorKind) -> &'static str {
    use rolecall_jinja::{ErrorKind, LimitKind};
    match kind {
        ErrorKind::Rejected => "the template itself refuses this conversation: change what it names",
        ErrorKind::Syntax => "the template is not valid Jinja: look at the place it names",
        ErrorKind::Limit(kind) if LimitKind::RAISED.contains(&kind) => {
            "raise the limit only for a template that you trust"
        }
        ErrorKind::Limit(_) => "this limit stands: correct the template, or the input that it repeats",
        ErrorKind::Security => "templates may not do this: look at the place it names",
        _ => "give the template the fields that it reads there, or correct the template",
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
            Error::UnknownOption { name, format, .. } => write!(f, "format `{format}` has no option `{name}`"),
            Error::BadOption { name, value, .. } => write!(f, "option `{name}` does not take `{value}`"),
            Error::BadRawOutput { message, layout } => {
                write!(f, "message {message}: the raw model output cannot be read by the layout `{layout}`")
            }
            Error::Rewritten { message: Some(message), offset } => {
                write!(f, "message {message}: the new prompt differs from the one before from byte {offset} on")
            }
            Error::Rewritten { message: None, offset } => {
                write!(f, "the new prompt differs from the one before from byte {offset} on")
            }
            Error::Gap { message, mark, found } => {
                write!(f, "message {message}: expected one `{mark}` where the model is to write, found {found}")
            }
            Error::Template { error, message: Some(message) } => write!(f, "message {message}: {error}"),
            Error::Template { error, message: None } => write!(f, "{error}"),
            Error::Probes { steps } => {
                write!(f, "trying the template out takes more than {steps} steps over all conversations")
            }
            Error::Indentation { place, most } => {
                write!(f, "{place}: indenting it takes more than {most} bytes of spaces and line breaks in one prompt")
            }
            Error::NoLoss => write!(f, "nothing of the conversation carries loss, so nothing would be learned from it"),
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
