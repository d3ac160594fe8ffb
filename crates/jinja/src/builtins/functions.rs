//! The global functions of every template.

use std::cell::Cell;
use std::rc::Rc;

use super::{Args, int_arg, needed, str_arg};
use crate::error::{ErrorKind, Fault, LimitKind, Res};
use crate::limits::MAX_RANGE;
use crate::value::dict::Dict;
use crate::value::iter::{Iter, collect};
use crate::value::text::Str;
use crate::value::{Cycler, Joiner, Range, Value, number};
use crate::vm::World;

/// A global function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Range,
    Dict,
    DictFromKeys,
    Lipsum,
    Cycler,
    Joiner,
    Namespace,
    RaiseException,
    StrftimeNow,
}

pub(super) const FUNCTIONS: [(&str, Function); 8] = [
    ("range", Function::Range),
    ("dict", Function::Dict),
    ("lipsum", Function::Lipsum),
    ("cycler", Function::Cycler),
    ("joiner", Function::Joiner),
    ("namespace", Function::Namespace),
    ("raise_exception", Function::RaiseException),
    ("strftime_now", Function::StrftimeNow),
];

impl Function {
    pub(crate) fn find(name: &str) -> Option<Function> {
        FUNCTIONS.iter().find(|(known, _)| *known == name).map(|(_, function)| *function)
    }

    pub(crate) fn name(self) -> &'static str {
        FUNCTIONS.iter().find(|(_, known)| *known == self).map_or("fromkeys", |(name, _)| name)
    }

    pub(crate) fn call<'a>(self, world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
        match self {
            Function::Range => {
                world.work(128)?;
                range(args)
            }
            Function::Dict => Ok(dict(world, args)?.into_value()),
            Function::DictFromKeys => from_keys(world, args),
            Function::Lipsum => Err(Fault::unsupported("`lipsum` is not supported: rendering is deterministic")),
            Function::Cycler => cycler(world, args),
            Function::Joiner => {
                world.work(256)?;
                joiner(args)
            }
            Function::Namespace => namespace(world, args),
            Function::RaiseException => raise_exception(world, args),
            Function::StrftimeNow => strftime_now(world, args),
        }
    }
}

fn range<'a>(args: Args<'_, 'a>) -> Res<Value<'a>> {
    if !args.names.is_empty() {
        return Err(Fault::type_error("range() takes no keyword arguments"));
    }
    let index = |value: &Value<'a>| match value {
        Value::Undefined(_) => Err(Fault::type_error("'Undefined' object cannot be interpreted as an integer")),
        value => number::index(value),
    };
    let (start, stop, step) = match args.all_positional() {
        [stop] => (0, index(stop)?, 1),
        [start, stop] => (index(start)?, index(stop)?, 1),
        [start, stop, step] => (index(start)?, index(stop)?, index(step)?),
        other => return Err(Fault::type_error(format!("range expected 1 to 3 arguments, got {}", other.len()))),
    };
    if step == 0 {
        return Err(Fault::value("range() arg 3 must not be zero"));
    }
    let distance = if step > 0 { i128::from(stop) - i128::from(start) } else { i128::from(start) - i128::from(stop) };
    let len = if distance <= 0 { 0 } else { (distance as u128).div_ceil(u128::from(step.unsigned_abs())) };
    if len > MAX_RANGE as u128 {
        return Err(Fault::limit(LimitKind::Range, MAX_RANGE));
    }
    Ok(Value::Range(Rc::new(Range { start, stop, step, len: len as usize })))
}

/// Evaluates Python's `dict(..)`, from another dict or pairs, and keywords.
fn dict<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Dict<'a>> {
    let mut dict = Dict::new(world)?;
    match args.all_positional() {
        [] => {}
        [other] if other.is_mapping() => {
            for index in 0..other.size(world).unwrap_or(0) {
                world.work(64)?;
                if let Some((key, value)) = other.entry_at(world, index)? {
                    dict.insert(world, key, value)?;
                }
            }
        }
        [Value::Undefined(absence)] => return Err(absence.fault()),
        [pairs] => {
            let mut iter = Iter::new(world, pairs)?;
            while let Some(pair) = iter.next(world)? {
                world.work(64)?;
                let mut pair = collect(world, &pair)?;
                match (pair.pop(), pair.pop(), pair.pop()) {
                    (Some(value), Some(key), None) => dict.insert(world, key, value)?,
                    _ => return Err(Fault::value("dictionary update sequence element has not length 2")),
                }
            }
        }
        more => return Err(Fault::type_error(format!("dict expected at most 1 argument, got {}", more.len()))),
    }
    for (name, value) in args.keywords() {
        dict.insert(world, name_value(name), value.clone())?;
    }
    Ok(dict)
}

/// Returns the name of a keyword argument as a value.
pub(crate) fn name_value<'a>(name: &'a str) -> Value<'a> {
    Value::Str(Str::Slice(crate::value::text::Slice { text: name, origin: crate::Origin::Engine }))
}

fn from_keys<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let [keys, value] = args.bind_all("fromkeys", ["iterable", "value"])?;
    let value = value.cloned().unwrap_or(Value::None);
    let mut dict = Dict::new(world)?;
    let mut iter = Iter::new(world, needed("fromkeys", "iterable", keys)?)?;
    while let Some(key) = iter.next(world)? {
        world.work(64)?;
        dict.insert(world, key, value.clone())?;
    }
    Ok(dict.into_value())
}

fn cycler<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let items = args.all_positional();
    if items.is_empty() {
        return Err(Fault::value("at least one item has to be provided"));
    }
    world.work(384)?;
    let items = Value::tuple(world, items.to_vec())?;
    Ok(Value::Cycler(Rc::new(Cycler { items, position: Cell::new(0) })))
}

fn joiner<'a>(args: Args<'_, 'a>) -> Res<Value<'a>> {
    let [separator] = args.bind_all("joiner", ["sep"])?;
    let separator = separator.cloned().unwrap_or(Value::text(", "));
    Ok(Value::Joiner(Rc::new(Joiner { separator, was_used: Cell::new(false) })))
}

fn namespace<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let attributes = dict(world, args)?;
    for (name, _) in attributes.entries() {
        if let Value::Str(name) = name {
            check_attribute(name.plain())?;
        }
    }
    world.new_namespace(attributes)
}

/// transformers: namespace attributes must not start with an underscore.
pub(crate) fn check_attribute(name: &str) -> Res<()> {
    if name.starts_with('_') {
        return Err(Fault::new(
            ErrorKind::Security,
            format!("namespace attribute '{name}' must not start with an underscore"),
        ));
    }
    Ok(())
}

fn raise_exception<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let [message] = args.bind_all("raise_exception", ["message"])?;
    let message = needed("raise_exception", "message", message)?.to_str(world)?;
    Err(Fault::new(ErrorKind::Rejected, message.plain()))
}

fn strftime_now<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let [format] = args.bind_all("strftime_now", ["format"])?;
    let format = str_arg(needed("strftime_now", "format", format)?)?;
    let Some(clock) = world.clock else {
        return Err(Fault::unsupported("the template reads the current time, but no clock was given"));
    };
    // The longest directive expands two characters to 24.
    world.meter.check(format.plain().len().saturating_mul(13))?;
    world.work(format.plain().len().saturating_mul(128))?;
    Ok(Value::Str(Str::made(world, clock.now().format(format.plain()))?))
}

impl<'a> Value<'a> {
    /// Calls a value that needs no frame of the program: a function, a method, a cycler or a
    /// joiner.
    pub(crate) fn call_builtin(&self, world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
        match self {
            Value::Function(function) => function.call(world, args),
            Value::Joiner(joiner) => {
                if joiner.was_used.replace(true) {
                    Ok(joiner.separator.clone())
                } else {
                    Ok(Value::text(""))
                }
            }
            Value::Method(method) => {
                let mut values = Vec::with_capacity(args.values.len() + 1);
                values.push(method.receiver.clone());
                values.extend_from_slice(args.values);
                method.method.call(world, Args { values: &values, names: args.names })
            }
            Value::Undefined(absence) => Err(absence.fault()),
            other => Err(Fault::type_error(format!("'{}' object is not callable", other.kind()))),
        }
    }
}

/// Returns the next item of a cycler.
pub(crate) fn cycle_next<'a>(world: &World<'a>, cycler: &Cycler<'a>) -> Res<Value<'a>> {
    let at = cycler.position.get();
    cycler.position.set((at + 1) % cycler.items.size(world).unwrap_or(1).max(1));
    Ok(cycler.items.item_at(world, at)?.unwrap_or(Value::None))
}

/// Converts a size argument, with a default; negative sizes become 0.
pub(crate) fn size_arg(value: Option<&Value<'_>>, default: i64) -> Res<usize> {
    Ok(usize::try_from(int_arg(value, default)?).unwrap_or(0))
}
