//! Reads from `[reading]` how a family's models deviate from their layouts.

use super::header::read_header;
use super::table::Table;
use super::unknown;
use crate::{CallsInReasoning, Diagnostic, Habits};

pub(super) fn read_habits(reading: &Table<'_>, mistakes: &mut Vec<Diagnostic>) -> Habits {
    let calls_in_reasoning = reading.text("calls-in-reasoning", mistakes).and_then(|key| {
        let value = CallsInReasoning::from_key(&key);
        if value.is_none() {
            let known = CallsInReasoning::ALL.map(|(key, _)| key);
            let span = reading.span_of("calls-in-reasoning");
            mistakes.push(unknown("value of `calls-in-reasoning`", &key, known, span));
        }
        value
    });
    let calls_in_reasoning = calls_in_reasoning.unwrap_or_default();
    let header = reading.table("header", mistakes).map(|table| read_header(table, mistakes));
    Habits {
        call_marks: reading.texts("call-marks", mistakes),
        other_marks: reading.texts("other-marks", mistakes),
        may_omit: reading.texts("may-omit", mistakes),
        trims: reading.boolean("trims", mistakes),
        calls_in_reasoning,
        header,
    }
}
