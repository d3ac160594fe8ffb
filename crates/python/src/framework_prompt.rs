use pyo3::prelude::*;
use pyo3::types::PyDict;
use rolecall::format::{BoundaryToken, Control};
use rolecall::interop::xtuner;
use rolecall::loss::{Loss, LossPolicy, segments};
use rolecall::model::ModelPrompt;
use rolecall::{Origin, Prompt, answer};

use crate::{error, output};

/// A prompt that a framework's template rendered.
///
/// >>> from rolecall._rolecall import FrameworkTemplate
/// >>> FrameworkTemplate.named("xtuner:vicuna").render([{"role": "user", "content": "Hi"}]).text
/// '<s>USER: Hi ASSISTANT:'
#[pyclass(frozen, module = "rolecall._rolecall")]
pub struct FrameworkPrompt {
    rendered: Rendered,
}

enum Rendered {
    Request(ModelPrompt),
    /// One of the inputs of a chat.
    Input(Prompt),
}

impl FrameworkPrompt {
    pub fn of_request(prompt: ModelPrompt) -> FrameworkPrompt {
        FrameworkPrompt { rendered: Rendered::Request(prompt) }
    }

    pub fn of_chat(prompt: Prompt) -> FrameworkPrompt {
        FrameworkPrompt { rendered: Rendered::Input(prompt) }
    }

    fn prompt(&self) -> &Prompt {
        match &self.rendered {
            Rendered::Request(prompt) => prompt.prompt(),
            Rendered::Input(prompt) => prompt,
        }
    }

    fn loss(&self, turns: Option<&str>) -> Result<Loss, rolecall::Error> {
        let mut policy = match turns {
            Some("all") => LossPolicy::all(),
            _ => LossPolicy::assistant(),
        };
        policy.allow_empty = true;
        match (&self.rendered, turns) {
            (Rendered::Request(prompt), Some(_)) => prompt.loss(&policy),
            _ => Ok(Loss::default()),
        }
    }
}

/// A piece of a turn: the kind of token if it is one, its text, its origin, and whether it carries loss.
type PieceTuple<'py> = (Option<String>, &'py str, Py<PyAny>, bool);

/// A turn: the name of its layout, the index of its message if it has one, and its pieces.
type TurnTuple<'py> = (&'static str, Option<usize>, Vec<PieceTuple<'py>>);

#[pymethods]
impl FrameworkPrompt {
    /// The text of the prompt.
    #[getter]
    fn text(&self) -> &str {
        self.prompt().text()
    }

    /// The stop texts.
    #[getter]
    fn stop(&self) -> Vec<String> {
        self.prompt().generation.stop.clone()
    }

    /// The text inside `{% generation %}` blocks, as start and end in characters.
    #[getter]
    fn generated(&self) -> Vec<(usize, usize)> {
        let text = self.text();
        let characters = |part: &std::ops::Range<usize>| {
            let start = text[..part.start].chars().count();
            (start, start + text[part.clone()].chars().count())
        };
        self.prompt().generated.iter().map(characters).collect()
    }

    /// The turns in order: the name of the layout, the index of the message or None, and the pieces.
    /// `loss` is "assistant", "all", or None if nothing carries loss.
    #[pyo3(signature = (loss=None))]
    fn turns(&self, py: Python<'_>, loss: Option<&str>) -> PyResult<Vec<TurnTuple<'_>>> {
        let prompt = self.prompt();
        let loss = py.detach(|| self.loss(loss)).map_err(|error| error::of(py, &error))?;
        let turn = |at: usize| {
            let pieces = segments(prompt, prompt.turn_span(at), &loss).into_iter().map(|(segment, learned)| {
                let kind = match segment.origin {
                    Origin::Control(id) => Some(kind(&prompt.controls()[id.0])),
                    _ => None,
                };
                let origin = output::object(py, &answer::of_origin(&segment.origin))?;
                Ok((kind, segment.text, origin, learned))
            });
            let turn = &prompt.turns()[at];
            Ok((turn.slot.key(), turn.message, pieces.collect::<PyResult<_>>()?))
        };
        (0..prompt.turns().len()).map(turn).collect()
    }

    /// XTuner's pairs of a prompt that was rendered as training text, as dicts.
    fn pairs<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let dict = |pair: &xtuner::Pair| {
            let dict = PyDict::new(py);
            dict.set_item("input", &pair.input)?;
            dict.set_item("output", &pair.output)?;
            dict.set_item("need_eos_token", pair.need_eos_token)?;
            dict.set_item("sep", &pair.sep)?;
            Ok(dict)
        };
        xtuner::pairs(self.prompt()).iter().map(dict).collect()
    }
}

/// The kind of a control token: the tokenizer's own, one with a text, or one with an id.
fn kind(control: &Control) -> String {
    match (control.own, control.id) {
        (Some(BoundaryToken::Bos), _) => "bos_token".to_owned(),
        (Some(BoundaryToken::Eos), _) => "eos_token".to_owned(),
        (None, Some(id)) if control.by_id => format!("#{id}"),
        (None, _) => "token".to_owned(),
    }
}
