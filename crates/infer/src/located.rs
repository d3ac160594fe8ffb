//! Turns as items: the conversation's own values are holes, and everything else is the template's
//! text.

use std::ops::Range;

use rolecall_format::Field;

use crate::arguments::Arguments;
use crate::probe::{Probe, ProbeTurn};
use crate::said::ProbeMessage;
use crate::sequence::{Item, Sequence, items};
use crate::spans::Spans;

/// A turn with its holes.
#[derive(Clone, Debug)]
pub(crate) struct LocatedTurn {
    pub items: Vec<Item>,
    /// For each call, the items from its first hole to its last.
    calls: Spans,
}

/// Finds the conversation's values in a turn. Returns `None` if a call is missing, or if calls are
/// interleaved.
pub(crate) fn locate(
    probe: &Probe<'_>,
    turn: &ProbeTurn,
    said: &ProbeMessage,
    arguments: Option<&Arguments>,
) -> Option<LocatedTurn> {
    let mut spots: Vec<(Range<usize>, Field, Option<usize>)> = Vec::new();
    for (at, call) in said.calls.iter().enumerate() {
        let place = arguments?.place(&call.arguments, turn)?;
        spots.push((place, Field::Arguments, Some(at)));
    }
    let mut add = |text: &str, field: Field, call: Option<usize>| {
        for place in turn.places(text) {
            let is_free = spots.iter().all(|(taken, ..)| place.end <= taken.start || taken.end <= place.start);
            if is_free {
                spots.push((place, field, call));
            }
        }
    };
    for (at, call) in said.calls.iter().enumerate() {
        add(&probe.id(at, call.name), Field::Id, Some(at));
        add(call.name, Field::Name, Some(at));
    }
    if let Some(content) = &said.content {
        add(content.trim(), Field::Content, None);
    }
    if let Some(reasoning) = &said.reasoning {
        add(reasoning.trim(), Field::Reasoning, None);
    }
    spots.sort_by_key(|(place, ..)| place.start);
    let (mut located, mut calls): (Vec<Item>, Vec<Range<usize>>) = Default::default();
    let mut end = 0;
    for (place, field, call) in spots {
        located.extend(items(turn.text.get(end..place.start)?));
        let at = located.len();
        located.push(Item::Hole(field));
        end = place.end;
        let Some(call) = call else { continue };
        match (calls.len(), calls.last_mut()) {
            (known, _) if known == call => calls.push(at..at + 1),
            (known, Some(last)) if known == call + 1 => last.end = at + 1,
            _ => return None,
        }
    }
    located.extend(items(turn.text.get(end..)?));
    let calls: Spans = calls.into_iter().collect();
    (calls.len() == said.calls.len()).then_some(LocatedTurn { items: located, calls })
}

impl LocatedTurn {
    pub fn has(&self, field: Field) -> bool {
        self.items.contains(&Item::Hole(field))
    }

    /// Returns the items of each call.
    pub fn calls(&self) -> impl Iterator<Item = &Sequence> {
        self.calls.cut(&self.items).into_iter().map(|(_, call)| call).take(self.calls.len())
    }

    /// Returns the items before the first call.
    pub fn opening(&self) -> &Sequence {
        self.calls.cut(&self.items).first().map_or(&[], |(before, _)| before)
    }

    /// Returns the items between each call and the next.
    pub fn joints(&self) -> impl Iterator<Item = &Sequence> {
        let cut = self.calls.cut(&self.items).into_iter().map(|(before, _)| before);
        cut.take(self.calls.len()).skip(1)
    }

    /// Returns the items after the last call.
    pub fn closing(&self) -> &Sequence {
        self.calls.cut(&self.items).last().map_or(&[], |(rest, _)| rest)
    }

    /// Returns the items with one hole in place of the calls, including `before` items before the
    /// first call and `behind` items after the last.
    pub fn folded(&self, before: usize, behind: usize) -> Option<Vec<Item>> {
        let (first, last) = (self.calls.iter().next()?, self.calls.iter().last()?);
        let (start, end) = (first.start.checked_sub(before)?, last.end + behind);
        let hole = [Item::Hole(Field::Calls)];
        Some([self.items.get(..start)?, &hole, self.items.get(end..)?].concat())
    }
}
