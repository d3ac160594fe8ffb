//! Python's `str()` and `repr()`.

use super::builder::{Builder, Pieces};
use super::text::Str;
use super::{BoundMethod, Value, float, number};
use crate::error::Res;
use crate::lexer::is_space;
use crate::output::Origin;
use crate::vm::World;

impl<'a> Value<'a> {
    /// Converts as Python's `str()` does.
    #[inline]
    pub(crate) fn to_str(&self, world: &World<'a>) -> Res<Str<'a>> {
        match self {
            Value::Str(text) if !text.is_markup() => Ok(text.clone()),
            Value::Str(text) => text.clone().with_markup(world, false),
            Value::Undefined(_) | Value::Missing => Ok(Str::empty()),
            Value::None => Ok(Str::engine("None")),
            Value::Bool(true) => Ok(Str::engine("True")),
            Value::Bool(false) => Ok(Str::engine("False")),
            other => {
                let mut builder = Builder::new(world);
                write_repr(world, &mut builder, other, 0)?;
                builder.finish()
            }
        }
    }

    /// Converts as jinja2's `soft_str` does: strings are unchanged, other values go through
    /// `str()`.
    pub(crate) fn to_soft_str(&self, world: &World<'a>) -> Res<Str<'a>> {
        match self {
            Value::Str(text) => Ok(text.clone()),
            other => other.to_str(world),
        }
    }

    /// Converts as Python's `repr()` does.
    pub(crate) fn to_repr(&self, world: &World<'a>) -> Res<Str<'a>> {
        let mut builder = Builder::new(world);
        write_repr(world, &mut builder, self, 0)?;
        builder.finish()
    }
}

/// A placeholder for the memory address that Python prints.
const ADDRESS: &str = "0x7f0000000000";

const ENGINE: Origin = Origin::Engine;

pub(crate) fn write_repr<'a>(world: &World<'a>, out: &mut Builder<'a>, value: &Value<'a>, depth: u32) -> Res<()> {
    world.work(64)?;
    world.check_depth(depth)?;
    match value {
        Value::Missing => Ok(()),
        Value::Undefined(_) => out.push("Undefined", ENGINE),
        Value::None => out.push("None", ENGINE),
        Value::Bool(true) => out.push("True", ENGINE),
        Value::Bool(false) => out.push("False", ENGINE),
        Value::Int(value) => out.push(&value.to_string(), ENGINE),
        Value::Big(value) => {
            world.work(value.bits() as usize)?;
            out.push(&number::big_digits(value)?, ENGINE)
        }
        Value::Float(value) => {
            world.work(64)?;
            out.push(&float::repr(*value), ENGINE)
        }
        Value::Str(text) if text.is_markup() => {
            out.push("Markup(", ENGINE)?;
            write_quoted(world, out, text)?;
            out.push(")", ENGINE)
        }
        Value::Str(text) => write_quoted(world, out, text),
        Value::List(_) | Value::InputList(..) | Value::InputPart(_) => {
            out.push("[", ENGINE)?;
            write_items(world, out, value, depth)?;
            out.push("]", ENGINE)
        }
        Value::Tuple(list) => {
            out.push("(", ENGINE)?;
            write_items(world, out, value, depth)?;
            out.push(if list.items.len() == 1 { ",)" } else { ")" }, ENGINE)
        }
        Value::Dict(_) | Value::InputDict(..) => write_dict(world, out, value, depth),
        Value::View(_) => {
            out.push(value.kind(), ENGINE)?;
            out.push("([", ENGINE)?;
            for (index, item) in super::iter::collect(world, value)?.iter().enumerate() {
                if index > 0 {
                    out.push(", ", ENGINE)?;
                }
                write_repr(world, out, item, depth + 1)?;
            }
            out.push("])", ENGINE)
        }
        Value::Range(range) => {
            let step = if range.step == 1 { String::new() } else { format!(", {}", range.step) };
            out.push(&format!("range({}, {}{step})", range.start, range.stop), ENGINE)
        }
        Value::Namespace(id) => write_namespace(world, out, *id, depth),
        Value::Macro(found) => match world.macro_name(found.routine) {
            Some(name) => out.push(&format!("<Macro '{name}'>"), ENGINE),
            None => out.push("<Macro anonymous>", ENGINE),
        },
        Value::Loop(state) => {
            let mut state = state.borrow_mut();
            let length = state.length(world)?;
            out.push(&format!("<LoopContext {}/{length}>", state.index0() + 1), ENGINE)
        }
        Value::Function(function) => out.push(&format!("<function {}>", function.name()), ENGINE),
        Value::Method(method) => {
            let BoundMethod { receiver, method } = &**method;
            out.push(&format!("<built-in method {} of {} object at {ADDRESS}>", method.name, receiver.kind()), ENGINE)
        }
        Value::Generator(generator) => out.push(&format!("<{} at {ADDRESS}>", generator.name), ENGINE),
        Value::Cycler(_) => out.push("<jinja2.utils.Cycler object>", ENGINE),
        Value::Joiner(_) => out.push("<jinja2.utils.Joiner object>", ENGINE),
    }
}

fn write_namespace<'a>(world: &World<'a>, out: &mut Builder<'a>, id: u32, depth: u32) -> Res<()> {
    out.push("<Namespace ", ENGINE)?;
    let attributes = world.namespace_entries(id);
    out.push("{", ENGINE)?;
    for (index, (key, item)) in attributes.iter().enumerate() {
        if index > 0 {
            out.push(", ", ENGINE)?;
        }
        write_repr(world, out, key, depth + 1)?;
        out.push(": ", ENGINE)?;
        write_repr(world, out, item, depth + 1)?;
    }
    out.push("}>", ENGINE)
}

fn write_items<'a>(world: &World<'a>, out: &mut Builder<'a>, list: &Value<'a>, depth: u32) -> Res<()> {
    for index in 0..list.size(world).unwrap_or(0) {
        if index > 0 {
            out.push(", ", ENGINE)?;
        }
        if let Some(item) = list.item_at(world, index)? {
            write_repr(world, out, &item, depth + 1)?;
        }
    }
    Ok(())
}

fn write_dict<'a>(world: &World<'a>, out: &mut Builder<'a>, dict: &Value<'a>, depth: u32) -> Res<()> {
    out.push("{", ENGINE)?;
    for index in 0..dict.size(world).unwrap_or(0) {
        if index > 0 {
            out.push(", ", ENGINE)?;
        }
        let Some((key, item)) = dict.entry_at(world, index)? else { continue };
        write_repr(world, out, &key, depth + 1)?;
        out.push(": ", ENGINE)?;
        write_repr(world, out, &item, depth + 1)?;
    }
    out.push("}", ENGINE)
}

/// Writes a quoted string. Quotes and escapes have the origin of the text they enclose or replace.
fn write_quoted<'a>(world: &World<'a>, out: &mut Builder<'a>, text: &Str<'a>) -> Res<()> {
    let plain = text.plain();
    world.work(plain.len() * 4)?;
    let quote = if plain.contains('\'') && !plain.contains('"') { "\"" } else { "'" };
    out.push(quote, text.origin_at(0).changed())?;
    for part in text.all_parts() {
        world.work(32)?;
        let mut escaped = String::with_capacity(part.text.len());
        for c in part.text.chars() {
            match c {
                '\\' => escaped.push_str("\\\\"),
                '\n' => escaped.push_str("\\n"),
                '\r' => escaped.push_str("\\r"),
                '\t' => escaped.push_str("\\t"),
                '\'' if quote == "'" => escaped.push_str("\\'"),
                ' '..='~' => escaped.push(c),
                c if c.is_alphanumeric() => escaped.push(c),
                c if is_printable(c) => {
                    world.work(64)?;
                    escaped.push(c);
                }
                c if (c as u32) < 0x100 => escaped.push_str(&format!("\\x{:02x}", c as u32)),
                c if (c as u32) < 0x10000 => escaped.push_str(&format!("\\u{:04x}", c as u32)),
                c => escaped.push_str(&format!("\\U{:08x}", c as u32)),
            }
        }
        out.push_marked(&escaped, part.origin.changed(), part.mark)?;
    }
    out.push(quote, text.origin_at(plain.len()).changed())
}

/// Reports whether Python's `str.isprintable` holds: no control, format, private, unassigned or
/// separator character except the space.
pub(crate) fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return (' '..='~').contains(&c);
    }
    if is_space(c) {
        return false;
    }
    // Rust's rule for `Debug` is the same, except that it escapes combining characters at the
    // start.
    let mut text = String::from("a");
    text.push(c);
    !text.escape_debug().any(|c| c == '\\')
}
