//! Renders further conversations through template and layouts, compares them byte for byte, and reads them back.

use std::sync::Arc;

use rolecall_conversation::json::{self, Object};
use rolecall_conversation::{Conversation, Json, Message, Tool, object};
use rolecall_format::{Field, Format};
use rolecall_parse::{ParseOptions, ParsedCall, Reading, Reply, Stop, read};
use rolecall_render::{Options, RuleMode, render};

use crate::arguments::{HARD_STRINGS, kinds};
use crate::found::Found;
use crate::infer::Stages;
use crate::probe::{Probe, Stage, tool};
use crate::report::{Outcome, Part, Report};
use crate::said::{Called, KEYS, NAMES, Said};
use crate::sequence::hole_at;
use crate::value::same;

/// What became of the probes of a part.
#[derive(Clone, Debug, Default)]
struct Tally {
    same: usize,
    read: usize,
    tried: usize,
    first: Option<String>,
    /// The template's line that writes what the layout does not.
    line: Option<u32>,
}

/// The format of what was found, without the parts that could not be verified.
pub(crate) fn settle(probe: &Probe<'_>, mut found: Found, stages: &Stages, report: &mut Report) -> Format {
    let format = found.format();
    let reply = Arc::new(Reply::new(&format));
    let check = |saids: &[(Said, &Stage)]| {
        let mut tally = Tally::default();
        for (said, stage) in saids {
            check(probe, &found, &format, &reply, said, stage, &mut tally);
        }
        tally
    };
    let thinking = stages.thinking(&stages.answer);
    let answers: Vec<(Said, &Stage)> =
        CONTENTS.iter().map(|content| (Said::content(content), &stages.answer)).collect();
    report.set(Part::Content, outcome(&check(&answers)));
    let has = |shape: Option<&crate::found::Shape>, field| {
        shape.is_some_and(|shape| hole_at(&shape.pattern.items, field).is_some())
    };
    let thinks = has(Some(&found.assistant), Field::Reasoning);
    let is_lent = found.lent.is_some();
    if let Some(words) = &found.lent {
        report.set(Part::Reasoning, Outcome::ReadOnly(words.clone()));
    } else if thinks || has(found.with_calls.as_ref(), Field::Reasoning) {
        let thought: Vec<(Said, &Stage)> = CONTENTS
            .iter()
            .zip(THOUGHTS)
            .map(|(content, thought)| (Said::content(content).with_reasoning(thought), &thinking))
            .collect();
        report.set(Part::Reasoning, outcome(&check(&thought)));
    } else {
        report.set(Part::Reasoning, Outcome::Missing("the template writes none".to_owned()));
    }
    let opening = match found.opening.is_empty() {
        true => Outcome::Missing("the prompt for an answer is the same as without".to_owned()),
        false => Outcome::Verified { probes: 1 },
    };
    report.set(Part::Opening, opening);
    if let (Some((stage, base)), Some(calls)) = (&stages.call, &found.calls) {
        let thinking = stages.thinking(stage);
        let with = |calls: Vec<Called>| (Said { calls, ..base.clone() }, stage);
        let one = check(&[
            with(vec![called(0, telling())]),
            with(vec![called(1, Object::new())]),
            with(vec![called(2, few())]),
        ]);
        let arguments: Vec<(Said, &Stage)> = values().map(|arguments| with(vec![called(0, arguments)])).collect();
        let arguments = check(&arguments);
        let content = Said::content(CONTENTS[1]);
        let mut beside = vec![(content.clone().calling(vec![called(1, telling())]), stage)];
        if !is_lent {
            beside.extend([
                (base.clone().with_reasoning(THOUGHTS[0]).calling(vec![called(1, few())]), &thinking),
                (content.with_reasoning(THOUGHTS[1]).calling(vec![called(1, few())]), &thinking),
            ]);
        }
        let mixed = check(&beside);
        if mixed.same < mixed.tried {
            let words = mixed.first.clone().unwrap_or_default();
            let words = format!("beside content or reasoning {} of {} are alike: {words}", mixed.same, mixed.tried);
            report.note(Part::Calls, words, mixed.line);
        }
        let several = check(&[
            with(vec![called(0, few()), called(1, telling())]),
            with(vec![called(2, telling()), called(0, Object::new()), called(1, few())]),
        ]);
        let (one, arguments, several) = (outcome(&one), outcome(&arguments), outcome(&several));
        let has_ids = calls.has(Field::Id);
        let is_lost = matches!(one, Outcome::Missing(_));
        report.set(
            Part::Ids,
            match has_ids {
                true => one.clone(),
                false => Outcome::Missing("the template writes none".to_owned()),
            },
        );
        if !calls.arguments.inexact().is_empty() {
            let words = format!("written otherwise: {}", calls.arguments.inexact().join(", "));
            report.note(Part::Arguments, words, None);
        }
        if report.outcome(Part::ParallelCalls).is_none() {
            report.set(Part::ParallelCalls, several);
        }
        report.set(Part::Arguments, arguments);
        report.set(Part::Calls, one);
        if is_lost {
            found.calls = None;
            found.with_calls = None;
            return found.format();
        }
    }
    format
}

fn outcome(tally: &Tally) -> Outcome {
    let line = tally.line.map_or(String::new(), |line| format!(" (line {line})"));
    let words = tally.first.as_ref().map_or(String::new(), |words| format!("{words}{line}"));
    if tally.tried == 0 {
        Outcome::Missing("the template refuses every probe".to_owned())
    } else if tally.same == tally.tried && tally.read == tally.tried {
        Outcome::Verified { probes: tally.tried }
    } else if tally.read > 0 || tally.same > 0 {
        let (same, read, tried) = (tally.same, tally.read, tally.tried);
        let words = format!("of {tried} probes {same} are written alike and {read} read back: {words}");
        if read > 0 { Outcome::ReadOnly(words) } else { Outcome::WriteOnly(words) }
    } else {
        Outcome::Missing(words)
    }
}

#[expect(clippy::too_many_arguments, reason = "one step of a loop with a context of its own")]
fn check(
    probe: &Probe<'_>,
    found: &Found,
    format: &Format,
    reply: &Arc<Reply>,
    said: &Said,
    stage: &Stage,
    tally: &mut Tally,
) {
    let Ok(turn) = probe.turn(said, stage) else { return };
    tally.tried += 1;
    let written = write(probe, format, said, stage);
    if written.as_deref() == Some(turn.text.as_str()) {
        tally.same += 1;
    } else {
        let (words, from) = difference(&turn.text, written.as_deref().unwrap_or_default());
        if tally.first.is_none() {
            tally.line = probe.line_of(from);
            tally.first = Some(words);
        }
    }
    // What a model writes stands behind what the prompt ends with.
    let (output, tail) = match turn.text.strip_prefix(found.opening.as_str()) {
        Some(output) => (output, found.opening.clone()),
        None => (turn.text.as_str(), String::new()),
    };
    let options = ParseOptions { tools: tools_of(said), prompt_tail: tail, ..ParseOptions::default() };
    let reading = read(reply, options, output, Stop::End);
    match misread(&reading, said) {
        None => tally.read += 1,
        Some(words) => {
            tally.first.get_or_insert(words);
        }
    }
}

/// The tools that the calls of a message fit.
fn tools_of(said: &Said) -> Vec<Tool> {
    let tools = said.calls.iter().filter_map(|call| {
        let kinds = call.arguments.iter().map(|(key, value)| {
            let kind = match value {
                Json::Null => "null",
                Json::Bool(_) => "boolean",
                Json::Number(number) if number.as_i64().is_some() => "integer",
                Json::Number(_) => "number",
                Json::String(_) => "string",
                Json::Array(_) => "array",
                Json::Object(_) => "object",
            };
            (key, kind)
        });
        tool(call.name, &kinds.collect::<Vec<_>>())
    });
    tools.collect()
}

/// The turn as the layouts write it.
fn write(probe: &Probe<'_>, format: &Format, said: &Said, stage: &Stage) -> Option<String> {
    let plain = Stage { parts: false, ..stage.clone() };
    let message = Message::from_object(probe.message(said, &plain)).ok()?;
    let mut conversation = Conversation::new(vec![message]);
    conversation.add_generation_prompt = Some(false);
    let options = Options { rules: RuleMode::Reference, ..Options::default() };
    render(&conversation, format, &options).ok().map(|prompt| prompt.into_text())
}

/// Where two texts part.
fn difference<'t>(template: &'t str, layout: &str) -> (String, &'t str) {
    let common: usize =
        template.chars().zip(layout.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
    let from = |text: &str| text[common..].chars().take(24).collect::<String>();
    let words = format!("the template goes on with {:?}, the layout with {:?}", from(template), from(layout));
    (words, &template[common..])
}

/// What is wrong with a reading. Content and reasoning that a template drops are not missed.
fn misread(reading: &Reading, said: &Said) -> Option<String> {
    let is = |read: &str, said: Option<&str>| read.trim() == said.unwrap_or_default().trim() || read.trim().is_empty();
    if !is(&reading.content, said.content.as_deref()) {
        return Some(format!("the content is read as {:?}", short(&reading.content)));
    }
    if !is(reading.reasoning.as_deref().unwrap_or_default(), said.reasoning.as_deref()) {
        return Some(format!("the reasoning is read as {:?}", short(reading.reasoning.as_deref().unwrap_or_default())));
    }
    if reading.calls.len() != said.calls.len() {
        return Some(format!("{} calls are read, not {}", reading.calls.len(), said.calls.len()));
    }
    for (read, said) in reading.calls.iter().zip(&said.calls) {
        let ParsedCall::Function { name, arguments, .. } = read else { return Some("code is read".to_owned()) };
        if name != said.name {
            return Some(format!("the name is read as {:?}", short(name)));
        }
        let parsed = json::parse(arguments).ok();
        if !parsed.is_some_and(|parsed| same(&parsed, &Json::Object(said.arguments.clone()))) {
            return Some(format!("the arguments are read as {:?}", short(arguments)));
        }
    }
    None
}

fn short(text: &str) -> String {
    text.chars().take(40).collect()
}

const CONTENTS: [&str; 3] =
    ["Trelko uns.", "Ipso fima\n\n  dulu `x` {a: 1}\n```py\ny = [2]\n```\nend", "Größe & 2 < 3 日本 \"q\" \\"];
const THOUGHTS: [&str; 3] = ["Vemik ral.", "First this\n\n- then {that}", "Über 3 < 4"];

fn called(at: usize, arguments: Object) -> Called {
    Called { name: NAMES[at], arguments }
}

/// One argument, and the last key first.
fn few() -> Object {
    object! { KEYS[2] => "Solber pim" }
}

fn telling() -> Object {
    object! { KEYS[2] => "Gerdo", KEYS[0] => "x y", KEYS[1] => "Lanu-3" }
}

/// Arguments of every kind.
fn values() -> impl Iterator<Item = Object> {
    let hard = HARD_STRINGS.into_iter().map(|text| object! { KEYS[0] => text, KEYS[1] => "ok" });
    let others = kinds().into_iter().map(|(_, value)| object! { KEYS[0] => "Mirpo", KEYS[1] => value });
    hard.chain(others)
}
