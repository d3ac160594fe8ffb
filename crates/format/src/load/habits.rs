//! Reads of `[reading]` what a family's models write otherwise than their layouts.

use super::table::Table;
use super::unknown;
use crate::{Diagnostic, Habits};

pub(super) fn read_habits(reading: &Table<'_>, mistakes: &mut Vec<Diagnostic>) -> Habits {
    let calls_in_reasoning = match reading.text("calls-in-reasoning", mistakes).as_deref() {
        None | Some("draft") => false,
        Some("call") => true,
        Some(other) => {
            let span = reading.span_of("calls-in-reasoning");
            mistakes.push(unknown("value of `calls-in-reasoning`", other, ["draft", "call"], span));
            false
        }
    };
    Habits { call_marks: reading.texts("call-marks", mistakes), calls_in_reasoning }
}
