//! The framework's Jinja templates: its presets, and those printed in its document.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use rolecall::Error;
use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, json, object};
use rolecall::render::Writer;
use rolecall::template::{ChatTemplate, Forms, Nulls, TemplateOptions};

use super::{hf_jinja, refusal, text};
use crate::Verdict;

const NO_MESSAGE: &str = "a message without a role, or whose content is a number, is refused";

/// The templates of the facts file by the vectors' names for them, read on first use.
#[derive(Default)]
pub(super) struct Templates {
    sources: Option<HashMap<String, String>>,
}

impl Templates {
    fn source(&mut self, folder: &Path, name: &str) -> Option<&str> {
        self.sources.get_or_insert_with(|| read(folder)).get(name).map(String::as_str)
    }
}

pub(super) fn run(row: &Object, templates: &mut Templates, folder: Option<&Path>) -> Verdict {
    let name = text(row, "template");
    let Some(source) = folder.and_then(|folder| templates.source(folder, name)) else {
        return Verdict::cannot_run("template not found (--facts DIR)");
    };
    let (Some(expected), Some(options)) =
        (row.get("expected").and_then(Json::as_object), row.get("options").and_then(Json::as_object))
    else {
        return Verdict::cannot_run("the row has no `expected` or no `options` object");
    };
    match prompt(row, options, source) {
        Err(Error::Request(_)) if expected.get("error").is_none() && has_no_message(row) => {
            Verdict::Excused(NO_MESSAGE)
        }
        prompt => refusal(
            expected,
            prompt.map(|prompt| {
                hf_jinja::compare(&prompt, text(expected, "text"), expected.get("generation_spans_chars"))
            }),
        ),
    }
}

/// Reports whether a message has no role, or a number as its content.
fn has_no_message(row: &Object) -> bool {
    let messages = row.get("conversation").and_then(Json::as_array).unwrap_or_default();
    messages.iter().filter_map(Json::as_object).any(|message| {
        message.get("role").and_then(Json::as_str).is_none() || matches!(message.get("content"), Some(Json::Number(_)))
    })
}

fn prompt(row: &Object, options: &Object, source: &str) -> Result<rolecall::Prompt, Error> {
    let mut request = object! { "messages" => row.get("conversation").cloned().unwrap_or(Json::Null) };
    if let Some(tools) = row.get("tools").filter(|tools| !tools.is_null()) {
        request.insert("tools", tools.clone());
    }
    // Some vectors leave `add_generation_prompt` undefined. transformers never does: it passes
    // false.
    let opens = options.get("add_generation_prompt").and_then(Json::as_bool).unwrap_or(false);
    request.insert("add_generation_prompt", Json::from(opens));
    let conversation = super::read(request)?;
    let tokens = ["bos_token", "eos_token"].map(|name| (name.to_owned(), text(options, name).to_owned()));
    let template = ChatTemplate::compile(source, tokens.to_vec())?;
    // The vectors were made by a transformers that passes nulls to templates.
    let options = TemplateOptions { nulls: Nulls::Kept, forms: Forms::AsGiven, ..TemplateOptions::default() };
    Ok(Writer::template(template.clone(), options.clone()).render(&conversation)?)
}

fn read(folder: &Path) -> HashMap<String, String> {
    let facts = fs::read_to_string(folder.join("lmflow_templates.json")).ok().and_then(|text| json::parse(&text).ok());
    let Some(Json::Object(facts)) = facts else { return HashMap::new() };
    let table = |key: &str| facts.get(key).and_then(Json::as_object).cloned().unwrap_or_default();
    let printed = table("seed_document_jinja");
    let printed = printed.iter().filter_map(|(name, entry)| {
        let name = if name.contains(':') { name.to_owned() } else { format!("jinja:{name}") };
        Some((name, entry.as_object()?.get("template")?.as_str()?.to_owned()))
    });
    let presets = table("jinja_presets");
    let presets = presets.iter().filter_map(|(name, source)| Some((name.to_owned(), source.as_str()?.to_owned())));
    printed.chain(presets).collect()
}
