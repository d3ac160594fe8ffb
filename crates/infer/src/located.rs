//! Turns as items: the conversation's own values are holes, and everything else is the template's
//! text.

use std::ops::Range;

use rolecall_format::Field;

use crate::arguments::Arguments;
use crate::probe::{Probe, Turn};
use crate::said::Said;
use crate::sequence::{Item, items};

/// A turn with its holes.
#[derive(Clone, Debug)]
pub(crate) struct Located {
    pub items: Vec<Item>,
    /// For each call, the items from its first hole to its last.
    pub calls: Vec<Range<usize>>,
}

/// Finds the conversation's values in a turn. Returns `None` if a call is missing, or if calls are
/// interleaved.
pub(crate) fn locate(probe: &Probe<'_>, turn: &Turn, said: &Said, arguments: Option<&Arguments>) -> Option<Located> {
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
    let mut located = Located { items: Vec::new(), calls: Vec::new() };
    let mut end = 0;
    for (place, field, call) in spots {
        located.items.extend(items(turn.text.get(end..place.start)?));
        let at = located.items.len();
        located.items.push(Item::Hole(field));
        end = place.end;
        let Some(call) = call else { continue };
        match located.calls.len() {
            known if known == call => located.calls.push(at..at + 1),
            known if known == call + 1 => located.calls[call].end = at + 1,
            _ => return None,
        }
    }
    located.items.extend(items(turn.text.get(end..)?));
    (located.calls.len() == said.calls.len()).then_some(located)
}

impl Located {
    pub fn has(&self, field: Field) -> bool {
        self.items.contains(&Item::Hole(field))
    }

    /// Returns the items with one hole in place of the calls, including `before` items before the
    /// first call and `behind` items after the last.
    pub fn folded(&self, before: usize, behind: usize) -> Option<Vec<Item>> {
        let start = self.calls.first()?.start.checked_sub(before)?;
        let end = self.calls.last()?.end + behind;
        let hole = [Item::Hole(Field::Calls)];
        Some([self.items.get(..start)?, &hole, self.items.get(end..)?].concat())
    }
}
