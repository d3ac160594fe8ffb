use super::probe::{Probe, Probed};
use super::support::{ARGUMENTS, RESULTS, TOOLS, USER, calling};
use crate::Origin;

/// The form in which a template wants the arguments of a tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArgumentForm {
    /// An object: a string would be quoted once more, or is refused.
    Mapping,
    /// JSON text: an object would be printed as Python shows it, or is refused.
    String,
    /// It looks what it was given, and writes the same.
    Either,
}

impl ArgumentForm {
    /// A name for programs.
    pub fn name(self) -> &'static str {
        match self {
            ArgumentForm::Mapping => "mapping",
            ArgumentForm::String => "string",
            ArgumentForm::Either => "either",
        }
    }
}

/// The form that a template wants: the one that it writes rightly; none, if it writes neither.
pub(super) fn form_of(probe: &Probe<'_>) -> Option<ArgumentForm> {
    let tries = |arguments: &str| {
        ["\"\"", "null", "\"I look.\""].iter().find_map(|content| {
            let calling = calling(1, content, arguments);
            let probed = probe.run(&[USER, &calling, RESULTS[0]], TOOLS).ok()?;
            probed.prints(is_argument).then_some(probed)
        })
    };
    let [mapping, string] = ARGUMENTS;
    let takes_mapping = tries(mapping).is_some_and(|probed| !is_python(&probed));
    // A string is written as it came, without quotes of its own.
    let takes_string = tries(string).is_some_and(|probed| probed.text_of(is_argument) == r#"{"place": "Oslo"}"#);
    match (takes_mapping, takes_string) {
        (true, true) => Some(ArgumentForm::Either),
        (true, false) => Some(ArgumentForm::Mapping),
        (false, true) => Some(ArgumentForm::String),
        (false, false) => None,
    }
}

fn is_argument(origin: &Origin) -> bool {
    matches!(origin, Origin::Message { message: 1, field } if field.starts_with("tool_calls[0].function.arguments"))
}

/// Whether a key of the arguments stands between single quotes, as Python prints a dict.
fn is_python(probed: &Probed) -> bool {
    let keys = probed.pieces.iter().filter(|piece| piece.origin.as_ref().is_some_and(is_argument));
    let mut keys = keys.filter(|piece| probed.text[piece.start..piece.end].contains("place"));
    keys.any(|piece| {
        let around = piece.start.saturating_sub(2)..(piece.end + 2).min(probed.text.len());
        probed.text.get(around).is_some_and(|around| around.contains("'place'"))
    })
}
