use std::ops::Range;
use std::sync::Arc;

use rolecall::conversation::json::Object;
use rolecall::conversation::{Conversation, Json, json, object};
use rolecall::format::{Control, Format};
use rolecall::interop::xtuner;
use rolecall::interop::xtuner::Pair;
use rolecall::loss::LossPolicy;
use rolecall::render::{Bos, Options, RuleMode, Writer};
use rolecall::{Error, Prompt};

use super::{Context, conversation, labels, refusal, text};
use crate::Verdict;

/// XTuner's pair of opening tokens for one class of tokenizers, by id.
const PAIR: [&str; 2] = ["#64790", "#64792"];

pub(super) fn run(row: &Object, op: &str, context: &Context) -> Verdict {
    let template = text(row, "template");
    let name = if template == "(none)" { "xtuner:none".to_owned() } else { format!("xtuner:{template}") };
    let Some(format) = context.registry.get(&name) else {
        return Verdict::Failed { expected: "a format".into(), found: format!("no format `{name}`") };
    };
    let (Some(expected), Some(options)) =
        (row.get("expected").and_then(Json::as_object), row.get("options").and_then(Json::as_object))
    else {
        return Verdict::cannot_run("the row has no `expected` or no `options` object");
    };
    let format = with_tokens(format, options);
    match op {
        "chat" => refusal(expected, chat(row, expected, options, &format)),
        "train" => refusal(expected, train(row, expected, options, format.for_training())),
        _ => Verdict::Failed { expected: "a known operation".into(), found: format!("`{op}`") },
    }
}

fn with_tokens(format: &Format, options: &Object) -> Arc<Format> {
    let bos = text(options, "bos");
    let bos: Vec<&str> = match text(options, "tokenizer_class") {
        "ChatGLMTokenizer" => PAIR.to_vec(),
        class if class.to_lowercase().starts_with("qwen") => Vec::new(),
        _ => vec![bos],
    };
    format.with_own_tokens(&bos, Some(text(options, "eos"))).into()
}

fn chat(row: &Object, expected: &Object, options: &Object, format: &Format) -> Result<Verdict, Error> {
    let choices = ["bot_name", "system_template"]
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), options.get(name)?.as_str()?.to_owned())));
    let asked = Options { bos: Bos::Write, rules: RuleMode::Reference, choices: choices.collect() };
    let conversation = conversation(row, Object::new())?;
    let limit = options.get("max_new_tokens").and_then(|limit| match limit {
        Json::Number(number) => number.as_i64(),
        _ => None,
    });
    let remembers = |prompt: &Prompt| limit.is_none_or(|limit| (units(prompt) as i64) < limit);
    let inputs = xtuner::chat_inputs(&conversation, &Writer::format(format.clone(), asked), remembers)?;
    // The tokenizer adds the opening token to the first input; later inputs contain it in the
    // decoded text.
    let opening: String =
        format.controls.iter().filter(|control| control.bos).map(|control| control.text.as_str()).collect();
    let mut fresh = true;
    let mut found = Vec::new();
    for (at, input) in inputs.iter().enumerate() {
        fresh = fresh || at == 0 || !input.text().starts_with(inputs[at - 1].text());
        let shown =
            if fresh { input.text().strip_prefix(opening.as_str()).unwrap_or(input.text()) } else { input.text() };
        found.push(Json::Object(object! { "text" => shown, "add_special_tokens" => fresh }));
        fresh = false;
    }
    let stop = Json::Array(format.generation.stop.iter().map(|word| Json::from(word.as_str())).collect());
    if !format.stops().contains(&text(options, "eos")) {
        return Ok(Verdict::Failed {
            expected: "the closing token among the stop texts".into(),
            found: json::write(&stop, &json::Layout::compact()),
        });
    }
    Ok(compare(expected.get("model_inputs"), &Json::Array(found)).and(|| compare(expected.get("stop_words"), &stop)))
}

/// Returns the length of a prompt for the vectors' tokenizer: one per character and one per opening
/// or closing token.
fn units(prompt: &Prompt) -> usize {
    let each = prompt.segments().map(|segment| match segment.origin {
        rolecall::Origin::Control(_) => 1,
        _ => segment.text.chars().count(),
    });
    each.sum()
}

fn train(row: &Object, expected: &Object, options: &Object, format: &Format) -> Result<Verdict, Error> {
    let conversation = learned(row, options)?;
    let asked = Options { rules: RuleMode::Reference, ..Options::default() };
    let mut prompt = Writer::format(format.clone(), asked.clone()).render(&conversation)?;
    let mut loss = match Writer::format(format.clone(), Options::default())
        .loss(&prompt, &conversation, &[], &LossPolicy::assistant())
        .map(|loss| loss.ranges())
    {
        Ok(spans) => spans,
        Err(rolecall::render::Error::NoLoss) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    if options.get("input_ids_with_output").and_then(Json::as_bool) == Some(false) {
        (prompt, loss) = asked_alone(&conversation, format, &asked)?;
    }
    let pairs = xtuner::pairs(&prompt);
    let mut runs = labels::of_prompt(&prompt, &loss, special);
    if let Some(Json::Number(limit)) = options.get("max_length") {
        cut(&mut runs, usize::try_from(limit.as_i64().unwrap_or_default()).unwrap_or_default());
    }
    let wanted = merged(expected.get("segments"));
    let mut verdict = compare(Some(&wanted), &Json::Array(runs));
    if expected.get("conversation").is_some() {
        let found = pairs.iter().map(|pair| {
            Json::Object(object! { "system" => pair.system.as_str(), "input" => pair.asked.as_str(), "output" => pair.answer.as_str() })
        });
        let found = Json::Array(found.collect());
        verdict = verdict.and(|| compare(expected.get("conversation"), &found));
    }
    if expected.get("pairs").is_some() {
        let found = Json::Array(pairs.iter().map(written).collect());
        verdict = verdict.and(|| compare(expected.get("pairs"), &found));
    }
    Ok(verdict)
}

/// Returns the training prompt up to the answer, which carries no loss.
fn asked_alone(
    conversation: &Conversation,
    format: &Format,
    options: &Options,
) -> Result<(Prompt, Vec<Range<usize>>), Error> {
    let whole = Writer::format(format.clone(), options.clone()).render(conversation)?;
    let answer =
        whole.turns().iter().find(|turn| turn.slot == rolecall::format::Slot::Assistant).map(|turn| turn.start);
    let asked = answer.and_then(|end| whole.up_to(end)).unwrap_or(whole);
    Ok((asked, Vec::new()))
}

fn written(pair: &Pair) -> Json {
    Json::Object(object! {
        "input" => pair.input.as_str(), "output" => pair.output.as_str(), "need_eos_token" => pair.need_eos_token, "sep" => pair.sep.as_str(),
    })
}

/// Returns the conversation, with the loss of each answer from the vector.
fn learned(row: &Object, options: &Object) -> Result<Conversation, Error> {
    let mut messages = row.get("conversation").and_then(Json::as_array).unwrap_or_default().to_vec();
    let mut loss = options.get("output_with_loss").and_then(Json::as_array).unwrap_or_default().iter();
    for message in &mut messages {
        if let Json::Object(message) = message
            && text(message, "role") == "assistant"
            && let Some(loss) = loss.next()
        {
            message.insert("loss", loss.clone());
        }
    }
    let request = object! { "messages" => messages, "add_generation_prompt" => false };
    super::read(request)
}

fn special(control: &Control) -> (&'static str, String) {
    ("special", control.text.clone())
}

/// Joins neighbouring texts, which the vectors keep separate if the code encodes them separately.
pub(super) fn merged(segments: Option<&Json>) -> Json {
    let mut out: Vec<Json> = Vec::new();
    for segment in segments.and_then(Json::as_array).unwrap_or_default() {
        if let (Json::Object(next), Some(Json::Object(last))) = (segment, out.last_mut())
            && next.get("text").is_some()
            && next.get("loss") == last.get("loss")
            && let Some(Json::String(text)) = last.get_mut("text")
        {
            text.push_str(super::text(next, "text"));
            continue;
        }
        out.push(segment.clone());
    }
    Json::Array(out)
}

/// Truncates to `limit` units: one per character and one per special token.
fn cut(runs: &mut Vec<Json>, mut limit: usize) {
    for run in runs.iter_mut() {
        let Json::Object(run) = run else { continue };
        let length = run.get("text").and_then(Json::as_str).map_or(1, |text| text.chars().count());
        if let (true, Some(Json::String(text))) = (length > limit, run.get_mut("text")) {
            *text = text.chars().take(limit).collect();
        }
        if length > 0 && limit == 0 {
            run.insert("cut", Json::from(true));
        }
        limit = limit.saturating_sub(length);
    }
    runs.retain(|run| run.as_object().is_none_or(|run| run.get("cut").is_none()));
}

fn compare(wanted: Option<&Json>, found: &Json) -> Verdict {
    let written = |value: &Json| json::write(value, &json::Layout::compact());
    Verdict::compare(&written(wanted.unwrap_or(&Json::Null)), &written(found))
}
