//! Verification: renders further conversations through the template and the layouts, compares the
//! results byte for byte, and parses them back.

use std::sync::Arc;

use rolecall_conversation::json::{self, Object};
use rolecall_conversation::{Conversation, Json, Message, Tool, object};
use rolecall_format::{Field, Format, Op, Slot};
use rolecall_parse::{ParseOptions, ParsedCall, Reading, Reply, Stop, read};
use rolecall_render::{Options, RuleMode, Writer};
use rolecall_text::common_prefix;

use crate::arguments::{HARD_STRINGS, kinds};
use crate::calls::Calls;
use crate::found::FormatParts;
use crate::probe::{Output, Probe, Stage, tool};
use crate::report::{Outcome, Report, TurnPart};
use crate::said::{KEYS, NAMES, ProbeCall, ProbeMessage, called_before};
use crate::sequence::hole_at;
use crate::stages::Stages;
use crate::value::same;

/// The results of the probes for a part.
#[derive(Clone, Debug, Default)]
struct Tally {
    same: usize,
    read: usize,
    tried: usize,
    first: Option<String>,
    /// The first error in parsing.
    misread: Option<String>,
    /// The first error in parsing that lost a call.
    lost: Option<String>,
    /// The template's line that writes text that the layout does not write.
    line: Option<u32>,
}

/// What is checked against the template.
struct Check<'a> {
    probe: &'a Probe<'a>,
    opening: &'a str,
    writer: Writer,
    reply: Arc<Reply>,
}

/// Verifies the findings and returns their format, without calls if these are neither written nor
/// parsed correctly.
pub(crate) fn settle(probe: &Probe<'_>, mut found: FormatParts, stages: &Stages, report: &mut Report) -> Format {
    let format = found.format();
    let reply = Arc::new(Reply::new(&format));
    let check = Check { probe, opening: &found.opening, writer: writer_of(&format), reply };
    check.answers(&found, stages, report);
    let Some((stage, base)) = &stages.call else { return format };
    let Some(calls) = &found.calls else { return format };
    check.calls(calls, stage, base, report);
    check.beside(&found, stage, base, stages, report);
    if matches!(report.outcome(TurnPart::Calls), Some(Outcome::Missing(_))) {
        found.calls = None;
        found.with_calls = None;
        return found.format();
    }
    format
}

/// Reports whether layouts with added calls parse the answers that the same layouts write and parse without them.
pub(crate) fn reads_answers(format: &Format, added: &Format) -> bool {
    let opening: String =
        format.layout(Slot::Generate).into_iter().flat_map(|layout| layout.ops()).map(text_of).collect();
    let writer = writer_of(format);
    CONTENTS.iter().all(|content| {
        let said = ProbeMessage::content(content);
        let message = object! { "role" => "assistant", "content" => *content };
        let Some(text) = written(&writer, vec![message]) else { return true };
        let is_read = |format: &Format| {
            let reading = read_back(&Arc::new(Reply::new(format)), &opening, &text, any_tool());
            misread(&reading, &said, &text).is_none()
        };
        is_read(added) || !is_read(format)
    })
}

/// Parses a written turn as the model's output, which continues the end of the prompt.
fn read_back(reply: &Arc<Reply>, opening: &str, text: &str, tools: Vec<Tool>) -> Reading {
    let (tail, output) = match text.strip_prefix(opening) {
        Some(output) => (opening, output),
        None => ("", text),
    };
    let options = ParseOptions { tools, prompt_tail: tail.to_owned(), ..ParseOptions::default() };
    read(reply, options, output, Stop::End)
}

/// Returns a tool that an answer does not call.
fn any_tool() -> Vec<Tool> {
    tool(NAMES[0], &[]).into_iter().collect()
}

/// Returns the text of a piece, if it is always the same.
fn text_of(op: &Op) -> &str {
    match op {
        Op::Literal(text) => text,
        _ => "",
    }
}

impl Check<'_> {
    /// Checks turns without calls.
    fn answers(&self, found: &FormatParts, stages: &Stages, report: &mut Report) {
        let mut tally = self.all(CONTENTS.iter().map(|content| ProbeMessage::content(content)), &stages.answer);
        self.add(&ProbeMessage::content(CONTENTS[0]), &stages.answer.with_other_tools(), &mut tally);
        tally.report(TurnPart::Content, report);
        let shapes = [Some(&found.assistant), found.with_calls.as_ref()];
        let thinks =
            shapes.into_iter().flatten().any(|shape| hole_at(shape.pattern.items(), Field::Reasoning).is_some());
        let reasoning = match &found.lent {
            Some(words) => Outcome::ReadOnly(words.clone()),
            None if thinks => {
                let said = CONTENTS.iter().zip(THOUGHTS);
                let said = said.map(|(content, thought)| ProbeMessage::content(content).with_reasoning(thought));
                let stage = stages.thinking(&stages.answer);
                let tally = self.all(said, &stage);
                // The template may refuse reasoning alongside content.
                let alone =
                    || self.all(THOUGHTS.iter().map(|text| ProbeMessage::default().with_reasoning(text)), &stage);
                let mut tally = if tally.tried == 0 { alone() } else { tally };
                let both = ProbeMessage::content(CONTENTS[0]).with_reasoning(THOUGHTS[0]);
                self.add(&both, &stage.with_other_tools(), &mut tally);
                tally.report(TurnPart::Reasoning, report)
            }
            None => Outcome::Absent,
        };
        report.set(TurnPart::Reasoning, reasoning);
        let opening = match found.opening.is_empty() {
            true => Outcome::Absent,
            false => Outcome::Verified { probes: 1 },
        };
        report.set(TurnPart::Opening, opening);
    }

    /// Checks turns with only calls, or with calls and the content that they require.
    fn calls(&self, calls: &Calls, stage: &Stage, base: &ProbeMessage, report: &mut Report) {
        let with = |calls: Vec<ProbeCall>| ProbeMessage { calls, ..base.clone() };
        let one = [called(0, telling()), called(1, Object::new()), called(2, few())];
        let mut one = self.all(one.into_iter().map(|call| with(vec![call])), stage);
        self.add(&with(vec![called(0, few())]), &stage.with_one_tool(), &mut one);
        match calls.has(Field::Id) {
            true => _ = one.report(TurnPart::Ids, report),
            false => report.set(TurnPart::Ids, Outcome::Absent),
        }
        one.report(TurnPart::Calls, report);
        // What stands between two arguments may depend on the name.
        let values = values().enumerate().map(|(at, arguments)| with(vec![called(at % NAMES.len(), arguments)]));
        let arguments = self.all(values, stage);
        arguments.report(TurnPart::Arguments, report);
        let inexact = calls.arguments.inexact();
        if !inexact.is_empty() {
            report.note(TurnPart::Arguments, format!("written differently: {}", inexact.join(", ")), arguments.line);
        }
        if report.outcome(TurnPart::ParallelCalls).is_none() {
            let two = with(vec![called(0, few()), called(1, telling())]);
            let three = with(vec![called(2, telling()), called(0, Object::new()), called(1, few())]);
            self.all([two, three].into_iter(), stage).report(TurnPart::ParallelCalls, report);
        }
    }

    /// Checks a call alongside content and reasoning.
    fn beside(&self, found: &FormatParts, stage: &Stage, base: &ProbeMessage, stages: &Stages, report: &mut Report) {
        let content = ProbeMessage::content(CONTENTS[1]);
        let mut tally = Tally::default();
        self.add(&content.clone().calling(vec![called(1, telling())]), stage, &mut tally);
        if found.lent.is_none() {
            let thinking = stages.thinking(stage);
            for said in [base.clone().with_reasoning(THOUGHTS[0]), content.with_reasoning(THOUGHTS[1])] {
                self.add(&said.calling(vec![called(1, few())]), &thinking, &mut tally);
            }
        }
        self.later(stage, base, report);
        if tally.same < tally.tried {
            let words = tally.first.clone().unwrap_or_default();
            let words = format!("with content or reasoning, {} of {} are identical: {words}", tally.same, tally.tried);
            report.note(TurnPart::Calls, words, tally.line);
        }
        if tally.read < tally.tried {
            let words = tally.misread.clone().unwrap_or_default();
            let read = format!("with content or reasoning, {} of {} are parsed back: {words}", tally.read, tally.tried);
            report.unread_beside = tally.lost.is_some().then(|| read.clone());
            report.note(TurnPart::Calls, read, None);
        }
    }

    /// Checks a call in a later turn, after an earlier turn with a call.
    fn later(&self, stage: &Stage, base: &ProbeMessage, report: &mut Report) {
        let earlier = base.clone().calling(called_before());
        let said = base.clone().calling(vec![called(0, few()), called(1, telling())]);
        // A template may refuse such a conversation, or several calls.
        let Ok(turn) = self.probe.later(&earlier, &said, stage) else { return };
        let messages = [&earlier, &said].map(|said| self.probe.message(said, &plain(stage)));
        let written = |count: usize| written(&self.writer, messages[..count].to_vec());
        let own = written(2).zip(written(1)).and_then(|(both, first)| both.strip_prefix(&first).map(str::to_owned));
        let own = own.unwrap_or_default();
        if own != turn.text
            && report.outcome(TurnPart::ParallelCalls).is_some_and(|known| matches!(known, Outcome::Verified { .. }))
        {
            let (words, from) = difference(&turn.text, &own);
            report.note(TurnPart::Calls, format!("in a later turn, {words}"), self.probe.line_of(from));
        }
    }

    fn all(&self, said: impl Iterator<Item = ProbeMessage>, stage: &Stage) -> Tally {
        let mut tally = Tally::default();
        said.for_each(|said| self.add(&said, stage, &mut tally));
        tally
    }

    fn add(&self, said: &ProbeMessage, stage: &Stage, tally: &mut Tally) {
        // A probe that the template refuses says nothing about the layouts.
        let Ok((turn, output)) = self.probe.turn_and_output(said, stage) else { return };
        tally.tried += 1;
        let written = written(&self.writer, vec![self.probe.message(said, &plain(stage))]);
        if written.as_deref() == Some(turn.text.as_str()) {
            tally.same += 1;
        } else if tally.first.is_none() {
            let (words, from) = difference(&turn.text, written.as_deref().unwrap_or_default());
            tally.line = self.probe.line_of(from);
            tally.first = Some(words);
        }
        let judged =
            |reading: Reading, text: &str| misread(&reading, said, text).map(|words| (words, reading.calls.len()));
        let read_with = |tools| judged(read_back(&self.reply, self.opening, &turn.text, tools), &turn.text);
        let offered = tools_of(said);
        // An answer may come although a tool is offered, which some markers need.
        let with_any = || if said.calls.is_empty() { read_with(any_tool()) } else { None };
        // A prompt may end otherwise than the layouts open a reply.
        let after_prompt = || {
            let Output { prompt, text } = output.as_ref()?;
            let tools = if said.calls.is_empty() { any_tool() } else { tools_of(said) };
            let options = ParseOptions { tools, prompt_tail: prompt.to_string(), ..ParseOptions::default() };
            judged(read(&self.reply, options, text, Stop::End), text)
        };
        match read_with(offered).or_else(with_any).or_else(after_prompt) {
            None => tally.read += 1,
            Some((words, calls)) => {
                if calls < said.calls.len() {
                    tally.lost.get_or_insert(words.clone());
                }
                tally.misread.get_or_insert(words.clone());
                tally.first.get_or_insert(words);
            }
        }
    }
}

impl Tally {
    /// Reports the outcome of a part, and returns it.
    fn report(&self, part: TurnPart, report: &mut Report) -> Outcome {
        if self.tried > 0 && self.read == self.tried {
            report.read_back.push(part);
        }
        report.set(part, self.outcome());
        self.outcome()
    }

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
            let words =
                format!("of {tried} probes, {same} are written identically and {read} are parsed back: {words}");
            if read > 0 { Outcome::ReadOnly(words) } else { Outcome::WriteOnly(words) }
        }
    }
}

/// Returns tools whose schemas match the calls of a message.
fn tools_of(said: &ProbeMessage) -> Vec<Tool> {
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

fn plain(stage: &Stage) -> Stage {
    Stage { parts: false, ..stage.clone() }
}

fn writer_of(format: &Format) -> Writer {
    Writer::format(format.clone(), Options { rules: RuleMode::Reference, ..Options::default() })
}

/// Writes turns with the layouts.
fn written(writer: &Writer, messages: Vec<Object>) -> Option<String> {
    let messages = messages.into_iter().map(Message::from_object).collect::<Result<Vec<_>, _>>().ok()?;
    let mut conversation = Conversation::new(messages);
    conversation.add_generation_prompt = Some(false);
    writer.render(&conversation).ok().map(|prompt| prompt.into_text())
}

/// Describes where two texts differ.
fn difference<'t>(template: &'t str, layout: &str) -> (String, &'t str) {
    let common = common_prefix(template, layout);
    let from = |text: &str| text[common..].chars().take(24).collect::<String>();
    let words = format!("the template continues with {:?}, the layout with {:?}", from(template), from(layout));
    (words, &template[common..])
}

/// Returns the mistake, if there is one, in parsing what a template wrote. Content, reasoning and
/// calls that the template drops do not count as missing.
fn misread(reading: &Reading, said: &ProbeMessage, written: &str) -> Option<String> {
    let is = |read: &str, said: Option<&str>| {
        let (read, said) = (read.trim(), said.unwrap_or_default().trim());
        read == said || (read.is_empty() && !written.contains(said))
    };
    if !is(&reading.content, said.content.as_deref()) {
        return Some(format!("the content is parsed as {:?}", short(&reading.content)));
    }
    if !is(reading.reasoning.as_deref().unwrap_or_default(), said.reasoning.as_deref()) {
        return Some(format!(
            "the reasoning is parsed as {:?}",
            short(reading.reasoning.as_deref().unwrap_or_default())
        ));
    }
    let is_written = |call: &&ProbeCall| written.contains(call.name);
    let calls: Vec<&ProbeCall> = said.calls.iter().filter(is_written).collect();
    if reading.calls.len() != calls.len() {
        return Some(format!("parsed {} calls, expected {}", reading.calls.len(), calls.len()));
    }
    for (read, said) in reading.calls.iter().zip(calls) {
        let ParsedCall::Function { name, arguments, .. } = read else { return Some("found code".to_owned()) };
        if name != said.name {
            return Some(format!("the name is parsed as {:?}", short(name)));
        }
        let parsed = json::parse(arguments).ok();
        // Arguments that the template drops are not missing.
        let kept = said.arguments.iter().filter(|(key, _)| written.contains(*key));
        let kept: Object = kept.map(|(key, value)| (key.to_owned(), value.clone())).collect();
        if !parsed.is_some_and(|parsed| same(&parsed, &Json::Object(kept))) {
            return Some(format!("the arguments are parsed as {:?}", short(arguments)));
        }
    }
    None
}

fn short(text: &str) -> String {
    text.chars().take(40).collect()
}

const CONTENTS: [&str; 3] = [
    "Trelko, uns: vi (ko); da!",
    "Ipso fima\n\n  dulu `x` {a: 1}\n```py\ny = [2]\n```\nend",
    "Größe & 2 < 3 日本 \"q\" \\",
];
const THOUGHTS: [&str; 3] = ["Vemik ral.", "First this\n\n- then {that}", "Über 3 < 4"];

fn called(at: usize, arguments: Object) -> ProbeCall {
    ProbeCall { name: NAMES[at], arguments }
}

/// Returns arguments with only one key, the last one.
fn few() -> Object {
    object! { KEYS[2] => "Solber pim" }
}

fn telling() -> Object {
    object! { KEYS[2] => "Gerdo", KEYS[0] => "x y", KEYS[1] => "Lanu-3" }
}

/// Returns arguments with values of every kind.
fn values() -> impl Iterator<Item = Object> {
    let hard = HARD_STRINGS.into_iter().map(|text| object! { KEYS[0] => text, KEYS[1] => "ok" });
    let others = kinds().into_iter().map(|(_, value)| object! { KEYS[0] => "Mirpo", KEYS[1] => value });
    hard.chain(others)
}
