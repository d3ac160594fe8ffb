use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use rolecall::Prompt;
use rolecall::conversation::Json;
use rolecall::conversation::json;
use rolecall::conversation::json::{Layout, Object};
use rolecall::encode::{Encoder, Protection};
use rolecall::format::{Control, ControlId};
use rolecall::render::{Run, Writer};
use rolecall::template::{ChatTemplate, DateTime, Forms, TemplateOptions};
use rolecall::tokenizer::Tokenizer;

use super::{Context, text};
use crate::Verdict;

/// The date of the vectors, which some templates write.
const MADE: DateTime = DateTime { year: 2026, month: 11, day: 21, hour: 12, minute: 34, second: 56, microsecond: 0 };

pub(super) fn run(row: &Object, context: &mut Context) -> Verdict {
    let Some(tokenizer) = context.tokenizer(text(row, "tokenizer")) else {
        return Verdict::cannot_run("tokenizer not found (--tokenizers DIR)");
    };
    let Some(segments) = row.get("segments").and_then(Json::as_array) else {
        return through_template(row, context, tokenizer);
    };
    let Some(format) = context.registry.get(text(row, "format")) else {
        return Verdict::cannot_run("format not found");
    };
    let Some(expected) = row.get("expected").and_then(Json::as_object) else {
        return Verdict::cannot_run("the row has no `expected` object");
    };
    let encoder = match Encoder::new(&Protection::default().with_format(format), tokenizer) {
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

/// Checks a conversation rendered by a template: all ids of an honest one, the control ids of a
/// hostile one, and the reference's ids for the hostile one.
fn through_template(row: &Object, context: &mut Context, tokenizer: Arc<dyn Tokenizer>) -> Verdict {
    let Some(folder) = context.folders.templates.as_deref() else {
        return Verdict::cannot_run("no folder of templates given (--templates DIR)");
    };
    let (template, prompt) = match render_through(row, folder) {
        Ok(both) => both,
        Err(error) => return Verdict::Failed { expected: "a prompt".into(), found: error },
    };
    let Some(expected) = row.get("expected").and_then(Json::as_object) else {
        return Verdict::cannot_run("the row has no `expected` object");
    };
    // A row lists the added tokens that may occur: the template's own, and those that are neither
    // flagged special nor written by it.
    let added: HashSet<u32> =
        tokenizer.added_tokens().iter().chain(&tokenizer.text_tokens()).map(|token| token.id).collect();
    let encoder = match Encoder::new(&Protection::default().with_template("template", &template), tokenizer) {
        Ok(encoder) => encoder,
        Err(error) => return Verdict::Failed { expected: "an encoder".into(), found: error.to_string() },
    };
    let encoded = match (encoder.encode(&prompt), encoder.encode_reference(&prompt)) {
        (Ok(safe), Ok(reference)) => (safe, reference),
        (Err(error), _) | (_, Err(error)) => {
            return Verdict::Failed { expected: "ids".into(), found: error.to_string() };
        }
    };
    let same = |wanted: &str, found: Vec<u32>| match expected.get(wanted) {
        None => Verdict::Passed,
        Some(wanted) => {
            let found = found.into_iter().map(|id| Json::from(i64::from(id))).collect();
            let written = |json: &Json| json::write(json, &Layout::default());
            Verdict::compare(&written(wanted), &written(&Json::Array(found)))
        }
    };
    let (safe, reference) = encoded;
    Verdict::compare(text(expected, "prompt"), prompt.text())
        .and(|| same("ids", safe.ids()))
        .and(|| same("control_ids", safe.ids().into_iter().filter(|id| added.contains(id)).collect()))
        .and(|| same("reference_ids", reference.ids()))
}

fn render_through(row: &Object, folder: &Path) -> Result<(ChatTemplate, Prompt), String> {
    let source = fs::read_to_string(folder.join(text(row, "template"))).map_err(|error| error.to_string())?;
    let token = |name: &str| Some((name.to_owned(), row.get(name)?.as_str()?.to_owned()));
    let tokens = ["bos_token", "eos_token"].into_iter().filter_map(token).collect();
    let template = ChatTemplate::compile(&source, tokens).map_err(|error| error.to_string())?;
    let mut request = row.get("options").and_then(Json::as_object).cloned().unwrap_or_default();
    request.insert("messages", row.get("conversation").cloned().unwrap_or(Json::Null));
    let conversation = super::read(request).map_err(|error| error.to_string())?;
    let options = TemplateOptions { now: Some(MADE), forms: Forms::AsGiven, ..TemplateOptions::default() };
    let prompt =
        Writer::template(template.clone(), options.clone()).render(&conversation).map_err(|error| error.to_string())?;
    Ok((template, prompt))
}

fn control_of(segment: &Object, controls: &[Control]) -> Option<ControlId> {
    let wanted = text(segment, "special");
    controls.iter().position(|control| control.texts().any(|text| text == wanted)).map(ControlId)
}
