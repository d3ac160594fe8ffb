//! `groupby` and `dictsort`.

use std::rc::Rc;

use super::lazy::{Path, ignore_case};
use super::{Args, FilterFn, flag, needed};
use crate::error::{Fault, Res};
use crate::value::compare::equal;
use crate::value::iter::collect;
use crate::value::{List, Value};
use crate::vm::World;

pub(super) const FILTERS: &[(&str, FilterFn)] = &[("groupby", group_by), ("dictsort", dict_sort)];

fn group_by<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let [attribute, default, case_sensitive] = args.bind("groupby", ["attribute", "default", "case_sensitive"])?;
    let path = Path::new(world, Some(needed("groupby", "attribute", attribute)?))?;
    let default = default.filter(|default| !matches!(default, Value::None));
    let is_case_sensitive = flag(world, case_sensitive, false);
    let key_of = |item: &Value<'a>| {
        let key = path.get(world, item, default)?;
        if is_case_sensitive { Ok(key) } else { ignore_case(world, key) }
    };
    let items = collect(world, args.subject())?;
    super::sequences::check_keyed(world, items.len(), 3)?;
    let mut keyed = Vec::with_capacity(items.len());
    for item in items {
        keyed.push((vec![key_of(&item)?], item));
    }
    let mut groups: Vec<(Value<'a>, Vec<Value<'a>>)> = Vec::new();
    for item in super::sequences::sorted(world, keyed, false, false)? {
        let key = key_of(&item)?;
        match groups.last_mut() {
            Some((known, items)) if equal(world, known, &key, 0)? => items.push(item),
            _ => groups.push((key, vec![item])),
        }
    }
    let mut tuples = Vec::with_capacity(groups.len());
    for (key, items) in groups {
        // The group's key is that of its first item, not the lowercase form.
        let key = if is_case_sensitive { key } else { path.get(world, &items[0], default)? };
        let items = Value::list(world, items)?;
        tuples.push(Value::Tuple(Rc::new(List::group(world, vec![key, items])?)));
    }
    Value::list(world, tuples)
}

fn dict_sort<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let [case_sensitive, by, reverse] = args.bind("dictsort", ["case_sensitive", "by", "reverse"])?;
    let place = match by {
        None => 0,
        Some(Value::Str(by)) if by.plain() == "key" => 0,
        Some(Value::Str(by)) if by.plain() == "value" => 1,
        Some(_) => return Err(Fault::type_error("You can only sort by either \"key\" or \"value\"")),
    };
    let dict = args.subject();
    if let Value::Undefined(absence) = dict {
        return Err(absence.fault());
    }
    if !dict.is_mapping() {
        return Err(Fault::type_error(format!("'{}' object has no attribute 'items'", dict.kind())));
    }
    let is_case_sensitive = flag(world, case_sensitive, false);
    super::sequences::check_keyed(world, dict.size(world).unwrap_or(0), 3)?;
    let mut keyed = Vec::new();
    for index in 0..dict.size(world).unwrap_or(0) {
        world.work(64)?;
        let Some((key, value)) = dict.entry_at(world, index)? else { continue };
        let sort_key = if place == 0 { key.clone() } else { value.clone() };
        let sort_key = if is_case_sensitive { sort_key } else { ignore_case(world, sort_key)? };
        keyed.push((vec![sort_key], Value::tuple(world, vec![key, value])?));
    }
    let items = super::sequences::sorted(world, keyed, false, flag(world, reverse, false))?;
    Value::list(world, items)
}
