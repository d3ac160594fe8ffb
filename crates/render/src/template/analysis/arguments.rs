use super::probe::{Probe, ProbedPrompt};
use super::sample::{TOOLS, USER};
use super::support::{ARGUMENTS, CONTENTS, RESULTS, calling};
use crate::Origin;

/// The form in which a template expects the arguments of a tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ArgumentForm {
    /// An object. A string is quoted a second time or refused.
    Mapping,
    /// JSON text. An object is printed as a Python dict or refused.
    String,
    /// Either one. The template checks the type and writes the same text.
    Either,
}

impl ArgumentForm {
    /// Returns a machine-readable name.
    pub fn name(self) -> &'static str {
        match self {
            ArgumentForm::Mapping => "mapping",
            ArgumentForm::String => "string",
            ArgumentForm::Either => "either",
        }
    }
}

/// Returns the form that the template writes correctly, or `None` if it writes neither correctly.
pub(super) fn form_of(probe: &Probe<'_>) -> Option<ArgumentForm> {
    let tries = |arguments: &str| {
        CONTENTS.iter().find_map(|content| {
            let calling = calling(1, content, arguments);
            let probed = probe.run(&[USER, &calling, RESULTS[0]], TOOLS).ok()?;
            probed.prints(is_argument).then_some(probed)
        })
    };
    let [mapping, string] = ARGUMENTS.map(tries);
    // Text beside an argument that is marked as safe is escaped, and so is an argument beside it.
    let escapes = |probed: &ProbedPrompt| probe.escapes(&probed.text);
    let mapping = mapping.filter(|probed| !is_python(probed) && !escapes(probed));
    // A string is written unchanged, in one piece.
    let string = string.filter(|probed| argument(probed) == r#"{"place": "Oslo"}"# && !escapes(probed));
    match (mapping, string) {
        (Some(mapping), Some(string)) if mapping.text == string.text => Some(ArgumentForm::Either),
        // A template that inspects an object supports objects.
        (Some(_), _) => Some(ArgumentForm::Mapping),
        (None, Some(_)) => Some(ArgumentForm::String),
        (None, None) => None,
    }
}

/// Returns the text from the first byte of the arguments to the last.
fn argument(probed: &ProbedPrompt) -> &str {
    let mut pieces = probed.pieces.iter().filter(|piece| piece.origin.as_ref().is_some_and(is_argument));
    let Some(first) = pieces.next() else { return "" };
    let end = pieces.next_back().map_or(first.end, |last| last.end);
    &probed.text[first.start..end]
}

fn is_argument(origin: &Origin) -> bool {
    matches!(origin, Origin::Message { message: 1, field } if field.starts_with("tool_calls[0].function.arguments"))
}

/// Reports whether a key of the arguments is in single quotes, as in a printed Python dict.
fn is_python(probed: &ProbedPrompt) -> bool {
    let keys = probed.pieces.iter().filter(|piece| piece.origin.as_ref().is_some_and(is_argument));
    let mut keys = keys.filter(|piece| probed.text[piece.start..piece.end].contains("place"));
    keys.any(|piece| {
        let around = piece.start.saturating_sub(2)..(piece.end + 2).min(probed.text.len());
        probed.text.get(around).is_some_and(|around| around.contains("'place'"))
    })
}
