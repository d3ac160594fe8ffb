//! The items of a turn with their groups, and their conversion to the pieces of a layout.

use std::ops::Range;

use rolecall_format::{Codec, Field, Op};

use crate::sequence::{Item, Sequence};
use crate::spans::Spans;

/// The items of a turn, and the groups of items that depend on a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pattern {
    items: Vec<Item>,
    groups: Spans,
}

impl Pattern {
    pub fn new(items: Vec<Item>, groups: Spans) -> Pattern {
        Pattern { items, groups }
    }

    pub fn items(&self) -> &Sequence {
        &self.items
    }

    pub fn groups(&self) -> &Spans {
        &self.groups
    }

    /// Returns the pattern without the group that contains a position.
    #[must_use]
    pub fn without_group(mut self, at: usize) -> Pattern {
        self.groups = self.groups.iter().filter(|group| !group.contains(&at)).cloned().collect();
        self
    }

    /// Inserts items, as a group or not. A group around the position keeps only the side that has its
    /// value: what comes before or after the new items no longer depends on it.
    #[must_use]
    pub fn with_inserted(&self, at: usize, new: &Sequence, is_group: bool) -> Pattern {
        let at = at.min(self.items.len());
        let kept = self.groups.iter().filter_map(|group| match group.start < at && at < group.end {
            true => self.side_with_value(group, at),
            false => Some(group.clone()),
        });
        let moved = kept.map(|group| match group.start < at {
            true => group,
            false => group.start + new.len()..group.end + new.len(),
        });
        let own = is_group.then_some(at..at + new.len());
        let groups = moved.chain(own).collect();
        let (before, behind) = self.items.split_at(at);
        Pattern { items: [before, new, behind].concat(), groups }
    }

    /// Returns the side of a group that has its value, unless it is the value alone, which needs no
    /// group.
    fn side_with_value(&self, group: &Range<usize>, at: usize) -> Option<Range<usize>> {
        let has_value = |range: &Range<usize>| {
            let items = self.items.get(range.clone()).unwrap_or_default();
            items.iter().any(|item| !matches!(item, Item::Char(_)))
        };
        let mut sides = [group.start..at, at..group.end].into_iter().filter(has_value);
        let side = sides.next().filter(|side| side.len() > 1)?;
        sides.next().is_none().then_some(side)
    }

    /// Returns the pieces. `codec` returns the codec for each field.
    pub fn ops(&self, codec: &impl Fn(Field) -> Codec) -> Vec<Op> {
        let mut ops = Vec::new();
        for (before, group) in self.groups.cut(&self.items) {
            push(before, codec, &mut ops);
            if !group.is_empty() {
                ops.push(Op::Group(self::ops(group, codec)));
            }
        }
        ops
    }
}

/// Converts items to the pieces of a layout. `codec` returns the codec for each field.
pub(crate) fn ops(items: &Sequence, codec: &impl Fn(Field) -> Codec) -> Vec<Op> {
    let mut ops = Vec::new();
    push(items, codec, &mut ops);
    ops
}

fn push(items: &Sequence, codec: &impl Fn(Field) -> Codec, ops: &mut Vec<Op>) {
    for item in items {
        match (item, ops.last_mut()) {
            (Item::Char(character), Some(Op::Literal(text))) => text.push(*character),
            (Item::Char(character), _) => ops.push(Op::Literal(character.to_string())),
            (Item::Hole(field), _) => ops.push(Op::hole(*field, codec(*field))),
            (Item::Present(field), _) => ops.push(Op::hole(*field, Codec::Present)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequence::items;

    /// Inserts `+` into `ab` and the content, `cd` with the content and `ef`, of which all but the ends is a
    /// group, and shows the groups in brackets.
    fn inserted(at: usize, is_group: bool) -> String {
        let all = [items("ab"), vec![Item::Hole(Field::Content)], items("cd")].concat();
        let pattern = Pattern::new(all, std::iter::once(1..4).collect());
        let pattern = pattern.with_inserted(at, &items("+"), is_group);
        let shown = |items: &Sequence| -> String {
            items.iter().map(|item| if let Item::Char(character) = item { *character } else { '#' }).collect()
        };
        let cut = pattern.groups.cut(&pattern.items);
        let shown = cut.iter().map(|(before, group)| match group.is_empty() {
            true => shown(before),
            false => format!("{}[{}]", shown(before), shown(group)),
        });
        shown.collect()
    }

    #[test]
    fn an_insertion_leaves_groups_in_order() {
        assert_eq!(inserted(0, true), "[+]a[b#c]d");
        assert_eq!(inserted(1, true), "a[+][b#c]d");
        assert_eq!(inserted(2, true), "ab[+][#c]d");
        assert_eq!(inserted(3, false), "a[b#]+cd");
        assert_eq!(inserted(4, false), "a[b#c]+d");
        assert_eq!(inserted(9, true), "a[b#c]d[+]");
    }
}
