use pyo3::prelude::*;
use pyo3::types::PyDict;
use rolecall::conversation::spelling::nearest_within;
use rolecall::template::ModelTemplates;

use crate::input;

/// The keyword arguments of this package's functions that take switches.
const KEYWORDS: [&str; 30] = [
    "messages",
    "tools",
    "documents",
    "add_generation_prompt",
    "continue_final_message",
    "for_training",
    "loss_weight",
    "loss_role",
    "edges",
    "final_stop",
    "allow",
    "mask",
    "seams",
    "finish_reason",
    "policies",
    "completion",
    "prompt_tail",
    "after_reasoning",
    "tool_choice",
    "parallel_tool_calls",
    "reasoning",
    "answer_schema",
    "on_rewrite",
    "engine",
    "interpreter",
    "rounds",
    "max_tokens",
    "parallel",
    "on_event",
    "replay",
];

/// Refuses a keyword argument that would be taken for a switch of the template, although the template
/// does not read it and it spells an argument of this package, or nearly does.
pub fn check(model: &rolecall::Model, switches: &Bound<'_, PyDict>) -> PyResult<()> {
    // Code gets the switches as its own arguments.
    if model.templates().is_some_and(ModelTemplates::are_code) {
        return Ok(());
    }
    let py = switches.py();
    for name in switches.keys() {
        let name = input::argument(&name, "switches")?;
        let Some(near) = nearest_keyword(&name) else { continue };
        if py.detach(|| model.reads_switch(&name)) {
            continue;
        }
        let what = match near == name {
            true => format!("this function has no argument `{name}`, and the model reads no switch of that name"),
            false => format!("there is no argument and no switch `{name}`: did you mean `{near}`?"),
        };
        return Err(input::refuse(py, &name, what));
    }
    Ok(())
}

/// Returns the keyword that a name spells, or misspells by at most a third of its letters.
fn nearest_keyword(name: &str) -> Option<&'static str> {
    let letters = name.chars().count();
    (letters > 3).then(|| nearest_within(name, KEYWORDS, letters / 3)).flatten()
}
