//! List filters, and filters that accept any value.

use super::lazy::{Path, ignore_case};
use super::{Args, FilterFn, flag, needed, str_arg};
use crate::error::{Fault, Res};
use crate::lexer::is_space;
use crate::parser::ast::BinaryOp;
use crate::value::Value;
use crate::value::builder::{Builder, Pieces};
use crate::value::compare::{order, sort};
use crate::value::iter::{Iter, collect};
use crate::value::operate::binary;
use crate::value::subscript::{self, AttributeValue, own_attribute};
use crate::value::text::Str;
use crate::vm::World;

pub(super) const FILTERS: &[(&str, FilterFn)] = &[
    ("length", length),
    ("count", length),
    ("default", default),
    ("d", default),
    ("join", join),
    ("list", list),
    ("first", first),
    ("last", last),
    ("reverse", reverse),
    ("sort", sort_filter),
    ("min", |world, args| extreme(world, args, "min", std::cmp::Ordering::Less)),
    ("max", |world, args| extreme(world, args, "max", std::cmp::Ordering::Greater)),
    ("sum", sum),
    ("attr", attr),
    ("random", |_, _| Err(Fault::unsupported("`random` is not supported: rendering is deterministic"))),
];

fn length<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    args.bind::<0>("length", [])?;
    args.subject().python_len(world).map(Value::length)
}

fn default<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let [default, boolean] = args.bind("default", ["default_value", "boolean"])?;
    let value = args.subject();
    if value.is_undefined() || (flag(world, boolean, false) && !value.is_true(world)) {
        return Ok(default.cloned().unwrap_or(Value::text("")));
    }
    Ok(value.clone())
}

fn join<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let [separator, attribute] = args.bind("join", ["d", "attribute"])?;
    let separator = separator.map_or(Ok(Str::empty()), |separator| separator.to_str(world))?;
    let path = Path::new(world, attribute)?;
    let mut iter = Iter::new(world, args.subject())?;
    let mut builder = Builder::new(world);
    let mut is_first = true;
    while let Some(item) = iter.next(world)? {
        if !std::mem::replace(&mut is_first, false) {
            builder.push_str(&separator)?;
        }
        let item = if attribute.is_some() { path.get(world, &item, None)? } else { item };
        let item = item.to_str(world)?;
        world.work(64 + separator.weight() + item.weight())?;
        builder.push_str(&item)?;
    }
    builder.finish().map(Value::Str)
}

fn list<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    args.bind::<0>("list", [])?;
    match args.subject() {
        // A copy of an immutable list is the list itself.
        list if list.is_list() => Ok(list.clone()),
        other => Value::list(world, collect(world, other)?),
    }
}

fn first<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    args.bind::<0>("first", [])?;
    let first = Iter::new(world, args.subject())?.next(world)?;
    Ok(first.unwrap_or(Value::undefined("No first item, sequence was empty.")))
}

/// Returns the items in reverse order, if Python's `reversed` accepts the value.
fn reversed<'a>(world: &World<'a>, value: &Value<'a>) -> Res<Option<Vec<Value<'a>>>> {
    let is_reversible = value.is_sequence()
        || value.is_mapping()
        || matches!(value, Value::View(_) | Value::Str(_) | Value::Undefined(_));
    if !is_reversible {
        return Ok(None);
    }
    let mut items = collect(world, value)?;
    items.reverse();
    Ok(Some(items))
}

fn last<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    args.bind::<0>("last", [])?;
    let value = args.subject();
    let empty = || Value::undefined("No last item, sequence was empty.");
    if value.is_sequence() {
        let last = value.size(world).unwrap_or(0).checked_sub(1);
        return Ok(last.map_or(Ok(None), |at| value.item_at(world, at))?.unwrap_or_else(empty));
    }
    if let Value::Str(text) = value {
        return Ok(match text.plain().char_indices().next_back() {
            Some((at, _)) => Value::Str(text.slice(world, at..text.plain().len())?),
            None => empty(),
        });
    }
    match reversed(world, value)? {
        Some(items) => Ok(items.into_iter().next().unwrap_or_else(empty)),
        None => Err(Fault::type_error(format!("'{}' object is not reversible", value.kind()))),
    }
}

fn reverse<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    args.bind::<0>("reverse", [])?;
    let value = args.subject();
    if let Value::Str(_) = value {
        return subscript::slice(world, value, [&Value::None, &Value::None, &Value::Int(-1)]);
    }
    match reversed(world, value)? {
        Some(items) => super::lazy::iterator(world, "list_reverseiterator object", items),
        None => {
            let mut items = collect(world, value).map_err(|fault| match fault.kind() {
                crate::ErrorKind::Type => Fault::type_error("argument must be iterable"),
                _ => fault,
            })?;
            items.reverse();
            Value::list(world, items)
        }
    }
}

fn sort_filter<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let [reverse, case_sensitive, attribute] = args.bind("sort", ["reverse", "case_sensitive", "attribute"])?;
    let is_case_sensitive = flag(world, case_sensitive, false);
    let mut paths = Vec::new();
    match attribute {
        Some(Value::Str(text)) => {
            for part in text.plain().split(',') {
                let part = Value::Str(text.slice(world, text.range_of(part))?);
                paths.push(Path::new(world, Some(&part))?);
            }
        }
        other => paths.push(Path::new(world, other)?),
    }
    let items = collect(world, args.subject())?;
    check_keyed(world, items.len(), paths.len())?;
    let mut keyed = Vec::with_capacity(items.len());
    for item in items {
        let mut key = Vec::with_capacity(paths.len());
        for path in &paths {
            let part = path.get(world, &item, None)?;
            key.push(if is_case_sensitive { part } else { ignore_case(world, part)? });
        }
        keyed.push((key, item));
    }
    let items = sorted(world, keyed, true, flag(world, reverse, false))?;
    Value::list(world, items)
}

/// Checks that there is room for sort keys of this many items.
pub(super) fn check_keyed(world: &World<'_>, items: usize, parts: usize) -> Res<()> {
    world.check_items(items.saturating_mul(4 + parts))
}

/// Sorts as Python's `sorted` does, by keys. A list key is compared part by part, first for
/// equality; otherwise the key is its only part.
pub(super) fn sorted<'a>(
    world: &World<'a>,
    mut keyed: Vec<(Vec<Value<'a>>, Value<'a>)>,
    is_list: bool,
    is_reversed: bool,
) -> Res<Vec<Value<'a>>> {
    // A reversed sort keeps the order of equal items: reverse, sort, and reverse again.
    if is_reversed {
        keyed.reverse();
    }
    let mut sorted = sort(keyed, |left, right| {
        world.work(64)?;
        for (left, right) in left.0.iter().zip(&right.0) {
            if !is_list || !crate::value::compare::equal(world, left, right, 0)? {
                return Ok(order(world, "<", left, right, 0)? == Some(std::cmp::Ordering::Less));
            }
        }
        Ok(false)
    })?;
    if is_reversed {
        sorted.reverse();
    }
    Ok(sorted.into_iter().map(|(_, item)| item).collect())
}

fn extreme<'a>(world: &World<'a>, args: Args<'_, 'a>, name: &str, wanted: std::cmp::Ordering) -> Res<Value<'a>> {
    let [case_sensitive, attribute] = args.bind(name, ["case_sensitive", "attribute"])?;
    let is_case_sensitive = flag(world, case_sensitive, false);
    let path = Path::new(world, attribute)?;
    let mut best: Option<(Value<'a>, Value<'a>)> = None;
    let mut iter = Iter::new(world, args.subject())?;
    while let Some(item) = iter.next(world)? {
        world.work(64)?;
        let key = path.get(world, &item, None)?;
        let key = if is_case_sensitive { key } else { ignore_case(world, key)? };
        let is_better = match &best {
            None => true,
            Some((known, _)) => order(world, if name == "min" { "<" } else { ">" }, &key, known, 0)? == Some(wanted),
        };
        if is_better {
            best = Some((key, item));
        }
    }
    Ok(best.map_or(Value::undefined("No aggregated item, sequence was empty."), |(_, item)| item))
}

fn sum<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let [attribute, start] = args.bind("sum", ["attribute", "start"])?;
    let path = Path::new(world, attribute)?;
    let mut total = start.cloned().unwrap_or(Value::Int(0));
    if let Value::Str(_) = total {
        return Err(Fault::type_error("sum() can't sum strings [use ''.join(seq) instead]"));
    }
    let mut iter = Iter::new(world, args.subject())?;
    while let Some(item) = iter.next(world)? {
        world.work(64)?;
        let item = if attribute.is_some() { path.get(world, &item, None)? } else { item };
        total = binary(world, BinaryOp::Add, &total, &item)?;
    }
    Ok(total)
}

fn attr<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let [name] = args.bind("attr", ["name"])?;
    let name = str_arg(needed("attr", "name", name)?)?.plain();
    let value = args.subject();
    world.work(name.len() * 4)?;
    if name.contains(is_space) {
        return subscript::attribute_named(world, &Value::None, name);
    }
    match own_attribute(world, value, name)? {
        AttributeValue::Nothing => subscript::attribute_named(world, &Value::None, name),
        _ => subscript::attribute_named(world, value, name),
    }
}
