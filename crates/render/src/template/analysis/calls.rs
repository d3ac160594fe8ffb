use super::arguments::{self, ArgumentForm};
use super::probe::{Probe, Probed};
use super::support::{ARGUMENTS, TOOLS, USER};
use crate::Origin;

/// How a template wants tool calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WantedCalls {
    /// The form of their arguments; none if it writes no calls, or neither form rightly.
    pub arguments: Option<ArgumentForm>,
    /// The form of their ids; none if any will do.
    pub ids: Option<IdForm>,
}

/// A form of tool call ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IdForm {
    /// Nine letters and digits: the template refuses others.
    NineCharacters,
    /// `functions.NAME:NUMBER`, the number counted over the conversation from 0: the template writes the id and not the name.
    FunctionAndNumber,
}

impl IdForm {
    /// A name for programs.
    pub fn name(self) -> &'static str {
        match self {
            IdForm::NineCharacters => "nine-characters",
            IdForm::FunctionAndNumber => "function-and-number",
        }
    }
}

pub(super) fn wanted(probe: &Probe<'_>) -> WantedCalls {
    WantedCalls { arguments: arguments::form_of(probe), ids: id_form(probe) }
}

fn id_form(probe: &Probe<'_>) -> Option<IdForm> {
    let nine = called(probe, "lookup001");
    let usual = called(probe, "call_lookup_1");
    match (nine, usual) {
        (Some(_), None) => Some(IdForm::NineCharacters),
        (_, Some(probed)) => {
            let prints = |field: &str| {
                probed.prints(|origin| matches!(origin, Origin::Message { message: 1, field: of } if of == field))
            };
            let has_name = prints("tool_calls[0].function.name");
            (prints("tool_calls[0].id") && !has_name).then_some(IdForm::FunctionAndNumber)
        }
        (None, None) => None,
    }
}

/// A call with an id, and its result.
fn called(probe: &Probe<'_>, id: &str) -> Option<Probed> {
    let result = format!(r#"{{"role": "tool", "tool_call_id": "{id}", "name": "look_up", "content": "north"}}"#);
    let calls = ARGUMENTS.iter().flat_map(|arguments| {
        ["\"\"", "null", "\"I look.\""].map(|content| {
            format!(
                r#"{{"role": "assistant", "content": {content}, "tool_calls": [{{"id": "{id}", "type": "function",
                "function": {{"name": "look_up", "arguments": {arguments}}}}}]}}"#
            )
        })
    });
    let mut ran = calls.filter_map(|calling| probe.run(&[USER, &calling, &result], TOOLS).ok());
    ran.next()
}
