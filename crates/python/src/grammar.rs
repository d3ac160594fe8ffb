use std::sync::OnceLock;

use pyo3::prelude::*;
use pyo3::types::PyString;
use rolecall::conversation::{Json, Place};
use rolecall::grammar::{Answer, Options, PrintedGrammar, Reasoning, ToolChoice};

use crate::error::Fault;
use crate::input::{self, Path};

/// A grammar of the replies that an engine may sample, in the languages of the engines.
///
/// `Model.grammar` and `Prompt.grammar` return it. It can be pickled.
///
/// >>> model = rolecall.load("path/to/model")
/// >>> city = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
/// >>> tools = [{"type": "function", "function": {"name": "get_weather", "parameters": city}}]
/// >>> grammar = model.grammar(tools=tools, tool_choice="required")
/// >>> print(grammar.gbnf().splitlines()[0])
/// root ::= "<tool_call>" call ("\n" "<tool_call>" call)*
/// >>> grammar.notes("gbnf")
/// []
#[pyclass(frozen, module = "rolecall")]
pub struct Grammar {
    /// None after unpickling, when each form is already printed.
    inner: Option<rolecall::grammar::Grammar>,
    forms: [OnceLock<Form>; 3],
}

/// A printed form: its text, and the requirements that it does not express exactly.
type Form = (String, Vec<String>);

/// The languages, in the order of `forms`.
const LANGUAGES: [&str; 3] = ["structural-tag", "lark", "gbnf"];

impl Grammar {
    pub fn new(inner: rolecall::grammar::Grammar) -> Grammar {
        Grammar { inner: Some(inner), forms: Default::default() }
    }

    fn form(&self, py: Python<'_>, language: usize) -> &Form {
        if let Some(form) = self.forms[language].get() {
            return form;
        }
        py.detach(|| {
            self.forms[language].get_or_init(|| {
                let printed = self.inner.as_ref().map(|inner| match language {
                    0 => inner.to_structural_tag(),
                    1 => inner.to_lark(),
                    _ => inner.to_gbnf(),
                });
                let Some(PrintedGrammar { text, notes }) = printed else { return Form::default() };
                (text, notes.iter().map(ToString::to_string).collect())
            })
        })
    }
}

#[pymethods]
impl Grammar {
    /// The grammar as a structural tag of XGrammar, which is JSON text.
    fn structural_tag(&self, py: Python<'_>) -> &str {
        &self.form(py, 0).0
    }

    /// The grammar in llguidance's variant of Lark.
    fn lark(&self, py: Python<'_>) -> &str {
        &self.form(py, 1).0
    }

    /// The grammar in llama.cpp's GBNF.
    fn gbnf(&self, py: Python<'_>) -> &str {
        &self.form(py, 2).0
    }

    /// Returns the requirements that a language ("structural-tag", "lark" or "gbnf") does not express
    /// exactly: the grammar allows more than the tools' schemas, or fewer replies than were asked for.
    #[pyo3(signature = (language=None), text_signature = "($self, language='structural-tag')")]
    fn notes(&self, py: Python<'_>, language: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<String>> {
        let language =
            language.map_or_else(|| Ok(LANGUAGES[0].to_owned()), |word| input::argument(word, "language"))?;
        match LANGUAGES.iter().position(|known| *known == language) {
            Some(at) => Ok(self.form(py, at).1.clone()),
            None => Err(unknown(py, "language", &language, "\"structural-tag\", \"lark\" or \"gbnf\"")),
        }
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Vec<Form>,))> {
        let py = slf.py();
        let forms = (0..LANGUAGES.len()).map(|at| slf.get().form(py, at).clone()).collect();
        Ok((slf.get_type().getattr("_of_forms")?, (forms,)))
    }

    #[staticmethod]
    fn _of_forms(forms: [Form; 3]) -> Grammar {
        Grammar { inner: None, forms: forms.map(OnceLock::from) }
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        format!("Grammar({} bytes of GBNF)", self.form(py, 2).0.len())
    }
}

/// Returns the options of keyword arguments.
pub fn options(
    py: Python<'_>,
    tool_choice: Option<&Bound<'_, PyAny>>,
    parallel_tool_calls: bool,
    reasoning: Option<&Bound<'_, PyAny>>,
    answer_schema: Option<&Bound<'_, PyAny>>,
) -> PyResult<Options> {
    let reasoning = reasoning.map_or_else(|| Ok("off".to_owned()), |word| input::argument(word, "reasoning"))?;
    let Some((_, reasoning)) = Reasoning::ALL.into_iter().find(|(word, _)| *word == reasoning) else {
        return Err(unknown(py, "reasoning", &reasoning, "\"off\", \"optional\", \"required\" or \"over\""));
    };
    let choice = tool_choice.map(choice).transpose()?.unwrap_or_default();
    let answer = match answer_schema {
        Some(schema) => Answer::Schema(input::json(schema, &mut Path::of("answer_schema"))?),
        None => Answer::Free,
    };
    Ok(Options { choice, answer, one_call: !parallel_tool_calls, reasoning, ..Options::default() })
}

/// Reads which call a reply must make.
pub fn choice(value: &Bound<'_, PyAny>) -> PyResult<ToolChoice> {
    let path = &mut Path::of("tool_choice");
    if let Ok(word) = value.cast::<PyString>() {
        return Ok(match input::text_of(word, path)?.as_str() {
            "none" => ToolChoice::None,
            "auto" => ToolChoice::Auto,
            "required" => ToolChoice::Required,
            name => ToolChoice::Named(name.to_owned()),
        });
    }
    let json = input::json(value, path)?;
    let object = json.as_object();
    let function = object.and_then(|object| object.get("function")).and_then(Json::as_object).or(object);
    match function.and_then(|function| function.get("name")).and_then(Json::as_str) {
        Some(name) => Ok(ToolChoice::Named(name.to_owned())),
        None => Err(input::wrong_type(value, "tool_choice", "\"none\", \"auto\", \"required\" or the name of a tool")),
    }
}

fn unknown(py: Python<'_>, field: &str, found: &str, known: &str) -> PyErr {
    let message = format!("expected {known}, found \"{}\"", found.escape_debug());
    let place = Some(Place::field(field.to_owned()));
    Fault { class: "RequestError", code: "unknown_option", message, place, help: None }.raise(py)
}
