//! Python's `==`, `<`, `in` and `hash()`.

use std::cmp::Ordering;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use num_bigint::{BigInt, Sign};

use super::iter::Iter;
use super::{Value, ViewKind};
use crate::error::{Fault, Res};
use crate::parser::ast::CompareOp;
use crate::vm::World;

pub(crate) fn compare<'a>(world: &World<'a>, op: CompareOp, left: &Value<'a>, right: &Value<'a>) -> Res<bool> {
    match op {
        CompareOp::Eq => equal(world, left, right, 0),
        CompareOp::Ne => Ok(!equal(world, left, right, 0)?),
        CompareOp::In => contains(world, right, left),
        CompareOp::NotIn => Ok(!contains(world, right, left)?),
        CompareOp::Lt => Ok(order(world, "<", left, right, 0)? == Some(Ordering::Less)),
        CompareOp::Le => Ok(matches!(order(world, "<=", left, right, 0)?, Some(Ordering::Less | Ordering::Equal))),
        CompareOp::Gt => Ok(order(world, ">", left, right, 0)? == Some(Ordering::Greater)),
        CompareOp::Ge => Ok(matches!(order(world, ">=", left, right, 0)?, Some(Ordering::Greater | Ordering::Equal))),
    }
}

pub(crate) fn equal<'a>(world: &World<'a>, left: &Value<'a>, right: &Value<'a>, depth: u32) -> Res<bool> {
    if let (Value::Str(left), Value::Str(right)) = (left, right) {
        let (left, right) = (left.plain(), right.plain());
        if left.len() != right.len() {
            return Ok(false);
        }
        if left.len() > 256 {
            world.work(left.len())?;
        }
        return Ok(left == right);
    }
    world.check_depth(depth)?;
    Ok(match (left, right) {
        (Value::None, Value::None) | (Value::Undefined(_), Value::Undefined(_)) => true,
        _ if is_number(left) && is_number(right) => {
            world.work(big_bytes(left).min(big_bytes(right)))?;
            order_numbers(left, right) == Some(Ordering::Equal)
        }
        (Value::Tuple(left), Value::Tuple(right)) => {
            if left.items.len() != right.items.len() {
                return Ok(false);
            }
            for (left, right) in left.items.iter().zip(&right.items) {
                world.work(64)?;
                if !equal(world, left, right, depth + 1)? {
                    return Ok(false);
                }
            }
            true
        }
        _ if (left.is_list() && right.is_list()) || matches!((left, right), (Value::Range(_), Value::Range(_))) => {
            if left.size(world) != right.size(world) {
                return Ok(false);
            }
            for index in 0..left.size(world).unwrap_or(0) {
                world.work(64)?;
                if let (Some(left), Some(right)) = (left.item_at(world, index)?, right.item_at(world, index)?)
                    && !equal(world, &left, &right, depth + 1)?
                {
                    return Ok(false);
                }
            }
            true
        }
        _ if left.is_mapping() && right.is_mapping() => {
            if left.size(world) != right.size(world) {
                return Ok(false);
            }
            for index in 0..left.size(world).unwrap_or(0) {
                world.work(64)?;
                let Some((key, value)) = left.entry_at(world, index)? else { continue };
                match right.dict_get(world, &key)? {
                    Some(other) if equal(world, &value, &other, depth + 1)? => {}
                    _ => return Ok(false),
                }
            }
            true
        }
        (Value::Function(left), Value::Function(right)) => left == right,
        (Value::Namespace(left), Value::Namespace(right)) => left == right,
        (Value::Macro(left), Value::Macro(right)) => Rc::ptr_eq(left, right),
        (Value::Loop(left), Value::Loop(right)) => Rc::ptr_eq(left, right),
        (Value::Generator(left), Value::Generator(right)) => Rc::ptr_eq(left, right),
        (Value::Cycler(left), Value::Cycler(right)) => Rc::ptr_eq(left, right),
        (Value::Joiner(left), Value::Joiner(right)) => Rc::ptr_eq(left, right),
        (Value::Method(left), Value::Method(right)) => Rc::ptr_eq(left, right),
        (Value::View(view), Value::View(other)) if view.kind != ViewKind::Values && view.kind == other.kind => {
            if left.size(world) != right.size(world) {
                return Ok(false);
            }
            for item in Iter::new(world, left)?.rest(world)? {
                if !contains(world, right, &item)? {
                    return Ok(false);
                }
            }
            true
        }
        _ => false,
    })
}

/// Evaluates Python's `is`.
pub(crate) fn is_same<'a>(world: &World<'a>, left: &Value<'a>, right: &Value<'a>) -> Res<bool> {
    Ok(match (left, right) {
        (Value::None, Value::None) => true,
        (Value::Bool(left), Value::Bool(right)) => left == right,
        // CPython interns small integers and the string literals of a program.
        (Value::Int(left), Value::Int(right)) => left == right,
        (Value::Str(left), Value::Str(right)) => left.plain() == right.plain(),
        (Value::List(left), Value::List(right)) | (Value::Tuple(left), Value::Tuple(right)) => Rc::ptr_eq(left, right),
        (Value::Dict(left), Value::Dict(right)) => Rc::ptr_eq(left, right),
        (Value::InputPart(left), Value::InputPart(right)) => Rc::ptr_eq(left, right),
        (Value::InputList(_, left), Value::InputList(_, right)) => left == right,
        (Value::InputDict(_, left), Value::InputDict(_, right)) => left == right,
        (Value::Float(_) | Value::Big(_) | Value::Undefined(_), _) => false,
        (left, right) => left.type_name() == right.type_name() && equal(world, left, right, 0)?,
    })
}

fn is_number(value: &Value<'_>) -> bool {
    matches!(value, Value::Int(_) | Value::Bool(_) | Value::Float(_) | Value::Big(_))
}

/// Compares two values; `None` if they are unordered (NaN).
pub(crate) fn order<'a>(
    world: &World<'a>,
    op: &str,
    left: &Value<'a>,
    right: &Value<'a>,
    depth: u32,
) -> Res<Option<Ordering>> {
    world.check_depth(depth)?;
    match (left, right) {
        (Value::Undefined(absence), _) | (_, Value::Undefined(absence)) => Err(absence.fault()),
        (Value::Str(left), Value::Str(right)) => {
            world.work(left.plain().len().min(right.plain().len()))?;
            // UTF-8 sorts in the order of code points.
            Ok(Some(left.plain().cmp(right.plain())))
        }
        _ if is_number(left) && is_number(right) => {
            world.work(big_bytes(left).min(big_bytes(right)))?;
            Ok(order_numbers(left, right))
        }
        _ if (left.is_list() && right.is_list()) || matches!((left, right), (Value::Tuple(_), Value::Tuple(_))) => {
            let (left_len, right_len) = (left.size(world).unwrap_or(0), right.size(world).unwrap_or(0));
            for index in 0..left_len.min(right_len) {
                world.work(64)?;
                if let (Some(left), Some(right)) = (left.item_at(world, index)?, right.item_at(world, index)?)
                    && !equal(world, &left, &right, depth + 1)?
                {
                    return order(world, op, &left, &right, depth + 1);
                }
            }
            Ok(Some(left_len.cmp(&right_len)))
        }
        _ => Err(Fault::type_error(format!(
            "'{op}' not supported between instances of '{}' and '{}'",
            left.kind(),
            right.kind()
        ))),
    }
}

fn order_numbers(left: &Value<'_>, right: &Value<'_>) -> Option<Ordering> {
    let exact = |value: &Value<'_>| match value {
        Value::Int(value) => Some(*value),
        Value::Bool(value) => Some(i64::from(*value)),
        _ => None,
    };
    if let (Some(left), Some(right)) = (exact(left), exact(right)) {
        return Some(left.cmp(&right));
    }
    let sign = |value: &BigInt| if value.sign() == Sign::Minus { Ordering::Less } else { Ordering::Greater };
    match (left, right) {
        (Value::Float(left), Value::Float(right)) => left.partial_cmp(right),
        (Value::Big(left), Value::Big(right)) => Some(left.cmp(right)),
        // An integer that fits 64 bits is never a `Big`.
        (Value::Big(left), Value::Int(_) | Value::Bool(_)) => Some(sign(left)),
        (Value::Int(_) | Value::Bool(_), Value::Big(right)) => Some(sign(right).reverse()),
        (Value::Float(left), right) => order_float(*left, &big(right)),
        (left, Value::Float(right)) => order_float(*right, &big(left)).map(Ordering::reverse),
        (left, right) => Some(big(left).cmp(&big(right))),
    }
}

/// Returns the size of a large integer in bytes.
fn big_bytes(value: &Value<'_>) -> usize {
    match value {
        Value::Big(value) => (value.bits() / 8) as usize,
        _ => 0,
    }
}

fn order_float(float: f64, integer: &BigInt) -> Option<Ordering> {
    if float.is_nan() {
        return None;
    }
    if float.is_infinite() {
        return Some(if float > 0.0 { Ordering::Greater } else { Ordering::Less });
    }
    let whole = super::number::float_to_int(float.trunc())?;
    Some(whole.cmp(integer).then_with(|| float.fract().partial_cmp(&0.0).unwrap_or(Ordering::Equal)))
}

pub(crate) fn big(value: &Value<'_>) -> BigInt {
    match value {
        Value::Int(value) => BigInt::from(*value),
        Value::Bool(value) => BigInt::from(i64::from(*value)),
        Value::Big(value) => (**value).clone(),
        _ => BigInt::ZERO,
    }
}

/// Evaluates Python's `in`.
pub(crate) fn contains<'a>(world: &World<'a>, container: &Value<'a>, item: &Value<'a>) -> Res<bool> {
    match container {
        Value::Str(text) => match item {
            Value::Str(part) => {
                world.work(text.plain().len() + part.plain().len())?;
                Ok(text.plain().contains(part.plain()))
            }
            other => {
                Err(Fault::type_error(format!("'in <string>' requires string as left operand, not {}", other.kind())))
            }
        },
        Value::Dict(dict) => Ok(dict.get(world, item)?.is_some()),
        Value::InputDict(node, _) => match item {
            Value::Str(key) => Ok(super::subscript::input_node(world, *node, key.plain())?.is_some()),
            other => hash(world, other, 0).map(|_| false),
        },
        Value::View(view) if view.kind == ViewKind::Keys => contains(world, &view.dict, item),
        Value::Range(range) => match item {
            Value::Int(_) | Value::Bool(_) => {
                let wanted =
                    if let Value::Int(value) = item { *value } else { i64::from(matches!(item, Value::Bool(true))) };
                let (distance, step) = (i128::from(wanted) - i128::from(range.start), i128::from(range.step));
                Ok(distance % step == 0 && usize::try_from(distance / step).is_ok_and(|at| at < range.len))
            }
            _ => Ok(false),
        },
        Value::None
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Big(_)
        | Value::Float(_)
        | Value::Namespace(_)
        | Value::Macro(_)
        | Value::Function(_)
        | Value::Method(_)
        | Value::Cycler(_)
        | Value::Joiner(_)
        | Value::Missing => Err(Fault::type_error(format!("argument of type '{}' is not iterable", container.kind()))),
        _ => {
            let mut iter = Iter::new(world, container)?;
            while let Some(found) = iter.next(world)? {
                world.work(32)?;
                if equal(world, &found, item, 0)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
    }
}

/// Evaluates Python's `hash()`: equal values have equal hashes.
pub(crate) fn hash<'a>(world: &World<'a>, value: &Value<'a>, depth: u32) -> Res<u64> {
    world.check_depth(depth)?;
    let mut hasher = DefaultHasher::new();
    match value {
        Value::Str(text) => {
            world.work(text.plain().len())?;
            return Ok(hash_str(text.plain()));
        }
        Value::Int(value) => (1u8, *value).hash(&mut hasher),
        Value::Bool(value) => (1u8, i64::from(*value)).hash(&mut hasher),
        Value::Float(value) if value.fract() == 0.0 && value.abs() < 9.2e18 => (1u8, *value as i64).hash(&mut hasher),
        Value::Float(value) => match super::number::float_to_int(*value) {
            Some(whole) if value.fract() == 0.0 => (2u8, whole).hash(&mut hasher),
            _ => (3u8, value.to_bits()).hash(&mut hasher),
        },
        Value::Big(big) => {
            world.work(big_bytes(value))?;
            (2u8, &**big).hash(&mut hasher);
        }
        Value::None => 4u8.hash(&mut hasher),
        Value::Undefined(_) | Value::Missing => 5u8.hash(&mut hasher),
        Value::Tuple(list) => {
            6u8.hash(&mut hasher);
            for item in &list.items {
                world.work(64)?;
                self::hash(world, item, depth + 1)?.hash(&mut hasher);
            }
        }
        Value::Range(range) => (7u8, range.start, range.step, range.len).hash(&mut hasher),
        Value::Namespace(id) => (8u8, *id).hash(&mut hasher),
        _ if value.is_list() || value.is_mapping() || matches!(value, Value::View(_)) => {
            return Err(Fault::type_error(format!("unhashable type: '{}'", value.kind())));
        }
        other => (9u8, other.kind()).hash(&mut hasher),
    }
    Ok(hasher.finish())
}

pub(crate) fn hash_str(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Sorts as Python does: the sort is stable, uses only `<`, and stops at the first error.
pub(crate) fn sort<T>(mut items: Vec<T>, mut is_less: impl FnMut(&T, &T) -> Res<bool>) -> Res<Vec<T>> {
    // A bottom-up merge sort of indexes; items move only after all comparisons have succeeded.
    let mut order: Vec<usize> = (0..items.len()).collect();
    let mut merged = Vec::with_capacity(order.len());
    let mut width = 1;
    while width < order.len() {
        merged.clear();
        for pair in order.chunks(width * 2) {
            let (left, right) = pair.split_at(width.min(pair.len()));
            let (mut i, mut j) = (0, 0);
            while i < left.len() && j < right.len() {
                if is_less(&items[right[j]], &items[left[i]])? {
                    merged.push(right[j]);
                    j += 1;
                } else {
                    merged.push(left[i]);
                    i += 1;
                }
            }
            merged.extend_from_slice(&left[i..]);
            merged.extend_from_slice(&right[j..]);
        }
        std::mem::swap(&mut order, &mut merged);
        width *= 2;
    }
    let mut slots: Vec<Option<T>> = items.drain(..).map(Some).collect();
    Ok(order.into_iter().filter_map(|at| slots[at].take()).collect())
}
