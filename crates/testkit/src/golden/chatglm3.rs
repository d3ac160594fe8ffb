use std::fs;
use std::path::Path;

use rolecall::conversation::json;
use rolecall::conversation::json::{Layout, Object};
use rolecall::conversation::{Conversation, Json, object};
use rolecall::encode::Split;
use rolecall::format::{Control, Format};
use rolecall::loss::LossPolicy;
use rolecall::render::{Bos, Error as RenderError, Options, RuleMode, Writer};
use rolecall::template::{ChatTemplate, Forms, TemplateOptions};
use rolecall::{Error, Origin, Prompt};

use super::{Context, chatglm3_reading, conversation, labels, parts_of, refusal, runs, text, xtuner};
use crate::Verdict;

pub(super) fn run(row: &Object, op: &str, context: &Context) -> Verdict {
    let (format, expected, options) = match parts_of(row, "chatglm3", looked_at(op), context) {
        Ok(parts) => parts,
        Err(failure) => return failure,
    };
    match op {
        "build_single_message" => refusal(expected, build_single_message(row, expected, format)),
        "process_chatglm_messages then build_chat_input" => {
            let choices = [("system-with-tools", "replace"), ("function-call", "raw")];
            let choices = choices.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
            refusal(expected, build_chat_input(row, expected, format, choices)).and(|| made(row, expected, format))
        }
        "tokenizer.tokenize(text)" => tokenize(row, expected, format),
        "build_chat_input" => {
            refusal(expected, build_chat_input(&with_query(row, &options), expected, format, Vec::new()))
        }
        _ if op.starts_with("document printed example") => {
            refusal(expected, build_chat_input(row, expected, format, Vec::new()))
        }
        _ if op.starts_with("SPTokenizer.encode") => refusal(expected, encode_content(row, expected, format)),
        _ if op.starts_with("parse model output") => chatglm3_reading::run(row, expected, format),
        _ if op.starts_with("finetune") => finetune(row, expected, format.for_training()),
        _ if op.contains("jinja") => {
            refusal(expected, chat_template(row, expected, &options, context.folders.facts.as_deref()))
        }
        _ => Verdict::Failed { expected: "a known operation".into(), found: format!("`{op}`") },
    }
}

/// The option keys that an operation reads, or that only name the vector's origin.
fn looked_at(op: &str) -> &'static [&'static str] {
    match op {
        "build_chat_input" => &["op", "note", "query", "role"],
        "tokenizer.tokenize(text)" => &["op", "tokenizer", "text"],
        _ if op.starts_with("SPTokenizer.encode") => &["op", "text"],
        _ if op.starts_with("parse model output") => &["op", "output"],
        _ if op.contains("jinja") => &["op", "add_generation_prompt"],
        _ if op.starts_with("document printed example") => &["op", "printed"],
        _ => &["op"],
    }
}

/// Appends the query to the history: the query in the options, or the last message of the
/// conversation. The reference call takes only its text and its role.
fn with_query(row: &Object, options: &Object) -> Object {
    let mut row = row.clone();
    let Some(Json::Array(messages)) = row.get_mut("conversation") else { return row };
    if let Some(query) = options.get("query").and_then(Json::as_str) {
        let role = options.get("role").and_then(Json::as_str).unwrap_or("user");
        messages.push(Json::Object(object! { "role" => role, "content" => query }));
    } else if let Some(Json::Object(query)) = messages.last_mut() {
        query.remove("metadata");
        query.remove("tools");
    }
    row
}

/// Renders with the template of the facts, which is the one in the maker's `tokenizer_config.json`.
fn chat_template(row: &Object, expected: &Object, options: &Object, facts: Option<&Path>) -> Result<Verdict, Error> {
    let facts = facts.and_then(|folder| fs::read_to_string(folder.join("chatglm3_special_tokens.json")).ok());
    let facts = facts.and_then(|facts| json::parse(&facts).ok());
    let Some(source) = facts.as_ref().and_then(|facts| facts.as_object()?.get("chat_template")?.as_str()) else {
        return Ok(Verdict::Failed { expected: "a template in the facts".into(), found: "none".into() });
    };
    let opens = options.get("add_generation_prompt").and_then(Json::as_bool).unwrap_or(false);
    let conversation = conversation(row, object! { "add_generation_prompt" => opens })?;
    let template = ChatTemplate::compile(source, Vec::new())?;
    let prompt =
        Writer::template(template.clone(), TemplateOptions { forms: Forms::AsGiven, ..TemplateOptions::default() })
            .render(&conversation)?;
    Ok(Verdict::compare(text(expected, "text"), prompt.text()))
}

/// Compares with the text and the labels of the fine-tuning code, which writes no header lines and
/// no tools.
fn finetune(row: &Object, expected: &Object, format: &Format) -> Verdict {
    let written = |row: &Object| -> Result<(Prompt, String), Error> {
        let mut more = object! { "add_generation_prompt" => false };
        if let Some(tools) = row.get("tools") {
            more.insert("tools", tools.clone());
        }
        let conversation = conversation(row, more)?;
        let prompt = render_native(&conversation, format, Bos::Write, Vec::new())?;
        let loss = match Writer::format(format.clone(), Options::default())
            .loss(&prompt, &conversation, &[], &LossPolicy::assistant())
            .map(|loss| loss.ranges())
        {
            Err(RenderError::NoLoss) => Vec::new(),
            loss => loss?,
        };
        let special = |control: &Control| ("special", control.text.clone());
        let found = Json::Array(labels::of_prompt(&prompt, &loss, special));
        Ok((prompt, json::write(&found, &Layout::compact())))
    };
    let found = written(row);
    if text(expected, "error") == "NotImplementedError" {
        return match found {
            Ok((prompt, _)) if prompt.segments().any(|part| matches!(part.origin, Origin::Tool { .. })) => {
                Verdict::Excused("the maker's fine-tuning code does not write tools yet")
            }
            found => refusal(expected, found.map(|_| Verdict::Passed)),
        };
    }
    let wanted = match without_ids(expected.get("segments"), format) {
        Ok(wanted) => json::write(&xtuner::merged(Some(&wanted)), &Layout::compact()),
        Err(id) => return Verdict::Failed { expected: format!("the id {id}"), found: "another id".into() },
    };
    let verdict = refusal(expected, found.map(|(_, found)| Verdict::compare(&wanted, &found)));
    let bare = without_headers(row);
    let leaves_out = bare != *row && written(&bare).is_ok_and(|(_, found)| found == wanted);
    match verdict {
        Verdict::Failed { .. } if leaves_out => {
            Verdict::Excused("the maker's fine-tuning code does not write the header line")
        }
        verdict => verdict,
    }
}

/// Removes the ids of control tokens from segments, after checking that they are the format's ids.
fn without_ids(segments: Option<&Json>, format: &Format) -> Result<Json, String> {
    let mut segments = segments.and_then(Json::as_array).unwrap_or_default().to_vec();
    for segment in &mut segments {
        let Json::Object(segment) = segment else { continue };
        let Some(id) = segment.remove("id") else { continue };
        let control = format.controls.iter().find(|control| control.text == text(segment, "special"));
        let known = control.and_then(|control| control.id).map(|id| Json::from(i64::from(id)));
        if known.as_ref() != Some(&id) {
            return Err(json::write(&id, &Layout::compact()));
        }
    }
    Ok(Json::Array(segments))
}

fn without_headers(row: &Object) -> Object {
    let mut row = row.clone();
    if let Some(Json::Array(messages)) = row.get_mut("conversation") {
        for message in messages {
            if let Json::Object(message) = message {
                message.remove("metadata");
            }
        }
    }
    row
}

fn build_chat_input(
    row: &Object,
    expected: &Object,
    format: &Format,
    choices: Vec<(String, String)>,
) -> Result<Verdict, Error> {
    let mut more = object! { "add_generation_prompt" => true };
    if let Some(tools) = row.get("tools") {
        more.insert("tools", tools.clone());
    }
    let prompt = render_native(&conversation(row, more)?, format, Bos::Write, choices)?;
    Ok(compare_runs(expected, &prompt).and(|| match expected.get("flat") {
        Some(flat) => Verdict::compare(flat.as_str().unwrap_or_default(), prompt.text()),
        None => Verdict::Passed,
    }))
}

/// Checks that the messages which the server's code makes of a request give the same prompt in the
/// maker's own call.
fn made(row: &Object, expected: &Object, format: &Format) -> Verdict {
    if expected.get("error").is_some() {
        return Verdict::Passed;
    }
    let Some(messages) = expected.get("messages") else { return Verdict::cannot_run("the row has no `messages`") };
    let mut row = row.clone();
    row.remove("tools");
    row.insert("conversation", messages.clone());
    refusal(expected, build_chat_input(&row, expected, format, Vec::new()))
}

/// Checks a single message. The reference call takes role, metadata and content, and no tools.
fn build_single_message(row: &Object, expected: &Object, format: &Format) -> Result<Verdict, Error> {
    let mut messages = row.get("conversation").cloned().unwrap_or(Json::Null);
    if let Json::Array(messages) = &mut messages {
        for message in messages {
            if let Json::Object(message) = message {
                message.remove("tools");
            }
        }
    }
    let request = object! { "messages" => messages, "add_generation_prompt" => false };
    let conversation = Conversation::from_json(request.into())?;
    let prompt = render_native(&conversation, format, Bos::LeaveToTokenizer, Vec::new())?;
    Ok(compare_runs(expected, &prompt))
}

/// Checks the call that encodes a message's content: everything after the header.
fn encode_content(row: &Object, expected: &Object, format: &Format) -> Result<Verdict, Error> {
    let options = row.get("options").and_then(Json::as_object);
    let content = options.map_or("", |options| text(options, "text"));
    let message = object! { "role" => "user", "content" => content };
    let request = object! { "messages" => vec![Json::Object(message)], "add_generation_prompt" => false };
    let conversation = Conversation::from_json(request.into())?;
    let prompt = render_native(&conversation, format, Bos::LeaveToTokenizer, Vec::new())?;
    let Json::Array(mut runs) = runs::of_prompt(&prompt) else { return Ok(Verdict::cannot_run("no runs")) };
    runs.drain(..2.min(runs.len()));
    let wanted = expected.get("segments").cloned().unwrap_or(Json::Null);
    Ok(Verdict::compare(&runs::written(&wanted), &runs::written(&Json::Array(runs))))
}

/// Checks the unsafe calls: which texts become control tokens depends on how the tokenizer was
/// constructed.
fn tokenize(row: &Object, expected: &Object, format: &Format) -> Verdict {
    let Some(options) = row.get("options").and_then(Json::as_object) else { return Verdict::cannot_run("no options") };
    let made = text(options, "tokenizer");
    let split = match made {
        "default" => Split::Nothing,
        _ if made.contains("encode_special_tokens=True") => Split::Requested,
        _ => Split::Published,
    };
    let found = runs::of_reference(text(options, "text"), &format.controls, None, split);
    let wanted = expected.get("segments").cloned().unwrap_or(Json::Null);
    Verdict::compare(&runs::written(&wanted), &runs::written(&found))
}

fn compare_runs(expected: &Object, prompt: &Prompt) -> Verdict {
    let wanted = expected.get("segments").cloned().unwrap_or(Json::Null);
    Verdict::compare(&runs::written(&wanted), &runs::written(&runs::of_prompt(prompt)))
}

fn render_native(
    conversation: &Conversation,
    format: &Format,
    bos: Bos,
    choices: Vec<(String, String)>,
) -> Result<Prompt, Error> {
    Ok(Writer::format(format.clone(), Options { bos, rules: RuleMode::Reference, choices }).render(conversation)?)
}
