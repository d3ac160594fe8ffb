//! Inference of a turn's layout from the same turn with and without each of its values.

use std::ops::Range;

use rolecall_format::Field;

use crate::optional::{Presence, presence};
use crate::report::{Report, part_of};
use crate::sequence::{Item, hole_at};

/// The items of a turn, and the groups of items that depend on a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pattern {
    pub items: Vec<Item>,
    pub groups: Vec<Range<usize>>,
}

/// The same turn with and without content and reasoning.
#[derive(Clone, Debug, Default)]
pub(crate) struct Forms {
    pub neither: Option<Vec<Item>>,
    pub content: Option<Vec<Item>>,
    pub reasoning: Option<Vec<Item>>,
    pub both: Option<Vec<Item>>,
}

/// Returns the pattern that covers these forms, as far as possible. `preferred` is where the turn
/// begins after the generation prompt.
pub(crate) fn pattern(forms: &Forms, preferred: usize, report: &mut Report) -> Option<Pattern> {
    let with = |form: &Option<Vec<Item>>, fields: &[Field]| {
        form.clone().filter(|items| fields.iter().all(|field| hole_at(items, *field).is_some()))
    };
    let both = with(&forms.both, &[Field::Content, Field::Reasoning]);
    let content = with(&forms.content, &[Field::Content]);
    let reasoning = with(&forms.reasoning, &[Field::Reasoning]);
    // If the template omits the content, the turn with content is also the turn without it.
    let neither = forms.neither.clone().or_else(|| forms.content.clone().filter(|_| content.is_none()));
    let (full, others) = match (both, content, reasoning) {
        (Some(both), content, reasoning) => (both, [(Field::Reasoning, content), (Field::Content, reasoning)]),
        (None, Some(content), Some(reasoning)) => {
            match neither.as_ref().and_then(|neither| joined(&content, &reasoning, neither, preferred)) {
                Some(joined) => (joined, [(Field::Reasoning, Some(content)), (Field::Content, Some(reasoning))]),
                None => {
                    report.note(
                        part_of(Field::Content),
                        "content and reasoning are written the same way, or never together",
                        None,
                    );
                    (reasoning, [(Field::Reasoning, neither), (Field::Content, None)])
                }
            }
        }
        (None, Some(content), None) => (content, [(Field::Content, neither), (Field::Reasoning, None)]),
        (None, None, Some(reasoning)) => (reasoning, [(Field::Reasoning, neither), (Field::Content, None)]),
        (None, None, None) => return neither.map(|items| Pattern { items, groups: Vec::new() }),
    };
    let mut groups: Vec<Range<usize>> = Vec::new();
    for (field, without) in others {
        let Some(without) = without else { continue };
        let group = match presence(&full, field, &without, preferred) {
            None | Some(Presence::Alone) => continue,
            Some(Presence::AloneButSpaces) => {
                report.note(part_of(field), "without a value, the whitespace differs", None);
                continue;
            }
            Some(Presence::Group(group)) => group,
            Some(Presence::Replaced(group)) => {
                report.note(part_of(field), "without a value, other text takes its place", None);
                group
            }
        };
        if groups.iter().all(|other| group.end <= other.start || other.end <= group.start) {
            groups.push(group);
        } else if !(field == Field::Content && hole_at(&full, Field::Calls).is_none()) {
            // An entirely empty turn is not worth a note.
            report.note(part_of(field), "its surrounding text cannot be separated from that of another value", None);
        }
    }
    groups.sort_by_key(|group| group.start);
    Some(Pattern { items: full, groups })
}

/// Combines turns with only content and only reasoning into a turn with both, if each adds its own
/// text to the turn without either.
fn joined(content: &[Item], reasoning: &[Item], neither: &[Item], preferred: usize) -> Option<Vec<Item>> {
    let added = |items: &[Item], field: Field| match presence(items, field, neither, preferred)? {
        Presence::Alone => hole_at(items, field).map(|at| at..at + 1),
        Presence::Group(range) => Some(range),
        Presence::AloneButSpaces | Presence::Replaced(_) => None,
    };
    let (said, thought) = (added(content, Field::Content)?, added(reasoning, Field::Reasoning)?);
    let text = |items: &[Item], range: &Range<usize>| crate::sequence::literal(&items[range.clone()]);
    let is_alike = said.len() > 1 && text(content, &said) == text(reasoning, &thought);
    if is_alike || thought.start > said.start {
        return None;
    }
    let (thoughts, words) = (&reasoning[thought.clone()], &content[said.clone()]);
    let (first, second) = (thought.start, said.start);
    Some([&neither[..first], thoughts, &neither[first..second], words, &neither[second..]].concat())
}
