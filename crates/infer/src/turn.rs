//! Inference of a turn's layout from the same turn with and without each of its values.

use rolecall_format::Field;

use crate::calls::{cut_end, cut_start};
use crate::optional::{Presence, presence};
use crate::pattern::Pattern;
use crate::report::{Report, part_of};
use crate::sequence::{Item, hole_at, is_space};
use crate::spans::Spans;

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
            let joined = match &neither {
                Some(neither) => joined(&content, &reasoning, neither, preferred),
                None => either(&content, &reasoning),
            };
            match joined {
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
        (None, None, None) => return neither.map(|items| Pattern::new(items, Spans::default())),
    };
    let mut groups = Spans::default();
    let mut spaced: Vec<(Field, Vec<Item>)> = Vec::new();
    for (field, without) in others {
        let Some(without) = without else { continue };
        let group = match presence(&full, field, &without, preferred) {
            None | Some(Presence::Alone) => continue,
            Some(Presence::AloneButSpaces) => {
                spaced.push((field, without));
                continue;
            }
            Some(Presence::Group(group)) => group,
            Some(Presence::Replaced(group)) => {
                report.note(part_of(field), "without a value, other text takes its place", None);
                group
            }
        };
        let is_only_content = field == Field::Content && hole_at(&full, Field::Calls).is_none();
        if !(groups.add(group) || is_only_content) {
            // An entirely empty turn is not worth a note.
            report.note(part_of(field), "its surrounding text cannot be separated from that of another value", None);
        }
    }
    let mut pattern = Pattern::new(full, groups);
    for (field, without) in spaced {
        // The white space of usual turns matters more than that of an entirely empty turn.
        let without_content = || {
            let content = hole_at(pattern.items(), Field::Content)?;
            with_spaces(&pattern.clone().without_group(content), field, &without)
        };
        let has_calls = hole_at(pattern.items(), Field::Calls).is_some();
        match with_spaces(&pattern, field, &without).or_else(|| without_content().filter(|_| !has_calls)) {
            Some(with_spaces) => pattern = with_spaces,
            None => report.note(part_of(field), "the white space differs if there is no value", None),
        }
    }
    Some(pattern)
}

/// Combines turns of which each has only one of the two values, if the template never writes both
/// or neither.
fn either(content: &[Item], reasoning: &[Item]) -> Option<Vec<Item>> {
    let start = cut_start(content, reasoning);
    let end = cut_end(&content[start..], &reasoning[start..]);
    let (said, thought) = (&content[start..content.len() - end], &reasoning[start..reasoning.len() - end]);
    let text = crate::sequence::literal;
    let has = |items: &[Item], field: Field| hole_at(items, field).is_some();
    let is_told = has(said, Field::Content) && has(thought, Field::Reasoning) && text(said) != text(thought);
    is_told.then(|| [&content[..start], thought, said, &content[content.len() - end..]].concat())
}

/// Adds groups for the white space that depends on a field. White space next to the field shares
/// its group, and any other gets a group of its own.
fn with_spaces(pattern: &Pattern, field: Field, without: &[Item]) -> Option<Pattern> {
    let full = pattern.items();
    let hole = hole_at(full, field)?;
    let (mut built, mut groups): (Vec<Item>, Spans) = Default::default();
    let mut moved: Vec<usize> = Vec::with_capacity(full.len() + 1);
    let (mut at, mut other) = (0, 0);
    let run = |items: &[Item], from: usize| items[from..].iter().take_while(|item| is_space(item)).count();
    while at < full.len() {
        let ours = run(full, at);
        let theirs = run(without, other);
        let gap = &without[other..other + theirs];
        other += theirs;
        let start = built.len();
        if at + ours == hole {
            // The white space on both sides of the field.
            let behind = run(full, hole + 1);
            let (before, after) = (&full[at..hole], &full[hole + 1..hole + 1 + behind]);
            let fits = |kept: &usize| before.starts_with(&gap[..*kept]) && after.ends_with(&gap[*kept..]);
            let kept = (0..=theirs).find(fits)?;
            moved.extend((at..hole + 1 + behind).map(|place| place - at + start));
            built.extend_from_slice(&full[at..hole + 1 + behind]);
            let group = start + kept..built.len() - (theirs - kept);
            if group.len() > 1 && !groups.add(group) {
                return None;
            }
            at = hole + 1 + behind;
        } else {
            let own = &full[at..at + ours];
            let extra = ours.checked_sub(theirs)?;
            let lead = if own.starts_with(gap) {
                theirs
            } else if own.ends_with(gap) {
                0
            } else {
                return None;
            };
            moved
                .extend((at..at + ours).map(|place| place - at + start + usize::from(extra > 0 && place - at >= lead)));
            built.extend_from_slice(&own[..lead]);
            if extra > 0 {
                let group = built.len();
                built.push(Item::Present(field));
                built.extend_from_slice(&own[lead..lead + extra]);
                if !groups.add(group..built.len()) {
                    return None;
                }
            }
            built.extend_from_slice(&own[lead + extra..]);
            at += ours;
        }
        // The next character that is not white space is the same in both.
        if let Some(item) = full.get(at).filter(|_| at != hole) {
            if without.get(other) != Some(item) {
                return None;
            }
            moved.push(built.len());
            built.push(*item);
            (at, other) = (at + 1, other + 1);
        }
    }
    moved.push(built.len());
    for group in pattern.groups().iter() {
        if !groups.add(*moved.get(group.start)?..*moved.get(group.end)?) {
            return None;
        }
    }
    Some(Pattern::new(built, groups))
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
    let (thoughts, words) = (reasoning.get(thought.clone())?, content.get(said.clone())?);
    let is_alike = words.len() > 1 && crate::sequence::literal(words) == crate::sequence::literal(thoughts);
    if is_alike {
        return None;
    }
    let before = neither.get(..thought.start)?;
    let between = neither.get(thought.start..said.start)?;
    Some([before, thoughts, between, words, neither.get(said.start..)?].concat())
}
