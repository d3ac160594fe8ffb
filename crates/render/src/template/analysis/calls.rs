use std::rc::Rc;

use super::arguments::{self, ArgumentForm};
use super::probe::{Probe, Probed};
use super::support::{RESULTS, TOOLS, USER, callings};
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
#[non_exhaustive]
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
fn called(probe: &Probe<'_>, id: &str) -> Option<Rc<Probed>> {
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
