//! Markers of a call that models may leave out.

use super::program::Item;

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
