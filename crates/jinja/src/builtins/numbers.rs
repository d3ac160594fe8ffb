//! Number filters.

use std::cmp::Ordering;

use num_bigint::BigInt;

use super::{Args, FilterFn, flag, int_arg};
use crate::error::{Fault, LimitKind, Res};
use crate::limits::INTEGER_DIGITS;
use crate::value::number::{float_to_int, is_number, of_big, to_float};
use crate::value::text::Str;
use crate::value::{Value, operate};
use crate::vm::World;

pub(super) const FILTERS: &[(&str, FilterFn)] =
    &[("int", int), ("float", float), ("abs", abs), ("round", round), ("filesizeformat", file_size)];

/// The longest text that is parsed as an integer, including white space.
const MOST_BYTES: usize = 1 << 16;

fn abs<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    args.bind::<0>("abs", [])?;
    match args.subject() {
        Value::Float(value) => Ok(Value::Float(value.abs())),
        Value::Big(value) if value.sign() == num_bigint::Sign::Minus => operate::negative(world, args.subject()),
        Value::Int(value) if *value < 0 => operate::negative(world, args.subject()),
        value if is_number(value) => operate::positive(value),
        other => Err(Fault::type_error(format!("bad operand type for abs(): '{}'", other.kind()))),
    }
}

/// Converts the decimal digits of other scripts to ASCII.
fn ascii_digits(text: &str) -> std::borrow::Cow<'_, str> {
    if text.is_ascii() {
        return text.into();
    }
    let digit = |c: char| super::strings::decimal_value(c).and_then(|value| char::from_digit(value, 10)).unwrap_or(c);
    text.chars().map(digit).collect::<String>().into()
}

/// Parses an integer as Python's `int()` does. Unlike `str.strip`, it does not treat U+001C to
/// U+001F as white space.
pub(crate) fn parse_int<'a>(text: &str, base: u32) -> Res<Option<Value<'a>>> {
    let text = &*ascii_digits(text.trim_matches(char::is_whitespace));
    let (is_negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (base, digits, had_prefix) = match (base, lower.get(..2)) {
        (0 | 2, Some("0b")) => (2, &digits[2..], true),
        (0 | 8, Some("0o")) => (8, &digits[2..], true),
        (0 | 16, Some("0x")) => (16, &digits[2..], true),
        (0, _) => (10, digits, false),
        _ => (base, digits, false),
    };
    let digits = if had_prefix { digits.strip_prefix('_').unwrap_or(digits) } else { digits };
    let is_valid = !digits.is_empty()
        && !digits.starts_with('_')
        && !digits.ends_with('_')
        && !digits.contains("__")
        && digits.chars().all(|c| c == '_' || c.is_digit(base));
    if !is_valid {
        return Ok(None);
    }
    let digits = digits.replace('_', "");
    if base == 10 && digits.len() > INTEGER_DIGITS {
        return Ok(None);
    }
    if digits.len() > INTEGER_DIGITS * 4 {
        return Err(Fault::limit(LimitKind::Digits, INTEGER_DIGITS));
    }
    Ok(BigInt::parse_bytes(digits.as_bytes(), base).map(|value| of_big(if is_negative { -value } else { value })))
}

/// Parses a float as Python's `float()` does.
fn parse_float(text: &str) -> Option<f64> {
    let text = &*ascii_digits(text.trim_matches(char::is_whitespace));
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_word = ["inf", "infinity", "nan"].iter().any(|word| unsigned.eq_ignore_ascii_case(word));
    let has_digit = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    let underscores_fit = !unsigned.starts_with('_')
        && !unsigned.ends_with('_')
        && unsigned.match_indices('_').all(|(at, _)| {
            let digit =
                |at: Option<usize>| at.and_then(|at| unsigned.as_bytes().get(at)).is_some_and(u8::is_ascii_digit);
            digit(at.checked_sub(1)) && digit(Some(at + 1))
        });
    if !(is_word || has_digit) || !underscores_fit {
        return None;
    }
    text.replace('_', "").parse().ok()
}

fn int<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let [default, base] = args.bind("int", ["default", "base"])?;
    let default = default.cloned().unwrap_or(Value::Int(0));
    let whole = |float: f64| float_to_int(float.trunc()).map(of_big);
    match args.subject() {
        Value::Undefined(absence) => Err(absence.fault()),
        Value::Float(value) => match whole(*value) {
            Some(value) => Ok(value),
            // In jinja2, `int(inf)` raises an OverflowError, which only the second `try` catches;
            // `int(nan)` raises a ValueError.
            None if value.is_infinite() => Err(Fault::value("cannot convert float infinity to integer")),
            None => Ok(default),
        },
        value if is_number(value) => operate::positive(value),
        Value::Str(text) => {
            if text.plain().len() > MOST_BYTES {
                return Err(Fault::limit(LimitKind::Digits, INTEGER_DIGITS));
            }
            let length = text.plain().len();
            world.work(length * (8 + length / 32))?;
            let base = int_arg(base, 10)?;
            let base = u32::try_from(base).ok().filter(|base| *base == 0 || (2..=36).contains(base));
            let read = match base {
                Some(base) => parse_int(text.plain(), base)?,
                None => None,
            };
            match read {
                Some(value) => Ok(value),
                None => Ok(parse_float(text.plain()).and_then(whole).unwrap_or(default)),
            }
        }
        _ => Ok(default),
    }
}

fn float<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let [default] = args.bind("float", ["default"])?;
    let default = default.cloned().unwrap_or(Value::Float(0.0));
    match args.subject() {
        Value::Undefined(absence) => Err(absence.fault()),
        value if is_number(value) => to_float(value).map(Value::Float),
        Value::Str(text) => {
            world.work(text.plain().len())?;
            Ok(parse_float(text.plain()).map_or(default, Value::Float))
        }
        _ => Ok(default),
    }
}

fn round<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let [precision, method] = args.bind("round", ["precision", "method"])?;
    let precision = int_arg(precision, 0)?;
    let method = match method {
        None => "common",
        Some(Value::Str(method)) => method.plain(),
        Some(_) => "",
    };
    let value = args.subject();
    if let (Value::Undefined(absence), "ceil" | "floor") = (value, method) {
        return Err(absence.fault());
    }
    if !is_number(value) {
        return Err(Fault::type_error(format!("type {} doesn't define __round__ method", value.kind())));
    }
    match method {
        "common" => match value {
            Value::Float(value) => {
                world.work(64 + precision.clamp(-320, 320).unsigned_abs() as usize * 32)?;
                let rounded = round_float(*value, precision);
                if rounded.is_infinite() && value.is_finite() {
                    return Err(Fault::value("rounded value too large to represent"));
                }
                Ok(Value::Float(rounded))
            }
            _ if precision >= 0 => operate::positive(value),
            _ => round_int(world, value, precision),
        },
        "ceil" | "floor" => {
            if !matches!(value, Value::Float(_)) && precision >= 0 {
                return to_float(value).map(Value::Float);
            }
            let power: f64 = format!("1e{}", precision.clamp(-400, 400)).parse().unwrap_or(f64::NAN);
            let scaled = to_float(value)? * power;
            if !scaled.is_finite() {
                return Err(Fault::value("cannot convert float infinity to integer"));
            }
            let whole = if method == "ceil" { scaled.ceil() } else { scaled.floor() };
            // Python computes integers here, which have no -0.
            Ok(Value::Float((whole + 0.0) / power))
        }
        _ => Err(Fault::type_error("method must be common, ceil or floor")),
    }
}

/// Rounds as Python's `round` does: to the nearest value by its exact decimal expansion, and to
/// even on a tie.
fn round_float(value: f64, places: i64) -> f64 {
    if !value.is_finite() || places > 320 {
        return value;
    }
    if places < -308 {
        return 0f64.copysign(value);
    }
    if places >= 0 {
        return format!("{value:.*}", places as usize).parse().unwrap_or(value);
    }
    let Some(whole) = float_to_int(value.abs().trunc()) else { return value };
    let unit = BigInt::from(10).pow(places.unsigned_abs() as u32);
    let (quotient, rest) = (&whole / &unit, &whole % &unit);
    let twice: BigInt = &rest + &rest;
    let is_up = match twice.cmp(&unit) {
        Ordering::Equal => value.fract() != 0.0 || quotient.bit(0),
        order => order == Ordering::Greater,
    };
    let rounded = (quotient + i32::from(is_up)) * unit;
    rounded.to_string().parse::<f64>().unwrap_or(value).copysign(value)
}

fn round_int<'a>(world: &World<'a>, value: &Value<'a>, places: i64) -> Res<Value<'a>> {
    use crate::parser::ast::BinaryOp;
    if places < -(INTEGER_DIGITS as i64) {
        return Ok(Value::Int(0));
    }
    let unit = operate::binary(world, BinaryOp::Pow, &Value::Int(10), &Value::Int(-places))?;
    let rest = operate::binary(world, BinaryOp::Mod, value, &unit)?;
    let below = operate::binary(world, BinaryOp::Sub, value, &rest)?;
    let twice = operate::binary(world, BinaryOp::Mul, &rest, &Value::Int(2))?;
    let quotient = operate::binary(world, BinaryOp::FloorDiv, &below, &unit)?;
    let is_even = !operate::binary(world, BinaryOp::Mod, &quotient, &Value::Int(2))?.is_true(world);
    let goes_up = match crate::value::compare::order(world, "<", &twice, &unit, 0)? {
        Some(std::cmp::Ordering::Greater) => true,
        Some(std::cmp::Ordering::Equal) => !is_even,
        _ => false,
    };
    if goes_up { operate::binary(world, BinaryOp::Add, &below, &unit) } else { Ok(below) }
}

fn file_size<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let [binary] = args.bind("filesizeformat", ["binary"])?;
    let is_binary = flag(world, binary, false);
    let bytes = match args.subject() {
        Value::Str(text) => {
            parse_float(text.plain()).ok_or_else(|| Fault::value("could not convert string to float"))?
        }
        value => to_float(value)?,
    };
    let base: f64 = if is_binary { 1024.0 } else { 1000.0 };
    if bytes == 1.0 {
        return Ok(Value::text("1 Byte"));
    }
    let text = if bytes < base {
        format!("{} Bytes", bytes.trunc())
    } else {
        let prefixes = ["k", "M", "G", "T", "P", "E", "Z", "Y"];
        let mut unit = base * base;
        let mut prefix = prefixes[0];
        for next in &prefixes[1..] {
            if bytes < unit {
                break;
            }
            unit *= base;
            prefix = next;
        }
        let prefix = if is_binary { format!("{}iB", prefix.to_uppercase()) } else { format!("{prefix}B") };
        format!("{:.1} {prefix}", base * bytes / unit)
    };
    Str::made(world, text).map(Value::Str)
}
