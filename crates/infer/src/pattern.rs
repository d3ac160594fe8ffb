//! Conversion of the items of a turn to the pieces of a layout.

use std::ops::Range;

use rolecall_format::{Codec, Field, Op};

use crate::sequence::{Item, Sequence};

/// Converts items to the pieces of a layout, with these ranges as groups. `codec` returns the codec
/// for each field.
pub(crate) fn ops(items: &Sequence, groups: &[Range<usize>], codec: &impl Fn(Field) -> Codec) -> Vec<Op> {
    let mut ops = Vec::new();
    let mut at = 0;
    for group in groups {
        push(&items[at..group.start], codec, &mut ops);
        let mut inner = Vec::new();
        push(&items[group.clone()], codec, &mut inner);
        ops.push(Op::Group(inner));
        at = group.end;
    }
    push(&items[at..], codec, &mut ops);
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
