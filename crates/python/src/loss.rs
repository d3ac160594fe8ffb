//! The arguments that say which ids carry loss.

use pyo3::prelude::*;
use rolecall::conversation::{Json, Role};
use rolecall::loss::{LossPolicy, RoleLoss};

use crate::input::{self, Path};

/// Reads a policy.
///
/// `whose` is `"assistant"`, `"last"`, `"chosen"`, `"all"` or `"tagged"`. `weights` has the weights of
/// the parts of a reply, and `roles` those of other roles, where `"tool:turn"` includes the
/// template's text around the message. `allow` may have `"masked_stop"` and `"no_loss"`.
pub fn policy(
    py: Python<'_>,
    whose: Option<&Bound<'_, PyAny>>,
    weights: Option<&Bound<'_, PyAny>>,
    roles: Option<&Bound<'_, PyAny>>,
    allow: Option<&Bound<'_, PyAny>>,
) -> PyResult<LossPolicy> {
    let words = [
        ("assistant", Whose::Assistant),
        ("last", Whose::Last),
        ("chosen", Whose::Chosen),
        ("all", Whose::All),
        ("tagged", Whose::Tagged),
    ];
    let whose = input::word_or_default("loss", whose, &words)?;
    let mut policy = match whose {
        Whose::Last => LossPolicy::last(),
        Whose::Chosen => LossPolicy::chosen(),
        Whose::All => LossPolicy::all(),
        Whose::Tagged | Whose::Assistant => LossPolicy::assistant(),
    };
    policy.tagged = whose == Whose::Tagged;
    for (part, weight) in numbers("loss_weights", weights)? {
        let parts = &mut policy.weights;
        *match &*part {
            "reasoning" => &mut parts.reasoning,
            "content" => &mut parts.content,
            "calls" => &mut parts.calls,
            "stop" => &mut parts.closer,
            _ => {
                let what = format!("expected \"reasoning\", \"content\", \"calls\" or \"stop\" as key, found {part:?}");
                return Err(input::refuse(py, "loss_weights", what));
            }
        } = weight;
    }
    for (name, weight) in numbers("loss_roles", roles)? {
        let (name, whole_turn) = name.strip_suffix(":turn").map_or((&*name, false), |name| (name, true));
        let role = Role::from_name(name);
        if role == Role::Assistant {
            let what = "expected a role other than the assistant, whose weights `loss_weights` has".to_owned();
            return Err(input::refuse(py, "loss_roles", what));
        }
        policy.roles.push(RoleLoss { role, whole_turn, weight });
    }
    let allow_words = [("masked_stop", Allow::MaskedStop), ("no_loss", Allow::NoLoss)];
    for allowed in allow.map(|allow| input::items_of("allow", allow)).transpose()?.unwrap_or_default() {
        match input::word("allow", &allowed, &allow_words)? {
            Allow::MaskedStop => policy.allow_masked_stop = true,
            Allow::NoLoss => policy.allow_empty = true,
        }
    }
    Ok(policy)
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Whose {
    #[default]
    Assistant,
    Last,
    Chosen,
    All,
    Tagged,
}

#[derive(Clone, Copy)]
enum Allow {
    MaskedStop,
    NoLoss,
}

/// Reads a dict of numbers.
fn numbers(argument: &str, value: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<(String, f32)>> {
    let Some(value) = value else { return Ok(Vec::new()) };
    let Json::Object(object) = input::json(value, &mut Path::of(argument))? else {
        return Err(input::refuse(value.py(), argument, "expected a dict of weights".to_owned()));
    };
    let number = |(key, value): (&str, &Json)| match value {
        Json::Number(number) => number.as_f64().map(|weight| (key.to_owned(), weight as f32)),
        _ => None,
    };
    match object.iter().map(number).collect() {
        Some(numbers) => Ok(numbers),
        None => Err(input::refuse(value.py(), argument, "expected weights that are numbers".to_owned())),
    }
}
