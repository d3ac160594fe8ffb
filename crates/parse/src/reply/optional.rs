//! Markers of a call that models may leave out.

use super::program::Item;
use crate::literal::Literal;

/// Splits a literal at the markers that models may leave out. These become optional.
pub(super) fn with_optional(item: Item, may_omit: &[String]) -> Vec<Item> {
    let Item::Literal(mut literal) = item else { return vec![item] };
    let mut items = Vec::new();
    while let Some((at, mark)) = may_omit
        .iter()
        .filter(|mark| !mark.is_empty())
        .filter_map(|mark| Some((literal.text().find(mark.as_str())?, mark)))
        .min_by_key(|(at, _)| *at)
    {
        let (before, rest) = (literal.up_to(at), literal.from(at));
        if !before.is_blank() {
            items.push(Item::Literal(before));
        }
        items.push(Item::Fence(rest.up_to(mark.len())));
        literal = rest.from(mark.len());
    }
    if !literal.is_blank() {
        items.push(Item::Literal(literal));
    }
    items
}

/// Returns a literal without the marker at its start, if models may leave that out.
pub(super) fn without_omitted(literal: &Literal, may_omit: &[String]) -> Option<Literal> {
    let core = literal.core();
    let mark = may_omit.iter().find(|mark| !mark.is_empty() && core.text().starts_with(mark.as_str()))?;
    Some(core.from(mark.len()).core())
}
