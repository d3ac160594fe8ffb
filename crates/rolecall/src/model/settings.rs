use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use rolecall_conversation::json::{self, Layout};
use rolecall_conversation::{Json, Place, Problem};
use rolecall_encode::{AddSpecial, Protect};
use rolecall_openai::Request;
use rolecall_render::{Bos, CallForm, DateTime, Limits, Options, RuleMode};

use crate::Error;

/// How a model's requests are answered where they do not say it themselves.
///
/// A request has the keys `bos`, `rules`, `options`, `chat_template_name` and `now` for the fields of the same names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Who writes the token that opens a prompt.
    pub bos: BosBy,
    /// What becomes of a format's order rules.
    pub rules: RuleMode,
    /// Options of a format, or switches of a chat template, by name; of two with one name the last counts.
    pub options: Vec<(String, String)>,
    /// The form in which a chat template is given tool calls.
    pub tool_calls: CallForm,
    /// Which of several chat templates; without a name, the one for conversations with tools or the default one.
    pub template_name: Option<String>,
    /// What `strftime_now` tells a chat template; without it, the machine's time in UTC.
    pub now: Option<DateTime>,
    /// How much a chat template may use; no request changes it.
    pub limits: Limits,
    /// Which of the tokenizer's tokens text never becomes; no request changes it.
    pub protect: Protect,
}

/// Who writes the token that opens a prompt.
///
/// ```
/// use rolecall::model::BosBy;
/// assert_eq!("tokenizer".parse(), Ok(BosBy::Tokenizer));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BosBy {
    /// The format or template, and the tokenizer where these write none: it is there once.
    Auto,
    /// The format or template alone, as in transformers' `apply_chat_template`.
    #[default]
    Template,
    /// The tokenizer; what the format or template writes is left out.
    Tokenizer,
    /// Nobody: an engine adds it.
    Nobody,
}

/// The words for [`BosBy`], as errors list them.
const BOS: &str = "`auto`, `template`, `tokenizer`, `none`";
const RULES: &str = "`enforce`, `reference`";
const TIME: &str = "a time like 2026-11-21 or 2026-11-21T12:34:56";

impl FromStr for BosBy {
    type Err = ();

    fn from_str(word: &str) -> Result<BosBy, ()> {
        Ok(match word {
            "auto" => BosBy::Auto,
            "template" | "write" => BosBy::Template,
            "tokenizer" => BosBy::Tokenizer,
            "none" => BosBy::Nobody,
            _ => return Err(()),
        })
    }
}

impl BosBy {
    /// What the prompt has of it.
    pub fn bos(self) -> Bos {
        match self {
            BosBy::Auto | BosBy::Template => Bos::Write,
            BosBy::Tokenizer | BosBy::Nobody => Bos::LeaveToTokenizer,
        }
    }

    /// Whether the tokenizer's own tokens are put around a prompt.
    pub fn add(self) -> AddSpecial {
        match self {
            BosBy::Auto | BosBy::Tokenizer => AddSpecial::Missing,
            BosBy::Template | BosBy::Nobody => AddSpecial::Never,
        }
    }
}

impl Settings {
    /// These settings, with what a request says of itself in their place.
    pub(crate) fn of(&self, request: &Request) -> Result<Settings, Error> {
        let mut own = self.clone();
        if let Some(word) = word_of(request, "bos", BOS)? {
            own.bos = word.parse().map_err(|()| unknown_word("bos", BOS, word))?;
        }
        if let Some(word) = word_of(request, "rules", RULES)? {
            own.rules = match word {
                "enforce" => RuleMode::Enforce,
                "reference" => RuleMode::Reference,
                other => return Err(unknown_word("rules", RULES, other)),
            };
        }
        match request.other.get("options") {
            None | Some(Json::Null) => {}
            Some(Json::Object(options)) => {
                for (name, value) in options.iter() {
                    let text = match value {
                        Json::String(text) => text.clone(),
                        Json::Number(number) => number.spelling().to_owned(),
                        Json::Bool(value) => value.to_string(),
                        other => return Err(wrong_type(&format!("options.{name}"), "a string", other)),
                    };
                    own.options.push((name.to_owned(), text));
                }
            }
            Some(other) => return Err(wrong_type("options", "an object of names and values", other)),
        }
        if let Some(name) = text_of(request, "chat_template_name")? {
            own.template_name = Some(name.to_owned());
        }
        if let Some(now) = text_of(request, "now")? {
            own.now = Some(now.parse().map_err(|_| wrong_type("now", TIME, &now.into()))?);
        }
        Ok(own)
    }

    /// What a format is rendered with.
    pub(crate) fn of_format(&self) -> Options {
        Options { bos: self.bos.bos(), rules: self.rules, choices: self.options.clone() }
    }

    /// How a format spells its control tokens, where that is chosen.
    pub(crate) fn spelling(&self) -> Option<&str> {
        let chosen = self.options.iter().rev().find(|(name, _)| name == "spelling");
        chosen.map(|(_, spelling)| spelling.as_str())
    }

    /// The time that templates are told.
    pub(crate) fn time(&self) -> Option<DateTime> {
        let machine = || {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            DateTime::from_unix(i64::try_from(since.as_secs()).unwrap_or_default())
        };
        self.now.or_else(machine)
    }
}

/// A key of a request that holds a text.
pub(crate) fn text_of<'a>(request: &'a Request, key: &str) -> Result<Option<&'a str>, Error> {
    match request.other.get(key) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(text)) => Ok(Some(text)),
        Some(other) => Err(wrong_type(key, "a string", other)),
    }
}

/// A key of a request that holds one of a few words.
fn word_of<'a>(request: &'a Request, key: &str, known: &'static str) -> Result<Option<&'a str>, Error> {
    match request.other.get(key) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(text)) => Ok(Some(text)),
        Some(other) => Err(unknown_word(key, known, &json::write(other, &Layout::default()))),
    }
}

fn unknown_word(key: &str, known: &'static str, found: &str) -> Error {
    let problem = Problem::UnknownType { known, found: found.to_owned() };
    rolecall_conversation::Error { place: Place::field(key), problem }.into()
}

/// The error of a field that holds something else than it should.
pub(crate) fn wrong_type(field: &str, expected: &'static str, found: &Json) -> Error {
    let problem = Problem::WrongType { expected, found: found.kind() };
    rolecall_conversation::Error { place: Place::field(field), problem }.into()
}
