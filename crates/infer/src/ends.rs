//! Stop texts other than the end of the last turn.

use rolecall_format::Field;

use crate::found::{FormatParts, TurnShape};
use crate::probe::Probe;
use crate::said::{CONTENT, ProbeMessage, plain_calls, plain_value};
use crate::sequence::{Cuts, Item, Sequence, items, literal};
use crate::stages::Stages;

/// Returns the markers that end a turn in the middle of a conversation but not at its end: the
/// turn's own end there, or the opening of the next turn if the turn has no end.
pub(crate) fn stops(probe: &Probe<'_>, stages: &Stages, found: &FormatParts) -> Vec<String> {
    let mut stops: Vec<String> = Vec::new();
    let mut add = |behind: Option<String>, end: &Sequence| {
        let Some(behind) = behind else { return };
        let (behind, end) = (behind.trim_start(), literal(end));
        if !end.trim().is_empty() && behind.starts_with(end.trim()) {
            return;
        }
        let mark = first_mark(behind).filter(|mark| !end.contains(mark.as_str()) && !stops.contains(mark));
        stops.extend(mark);
    };
    let content = ProbeMessage::content(CONTENT);
    add(probe.behind(&content, CONTENT, &stages.answer), end_of(&found.assistant));
    if let (Some((stage, base)), Some(with_calls)) = (&stages.call, &found.with_calls)
        && let Some(calls) = &found.calls
        && literal(end_of(with_calls)).trim().is_empty()
    {
        let said = base.clone().calling(plain_calls(1));
        let value = plain_value(0);
        let behind = probe.behind(&said, value.as_str().unwrap_or_default(), stage);
        // The text after the call's own end.
        let own = calls.call();
        let last = own.iter().rposition(|item| matches!(item, Item::Hole(_))).map_or(0, |at| at + 1);
        let close = format!("{}{}", literal(&own[last..]), literal(&calls.row.close));
        let rest = behind.and_then(|behind| {
            let at = behind.find(close.as_str())? + close.len();
            behind.get(at..).map(str::to_owned)
        });
        add(rest, &[]);
    }
    // A stop text that also occurs before the end of a turn would cut the turn off.
    let inner = inner_text(found);
    stops.retain(|stop| !inner.contains(stop.as_str()));
    stops
}

/// Returns the literal text of turns before their ends.
fn inner_text(found: &FormatParts) -> String {
    let turns = std::iter::once(&found.assistant).chain(&found.with_calls);
    let mut inner: String = turns
        .map(|shape| {
            let items = shape.pattern.items();
            literal(&items[..items.len() - end_of(shape).len()])
        })
        .collect();
    if let Some(calls) = &found.calls {
        inner.extend([literal(&calls.row.open), literal(&calls.call()), literal(&calls.row.separator)]);
    }
    inner
}

/// Returns the literal text after a turn's last hole.
fn end_of(shape: &TurnShape) -> &Sequence {
    let items = shape.pattern.items();
    let last =
        items.iter().rposition(|item| matches!(item, Item::Hole(Field::Content | Field::Calls | Field::Reasoning)));
    &items[last.map_or(0, |at| at + 1)..]
}

/// Returns the marker that a text begins with.
fn first_mark(text: &str) -> Option<String> {
    let head: String = text.chars().take(100).collect();
    let head = items(&head);
    let cuts = Cuts::of(&head);
    let end = cuts.at_least(1);
    let closes = matches!(head.get(end.checked_sub(1)?), Some(Item::Char('>' | ']')));
    (end > 2 && closes && !cuts.allow(1)).then(|| literal(&head[..end]))
}
