//! Calls of a template that refuses to write one, or offers tools and writes none: the layouts of the
//! shared file whose markers the template or the tokenizer has.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use rolecall_format::{
    CallIds, Control, Field, Format, Op, SHARED_CALL_SLOTS as SLOTS, Slot, load, shared_calls, tags,
};
use rolecall_render::ChatTemplate;

/// Adds the calls of the shared file that has the most markers, all of which the template has or are
/// among the tokens. Returns the name of the file.
pub(crate) fn borrow_calls(template: &ChatTemplate, tokens: &[String], format: &mut Format) -> Option<String> {
    let source = template.source();
    let has = |mark: &str| source.contains(mark) || tokens.iter().any(|token| token == mark);
    let fitting = shared_calls().filter_map(|(_, text)| load(text).ok()).filter_map(|shared| {
        // Turns with calls of a special form belong to the file's own family.
        if shared.layout(Slot::AssistantWithCalls).is_some() {
            return None;
        }
        let literals = literals_of(&shared);
        let marks: BTreeSet<&str> = literals.iter().flat_map(|text| tags(text).map(|span| &text[span])).collect();
        let has_all = !marks.is_empty() && marks.iter().all(|mark| has(mark));
        // The words between them decide between files that have the same markers.
        let rest: Vec<String> = literals.iter().map(|text| without(text, &marks)).collect();
        let words = rest.iter().flat_map(|text| text.split_whitespace());
        let (same, other): (Vec<&str>, Vec<&str>) = words.partition(|word| source.contains(word));
        has_all.then_some((marks.len(), Reverse(other.len()), same.len(), shared))
    });
    let (.., shared) = fitting.max_by_key(|(marks, other, same, _)| (*marks, *other, *same))?;
    let around = with_calls(format, &shared)?;
    let mut layouts: Vec<(Slot, Vec<Op>)> = Vec::new();
    for slot in Slot::ALL.into_iter().filter(|slot| !SLOTS.contains(slot)) {
        layouts.extend(format.layout(slot).map(|layout| (slot, layout.ops().to_vec())));
    }
    layouts.push((Slot::AssistantWithCalls, around));
    for slot in SLOTS {
        layouts.extend(shared.layout(slot).map(|layout| (slot, as_text(layout.ops(), &shared.controls))));
    }
    if format.rules.call_ids == CallIds::Any {
        format.rules.call_ids = shared.rules.call_ids.clone();
    }
    *format = std::mem::take(format).with_layouts(layouts);
    Some(shared.name)
}

/// Returns a text with spaces instead of these markers.
fn without(text: &str, marks: &BTreeSet<&str>) -> String {
    marks.iter().fold(text.to_owned(), |text, mark| text.replace(mark, " "))
}

/// Returns the literal text of a file's calls.
fn literals_of(shared: &Format) -> Vec<String> {
    let layouts = SLOTS.into_iter().filter_map(|slot| shared.layout(slot));
    let ops = layouts.flat_map(|layout| as_text(layout.ops(), &shared.controls));
    ops.filter_map(|op| if let Op::Literal(text) = op { Some(text) } else { None }).collect()
}

/// Returns the template's answer with the calls where the file has them.
fn with_calls(format: &Format, shared: &Format) -> Option<Vec<Op>> {
    let assistant = format.layout(Slot::Assistant)?.ops();
    let is_content = |op: &Op| matches!(op, Op::Hole { field: Field::Content, .. });
    let at = assistant.iter().position(is_content)?;
    let around = as_text(shared.layout(Slot::Assistant)?.ops(), &shared.controls);
    let place = around.iter().position(is_content)?;
    let (before, behind) = (&around[..place], &around[place + 1..]);
    Some([&assistant[..at], before, &assistant[at..=at], behind, &assistant[at + 1..]].concat())
}

/// Returns pieces with control tokens as text, as a template has them.
fn as_text(ops: &[Op], controls: &[Control]) -> Vec<Op> {
    let mut texts: Vec<Op> = Vec::new();
    for op in ops {
        let op = match op {
            Op::Control(id) => Op::Literal(controls[id.0].text.clone()),
            Op::Group(inner) => Op::Group(as_text(inner, controls)),
            other => other.clone(),
        };
        match (texts.last_mut(), op) {
            (Some(Op::Literal(text)), Op::Literal(more)) => text.push_str(&more),
            (_, op) => texts.push(op),
        }
    }
    texts
}
