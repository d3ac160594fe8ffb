//! Runs vectors of reference systems through the public library. It knows operations, never particular vectors.

mod chatglm3;
mod chatglm3_reading;
mod hf_jinja;
mod ids;
mod internlm2;
mod keys;
mod labels;
mod lagent;
mod lagent_reading;
mod lmdeploy;
mod lmflow;
mod lmflow_jinja;
mod outputs;
mod reading;
mod runs;
mod xtuner;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use rolecall::json::Object;
use rolecall::{Conversation, Error, Json, Registry, Tokenizer, json, object, tokenizer};

use crate::{Report, Verdict};

/// Folders that vectors refer to; what needs one that is not there is skipped.
#[derive(Clone, Debug, Default)]
pub struct Folders {
    /// Tokenizers, a folder each.
    pub tokenizers: Option<PathBuf>,
    /// Chat templates, with their `index.json`.
    pub templates: Option<PathBuf>,
    /// Tables of the frameworks' own templates.
    pub facts: Option<PathBuf>,
}

/// What vectors are run with.
pub struct Context {
    /// The formats.
    pub registry: Registry,
    /// Where to find what the vectors name.
    pub folders: Folders,
    /// Only vectors whose id holds this text are run.
    pub only: Option<String>,
    loaded: HashMap<String, Option<Arc<dyn Tokenizer>>>,
    jinja: hf_jinja::Shared,
    jinja_presets: lmflow_jinja::Templates,
    replies: outputs::Replies,
}

impl Context {
    /// The built-in formats, and folders.
    pub fn new(folders: Folders) -> Context {
        Context {
            registry: rolecall::registry(),
            folders,
            only: None,
            loaded: HashMap::new(),
            jinja: hf_jinja::Shared::default(),
            jinja_presets: lmflow_jinja::Templates::default(),
            replies: outputs::Replies::default(),
        }
    }

    /// A tokenizer of the folder, loaded once.
    fn tokenizer(&mut self, name: &str) -> Option<Arc<dyn Tokenizer>> {
        let folder = self.folders.tokenizers.as_ref()?.join(name);
        let load = || tokenizer::load(&folder).ok().map(Arc::from);
        self.loaded.entry(name.to_owned()).or_insert_with(load).clone()
    }
}

/// Runs every vector of a file's text and counts the verdicts. A line that is not a vector is a failure.
pub fn run_file(text: &str, context: &mut Context, report: &mut Report) {
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        match json::parse(line) {
            Ok(Json::Object(row)) => run_row(&row, context, report),
            Ok(_) | Err(_) => {
                let found = "a line that is not a JSON object".to_owned();
                let verdict = Verdict::Failed { expected: "a vector".into(), found };
                report.add("unreadable", &format!("line {}", number + 1), verdict);
            }
        }
    }
}

fn run_row(row: &Object, context: &mut Context, report: &mut Report) {
    let kind = text(row, "kind");
    if matches!(kind, "meta" | "case") {
        return context.jinja.take(row);
    }
    let template = text(row, "template");
    let (system, op) = match kind {
        "golden" => ("hf_jinja", "render"),
        _ => (
            text(row, "system"),
            row.get("options").and_then(Json::as_object).map_or("encode", |options| text(options, "op")),
        ),
    };
    let op = if op.is_empty() { "encode" } else { op };
    let id = match kind {
        "golden" => format!("{template} {}", text(row, "case")),
        _ => text(row, "id").to_owned(),
    };
    if context.only.as_ref().is_some_and(|only| !id.contains(only.as_str())) {
        return;
    }
    let verdict = match system {
        "internlm2" => internlm2::run(row, op, context),
        "chatglm3" => chatglm3::run(row, op, context),
        "ids" => ids::run(row, context),
        "xtuner" => xtuner::run(row, op, context),
        "lmdeploy" => lmdeploy::run(row, op, context),
        "lmflow" if op.starts_with("jinja") => {
            lmflow_jinja::run(row, &mut context.jinja_presets, context.folders.facts.as_deref())
        }
        "lmflow" => lmflow::run(row, op, context),
        "hf_jinja" => hf_jinja::run(row, &mut context.jinja, context.folders.templates.as_deref()),
        "stability" => Verdict::Skipped("templates are not judged yet"),
        "outputs" => outputs::run(row, &mut context.replies, context.folders.templates.as_deref()),
        _ => Verdict::Failed { expected: "a known system".into(), found: format!("`{system}`") },
    };
    let model = if system == "ids" && template.is_empty() { text(row, "format") } else { template };
    report.add(&format!("{system} · {model} · {op}"), &id, verdict);
}

fn text<'a>(row: &'a Object, key: &str) -> &'a str {
    row.get(key).and_then(Json::as_str).unwrap_or_default()
}

/// The row's conversation, with more keys beside the messages.
fn conversation(row: &Object, more: Object) -> Result<Conversation, Error> {
    let mut request = object! { "messages" => row.get("conversation").cloned().unwrap_or(Json::Null) };
    for (key, value) in more.iter() {
        request.insert(key, value.clone());
    }
    read(request)
}

/// A conversation; one without messages is refused as a request and may be rendered all the same.
fn read(mut request: Object) -> Result<Conversation, Error> {
    let empty = request.get("messages").and_then(Json::as_array).is_some_and(<[Json]>::is_empty);
    if empty {
        let message = Json::Object(object! { "role" => "user", "content" => "" });
        request.insert("messages", Json::Array(vec![message]));
    }
    let mut conversation = Conversation::from_json(request.into())?;
    if empty {
        conversation.messages.clear();
    }
    Ok(conversation)
}

/// Whether the reference refuses what we refuse.
fn refusal(expected: &Object, result: Result<Verdict, Error>) -> Verdict {
    let refused = expected.get("error").is_some();
    match result {
        Ok(Verdict::Passed) if refused => {
            Verdict::Failed { expected: format!("a refusal: {}", text(expected, "message")), found: "a prompt".into() }
        }
        Ok(_) if refused => Verdict::Failed { expected: "a refusal".into(), found: "a prompt".into() },
        Ok(verdict) => verdict,
        Err(_) if refused => Verdict::Passed,
        Err(error) => Verdict::Failed { expected: "a prompt".into(), found: format!("a refusal: {error}") },
    }
}
