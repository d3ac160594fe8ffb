use rolecall_conversation::{Conversation, Json};
use rolecall_format::Format;

use crate::{Error, Unusual};

/// Options for rendering a conversation.
///
/// ```
/// use rolecall_render::{Bos, Options};
/// let options = Options { bos: Bos::LeaveToTokenizer, ..Options::default() };
/// # let _ = options;
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether the prompt includes the token that opens it.
    pub bos: Bos,
    /// How strictly to apply the format's order rules.
    pub rules: RuleMode,
    /// The format's options by name. An option that is not listed keeps its default.
    pub choices: Vec<(String, String)>,
}

/// Whether the prompt includes the token that opens it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bos {
    /// The format writes the token into the prompt.
    #[default]
    Write,
    /// The prompt omits the token, because the tokenizer adds it.
    LeaveToTokenizer,
}

/// How strictly to apply a format's order rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RuleMode {
    /// Refuses a conversation that breaks a rule or has content that the format has no place for.
    #[default]
    Enforce,
    /// Renders as the maker's own code does: messages in any order, roles only by the maker's own
    /// names. Content that the format has no place for is left out and recorded.
    Reference,
}

impl RuleMode {
    /// The values by their words.
    pub const ALL: [(&'static str, RuleMode); 2] = [("enforce", RuleMode::Enforce), ("reference", RuleMode::Reference)];
}

/// The values of a format's options.
pub(crate) struct OptionValues<'a> {
    /// For each of the format's choices: the value, and whether the caller gave it.
    pub values: Vec<(String, bool)>,
    /// The spelling of the control tokens, or `None` for the usual one.
    pub spelling: Option<&'a str>,
}

/// The name of the option that chooses how a format spells its control tokens. Every format with
/// several spellings has it.
pub(crate) const SPELLING: &str = "spelling";

/// Returns how a format spells its control tokens, if a conversation's template arguments or the
/// options choose that. The options take precedence.
pub fn chosen_spelling<'a>(conversation: &'a Conversation, options: &'a [(String, String)]) -> Option<&'a str> {
    let chosen = options.iter().rev().find(|(name, _)| name == SPELLING).map(|(_, value)| value.as_str());
    chosen.or_else(|| conversation.template_kwargs.get(SPELLING)?.as_str())
}

/// Combines the caller's options, the conversation's template arguments and the format's defaults.
pub(crate) fn choose<'a>(
    conversation: &'a Conversation,
    format: &Format,
    options: &'a Options,
) -> Result<OptionValues<'a>, Error> {
    let mut values: Vec<(String, bool)> = format.choices.iter().map(|choice| (choice.default.clone(), false)).collect();
    let has_spellings = format.controls.iter().any(|control| !control.spelled.is_empty());
    let bad_spelling = |value: &str| {
        let known = ["usual"].into_iter().chain(format.spellings()).map(str::to_owned).collect();
        Err(Error::BadOption { name: SPELLING.to_owned(), value: value.to_owned(), known })
    };
    if let Some(other) = conversation.template_kwargs.get(SPELLING).filter(|_| has_spellings)
        && !matches!(other, Json::String(_) | Json::Null)
    {
        return bad_spelling(other.kind());
    }
    let spelling = chosen_spelling(conversation, &options.choices).filter(|_| has_spellings);
    if let Some(value) = spelling.filter(|value| *value != "usual" && !format.spellings().contains(value)) {
        return bad_spelling(value);
    }
    let spelling = spelling.filter(|value| *value != "usual");
    for (at, choice) in format.choices.iter().enumerate() {
        if let Some(value) = conversation.template_kwargs.get(&choice.name) {
            let text = match value {
                Json::String(text) => text.clone(),
                Json::Number(number) => number.spelling().to_owned(),
                Json::Bool(value) => value.to_string(),
                Json::Null => continue,
                other => {
                    let known = choice.values.clone();
                    return Err(Error::BadOption { name: choice.name.clone(), value: other.kind().into(), known });
                }
            };
            values[at] = (text, true);
        }
    }
    for (name, value) in &options.choices {
        if name == SPELLING && has_spellings {
            continue;
        }
        let Some(at) = format.choices.iter().position(|choice| choice.name == *name) else {
            let (name, known) = (name.clone(), format.option_names());
            return Err(Error::UnknownOption { name, format: format.name.clone(), known });
        };
        values[at] = (value.clone(), true);
    }
    for (choice, (value, _)) in format.choices.iter().zip(&values) {
        if !choice.values.is_empty() && !choice.values.contains(value) {
            let (name, value, known) = (choice.name.clone(), value.clone(), choice.values.clone());
            return Err(Error::BadOption { name, value, known });
        }
    }
    Ok(OptionValues { values, spelling })
}

impl OptionValues<'_> {
    /// Returns the value of an option, or `None` if the format has no such option.
    pub fn value(&self, format: &Format, name: &str) -> Option<&str> {
        self.entry(format, name).map(|(value, _)| value)
    }

    /// Returns the options whose value is not one of the intended values.
    pub fn unusual(&self, format: &Format) -> Vec<Unusual> {
        let each = format.choices.iter().zip(&self.values);
        let odd = each.filter(|(choice, (value, _))| !choice.usual.is_empty() && !choice.usual.contains(value));
        odd.map(|(choice, (value, _))| Unusual {
            option: choice.name.clone(),
            value: value.clone(),
            usual: choice.usual.clone(),
        })
        .collect()
    }

    /// Returns the value of an option and whether the caller gave it, or `None` if the format has
    /// no such option.
    pub fn entry(&self, format: &Format, name: &str) -> Option<(&str, bool)> {
        let at = format.choices.iter().position(|choice| choice.name == name)?;
        self.values.get(at).map(|(value, given)| (value.as_str(), *given))
    }
}
