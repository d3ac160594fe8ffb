use std::cell::{Cell, RefCell};

use pyo3::exceptions::{PyException, PyKeyboardInterrupt, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use rolecall::conversation::Json;
use rolecall::conversation::json::Object;
use rolecall::template::{CodeError, CodeErrorKind, CodeMessage, CodePiece, TemplateCode};

use crate::output;

/// The code of a template in Python, as `rolecall/interop/_code.py` runs it. The GIL is held while it runs.
#[derive(Debug)]
pub struct PythonCode {
    name: String,
    stop_words: Vec<String>,
    object: Py<PyAny>,
}

/// The most runs of code within others. A thread has room for more.
const DEEPEST: usize = 8;

thread_local! {
    /// How many runs of code this thread is in.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// The last exception of code in this thread, with the error that stands for it.
    static RAISED: RefCell<Option<(CodeError, PyErr)>> = const { RefCell::new(None) };
}

impl PythonCode {
    /// Reads a `CodeTemplate`.
    pub fn read(object: &Bound<'_, PyAny>) -> PyResult<PythonCode> {
        let py = object.py();
        let kind = py.import("rolecall.interop._code")?.getattr("CodeTemplate")?;
        if !object.is_instance(&kind)? {
            let found = object.get_type().name()?;
            return Err(PyTypeError::new_err(format!("expected a CodeTemplate, found {found}")));
        }
        Ok(PythonCode {
            name: object.getattr("name")?.extract()?,
            stop_words: object.getattr("stop_words")?.extract()?,
            object: object.clone().unbind(),
        })
    }

    fn pieces(&self, py: Python<'_>, messages: &[CodeMessage<'_>], switches: &Object) -> PyResult<Vec<CodePiece>> {
        let rows = PyList::empty(py);
        for message in messages {
            let row = PyDict::new(py);
            row.set_item("role", message.role)?;
            row.set_item("content", &*message.content)?;
            rows.append(row)?;
        }
        let switches = output::object(py, &Json::Object(switches.clone()))?;
        let pieces = self.object.bind(py).call_method1("pieces", (rows, switches))?;
        let piece = |piece: PyResult<Bound<'_, PyAny>>| {
            let piece = piece?;
            Ok(match piece.extract::<usize>() {
                Ok(index) => CodePiece::Content(index),
                Err(_) => CodePiece::Text(piece.extract()?),
            })
        };
        pieces.try_iter()?.map(piece).collect()
    }
}

impl TemplateCode for PythonCode {
    fn name(&self) -> &str {
        &self.name
    }

    fn stop_words(&self) -> &[String] {
        &self.stop_words
    }

    fn write(&self, messages: &[CodeMessage<'_>], switches: &Object) -> Result<Vec<CodePiece>, CodeError> {
        if DEPTH.get() >= DEEPEST {
            return Err(CodeError {
                kind: CodeErrorKind::Failed,
                message: None,
                field: String::new(),
                what: format!("{} renders with a model while it renders, again and again", self.name),
                help: "let the code write the text itself".to_owned(),
            });
        }
        let _inside = Inside::enter();
        Python::attach(|py| {
            RAISED.take();
            self.pieces(py, messages, switches).map_err(|error| code_error(py, error))
        })
    }
}

/// A run of code. However it ends, it is over.
struct Inside;

impl Inside {
    fn enter() -> Inside {
        DEPTH.set(DEPTH.get() + 1);
        Inside
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// Returns the exception that an error of code stands for, if it was raised in this thread.
pub fn exception_of(py: Python<'_>, error: &CodeError) -> Option<PyErr> {
    if let Err(interrupt) = py.check_signals() {
        return Some(interrupt);
    }
    RAISED.take().filter(|(known, _)| known == error).map(|(_, raised)| raised)
}

/// Returns an exception as an error of code. The exception is kept for [`exception_of`].
fn code_error(py: Python<'_>, raised: PyErr) -> CodeError {
    let value = raised.value(py);
    let text = |name: &str| value.getattr(name).ok().and_then(|text| text.extract::<String>().ok());
    let code = text("code");
    let kind = CodeErrorKind::ALL.into_iter().find(|(known, _)| code.as_deref() == Some(known));
    let error = CodeError {
        kind: match kind {
            // What ends the program says nothing about the conversation.
            _ if !raised.is_instance_of::<PyException>(py) => CodeErrorKind::Unavailable,
            Some((_, kind)) => kind,
            None => CodeErrorKind::Failed,
        },
        message: value.getattr("message_index").ok().and_then(|index| index.extract().ok()),
        field: text("field").unwrap_or_default(),
        what: text_of(value),
        help: text("help").unwrap_or_default(),
    };
    if raised.is_instance_of::<PyKeyboardInterrupt>(py) {
        // Not every error becomes an exception: the interrupt waits for the main thread.
        let _ = py.import("_thread").and_then(|module| module.call_method0("interrupt_main"));
    } else {
        RAISED.set(Some((error.clone(), raised)));
    }
    error
}

/// Returns what an exception says, without the place and the help that errors of the package add.
fn text_of(raised: &Bound<'_, PyAny>) -> String {
    let name = raised.get_type().name().map_or_else(|_| "an exception".to_owned(), |name| name.to_string());
    let first = raised.getattr("args").and_then(|args| args.get_item(0)).and_then(|first| first.extract::<String>());
    match (raised.hasattr("message_index"), first) {
        (Ok(true), Ok(text)) => text,
        _ => match raised.str() {
            Ok(text) if text.len().is_ok_and(|length| length > 0) => format!("{name}: {text}"),
            _ => name,
        },
    }
}
