use std::sync::Arc;

use rolecall::conversation::json::{Layout, Object};
use rolecall::conversation::{Conversation, Json, json, object};
use rolecall::format::{BoundaryToken, Control, Format, Slot};
use rolecall::loss::LossPolicy;
use rolecall::render::{Bos, Options, RuleMode, Turn, Writer};
use rolecall::{Error, Prompt};

use super::{Context, keys, labels, refusal, text};
use crate::Verdict;

const OPEN: &str = "the reference reads messages in pairs by index and runs past the end";
const TUPLES: &str = "adding a starter or stopper cuts a turn with calls to its first two parts";
const IGNORED: &str = "a tool preset skips a role that it does not know";

pub(super) fn run(row: &Object, op: &str, context: &Context) -> Verdict {
    let name = format!("lmflow:{}", text(row, "template"));
    let (Some(expected), Some(options)) =
        (row.get("expected").and_then(Json::as_object), row.get("options").and_then(Json::as_object))
    else {
        return Verdict::cannot_run("the row has no `expected` or no `options` object");
    };
    let looked_at: &[&str] = match op {
        "document printed example" => &["op", "bos_token", "eos_token"],
        "conversation_tokenize_function" => &["op", "version", "system_passed", "train_on_prompt"],
        _ => &["op", "version", "system_passed"],
    };
    if let Some(failure) = keys::unread(options, looked_at) {
        return failure;
    }
    if op == "document printed example" {
        return printed(row, expected, options, context);
    }
    let Some(format) = context.registry.get(&name) else {
        return Verdict::Failed { expected: "a format".into(), found: format!("no format `{name}`") };
    };
    let result = match op {
        "encode_conversation" => encode(row, expected, options, format),
        "conversation_tokenize_function" => label(row, expected, options, format.for_training()),
        _ => Ok(Verdict::Failed { expected: "a known operation".into(), found: format!("`{op}`") }),
    };
    // An index out of range or a tuple of the wrong length is an accident of the reference. Our own
    // behaviour must work.
    let error = text(expected, "error");
    let accident = error == "IndexError" || text(expected, "message").contains("to unpack");
    match (result, accident) {
        (Ok(_), true) if !says_everything(row, op, options, format) => {
            Verdict::Failed { expected: "every message in the prompt".into(), found: "one is missing".into() }
        }
        (Ok(_), true) => Verdict::Excused(if text(expected, "message").contains("list index") { OPEN } else { TUPLES }),
        (Err(Error::Render(rolecall::render::Error::UnknownRole { .. })), false)
            if error.is_empty() && cuts_roles(format) =>
        {
            Verdict::Excused(IGNORED)
        }
        (Err(Error::Render(rolecall::render::Error::UnknownRole { .. })), true) if cuts_roles(format) => {
            Verdict::Excused(IGNORED)
        }
        (Err(error), true) => Verdict::Failed { expected: "a prompt".into(), found: format!("a refusal: {error}") },
        (result, false) => refusal(expected, result),
    }
}

/// Reports whether each message's text is in the prompt as its own, or the message is noted as left
/// out.
fn says_everything(row: &Object, op: &str, options: &Object, format: &Arc<Format>) -> bool {
    let format = if op == "conversation_tokenize_function" { format.for_training() } else { format };
    let Ok(conversation) = read(row, options, false) else { return false };
    let Ok(prompt) = Writer::format(format.clone(), reference()).render(&conversation) else { return false };
    conversation.messages.iter().enumerate().all(|(index, message)| {
        let own = prompt.segments().filter(|segment| segment.origin.message() == Some(index));
        let own: String = own.map(|segment| segment.text).collect();
        let left_out = prompt.dropped().iter().any(|dropped| dropped.place.message == Some(index));
        left_out || own.contains(&*message.text().unwrap_or_default())
    })
}

fn read(row: &Object, options: &Object, generation: bool) -> Result<Conversation, Error> {
    let mut messages = row.get("conversation").and_then(Json::as_array).unwrap_or_default().to_vec();
    let opens = messages.first().and_then(Json::as_object).is_some_and(|first| text(first, "role") == "system");
    if let (false, Some(Json::String(system))) = (opens, options.get("system_passed")) {
        messages.insert(0, Json::Object(object! { "role" => "system", "content" => system.as_str() }));
    }
    let mut request = object! { "messages" => messages };
    if !generation {
        request.insert("add_generation_prompt", Json::from(false));
    }
    let tools = row.get("tools").and_then(Json::as_array).unwrap_or_default();
    if !tools.is_empty() {
        request.insert("tools", Json::Array(tools.to_vec()));
    }
    super::read(request)
}

fn reference() -> Options {
    Options { bos: Bos::Write, rules: RuleMode::Reference, choices: Vec::new() }
}

fn encode(row: &Object, expected: &Object, options: &Object, format: &Format) -> Result<Verdict, Error> {
    let conversation = read(row, options, false)?;
    let wanted = written(expected.get("turns").unwrap_or(&Json::Null));
    let tools = cuts_roles(format);
    let rendered = Writer::format(format.clone(), reference()).render(&conversation);
    if let Ok(prompt) = &rendered
        && written(&as_json(&grouped(&conversation, parts(prompt, |_| true), tools))) == wanted
    {
        return Ok(Verdict::Passed);
    }
    if tools && written(&as_json(&heard(&conversation, format)?)) == wanted {
        return Ok(Verdict::Excused(if rendered.is_ok() { TUPLES } else { IGNORED }));
    }
    let prompt = rendered?;
    let found = written(&as_json(&grouped(&conversation, parts(&prompt, |_| true), tools)));
    Ok(Verdict::Failed { expected: wanted, found })
}

/// Renders as a tool preset of the reference does: without the messages that it skips, without a
/// system text that is not followed by a user message, and without the parts that are lost when a
/// starter or stopper is added.
fn heard(conversation: &Conversation, format: &Format) -> Result<Vec<Vec<Vec<Piece>>>, Error> {
    let mut conversation = conversation.clone();
    let leading = usize::from(conversation.messages.first().is_some_and(|first| first.role_as_spelled() == "system"));
    let opens = conversation.messages.get(leading).is_some_and(|message| message.role_as_spelled() == "user");
    let known = ["user", "assistant", "function", "observation"];
    let mut index = 0;
    conversation.messages.retain(|message| {
        index += 1;
        index <= leading || known.contains(&message.role_as_spelled())
    });
    let prompt = Writer::format(format.clone(), reference()).render(&conversation)?;
    let parts = parts(&prompt, |turn| opens || turn.slot != Slot::System);
    Ok(lossy(grouped(&conversation, parts, true), format))
}

fn written(json: &Json) -> String {
    json::write(json, &Layout::compact())
}

/// Reports whether the preset has calls; such presets skip roles that they do not know.
fn cuts_roles(format: &Format) -> bool {
    format.layout(Slot::AssistantWithCalls).is_some()
}

type Piece = (Option<&'static str>, String);

/// Returns the pieces of each message's turn, including what the format adds before it.
fn parts(prompt: &Prompt, keeps: impl Fn(&Turn) -> bool) -> Vec<(Option<usize>, Vec<Piece>)> {
    let mut parts: Vec<(Option<usize>, Vec<Piece>)> = Vec::new();
    let mut opening: Vec<Piece> = Vec::new();
    for (at, turn) in prompt.turns().iter().enumerate().filter(|(_, turn)| keeps(turn)) {
        let mut pieces = Vec::new();
        for segment in prompt.segments_in(prompt.turn_span(at)) {
            let token = match segment.origin {
                rolecall::Origin::Control(id) => Some(name(&prompt.controls()[id.0])),
                _ => None,
            };
            push(
                &mut pieces,
                (token.as_ref().map(|(key, _)| *key), token.map_or(segment.text.to_owned(), |(_, name)| name)),
            );
        }
        match turn.slot {
            Slot::Begin | Slot::System => pieces.into_iter().for_each(|piece| push(&mut opening, piece)),
            _ => {
                let mut all = std::mem::take(&mut opening);
                pieces.into_iter().for_each(|piece| push(&mut all, piece));
                parts.push((turn.message, all));
            }
        }
    }
    parts
}

fn push(pieces: &mut Vec<Piece>, piece: Piece) {
    match (pieces.last_mut(), &piece) {
        (Some((None, text)), (None, more)) => text.push_str(more),
        _ => pieces.push(piece),
    }
}

fn name(control: &Control) -> (&'static str, String) {
    let name = match control.own {
        Some(BoundaryToken::Bos) => "bos_token",
        Some(BoundaryToken::Eos) => "eos_token",
        None => &control.text,
    };
    ("token", name.to_owned())
}

/// Groups parts into turns: two by two, or up to each answer in a preset with calls.
fn grouped(conversation: &Conversation, parts: Vec<(Option<usize>, Vec<Piece>)>, tools: bool) -> Vec<Vec<Vec<Piece>>> {
    let mut turns: Vec<Vec<Vec<Piece>>> = Vec::new();
    let mut open: Vec<Vec<Piece>> = Vec::new();
    for (message, pieces) in parts {
        open.push(pieces);
        let role = message.and_then(|index| conversation.messages.get(index)).map(|message| message.role_as_spelled());
        let closed = if tools { role == Some("assistant") } else { open.len() == 2 };
        if closed {
            turns.push(std::mem::take(&mut open));
        }
    }
    if !open.is_empty() {
        turns.push(open);
    }
    turns
}

/// Drops what the reference loses: a starter rebuilds the first turn from two parts, a stopper the
/// last one.
fn lossy(mut turns: Vec<Vec<Vec<Piece>>>, format: &Format) -> Vec<Vec<Vec<Piece>>> {
    let starts = format.layout(Slot::Begin).is_some_and(|layout| !layout.ops().is_empty());
    if let (true, Some(first)) = (starts, turns.first_mut()) {
        first.truncate(2);
    }
    if let (true, Some(last)) = (format.layout(Slot::AssistantLast).is_some(), turns.last_mut()) {
        let stopper = ("token", "eos_token".to_owned());
        for part in last.iter_mut() {
            part.retain(|(key, text)| (*key, text.as_str()) != (Some("token"), "eos_token"));
        }
        last.truncate(2);
        if let Some(part) = last.get_mut(1) {
            part.push((Some(stopper.0), stopper.1));
        }
    }
    turns
}

fn as_json(turns: &[Vec<Vec<Piece>>]) -> Json {
    let piece = |(key, text): &Piece| {
        Json::Object([(key.unwrap_or("text").to_owned(), Json::from(text.as_str()))].into_iter().collect())
    };
    let part = |pieces: &Vec<Piece>| Json::Array(pieces.iter().map(piece).collect());
    Json::Array(turns.iter().map(|turn| Json::Array(turn.iter().map(part).collect())).collect())
}

fn label(row: &Object, expected: &Object, options: &Object, format: &Format) -> Result<Verdict, Error> {
    let conversation = read(row, options, false)?;
    let all = options.get("train_on_prompt").and_then(Json::as_bool) == Some(true);
    let policy = if all { LossPolicy::all() } else { LossPolicy::assistant() };
    let wanted = written(expected.get("segments").unwrap_or(&Json::Null));
    let found =
        Writer::format(format.clone(), reference()).render(&conversation).map_err(Error::from).and_then(|prompt| {
            match Writer::format(format.clone(), Options::default())
                .loss(&prompt, &conversation, &[], &policy)
                .map(|loss| loss.ranges())
            {
                Ok(loss) => Ok(written(&Json::Array(labels::of_prompt(&prompt, &loss, name)))),
                // The reference drops a conversation in which nothing carries loss.
                Err(rolecall::render::Error::NoLoss) => Ok("[]".to_owned()),
                Err(error) => Err(error.into()),
            }
        });
    if found.as_ref().is_ok_and(|found| *found == wanted) {
        return Ok(Verdict::Passed);
    }
    if cuts_roles(format) {
        let mut even = conversation.clone();
        let leading = usize::from(even.messages.first().is_some_and(|first| first.role_as_spelled() == "system"));
        even.messages.truncate(even.messages.len() - (even.messages.len() - leading) % 2);
        let plain = format_of_chat(format);
        if written(&as_labels(&heard(&even, &plain)?, all)) == wanted {
            return Ok(Verdict::Excused(if found.is_ok() { TUPLES } else { IGNORED }));
        }
    }
    Ok(Verdict::Failed { expected: wanted, found: found? })
}

/// Returns the preset without the omissions of training.
fn format_of_chat(format: &Format) -> Arc<Format> {
    let mut format = format.clone();
    format.rules.turns = rolecall::format::TurnsRule::Any;
    format.into()
}

/// Labels the turns: the first part of each carries no loss, the others do; everything does if the
/// prompt carries loss.
fn as_labels(turns: &[Vec<Vec<Piece>>], all: bool) -> Json {
    let mut runs: Vec<(Piece, bool)> = Vec::new();
    for part in turns.iter().flat_map(|turn| turn.iter().enumerate()) {
        let (at, pieces) = part;
        for (key, text) in pieces {
            let learned = all || at > 0;
            match runs.last_mut() {
                Some(((None, open), same)) if key.is_none() && *same == learned => open.push_str(text),
                _ => runs.push(((*key, text.clone()), learned)),
            }
        }
    }
    let each = runs.into_iter().map(|((key, text), learned)| {
        let entries = [(key.unwrap_or("text").to_owned(), Json::from(text)), ("loss".to_owned(), Json::from(learned))];
        Json::Object(entries.into_iter().collect())
    });
    Json::Array(each.collect())
}

/// Checks a prompt that the document prints. Where the released code differs from the print, the
/// code wins. Where both exist as data, the print's own template is used.
fn printed(row: &Object, expected: &Object, options: &Object, context: &Context) -> Verdict {
    let template = text(row, "template");
    let names = [format!("lmflow:{template}_document"), format!("lmflow:{template}")];
    let Some(format) = names.iter().find_map(|name| context.registry.get(name)) else {
        return Verdict::Failed { expected: "a format".into(), found: format!("no format `lmflow:{template}`") };
    };
    let bos = Some(text(options, "bos_token")).filter(|bos| !bos.is_empty());
    let format = format.with_own_tokens(bos.as_slice(), Some(text(options, "eos_token")));
    let found = read(row, options, false)
        .and_then(|conversation| Ok(Writer::format(format.clone(), Options::default()).render(&conversation)?));
    let agreement = expected.get("agreement").and_then(Json::as_object);
    let code = agreement.and_then(|agreement| agreement.get("preset_text")).and_then(Json::as_str);
    let wanted = code.filter(|_| !format.name.ends_with("_document")).unwrap_or(text(expected, "text"));
    refusal(expected, found.map(|prompt| Verdict::compare(wanted, prompt.text())))
}
