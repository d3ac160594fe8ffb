//! `pprint`: Python's `pprint.pformat`, for values that fit on one line.

use super::{Args, FilterFn};
use crate::error::{Fault, Res};
use crate::value::compare::{order, sort};
use crate::value::dict::Dict;
use crate::value::{Value, char_count};
use crate::vm::World;

pub(super) const FILTERS: &[(&str, FilterFn)] = &[("pprint", pretty)];

fn pretty<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    args.bind::<0>("pprint", [])?;
    let text = sorted(world, args.subject(), 0)?.to_repr(world)?;
    if char_count(text.plain()) > 80 {
        return Err(Fault::unsupported("`pprint` of more than one line is not supported"));
    }
    Ok(Value::Str(text))
}

/// Returns the value with the keys of all dicts sorted.
fn sorted<'a>(world: &World<'a>, value: &Value<'a>, depth: u32) -> Res<Value<'a>> {
    world.check_depth(depth)?;
    world.work(64)?;
    match value {
        Value::Dict(_) | Value::InputDict(..) => {
            let mut entries = Vec::new();
            for index in 0..value.size(world).unwrap_or(0) {
                entries.extend(value.entry_at(world, index)?);
            }
            let entries = sort(entries, |left, right| match order(world, "<", &left.0, &right.0, 0) {
                Ok(order) => Ok(order == Some(std::cmp::Ordering::Less)),
                // pprint: keys that cannot be compared are sorted by the names of their types.
                Err(fault) if fault.kind() == crate::ErrorKind::Type => Ok(left.0.kind() < right.0.kind()),
                Err(fault) => Err(fault),
            })?;
            let mut dict = Dict::new(world)?;
            for (key, value) in entries {
                dict.insert(world, key, sorted(world, &value, depth + 1)?)?;
            }
            Ok(dict.into_value())
        }
        value if value.is_list() || matches!(value, Value::Tuple(_)) => {
            let mut items = Vec::new();
            for index in 0..value.size(world).unwrap_or(0) {
                if let Some(item) = value.item_at(world, index)? {
                    items.push(sorted(world, &item, depth + 1)?);
                }
            }
            if matches!(value, Value::Tuple(_)) { Value::tuple(world, items) } else { Value::list(world, items) }
        }
        other => Ok(other.clone()),
    }
}
