use std::sync::Arc;

use rolecall::json::{self, Layout, Object};
use rolecall::{Control, ControlId, Encoder, Json, Run};

use super::{Context, text};
use crate::Verdict;

pub(super) fn run(row: &Object, context: &mut Context) -> Verdict {
    let Some(segments) = row.get("segments").and_then(Json::as_array) else {
        return Verdict::Skipped("the template engine is not there yet");
    };
    let Some(tokenizer) = context.tokenizer(text(row, "tokenizer")) else {
        return Verdict::Skipped("the tokenizer is not there (--tokenizers DIR)");
    };
    let Some(format) = context.registry.get(text(row, "format")) else {
        return Verdict::Skipped("the format is not there");
    };
    let Some(expected) = row.get("expected").and_then(Json::as_object) else {
        return Verdict::Skipped("the vector expects nothing");
    };
    let encoder = match Encoder::new(Arc::clone(&format.controls), tokenizer) {
        Ok(encoder) => encoder,
        Err(error) => return Verdict::Failed { expected: "an encoder".into(), found: error.to_string() },
    };
    let mut runs = Vec::with_capacity(segments.len());
    for segment in segments.iter().filter_map(Json::as_object) {
        match (segment.get("special"), control_of(segment, &format.controls)) {
            (None, _) => runs.push(Run::Text { text: text(segment, "text"), start: 0 }),
            (Some(_), Some(id)) => runs.push(Run::Control { text: text(segment, "special"), id, start: 0 }),
            (Some(found), None) => {
                let found = json::write(found, &Layout::default());
                return Verdict::Failed { expected: "a control token of the format".into(), found };
            }
        }
    }
    match encoder.encode_runs(runs) {
        Ok(encoded) => {
            let found = encoded.ids().into_iter().map(|id| Json::from(i64::from(id))).collect();
            let wanted = expected.get("ids").cloned().unwrap_or(Json::Null);
            Verdict::compare(
                &json::write(&wanted, &Layout::default()),
                &json::write(&Json::Array(found), &Layout::default()),
            )
        }
        Err(error) => Verdict::Failed { expected: "ids".into(), found: error.to_string() },
    }
}

fn control_of(segment: &Object, controls: &[Control]) -> Option<ControlId> {
    let wanted = text(segment, "special");
    controls.iter().position(|control| control.texts().any(|text| text == wanted)).map(ControlId)
}
