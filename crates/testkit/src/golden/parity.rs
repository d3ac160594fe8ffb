//! The ids of a conversation rendered by a template, where the reference encodes the prompt as a
//! whole.

use std::ops::Range;
use std::sync::Arc;

use rolecall::Prompt;
use rolecall::conversation::json::{Layout, Object};
use rolecall::conversation::{Json, json, object};
use rolecall::encode::{Encoder, Protection};
use rolecall::render::Writer;
use rolecall::template::{ChatTemplate, Forms, TemplateOptions};
use rolecall::tokenizer::Tokenizer;

use super::{Context, text};
use crate::Verdict;

/// Checks that a row's conversation gives the expected ids with each of its templates. An expected
/// tail that `exempt` accepts may follow.
pub(super) fn same_ids(
    row: &Object,
    conversation: &Object,
    wanted: &[Json],
    exempt: impl Fn(&str) -> bool,
    context: &mut Context,
) -> Verdict {
    let tokenizer = match context.recipes.tokenizer(text(row, "tokenizer"), context.folders.tokenizers.as_deref()) {
        Ok(tokenizer) => tokenizer,
        Err(why) => return Verdict::cannot_run(why),
    };
    let templates = row.get("templates").and_then(Json::as_array).unwrap_or_default();
    let tokens = ["bos_token", "eos_token"]
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), row.get(name)?.as_str()?.to_owned())))
        .collect::<Vec<_>>();
    if templates.is_empty() {
        return Verdict::cannot_run("the row names no template");
    }
    for template in templates.iter().filter_map(Json::as_str) {
        let (template, prompt) = match render(template, &tokens, conversation, context) {
            Ok(both) => both,
            Err(why) => return Verdict::Failed { expected: "a prompt from every template".into(), found: why },
        };
        let found = match ids_of(&prompt, &template, &tokenizer) {
            Ok(found) => found,
            Err(why) => return Verdict::Failed { expected: "ids".into(), found: why },
        };
        let tail = wanted.get(found.len()..).filter(|tail| !tail.is_empty()).map(|tail| texts(tail, &*tokenizer));
        let wanted = match tail {
            Some(tail) if exempt(&tail) => &wanted[..found.len()],
            _ => wanted,
        };
        let verdict = Verdict::compare(&written(wanted), &written(&found));
        if verdict != Verdict::Passed {
            return verdict;
        }
    }
    Verdict::Passed
}

/// Renders a conversation with a template of the folder.
fn render(
    template: &str,
    tokens: &[(String, String)],
    conversation: &Object,
    context: &mut Context,
) -> Result<(Arc<ChatTemplate>, Prompt), String> {
    let folder = context.folders.templates.clone().ok_or("no folder of templates (--templates)")?;
    let now = context.jinja.now();
    let template = context.jinja.template_with(&folder, template, tokens)?;
    let conversation = super::read(conversation.clone()).map_err(|error| error.to_string())?;
    let options = TemplateOptions { now, forms: Forms::AsGiven, ..TemplateOptions::default() };
    let prompt =
        Writer::template(template.clone(), options.clone()).render(&conversation).map_err(|error| error.to_string())?;
    Ok((template, prompt))
}

/// Returns the ids of a prompt as the reference encodes it.
fn ids_of(prompt: &Prompt, template: &ChatTemplate, tokenizer: &Arc<dyn Tokenizer>) -> Result<Vec<Json>, String> {
    let protection = Protection::default().with_template("template", template);
    let encoder = Encoder::new(&protection, Arc::clone(tokenizer)).map_err(|error| error.to_string())?;
    let reference = encoder.encode_reference(prompt).map_err(|error| error.to_string())?;
    Ok(reference.ids().into_iter().map(|id| Json::from(i64::from(id))).collect())
}

/// Returns a request for a row's conversation, tools and switches.
pub(super) fn request(row: &Object, add_generation_prompt: bool) -> Object {
    let mut request = object! {
        "messages" => row.get("conversation").cloned().unwrap_or(Json::Null),
        "add_generation_prompt" => add_generation_prompt,
    };
    for (key, name) in [("tools", "tools"), ("options", "chat_template_kwargs")] {
        if let Some(value) = row.get(key).filter(|value| !value.is_null()) {
            request.insert(name, value.clone());
        }
    }
    request
}

/// Returns a mask from its runs `[start, end)`.
pub(super) fn mask(runs: Option<&Json>, count: usize) -> Vec<bool> {
    let mut mask = vec![false; count];
    for run in runs.and_then(Json::as_array).unwrap_or_default() {
        if let Some(run) = range(run).and_then(|range| mask.get_mut(range)) {
            run.fill(true);
        }
    }
    mask
}

/// Reads a run `[start, end)`.
pub(super) fn range(run: &Json) -> Option<Range<usize>> {
    let [Json::Number(start), Json::Number(end)] = run.as_array()? else { return None };
    Some(usize::try_from(start.as_i64()?).ok()?..usize::try_from(end.as_i64()?).ok()?)
}

fn texts(ids: &[Json], tokenizer: &dyn Tokenizer) -> String {
    let id = |id: &Json| match id {
        Json::Number(number) => tokenizer.token_text(u32::try_from(number.as_i64()?).ok()?),
        _ => None,
    };
    ids.iter().filter_map(id).collect()
}

pub(super) fn written(ids: &[Json]) -> String {
    json::write(&Json::Array(ids.to_vec()), &Layout::default())
}
