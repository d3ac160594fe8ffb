//! Reads `calls = "NAME"`: the layouts of a file in `formats/calls/`.

use std::collections::BTreeMap;
use std::ops::Range;

use super::table::Table;
use super::unknown;
use crate::shared_calls::SHARED_CALL_SLOTS;
use crate::{CallIds, Diagnostic, Slot, shared_calls};

/// The layouts and rules that a format takes from a shared file.
pub(super) struct SharedCalls {
    /// The file's name.
    pub name: String,
    /// The position at which the format names it.
    pub span: Range<usize>,
    /// The texts of the layouts.
    pub layouts: BTreeMap<Slot, String>,
    /// The markers in the layouts that are control tokens.
    pub marks: Vec<String>,
    /// The form of the call ids.
    pub call_ids: CallIds,
}

pub(super) fn read_shared(file: &Table<'_>, mistakes: &mut Vec<Diagnostic>) -> Option<SharedCalls> {
    let name = file.text("calls", mistakes)?;
    let span = file.span_of("calls");
    let Some((_, source)) = shared_calls().find(|(known, _)| *known == name) else {
        mistakes.push(unknown("shared call layout", &name, shared_calls().map(|(known, _)| known), span));
        return None;
    };
    // A test loads every shared file, so all of them are valid.
    let mut unheard = Vec::new();
    let shared = Table::of_file(source, &mut unheard)?;
    let texts = shared.table("layout", &mut unheard);
    let text = |slot: Slot, unheard: &mut Vec<Diagnostic>| Some((slot, texts.as_ref()?.text(slot.key(), unheard)?));
    let layouts = SHARED_CALL_SLOTS.into_iter().filter_map(|slot| text(slot, &mut unheard)).collect();
    let rules = shared.table("rules", &mut unheard);
    let call_ids = rules.and_then(|rules| CallIds::from_text(&rules.text("call-ids", &mut unheard)?));
    let marks = shared.table("control", &mut unheard).map(|controls| controls.keys()).unwrap_or_default();
    Some(SharedCalls { name, span, layouts, marks, call_ids: call_ids.unwrap_or_default() })
}
