//! The text that depends on an optional value: only a hole, or a group with text around it.

use std::ops::Range;

use rolecall_format::Field;

use crate::sequence::{Cuts, Item, Sequence, common_end, common_start, hole_at};

/// How the text around a field changes when the field has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// The text stays.
    Alone,
    /// The text stays, except for whitespace.
    AloneButSpaces,
    /// These items disappear with the field.
    Group(Range<usize>),
    /// These items disappear with the field, and other text takes their place.
    Replaced(Range<usize>),
}

/// Compares a turn with the same turn without a field. `preferred` is the preferred start of a
/// group.
pub(crate) fn presence(full: &Sequence, field: Field, without: &Sequence, preferred: usize) -> Option<Presence> {
    let hole = hole_at(full, field)?;
    let (start, end) = (common_start(full, without), common_end(full, without));
    if without.len() + 1 == full.len() && start >= hole && end >= full.len() - hole - 1 {
        return Some(Presence::Alone);
    }
    if without.len() < full.len() {
        let removed = full.len() - without.len();
        // The group begins at `at`: everything before and after it is the same in both, and it
        // contains the hole.
        let first = (without.len().saturating_sub(end)).max((hole + 1).saturating_sub(removed));
        let last = start.min(hole);
        let cuts = Cuts::of(full);
        let possible = (first..=last).filter(|at| at + removed <= full.len());
        let preferred =
            (!full[..preferred.min(full.len())].iter().any(|item| matches!(item, Item::Hole(_)))).then_some(preferred);
        let best = possible.max_by_key(|at| {
            let opens = matches!(full[*at], Item::Hole(_) | Item::Char('<' | '['));
            (cuts.allow(*at) && cuts.allow(at + removed), Some(*at) == preferred, opens, *at)
        });
        if let Some(at) = best {
            return Some(Presence::Group(at..at + removed));
        }
    }
    let solid = |items: &Sequence| -> Vec<Item> {
        let kept = items.iter().filter(|item| **item != Item::Hole(field) && !crate::sequence::is_space(item));
        kept.copied().collect()
    };
    if solid(full) == solid(without) {
        return Some(Presence::AloneButSpaces);
    }
    let cuts = Cuts::of(full);
    let from = cuts.at_most(start.min(hole));
    let to = cuts.at_least((full.len() - end.min(full.len() - hole - 1)).max(hole + 1));
    Some(Presence::Replaced(from..to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequence::items;

    fn with(text: &str) -> Vec<Item> {
        let mut found: Vec<Item> = Vec::new();
        for (at, part) in text.split('#').enumerate() {
            if at > 0 {
                found.push(Item::Hole(Field::Reasoning));
            }
            found.extend(items(part));
        }
        found
    }

    fn group(full: &str, without: &str, preferred: usize) -> String {
        let full = with(full);
        match presence(&full, Field::Reasoning, &items(without), preferred) {
            Some(Presence::Group(range)) => {
                full[range].iter().map(|item| if let Item::Char(c) = item { *c } else { '#' }).collect()
            }
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_group_is_what_is_missing_without_the_value() {
        assert_eq!(group("a\n<think>#</think>\nb", "a\nb", 0), "<think>#</think>\n");
        assert_eq!(group("a<think>#</think>b", "a</think>b", 0), "<think>#");
    }

    #[test]
    fn of_two_ways_to_cut_the_group_that_begins_behind_the_opening_is_taken() {
        let full = "<|s|>a<|c|>think#<|e|><|s|>a<|c|>say";
        assert_eq!(group(full, "<|s|>a<|c|>say", 6), "<|c|>think#<|e|><|s|>a");
    }

    #[test]
    fn what_stays_is_no_group() {
        assert_eq!(group("<think>\n#\n</think>b", "<think>\n\n</think>b", 0), "Some(Alone)");
        assert_eq!(group("<think>\n#\n</think>\nb", "<think></think>b", 0), "Some(AloneButSpaces)");
        assert_eq!(group("<think>\n#\n</think>b", "<think></think>b", 0), "\n#\n");
    }
}
