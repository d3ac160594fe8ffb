//! Renders further conversations through template and layouts, compares them byte for byte, and reads them back.

use std::sync::Arc;

use rolecall_conversation::json::{self, Object};
use rolecall_conversation::{Conversation, Json, Message, Tool, object};
use rolecall_format::{Field, Format};
use rolecall_parse::{ParseOptions, ParsedCall, Reading, Reply, Stop, read};
use rolecall_render::{Options, RuleMode, render};

use crate::arguments::{HARD_STRINGS, kinds};
use crate::calls::Calls;
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

/// What is compared with what.
struct Check<'a> {
    probe: &'a Probe<'a>,
    opening: &'a str,
    format: &'a Format,
    reply: Arc<Reply>,
}

/// The format of what was found, without the calls if these are neither written nor read as they should.
pub(crate) fn settle(probe: &Probe<'_>, mut found: Found, stages: &Stages, report: &mut Report) -> Format {
    let format = found.format();
    let check = Check { probe, opening: &found.opening, format: &format, reply: Arc::new(Reply::new(&format)) };
    check.answers(&found, stages, report);
    let Some((stage, base)) = &stages.call else { return format };
    let Some(calls) = &found.calls else { return format };
    check.calls(calls, stage, base, report);
    check.beside(&found, stage, base, stages, report);
    if matches!(report.outcome(Part::Calls), Some(Outcome::Missing(_))) {
        found.calls = None;
        found.with_calls = None;
        return found.format();
    }
    format
}

impl Check<'_> {
    /// Turns without calls.
    fn answers(&self, found: &Found, stages: &Stages, report: &mut Report) {
        let said = CONTENTS.iter().map(|content| Said::content(content));
        report.set(Part::Content, self.all(said, &stages.answer).outcome());
        let shapes = [Some(&found.assistant), found.with_calls.as_ref()];
        let thinks =
            shapes.into_iter().flatten().any(|shape| hole_at(&shape.pattern.items, Field::Reasoning).is_some());
        let reasoning = match &found.lent {
            Some(words) => Outcome::ReadOnly(words.clone()),
            None if thinks => {
                let said = CONTENTS.iter().zip(THOUGHTS);
                let said = said.map(|(content, thought)| Said::content(content).with_reasoning(thought));
                self.all(said, &stages.thinking(&stages.answer)).outcome()
            }
            None => Outcome::Absent,
        };
        report.set(Part::Reasoning, reasoning);
        let opening = match found.opening.is_empty() {
            true => Outcome::Absent,
            false => Outcome::Verified { probes: 1 },
        };
        report.set(Part::Opening, opening);
    }

    /// Turns of nothing but calls, or of what a turn with calls must have.
    fn calls(&self, calls: &Calls, stage: &Stage, base: &Said, report: &mut Report) {
        let with = |calls: Vec<Called>| Said { calls, ..base.clone() };
        let one = [called(0, telling()), called(1, Object::new()), called(2, few())];
        let one = self.all(one.into_iter().map(|call| with(vec![call])), stage).outcome();
        report.set(Part::Ids, if calls.has(Field::Id) { one.clone() } else { Outcome::Absent });
        report.set(Part::Calls, one);
        let arguments = self.all(values().map(|arguments| with(vec![called(0, arguments)])), stage);
        report.set(Part::Arguments, arguments.outcome());
        let inexact = calls.arguments.inexact();
        if !inexact.is_empty() {
            report.note(Part::Arguments, format!("written otherwise: {}", inexact.join(", ")), arguments.line);
        }
        if report.outcome(Part::ParallelCalls).is_none() {
            let two = with(vec![called(0, few()), called(1, telling())]);
            let three = with(vec![called(2, telling()), called(0, Object::new()), called(1, few())]);
            report.set(Part::ParallelCalls, self.all([two, three].into_iter(), stage).outcome());
        }
    }

    /// A call beside content and reasoning.
    fn beside(&self, found: &Found, stage: &Stage, base: &Said, stages: &Stages, report: &mut Report) {
        let content = Said::content(CONTENTS[1]);
        let mut tally = Tally::default();
        self.add(&content.clone().calling(vec![called(1, telling())]), stage, &mut tally);
        if found.lent.is_none() {
            let thinking = stages.thinking(stage);
            for said in [base.clone().with_reasoning(THOUGHTS[0]), content.with_reasoning(THOUGHTS[1])] {
                self.add(&said.calling(vec![called(1, few())]), &thinking, &mut tally);
            }
        }
        if tally.same < tally.tried {
            let words = tally.first.clone().unwrap_or_default();
            let words = format!("beside content or reasoning {} of {} are alike: {words}", tally.same, tally.tried);
            report.note(Part::Calls, words, tally.line);
        }
    }

    fn all(&self, said: impl Iterator<Item = Said>, stage: &Stage) -> Tally {
        let mut tally = Tally::default();
        said.for_each(|said| self.add(&said, stage, &mut tally));
        tally
    }

    fn add(&self, said: &Said, stage: &Stage, tally: &mut Tally) {
        // What the template refuses says nothing about the layouts.
        let Ok(turn) = self.probe.turn(said, stage) else { return };
        tally.tried += 1;
        let written = write(self.probe, self.format, said, stage);
        if written.as_deref() == Some(turn.text.as_str()) {
            tally.same += 1;
        } else if tally.first.is_none() {
            let (words, from) = difference(&turn.text, written.as_deref().unwrap_or_default());
            tally.line = self.probe.line_of(from);
            tally.first = Some(words);
        }
        // What a model writes stands behind what the prompt ends with.
        let (output, tail) = match turn.text.strip_prefix(self.opening) {
            Some(output) => (output, self.opening.to_owned()),
            None => (turn.text.as_str(), String::new()),
        };
        let options = ParseOptions { tools: tools_of(said), prompt_tail: tail, ..ParseOptions::default() };
        let reading = read(&self.reply, options, output, Stop::End);
        match misread(&reading, said, &turn.text) {
            None => tally.read += 1,
            Some(words) => {
                tally.first.get_or_insert(words);
            }
        }
    }
}

impl Tally {
    fn outcome(&self) -> Outcome {
        let line = self.line.map_or(String::new(), |line| format!(" (line {line})"));
        let words = self.first.as_ref().map_or(String::new(), |words| format!("{words}{line}"));
        let Tally { same, read, tried, .. } = *self;
        if tried == 0 {
            Outcome::Missing("the template refuses every probe".to_owned())
        } else if same == tried && read == tried {
            Outcome::Verified { probes: tried }
        } else if read == 0 && same == 0 {
            Outcome::Missing(words)
        } else {
            let words = format!("of {tried} probes {same} are written alike and {read} read back: {words}");
            if read > 0 { Outcome::ReadOnly(words) } else { Outcome::WriteOnly(words) }
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

/// What is wrong with a reading of what a template wrote. Content and reasoning that the template drops are not missed.
fn misread(reading: &Reading, said: &Said, written: &str) -> Option<String> {
    let is = |read: &str, said: Option<&str>| {
        let (read, said) = (read.trim(), said.unwrap_or_default().trim());
        read == said || (read.is_empty() && !written.contains(said))
    };
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
