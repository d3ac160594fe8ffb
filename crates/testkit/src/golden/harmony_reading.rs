//! Parses model output as harmony's own parser does: messages with an author, a recipient, a
//! channel, a content type and a text.
//!
//! An output that its strict parser accepts must give the same messages. One that it refuses must
//! be reported, and its text kept. Where it takes a marker for a recipient or for text, it is
//! wrong, and our reading must be that of the output without the fault.

use std::sync::Arc;

use rolecall::conversation::Json;
use rolecall::conversation::json::{self, Object};
use rolecall::encode::Decoder;
use rolecall::format::{Header, corrections};
use rolecall::infer::infer;
use rolecall::parse::{Malformed, ParseOptions, ParsedCall, Reply};
use rolecall::{Reading, Stop};

use super::harmony_shape::is_read_back;
use super::reading::{read_by, read_on};
use super::{Context, text};
use crate::transcript::{TranscriptPiece, read_pieces};
use crate::{FolderTemplates, Verdict};

/// How replies with headers are parsed, by each template of the family.
#[derive(Default)]
pub(super) struct Replies(Option<Result<Arc<[Known]>, String>>);

/// A template's reply, as text and as ids.
struct Known {
    header: Header,
    by_text: Arc<Reply>,
    by_ids: Arc<Reply>,
    decoder: Arc<Decoder>,
}

impl Replies {
    /// Finds every template that a correction with a header fits.
    fn get(&mut self, folders: &super::Folders) -> Result<Arc<[Known]>, String> {
        let find = || {
            let tokenizers = folders.tokenizers.as_deref().ok_or("no folder of tokenizers (--tokenizers)")?;
            let tokenizer = rolecall::tokenizer::load(&tokenizers.join("gptoss")).map_err(|error| error.to_string())?;
            let decoder = Arc::new(Decoder::new(Arc::from(tokenizer)));
            let templates = folders.templates.as_deref().ok_or("no folder of templates (--templates)")?;
            let mut known = Vec::new();
            for (_, template) in FolderTemplates::read(templates)?.compiled {
                let fitting = corrections().iter().filter(|known| known.identity.fits_template(template.source()));
                let Some(header) = fitting.into_iter().find_map(|known| known.habits.header.clone()) else { continue };
                let (format, _) = infer(&template).format.corrected(template.source());
                known.push(Known {
                    header,
                    by_text: Arc::new(Reply::new(&format)),
                    by_ids: Arc::new(Reply::with_tokens(&format, &decoder.markers())),
                    decoder: Arc::clone(&decoder),
                });
            }
            if known.is_empty() { Err("no template has a header".to_owned()) } else { Ok(known.into()) }
        };
        self.0.get_or_insert_with(find).clone()
    }
}

pub(super) fn run(row: &Object, context: &mut Context) -> Verdict {
    let known = match context.headers.get(&context.folders) {
        Ok(known) => known,
        Err(why) => return Verdict::cannot_run(why),
    };
    let Some(expected) = row.get("expected").and_then(Json::as_object) else {
        return Verdict::cannot_run("the row has no `expected` object");
    };
    let ids = |key: &str| {
        let ids = row.get(key).and_then(Json::as_array)?;
        let id = |id: &Json| match id {
            Json::Number(number) => u32::try_from(number.as_i64()?).ok(),
            _ => None,
        };
        ids.iter().map(id).collect::<Option<Vec<u32>>>()
    };
    let Some(completion) = ids("completion_ids") else { return Verdict::cannot_run("the row has no ids") };
    known.iter().fold(Verdict::Passed, |verdict, known| {
        verdict.and(|| {
            let tail = match ids("prompt_ids").and_then(|prompt| known.decoder.decode(&prompt).ok()) {
                Some(prompt) => String::from_utf8_lossy(&prompt).into_owned(),
                None => format!("{}{}", known.header.start, text(row, "role")),
            };
            judge(known, &tail, &completion, text(row, "text"), expected)
        })
    })
}

fn judge(known: &Known, tail: &str, ids: &[u32], output: &str, expected: &Object) -> Verdict {
    let options = ParseOptions { prompt_tail: tail.to_owned(), ..ParseOptions::default() };
    // Parses the text, split in every way, and the ids.
    let read = match read_by(&known.by_text, &options, output) {
        Ok(read) => read,
        Err(verdict) => return verdict,
    };
    let pieces = ids.iter().map(|id| {
        let bytes = known.decoder.decode(&[*id]).unwrap_or_default();
        match known.decoder.is_marker(*id) {
            true => TranscriptPiece::Control(String::from_utf8_lossy(&bytes).into_owned()),
            false => TranscriptPiece::Bytes(bytes),
        }
    });
    let (by_ids, reading) = read_pieces(&known.by_ids, &options, pieces, Stop::End);
    let misread = |expected: &str| Verdict::Misread {
        expected: expected.to_owned(),
        found: format!("{by_ids}\n as text:\n{}", read.transcript),
        output: output.to_owned(),
    };
    if reading != read.reading {
        return misread("the same from text and from ids");
    }
    let other = |output: String| read_by(&known.by_text, &options, &output).map(|read| read.reading);
    let header = &known.header;
    let verdict = match fault_of(expected, output, header) {
        Fault::None(messages) => {
            is_read_alike(&messages, &reading, header).and_then(|()| is_read_back(&messages, &reading))
        }
        Fault::Refused => is_reported_and_kept(output, &reading, header),
        Fault::Repaired(repaired) => match other(repaired) {
            Ok(other) if same(&other, &reading) && reading.malformed.is_empty() => Ok(()),
            Ok(other) => Err(format!("the same as without the fault: {other:?}")),
            Err(verdict) => return verdict,
        },
    };
    match verdict {
        Ok(()) => Verdict::Passed,
        Err(expected) => misread(&expected),
    }
}

/// How far harmony's own reading can be trusted.
enum Fault {
    /// It is right: these are its messages.
    None(Vec<Object>),
    /// It refuses the output, or reads a marker as a recipient. We report the output and keep its
    /// text.
    Refused,
    /// It is wrong about something harmless. This is the output without it.
    Repaired(String),
}

/// Checks harmony's reading against its own rules: a recipient and a text are never markers, a
/// header may be complete, and white space separates the words of a header.
fn fault_of(expected: &Object, output: &str, header: &Header) -> Fault {
    let opening = format!("{}{}", header.start, header.author);
    if let Some(rest) = output.strip_prefix(&opening) {
        // The role alone stands for this text.
        return Fault::Repaired(rest.to_owned());
    }
    let messages = expected.get("strict").and_then(Json::as_array);
    let Some(messages) = messages else {
        let spaced = format!("{} ", header.channel);
        return match output.contains(&spaced) {
            true => Fault::Repaired(output.replace(&spaced, &header.channel)),
            false => Fault::Refused,
        };
    };
    let mut messages: Vec<Object> = messages.iter().filter_map(Json::as_object).cloned().collect();
    if messages.iter().any(|message| body(message).contains(&header.start)) {
        let end = header.ends.first().map_or("", String::as_str);
        let starts = output.replace(&header.start, &format!("{end}{}", header.start));
        return Fault::Repaired(header.ends.iter().fold(starts, |text, known| {
            text.replace(&format!("{known}{end}{}", header.start), &format!("{known}{}", header.start))
        }));
    }
    for message in &mut messages {
        let recipient = text(message, "recipient").to_owned();
        if [&header.start, &header.channel].into_iter().any(|mark| recipient.contains(mark.as_str())) {
            return Fault::Refused;
        }
        // A word without a marker for recipients before it is a content type.
        if !output.contains(&format!("{}{recipient}", header.recipient)) {
            message.remove("recipient");
        }
    }
    Fault::None(messages)
}

fn body(message: &Object) -> String {
    let parts = message.get("content").and_then(Json::as_array).unwrap_or_default();
    parts.iter().filter_map(Json::as_object).map(|part| text(part, "text")).collect()
}

/// Checks that a reading holds exactly these messages. A call that is not a JSON object must be
/// reported, and its text kept.
fn is_read_alike(messages: &[Object], reading: &Reading, header: &Header) -> Result<(), String> {
    let (mut content, mut reasoning) = (String::new(), String::new());
    let mut calls = Vec::new();
    let mut broken = None;
    for message in messages {
        let (recipient, body) = (text(message, "recipient"), body(message));
        if recipient.is_empty() || header.people.iter().any(|person| person == recipient) {
            match header.reasoning.iter().any(|channel| channel == text(message, "channel")) {
                true => reasoning.push_str(&body),
                false => content.push_str(&body),
            }
        } else if header.code.iter().any(|code| code == recipient) {
            calls.push((String::new(), body));
        } else {
            let name = recipient.strip_prefix(header.functions.as_str()).unwrap_or(recipient);
            // A message without text is a call without arguments.
            let arguments = if body.is_empty() { "{}".to_owned() } else { body };
            if !matches!(json::parse(&arguments), Ok(Json::Object(_))) {
                broken = Some(arguments.clone());
            }
            calls.push((name.to_owned(), arguments));
        }
    }
    let found: Vec<(String, String)> = reading
        .calls
        .iter()
        .map(|call| match call {
            ParsedCall::Function { name, arguments, .. } => (name.clone(), arguments.clone()),
            ParsedCall::Code { code, .. } => (String::new(), code.clone()),
        })
        .collect();
    let is_alike = match &broken {
        // Whatever is not part of the arguments is content.
        Some(arguments) => {
            let said: String = found.last().map(|(_, said)| said.clone()).unwrap_or_default() + &reading.content;
            said.contains(arguments.as_str()) && !reading.malformed.is_empty()
        }
        None => {
            let are_whole = reading.calls.iter().all(|call| match call {
                ParsedCall::Function { whole, .. } | ParsedCall::Code { whole, .. } => *whole,
            });
            // The peer says nothing of reasoning that is open at the end; ours reports it.
            let is_whole = |malformed: &Malformed| malformed.why.code() == "unclosed_reasoning";
            content == reading.content && calls == found && are_whole && reading.malformed.iter().all(is_whole)
        }
    };
    match is_alike && reasoning == reading.reasoning.clone().unwrap_or_default() {
        true => Ok(()),
        false => Err(format!("content {content:?}, reasoning {reasoning:?}, calls {calls:?}")),
    }
}

/// Checks that a refused output is reported and that no text of a message is lost. Only the words
/// of a header that the output cuts off may be missing.
fn is_reported_and_kept(output: &str, reading: &Reading, header: &Header) -> Result<(), String> {
    if reading.malformed.is_empty() {
        return Err("a malformed span".into());
    }
    let content = read_on(output, reading).content;
    let mut kept = format!("{} {content}", reading.reasoning.clone().unwrap_or_default());
    for call in &reading.calls {
        match call {
            ParsedCall::Function { name, arguments, .. } => kept.push_str(&format!(" {name} {arguments}")),
            ParsedCall::Code { code, .. } => kept.push_str(code),
        }
    }
    let mut rest = output;
    let mut is_header = false;
    loop {
        let next = header.marks().filter_map(|mark| Some((rest.find(mark)?, mark))).min();
        let (at, mark) = next.unwrap_or((rest.len(), ""));
        let lost = rest[..at].split_whitespace().find(|word| !is_header && !kept.contains(word));
        if let Some(word) = lost {
            return Err(format!("the text {word:?} somewhere"));
        }
        if mark.is_empty() {
            return Ok(());
        }
        is_header = [&header.start, &header.channel, &header.content_type].into_iter().any(|opens| opens == mark);
        rest = &rest[at + mark.len()..];
    }
}

fn same(one: &Reading, other: &Reading) -> bool {
    let arguments = |reading: &Reading| -> Vec<String> {
        let text = |call: &ParsedCall| match call {
            ParsedCall::Function { name, arguments, .. } => format!("{name} {arguments}"),
            ParsedCall::Code { code, .. } => code.clone(),
        };
        reading.calls.iter().map(text).collect()
    };
    one.content == other.content && one.reasoning == other.reasoning && arguments(one) == arguments(other)
}
