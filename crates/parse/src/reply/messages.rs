//! Turns of several messages: the headers of calls, and the texts that end a message or all calls.

use super::Meaning;
use super::builder::{Builder, SearchPoint};
use super::program::Item;
use super::turns::{TurnPart, Turns};
use crate::literal::Literal;

/// Splits the items of a call that begins with a header, as the answer does, after the marker that
/// ends the header of an answer. Returns the number of items up to there.
pub(super) fn header_of(items: &mut Vec<Item>, ends: &[Literal]) -> Option<usize> {
    let at = items.iter().position(|item| matches!(item, Item::Name(_)))? + 1;
    let Some(Item::Literal(literal)) = items.get(at) else { return None };
    let core = literal.core();
    let end = ends.iter().find(|end| core.text().starts_with(end.text()))?;
    let rest = core.from(end.text().len());
    items[at] = Item::Literal(core.up_to(end.text().len()));
    if !rest.is_blank() {
        items.insert(at + 1, Item::Literal(rest));
    }
    Some(at + 1)
}

/// Returns the markers that end the header of an answer: a marker after other text.
pub(super) fn header_ends(turns: &Turns) -> Vec<Literal> {
    let headers =
        turns.around.iter().filter(|around| around.part == TurnPart::Content).map(|around| around.open.core());
    let ends = headers.filter_map(|header| {
        let start = header.text().rfind('<').filter(|start| *start > 0 && header.text().ends_with('>'))?;
        Some(header.from(start))
    });
    ends.collect()
}

impl Builder<'_> {
    /// Adds the texts that end a message within a turn.
    pub(super) fn end_messages(&mut self) {
        let turns = self.turns;
        let closes = turns.around.iter().map(|around| &around.close).chain([&self.calls.separator]);
        let ends: Vec<Literal> = closes.filter_map(|literal| message_end(literal, &turns.opening)).collect();
        for end in &ends {
            self.add(&[SearchPoint::Content, SearchPoint::Head], end, Meaning::ContentClosed);
            self.add(&[SearchPoint::Reasoning], end, Meaning::ReasoningClosed);
            self.add(&[SearchPoint::AfterCall], end, Meaning::CallsClosed);
        }
    }

    /// Adds the combinations of consecutive texts that close all calls: a separator that no call
    /// follows, the end of the group, and the text that the turn writes after it.
    pub(super) fn close_after_calls(&mut self) {
        let (calls, turns) = (self.calls, self.turns);
        let joined = |first: &Literal, second: &Literal| {
            let mut both = first.core();
            both.append(second);
            (!first.is_blank() && !second.is_blank()).then_some(both)
        };
        let after = turns.around.iter().filter(|around| around.part == TurnPart::Calls).map(|around| &around.close);
        let closes = [joined(&calls.separator, &calls.close)].into_iter();
        for close in closes.chain(after.map(|after| joined(&calls.close, after))).flatten() {
            self.add(&[SearchPoint::AfterCall], &close, Meaning::CallsClosed);
        }
        for end in turns.ends.iter().filter_map(|end| joined(&calls.close, end)) {
            self.add(&[SearchPoint::AfterCall], &end, Meaning::End);
        }
    }
}

/// Returns the text that ends a message within a turn, that is, the text before the opening of the
/// next message.
fn message_end(literal: &Literal, opening: &Literal) -> Option<Literal> {
    let core = literal.core();
    let before = core.text().strip_suffix(opening.text()).filter(|_| !opening.is_empty())?;
    Some(core.up_to(before.len()).core()).filter(Literal::is_strong)
}
