use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, object};
use rolecall::encode::Split;
use rolecall::format::Format;
use rolecall::render::{Bos, Options, RuleMode, Writer};
use rolecall::{Error, Prompt};

use super::{Context, conversation, lagent, lagent_reading, parts_of, refusal, runs, text};
use crate::Verdict;

pub(super) fn run(row: &Object, op: &str, context: &Context) -> Verdict {
    let (format, expected, options) = match parts_of(row, "internlm2", looked_at(op), context) {
        Ok(parts) => parts,
        Err(failure) => return failure,
    };
    match op {
        "build_inputs" => refusal(expected, build_inputs(&with_query(row, &options), expected, format)),
        "document printed example" => refusal(expected, printed_example(row, expected, format)),
        "special-token splitting of message text" => split_message(row, expected, format),
        "Internlm2Protocol.parse" => lagent_reading::run(row, expected, context),
        _ if op.starts_with("Internlm2Protocol.format") => lagent::run(row, expected, context),
        _ if op.starts_with("lmdeploy") => with_tools(row, expected, context),
        _ => Verdict::Failed { expected: "a known operation".into(), found: format!("`{op}`") },
    }
}

/// The option keys that an operation reads, or that only name the vector's origin.
fn looked_at(op: &str) -> &'static [&'static str] {
    match op {
        "build_inputs" => &["op", "note", "spelling", "tokenizer.add_bos_token", "meta_instruction", "query"],
        "special-token splitting of message text" => &["op", "added_tokens"],
        "Internlm2Protocol.parse" => &["op", "version", "output"],
        _ if op.starts_with("Internlm2Protocol.format") => &["op", "version", "prompts", "interpreter"],
        _ if op.starts_with("lmdeploy") => &["op", "sequence_start", "meta_instruction"],
        _ => &["op", "note"],
    }
}

/// Adds the system text before the history and the query after it, if the options name them.
fn with_query(row: &Object, options: &Object) -> Object {
    let mut row = row.clone();
    let Some(Json::Array(messages)) = row.get_mut("conversation") else { return row };
    let message = |role: &str, content: &str| Json::Object(object! { "role" => role, "content" => content });
    // The reference treats an empty text as absent.
    if let Some(system) = options.get("meta_instruction").and_then(Json::as_str).filter(|text| !text.is_empty()) {
        messages.insert(0, message("system", system));
    }
    if let Some(query) = options.get("query").and_then(Json::as_str) {
        messages.push(message("user", query));
    }
    row
}

fn build_inputs(row: &Object, expected: &Object, format: &Format) -> Result<Verdict, Error> {
    let options = row.get("options").and_then(Json::as_object);
    let added =
        options.and_then(|options| options.get("tokenizer.add_bos_token")).and_then(Json::as_bool) == Some(true);
    let bos = if added { Bos::LeaveToTokenizer } else { Bos::Write };
    let spelling = match options.map(|options| text(options, "spelling")) {
        Some("unused_token") => Some("unused_token"),
        _ => None,
    };
    let prompt = render_with(row, object! { "add_generation_prompt" => true }, format, bos, spelling)?;
    Ok(Verdict::compare(text(expected, "prompt"), prompt.text())
        .and(|| compare_reference(expected, "segments", prompt.text(), format, spelling)))
}

/// The document prints messages joined by newlines, with nothing after the last end token.
fn printed_example(row: &Object, expected: &Object, format: &Format) -> Result<Verdict, Error> {
    let mut verdict = Verdict::Passed;
    for (spelling, prompt_key, segments_key) in [
        (Some("unused_token"), "unused_token_spelling", "segments_unused"),
        (None, "im_start_spelling", "segments_im_start"),
    ] {
        let more = object! { "add_generation_prompt" => false };
        // The printed messages use one spelling in their calls, so only the example of that
        // spelling can be rendered from them.
        let wanted = text(expected, prompt_key);
        let prompt = render_with(row, more, format, Bos::LeaveToTokenizer, spelling)?;
        let printed = prompt.text().strip_suffix('\n').unwrap_or(prompt.text()).to_owned();
        let printed = if spelling.is_none() { respelled(&printed, format) } else { printed };
        verdict = verdict
            .and(|| Verdict::compare(wanted, &printed))
            .and(|| compare_reference(expected, segments_key, &printed, format, spelling));
    }
    Ok(verdict)
}

/// Rewrites control tokens in a text in their usual spelling.
fn respelled(text: &str, format: &Format) -> String {
    format.controls.iter().fold(text.to_owned(), |text, control| {
        control.texts().skip(1).fold(text, |text, other| text.replace(other, &control.text))
    })
}

fn split_message(row: &Object, expected: &Object, format: &Format) -> Verdict {
    let messages = row.get("conversation").and_then(Json::as_array).unwrap_or_default();
    let content = messages.first().and_then(Json::as_object).map_or("", |message| text(message, "content"));
    let mut verdict = Verdict::Passed;
    for (key, spelling, split) in [
        ("default", None, Split::Published),
        ("split_special_tokens", None, Split::Nothing),
        ("unused_spelling_vocabulary", Some("unused_token"), Split::Published),
    ] {
        let found = runs::of_reference(content, &format.controls, spelling, split);
        let wanted = expected.get(key).cloned().unwrap_or(Json::Null);
        verdict = verdict.and(|| Verdict::compare(&runs::written(&wanted), &runs::written(&found)));
    }
    verdict
}

/// Compares segments. The vectors' segments are those of the unsafe tokenizer, forged tokens
/// included.
fn compare_reference(expected: &Object, key: &str, text: &str, format: &Format, spelling: Option<&str>) -> Verdict {
    let found = runs::of_reference(text, &format.controls, spelling, Split::Published);
    let wanted = expected.get(key).cloned().unwrap_or(Json::Null);
    Verdict::compare(&runs::written(&wanted), &runs::written(&found))
}

fn render_with(row: &Object, more: Object, format: &Format, bos: Bos, spelling: Option<&str>) -> Result<Prompt, Error> {
    let choices = spelling.map(|spelling| ("spelling".to_owned(), spelling.to_owned())).into_iter().collect();
    let options = Options { bos, rules: RuleMode::Reference, choices };
    Ok(Writer::format(format.clone(), options.clone()).render(&conversation(row, more)?)?)
}

/// Checks LMDeploy's InternLM2 with tools.
fn with_tools(row: &Object, expected: &Object, context: &Context) -> Verdict {
    let Some(format) = context.registry.get("lmdeploy:internlm2-tools") else {
        return Verdict::Failed { expected: "a format".into(), found: "none".into() };
    };
    let options = row.get("options").and_then(Json::as_object).cloned().unwrap_or_default();
    let starts = options.get("sequence_start").and_then(Json::as_bool) != Some(false);
    let no_meta = !starts || options.get("meta_instruction").is_some_and(Json::is_null);
    let choices = no_meta.then(|| ("meta_instruction".to_owned(), String::new())).into_iter().collect();
    let options = Options { bos: Bos::LeaveToTokenizer, rules: RuleMode::Reference, choices };
    let more = row.get("tools").map(|tools| object! { "tools" => tools.clone() }).unwrap_or_default();
    let rendered = |row: &Object| {
        Ok::<Prompt, Error>(Writer::format(format.clone(), options.clone()).render(&conversation(row, more.clone())?)?)
    };
    let prompt = rendered(row);
    // Without a message, there is no first message to put the tools after.
    if text(expected, "error") == "IndexError" {
        return match prompt {
            Ok(_) => Verdict::Excused("an empty conversation with tools runs past the end of a list"),
            Err(error) => Verdict::Failed { expected: "a prompt".into(), found: format!("a refusal: {error}") },
        };
    }
    let verdict = refusal(expected, prompt.map(|prompt| compare(expected, prompt.text(), format)));
    let first = rendered(&first_parts(row)).map(|prompt| compare(expected, prompt.text(), format));
    match (verdict, first) {
        (Verdict::Failed { .. }, Ok(Verdict::Passed)) => Verdict::Excused("only the first of a list of parts is read"),
        (verdict, _) => verdict,
    }
}

fn compare(expected: &Object, prompt: &str, format: &Format) -> Verdict {
    Verdict::compare(text(expected, "prompt"), prompt)
        .and(|| compare_reference(expected, "segments", prompt, format, None))
}

/// Returns the row with only the first part of every content.
fn first_parts(row: &Object) -> Object {
    let mut row = row.clone();
    if let Some(Json::Array(messages)) = row.get_mut("conversation") {
        for message in messages.iter_mut() {
            if let Json::Object(message) = message
                && let Some(Json::Array(parts)) = message.get_mut("content")
            {
                parts.truncate(1);
            }
        }
    }
    row
}
