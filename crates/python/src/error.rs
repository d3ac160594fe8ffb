//! Conversion of errors to exceptions. Their classes are in `rolecall/errors.py`.

use pyo3::panic::PanicException;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rolecall::conversation::Place;
use rolecall::model::OpenError;
use rolecall::template::CodeErrorKind;

use crate::code;

/// What an exception says.
pub struct Fault {
    /// The name of the class.
    pub class: &'static str,
    pub code: &'static str,
    pub message: String,
    pub place: Option<Place>,
    pub help: Option<String>,
}

impl Fault {
    /// Returns the exception.
    pub fn raise(self, py: Python<'_>) -> PyErr {
        self.exception(py).unwrap_or_else(|error| error)
    }

    fn exception(self, py: Python<'_>) -> PyResult<PyErr> {
        let details = PyDict::new(py);
        details.set_item("code", self.code)?;
        let place = self.place.unwrap_or_default();
        details.set_item("message_index", place.message)?;
        details.set_item("field", Some(place.field).filter(|field| !field.is_empty()))?;
        details.set_item("help", self.help)?;
        let class = py.import("rolecall.errors")?.getattr(self.class)?;
        Ok(PyErr::from_value(class.call((self.message,), Some(&details))?))
    }
}

/// Makes the exception of a panic one of `rolecall.errors`. PyO3 raises panics of every call as a class of its own,
/// which is no `Exception`: what handles the errors of one row would not see it, and end with it.
pub fn adopt_panics(py: Python<'_>) -> PyResult<()> {
    let class = py.import("rolecall.errors")?.getattr("InternalError")?;
    // A later Python may refuse it. Then panics stay as they are, which is no reason to refuse the import.
    let _ = py.get_type::<PanicException>().setattr("__bases__", (class,));
    Ok(())
}

/// Returns the exception for an error between a request and its ids.
pub fn of(py: Python<'_>, error: &rolecall::Error) -> PyErr {
    use rolecall::Error;
    use rolecall::render::Error::Code;
    if let Error::Render(Code(code)) = error
        && let Some(raised) = code::exception_of(py, code)
    {
        return raised;
    }
    let class = match error {
        Error::Render(Code(code)) => match code.kind {
            CodeErrorKind::NotTaken => "RequestError",
            CodeErrorKind::TextNotFound => "RenderError",
            _ => "TemplateError",
        },
        Error::Request(_) | Error::MisspeltSwitch { .. } | Error::BadWeight { .. } | Error::SavedPrompt { .. } => {
            "RequestError"
        }
        Error::Template { .. } | Error::NoTemplate(_) => "TemplateError",
        Error::UnknownFormat { .. } | Error::Format(_) | Error::NoFormat => "FormatError",
        Error::Render(_) | Error::NoNewTurn { .. } => "RenderError",
        Error::NoTokenizer | Error::Tokenizer { .. } => "TokenizerError",
        Error::Encode(_) => "EncodeError",
        Error::Grammar(_) => "GrammarError",
        Error::Session(_) => "SessionError",
        Error::File(_) => "OpenError",
        Error::Internal { .. } => "InternalError",
        _ => "RolecallError",
    };
    let message = error.to_string();
    Fault { class, code: error.code(), message, place: error.place(), help: error.help() }.raise(py)
}

/// Returns the exception for a model that cannot be opened.
pub fn of_open(py: Python<'_>, error: &OpenError) -> PyErr {
    let help = Some(error.help().join("\n")).filter(|help| !help.is_empty());
    Fault { class: "OpenError", code: error.code(), message: error.to_string(), place: None, help }.raise(py)
}

/// Returns the exception for code that cannot be run.
pub fn of_interpreter(py: Python<'_>, error: &rolecall_interpreter::Error) -> PyErr {
    use rolecall_interpreter::Error;
    let (message, help) = match error {
        Error::Missing { what, help } => (what.clone(), Some(help.clone())),
        other => (other.to_string(), None),
    };
    Fault { class: "InterpreterError", code: error.code(), message, place: None, help }.raise(py)
}
