//! Queries about a format's layouts.

use rolecall::conversation::json::Object;
use rolecall::format::{Choice, Codec, Field, Format, Op, Slot};

/// Returns the marker that splits an option's text in two, if some layout writes the two parts
/// separately.
pub fn split_mark(format: &Format, choice: &Choice) -> Option<String> {
    let at = format.choices.iter().position(|known| known == choice)?;
    fn among(ops: &[Op], at: usize) -> Option<String> {
        ops.iter().find_map(|op| match op {
            Op::Hole { field: Field::Option(number), codec: Codec::Before(name), .. } if *number == at => {
                Some(format!("{{{name}}}"))
            }
            Op::Group(inner) => among(inner, at),
            _ => None,
        })
    }
    Slot::ALL.into_iter().find_map(|slot| among(format.layout(slot)?.ops(), at))
}

/// Reports whether a message has a field of the family's own after its text. Such a message is
/// complete.
pub fn says_more(format: &Format, slot: Slot, message: &Object) -> bool {
    let after = format.layout(slot).map_or(Vec::new(), |layout| fields_after(layout.ops()));
    after.iter().any(|field| match field {
        Field::Extra(at) => message.get(&format.fields[*at].0).is_some(),
        _ => false,
    })
}

/// Returns the holes after a message's text.
fn fields_after(ops: &[Op]) -> Vec<Field> {
    fn collect(ops: &[Op], fields: &mut Vec<Field>) {
        for op in ops {
            match op {
                Op::Hole { field, .. } => fields.push(*field),
                Op::Group(inner) => collect(inner, fields),
                Op::Literal(_) | Op::Control(_) | Op::Seam | Op::Own(_) => {}
            }
        }
    }
    let mut fields = Vec::new();
    collect(ops, &mut fields);
    let content = fields.iter().position(|field| *field == Field::Content);
    content.map_or(Vec::new(), |content| fields.split_off(content + 1))
}

/// Reports whether a layout has a hole of this name with a good codec.
pub(super) fn has_hole(ops: &[Op], name: &str, good: &dyn Fn(&Codec) -> bool) -> bool {
    ops.iter().any(|op| match op {
        Op::Hole { field, codec, .. } => field.name() == name && good(codec),
        Op::Group(inner) => has_hole(inner, name, good),
        Op::Literal(_) | Op::Control(_) | Op::Seam | Op::Own(_) => false,
    })
}
