//! Runs vectors of reference systems through the public library. It implements operations and knows
//! no particular vector.

mod bridge;
mod chatglm3;
mod chatglm3_reading;
mod generation;
mod harmony;
mod harmony_reading;
mod harmony_shape;
mod hf_jinja;
mod ids;
mod internlm2;
mod kept_words;
mod keys;
mod labels;
mod lagent;
mod lagent_reading;
mod lmdeploy;
mod lmflow;
mod lmflow_jinja;
mod mistral;
mod mistral_reading;
mod native_reading;
mod outputs;
mod parity;
mod peer_outputs;
mod pending;
mod reading;
mod recipes;
mod renderers;
mod renderers_reading;
mod replies;
mod runs;
mod shape;
mod stability;
mod token_masks;
mod tokenizers;
mod train_masks;
mod trl;
mod xtuner;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rolecall::conversation::json::Object;
use rolecall::conversation::{Conversation, Json, json, object};
use rolecall::format::{Format, Registry};
use rolecall::tokenizer::Tokenizer;
use rolecall::{Error, tokenizer};

use crate::{Report, Verdict};

/// The folders that vectors refer to. A vector that needs a missing folder fails.
#[derive(Clone, Debug, Default)]
pub struct Folders {
    /// Tokenizers, one folder each.
    pub tokenizers: Option<PathBuf>,
    /// Chat templates and their `index.json`.
    pub templates: Option<PathBuf>,
    /// Tables of the frameworks' own templates.
    pub facts: Option<PathBuf>,
}

/// The context in which vectors run.
pub struct Context {
    /// The formats.
    pub registry: Registry,
    /// The folders that vectors refer to.
    pub folders: Folders,
    /// Runs only vectors whose id contains this text.
    pub only: Option<String>,
    loaded: HashMap<String, Option<Arc<dyn Tokenizer>>>,
    jinja: hf_jinja::Shared,
    jinja_presets: lmflow_jinja::Templates,
    peers: peer_outputs::Models,
    replies: outputs::Replies,
    recipes: recipes::Recipes,
    setups: renderers::Setups,
    id_replies: renderers_reading::Replies,
    reply_formats: replies::ReplyFormats,
    headers: harmony_reading::Replies,
    masked: train_masks::Models,
    bridges: bridge::Known,
}

impl Context {
    /// Creates a context of the built-in formats and these folders.
    pub fn new(folders: Folders) -> Context {
        Context {
            registry: rolecall::format::registry(),
            folders,
            only: None,
            loaded: HashMap::new(),
            jinja: hf_jinja::Shared::default(),
            jinja_presets: lmflow_jinja::Templates::default(),
            peers: peer_outputs::Models::default(),
            replies: outputs::Replies::default(),
            recipes: recipes::Recipes::default(),
            setups: renderers::Setups::default(),
            id_replies: renderers_reading::Replies::default(),
            reply_formats: replies::ReplyFormats::default(),
            headers: harmony_reading::Replies::default(),
            masked: train_masks::Models::default(),
            bridges: bridge::Known::default(),
        }
    }

    /// Returns a tokenizer of the folder, loaded once.
    fn tokenizer(&mut self, name: &str) -> Option<Arc<dyn Tokenizer>> {
        let folder = self.folders.tokenizers.as_ref()?.join(name);
        let load = || tokenizer::load(&folder).ok().map(Arc::from);
        self.loaded.entry(name.to_owned()).or_insert_with(load).clone()
    }
}

/// Runs the tokenizer folder and golden files, given by their names and contents, on some threads. The report lists
/// failures in the order of the files.
pub fn run(files: &[(&str, String)], folders: &Folders, only: Option<&str>, threads: usize) -> Report {
    // The longest first, so that no thread is left alone with it.
    let mut order: Vec<usize> = (0..files.len()).collect();
    order.sort_by_key(|number| std::cmp::Reverse(files[*number].1.len()));
    let (waiting, reports) = (Mutex::new(order.into_iter()), Mutex::new(BTreeMap::new()));
    let work = || {
        loop {
            let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(number) = next else { return };
            let (name, content) = &files[number];
            let mut context = Context::new(folders.clone());
            context.only = only.map(str::to_owned);
            let mut report = Report::new();
            run_file(name, content, &mut context, &mut report);
            reports.lock().unwrap_or_else(PoisonError::into_inner).insert(number, report);
        }
    };
    let mut report = Report::new();
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        run_tokenizers(&Context::new(folders.clone()), &mut report);
        work();
    });
    for found in reports.into_inner().unwrap_or_else(PoisonError::into_inner).into_values() {
        report.merge(found);
    }
    report
}

/// Loads every file of the tokenizer folder, even if no vector names it.
fn run_tokenizers(context: &Context, report: &mut Report) {
    if let Some(folder) = &context.folders.tokenizers {
        report.begin_file("tokenizers");
        tokenizers::run(folder, report);
    }
}

/// Runs every vector of a golden file and counts the verdicts. A line that is not a vector counts
/// as a failure.
fn run_file(name: &str, content: &str, context: &mut Context, report: &mut Report) {
    report.begin_file(name);
    let mut vectors = 0;
    let mut promised = None;
    let mut seen = HashSet::new();
    for (number, line) in content.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        match json::parse(line) {
            Ok(Json::Object(row)) if !seen.insert(identity(&row)) => {
                let id = text(&row, "id").to_owned();
                let verdict = Verdict::cannot_run("a duplicate row");
                report.add("unreadable", "", "row", &format!("{name}, line {}: {id}", number + 1), verdict);
            }
            Ok(Json::Object(row)) if is_stray(&row) => {
                let verdict = Verdict::cannot_run("a row with an expectation, but of a kind that has none");
                report.add("unreadable", "", "row", &format!("{name}, line {}", number + 1), verdict);
            }
            Ok(Json::Object(row)) if text(&row, "kind") == "meta" => {
                promised = row.get("rows").cloned();
                take_meta(&row, context);
            }
            Ok(Json::Object(row)) => {
                vectors += 1;
                run_row(&row, context, report);
            }
            Ok(_) | Err(_) => {
                let found = "a line that is not a JSON object".to_owned();
                let verdict = Verdict::Failed { expected: "a vector".into(), found };
                report.add("unreadable", "", "line", &format!("{name}, line {}", number + 1), verdict);
            }
        }
    }
    if vectors == 0 {
        report.add("unreadable", "", "file", name, Verdict::cannot_run("a file without vectors"));
    }
    if let Some(Json::Number(rows)) = promised {
        let verdict = Verdict::compare(rows.spelling(), &vectors.to_string());
        report.add("meta", name, "rows", name, verdict);
    }
}

/// Returns the text that identifies a row within its file.
fn identity(row: &Object) -> String {
    match text(row, "id") {
        "" => json::write(&Json::Object(row.clone()), &json::Layout::compact()),
        id => format!("{} {} {id}", text(row, "kind"), text(row, "op")),
    }
}

/// Reports whether a row has an expectation although its kind is never compared. A meta line may
/// name the system of its file.
fn is_stray(row: &Object) -> bool {
    let kind = text(row, "kind");
    let expects = matches!(row.get("expected"), Some(Json::Object(_)))
        || ["output", "error", "prompt_ids", "response"].iter().any(|key| row.get(key).is_some());
    match kind {
        "meta" => expects,
        "case" => expects || row.get("system").is_some(),
        _ => false,
    }
}

/// Stores the contents of a meta line, which the rows of its file share: the clock, and recipes for
/// tokenizers.
fn take_meta(row: &Object, context: &mut Context) {
    context.jinja.take_clock(row);
    if let Some(Json::Object(recipes)) = row.get("tokenizer_recipes") {
        context.recipes.take(recipes);
    }
}

fn run_row(row: &Object, context: &mut Context, report: &mut Report) {
    let kind = text(row, "kind");
    if kind == "case" {
        return context.jinja.take_case(row);
    }
    if kind == "setup" {
        context.setups.take(row);
    }
    let (system, op) = operation(row, kind);
    let model = ["template", "format", "family", "version"].map(|key| text(row, key));
    let model = model.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
    let id = match kind {
        "golden" => format!("{model} {}", text(row, "case")),
        _ => text(row, "id").to_owned(),
    };
    if context.only.as_ref().is_some_and(|only| !id.contains(only.as_str())) {
        return;
    }
    let model = match (model, forms_of(row, system, op)) {
        (model, None) => model.to_owned(),
        ("", Some(forms)) => format!("forms {forms}"),
        (model, Some(forms)) => format!("{model}, forms {forms}"),
    };
    let mut add = |op: &str, verdict| report.add(system, &model, op, &id, verdict);
    if let Some(verdict) = shape::check(row, system, op) {
        return add(op, verdict);
    }
    let verdict = match system {
        "internlm2" => internlm2::run(row, op, context),
        "chatglm3" => chatglm3::run(row, op, context),
        "ids" => ids::run(row, context),
        "xtuner" => xtuner::run(row, op, context),
        "lmdeploy" => lmdeploy::run(row, op, context),
        "lmflow" if matches!(op, "jinja" | "jinja preset") => {
            lmflow_jinja::run(row, &mut context.jinja_presets, context.folders.facts.as_deref())
        }
        "lmflow" => lmflow::run(row, op, context),
        "hf_jinja" => {
            if token_masks::concerns(row) {
                add("token mask", token_masks::run(row, context));
            }
            hf_jinja::run(row, &mut context.jinja, context.folders.templates.as_deref())
        }
        "stability" => stability::run(row, &mut context.jinja, context.folders.templates.as_deref()),
        "trl" if op == "prefix_preserving" => trl::run(row, context),
        "outputs" => outputs::run(row, &mut context.replies, context.folders.templates.as_deref()),
        "peer_outputs" => peer_outputs::run(row, &mut context.peers, context.folders.templates.as_deref()),
        "renderers" if op == "setup" => renderers::prompt_ids(row, context),
        "renderers" if op == "parse_ids" => renderers_reading::run(row, context),
        "renderers" => {
            if op == "train_mask" {
                add("ids", renderers::whole_ids(row, context));
            }
            match op {
                "train_mask" => train_masks::run(row, context),
                "bridge" => {
                    let (group, verdict) = bridge::run(row, context);
                    return add(group, verdict);
                }
                _ => renderers::pending(row, op, &context.setups),
            }
        }
        "harmony" if op == "harmony_parse" => harmony_reading::run(row, context),
        "harmony" => {
            if op == "harmony_render" {
                add("input shape", harmony_shape::run(row));
                if let Some(verdict) = harmony_shape::ids(row, context) {
                    add("ids of the input shape", verdict);
                }
            }
            if let Some(verdict) = harmony::template_ids(row, context).filter(|_| op == "harmony_render") {
                add("template ids", verdict);
            }
            pending::run(row, system, op)
        }
        "native" if op == "native_parse" => native_reading::run(row, context),
        "mistral" if op == "mistral_parse" => mistral_reading::run(row, context),
        "mistral" => {
            if let Some(verdict) = mistral::decoded(row, context) {
                add("decoded ids", verdict);
            }
            pending::run(row, system, op)
        }
        _ => pending::run(row, system, op),
    };
    add(op, verdict);
}

/// Returns the forms in which a chat template got the messages of a vector, or `None` if a format wrote it. Those of
/// transformers and of trainers pass them as they are given.
fn forms_of(row: &Object, system: &str, op: &str) -> Option<&'static str> {
    match system {
        "hf_jinja" | "stability" | "trl" | "harmony" | "mistral" => Some("as-given"),
        "ids" => row.get("segments").is_none().then_some("as-given"),
        "lmflow" | "chatglm3" => op.contains("jinja").then_some("as-given"),
        // Sessions.
        "renderers" => Some("as-wanted"),
        _ => None,
    }
}

/// Returns the system and the operation of a row. Rows that continue a setup omit the system.
fn operation<'a>(row: &'a Object, kind: &'a str) -> (&'a str, &'a str) {
    let system = match (kind, text(row, "system")) {
        ("golden", _) => "hf_jinja",
        (_, "") if row.get("setup").is_some() => "renderers",
        (_, system) => system,
    };
    let of_options = row.get("options").and_then(Json::as_object).map_or("", |options| text(options, "op"));
    let op = match kind {
        "golden" => "render",
        "" => [text(row, "op"), of_options].into_iter().find(|op| !op.is_empty()).unwrap_or(match system {
            "ids" => "encode",
            system => system,
        }),
        kind => kind,
    };
    (system, op)
}

/// Returns the format of this name, and the expected result and the options of a row. Returns a
/// failure if one of them is missing, or if the options have a key that is not in `read`.
fn parts_of<'a>(
    row: &'a Object,
    name: &str,
    read: &[&str],
    context: &'a Context,
) -> Result<(&'a Arc<Format>, &'a Object, Object), Verdict> {
    let format = context.registry.get(name).ok_or_else(|| Verdict::cannot_run(format!("no format `{name}`")))?;
    let expected = row.get("expected").and_then(Json::as_object);
    let expected = expected.ok_or_else(|| Verdict::cannot_run("the row has no `expected` object"))?;
    let options = row.get("options").and_then(Json::as_object).cloned().unwrap_or_default();
    match keys::unread(&options, read) {
        Some(failure) => Err(failure),
        None => Ok((format, expected, options)),
    }
}

fn text<'a>(row: &'a Object, key: &str) -> &'a str {
    row.get(key).and_then(Json::as_str).unwrap_or_default()
}

/// Returns the row's conversation with more keys in the request.
fn conversation(row: &Object, more: Object) -> Result<Conversation, Error> {
    let mut request = object! { "messages" => row.get("conversation").cloned().unwrap_or(Json::Null) };
    for (key, value) in more.iter() {
        request.insert(key, value.clone());
    }
    read(request)
}

/// Parses a conversation. One without messages is refused as a request, but can still be rendered.
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

/// Compares our refusal with the reference's.
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
