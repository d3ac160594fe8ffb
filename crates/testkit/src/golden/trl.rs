//! A trainer's checks of chat templates: whether a tool result keeps the prompt before it, whether
//! the token that ends a reply is trained, whether the template marks replies, and whether it
//! writes calls and results. The conversations are the trainer's own; the answers are the
//! library's.

use std::sync::Arc;

use rolecall::conversation::json::{Layout, Object};
use rolecall::conversation::{Conversation, Json, json, object};
use rolecall::encode::{Decoder, Encoded, Encoder, Protection};
use rolecall::loss::overlapping;
use rolecall::render::{Dropped, Error as RenderError, Writer};
use rolecall::stability::{KeptIds, compare};
use rolecall::template::{ChatTemplate, Forms, TemplateOptions, jinja, left_out};
use rolecall::tokenizer::Tokenizer;
use rolecall::{Error, Prompt};

use super::{Context, text};
use crate::Verdict;

/// The checks.
const PREFIX: &str = "is_chat_template_prefix_preserving";
const STOP: &str = "is_chat_template_stop_token_trained";
const MARKERS: &str = "has_generation_markers";
const CALLS: &str = "supports_tool_calling";
/// The answer of a check that raises an error.
const ERROR: &str = "an error";

/// The dummy conversations, with `ARGUMENTS` where the arguments of the call are.
const CALLED: &str = r#"[{"role": "user", "content": "dummy"}, {"role": "assistant", "content": "", "tool_calls":
    [{"type": "function", "function": {"name": "dummy", "arguments": ARGUMENTS}}]}]"#;
const ANSWERED: &str = r#"[{"role": "user", "content": "dummy"}, {"role": "assistant", "content": "", "tool_calls":
    [{"type": "function", "function": {"name": "dummy", "arguments": ARGUMENTS}}]},
    {"role": "tool", "name": "dummy", "content": "dummy"}]"#;
const EXCHANGE: &str = r#"[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "", "tool_calls":
    [{"type": "function", "function": {"name": "tool_name_a8f3e2b1", "arguments": ARGUMENTS}}]},
    {"role": "tool", "name": "tool_name_a8f3e2b1", "content": "tool_content_c4f9a8e2"}]"#;
const REPLY: &str = r#"[{"role": "user", "content": "dummy"}, {"role": "assistant", "content": "dummy"},
    {"role": "user", "content": "dummy"}]"#;

/// The arguments of a call, as an object and as JSON text.
const NONE: [&str; 2] = ["{}", r#""{}""#];
const ONE: [&str; 2] = [
    r#"{"tool_arg_key_b9d4f5c2": "tool_arg_val_d6e7a9f3"}"#,
    r#""{\"tool_arg_key_b9d4f5c2\": \"tool_arg_val_d6e7a9f3\"}""#,
];

/// A template with the tokenizer of its row.
struct Checked {
    template: Arc<ChatTemplate>,
    tokenizer: Arc<dyn Tokenizer>,
    encoder: Encoder,
    options: TemplateOptions,
}

pub(super) fn run(row: &Object, context: &mut Context) -> Verdict {
    let Some(Json::Object(expected)) = row.get("expected") else {
        return Verdict::cannot_run("the row has no `expected` object");
    };
    let found = match open(row, context) {
        Ok(Ok(checked)) => object! {
            PREFIX => said(checked.keeps_prefix()),
            STOP => Json::from(checked.trains_the_end()),
            MARKERS => Json::from(checked.template.has_generation_blocks()),
            CALLS => said(checked.writes_calls()),
        },
        // The reference finds markers in a template that it cannot compile, too.
        Ok(Err(_)) => object! {
            PREFIX => Json::from(ERROR), STOP => false,
            MARKERS => expected.get(MARKERS).cloned().unwrap_or(Json::Null), CALLS => false,
        },
        Err(why) => return Verdict::cannot_run(why),
    };
    // An error is compared as such: its words are another engine's.
    let expected: Object = expected.iter().map(|(key, value)| (key.to_owned(), without_words(value))).collect();
    let written = |object: Object| json::write(&Json::Object(object), &Layout::default());
    Verdict::compare(&written(expected), &written(found))
}

/// Returns the template of a row, or the error if it does not compile.
fn open(row: &Object, context: &mut Context) -> Result<Result<Checked, String>, String> {
    let tokenizer = context.recipes.tokenizer(text(row, "tokenizer"), context.folders.tokenizers.as_deref())?;
    let folder = context.folders.templates.clone().ok_or("no folder of templates (--templates)")?;
    let tokens: Vec<(String, String)> = ["bos_token", "eos_token"]
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), row.get(name)?.as_str()?.to_owned())))
        .collect();
    let file = text(row, "template");
    if !folder.join(file).is_file() {
        return Err(format!("no template `{file}`"));
    }
    let template = match context.jinja.template_with(&folder, file, &tokens) {
        Ok(template) => template,
        Err(why) => return Ok(Err(why)),
    };
    let protection = Protection::default().with_template("template", &template);
    let encoder = Encoder::new(&protection, Arc::clone(&tokenizer)).map_err(|error| error.to_string())?;
    let options =
        TemplateOptions { now: Some(context.jinja.usual_now()), forms: Forms::AsGiven, ..TemplateOptions::default() };
    Ok(Ok(Checked { template, tokenizer, encoder, options }))
}

impl Checked {
    /// Compares the prompt of a call with that of the call and its result, which ends with a
    /// generation prompt.
    fn keeps_prefix(&self) -> Result<bool, RenderError> {
        let keeps = |arguments: &str| {
            let earlier = self.render(CALLED, arguments, false)?.1;
            let later = self.render(ANSWERED, arguments, true)?.1;
            let mut kept = compare(&earlier, &later);
            if let (Ok(a), Ok(b)) = (self.encode(&earlier), self.encode(&later)) {
                kept.ids = Some(KeptIds::compare(&a.ids(), &b.ids()));
            }
            Ok(kept.lost_ids() == Some(0))
        };
        in_text_if_refused(NONE, keeps)
    }

    /// Reports whether the call, its arguments and the result are in the prompt.
    fn writes_calls(&self) -> Result<bool, RenderError> {
        let writes = |arguments: &str| {
            let (conversation, prompt) = self.render(EXCHANGE, arguments, false)?;
            let is_asked = |dropped: &Dropped| dropped.place.message != Some(0);
            Ok(!left_out(&conversation, &prompt).iter().any(is_asked))
        };
        match in_text_if_refused(ONE, writes) {
            // The reference takes the template's own error for an answer.
            Err(error) if !is_python_error(&error) => Ok(false),
            other => other,
        }
    }

    /// Reports whether the last marked token that is not blank is an added token.
    fn trains_the_end(&self) -> bool {
        let Ok((_, prompt)) = self.render(REPLY, "", false) else { return false };
        let Ok(encoded) = self.encode(&prompt) else { return false };
        let decoder = Decoder::new(Arc::clone(&self.tokenizer));
        let is_blank =
            |id: u32| decoder.decode(&[id]).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).trim().is_empty());
        let masked = overlapping(&encoded.tokens, &prompt.generated);
        let marked = encoded.tokens.iter().zip(masked).filter(|(_, is_masked)| *is_masked).map(|(token, _)| token.id);
        let mut ids = marked.rev().filter(|id| !is_blank(*id));
        ids.next().is_some_and(|id| self.tokenizer.added_tokens().iter().any(|token| token.id == id))
    }

    fn render(&self, messages: &str, arguments: &str, opened: bool) -> Result<(Conversation, Prompt), RenderError> {
        let request = format!(
            r#"{{"messages": {}, "add_generation_prompt": {opened}}}"#,
            messages.replace("ARGUMENTS", arguments)
        );
        let request = json::parse(&request).expect("the conversations above are JSON");
        let conversation = Conversation::from_json(request).expect("the conversations above are valid");
        let prompt = Writer::template(self.template.clone(), self.options.clone()).render(&conversation)?;
        Ok((conversation, prompt))
    }

    /// Encodes a prompt as a whole, as the reference does.
    fn encode(&self, prompt: &Prompt) -> Result<Encoded, Error> {
        Ok(self.encoder.encode_reference(prompt)?)
    }
}

/// Calls a check with the arguments as an object, and again with their JSON text if the template
/// raises a type error.
fn in_text_if_refused<T>(
    arguments: [&str; 2],
    check: impl Fn(&str) -> Result<T, RenderError>,
) -> Result<T, RenderError> {
    match check(arguments[0]) {
        Err(error) if is_type_error(&error) => check(arguments[1]),
        other => other,
    }
}

/// Reports whether the reference raises one of Python's own errors, and not one of jinja2's.
fn is_python_error(error: &RenderError) -> bool {
    is_type_error(error) || is_of_kind(error, |kind| kind == jinja::ErrorKind::Value)
}

/// Reports whether the reference raises Python's `TypeError`.
fn is_type_error(error: &RenderError) -> bool {
    // jinja2 raises its own error where a value of the wrong type is assigned to.
    let is_own = |error: &jinja::Error| error.message().starts_with("cannot assign attribute");
    is_of_kind(error, |kind| kind == jinja::ErrorKind::Type)
        && !matches!(error, RenderError::Template { error, .. } if is_own(error))
}

fn is_of_kind(error: &RenderError, is: impl Fn(jinja::ErrorKind) -> bool) -> bool {
    matches!(error, RenderError::Template { error, .. } if is(error.kind()))
}

fn said(answer: Result<bool, RenderError>) -> Json {
    answer.map_or_else(|_| Json::from(ERROR), Json::from)
}

fn without_words(value: &Json) -> Json {
    match value {
        Json::Object(_) => Json::from(ERROR),
        other => other.clone(),
    }
}
