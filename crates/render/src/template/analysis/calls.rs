use std::rc::Rc;

use super::arguments::{self, ArgumentForm};
use super::probe::{Probe, ProbedPrompt};
use super::sample::{TOOLS, USER};
use super::support::{RESULTS, callings};
use crate::Origin;

/// The form in which a template expects tool calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WantedCalls {
    /// The form of the arguments, or `None` if the template writes no calls, or writes neither form
    /// correctly.
    pub arguments: Option<ArgumentForm>,
    /// The form of the ids, or `None` if the template accepts any id.
    pub ids: Option<IdForm>,
}

/// A form of tool call ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IdForm {
    /// Nine letters and digits. The template refuses other ids.
    NineCharacters,
    /// `functions.NAME:NUMBER`, where the number counts calls over the whole conversation from 0.
    /// The template writes the id but not the name.
    FunctionAndNumber,
}

impl IdForm {
    /// Returns a machine-readable name.
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

/// Renders a call with this id and its result.
fn called(probe: &Probe<'_>, id: &str) -> Option<Rc<ProbedPrompt>> {
    let with_id = |message: &str| message.replace("lookup001", id);
    let result = with_id(RESULTS[0]);
    let mut ran = callings(1).into_iter().filter_map(|calling| {
        let probed = probe.run(&[USER, &with_id(&calling), &result], TOOLS).ok()?;
        let is_call =
            |origin: &Origin| matches!(origin, Origin::Message { message: 1, field } if field.starts_with("tool_calls"));
        probed.prints(is_call).then_some(probed)
    });
    ran.next()
}
