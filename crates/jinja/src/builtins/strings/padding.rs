//! Methods that pad or map a string.

use super::super::{Args, needed, str_arg};
use super::pad;
use crate::error::{Fault, Res};
use crate::output::Origin;
use crate::value::builder::{Builder, Pieces};
use crate::value::dict::Dict;
use crate::value::{Value, char_count};
use crate::vm::World;

pub(super) fn justified<'a>(
    world: &World<'a>,
    args: Args<'_, 'a>,
    name: &str,
    sides: impl Fn(usize, usize) -> (usize, usize),
) -> Res<Value<'a>> {
    let [width, fill] = args.bind(name, ["width", "fillchar"])?;
    let width = crate::builtins::functions::size_arg(Some(needed(name, "width", width)?), 0)?;
    let fill = match fill {
        None => (' ', Origin::Engine),
        Some(fill) => {
            let text = str_arg(fill)?;
            let mut characters = text.plain().chars();
            match (characters.next(), characters.next()) {
                (Some(c), None) => (c, text.origin_at(0).changed()),
                _ => return Err(Fault::type_error("The fill character must be exactly one character long")),
            }
        }
    };
    let text = args.subject_str()?;
    world.work(text.plain().len())?;
    let missing = width.saturating_sub(char_count(text.plain()));
    let (left, right) = sides(missing, width);
    pad(world, text, left, right, fill).map(Value::Str)
}

/// CPython: if an odd number of characters is missing, the left side gets one more when the width
/// is odd.
pub(crate) fn center_sides(missing: usize, width: usize) -> (usize, usize) {
    let left = missing / 2 + (missing & width & 1);
    (left, missing - left)
}

pub(super) fn center<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    justified(world, args, "center", center_sides)
}

pub(super) fn ljust<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    justified(world, args, "ljust", |missing, _| (0, missing))
}

pub(super) fn rjust<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    justified(world, args, "rjust", |missing, _| (missing, 0))
}

pub(super) fn zfill<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let [width] = args.bind("zfill", ["width"])?;
    let width = crate::builtins::functions::size_arg(Some(needed("zfill", "width", width)?), 0)?;
    let text = args.subject_str()?;
    world.work(text.plain().len())?;
    let missing = width.saturating_sub(char_count(text.plain()));
    let sign = usize::from(text.plain().starts_with(['+', '-']));
    let digits = text.slice(world, sign..text.plain().len())?;
    let padded = pad(world, &digits, missing, 0, ('0', Origin::Engine))?;
    let mut builder = Builder::new(world);
    builder.push_range(text, 0..sign)?;
    builder.push_str(&padded)?;
    builder.finish_as(text.is_markup()).map(Value::Str)
}

pub(super) fn expandtabs<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let [size] = args.bind("expandtabs", ["tabsize"])?;
    let size = crate::builtins::functions::size_arg(size, 8)?;
    let text = args.subject_str()?;
    world.work(text.plain().len().saturating_mul(24))?;
    let tabs = text.plain().matches('\t').count();
    world.meter.check(tabs.saturating_mul(size).saturating_add(text.plain().len()))?;
    world.work(tabs.saturating_mul(size).saturating_add(text.plain().len()))?;
    let mut builder = Builder::new(world);
    let mut column = 0;
    for (at, c) in text.plain().char_indices() {
        match c {
            '\t' => {
                let spaces = if size == 0 { 0 } else { size - column % size };
                builder.push(&" ".repeat(spaces), text.origin_at(at).changed())?;
                column += spaces;
            }
            c => {
                builder.push_range(text, at..at + c.len_utf8())?;
                column = if matches!(c, '\n' | '\r') { 0 } else { column + 1 };
            }
        }
    }
    builder.finish_as(text.is_markup()).map(Value::Str)
}

pub(super) fn maketrans<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let [from, to, dropped] = args.bind("maketrans", ["x", "y", "z"])?;
    let from = needed("maketrans", "x", from)?;
    let mut table = Dict::new(world)?;
    let code = |c: char| Value::Int(i64::from(u32::from(c)));
    match to {
        None => {
            for index in 0..from.size(world).unwrap_or(0) {
                let Some((key, value)) = from.entry_at(world, index)? else { continue };
                let key = match &key {
                    Value::Str(text) => match text.plain().chars().next() {
                        Some(c) if text.plain().len() == c.len_utf8() => code(c),
                        _ => return Err(Fault::value("string keys in translate table must be of length 1")),
                    },
                    key => key.clone(),
                };
                table.insert(world, key, value)?;
            }
        }
        Some(to) => {
            let (from, to) = (str_arg(from)?, str_arg(to)?);
            if char_count(from.plain()) != char_count(to.plain()) {
                return Err(Fault::value("the first two maketrans arguments must have equal length"));
            }
            for (c, other) in from.plain().chars().zip(to.plain().chars()) {
                world.work(64)?;
                table.insert(world, code(c), code(other))?;
            }
            if let Some(dropped) = dropped {
                for c in str_arg(dropped)?.plain().chars() {
                    table.insert(world, code(c), Value::None)?;
                }
            }
        }
    }
    Ok(table.into_value())
}

pub(super) fn translate<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let [table] = args.bind("translate", ["table"])?;
    let table = needed("translate", "table", table)?;
    let text = args.subject_str()?;
    let mut builder = Builder::new(world);
    for (at, c) in text.plain().char_indices() {
        world.work(64)?;
        match table.dict_get(world, &Value::Int(i64::from(u32::from(c))))? {
            None => builder.push_range(text, at..at + c.len_utf8())?,
            Some(Value::None) => {}
            Some(Value::Str(other)) => builder.push_str(&other)?,
            Some(Value::Int(code)) => match u32::try_from(code).ok().and_then(char::from_u32) {
                Some(other) => builder.push_char(other, text.origin_at(at).changed())?,
                None => return Err(Fault::value("character mapping must be in range(0x110000)")),
            },
            Some(_) => return Err(Fault::type_error("character mapping must return integer, None or str")),
        }
    }
    builder.finish_as(text.is_markup()).map(Value::Str)
}
