//! Reasoning that a template does not write in a plain turn: it writes it only with a switch, or
//! only alongside calls, or never, although its generation prompt opens it.

use rolecall_conversation::json::Object;
use rolecall_conversation::{Json, object};
use rolecall_format::Field;
use rolecall_render::Switch;
use rolecall_render::jinja::{self, Constant};

use crate::found::Found;
use crate::located::Located;
use crate::probe::{Probe, Stage};
use crate::report::{Part, Report};
use crate::said::{CONTENT, REASONING, Said};
use crate::sequence::{Item, Sequence, hole_at, items};
use crate::turn::Pattern;

/// The maximum number of switches to try.
const MOST_SWITCHES: usize = 6;

/// Returns a switch that makes the template write reasoning.
pub(crate) fn switched(
    switches: &[Switch],
    stage: &Stage,
    with_reasoning: &impl Fn(&Stage) -> Option<Located>,
) -> Option<Object> {
    let is_flag = |value: &Constant| matches!(value, Constant::Bool(_) | Constant::None);
    let flags = switches.iter().filter(|switch| switch.values.iter().all(is_flag));
    for switch in flags.take(MOST_SWITCHES) {
        for value in [true, false] {
            let switches = object! { switch.name.clone() => Json::Bool(value) };
            if with_reasoning(&Stage { switches: switches.clone(), ..stage.clone() }).is_some() {
                return Some(switches);
            }
        }
    }
    None
}

/// If only one kind of turn has reasoning, adds a place for it to the other kind, because the model
/// may reason before either.
pub(crate) fn share(found: &mut Found) {
    let Some(with_calls) = &mut found.with_calls else { return };
    let (plain, calling) = (&mut found.assistant, with_calls);
    let has = |pattern: &Pattern| hole_at(&pattern.items, Field::Reasoning).is_some();
    let (from, to) = match (has(&plain.pattern), has(&calling.pattern)) {
        (true, false) => (&*plain, calling),
        (false, true) => (&*calling, plain),
        _ => return,
    };
    if let Some(pattern) = lent(&from.pattern, &to.pattern) {
        to.pattern = pattern;
        to.trims.1 = from.trims.1;
        found.lent = Some("the template writes it only in turns with calls or only in turns without calls".to_owned());
    }
}

/// Returns a pattern with the reasoning of another pattern that has the same beginning.
fn lent(from: &Pattern, to: &Pattern) -> Option<Pattern> {
    let hole = hole_at(&from.items, Field::Reasoning)?;
    let group = from.groups.iter().find(|group| group.contains(&hole)).cloned();
    // The common beginning up to where the other pattern continues without reasoning, and the items
    // to insert there.
    let (start, end, is_group) = match &group {
        Some(group) => (group.start, group.end, true),
        None => (hole, hole + 1, false),
    };
    if to.items.get(..start) != from.items.get(..start) {
        return None;
    }
    let next =
        from.items[end..].iter().position(|item| matches!(item, Item::Hole(_))).map_or(from.items.len(), |at| end + at);
    let behind = &from.items[end..next];
    let taken: &Sequence = &from.items[start..end];
    let stays = to.items[start..].starts_with(behind);
    let (inserted, is_group): (Vec<Item>, bool) = match (is_group || stays, is_group) {
        (true, is_group) => (taken.to_vec(), is_group),
        // The text that always surrounds reasoning there is missing here, so it becomes a group
        // together with the reasoning.
        (false, _) => return lent_whole(from, to, hole),
    };
    let items = [&to.items[..start], &inserted, &to.items[start..]].concat();
    Some(Pattern { groups: moved(&to.groups, start, inserted.len(), is_group), items })
}

/// Inserts reasoning as a group, with the surrounding text that the other turn lacks.
fn lent_whole(from: &Pattern, to: &Pattern, hole: usize) -> Option<Pattern> {
    let start = crate::calls::cut_start(&from.items[..hole], &to.items);
    let next = from.items[hole + 1..].iter().position(|item| matches!(item, Item::Hole(_)));
    let end = next.map_or(from.items.len(), |at| hole + 1 + at);
    // Up to the text that precedes the answer in both.
    let rest = to.items.get(start..)?;
    let kept = (hole + 1..=end).find(|at| rest.starts_with(&from.items[*at..end])).unwrap_or(end);
    let inserted = &from.items[start..kept];
    let items = [&to.items[..start], inserted, rest].concat();
    Some(Pattern { groups: moved(&to.groups, start, inserted.len(), true), items })
}

fn moved(
    groups: &[std::ops::Range<usize>],
    start: usize,
    length: usize,
    is_group: bool,
) -> Vec<std::ops::Range<usize>> {
    let mut moved: Vec<_> = groups
        .iter()
        .map(|group| match group.start >= start {
            true => group.start + length..group.end + length,
            false => group.clone(),
        })
        .collect();
    if is_group {
        moved.push(start..start + length);
    }
    moved.sort_by_key(|group| group.start);
    moved
}

/// Adds reasoning that the template never writes. This applies if the generation prompt ends with a
/// marker that no earlier turn contains, or if the template drops the text in an answer before a
/// closing marker that it searches for.
pub(crate) fn opened(
    probe: &Probe<'_>,
    stage: &Stage,
    program: Option<&jinja::Analysis>,
    found: &mut Found,
    report: &mut Report,
) {
    let has = |pattern: &Pattern| hole_at(&pattern.items, Field::Reasoning).is_some();
    if has(&found.assistant.pattern) || found.with_calls.as_ref().is_some_and(|shape| has(&shape.pattern)) {
        return;
    }
    let mark = last_mark(&found.opening).filter(|(open, name)| {
        let kept = &found.opening[..found.opening.len() - open.len()];
        let with_mark = items(&format!("{kept}<{name}>"));
        !found.assistant.pattern.items.starts_with(&with_mark)
    });
    let (name, space, header, is_cut) = match mark {
        Some((open, name)) => {
            let close = format!("</{name}>");
            let is_cut = is_cut(probe, stage, &close);
            if open.contains(&close) && !is_cut {
                return;
            }
            let behind = &open[open.find('>').map_or(open.len(), |at| at + 1)..];
            let space: String = behind.chars().take_while(|c| c.is_whitespace()).collect();
            (name.to_owned(), space, found.opening[..found.opening.len() - open.len()].to_owned(), is_cut)
        }
        None => {
            let names = program.map(closing_names).unwrap_or_default();
            let Some(name) = names.into_iter().find(|name| is_cut(probe, stage, &format!("</{name}>"))) else { return };
            (name, "\n".to_owned(), found.opening.clone(), true)
        }
    };
    let words = match (mark.is_some(), is_cut) {
        (true, false) => format!("the generation prompt opens it with <{name}>; the template never writes it"),
        (true, true) => {
            format!("the generation prompt opens it with <{name}>, and the template drops the text before </{name}>")
        }
        (false, _) => format!("the template drops the text before </{name}> in an answer"),
    };
    let group = [
        items(&format!("<{name}>{space}")),
        vec![Item::Hole(Field::Reasoning)],
        items(&format!("{space}</{name}>{space}{space}")),
    ]
    .concat();
    let header = items(&header);
    for shape in std::iter::once(&mut found.assistant).chain(found.with_calls.as_mut()) {
        if !shape.pattern.items.starts_with(&header) {
            continue;
        }
        let at = header.len();
        let items = [&shape.pattern.items[..at], &group, &shape.pattern.items[at..]].concat();
        shape.pattern = Pattern { groups: moved(&shape.pattern.groups, at, group.len(), true), items };
    }
    if has(&found.assistant.pattern) {
        found.lent = Some(words);
    } else {
        report.note(Part::Reasoning, words, None);
    }
}

/// Returns the names of the closing markers that the template searches for in contents, such as
/// `think` for `'</think>' in message.content`.
fn closing_names(program: &jinja::Analysis) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for asked in &program.comparisons {
        for with in &asked.with {
            let Constant::Text(text) = with else { continue };
            let name = text.trim().strip_prefix("</").and_then(|text| text.strip_suffix('>'));
            if let Some(name) = name.filter(|name| is_name(name) && names.len() < MOST_SWITCHES)
                && !names.iter().any(|known| known == name)
            {
                names.push(name.to_owned());
            }
        }
    }
    names
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(is_name_character)
}

fn is_name_character(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | ':' | '-')
}

/// Returns the last opening marker of a generation prompt with all text after it, and the marker's
/// name: `<think>\n` and `think`.
fn last_mark(opening: &str) -> Option<(&str, &str)> {
    // A prompt may be long, so each byte belongs to at most one name, and the end is trimmed only
    // once.
    let trimmed = opening.trim_end();
    let mut found = None;
    for (at, _) in trimmed.match_indices('<') {
        let rest = &trimmed[at + 1..];
        let length = rest.find(|c: char| !is_name_character(c)).unwrap_or(rest.len());
        let name = &rest[..length];
        let Some(behind) = rest[length..].strip_prefix('>').filter(|_| length > 0) else { continue };
        let behind = behind.trim_start();
        let closes = || behind.strip_prefix("</").and_then(|close| close.strip_suffix('>')) == Some(name);
        if behind.is_empty() || closes() {
            found = Some((&opening[at..], name));
        }
    }
    found
}

/// Reports whether the template drops the text in an answer before a marker.
fn is_cut(probe: &Probe<'_>, stage: &Stage, close: &str) -> bool {
    let said = Said::content(&format!("{REASONING}{close}{CONTENT}"));
    let Ok(turn) = probe.turn(&said, stage) else { return false };
    turn.places(REASONING).is_empty() && !turn.places(CONTENT).is_empty()
}
