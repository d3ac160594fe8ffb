//! Shared parts of the comparisons with makers' own programs: which format reads a reply, what
//! counts as equal, and what must hold if a strict parser refuses it.

use std::collections::HashMap;
use std::sync::Arc;

use rolecall::Reading;
use rolecall::conversation::json::{Layout, Object};
use rolecall::conversation::{Conversation, Json, json};
use rolecall::format::{Field, Format, Op, Slot, reply_format};
use rolecall::parse::{JsonPolicy, ParseOptions, ParsedCall, TextAfterCalls};
use rolecall::render::{Options, Writer};
use rolecall::roundtrip::same_json;

use super::reading::read_on;
use super::text;

/// The built-in reply formats by name, loaded once.
#[derive(Default)]
pub(super) struct ReplyFormats(HashMap<String, Option<Arc<Format>>>);

impl ReplyFormats {
    /// Returns the reply format with this name or alias.
    pub fn get(&mut self, name: &str) -> Result<Arc<Format>, String> {
        let load = || reply_format(name).cloned();
        let format = self.0.entry(name.to_owned()).or_insert_with(load).clone();
        format.ok_or_else(|| format!("no reply format `{name}`"))
    }
}

/// Returns the policies that are as strict as a maker's own parser.
pub(super) fn strictly(prompt_tail: String) -> ParseOptions {
    ParseOptions {
        prompt_tail,
        json: JsonPolicy::Strict,
        text_after_calls: TextAfterCalls::Report,
        ..ParseOptions::default()
    }
}

/// Returns the end of the prompt of a reply format: what its layout `generate` writes, with the
/// option that opens the reply at the value for a model that reasons or does not. The value that
/// opens reasoning is the one that the assistant's layout has before its reasoning.
pub(super) fn tail(format: &Format, thinks: bool) -> Result<String, String> {
    let before =
        format.layout(Slot::Assistant).map(|layout| before_reasoning(format, layout.ops())).unwrap_or_default();
    let mut options = Options::default();
    for choice in &format.choices {
        let opens = |value: &&String| before.ends_with(value.as_str());
        let value = choice.values.iter().find(|value| !value.is_empty() && opens(value) == thinks);
        let value = value.ok_or_else(|| format!("no value of `{}` for a model that reasons: {thinks}", choice.name))?;
        options.choices.push((choice.name.clone(), value.clone()));
    }
    let mut alone = Conversation::new(Vec::new());
    alone.add_generation_prompt = Some(true);
    Writer::format(format.clone(), options.clone())
        .render(&alone)
        .map(|prompt| prompt.text().to_owned())
        .map_err(|error| error.to_string())
}

/// Returns the literal text before the reasoning.
fn before_reasoning(format: &Format, ops: &[Op]) -> String {
    let mut before = String::new();
    for op in ops {
        match op {
            Op::Literal(text) => before.push_str(text),
            Op::Control(id) => before.push_str(&format.control(*id).text),
            Op::Group(inner) => {
                let within = before_reasoning(format, inner);
                if inner.iter().any(|op| matches!(op, Op::Hole { field: Field::Reasoning, .. })) {
                    return before + &within;
                }
            }
            Op::Hole { field: Field::Reasoning, .. } => return before,
            _ => {}
        }
    }
    before
}

/// The parts of a reply, in a shape that all references share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    pub content: String,
    pub reasoning: String,
    pub calls: Vec<SaidCall>,
}

/// A call with all its arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SaidCall {
    pub name: String,
    pub id: Option<String>,
    pub arguments: String,
}

impl Said {
    /// Returns the parts of a reading. A call that is cut off does not count.
    pub fn of_reading(reading: &Reading) -> Said {
        let call = |call: &ParsedCall| match call {
            ParsedCall::Function { name, id, arguments, whole, .. } if *whole => {
                Some(SaidCall { name: name.clone(), id: Some(id.clone()), arguments: arguments.clone() })
            }
            _ => None,
        };
        Said {
            content: reading.content.clone(),
            reasoning: reading.reasoning.clone().unwrap_or_default(),
            calls: reading.calls.iter().filter_map(call).collect(),
        }
    }

    /// Returns the parts of a reference's message, whose calls may be wrapped in `function`, and
    /// whose content may be text or a list of parts.
    pub fn of_message(message: &Object) -> Said {
        let mut said = Said { reasoning: text(message, "reasoning_content").to_owned(), ..Said::default() };
        match message.get("content") {
            Some(Json::String(content)) => said.content = content.clone(),
            Some(Json::Array(parts)) => {
                for part in parts.iter().filter_map(Json::as_object) {
                    said.content.push_str(text(part, "text"));
                    said.reasoning.push_str(text(part, "thinking"));
                }
            }
            _ => {}
        }
        let calls = message.get("tool_calls").and_then(Json::as_array).unwrap_or_default();
        said.calls = calls.iter().filter_map(Json::as_object).map(SaidCall::of_json).collect();
        said
    }

    /// Reports whether two replies have the same texts and calls.
    pub fn means(&self, other: &Said) -> bool {
        self.content == other.content && self.reasoning == other.reasoning && self.calls_equal(other)
    }

    fn calls_equal(&self, other: &Said) -> bool {
        let same = |(one, other): (&SaidCall, &SaidCall)| one.means(other);
        self.calls.len() == other.calls.len() && self.calls.iter().zip(&other.calls).all(same)
    }
}

impl SaidCall {
    fn of_json(call: &Object) -> SaidCall {
        let function = call.get("function").and_then(Json::as_object).unwrap_or(call);
        // A default id is given as the text `null`.
        let id = Some(text(call, "id")).filter(|id| !id.is_empty() && *id != "null");
        SaidCall {
            name: text(function, "name").to_owned(),
            id: id.map(str::to_owned),
            arguments: text(function, "arguments").to_owned(),
        }
    }

    /// Compares names without the white space around them, arguments as JSON values, and ids if
    /// both calls have one.
    pub fn means(&self, other: &SaidCall) -> bool {
        let ids = self.id.as_ref().zip(other.id.as_ref());
        self.name.trim() == other.name.trim()
            && same_arguments(&self.arguments, &other.arguments)
            && ids.is_none_or(|(one, other)| one == other)
    }
}

/// Reports whether two texts are the same JSON value.
pub(super) fn same_arguments(one: &str, other: &str) -> bool {
    match (json::parse(one), json::parse(other)) {
        (Ok(one), Ok(other)) => same_json(&one, &other),
        _ => false,
    }
}

/// Reports whether no part of an output is lost. White space does not count, nor do the format's
/// markers, in the output or in a text.
///
/// The content and the reasoning are in the output, each in its order. Without calls, they are all
/// of it; with calls, each name is there too.
pub(super) fn is_all_said(output: &str, reading: &Reading, format: &Format) -> bool {
    let layouts = Slot::ALL.into_iter().filter_map(|slot| format.layout(slot));
    let mut marks: Vec<String> = layouts.flat_map(|layout| literals(format, layout.ops())).collect();
    marks.sort_by_key(|mark| std::cmp::Reverse(mark.len()));
    let bare = |text: &str| {
        let bare = marks.iter().fold(text.to_owned(), |text, mark| text.replace(mark, ""));
        bare.chars().filter(|character| !character.is_whitespace()).collect::<String>()
    };
    let (output, content) = (bare(output), bare(&read_on(output, reading).content));
    let reasoning = bare(reading.reasoning.as_deref().unwrap_or_default());
    let mut names = reading.calls.iter().map(|call| match call {
        ParsedCall::Function { name, .. } => bare(name),
        ParsedCall::Code { code, .. } => bare(code),
    });
    if !reading.calls.is_empty() {
        return is_within(&content, &output)
            && is_within(&reasoning, &output)
            && names.all(|name| output.contains(&name));
    }
    let sorted = |text: String| {
        let mut characters: Vec<char> = text.chars().collect();
        characters.sort_unstable();
        characters
    };
    is_within(&content, &output)
        && is_within(&reasoning, &output)
        && sorted(output) == sorted(format!("{content}{reasoning}"))
}

/// Reports whether the characters of a text are in another one, in the same order.
fn is_within(text: &str, whole: &str) -> bool {
    let mut rest = whole.chars();
    text.chars().all(|character| rest.any(|found| found == character))
}

/// Returns the literal texts of a layout, without white space around them.
fn literals(format: &Format, ops: &[Op]) -> Vec<String> {
    let each = ops.iter().flat_map(|op| match op {
        Op::Literal(text) => vec![text.trim().to_owned()],
        Op::Control(id) => vec![format.control(*id).text.clone()],
        Op::Group(inner) => literals(format, inner),
        _ => Vec::new(),
    });
    each.filter(|text| !text.is_empty()).collect()
}

pub(super) fn written(said: &Said) -> String {
    let calls = said.calls.iter().map(|call| format!("{}({})", call.name, call.arguments)).collect::<Vec<_>>();
    let quoted = |text: &str| json::write(&Json::from(text), &Layout::compact());
    format!("content {}, reasoning {}, calls [{}]", quoted(&said.content), quoted(&said.reasoning), calls.join(", "))
}
