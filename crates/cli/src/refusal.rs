use std::fmt;

use rolecall::{Json, RenderError, TemplateError, answer, object};

use crate::source::Source;

/// Why a conversation was refused: the library's reasons, and the two that only a command has.
#[derive(Debug)]
pub enum Refusal {
    Library(rolecall::Error),
    /// Neither the input nor the command line names a format.
    NoFormat,
    /// A chat template is wrong, or refuses the conversation.
    Template {
        source: Source,
        error: TemplateError,
    },
    /// The input carries a chat template where ids, a loss or the new turn are asked for.
    TextAlone,
    /// The input is not UTF-8 from this byte on.
    NotUtf8(usize),
}

impl Refusal {
    /// A stable name for the kind of refusal.
    pub fn code(&self) -> &'static str {
        match self {
            Refusal::Library(error) => error.code(),
            Refusal::NoFormat => "no_format",
            Refusal::Template { error, .. } => error.kind().code(),
            Refusal::TextAlone => "text_alone",
            Refusal::NotUtf8(_) => "not_utf8",
        }
    }

    /// What to do about it.
    pub fn help(&self) -> Option<String> {
        match self {
            Refusal::Library(error) => error.help(),
            Refusal::NoFormat => Some(
                "give `--format NAME` or write `\"format\": \"NAME\"` into the input; `rolecall formats` lists them"
                    .into(),
            ),
            Refusal::Template { error, .. } => Some(RenderError::Template(error.clone()).help()),
            Refusal::TextAlone => Some("render it without these, or name a format in place of `chat_template`".into()),
            Refusal::NotUtf8(_) => Some("convert it to UTF-8".into()),
        }
    }

    /// `{"id"?, "error": {..}}`, in the library's shape.
    pub fn to_json(&self, id: Option<&Json>) -> Json {
        if let Refusal::Library(error) = self {
            return answer::of_error(id, error);
        }
        let mut inner = object! { "code" => self.code(), "message" => self.to_string() };
        if let Some(help) = self.help() {
            inner.insert("help", Json::from(help));
        }
        let mut answer = id.map_or_else(Default::default, |id| object! { "id" => id.clone() });
        answer.insert("error", Json::Object(inner));
        Json::Object(answer)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Library(error) => write!(f, "{error}"),
            Refusal::NoFormat => f.write_str("no format is named"),
            Refusal::Template { error, .. } => write!(f, "{error}"),
            Refusal::TextAlone => f.write_str("`chat_template` gives text alone: no ids, no loss, no new turn"),
            Refusal::NotUtf8(offset) => write!(f, "expected UTF-8, found something else at byte {offset}"),
        }
    }
}

impl From<rolecall::Error> for Refusal {
    fn from(error: rolecall::Error) -> Refusal {
        Refusal::Library(error)
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
