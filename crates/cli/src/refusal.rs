use std::fmt;

use rolecall::answer;
use rolecall::conversation::{Json, object};
use rolecall::render::Error as RenderError;
use rolecall::template::NoChoice;
use rolecall::template::TemplateError;
use rolecall::training::RowError;

use crate::flags;
use crate::session::BadStep;
use crate::source::Source;

/// Help for tool calls that a template does not write correctly in their given form.
pub const AS_WANTED: &str = "use `--forms as-wanted` to pass the conversation in the forms that the template writes";

/// Help for conversations that a template writes otherwise as a whole than reply by reply.
pub const DIVIDED: &str = "use `--samples auto` for samples in which each reply follows what the server saw";

/// The reasons to refuse a conversation: the library's, and those specific to the command.
#[derive(Debug)]
pub enum Refusal {
    Library(rolecall::Error),
    /// Neither the input nor the command line names a format.
    NoFormat,
    /// A chat template is invalid or refuses the conversation.
    Template {
        source: Source,
        error: TemplateError,
        /// The message that the template was processing.
        message: Option<usize>,
        /// Whether passing the calls in the form that the template writes would help.
        as_wanted: bool,
    },
    /// A row has no sample: a part of it is left out, it does not fit, or it has too many replies. The
    /// library's errors have variants of their own.
    Row(RowError),
    /// None of the chat templates applies to the conversation.
    NoChoice(NoChoice),
    /// The input is not UTF-8; the first invalid byte is at this offset.
    NotUtf8(usize),
    /// A line or a prompt is too long for a column.
    TooLong {
        what: &'static str,
        bytes: usize,
        most: usize,
    },
    /// The prompt is too long for the offsets of its tokens.
    TooLongForTokens {
        bytes: usize,
    },
    /// The text contains this many conversations, but one is expected.
    SeveralConversations(usize),
    /// A conversation that is too large to be rendered once for each of its messages.
    TooManyMessages {
        messages: usize,
    },
    /// A line of a session's script is no step.
    BadStep(BadStep),
    /// A fork of a session has a name that another one has.
    ForkTaken(String),
    /// A session's script names a fork that does not exist.
    NoFork {
        name: String,
        known: Vec<String>,
    },
}

impl From<rolecall::explain::TooLong> for Refusal {
    fn from(error: rolecall::explain::TooLong) -> Refusal {
        Refusal::TooLongForTokens { bytes: error.bytes }
    }
}

impl Refusal {
    /// Returns a stable name for the kind of refusal.
    pub fn code(&self) -> &'static str {
        match self {
            Refusal::Library(error) => error.code(),
            Refusal::NoFormat => "no_format",
            Refusal::Template { error, .. } => error.kind().code(),
            Refusal::Row(error) => error.code(),
            Refusal::NoChoice(why) => why.code(),
            Refusal::NotUtf8(_) => "not_utf8",
            Refusal::TooLong { .. } | Refusal::TooLongForTokens { .. } => "too_long",
            Refusal::TooManyMessages { .. } => "too_many_messages",
            Refusal::SeveralConversations(_) => "several_conversations",
            Refusal::BadStep(step) => step.code(),
            Refusal::ForkTaken(_) => "fork_taken",
            Refusal::NoFork { .. } => "unknown_fork",
        }
    }

    /// Returns the help lines: additional facts first, what to do last.
    pub fn help(&self) -> Vec<String> {
        match self {
            Refusal::Library(error) => flags::in_flags(error.help().into_iter().collect(), error.code()),
            Refusal::NoFormat => vec![
                "pass `--format NAME` or set `\"format\": \"NAME\"` in the input; `rolecall formats` lists the names"
                    .into(),
            ],
            Refusal::Template { as_wanted: true, .. } => vec![AS_WANTED.into()],
            Refusal::Row(error) => help_with_row(error),
            Refusal::Template { error, message, .. } => help_with_template(error, *message),
            Refusal::NoChoice(why) if why.known().len() > 1 => {
                vec![format!("{}, with `--template-name` or the input's `chat_template_name`", why.help())]
            }
            Refusal::NoChoice(why) => vec![why.help()],
            Refusal::NotUtf8(_) => vec!["convert it to UTF-8".into()],
            Refusal::TooLong { .. } => vec!["write JSON lines, which can be longer, or shorten it".into()],
            Refusal::TooLongForTokens { .. } => vec!["shorten it".into()],
            Refusal::SeveralConversations(_) => vec!["use `--jsonl` to process each of them".into()],
            Refusal::TooManyMessages { .. } => vec!["split the conversation".into()],
            Refusal::BadStep(step) => vec![step.help()],
            Refusal::ForkTaken(_) => vec!["choose another name".into()],
            Refusal::NoFork { known, .. } => {
                let known: Vec<String> = known.iter().map(|known| format!("`{known}`")).collect();
                vec![format!("the sessions are {}", known.join(", "))]
            }
        }
    }

    /// Returns what tells refusals with the same code apart: the shape of a row that is not read.
    pub fn why(&self) -> &'static str {
        match self {
            Refusal::Library(rolecall::Error::Request(rolecall_openai::Error::OtherShape { name, .. })) => name,
            _ => "",
        }
    }

    /// Returns the file, line and column of a template that refuses the conversation.
    pub fn place_in_template(&self) -> Option<String> {
        let Refusal::Template { source, error, .. } = self else { return None };
        Some(format!("{}:{}:{}", source.name, error.place().line, error.place().column))
    }

    /// Returns `{"id"?, "error": {..}}` in the library's shape. Errors of a template include its
    /// name, line and column.
    pub fn to_json(&self, id: Option<&Json>) -> Json {
        if let Refusal::Library(error) = self {
            let mut answer = answer::of_error(id, error);
            if let (Some(help), Json::Object(object)) = (self.help().pop(), &mut answer)
                && let Some(Json::Object(inner)) = object.get_mut("error")
            {
                inner.insert("help", Json::from(help));
            }
            return answer;
        }
        let mut inner = object! { "code" => self.code(), "message" => self.to_string() };
        if let [.., help] = self.help().as_slice() {
            inner.insert("help", Json::from(help.as_str()));
        }
        if let Refusal::Row(error) = self
            && let Some(place) = error.place()
        {
            if let Some(message) = place.message {
                inner.insert("message_index", Json::from(message as i64));
            }
            inner.insert("field", Json::from(&*place.field));
        }
        if let Refusal::Template { source, error, message, .. } = self {
            if let Some(message) = message {
                inner.insert("message_index", Json::from(*message as i64));
            }
            inner.insert("template", Json::from(source.name.as_str()));
            inner.insert("line", Json::from(i64::from(error.place().line)));
            inner.insert("column", Json::from(i64::from(error.place().column)));
        }
        let mut answer = id.map_or_else(Default::default, |id| object! { "id" => id.clone() });
        answer.insert("error", Json::Object(inner));
        Json::Object(answer)
    }
}

/// Returns what to do about a row that has no sample, in terms of the command's flags.
fn help_with_row(error: &RowError) -> Vec<String> {
    let flag = match error {
        RowError::LeftOut { as_wanted: true, .. } => AS_WANTED,
        RowError::LeftOut { .. } => "remove it, or omit `--strict` to get only a warning",
        RowError::EmptyReply { .. } => "write the reply, or omit `--strict`",
        RowError::Unpacked(_) => "truncate it with `--truncate right`, `left` or `oldest`",
        RowError::PackedPair => "omit `--pack`",
        error => return error.help().into_iter().collect(),
    };
    vec![flag.into()]
}

/// Returns the message that the template was processing, the macro calls that led to the error
/// (innermost first), and what to do.
fn help_with_template(error: &TemplateError, message: Option<usize>) -> Vec<String> {
    let mut help: Vec<String> = Vec::new();
    help.extend(message.map(|message| format!("the template was processing message {message}")));
    for call in error.calls().iter().rev() {
        let line = format!("called as `{}` on line {}", call.name, call.place.line);
        // List a recursive macro only once.
        if help.last() != Some(&line) {
            help.push(line);
        }
    }
    help.push(
        flags::against_template(error)
            .unwrap_or_else(|| RenderError::Template { error: error.clone(), message }.help()),
    );
    help
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Library(error) => write!(f, "{error}"),
            Refusal::NoFormat => f.write_str("no format given"),
            // Line and column are printed separately.
            Refusal::Template { error, .. } => f.write_str(error.message()),
            Refusal::Row(error) => write!(f, "{error}"),
            Refusal::NoChoice(why) => write!(f, "{why}"),
            Refusal::NotUtf8(offset) => write!(f, "expected UTF-8, found an invalid sequence at byte {offset}"),
            Refusal::TooLong { what, bytes, most } => {
                write!(f, "the {what} has {bytes} bytes, expected at most {most} for a row of Arrow or Parquet")
            }
            Refusal::TooLongForTokens { bytes } => {
                write!(f, "the prompt has {bytes} bytes, expected at most {}", u32::MAX)
            }
            Refusal::BadStep(step) => write!(f, "{step}"),
            Refusal::ForkTaken(name) => write!(f, "there already is a session `{name}`"),
            Refusal::NoFork { name, .. } => write!(f, "there is no session `{name}`"),
            Refusal::SeveralConversations(count) => write!(f, "expected one conversation, found {count}"),
            Refusal::TooManyMessages { messages } => {
                write!(f, "the conversation is too long to be rendered once for each of its {messages} messages")
            }
        }
    }
}

impl From<rolecall::Error> for Refusal {
    fn from(error: rolecall::Error) -> Refusal {
        match error {
            rolecall::Error::NoFormat => Refusal::NoFormat,
            rolecall::Error::NoTemplate(why) => Refusal::NoChoice(why),
            rolecall::Error::Template { template, error, message, as_wanted } => {
                Refusal::Template { source: Source::of_template(&template), error, message, as_wanted }
            }
            error => Refusal::Library(error),
        }
    }
}

impl From<RowError> for Refusal {
    fn from(error: RowError) -> Refusal {
        match error {
            RowError::Library(error) => error.into(),
            error => Refusal::Row(error),
        }
    }
}

impl From<BadStep> for Refusal {
    fn from(step: BadStep) -> Refusal {
        Refusal::BadStep(step)
    }
}

impl From<rolecall_openai::Error> for Refusal {
    fn from(error: rolecall_openai::Error) -> Refusal {
        Refusal::Library(error.into())
    }
}

impl From<rolecall_conversation::Error> for Refusal {
    fn from(error: rolecall_conversation::Error) -> Refusal {
        Refusal::Library(error.into())
    }
}

impl From<rolecall_render::Error> for Refusal {
    fn from(error: rolecall_render::Error) -> Refusal {
        Refusal::Library(error.into())
    }
}

impl From<rolecall_encode::Error> for Refusal {
    fn from(error: rolecall_encode::Error) -> Refusal {
        Refusal::Library(error.into())
    }
}
