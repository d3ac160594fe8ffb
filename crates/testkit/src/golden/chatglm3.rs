use rolecall::json::Object;
use rolecall::{Bos, Conversation, Error, Format, Json, Options, Prompt, RuleMode, Split, object, render};

use super::{Context, chatglm3_reading, conversation, refusal, runs, text};
use crate::Verdict;

pub(super) fn run(row: &Object, op: &str, context: &Context) -> Verdict {
    let Some(format) = context.registry.get("chatglm3") else { return Verdict::cannot_run("the format is not there") };
    let Some(expected) = row.get("expected").and_then(Json::as_object) else {
        return Verdict::cannot_run("the vector expects nothing");
    };
    match op {
        "build_single_message" => refusal(expected, build_single_message(row, expected, format)),
        "process_chatglm_messages then build_chat_input" => {
            let choices = [("system-with-tools", "replace"), ("function-call", "raw")];
            let choices = choices.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
            refusal(expected, build_chat_input(row, expected, format, choices))
        }
        "tokenizer.tokenize(text)" => tokenize(row, expected, format),
        _ if op == "build_chat_input" || op.starts_with("document printed example") => {
            refusal(expected, build_chat_input(row, expected, format, Vec::new()))
        }
        _ if op.starts_with("SPTokenizer.encode") => refusal(expected, encode_content(row, expected, format)),
        _ if op.starts_with("parse model output") => chatglm3_reading::run(row, expected, format),
        _ if op.starts_with("finetune") => Verdict::Pending("training labels are not there yet"),
        _ if op.contains("jinja") => Verdict::Pending("the template engine is not there yet"),
        _ => Verdict::Failed { expected: "a known operation".into(), found: format!("`{op}`") },
    }
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

/// One message alone; this call takes role, metadata and content, and no tools.
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

/// The call that encodes a message's content: what stands behind its header.
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

/// The unsafe calls: what they take for control tokens depends on how the tokenizer was made.
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
    Ok(render(conversation, format, &Options { bos, rules: RuleMode::Reference, choices })?)
}
