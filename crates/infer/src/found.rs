//! The results of inferring a template, and their conversion to a format.

use std::sync::Arc;

use rolecall_format::codec::call::{Keys, Style};
use rolecall_format::codec::kinds::Words;
use rolecall_format::codec::{Count, JsonStyle};
use rolecall_format::{CallIds, Codec, Field, Format, FormatPart, Op, Slot};

use crate::arguments::{Arguments, argument};
use crate::calls::Calls;
use crate::pattern::{Pattern, ops};
use crate::sequence::{Item, items};

/// The pattern of a turn, and whether its texts are trimmed.
#[derive(Clone, Debug, Default)]
pub(crate) struct TurnShape {
    pub pattern: Pattern,
    /// Whether whitespace at the ends of the content is stripped, and the same for the reasoning.
    pub trims: (bool, bool),
}

/// The parts of an inferred format.
#[derive(Clone, Debug, Default)]
pub(crate) struct FormatParts {
    pub opening: String,
    pub assistant: TurnShape,
    pub with_calls: Option<TurnShape>,
    pub calls: Option<Calls>,
    pub stops: Vec<String>,
    pub call_ids: CallIds,
    /// Why the layouts contain reasoning that the template does not write in every turn, or never
    /// writes.
    pub lent: Option<String>,
    /// Whether the template refuses more than one call.
    pub one_call: bool,
}

impl TurnShape {
    fn ops(&self) -> Vec<Op> {
        let codec = |field: Field| match field {
            Field::Content if self.trims.0 => Codec::Trim,
            Field::Reasoning if self.trims.1 => Codec::Trim,
            _ => Codec::Text,
        };
        self.pattern.ops(&codec)
    }
}

impl FormatParts {
    /// Returns the format with these layouts.
    pub fn format(&self) -> Format {
        let text = |_: Field| Codec::Text;
        let mut layouts: Vec<(Slot, Vec<Op>)> = Vec::new();
        let assistant = self.assistant.ops();
        match (&self.with_calls, &self.calls) {
            (Some(with_calls), Some(calls)) => {
                let with_calls = with_calls.ops();
                let without: Vec<Op> = merged(with_calls.iter().filter(|op| !is_calls(op)).cloned());
                if without == assistant {
                    layouts.push((Slot::Assistant, with_calls));
                } else {
                    layouts.push((Slot::Assistant, assistant));
                    layouts.push((Slot::AssistantWithCalls, with_calls));
                }
                push_calls(calls, &mut layouts);
            }
            _ => layouts.push((Slot::Assistant, assistant)),
        }
        layouts.push((Slot::Generate, ops(&items(&self.opening), &text)));
        let mut format = Format::new("inferred");
        format.title = "inferred from a chat template".to_owned();
        format.part = FormatPart::Reply;
        format.rules.call_ids = self.call_ids.clone();
        format.rules.max_calls = self.one_call.then_some(1);
        let mut generation = (*format.generation).clone();
        generation.stop.clone_from(&self.stops);
        format.generation = Arc::new(generation);
        format.with_layouts(layouts)
    }
}

fn is_calls(op: &Op) -> bool {
    matches!(op, Op::Hole { field: Field::Calls, .. })
}

/// Joins adjacent literals.
fn merged(ops: impl Iterator<Item = Op>) -> Vec<Op> {
    let mut merged: Vec<Op> = Vec::new();
    for op in ops {
        match (merged.last_mut(), op) {
            (Some(Op::Literal(text)), Op::Literal(more)) => text.push_str(&more),
            (_, op) => merged.push(op),
        }
    }
    merged
}

fn push_calls(calls: &Calls, layouts: &mut Vec<(Slot, Vec<Op>)>) {
    let row = &calls.row;
    let plain_count = Count { first: 0, over_conversation: false };
    let codec = |field: Field| match (field, &calls.arguments) {
        (Field::Arguments, Arguments::Whole { codec, .. }) => codec.clone(),
        (Field::Index, _) if calls.count != plain_count => Codec::From(calls.count),
        _ => Codec::Text,
    };
    if !(row.open.is_empty() && row.close.is_empty() && calls.late.is_empty()) {
        let around = [row.open.as_slice(), &[Item::Hole(Field::Calls)], &row.close, &calls.late].concat();
        layouts.push((Slot::Calls, ops(&around, &codec)));
    }
    let call = ops(&calls.call(), &codec);
    layouts.push((Slot::Call, as_object(&call).unwrap_or(call)));
    if !row.separator.is_empty() {
        layouts.push((Slot::CallSeparator, ops(&row.separator, &codec)));
    }
    let Arguments::Each(each) = &calls.arguments else { return };
    let of = |middle: &[Item], suffix: &[Item], codec: &Codec| {
        let codec = |field: Field| match (field, &each.words) {
            (Field::Value, _) => codec.clone(),
            (Field::Type, Some(words)) if *words != Words::default() => Codec::Kinds(words.clone()),
            _ => Codec::Text,
        };
        ops(&argument(&each.row.prefix, middle, suffix), &codec)
    };
    let string = of(&each.middle, &each.row.suffix, &each.string);
    match &each.other {
        Some((middle, suffix, codec)) => {
            let other = of(middle, suffix, codec);
            let is_own = other != string;
            layouts.push((Slot::Argument, other));
            if is_own {
                layouts.push((Slot::ArgumentString, string));
            }
        }
        None => layouts.push((Slot::Argument, string)),
    }
    if !each.row.separator.is_empty() {
        layouts.push((Slot::ArgumentSeparator, ops(&each.row.separator, &codec)));
    }
}

/// Converts a call to the codec for whole calls, if its literal text and holes are what that codec
/// prints.
fn as_object(call: &[Op]) -> Option<Vec<Op>> {
    let [Op::Literal(before), name, Op::Literal(between), arguments, Op::Literal(behind)] = call else { return None };
    let is_text = matches!(name, Op::Hole { field: Field::Name, codec: Codec::Text, .. });
    let is_plain = matches!(arguments, Op::Hole { field: Field::Arguments, codec: Codec::Json(style), .. } if *style == JsonStyle::PLAIN);
    if !(is_text && is_plain) {
        return None;
    }
    let (open, key) = before.strip_suffix("\": \"")?.rsplit_once("{\"")?;
    let arguments = between.strip_prefix("\", \"")?.strip_suffix("\": ")?;
    let close = behind.strip_prefix('}')?;
    let keys = Keys::new(key, arguments, Style::AsGiven)?;
    let literal = |text: &str| (!text.is_empty()).then(|| Op::Literal(text.to_owned()));
    let hole = Op::hole(Field::Call, Codec::Call(keys));
    Some([literal(open), Some(hole), literal(close)].into_iter().flatten().collect())
}
