//! Methods of dicts, lists, tuples, numbers, loops and cyclers.

use std::rc::Rc;

use super::functions::cycle_next;
use super::methods::Method;
use super::{Args, int_arg, needed};
use crate::error::{Fault, Res};
use crate::value::compare::equal;
use crate::value::iter::collect;
use crate::value::{Value, View, ViewKind, number};
use crate::vm::World;

pub(super) const DICT: &[Method] = &[
    Method::new("items", items),
    Method::new("get", get),
    Method::new("keys", keys),
    Method::new("values", values),
    Method::new("copy", copy_dict),
    Method::new("fromkeys", dict_from_keys),
    Method::refused("clear"),
    Method::refused("pop"),
    Method::refused("popitem"),
    Method::refused("setdefault"),
    Method::refused("update"),
];

pub(super) const LIST: &[Method] = &[
    Method::new("copy", copy_list),
    Method::new("count", count),
    Method::new("index", index),
    Method::refused("append"),
    Method::refused("clear"),
    Method::refused("extend"),
    Method::refused("insert"),
    Method::refused("pop"),
    Method::refused("remove"),
    Method::refused("reverse"),
    Method::refused("sort"),
];

pub(super) const TUPLE: &[Method] = &[Method::new("count", count), Method::new("index", index)];

pub(super) const INT: &[Method] =
    &[Method::new("bit_length", bit_length), Method::new("bit_count", bit_count), Method::new("conjugate", conjugate)];

pub(super) const FLOAT: &[Method] = &[Method::new("is_integer", is_integer), Method::new("conjugate", conjugate)];

pub(super) const LOOP: &[Method] = &[Method::new("cycle", loop_cycle), Method::new("changed", loop_changed)];

pub(super) const CYCLER: &[Method] = &[Method::new("next", cycler_next), Method::new("reset", cycler_reset)];

fn no_args(name: &str, args: Args<'_, '_>) -> Res<()> {
    args.bind::<0>(name, []).map(|_| ())
}

fn view<'a>(world: &World<'a>, args: Args<'_, 'a>, kind: ViewKind, name: &str) -> Res<Value<'a>> {
    no_args(name, args)?;
    world.work(128)?;
    Ok(Value::View(Rc::new(View { dict: args.subject().clone(), kind })))
}

fn items<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    view(world, args, ViewKind::Items, "items")
}

fn keys<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    view(world, args, ViewKind::Keys, "keys")
}

fn values<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    view(world, args, ViewKind::Values, "values")
}

fn get<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    if !args.names.is_empty() {
        return Err(Fault::type_error("dict.get() takes no keyword arguments"));
    }
    let [key, default] = args.bind("get", ["key", "default"])?;
    let key = needed("get", "key", key)?;
    let found = match key {
        Value::Str(key) => args.subject().dict_get_str(world, key.plain())?,
        key => args.subject().dict_get(world, key)?,
    };
    Ok(found.unwrap_or_else(|| default.cloned().unwrap_or(Value::None)))
}

fn copy_dict<'a>(_: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    no_args("copy", args)?;
    Ok(args.subject().clone())
}

fn dict_from_keys<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let rest = Args { values: args.values.get(1..).unwrap_or(&[]), names: args.names };
    super::functions::Function::DictFromKeys.call(world, rest)
}

fn copy_list<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    no_args("copy", args)?;
    Value::list(world, collect(world, args.subject())?)
}

fn count<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let [wanted] = args.bind("count", ["value"])?;
    let wanted = needed("count", "value", wanted)?;
    let list = args.subject();
    let mut found = 0;
    for at in 0..list.size(world).unwrap_or(0) {
        world.work(32)?;
        if let Some(item) = list.item_at(world, at)? {
            found += i64::from(equal(world, &item, wanted, 0)?);
        }
    }
    Ok(Value::Int(found))
}

fn index<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let [wanted, start, stop] = args.bind("index", ["value", "start", "stop"])?;
    let wanted = needed("index", "value", wanted)?;
    let list = args.subject();
    let length = list.size(world).unwrap_or(0) as i64;
    let clamp = |at: i64| if at < 0 { (at + length).max(0) } else { at.min(length) };
    let (start, stop) = (clamp(int_arg(start, 0)?), clamp(int_arg(stop, length)?));
    for at in start..stop {
        world.work(32)?;
        if let Some(item) = list.item_at(world, at as usize)?
            && equal(world, &item, wanted, 0)?
        {
            return Ok(Value::Int(at));
        }
    }
    Err(Fault::value(format!("{} is not in list", wanted.to_repr(world)?.plain())))
}

fn bit_length<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    no_args("bit_length", args)?;
    let number = crate::value::compare::big(args.subject());
    world.work(number.bits() as usize / 4)?;
    Ok(Value::Int(number.bits() as i64))
}

fn bit_count<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    no_args("bit_count", args)?;
    let number = crate::value::compare::big(args.subject());
    world.work(number.bits() as usize / 4)?;
    let ones: u32 = number.iter_u64_digits().map(u64::count_ones).sum();
    Ok(Value::Int(ones.into()))
}

fn conjugate<'a>(_: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    no_args("conjugate", args)?;
    crate::value::operate::positive(args.subject())
}

fn is_integer<'a>(_: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    no_args("is_integer", args)?;
    let value = number::to_float(args.subject())?;
    Ok(Value::Bool(value.is_finite() && value.fract() == 0.0))
}

fn loop_cycle<'a>(_: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let Value::Loop(state) = args.subject() else { return Ok(Value::None) };
    let items = args.positional();
    if items.is_empty() {
        return Err(Fault::type_error("no items for cycling given"));
    }
    Ok(items[(state.borrow().index0().max(0) as usize) % items.len()].clone())
}

fn loop_changed<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let Value::Loop(state) = args.subject() else { return Ok(Value::None) };
    let now = Value::tuple(world, args.positional().to_vec())?;
    let place = state.borrow_mut().changed_place(world);
    let last = world.changed.borrow()[place].clone();
    if !matches!(last, Value::Missing) && equal(world, &last, &now, 0)? {
        return Ok(Value::Bool(false));
    }
    world.changed.borrow_mut()[place] = now;
    Ok(Value::Bool(true))
}

fn cycler_next<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let Value::Cycler(cycler) = args.subject() else { return Ok(Value::None) };
    cycle_next(world, cycler)
}

fn cycler_reset<'a>(_: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    if let Value::Cycler(cycler) = args.subject() {
        cycler.position.set(0);
    }
    Ok(Value::None)
}
