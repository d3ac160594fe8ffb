use std::sync::Arc;

use rolecall::conversation::json::{Layout, Object};
use rolecall::conversation::{Conversation, Json, Message, json, object};
use rolecall::format::Format;
use rolecall::interop::lmdeploy;
use rolecall::interop::lmdeploy::{Config, Template};
use rolecall::render::{Bos, Options, RuleMode, Writer};
use rolecall::{Error, Prompt};

use super::{Context, conversation, keys, refusal, text};
use crate::{Verdict, new_turn};

const CRASH: &str = "messages2prompt returns nothing for a list";
const DOCUMENT: &str = "the document has session length and sampling in a template; the released code refuses them";
const NO_STOP: &str =
    "the unreleased module has no stop word for a template; the release stops at the end of the answer";

/// The fields of a template's file that only the document has and the released framework refuses.
const OF_THE_DOCUMENT: [&str; 6] =
    ["session_len", "top_p", "top_k", "temperature", "repetition_penalty", "suffix_first"];

/// The option keys that an operation reads, or that only name the vector's origin.
fn looked_at(op: &str) -> &'static [&'static str] {
    match op {
        "messages2prompt" | "document printed example" => &["op", "version", "sequence_start"],
        "get_prompt per user turn" => &["op", "version"],
        "get_prompt" => &["op", "version", "capability", "sequence_start", "suffix_first"],
        "chat-template json" | "to_json" => &["op", "version", "config"],
        "params" => &["op", "version"],
        "best_match_model" => &["op", "version", "model_path", "tokenizer"],
        _ => &[],
    }
}

pub(super) fn run(row: &Object, op: &str, context: &Context) -> Verdict {
    let (Some(expected), Some(options)) =
        (row.get("expected").and_then(Json::as_object), row.get("options").and_then(Json::as_object))
    else {
        return Verdict::cannot_run("the row has no `expected` or no `options` object");
    };
    if let Some(failure) = keys::unread(options, looked_at(op)) {
        return failure;
    }
    match op {
        "best_match_model" => {
            // If no rule fits, the reference inspects the model, which is not available here.
            let found = lmdeploy::match_path(text(options, "model_path")).map_or(Json::Null, Json::from);
            return compare(expected.get("template"), &found);
        }
        "params" => return params(expected, text(row, "template"), text(options, "version")),
        "chat-template json" => {
            let verdict = from_json(row, expected, options);
            return match is_of_the_document(expected, options, verdict.is_ok()) {
                true => Verdict::Excused(DOCUMENT),
                false => refusal(expected, verdict),
            };
        }
        "to_json" => {
            let config = Config::parse(&config(options)).map_err(Error::from);
            return refusal(expected, config.map(|config| Verdict::compare(text(expected, "json"), &config.to_json())));
        }
        _ => {}
    }
    let name = format!("lmdeploy:{}", text(row, "template"));
    let Some(format) = context.registry.get(&name) else {
        return Verdict::Failed { expected: "a format".into(), found: format!("no format `{name}`") };
    };
    match op {
        "messages2prompt" if row.get("conversation").and_then(Json::as_str).is_some() => {
            let content = text(row, "conversation");
            let start = options.get("sequence_start").and_then(Json::as_bool) != Some(false);
            refusal(
                expected,
                one_text(content, start, format, Vec::new())
                    .map(|prompt| Verdict::compare(text(expected, "prompt"), prompt.text())),
            )
        }
        "messages2prompt" | "document printed example" => {
            let prompt = messages2prompt(row, format);
            match expected.get("returns_null") {
                None => {
                    refusal(expected, prompt.map(|prompt| Verdict::compare(text(expected, "prompt"), prompt.text())))
                }
                Some(_) => excused(row, prompt),
            }
        }
        "get_prompt per user turn" => {
            let found = turns(row, format).map(Json::Array);
            refusal(expected, found.map(|found| compare(expected.get("prompts"), &found)))
        }
        "get_prompt" => refusal(expected, get_prompt(row, expected, options, format)),
        _ => Verdict::Failed { expected: "a known operation".into(), found: format!("`{op}`") },
    }
}

/// Checks a list for which the reference returns nothing: the prompt must be the messages' texts in
/// order, or a refusal of an unknown role.
fn excused(row: &Object, prompt: Result<Prompt, Error>) -> Verdict {
    let messages = row.get("conversation").and_then(Json::as_array).unwrap_or_default();
    let known = |message: &&Json| {
        message.as_object().is_some_and(|message| ["system", "user", "assistant"].contains(&text(message, "role")))
    };
    match prompt {
        Ok(prompt) => {
            let texts: String =
                messages.iter().filter_map(Json::as_object).map(|message| text(message, "content")).collect();
            match Verdict::compare(&texts, prompt.text()) {
                Verdict::Passed => Verdict::Excused(CRASH),
                other => other,
            }
        }
        Err(_) if !messages.iter().all(|message| known(&message)) => Verdict::Excused(CRASH),
        Err(error) => Verdict::Failed { expected: "a prompt".into(), found: format!("a refusal: {error}") },
    }
}

fn reference(choices: Vec<(String, String)>) -> Options {
    Options { bos: Bos::LeaveToTokenizer, rules: RuleMode::Reference, choices }
}

fn messages2prompt(row: &Object, format: &Format) -> Result<Prompt, Error> {
    // A list of messages is always a conversation, whatever the template's capability.
    let chat = vec![("capability".to_owned(), "chat".to_owned())];
    Ok(Writer::format(format.clone(), reference(chat).clone()).render(&conversation(row, Object::new())?)?)
}

/// Returns the prompt of each user message as it arrives; earlier turns are in the engine's cache.
fn turns(row: &Object, format: &Format) -> Result<Vec<Json>, Error> {
    let messages = row.get("conversation").and_then(Json::as_array).unwrap_or_default();
    let users = messages.iter().filter_map(Json::as_object).filter(|message| text(message, "role") == "user");
    let users: Vec<&str> = users.map(|message| text(message, "content")).collect();
    let mut said: Vec<Message> = Vec::new();
    let mut prompts = Vec::new();
    let alone = format.choices.iter().any(|choice| choice.name == "capability" && choice.default == "completion");
    for user in users {
        if alone {
            prompts.push(Json::from(one_text(user, true, format, Vec::new())?.text()));
            continue;
        }
        said.push(Message::user(user));
        let new = new_turn(format, Conversation::new(said.clone()), &reference(Vec::new()))?;
        prompts.push(Json::from(new.text()));
        said.push(Message::assistant(""));
    }
    Ok(prompts)
}

fn get_prompt(row: &Object, expected: &Object, options: &Object, format: &Format) -> Result<Verdict, Error> {
    let capability = text(options, "capability");
    let user = conversation(row, Object::new())?.messages.pop().and_then(|user| user.text()).unwrap_or_default();
    let start = options.get("sequence_start").and_then(Json::as_bool) != Some(false);
    let alone =
        capability == "completion" || (capability != "chat" && format.layout(rolecall::format::Slot::Infill).is_some());
    let mut choices = vec![("capability".to_owned(), capability.to_owned())];
    if let Some(suffix_first) = options.get("suffix_first").and_then(Json::as_bool) {
        choices.push(("suffix_first".to_owned(), suffix_first.to_string()));
    }
    let shown = one_text(&user, start || alone, format, choices)?;
    let stop = &shown.generation.stop;
    let stop = match stop.is_empty() {
        true => Json::Null,
        false => Json::Array(stop.iter().map(|word| Json::from(word.as_str())).collect()),
    };
    let verdict = Verdict::compare(text(expected, "prompt"), shown.text());
    Ok(verdict.and(|| match expected.get("stop_words") {
        Some(wanted) => compare(Some(wanted), &stop),
        None => Verdict::Passed,
    }))
}

/// Renders a user's text at the start of a session, or as its next turn.
fn one_text(content: &str, start: bool, format: &Format, choices: Vec<(String, String)>) -> Result<Prompt, Error> {
    let mut messages = vec![Message::user(content)];
    // If turns are numbered, the reference counts from the start of this call, so a first text is
    // always the first.
    let start = start || numbers(format);
    if !start {
        messages.splice(0..0, [Message::user(""), Message::assistant("")]);
    }
    // At the start, this is the whole prompt.
    new_turn(format, Conversation::new(messages), &reference(choices))
}

fn numbers(format: &Format) -> bool {
    format.layout(rolecall::format::Slot::User).is_some_and(|layout| layout.prints(rolecall::format::Field::Round))
}

fn params(expected: &Object, name: &str, version: &str) -> Verdict {
    let Some(template) = lmdeploy::builtin(name) else {
        return Verdict::Failed { expected: "a template".into(), found: format!("no template `{name}`") };
    };
    let mut known = attributes(&template);
    let generation = &template.builtin.generation;
    let number =
        |number: Option<f64>| number.and_then(|number| json::parse(&format!("{number:?}")).ok()).unwrap_or(Json::Null);
    known.insert("top_p", number(generation.top_p));
    known.insert("top_k", generation.top_k.and_then(|top_k| i64::try_from(top_k).ok()).map_or(Json::Null, Json::from));
    known.insert("temperature", number(generation.temperature));
    known.insert("repetition_penalty", number(generation.repetition_penalty));
    let found = |wanted: &Object| {
        let each = wanted.iter().map(|(key, _)| (key.to_owned(), known.get(key).cloned().unwrap_or(Json::Null)));
        Json::Object(each.collect())
    };
    let verdict = compare(Some(&Json::Object(expected.clone())), &found(expected));
    // If only the release has stop words, they must be the end of an answer, and all else must be
    // equal.
    let ending = Json::Array(vec![Json::from(template.eoa.as_str())]);
    let only_released = version != "v0.2.6"
        && expected.get("stop_words") == Some(&Json::Null)
        && !template.eoa.is_empty()
        && known.get("stop_words") == Some(&ending);
    if verdict != Verdict::Passed && only_released {
        let mut rest = expected.clone();
        rest.insert("stop_words", ending);
        return compare(Some(&Json::Object(rest.clone())), &found(&rest)).and(|| Verdict::Excused(NO_STOP));
    }
    verdict
}

/// Returns a template's properties under the reference's names.
fn attributes(template: &Template) -> Object {
    let length = template.builtin.generation.session_len.and_then(|length| i64::try_from(length).ok());
    let meta = template.meta_instruction.as_deref().map_or(Json::Null, Json::from);
    let stop = template.stop_words.as_ref();
    let stop =
        stop.map_or(Json::Null, |words| Json::Array(words.iter().map(|word| Json::from(word.as_str())).collect()));
    object! {
        "system" => template.system.as_str(), "meta_instruction" => meta, "eosys" => template.eosys.as_str(),
        "user" => template.user.as_str(), "eoh" => template.eoh.as_str(), "assistant" => template.assistant.as_str(),
        "eoa" => template.eoa.as_str(), "separator" => template.separator.as_str(), "session_len" => length.map_or(Json::Null, Json::from),
        "capability" => template.capability(), "stop_words" => stop,
    }
}

fn config(options: &Object) -> String {
    json::write(options.get("config").unwrap_or(&Json::Null), &Layout::default())
}

/// Reports whether the release refuses a template's file only because of fields that the document
/// has: without these fields the template is the same, and with them it has their values.
fn is_of_the_document(expected: &Object, options: &Object, is_taken: bool) -> bool {
    let Some(Json::Object(all)) = options.get("config") else { return false };
    let message = text(expected, "message");
    let named = OF_THE_DOCUMENT.iter().any(|key| all.get(key).is_some() && message.contains(&format!("'{key}'")));
    if !is_taken || text(expected, "error") != "TypeError" || !named {
        return false;
    }
    let mut plain = all.clone();
    OF_THE_DOCUMENT.iter().for_each(|key| drop(plain.remove(key)));
    let plain = json::write(&Json::Object(plain), &Layout::default());
    let (Ok(mut plain), Ok(found)) =
        (lmdeploy::read(&plain, lmdeploy::builtin), lmdeploy::read(&config(options), lmdeploy::builtin))
    else {
        return false;
    };
    let whole = |key| match all.get(key) {
        Some(Json::Number(number)) => number.as_i64().and_then(|number| u64::try_from(number).ok()),
        _ => None,
    };
    let real = |key| match all.get(key) {
        Some(Json::Number(number)) => number.as_f64(),
        _ => None,
    };
    let generation = &mut plain.builtin.generation;
    generation.session_len = whole("session_len").or(generation.session_len);
    generation.top_k = whole("top_k").or(generation.top_k);
    generation.top_p = real("top_p").or(generation.top_p);
    generation.temperature = real("temperature").or(generation.temperature);
    generation.repetition_penalty = real("repetition_penalty").or(generation.repetition_penalty);
    plain.suffix_first = all.get("suffix_first").and_then(Json::as_bool).unwrap_or(plain.suffix_first);
    plain == found
}

fn from_json(row: &Object, expected: &Object, options: &Object) -> Result<Verdict, Error> {
    let template = lmdeploy::read(&config(options), lmdeploy::builtin)?;
    let known = attributes(&template);
    let mut verdict = Verdict::Passed;
    if let Some(Json::Object(wanted)) = expected.get("attributes") {
        let found = wanted.iter().map(|(key, _)| (key.to_owned(), known.get(key).cloned().unwrap_or(Json::Null)));
        verdict = compare(expected.get("attributes"), &Json::Object(found.collect()));
    }
    let infills = template.capability() == "infilling" && template.builtin.infill.is_some();
    let format = Arc::new(template.into_format("lmdeploy:own"));
    if let Some(Json::Object(wanted)) = expected.get("messages2prompt") {
        for key in ["start", "cont"] {
            verdict = match (verdict, wanted.get(key)) {
                (Verdict::Passed, Some(Json::Null)) => excused(row, messages2prompt(row, &format)),
                (Verdict::Passed, wanted) => compare(wanted, &Json::from(messages2prompt(row, &format)?.text())),
                (other, _) => other,
            };
        }
    }
    let excuse = matches!(verdict, Verdict::Excused(_));
    let rest = match (expected.get("get_prompt"), infills) {
        // The row asks for a gap, but the text has none.
        (Some(Json::Object(wanted)), true) if wanted.get("error").is_some() => refusal(wanted, gap(row, &format)),
        (Some(wanted), _) => compare(Some(wanted), &Json::Array(turns(row, &format)?)),
        (None, _) => Verdict::Passed,
    };
    Ok(match (verdict, rest) {
        (Verdict::Passed, rest) => rest,
        (Verdict::Excused(why), Verdict::Passed) if excuse => Verdict::Excused(why),
        (Verdict::Excused(_), rest) => rest,
        (other, _) => other,
    })
}

fn gap(row: &Object, format: &Format) -> Result<Verdict, Error> {
    let first = row.get("conversation").and_then(Json::as_array).unwrap_or_default().iter().filter_map(Json::as_object);
    let first = first.filter(|message| text(message, "role") == "user").map(|message| text(message, "content")).next();
    Writer::format(format.clone(), reference(Vec::new()).clone())
        .render(&Conversation::new(first.map(Message::user).into_iter().collect()))?;
    Ok(Verdict::Passed)
}

fn compare(wanted: Option<&Json>, found: &Json) -> Verdict {
    let written = |value: &Json| json::write(value, &Layout::compact());
    Verdict::compare(&written(wanted.unwrap_or(&Json::Null)), &written(found))
}
