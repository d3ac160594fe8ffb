//! Real chat templates, rendered as transformers does.

use std::collections::HashMap;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use rolecall::conversation::json::Object;
use rolecall::conversation::{Conversation, Json, json, object};
use rolecall::render::Writer;
use rolecall::template::{ChatTemplate, DateTime, Forms, Nulls, TemplateOptions};
use rolecall::{Error, Prompt};

use super::{refusal, text};
use crate::Verdict;

const LOST: &str = "the reference loses a generation block at the start of the text, so it carries no loss";

/// The state that the vectors of one file share: conversations, clock and templates.
#[derive(Default)]
pub(super) struct Shared {
    cases: HashMap<String, Object>,
    now: Option<DateTime>,
    /// By file name: the compiled template, or the reason why there is none.
    templates: HashMap<String, Result<ChatTemplate, NoTemplate>>,
    tokens: HashMap<String, Vec<(String, String)>>,
    /// The compiled templates by file name and special tokens of a row.
    with_tokens: HashMap<TemplateKey, Result<Arc<ChatTemplate>, String>>,
}

/// The reason why there is no template.
enum NoTemplate {
    /// The file cannot be read, so nothing can be compared.
    Missing(String),
    /// The template does not compile, possibly in the reference too.
    Broken(String),
}

type TemplateKey = (String, Vec<(String, String)>);

impl Shared {
    /// Stores the clock of a meta line.
    pub fn take_clock(&mut self, meta: &Object) {
        if let Some(now) = meta.get("strftime_now").and_then(Json::as_str) {
            self.now = now.parse().ok();
        }
    }

    /// Stores a conversation that later rows name.
    pub fn take_case(&mut self, row: &Object) {
        self.cases.insert(text(row, "id").to_owned(), row.clone());
    }

    /// Returns the clock of the last meta line.
    pub fn now(&self) -> Option<DateTime> {
        self.now
    }

    /// Returns the clock of the last meta line, or the one that all files of this reference have.
    pub fn usual_now(&self) -> DateTime {
        let usual = DateTime { year: 2026, month: 11, day: 21, hour: 12, minute: 34, second: 56, microsecond: 0 };
        self.now.unwrap_or(usual)
    }

    /// Returns a template of the folder, compiled with the special tokens of the folder's index.
    pub fn template_of_index(&mut self, folder: &Path, file: &str) -> Result<ChatTemplate, String> {
        match self.template(folder, file) {
            Ok(template) => Ok(template.clone()),
            Err(NoTemplate::Broken(why) | NoTemplate::Missing(why)) => Err(why.clone()),
        }
    }

    /// Returns a template of the folder, compiled with the special tokens of a row.
    pub fn template_with(
        &mut self,
        folder: &Path,
        file: &str,
        tokens: &[(String, String)],
    ) -> Result<Arc<ChatTemplate>, String> {
        let key = (file.to_owned(), tokens.to_vec());
        let compile = || {
            let source = fs::read_to_string(folder.join(file)).map_err(|error| error.to_string())?;
            ChatTemplate::compile(&source, tokens.to_vec()).map(Arc::new).map_err(|error| error.to_string())
        };
        self.with_tokens.entry(key).or_insert_with(compile).clone()
    }

    fn template(&mut self, folder: &Path, file: &str) -> &Result<ChatTemplate, NoTemplate> {
        if self.tokens.is_empty() {
            self.tokens = read_index(folder);
        }
        let tokens = self.tokens.get(file).cloned().unwrap_or_default();
        self.templates.entry(file.to_owned()).or_insert_with(|| {
            let source = fs::read_to_string(folder.join(file))
                .map_err(|error| NoTemplate::Missing(format!("{file}: {error}")))?;
            ChatTemplate::compile(&source, tokens).map_err(|error| NoTemplate::Broken(error.to_string()))
        })
    }
}

/// The tag that the reference appends to the last message's text to find where to cut a prompt that
/// continues this message.
const CONTINUED: &str = "CONTINUE_FINAL_MESSAGE_TAG ";

pub(super) fn run(row: &Object, shared: &mut Shared, folder: Option<&Path>) -> Verdict {
    let mut expected = Object::new();
    if let Some(error) = row.get("error") {
        expected.insert("error", error.clone());
    }
    // The rows come from `render_jinja_template`, which drops no keys.
    match shared.render(row, Nulls::Kept, folder) {
        Err(verdict) => verdict,
        Ok(prompt) => refusal(
            &expected,
            prompt.map(|Rendered { prompt, uncut, .. }| {
                let wanted = row.get("generation_spans");
                match uncut {
                    None => compare(&prompt, text(row, "output"), wanted),
                    // The reference computes the spans of a continued message before it cuts the
                    // text; ours end with the prompt.
                    Some(uncut) => compare_spans(&uncut, wanted).and(|| {
                        let length = prompt.text().chars().count() as i64;
                        compare(&prompt, text(row, "output"), wanted.map(|spans| up_to(spans, length)).as_ref())
                    }),
                }
            }),
        ),
    }
}

/// The prompt of a row.
pub(super) struct Rendered {
    pub template: ChatTemplate,
    pub prompt: Prompt,
    pub conversation: Conversation,
    pub now: Option<DateTime>,
    /// For a prompt that continues its last message, the rendering that the reference cuts.
    pub uncut: Option<Prompt>,
}

impl Shared {
    /// Renders a row's conversation with its template, or returns the verdict on a row that has no
    /// prompt.
    pub(super) fn render(
        &mut self,
        row: &Object,
        nulls: Nulls,
        folder: Option<&Path>,
    ) -> Result<Result<Rendered, Error>, Verdict> {
        let folder = folder.ok_or_else(|| Verdict::cannot_run("no folder of templates given (--templates DIR)"))?;
        let now = self.now;
        let case = self.cases.get(text(row, "case")).cloned();
        let case = case.ok_or_else(|| Verdict::cannot_run("the row names an unknown case"))?;
        let template = match self.template(folder, text(row, "template")) {
            Ok(template) => template,
            Err(NoTemplate::Broken(_)) if row.get("error").is_some() => return Err(Verdict::Passed),
            Err(NoTemplate::Broken(why) | NoTemplate::Missing(why)) => {
                return Err(Verdict::Failed { expected: "a template".into(), found: why.clone() });
            }
        };
        let write = |case: &Object| -> Result<Prompt, Error> {
            let options = TemplateOptions { now, nulls, forms: Forms::AsGiven, ..TemplateOptions::default() };
            Ok(Writer::template(template.clone(), options.clone()).render(&conversation(case)?)?)
        };
        Ok(write(&case).and_then(|prompt| {
            let uncut = tagged(&case).map(|tagged| write(&tagged)).transpose()?;
            Ok(Rendered { template: template.clone(), prompt, conversation: conversation(&case)?, now, uncut })
        }))
    }
}

/// Returns a case that continues its last message as the reference renders it: closed, with a tag
/// after the message's text.
fn tagged(case: &Object) -> Option<Object> {
    let continued = case.get("continue_final_message").and_then(Json::as_bool) == Some(true);
    let mut case = case.clone();
    let Some(Json::Array(messages)) = case.get_mut("messages").filter(|_| continued) else { return None };
    let Some(Json::Object(last)) = messages.last_mut() else { return None };
    let Some(Json::String(content)) = last.get_mut("content") else { return None };
    content.push_str(CONTINUED);
    case.insert("continue_final_message", Json::from(false));
    Some(case)
}

/// Checks that a prompt has the expected text and the expected generation spans (in characters), if
/// any are given.
pub(super) fn compare(prompt: &Prompt, wanted: &str, spans: Option<&Json>) -> Verdict {
    Verdict::compare(wanted, prompt.text()).and(|| compare_spans(prompt, spans))
}

/// Checks that a prompt has the expected generation spans, if any are given.
fn compare_spans(prompt: &Prompt, wanted: Option<&Json>) -> Verdict {
    let Some(wanted) = wanted else { return Verdict::Passed };
    let points = |at: usize| prompt.text()[..at].chars().count() as i64;
    let pair = |span: &Range<usize>| [span.start, span.end].map(|at| Json::from(points(at))).to_vec();
    let spans_of =
        |spans: &[Range<usize>]| written(&Json::Array(spans.iter().map(|span| Json::Array(pair(span))).collect()));
    let wanted = written(wanted);
    if prompt.generated.first().is_some_and(|first| first.start == 0) && wanted == spans_of(&prompt.generated[1..]) {
        return Verdict::Excused(LOST);
    }
    Verdict::compare(&wanted, &spans_of(&prompt.generated))
}

/// Limits spans to a text of `length` characters.
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

/// Returns the special tokens by template.
pub(super) fn read_index(folder: &Path) -> HashMap<String, Vec<(String, String)>> {
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
