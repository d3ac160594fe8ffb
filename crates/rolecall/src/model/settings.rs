use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use rolecall_conversation::json::{self, Layout};
use rolecall_conversation::{Conversation, Json, Place, Problem};
use rolecall_encode::{AddSpecial, PlainMarkers, Protect};
use rolecall_openai::Request;
use rolecall_parse::{CallsInReasoning, ParseOptions, UnclosedReasoning};
use rolecall_render::{Bos, DateTime, Forms, Limits, Options, RuleMode, chosen_spelling};

use crate::Error;

/// Settings for the requests to a model. A request can override most of them.
///
/// The keys `bos`, `rules`, `options`, `chat_template_name`, `now`, `calls_in_reasoning` and
/// `unclosed_reasoning` of a request override the corresponding fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Who writes the token that opens a prompt.
    pub bos: BosBy,
    /// How a format's order rules are applied.
    pub rules: RuleMode,
    /// Options of a format, or switches of a chat template, by name. If a name occurs twice, the
    /// last value counts.
    pub options: Vec<(String, String)>,
    /// The forms in which messages, calls and tools are passed to a chat template. Sessions pass them in those that the
    /// template writes, whatever this says, because the model's own replies come back in OpenAI's forms.
    pub forms: Forms,
    /// The name of the chat template to use. By default, the template for conversations with tools
    /// or the default one is chosen.
    pub template_name: Option<String>,
    /// The time that `strftime_now` of a chat template formats. By default, the machine's time in
    /// UTC.
    pub now: Option<DateTime>,
    /// The resource limits of a chat template. Requests cannot change them.
    pub limits: Limits,
    /// Which of the tokenizer's tokens text never encodes to. Requests cannot change this.
    pub protect: Protect,
    /// How to treat calls inside reasoning. By default, the format or the reply's layouts decide.
    pub calls_in_reasoning: Option<CallsInReasoning>,
    /// How to treat reasoning that is still open when the model ends its turn.
    pub unclosed_reasoning: Option<UnclosedReasoning>,
    /// What to do if a chat template marks turns with texts that are not tokens of the tokenizer.
    /// Requests cannot change this.
    pub plain_markers: PlainMarkers,
}

/// How prompts are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct EncoderOptions {
    pub add: AddSpecial,
    pub protect: Protect,
    pub plain_markers: PlainMarkers,
}

/// Who writes the token that opens a prompt.
///
/// ```
/// use rolecall::model::BosBy;
/// assert_eq!("tokenizer".parse(), Ok(BosBy::Tokenizer));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BosBy {
    /// The format or template; if it writes none, the tokenizer. The token occurs exactly once.
    Auto,
    /// Only the format or template, as with transformers' `apply_chat_template`.
    #[default]
    Template,
    /// The tokenizer. If the format or template writes the token, it is left out.
    Tokenizer,
    /// Neither: the engine adds it.
    Nobody,
}

/// The accepted values of [`BosBy`], as listed in errors.
const BOS: &str = "`auto`, `template`, `tokenizer`, `none`";
const RULES: &str = "`enforce`, `reference`";
const CALLS: &str = "`unclosed`, `draft`, `call`";
const UNCLOSED: &str = "`reasoning`, `content`";
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
    /// All values.
    pub const ALL: [BosBy; 4] = [BosBy::Auto, BosBy::Template, BosBy::Tokenizer, BosBy::Nobody];

    /// Returns whether the prompt has the opening token.
    pub fn bos(self) -> Bos {
        match self {
            BosBy::Auto | BosBy::Template => Bos::Write,
            BosBy::Tokenizer | BosBy::Nobody => Bos::LeaveToTokenizer,
        }
    }

    /// Returns the word that is parsed to this value.
    pub fn word(self) -> &'static str {
        match self {
            BosBy::Auto => "auto",
            BosBy::Template => "template",
            BosBy::Tokenizer => "tokenizer",
            BosBy::Nobody => "none",
        }
    }

    /// Returns whether the tokenizer adds its own tokens around a prompt.
    pub fn add(self) -> AddSpecial {
        match self {
            BosBy::Auto | BosBy::Tokenizer => AddSpecial::Missing,
            BosBy::Template | BosBy::Nobody => AddSpecial::Never,
        }
    }
}

impl Settings {
    /// Returns these settings, overridden by those of a request.
    pub(crate) fn of(&self, request: &Request) -> Result<Settings, Error> {
        let mut own = self.clone();
        if let Some(word) = word_of(request, "bos", BOS)? {
            own.bos = word.parse().map_err(|()| unknown_word("bos", BOS, word))?;
        }
        if let Some(word) = word_of(request, "rules", RULES)? {
            let known = RuleMode::ALL.into_iter().find(|(known, _)| *known == word);
            own.rules = known.map(|(_, rules)| rules).ok_or_else(|| unknown_word("rules", RULES, word))?;
        }
        if let Some(word) = word_of(request, "calls_in_reasoning", CALLS)? {
            let known = CallsInReasoning::from_key(word);
            own.calls_in_reasoning = Some(known.ok_or_else(|| unknown_word("calls_in_reasoning", CALLS, word))?);
        }
        if let Some(word) = word_of(request, "unclosed_reasoning", UNCLOSED)? {
            let known = UnclosedReasoning::of_word(word);
            own.unclosed_reasoning = Some(known.ok_or_else(|| unknown_word("unclosed_reasoning", UNCLOSED, word))?);
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

    /// Returns these policies for parsing replies, where the options have none of their own.
    pub(crate) fn policies(&self, options: ParseOptions) -> ParseOptions {
        ParseOptions {
            calls_in_reasoning: options.calls_in_reasoning.or(self.calls_in_reasoning),
            unclosed_reasoning: options.unclosed_reasoning.or(self.unclosed_reasoning),
            ..options
        }
    }

    /// Returns the options for rendering a format.
    pub(crate) fn of_format(&self) -> Options {
        Options { bos: self.bos.bos(), rules: self.rules, choices: self.options.clone() }
    }

    /// Returns how prompts are encoded for a request whose `bos` these settings have.
    pub(super) fn of_encoder(&self) -> EncoderOptions {
        EncoderOptions { add: self.bos.add(), protect: self.protect, plain_markers: self.plain_markers }
    }

    /// Returns how a format spells its control tokens in a conversation, if that was chosen.
    pub(crate) fn spelling<'a>(&'a self, conversation: &'a Conversation) -> Option<&'a str> {
        chosen_spelling(conversation, &self.options)
    }

    /// Returns the time that templates see.
    pub(crate) fn time(&self) -> Option<DateTime> {
        let machine = || {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            DateTime::from_unix(i64::try_from(since.as_secs()).unwrap_or_default())
        };
        self.now.or_else(machine)
    }
}

/// Returns the value of a request's key that must hold a string.
pub(crate) fn text_of<'a>(request: &'a Request, key: &str) -> Result<Option<&'a str>, Error> {
    match request.other.get(key) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(text)) => Ok(Some(text)),
        Some(other) => Err(wrong_type(key, "a string", other)),
    }
}

/// Returns the value of a request's key that must hold one of a few words.
fn word_of<'a>(request: &'a Request, key: &str, known: &'static str) -> Result<Option<&'a str>, Error> {
    match request.other.get(key) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(text)) => Ok(Some(text)),
        Some(other) => Err(unknown_word(key, known, &json::write(other, &Layout::default()))),
    }
}

fn unknown_word(key: &str, known: &'static str, found: &str) -> Error {
    let problem = Problem::UnknownType { known, found: found.to_owned() };
    rolecall_conversation::Error { place: Place::field(key.to_owned()), problem }.into()
}

/// Returns the error for a field that holds a value of the wrong type.
pub(crate) fn wrong_type(field: &str, expected: &'static str, found: &Json) -> Error {
    let problem = Problem::WrongType { expected, found: found.kind() };
    rolecall_conversation::Error { place: Place::field(field.to_owned()), problem }.into()
}
