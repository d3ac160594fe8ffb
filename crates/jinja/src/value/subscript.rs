//! `a.b`, `a['b']`, `a[1]` and slices, with the lookup rules of jinja2's sandbox.

use std::any::Any;
use std::rc::Rc;

use super::builder::{Builder, Pieces};
use super::text::Str;
use super::{Absence, BoundMethod, Value, number};
use crate::builtins::functions::Function;
use crate::builtins::methods::{self, Method};
use crate::error::{Fault, Res};
use crate::input::InputNode;
use crate::vm::World;

impl<'a> Value<'a> {
    /// Returns the entry of a dict at an index.
    pub(crate) fn entry_at(&self, world: &World<'a>, index: usize) -> Res<Option<(Value<'a>, Value<'a>)>> {
        Ok(match self {
            Value::InputDict(dict, _) => match world.inputs.entry(*dict, index) {
                Some(entry) => Some((Value::Str(Str::input(entry.key, entry.key_tag)), Value::of(world, entry.value)?)),
                None => None,
            },
            Value::Dict(dict) => dict.entries().get(index).cloned(),
            _ => None,
        })
    }

    /// Returns the value of a key in a dict.
    pub(crate) fn dict_get(&self, world: &World<'a>, key: &Value<'a>) -> Res<Option<Value<'a>>> {
        match self {
            Value::InputDict(dict, _) => match key {
                Value::Str(text) => input_get(world, *dict, text.plain()),
                other => super::compare::hash(world, other, 0).map(|_| None),
            },
            Value::Dict(dict) => Ok(dict.get(world, key)?.cloned()),
            _ => Ok(None),
        }
    }

    /// Returns the value of a string key in a dict.
    #[inline]
    pub(crate) fn dict_get_str(&self, world: &World<'a>, key: &str) -> Res<Option<Value<'a>>> {
        match self {
            Value::InputDict(dict, _) => input_get(world, *dict, key),
            Value::Dict(dict) => Ok(dict.get_str(key).cloned()),
            _ => Ok(None),
        }
    }
}

#[inline]
fn input_get<'a>(world: &World<'a>, dict: &'a dyn Any, key: &str) -> Res<Option<Value<'a>>> {
    input_node(world, dict, key)?.map(|found| Value::of_node(world, found)).transpose()
}

/// Returns the value of a key in a caller's dict.
#[inline]
pub(crate) fn input_node<'a>(world: &World<'a>, dict: &'a dyn Any, key: &str) -> Res<Option<InputNode<'a>>> {
    world.charge_search(dict)?;
    let mut found = None;
    world.inputs.look_up(dict, key, &mut found);
    Ok(found)
}

/// Evaluates `a.name`: the attribute, or else the item.
#[inline]
pub(crate) fn attribute<'a>(world: &World<'a>, value: &Value<'a>, name: &'a str) -> Res<Value<'a>> {
    if let Value::InputDict(dict, _) = value
        && !methods::is_dict_attribute(name)
    {
        return Ok(match input_get(world, *dict, name)? {
            Some(found) => found,
            None => Value::Undefined(Absence::Attribute(value.type_name(), name)),
        });
    }
    match value {
        Value::Namespace(id) => {
            if let Some(found) = world.namespace_get(*id, name) {
                return Ok(found);
            }
        }
        Value::Loop(state) => {
            if let Some(found) = state.borrow_mut().attribute(world, name)? {
                return Ok(found);
            }
        }
        _ => {}
    }
    match own_attribute(world, value, name)? {
        AttributeValue::Value(found) => Ok(found),
        AttributeValue::Unsafe => Ok(Value::Undefined(Absence::Unsafe(value.type_name(), name))),
        AttributeValue::Nothing => match value.dict_get_str(world, name)? {
            Some(found) => Ok(found),
            None => Ok(Value::Undefined(Absence::Attribute(value.type_name(), name))),
        },
    }
}

/// Evaluates `a.name` for a name that is computed at run time.
pub(crate) fn attribute_named<'a>(world: &World<'a>, value: &Value<'a>, name: &str) -> Res<Value<'a>> {
    world.work(128)?;
    match own_attribute(world, value, name)? {
        AttributeValue::Value(found) => Ok(found),
        AttributeValue::Unsafe => Ok(unsafe_undefined(value, name)),
        AttributeValue::Nothing => match value.dict_get_str(world, name)? {
            Some(found) => Ok(found),
            None => Ok(no_attribute(value, name)),
        },
    }
}

fn no_attribute<'a>(value: &Value<'a>, name: &str) -> Value<'a> {
    let name = short(name);
    Value::Undefined(Absence::Words(Rc::from(format!("'{}' has no attribute '{name}'", value.type_name().described()))))
}

/// Truncates a name for an error message. Values keep their message, and the memory of a long one
/// would not be counted.
fn short(name: &str) -> &str {
    name.char_indices().nth(200).map_or(name, |(at, _)| &name[..at])
}

fn unsafe_undefined<'a>(value: &Value<'a>, name: &str) -> Value<'a> {
    let name = short(name);
    let message = format!("access to attribute '{name}' of '{}' object is unsafe.", value.kind());
    Value::Undefined(Absence::UnsafeWords(Rc::from(message)))
}

/// Evaluates `a[key]`: the item, or else the attribute.
pub(crate) fn item<'a>(world: &World<'a>, value: &Value<'a>, key: &Value<'a>) -> Res<Value<'a>> {
    match value {
        Value::Undefined(absence) => return Err(absence.fault()),
        Value::InputDict(..) | Value::Dict(_) => match value.dict_get(world, key) {
            Ok(Some(found)) => return Ok(found),
            Ok(None) => {}
            // An unhashable key matches nothing.
            Err(fault) if fault.kind() == crate::ErrorKind::Type => {}
            Err(fault) => return Err(fault),
        },
        Value::Str(text) => {
            if let Value::Int(_) | Value::Bool(_) = key
                && let Some(range) = character_range(world, text.plain(), number::index(key)?)?
            {
                return Ok(Value::Str(text.slice(world, range)?));
            }
        }
        _ if value.is_sequence() => {
            if let Value::Int(_) | Value::Bool(_) = key {
                let index = number::index(key)?;
                // An item of a growing list stays where it is.
                let found = match usize::try_from(index) {
                    Ok(index) if value.grows(world) => Some(index),
                    _ => wrap_index(index, value.size(world).unwrap_or(0)),
                };
                if let Some(index) = found
                    && let Some(found) = value.item_at(world, index)?
                {
                    return Ok(found);
                }
            }
        }
        _ => {}
    }
    if let Value::Str(name) = key {
        let name = name.plain();
        world.work(128)?;
        return Ok(match own_attribute(world, value, name)? {
            AttributeValue::Value(found) => found,
            AttributeValue::Unsafe => unsafe_undefined(value, name),
            AttributeValue::Nothing => no_attribute(value, name),
        });
    }
    world.work(256)?;
    let key = key.to_repr(world)?;
    let words = format!("{} has no element {}", value.type_name().described(), short(key.plain()));
    Ok(Value::Undefined(Absence::Words(Rc::from(words))))
}

/// Converts an index that may be negative to one from the start.
pub(crate) fn wrap_index(index: i64, length: usize) -> Option<usize> {
    let index = if index < 0 { index.checked_add(length as i64)? } else { index };
    usize::try_from(index).ok().filter(|&index| index < length)
}

/// Returns the byte range of the character at an index, which may be negative.
fn character_range(world: &World<'_>, text: &str, index: i64) -> Res<Option<std::ops::Range<usize>>> {
    world.work(text.len())?;
    if text.is_ascii() {
        return Ok(wrap_index(index, text.len()).map(|at| at..at + 1));
    }
    let found = match index {
        0.. => text.char_indices().nth(index as usize),
        _ => text.char_indices().rev().nth((-(index + 1)) as usize),
    };
    Ok(found.map(|(at, c)| at..at + c.len_utf8()))
}

pub(crate) enum AttributeValue<'a> {
    Value(Value<'a>),
    Unsafe,
    Nothing,
}

/// Looks up an attribute as Python's `getattr` does.
pub(crate) fn own_attribute<'a>(world: &World<'a>, value: &Value<'a>, name: &str) -> Res<AttributeValue<'a>> {
    if let Value::Undefined(absence) = value {
        if UNDEFINED_DUNDERS.contains(&name) {
            return Ok(AttributeValue::Unsafe);
        }
        return Err(absence.fault());
    }
    if let Value::Namespace(id) = value {
        return Ok(match world.namespace_get(*id, name) {
            Some(found) => AttributeValue::Value(found),
            None if name == "__class__" => AttributeValue::Unsafe,
            None => AttributeValue::Nothing,
        });
    }
    if let Some(method) = methods::find(value, name) {
        world.work(128)?;
        return Ok(if method.is_unsafe() {
            AttributeValue::Unsafe
        } else {
            AttributeValue::Value(bind(value.clone(), method))
        });
    }
    if is_dunder(name) {
        return Ok(AttributeValue::Unsafe);
    }
    Ok(match value {
        Value::Loop(state) => match state.borrow_mut().attribute(world, name)? {
            Some(found) => AttributeValue::Value(found),
            None => AttributeValue::Nothing,
        },
        Value::Macro(found) => match world.macro_attribute(found, name)? {
            Some(found) => AttributeValue::Value(found),
            None => AttributeValue::Nothing,
        },
        Value::Cycler(cycler) => match name {
            "current" => {
                AttributeValue::Value(cycler.items.item_at(world, cycler.position.get())?.unwrap_or(Value::None))
            }
            "items" => AttributeValue::Value(cycler.items.clone()),
            "pos" => AttributeValue::Value(Value::length(cycler.position.get())),
            _ => AttributeValue::Nothing,
        },
        Value::Joiner(joiner) => match name {
            "sep" => AttributeValue::Value(joiner.separator.clone()),
            "used" => AttributeValue::Value(Value::Bool(joiner.was_used.get())),
            _ => AttributeValue::Nothing,
        },
        Value::Function(Function::Dict) if name == "fromkeys" => {
            AttributeValue::Value(Value::Function(Function::DictFromKeys))
        }
        Value::Tuple(list) if list.is_group => match name {
            "grouper" => AttributeValue::Value(list.items[0].clone()),
            "list" => AttributeValue::Value(list.items[1].clone()),
            _ => AttributeValue::Nothing,
        },
        Value::Range(range) => match name {
            "start" => AttributeValue::Value(Value::Int(range.start)),
            "stop" => AttributeValue::Value(Value::Int(range.stop)),
            "step" => AttributeValue::Value(Value::Int(range.step)),
            _ => AttributeValue::Nothing,
        },
        Value::Int(_) | Value::Bool(_) | Value::Big(_) => match name {
            "real" | "numerator" => AttributeValue::Value(super::operate::positive(value)?),
            "imag" => AttributeValue::Value(Value::Int(0)),
            "denominator" => AttributeValue::Value(Value::Int(1)),
            _ => AttributeValue::Nothing,
        },
        Value::Float(value) => match name {
            "real" => AttributeValue::Value(Value::Float(*value)),
            "imag" => AttributeValue::Value(Value::Float(0.0)),
            _ => AttributeValue::Nothing,
        },
        _ => AttributeValue::Nothing,
    })
}

pub(crate) fn bind<'a>(receiver: Value<'a>, method: &'static Method) -> Value<'a> {
    Value::Method(Rc::new(BoundMethod { receiver, method }))
}

/// The attributes that undefined values have, for which jinja2's lookup does not fail.
const UNDEFINED_DUNDERS: &[&str] = &[
    "__add__",
    "__aiter__",
    "__bool__",
    "__call__",
    "__class__",
    "__complex__",
    "__delattr__",
    "__dir__",
    "__div__",
    "__doc__",
    "__eq__",
    "__float__",
    "__floordiv__",
    "__format__",
    "__ge__",
    "__getattr__",
    "__getattribute__",
    "__getitem__",
    "__getstate__",
    "__gt__",
    "__hash__",
    "__init__",
    "__init_subclass__",
    "__int__",
    "__iter__",
    "__le__",
    "__len__",
    "__lt__",
    "__mod__",
    "__module__",
    "__mul__",
    "__ne__",
    "__neg__",
    "__new__",
    "__pos__",
    "__pow__",
    "__radd__",
    "__rdiv__",
    "__reduce__",
    "__reduce_ex__",
    "__repr__",
    "__rfloordiv__",
    "__rmod__",
    "__rmul__",
    "__rpow__",
    "__rsub__",
    "__rtruediv__",
    "__setattr__",
    "__sizeof__",
    "__slots__",
    "__str__",
    "__sub__",
    "__subclasshook__",
    "__truediv__",
];

fn is_dunder(name: &str) -> bool {
    name.len() > 4 && name.starts_with("__") && name.ends_with("__")
}

/// Evaluates `a[start:stop:step]`.
pub(crate) fn slice<'a>(world: &World<'a>, value: &Value<'a>, bounds: [&Value<'a>; 3]) -> Res<Value<'a>> {
    if let Value::Undefined(absence) = value {
        return Err(absence.fault());
    }
    if !value.is_sequence() && !matches!(value, Value::Str(_)) {
        let message = match value {
            Value::Dict(_) | Value::InputDict(..) => "unhashable type: 'slice'".to_owned(),
            other => format!("'{}' object is not subscriptable", other.kind()),
        };
        return Err(Fault::type_error(message));
    }
    let mut numbers = [None; 3];
    for (number, bound) in numbers.iter_mut().zip(bounds) {
        *number = match bound {
            Value::None | Value::Missing => None,
            Value::Int(_) | Value::Bool(_) | Value::Big(_) => Some(number::index(bound)?),
            _ => {
                let message = "slice indices must be integers or None or have an __index__ method";
                return Err(Fault::type_error(message));
            }
        };
    }
    let step = numbers[2].unwrap_or(1);
    if step == 0 {
        return Err(Fault::value("slice step cannot be zero"));
    }
    if let Value::Str(text) = value {
        return slice_string(world, text, numbers[0], numbers[1], step).map(Value::Str);
    }
    let of_inputs = match value {
        Value::InputList(list, _) => Some(super::InputItems::all(world, *list)),
        Value::InputPart(part) => Some(part.items),
        _ => None,
    };
    // The items of a growing list from one on grow with it.
    if let (Some(items), Ok(start), None, 1) = (of_inputs, usize::try_from(numbers[0].unwrap_or(0)), numbers[1], step)
        && let Some(rest) = items.open_from(start)
    {
        return Value::input_part(world, rest);
    }
    let length = value.size(world).unwrap_or(0);
    let (start, end, count) = slice_range(length, numbers[0], numbers[1], step);
    if let Value::Range(range) = value {
        let at = |index: i64| range.start.saturating_add(range.step.saturating_mul(index));
        let (first, stop) = (at(start), at(end));
        let step = range.step.saturating_mul(step);
        return Ok(Value::Range(Rc::new(super::Range { start: first, stop, step, len: count })));
    }
    if let Some(items) = of_inputs {
        return Value::input_part(world, items.part(start as usize, step as isize, count));
    }
    world.check_items(count)?;
    let mut items = Vec::with_capacity(count);
    for at in 0..count {
        items.extend(value.item_at(world, (start + step.saturating_mul(at as i64)) as usize)?);
    }
    if matches!(value, Value::Tuple(_)) { Value::tuple(world, items) } else { Value::list(world, items) }
}

/// Returns the first index, the end index and the number of items.
fn slice_range(length: usize, start: Option<i64>, stop: Option<i64>, step: i64) -> (i64, i64, usize) {
    let length = length as i64;
    let (low, high) = if step > 0 { (0, length) } else { (-1, length - 1) };
    let clamp = |index: i64| if index < 0 { index.saturating_add(length).max(low) } else { index.min(high) };
    let start = start.map_or(if step > 0 { low } else { high }, clamp);
    let stop = stop.map_or(if step > 0 { high } else { low }, clamp);
    let distance = if step > 0 { stop - start } else { start - stop };
    let count = if distance <= 0 { 0 } else { (distance as u64).div_ceil(step.unsigned_abs()) as usize };
    (start, stop, count)
}

fn slice_string<'a>(
    world: &World<'a>,
    text: &Str<'a>,
    start: Option<i64>,
    stop: Option<i64>,
    step: i64,
) -> Res<Str<'a>> {
    let plain = text.plain();
    world.work(plain.len())?;
    let is_ascii = plain.is_ascii();
    let length = if is_ascii { plain.len() } else { plain.chars().count() };
    let (start, _, count) = slice_range(length, start, stop, step);
    let byte_at = |index: usize| {
        if is_ascii { index } else { plain.char_indices().nth(index).map_or(plain.len(), |(at, _)| at) }
    };
    if count == 0 {
        return text.slice(world, 0..0);
    }
    if step == 1 {
        let from = byte_at(start as usize);
        let to = if is_ascii {
            from + count
        } else {
            from + plain[from..].char_indices().nth(count).map_or(plain.len() - from, |(at, _)| at)
        };
        return text.slice(world, from..to);
    }
    world.work(plain.len() * 8)?;
    if let (Str::Slice(slice), true) = (text, step == -1) {
        // A reversed string is not a verbatim part, so it needs no piece for each character.
        let turned: String = match is_ascii {
            true => plain
                .as_bytes()
                .iter()
                .rev()
                .skip(length - 1 - start as usize)
                .take(count)
                .map(|byte| *byte as char)
                .collect(),
            false => plain.chars().rev().skip(length - 1 - start as usize).take(count).collect(),
        };
        let mut builder = Builder::new(world);
        builder.push(&turned, slice.origin.changed())?;
        return builder.finish();
    }
    world.meter.check(length * size_of::<usize>())?;
    let mut offsets = Vec::with_capacity(length);
    offsets.extend(plain.char_indices().map(|(at, _)| at));
    let mut builder = Builder::new(world);
    for at in 0..count {
        let index = (start + step.saturating_mul(at as i64)) as usize;
        let end = offsets.get(index + 1).copied().unwrap_or(plain.len());
        builder.push_range(text, offsets[index]..end)?;
        world.work(64)?;
    }
    builder.finish_as(text.is_markup())
}
