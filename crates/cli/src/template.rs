//! Chat templates as sources that diagnostics can point into.

use rolecall::Error;
use rolecall::render::Error as RenderError;
use rolecall::template::NamedTemplate;

use crate::refusal::Refusal;
use crate::source::Source;

/// Converts a render error to a refusal, which points into the template's text if the template
/// caused it.
pub fn refused(named: &NamedTemplate, error: RenderError) -> Refusal {
    match error {
        RenderError::Template { error, message } => {
            Refusal::Template { source: Source::of_template(named), error, message, as_wanted: false }
        }
        error => Error::from(error).into(),
    }
}
