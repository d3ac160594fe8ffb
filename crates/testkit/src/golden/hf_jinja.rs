//! Real chat templates, as transformers renders them.

use std::collections::HashMap;
use std::fs;
use std::ops::Range;
use std::path::Path;

use rolecall::json::Object;
use rolecall::{
    ChatTemplate, Conversation, DateTime, Error, Json, Prompt, TemplateOptions, json, object, render_template,
};

use super::{refusal, text};
use crate::Verdict;

const LOST: &str = "a generation block that nothing precedes is lost by the reference, and is not trained on";

/// What the vectors of one file share: the conversations, the clock, the templates.
#[derive(Default)]
pub(super) struct Shared {
    cases: HashMap<String, Object>,
    now: Option<DateTime>,
    /// By file name: the compiled template, or why there is none.
    templates: HashMap<String, Result<ChatTemplate, String>>,
    tokens: HashMap<String, Vec<(String, String)>>,
}

impl Shared {
    /// Takes a line that is no vector: the meta line, or a case.
    pub fn take(&mut self, row: &Object) {
        match text(row, "kind") {
            "meta" => self.now = text(row, "strftime_now").parse().ok(),
            _ => drop(self.cases.insert(text(row, "id").to_owned(), row.clone())),
        }
    }

    fn template(&mut self, folder: &Path, file: &str) -> &Result<ChatTemplate, String> {
        if self.tokens.is_empty() {
            self.tokens = read_index(folder);
        }
        let tokens = self.tokens.get(file).cloned().unwrap_or_default();
        self.templates.entry(file.to_owned()).or_insert_with(|| {
            let source = fs::read_to_string(folder.join(file)).map_err(|error| error.to_string())?;
            ChatTemplate::compile(&source, tokens).map_err(|error| error.to_string())
        })
    }
}

pub(super) fn run(row: &Object, shared: &mut Shared, folder: Option<&Path>) -> Verdict {
    let Some(folder) = folder else { return Verdict::Skipped("no templates were given (--templates)") };
    let now = shared.now;
    let Some(case) = shared.cases.get(text(row, "case")).cloned() else {
        return Verdict::Skipped("its case is not there");
    };
    let template = match shared.template(folder, text(row, "template")) {
        Ok(template) => template,
        Err(_) if row.get("error").is_some() => return Verdict::Passed,
        Err(why) => return Verdict::Failed { expected: "a template".into(), found: why.clone() },
    };
    let prompt = conversation(&case).and_then(|conversation| {
        Ok(render_template(&conversation, template, &TemplateOptions { now, ..TemplateOptions::default() })?)
    });
    let mut expected = Object::new();
    if let Some(error) = row.get("error") {
        expected.insert("error", error.clone());
    }
    refusal(&expected, prompt.map(|prompt| compare(&prompt, text(row, "output"), row.get("generation_spans"))))
}

/// Whether a prompt is the wanted text, with the wanted generation spans (in characters), if any are given.
pub(super) fn compare(prompt: &Prompt, wanted: &str, spans: Option<&Json>) -> Verdict {
    Verdict::compare(wanted, prompt.text()).and(|| match spans {
        Some(wanted) => {
            let points = |at: usize| prompt.text()[..at].chars().count() as i64;
            let pair = |span: &Range<usize>| [span.start, span.end].map(|at| Json::from(points(at))).to_vec();
            let spans_of = |spans: &[Range<usize>]| {
                written(&Json::Array(spans.iter().map(|span| Json::Array(pair(span))).collect()))
            };
            let wanted = written(&up_to(wanted, points(prompt.text().len())));
            if prompt.generated.first().is_some_and(|first| first.start == 0)
                && wanted == spans_of(&prompt.generated[1..])
            {
                return Verdict::Excused(LOST);
            }
            Verdict::compare(&wanted, &spans_of(&prompt.generated))
        }
        None => Verdict::Passed,
    })
}

/// Spans within a text of so many characters: where a prompt is cut inside the last message, the vectors' spans were
/// taken before.
fn up_to(spans: &Json, length: i64) -> Json {
    match spans {
        Json::Array(items) => Json::Array(items.iter().map(|item| up_to(item, length)).collect()),
        Json::Number(number) => Json::from(number.as_i64().unwrap_or_default().min(length)),
        other => other.clone(),
    }
}

fn written(json: &Json) -> String {
    json::write(json, &json::Layout::compact())
}

fn conversation(case: &Object) -> Result<Conversation, Error> {
    let mut request = object! { "messages" => case.get("messages").cloned().unwrap_or(Json::Null) };
    for key in ["tools", "documents", "add_generation_prompt", "continue_final_message"] {
        if let Some(value) = case.get(key).filter(|value| !value.is_null()) {
            request.insert(key, value.clone());
        }
    }
    if let Some(Json::Object(kwargs)) = case.get("kwargs") {
        request.insert("chat_template_kwargs", Json::Object(kwargs.clone()));
    }
    super::read(request)
}

fn read_index(folder: &Path) -> HashMap<String, Vec<(String, String)>> {
    let mut tokens = HashMap::new();
    let index = fs::read_to_string(folder.join("index.json")).ok().and_then(|text| json::parse(&text).ok());
    let Some(Json::Object(index)) = index else { return tokens };
    for entry in index.get("templates").and_then(Json::as_array).unwrap_or_default().iter().filter_map(Json::as_object)
    {
        let named = ["bos_token", "eos_token"]
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), entry.get(name)?.as_str()?.to_owned())));
        tokens.insert(text(entry, "file").to_owned(), named.collect());
    }
    tokens
}
