//! Rows of the peer that has loss masks and sessions. What of them is not pending is that its prompts are the templates' own.

use std::collections::HashSet;

use rolecall::conversation::Json;
use rolecall::conversation::json::Object;

use super::parity::{request, same_ids};
use super::{Context, pending, text};
use crate::Verdict;

/// What the peer's own prompt writes behind the template's, for the family that has channels.
const CHANNEL: &str = "<|channel|>analysis<|message|>";

/// The setups that later rows go on from, by id.
#[derive(Default)]
pub(super) struct Setups(HashSet<String>);

impl Setups {
    /// Takes a setup row.
    pub fn take(&mut self, row: &Object) {
        self.0.insert(text(row, "id").to_owned());
    }
}

/// A setup's prompt, with the generation prompt.
pub(super) fn prompt_ids(row: &Object, context: &mut Context) -> Verdict {
    let Some(wanted) = row.get("prompt_ids").and_then(Json::as_array) else {
        return Verdict::cannot_run("a setup without `prompt_ids`");
    };
    same_ids(row, &request(row, true), wanted, |tail| tail == CHANNEL, context)
}

/// The ids that a mask is for: the whole conversation, without a generation prompt.
pub(super) fn whole_ids(row: &Object, context: &mut Context) -> Verdict {
    let expected = row.get("expected").and_then(Json::as_object);
    let Some(wanted) = expected.and_then(|expected| expected.get("ids")).and_then(Json::as_array) else {
        return Verdict::cannot_run("a row without `ids`");
    };
    same_ids(row, &request(row, false), wanted, |_| false, context)
}

/// What waits, if the setup that it goes on from is there.
pub(super) fn pending(row: &Object, op: &str, setups: &Setups) -> Verdict {
    match row.get("setup").and_then(Json::as_str) {
        Some(setup) if !setups.0.contains(setup) => {
            Verdict::cannot_run(format!("a row of the unknown setup `{setup}`"))
        }
        _ => pending::run(row, "renderers", op),
    }
}
