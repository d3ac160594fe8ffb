//! A chat template as a text to point into.

use rolecall::Error;
use rolecall::render::Error as RenderError;
use rolecall::template::NamedTemplate;

use crate::refusal::Refusal;
use crate::source::Source;

/// A template's text to point into: the engine counts in lines that end with `\n`.
pub fn as_source(named: &NamedTemplate) -> Source {
    Source { name: named.place(), text: named.source.replace("\r\n", "\n").replace('\r', "\n") }
}

/// A refusal, which points into the template's text where the template is at fault.
pub fn refused(named: &NamedTemplate, error: RenderError) -> Refusal {
    match error {
        RenderError::Template { error, message } => {
            Refusal::Template { source: as_source(named), error, message, as_wanted: false }
        }
        error => Error::from(error).into(),
    }
}
