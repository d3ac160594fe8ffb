//! The arguments that say which ids carry loss. They have the names and values of the command's flags.

use pyo3::prelude::*;
use pyo3::types::PyString;
use rolecall::conversation::{Json, Place};
use rolecall::training::{RowError, RowOptions, RowRecipe};

use crate::error::Fault;
use crate::input::{self, Path};

/// The arguments, as the caller gave them.
#[derive(Default)]
pub struct LossArguments<'a, 'py> {
    pub for_training: Option<&'a Bound<'py, PyAny>>,
    pub loss_weight: Option<&'a Bound<'py, PyAny>>,
    pub loss_role: Option<&'a Bound<'py, PyAny>>,
    pub edges: Option<&'a Bound<'py, PyAny>>,
    pub final_stop: Option<&'a Bound<'py, PyAny>>,
    pub allow: Option<&'a Bound<'py, PyAny>>,
}

impl LossArguments<'_, '_> {
    /// Reports whether no argument was given.
    pub fn is_empty(&self) -> bool {
        let LossArguments { for_training, loss_weight, loss_role, edges, final_stop, allow } = self;
        [for_training, loss_weight, loss_role, edges, final_stop, allow].into_iter().all(Option::is_none)
    }

    /// Returns the recipe that the arguments ask for. Without `for_training`, nothing carries loss.
    pub fn recipe(&self, py: Python<'_>) -> PyResult<RowRecipe> {
        recipe(py, &self.options()?)
    }

    /// Returns the arguments as words.
    pub fn options(&self) -> PyResult<RowOptions> {
        let text = |value: Option<&Bound<'_, PyAny>>, argument: &str| {
            value.map(|value| input::argument(value, argument)).transpose()
        };
        Ok(RowOptions {
            for_training: text(self.for_training, "for_training")?,
            loss_weight: words(self.loss_weight, "loss_weight")?,
            loss_role: words(self.loss_role, "loss_role")?,
            edges: text(self.edges, "edges")?,
            final_stop: text(self.final_stop, "final_stop")?,
            allow: words(self.allow, "allow")?,
            ..RowOptions::default()
        })
    }
}

/// Returns the recipe that options ask for.
pub fn recipe(py: Python<'_>, options: &RowOptions) -> PyResult<RowRecipe> {
    options.recipe().map_err(|error| {
        let place = Some(Place::field(error.option));
        let message = error.problem;
        Fault { class: "RequestError", code: "bad_argument", message, place, help: None }.raise(py)
    })
}

/// Returns the exception for a conversation of which no sample can be made.
pub fn refused(py: Python<'_>, error: &RowError) -> PyErr {
    match error {
        RowError::Library(error) => crate::error::of(py, error),
        error => {
            let (code, message, place, help) = (error.code(), error.to_string(), error.place(), error.help());
            Fault { class: "RequestError", code, message, place, help }.raise(py)
        }
    }
}

/// Reads a word, a list of words, or a dict from words to numbers: `{"reasoning": 0}` is the same as
/// `["reasoning=0"]`.
fn words(value: Option<&Bound<'_, PyAny>>, argument: &str) -> PyResult<Vec<String>> {
    let Some(value) = value else { return Ok(Vec::new()) };
    if value.is_instance_of::<PyString>() {
        return Ok(vec![input::argument(value, argument)?]);
    }
    let word = |json: &Json| match json {
        Json::String(word) => Some(word.clone()),
        _ => None,
    };
    let weighed = |(name, weight): (&str, &Json)| match weight {
        Json::Number(weight) => Some(format!("{name}={}", weight.as_f64()?)),
        _ => None,
    };
    let found = match input::json(value, &mut Path::of(argument))? {
        Json::Array(items) => items.iter().map(word).collect(),
        Json::Object(entries) => entries.iter().map(weighed).collect(),
        _ => None,
    };
    found.ok_or_else(|| input::refuse(value.py(), argument, "expected words, or a dict from words to numbers".into()))
}
