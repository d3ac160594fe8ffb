//! The markers that a template writes and that no inferred layout has.

use std::collections::{BTreeSet, HashSet};

use rolecall_format::{Format, Op, Slot, is_clear_tag, tag_length, tags};
use rolecall_render::ChatTemplate;
use rolecall_render::jinja::{NodeContent, Writes};

/// The maximum length of a marker that several literals spell together.
const LONGEST: usize = 64;
/// The most steps from literal to literal in search of the rest of such markers.
const MOST_STEPS: usize = 10_000;

/// Returns the markers in a template's literals that are in none of the layouts.
pub(crate) fn other_marks(template: &ChatTemplate, format: &Format) -> Vec<String> {
    let writes = template.writes().unwrap_or_default();
    let mut marks = BTreeSet::new();
    let mut steps = 0;
    for node in &writes.nodes {
        let NodeContent::Text(text) = &node.written else { continue };
        for span in tags(text) {
            marks.insert(text[span].to_owned());
        }
        // A quoted marker is only mentioned.
        if let Some(open) = text.rfind(['<', '[', '＜']).filter(|open| tag_length(&text[*open..]).is_none()) {
            join(&writes, &node.next, &text[open..], &mut marks, &mut steps);
        }
    }
    let mut known: Vec<String> = format.stops().into_iter().map(str::to_owned).collect();
    for layout in Slot::ALL.into_iter().filter_map(|slot| format.layout(slot)) {
        add_literals(layout.ops(), &mut known);
    }
    let is_single = |mark: &str| is_clear_tag(mark) || !mark.contains(|c: char| c.is_whitespace() || c == '"');
    marks.retain(|mark| {
        is_single(mark) && !mark.contains('`') && !known.iter().any(|text| text.contains(mark.as_str()))
    });
    marks.into_iter().collect()
}

/// Finds the markers that begin with a text and continue in the literals that may follow it.
fn join(writes: &Writes, next: &[u32], begun: &str, marks: &mut BTreeSet<String>, steps: &mut usize) {
    let mut open: Vec<(u32, String)> = next.iter().map(|node| (*node, begun.to_owned())).collect();
    let mut seen: HashSet<(u32, String)> = open.iter().cloned().collect();
    while let Some((at, begun)) = open.pop() {
        *steps += 1;
        let Some(node) = writes.nodes.get(at as usize).filter(|_| *steps <= MOST_STEPS) else { return };
        let more: &str = match &node.written {
            NodeContent::Text(text) => text,
            NodeContent::Nothing => "",
            NodeContent::Role | NodeContent::Variable(_) => continue,
        };
        let close = more.char_indices().find(|(_, character)| ['>', ']', '＞'].contains(character));
        let end = close.map_or(more.len(), |(end, character)| end + character.len_utf8());
        let text = format!("{begun}{}", &more[..end]);
        if text.len() > LONGEST {
            continue;
        }
        if close.is_some() {
            if tag_length(&text) == Some(text.len()) {
                marks.insert(text);
            }
            continue;
        }
        for next in &node.next {
            let step = (*next, text.clone());
            if seen.insert(step.clone()) {
                open.push(step);
            }
        }
    }
}

fn add_literals(ops: &[Op], texts: &mut Vec<String>) {
    for op in ops {
        match op {
            Op::Literal(text) => texts.push(text.clone()),
            Op::Group(inner) => add_literals(inner, texts),
            _ => {}
        }
    }
}
