//! Parses completions by ids, with layouts that are inferred from the templates of their setup, as
//! the peer with loss masks and sessions does.
//!
//! A completion was made from a message, which decides where the two readings differ: arguments of
//! text have the types of the tool, and white space at the ends of a text belongs to the template.
//! A damaged completion has no correct reading. Ids and bytes must give the same result, no word
//! may be lost, and what is broken must be reported.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rolecall::conversation::json::{Layout, Object};
use rolecall::conversation::{Json, Tool, json};
use rolecall::encode::Decoder;
use rolecall::format::write_reply;
use rolecall::infer::infer;
use rolecall::parse::{ParseOptions, ParsedCall, Reply};
use rolecall::roundtrip::same_json;
use rolecall::{Reading, Stop};

use super::reading::read_on;
use super::{Context, text};
use crate::Verdict;
use crate::transcript::{Transcript, TranscriptPiece, read_pieces};

/// The replies by template, special tokens and tokenizer, or the reason why there is none.
#[derive(Default)]
pub(super) struct Replies(HashMap<[String; 4], Result<Known, String>>);

/// A reply, and the decoder of its tokenizer.
#[derive(Clone)]
struct Known {
    reply: Arc<Reply>,
    decoder: Arc<Decoder>,
    /// The words that the layouts write.
    words: Arc<HashSet<String>>,
}

fn known(setup: &Object, template: &str, context: &mut Context) -> Result<Known, String> {
    let [bos, eos, tokenizer] = ["bos_token", "eos_token", "tokenizer"].map(|key| text(setup, key).to_owned());
    let key = [template.to_owned(), bos, eos, tokenizer];
    if let Some(known) = context.id_replies.0.get(&key) {
        return known.clone();
    }
    let [_, bos, eos, tokenizer] = &key;
    let mut make = || {
        let tokenizer = context.recipes.tokenizer(tokenizer, context.folders.tokenizers.as_deref())?;
        let folder = context.folders.templates.clone().ok_or("no folder of templates (--templates)")?;
        let tokens = [("bos_token", bos), ("eos_token", eos)];
        let tokens = tokens.into_iter().filter(|(_, text)| !text.is_empty());
        let tokens: Vec<_> = tokens.map(|(name, text)| (name.to_owned(), text.clone())).collect();
        let template = context.jinja.template_with(&folder, template, &tokens)?;
        let (format, _) = infer(&template).format.corrected(template.source());
        let decoder = Arc::new(Decoder::new(tokenizer));
        Ok(Known {
            reply: Arc::new(Reply::with_tokens(&format, &decoder.markers())),
            decoder,
            words: Arc::new(words_of(&write_reply(&format))),
        })
    };
    let made = make();
    context.id_replies.0.insert(key, made.clone());
    made
}

fn words_of(text: &str) -> HashSet<String> {
    let text = text.replace("\\n", " ");
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

pub(super) fn run(row: &Object, context: &mut Context) -> Verdict {
    let Some(setup) = context.setups.get(text(row, "setup")) else {
        return Verdict::cannot_run(format!("the row continues an unknown setup `{}`", text(row, "setup")));
    };
    let (Some(completion), Some(prompt)) = (ids(row, "completion_ids"), ids(&setup, "prompt_ids")) else {
        return Verdict::cannot_run("the row or its setup has no ids");
    };
    let expected = row.get("expected").and_then(Json::as_object).and_then(|expected| expected.get("with_prompt"));
    let Some(expected) = expected.and_then(Json::as_object) else {
        return Verdict::cannot_run("the row has no reading with its prompt");
    };
    context.setups.take_message(row);
    let templates = setup.get("templates").and_then(Json::as_array).unwrap_or_default();
    for template in templates.iter().filter_map(Json::as_str) {
        let known = match known(&setup, template, context) {
            Ok(known) => known,
            Err(why) => return Verdict::cannot_run(format!("{template}: {why}")),
        };
        let truth = context.setups.message(row);
        let verdict = judge(row, &setup, &known, (&prompt, &completion), expected, truth.as_deref());
        if verdict != Verdict::Passed {
            return verdict;
        }
    }
    Verdict::Passed
}

fn ids(row: &Object, key: &str) -> Option<Vec<u32>> {
    let id = |id: &Json| match id {
        Json::Number(number) => u32::try_from(number.as_i64()?).ok(),
        _ => None,
    };
    row.get(key).and_then(Json::as_array)?.iter().map(id).collect()
}

fn judge(
    row: &Object,
    setup: &Object,
    known: &Known,
    (prompt, completion): (&[u32], &[u32]),
    expected: &Object,
    truth: Option<&Object>,
) -> Verdict {
    let written = |ids: &[u32]| {
        let bytes = known.decoder.decode(ids).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let tools = setup.get("tools").and_then(Json::as_array).unwrap_or_default();
    let options = ParseOptions {
        tools: tools.iter().filter_map(|tool| Tool::from_json(tool.clone()).ok()).collect(),
        prompt_tail: written(prompt),
        ..ParseOptions::default()
    };
    let kind = text(row, "completion");
    // An engine removes the stop token that only the model's settings name.
    let ids = if kind == "other_stop" { &completion[..completion.len() - 1] } else { completion };
    let stop = if kind == "cut" { Stop::Length } else { Stop::End };
    let (transcript, reading) = read_ids(known, &options, ids, stop, false);
    let (other, _) = read_ids(known, &options, ids, stop, true);
    let misread = |expected: String, found: String| Verdict::Misread { expected, found, output: written(completion) };
    if other != transcript {
        return misread(format!("as by ids:\n{transcript}"), format!("by bytes:\n{other}"));
    }
    let peer = Said::of_peer(expected);
    let found = Said::of_reading(&reading);
    let output = written(ids);
    let verdict = match kind {
        _ if kind.starts_with("malformed") => is_kept(&output, &reading, known),
        // Some prompts open reasoning that the message does not have; the peer's reading has it.
        "cut" => truth
            .map_or(Ok(()), |message| begins(&Said::of_message(message, &output), &found, &reading))
            .or_else(|_| begins(&peer, &found, &reading)),
        _ => {
            let is_right =
                found.means(&peer) || truth.is_some_and(|message| found.means(&Said::of_message(message, &output)));
            // A call that is spelled as JSON never is must be reported, and none of it may be lost.
            let is_broken = kind.starts_with("spelled") && !reading.malformed.is_empty();
            match is_right {
                true => Ok(()),
                false if is_broken => is_kept(&output, &reading, known),
                false => Err(format!("{peer:?}")),
            }
        }
    };
    match verdict {
        Ok(()) => Verdict::Passed,
        Err(_) if is_undeclared(tools, &peer, &reading) => {
            Verdict::Excused("a bare object that names no offered tool is an answer")
        }
        Err(_) if is_draft(&output, &reading, &peer) => Verdict::Excused(
            "a call inside reasoning that is never closed is a draft, unless a correction says otherwise",
        ),
        Err(expected) => misread(expected, format!("{found:?}\n{transcript}")),
    }
}

/// A message: its content, its reasoning and its calls.
#[derive(Debug, Default)]
struct Said {
    content: String,
    reasoning: String,
    calls: Vec<(String, Json)>,
}

impl Said {
    fn of_peer(expected: &Object) -> Said {
        let call = |call: &Json| {
            let call = call.as_object()?;
            Some((text(call, "name").to_owned(), call.get("arguments").cloned().unwrap_or(Json::Null)))
        };
        let calls = expected.get("tool_calls").and_then(Json::as_array).unwrap_or_default();
        Said {
            content: text(expected, "content").to_owned(),
            reasoning: text(expected, "reasoning_content").to_owned(),
            calls: calls.iter().filter_map(call).collect(),
        }
    }

    /// Returns the parts of a message that an output contains. A template may leave the reasoning
    /// out.
    fn of_message(message: &Object, output: &str) -> Said {
        let call = |call: &Json| {
            let function = call.as_object()?.get("function")?.as_object()?;
            let arguments = match function.get("arguments") {
                Some(Json::String(text)) => json::parse(text).ok()?,
                other => other.cloned().unwrap_or(Json::Null),
            };
            Some((text(function, "name").to_owned(), arguments))
        };
        let reasoning = text(message, "reasoning_content");
        let calls = message.get("tool_calls").and_then(Json::as_array).unwrap_or_default();
        let is_written = output.contains(reasoning.get(..reasoning.len().min(8)).unwrap_or(reasoning));
        Said {
            content: text(message, "content").to_owned(),
            reasoning: if is_written { reasoning.to_owned() } else { String::new() },
            calls: calls.iter().filter_map(call).collect(),
        }
    }

    fn of_reading(reading: &Reading) -> Said {
        let call = |call: &ParsedCall| match call {
            ParsedCall::Function { name, arguments, .. } => {
                (name.clone(), json::parse(arguments).unwrap_or_else(|_| Json::from(arguments.as_str())))
            }
            ParsedCall::Code { code, .. } => (String::new(), Json::from(code.as_str())),
        };
        Said {
            content: reading.content.clone(),
            reasoning: reading.reasoning.clone().unwrap_or_default(),
            calls: reading.calls.iter().map(call).collect(),
        }
    }

    /// Reports whether two messages are equal. White space at the ends of texts does not count,
    /// and neither does the spelling of an argument.
    fn means(&self, other: &Said) -> bool {
        // `7.0` is a spelling of 7.
        let plain = |text: &str| text.trim().replace(".0", "");
        plain(&self.content) == plain(&other.content)
            && plain(&self.reasoning) == plain(&other.reasoning)
            && self.calls.len() == other.calls.len()
            && self.calls.iter().zip(&other.calls).all(|(one, other)| one.0 == other.0 && alike(&one.1, &other.1))
    }
}

/// Reports whether two values are equal except for how the model spelled them: a number as `7.0`, a
/// word of Python, a character as an escape, a value of text as JSON.
fn alike(one: &Json, other: &Json) -> bool {
    match (one, other) {
        (Json::Object(one), Json::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, value)| other.get(key).is_some_and(|other| alike(value, other)))
        }
        (Json::Array(one), Json::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other.iter()).all(|(one, other)| alike(one, other))
        }
        _ => same_json(one, other) || plain(one) == plain(other),
    }
}

/// Returns a value as text without its spelling.
fn plain(value: &Json) -> String {
    let text = match value {
        Json::String(text) => text.clone(),
        other => json::write(other, &Layout::compact()),
    };
    let unescaped = json::parse(&format!("\"{text}\"")).ok();
    let text = unescaped.as_ref().and_then(Json::as_str).map_or(text.clone(), str::to_owned);
    match text.parse::<f64>() {
        Ok(number) => number.to_string(),
        Err(_) => match text.as_str() {
            "True" | "False" => text.to_lowercase(),
            "None" => "null".to_owned(),
            _ => text.chars().filter(|character| !character.is_whitespace()).collect(),
        },
    }
}

/// Checks the reading of a message that the engine cut off: complete calls are the message's, the
/// last one may be incomplete and is then reported, and the texts are prefixes.
fn begins(whole: &Said, found: &Said, reading: &Reading) -> Result<(), String> {
    let is_reported = !reading.malformed.is_empty();
    // The last character may be cut off.
    let begins = |part: &str, whole: &str| whole.trim().starts_with(part.trim_end_matches('\u{fffd}').trim());
    let last = found.calls.len().saturating_sub(1);
    let calls = found.calls.iter().zip(&reading.calls).enumerate().all(|(at, ((name, arguments), call))| {
        let is_whole = matches!(call, ParsedCall::Function { whole: true, .. } | ParsedCall::Code { whole: true, .. });
        match whole.calls.get(at) {
            Some(known) if is_whole => known.0 == *name && alike(&known.1, arguments),
            Some(known) => at == last && is_reported && known.0.starts_with(name.as_str()),
            None => false,
        }
    });
    // The text of an incomplete call is content, and is reported.
    let content = begins(&found.content, &whole.content)
        || (is_reported
            && found.content.trim().starts_with(whole.content.trim())
            && found.calls.len() <= whole.calls.len());
    match calls && content && begins(&found.reasoning, &whole.reasoning) {
        true => Ok(()),
        false => Err(format!("the beginning of {whole:?}")),
    }
}

/// Checks that no word of a damaged output is lost: it is in the content, the reasoning or a call,
/// or the layouts write it. Arguments that are not JSON are reported.
fn is_kept(output: &str, reading: &Reading, known: &Known) -> Result<(), String> {
    let content = read_on(output, reading).content;
    let mut kept = format!("{content} {}", reading.reasoning.clone().unwrap_or_default());
    for call in &reading.calls {
        match call {
            ParsedCall::Function { id, name, arguments, whole } => {
                let parsed = json::parse(arguments).ok();
                if (parsed.is_none() || !whole) && reading.malformed.is_empty() {
                    return Err("a report of a broken call".into());
                }
                let unescaped = parsed.map(|value| json::write(&value, &Layout::default())).unwrap_or_default();
                kept.push_str(&format!(" {id} {name} {arguments} {unescaped}"));
            }
            ParsedCall::Code { code, .. } => kept.push_str(code),
        }
    }
    // The words of Python are words of JSON in lowercase.
    let kept = kept.to_lowercase();
    let words = |text: &str| -> Vec<String> {
        text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    let lost =
        words(output).into_iter().find(|word| !kept.contains(&word.to_lowercase()) && !known.words.contains(word));
    match lost {
        // A marker or key that is broken is reported at its place.
        Some(word) if reading.malformed.is_empty() => Err(format!("the word {word:?} somewhere")),
        _ => Ok(()),
    }
}

/// Reports whether a call without a marker names no offered tool.
fn is_undeclared(tools: &[Json], peer: &Said, reading: &Reading) -> bool {
    let offered: Vec<String> =
        tools.iter().filter_map(|tool| Tool::from_json(tool.clone()).ok()).map(|tool| tool.name().to_owned()).collect();
    reading.calls.is_empty()
        && peer.calls.iter().all(|(name, _)| !offered.contains(name) && reading.content.contains(name))
        && !peer.calls.is_empty()
}

/// Reports whether the whole output is reasoning, with the peer's calls in it.
fn is_draft(output: &str, reading: &Reading, peer: &Said) -> bool {
    let reasoning = reading.reasoning.as_deref().unwrap_or_default().trim();
    reading.content.is_empty()
        && reading.calls.is_empty()
        && output.contains(reasoning)
        && !peer.calls.is_empty()
        && peer.calls.iter().all(|(name, _)| reasoning.contains(name.as_str()))
}

/// Parses ids one by one, or byte by byte.
fn read_ids(known: &Known, options: &ParseOptions, ids: &[u32], stop: Stop, by_bytes: bool) -> (Transcript, Reading) {
    let pieces = ids.iter().flat_map(|id| {
        let bytes = known.decoder.decode(&[*id]).unwrap_or_default();
        match known.decoder.is_marker(*id) {
            true => vec![TranscriptPiece::Control(String::from_utf8_lossy(&bytes).into_owned())],
            false if by_bytes => bytes.iter().map(|byte| TranscriptPiece::Bytes(vec![*byte])).collect(),
            false => vec![TranscriptPiece::Bytes(bytes)],
        }
    });
    read_pieces(&known.reply, options, pieces, stop)
}
