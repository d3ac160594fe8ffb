use rolecall_conversation::json::Object;
use rolecall_openai::Request;

use super::{Case, Stability, StepChange};
use crate::{Error, Model};

/// The comparison of the prompts of several conversations as they grow.
#[derive(Clone, Debug)]
pub struct Report {
    /// The conversations with their comparisons, in order.
    pub cases: Vec<(Case, Stability)>,
}

/// Compares the prompts of a model for each of these conversations as it grows. A conversation
/// that is [`switched`](Case::switched) is compared again for each flag of the chat template, set
/// to the value that is not its default.
///
/// ```
/// use rolecall::Model;
/// use rolecall::stability::{Case, report};
/// let report = report(&Model::open("chatml")?, &Case::all())?;
/// assert!(report.is_stable());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn report(model: &Model, cases: &[Case]) -> Result<Report, Error> {
    let flags = model.template_flags();
    let mut compared = Vec::with_capacity(cases.len());
    for case in cases {
        let switched = flags.iter().filter(|_| case.switched).map(|(name, usual)| case.with_switch(name, !usual));
        for case in std::iter::once(case.clone()).chain(switched) {
            let conversation = case.conversation.clone();
            let request = Request { id: None, format: None, conversation, other: Object::new() };
            let stability = model.stability_at(&request, case.pace)?;
            compared.push((case, stability));
        }
    }
    Ok(Report { cases: compared })
}

/// Reports whether a conversation that goes on after a reply keeps everything rendered so far, in all
/// built-in conversations, without generation prompts and with these switches of the chat template.
/// If the model refuses all of them, it does not.
///
/// ```
/// use rolecall::Model;
/// use rolecall::conversation::json::Object;
/// use rolecall::stability::is_prefix_stable;
/// assert!(is_prefix_stable(&Model::open("chatml")?, &Object::new())?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn is_prefix_stable(model: &Model, switches: &Object) -> Result<bool, Error> {
    let mut says_anything = false;
    for mut case in Case::all() {
        for (name, value) in switches.iter() {
            case.conversation.template_kwargs.insert(name, value.clone());
        }
        let request = Request { id: None, format: None, conversation: case.conversation, other: Object::new() };
        let compared = model.stability(&request)?;
        let mut follows_reply = false;
        for step in &compared.steps {
            if follows_reply && let Ok(kept) = &step.history {
                if !kept.is_stable() || kept.ids.is_some_and(|ids| ids.kept < ids.of) {
                    return Ok(false);
                }
                says_anything = true;
            }
            follows_reply = step.added.is_reply();
        }
    }
    Ok(says_anything)
}

impl Report {
    /// Reports whether no conversation has a change.
    pub fn is_stable(&self) -> bool {
        self.changes().next().is_none()
    }

    /// Reports whether the report says something: if every step of every conversation is refused, it
    /// does not.
    pub fn says_anything(&self) -> bool {
        self.cases.iter().any(|(_, found)| found.says_anything())
    }

    /// Returns all changes in order.
    pub fn changes(&self) -> impl Iterator<Item = (&Case, StepChange<'_>)> {
        self.cases.iter().flat_map(|(case, found)| found.changes().map(move |change| (case, change)))
    }
}
