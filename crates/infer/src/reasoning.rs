//! Reasoning that a template does not write in a plain turn: it writes it only with a switch, or
//! only alongside calls. The module `opened` handles reasoning that the template never writes.

use rolecall_conversation::Json;
use rolecall_conversation::json::Object;
use rolecall_format::Field;
use rolecall_render::Switch;
use rolecall_render::jinja::{Analysis, Constant};

use crate::found::FormatParts;
use crate::located::LocatedTurn;
use crate::pattern::Pattern;
use crate::probe::{Probe, Stage};
use crate::sequence::{Item, hole_at};

/// The maximum number of switches to try.
const MOST_SWITCHES: usize = 6;

/// Finds another name under which the template reads the reasoning of a message, and sets it.
/// `is_silent` reports whether the template writes no reasoning with the current name.
pub(crate) fn is_named(probe: &Probe<'_>, program: &Analysis, is_silent: &impl Fn() -> bool) -> bool {
    const KNOWN: [&str; 8] =
        ["role", "content", "tool_calls", "tool_call_id", "name", "reasoning_content", "thinking", "tools"];
    let paths = program.reads.iter().map(|read| read.path.to_string());
    let names = paths.filter_map(|path| path.rsplit_once("[].").map(|(_, name)| name.to_owned()));
    let is_other =
        |name: &String| !KNOWN.contains(&name.as_str()) && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    let mut others: Vec<String> = names.filter(is_other).collect();
    // Names that suggest reasoning come first.
    others.sort_by_key(|name| !["reason", "think", "thought", "analysis"].iter().any(|word| name.contains(word)));
    others.dedup();
    for name in others.into_iter().take(MOST_SWITCHES) {
        probe.name_reasoning(&name);
        if !is_silent() {
            return true;
        }
    }
    probe.name_reasoning("reasoning_content");
    false
}

/// The maximum number of values to try of one switch, and of all switches together.
const MOST_VALUES: (usize, usize) = (4, 16);

/// The maximum number of settings of two switches to try.
const MOST_PAIRS: usize = 40;

/// The values to try for the switches of a template.
#[derive(Default)]
pub(crate) struct Settings {
    /// One switch alone.
    pub alone: Vec<Object>,
    /// Two switches together.
    pub pairs: Vec<Object>,
    /// Whether these are all settings of two switches.
    pub has_all_pairs: bool,
}

/// Returns the values to try for the switches of a template: both values of a flag, and the texts
/// that any other switch is compared with.
pub(crate) fn settings(switches: &[Switch]) -> Settings {
    let all: Vec<Vec<(&str, Json)>> = switches.iter().take(MOST_SWITCHES).map(values).collect();
    let with = |values: &[(&str, Json)]| -> Object {
        values.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    };
    let mut alone: Vec<Object> = all.iter().flatten().map(|value| with(std::slice::from_ref(value))).collect();
    alone.truncate(MOST_VALUES.1);
    let mut pairs: Vec<[(&str, Json); 2]> = Vec::new();
    for (at, first) in all.iter().enumerate() {
        for second in &all[at + 1..] {
            pairs.extend(first.iter().flat_map(|one| second.iter().map(|other| [one.clone(), other.clone()])));
        }
    }
    // Most switches are off by default.
    pairs.sort_by_key(|pair| pair.iter().filter(|(_, value)| *value == Json::Bool(false)).count());
    let has_all_pairs = pairs.len() <= MOST_PAIRS && switches.len() <= MOST_SWITCHES;
    Settings { alone, pairs: pairs.iter().take(MOST_PAIRS).map(|pair| with(pair)).collect(), has_all_pairs }
}

/// Returns the values to try for a switch.
fn values(switch: &Switch) -> Vec<(&str, Json)> {
    let is_flag = |value: &Constant| matches!(value, Constant::Bool(_) | Constant::None);
    let flags = [true, false].map(Json::Bool).into_iter().filter(|_| switch.values.iter().all(is_flag));
    let texts = switch.values.iter().filter_map(|value| match value {
        Constant::Text(text) => Some(Json::from(text.as_str())),
        _ => None,
    });
    flags.chain(texts).take(MOST_VALUES.0).map(|value| (switch.name.as_str(), value)).collect()
}

/// Returns the switches that make the template write reasoning.
pub(crate) fn switched(
    settings: &Settings,
    stage: &Stage,
    with_reasoning: &impl Fn(&Stage) -> Option<LocatedTurn>,
) -> Option<Object> {
    let writes =
        |switches: &&Object| with_reasoning(&Stage { switches: (*switches).clone(), ..stage.clone() }).is_some();
    settings.alone.iter().chain(&settings.pairs).find(writes).cloned()
}

/// If only one kind of turn has reasoning, adds a place for it to the other kind, because the model
/// may reason before either.
pub(crate) fn share(found: &mut FormatParts) {
    let Some(with_calls) = &mut found.with_calls else { return };
    let (plain, calling) = (&mut found.assistant, with_calls);
    let has = |pattern: &Pattern| hole_at(pattern.items(), Field::Reasoning).is_some();
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
    let hole = hole_at(from.items(), Field::Reasoning)?;
    let group = from.groups().around(hole);
    // The common beginning up to where the other pattern continues without reasoning, and the items
    // to insert there.
    let (start, end) = group.map_or((hole, hole + 1), |group| (group.start, group.end));
    let rest = to.items().strip_prefix(from.items().get(..start)?)?;
    let taken = from.items().get(start..end)?;
    let behind: Vec<Item> =
        from.items().iter().skip(end).take_while(|item| !matches!(item, Item::Hole(_))).copied().collect();
    match group.is_some() || rest.starts_with(&behind) {
        true => Some(to.with_inserted(start, taken, group.is_some())),
        // The text that always surrounds reasoning there is missing here, so it becomes a group
        // together with the reasoning.
        false => lent_whole(from, to, hole),
    }
}

/// Inserts reasoning as a group, with the surrounding text that the other turn lacks.
fn lent_whole(from: &Pattern, to: &Pattern, hole: usize) -> Option<Pattern> {
    let items = from.items();
    let start = crate::calls::cut_start(items.get(..hole)?, to.items());
    let next = items.iter().skip(hole + 1).position(|item| matches!(item, Item::Hole(_)));
    let end = next.map_or(items.len(), |at| hole + 1 + at);
    // Up to the text that precedes the answer in both.
    let rest = to.items().get(start..)?;
    let is_rest = |at: &usize| items.get(*at..end).is_some_and(|behind| rest.starts_with(behind));
    let kept = (hole + 1..=end).find(is_rest).unwrap_or(end);
    Some(to.with_inserted(start, items.get(start..kept)?, true))
}
