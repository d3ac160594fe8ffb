//! `'..' % values`: Python's printf-style formatting.

use num_bigint::{BigInt, Sign};

use crate::error::{Fault, Res};
use crate::output::Origin;
use crate::value::builder::{Builder, Pieces};
use crate::value::float::{self, Style};
use crate::value::number::{big_digits, index, is_number, to_float};
use crate::value::text::Str;
use crate::value::{Value, char_count};
use crate::vm::World;

/// A conversion specification.
#[derive(Default, Clone, Copy)]
struct Spec {
    is_left: bool,
    has_plus: bool,
    has_space: bool,
    has_zeros: bool,
    is_alternate: bool,
    width: usize,
    precision: Option<usize>,
}

/// Fills a format string. Its own text keeps its origins, and the values keep theirs.
pub(crate) fn format<'a>(world: &World<'a>, format: &Str<'a>, values: &Value<'a>) -> Res<Str<'a>> {
    let plain = format.plain();
    world.work(plain.len())?;
    let mut arguments = PercentArguments { values, next: 0 };
    let mut out = Builder::new(world);
    let is_markup = format.is_markup();
    let bytes = plain.as_bytes();
    let mut from = 0;
    while let Some(at) = plain[from..].find('%').map(|at| from + at) {
        out.push_range(format, from..at)?;
        let mut at = at + 1;
        world.work(64)?;
        let mut key = None;
        if bytes.get(at) == Some(&b'(') {
            if let Value::Undefined(absence) = values {
                return Err(absence.fault());
            }
            let Some(dict) = Some(values).filter(|values| values.is_mapping()) else {
                if values.is_list() {
                    // A list passes as a mapping until its key is looked up.
                    key_name(plain, at)?;
                }
                return Err(Fault::type_error("format requires a mapping"));
            };
            let (end, name) = key_name(plain, at)?;
            let name = format.slice(world, name)?;
            key = Some(dict.dict_get(world, &Value::Str(name.clone()))?.ok_or_else(|| {
                Fault::value(format!("the format refers to key '{}', which is missing", name.plain()))
            })?);
            at = end;
        }
        let spec = read_spec(bytes, &mut at, &mut arguments)?;
        let Some(conversion) = plain[at..].chars().next() else { return Err(Fault::value("incomplete format")) };
        // CPython: only a bare `%%` takes no value.
        if conversion == '%' && key.is_none() && plain.as_bytes()[at - 1] == b'%' {
            out.push_range(format, at..at + 1)?;
        } else if conversion == '%' {
            if key.is_none() {
                arguments.take()?;
            }
            out.push_range(format, at..at + 1)?;
        } else {
            let value = match key {
                Some(value) => value,
                None => arguments.take()?,
            };
            convert(world, &mut out, conversion, spec, &value, is_markup)?;
        }
        from = at + conversion.len_utf8();
    }
    out.push_range(format, from..plain.len())?;
    arguments.check_all_used()?;
    out.finish_as(is_markup)
}

/// Reads the flags, the width and the precision before a conversion.
fn read_spec(bytes: &[u8], at: &mut usize, arguments: &mut PercentArguments<'_, '_>) -> Res<Spec> {
    let mut spec = Spec::default();
    while let Some(flag) = bytes.get(*at) {
        match flag {
            b'-' => spec.is_left = true,
            b'+' => spec.has_plus = true,
            b' ' => spec.has_space = true,
            b'0' => spec.has_zeros = true,
            b'#' => spec.is_alternate = true,
            _ => break,
        }
        *at += 1;
    }
    if bytes.get(*at) == Some(&b'*') {
        *at += 1;
        let width = index(&arguments.take()?).map_err(|_| Fault::type_error("* wants int"))?;
        spec.is_left |= width < 0;
        spec.width = usize::try_from(width.unsigned_abs()).unwrap_or(usize::MAX);
    } else {
        spec.width = digits(bytes, at)?;
    }
    if bytes.get(*at) == Some(&b'.') {
        *at += 1;
        spec.precision = Some(if bytes.get(*at) == Some(&b'*') {
            *at += 1;
            let precision = index(&arguments.take()?).map_err(|_| Fault::type_error("* wants int"))?;
            usize::try_from(precision).unwrap_or(0)
        } else {
            digits(bytes, at)?
        });
    }
    while matches!(bytes.get(*at), Some(b'h' | b'l' | b'L')) {
        *at += 1;
    }
    Ok(spec)
}

struct PercentArguments<'v, 'a> {
    values: &'v Value<'a>,
    next: usize,
}

impl<'a> PercentArguments<'_, 'a> {
    fn take(&mut self) -> Res<Value<'a>> {
        let value = match self.values {
            Value::Tuple(list) => list.items.get(self.next).cloned(),
            single if self.next == 0 => Some(single.clone()),
            _ => None,
        };
        self.next += 1;
        value.ok_or_else(|| Fault::type_error("not enough arguments for format string"))
    }

    fn check_all_used(&self) -> Res<()> {
        let is_left = match self.values {
            Value::Tuple(list) => self.next < list.items.len(),
            // Mappings and other subscriptable values need not be used.
            Value::Range(_) | Value::Undefined(_) | Value::Loop(_) => false,
            values if values.is_list() || values.is_mapping() => false,
            _ => self.next == 0,
        };
        if is_left {
            return Err(Fault::type_error("not all arguments converted during string formatting"));
        }
        Ok(())
    }
}

/// Returns the end of `(name)` and the range of the name; parentheses may be nested.
fn key_name(plain: &str, open: usize) -> Res<(usize, std::ops::Range<usize>)> {
    let mut depth = 0usize;
    for (at, byte) in plain.bytes().enumerate().skip(open) {
        match byte {
            b'(' => depth += 1,
            b')' => {
                depth -= 1;
                if depth == 0 {
                    return Ok((at + 1, open + 1..at));
                }
            }
            _ => {}
        }
    }
    Err(Fault::value("incomplete format key"))
}

fn digits(bytes: &[u8], at: &mut usize) -> Res<usize> {
    let mut value: usize = 0;
    while let Some(digit @ b'0'..=b'9') = bytes.get(*at) {
        value = value.saturating_mul(10).saturating_add(usize::from(digit - b'0'));
        *at += 1;
    }
    Ok(value)
}

fn convert<'a>(
    world: &World<'a>,
    out: &mut Builder<'a>,
    conversion: char,
    spec: Spec,
    value: &Value<'a>,
    is_markup: bool,
) -> Res<()> {
    let precision = spec.precision;
    if let Some(precision) = precision {
        world.meter.check(if matches!(conversion, 's' | 'r' | 'a') { 0 } else { precision })?;
        if precision > 100_000 && !matches!(conversion, 's' | 'r' | 'a') {
            return Err(Fault::value("precision too big"));
        }
    }
    match conversion {
        's' | 'r' | 'a' => convert_text(world, out, conversion, spec, value, is_markup),
        'd' | 'i' | 'u' | 'o' | 'x' | 'X' => {
            let number = whole(value, conversion)?;
            let digits = match conversion {
                'o' => radix(world, &number, 8)?,
                'x' => radix(world, &number, 16)?,
                'X' => radix(world, &number, 16)?.to_uppercase(),
                _ => big_digits(&BigInt::from_biguint(Sign::Plus, number.magnitude().clone()))?,
            };
            let prefix = match (spec.is_alternate, conversion) {
                (true, 'o') => "0o",
                (true, 'x') => "0x",
                (true, 'X') => "0X",
                _ => "",
            };
            let missing = precision.unwrap_or(0).saturating_sub(digits.len());
            let digits = "0".repeat(missing) + &digits;
            signed(world, out, spec, number.sign() == Sign::Minus, prefix, &digits)
        }
        'e' | 'E' | 'f' | 'F' | 'g' | 'G' => {
            let number = match value {
                Value::Undefined(absence) => return Err(absence.fault()),
                value => to_float(value)?,
            };
            let style = match conversion {
                'e' | 'E' => Style::Exponent,
                'f' | 'F' => Style::Fixed,
                _ => Style::General,
            };
            let digits = float::format(
                number,
                style,
                precision.unwrap_or(6),
                conversion.is_ascii_uppercase(),
                spec.is_alternate,
            );
            let is_negative = number.is_sign_negative() && !number.is_nan();
            signed(world, out, spec, is_negative, "", &digits)
        }
        'c' => {
            let text = match value {
                Value::Str(text) if char_count(text.plain()) == 1 => text.clone(),
                Value::Int(_) | Value::Bool(_) => {
                    let code = u32::try_from(index(value)?).ok().and_then(char::from_u32);
                    let Some(c) = code else { return Err(Fault::value("%c arg not in range(0x110000)")) };
                    Str::made(world, c.to_string())?
                }
                _ => return Err(Fault::type_error("%c requires int or char")),
            };
            pad(world, out, spec, &text)
        }
        other => Err(Fault::value(format!("unsupported format character '{other}'"))),
    }
}

fn convert_text<'a>(
    world: &World<'a>,
    out: &mut Builder<'a>,
    conversion: char,
    spec: Spec,
    value: &Value<'a>,
    is_markup: bool,
) -> Res<()> {
    let mut text = match conversion {
        's' => value.to_soft_str(world)?,
        _ => value.to_repr(world)?,
    };
    if conversion == 'a' && !text.plain().is_ascii() {
        text = text.map(world, ascii_escapes)?;
    }
    if is_markup {
        text = super::html::escape(world, &text)?;
    } else {
        text = text.with_markup(world, false)?;
    }
    if let Some(precision) = spec.precision
        && let Some((at, _)) = text.plain().char_indices().nth(precision)
    {
        text = text.slice(world, 0..at)?;
    }
    pad(world, out, spec, &text)
}

fn whole(value: &Value<'_>, conversion: char) -> Res<BigInt> {
    match value {
        Value::Float(float) if matches!(conversion, 'd' | 'i' | 'u') => {
            crate::value::number::float_to_int(float.trunc())
                .ok_or_else(|| Fault::value("cannot convert float to integer"))
        }
        Value::Float(_) => Err(Fault::type_error(format!("%{conversion} format: an integer is required, not float"))),
        value if is_number(value) => Ok(crate::value::compare::big(value)),
        Value::Undefined(absence) if matches!(conversion, 'd' | 'i' | 'u') => Err(absence.fault()),
        other => {
            let what = if matches!(conversion, 'd' | 'i' | 'u') { "a real number" } else { "an integer" };
            Err(Fault::type_error(format!("%{conversion} format: {what} is required, not {}", other.kind())))
        }
    }
}

/// Returns the digits of an integer's magnitude in a radix.
pub(crate) fn radix(world: &World<'_>, number: &BigInt, radix: u32) -> Res<String> {
    world.work(number.bits() as usize)?;
    Ok(number.magnitude().to_str_radix(radix))
}

fn signed<'a>(
    world: &World<'a>,
    out: &mut Builder<'a>,
    spec: Spec,
    is_negative: bool,
    prefix: &str,
    digits: &str,
) -> Res<()> {
    let sign = match (is_negative, spec.has_plus, spec.has_space) {
        (true, ..) => "-",
        (_, true, _) => "+",
        (_, _, true) => " ",
        _ => "",
    };
    let used = sign.len() + prefix.len() + digits.len();
    let missing = spec.width.saturating_sub(used);
    world.meter.check(missing)?;
    world.work(missing)?;
    let text = if spec.is_left {
        format!("{sign}{prefix}{digits}{}", " ".repeat(missing))
    } else if spec.has_zeros {
        format!("{sign}{prefix}{}{digits}", "0".repeat(missing))
    } else {
        format!("{}{sign}{prefix}{digits}", " ".repeat(missing))
    };
    out.push(&text, Origin::Engine)
}

fn pad<'a>(world: &World<'a>, out: &mut Builder<'a>, spec: Spec, text: &Str<'a>) -> Res<()> {
    world.work(text.plain().len())?;
    if spec.width == 0 {
        return out.push_str(text);
    }
    let missing = spec.width.saturating_sub(char_count(text.plain()));
    world.meter.check(missing)?;
    world.work(missing)?;
    if !spec.is_left {
        out.push(&" ".repeat(missing), Origin::Engine)?;
    }
    out.push_str(text)?;
    if spec.is_left {
        out.push(&" ".repeat(missing), Origin::Engine)?;
    }
    Ok(())
}

/// Escapes characters beyond ASCII as Python's `ascii()` does.
pub(super) fn ascii_escapes(text: &str) -> String {
    text.chars()
        .map(|c| match c as u32 {
            0..=0x7f => c.to_string(),
            0x80..=0xff => format!("\\x{:02x}", c as u32),
            0x100..=0xffff => format!("\\u{:04x}", c as u32),
            _ => format!("\\U{:08x}", c as u32),
        })
        .collect()
}
