//! `'{} {name!r:>8}'.format(..)`: Python's formatter, with the sandbox's field lookup.

use num_bigint::Sign;

use super::percent::{ascii_escapes, radix};
use super::{Args, html};
use crate::error::{Fault, Res};
use crate::output::Origin;
use crate::value::builder::{Builder, Pieces};
use crate::value::float::{self, Style};
use crate::value::number::{big_digits, to_float};
use crate::value::subscript::{attribute_named, item};
use crate::value::text::Str;
use crate::value::{Value, char_count};
use crate::vm::World;

pub(super) fn format<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let text = args.subject_str()?;
    let positional = args.positional();
    let keywords = |name: &str| Ok(args.keywords().find(|(known, _)| *known == name).map(|(_, value)| value.clone()));
    fill(world, text, positional, &keywords)
}

pub(super) fn format_map<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let [mapping] = args.bind("format_map", ["mapping"])?;
    let mapping = super::needed("format_map", "mapping", mapping)?;
    let keywords = |name: &str| mapping.dict_get_str(world, name);
    fill(world, args.subject_str()?, &[], &keywords)
}

type Lookup<'l, 'a> = &'l dyn Fn(&str) -> Res<Option<Value<'a>>>;

struct FieldArguments<'f, 'a> {
    positional: &'f [Value<'a>],
    keywords: Lookup<'f, 'a>,
    /// The number of the next unnamed field; `None` once a field had an explicit number.
    automatic: Option<usize>,
    was_automatic: bool,
}

fn fill<'a>(world: &World<'a>, text: &Str<'a>, positional: &[Value<'a>], keywords: Lookup<'_, 'a>) -> Res<Value<'a>> {
    world.work(text.plain().len())?;
    let mut fields = FieldArguments { positional, keywords, automatic: Some(0), was_automatic: false };
    let mut out = Builder::new(world);
    write(world, &mut out, text, &mut fields, 0)?;
    out.finish_as(text.is_markup()).map(Value::Str)
}

fn write<'a>(
    world: &World<'a>,
    out: &mut Builder<'a>,
    text: &Str<'a>,
    fields: &mut FieldArguments<'_, 'a>,
    depth: usize,
) -> Res<()> {
    if depth > 1 {
        return Err(Fault::value("Max string recursion exceeded"));
    }
    let plain = text.plain();
    let bytes = plain.as_bytes();
    let mut at = 0;
    let mut from = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'{' | b'}' if bytes.get(at + 1) == Some(&bytes[at]) => {
                out.push_range(text, from..at + 1)?;
                at += 2;
                from = at;
            }
            b'}' => return Err(Fault::value("Single '}' encountered in format string")),
            b'{' => {
                world.work(64)?;
                out.push_range(text, from..at)?;
                let end = field_end(plain, at)?;
                write_field(world, out, text, at + 1..end, fields, depth)?;
                at = end + 1;
                from = at;
            }
            _ => at += 1,
        }
    }
    out.push_range(text, from..plain.len())
}

/// A part of a field in braces.
enum FieldPart {
    Name,
    /// A key or an index in brackets, in which braces and colons are characters.
    Brackets,
    /// The conversion and the specification, in which brackets are characters.
    Specification,
}

/// Returns the position of the brace that closes a field. Nested braces are counted, except inside
/// the brackets of its name.
fn field_end(plain: &str, open: usize) -> Res<usize> {
    let mut depth = 0usize;
    let mut part = FieldPart::Name;
    for (at, byte) in plain.bytes().enumerate().skip(open) {
        part = match (byte, part) {
            (b'[', FieldPart::Name) if depth == 1 => FieldPart::Brackets,
            (b']', FieldPart::Brackets) => FieldPart::Name,
            (_, FieldPart::Brackets) => FieldPart::Brackets,
            (b':' | b'!', FieldPart::Name) => FieldPart::Specification,
            (b'{', part) => {
                depth += 1;
                part
            }
            (b'}', part) => {
                depth -= 1;
                if depth == 0 {
                    return Ok(at);
                }
                part
            }
            (_, part) => part,
        };
    }
    Err(Fault::value(if open + 1 == plain.len() {
        "Single '{' encountered in format string"
    } else {
        "expected '}' before end of string"
    }))
}

fn write_field<'a>(
    world: &World<'a>,
    out: &mut Builder<'a>,
    text: &Str<'a>,
    range: std::ops::Range<usize>,
    fields: &mut FieldArguments<'_, 'a>,
    depth: usize,
) -> Res<()> {
    let body = &text.plain()[range.clone()];
    let mut in_brackets = false;
    let name_end = body
        .char_indices()
        .find(|(_, c)| {
            match c {
                '[' => in_brackets = true,
                ']' => in_brackets = false,
                _ => {}
            }
            !in_brackets && matches!(c, '!' | ':')
        })
        .map_or(body.len(), |(at, _)| at);
    let name = &body[..name_end];
    let mut rest = &body[name_end..];
    let mut conversion = None;
    if let Some(behind) = rest.strip_prefix('!') {
        let mut characters = behind.chars();
        conversion = characters.next();
        rest = characters.as_str();
        if conversion.is_none() || !(rest.is_empty() || rest.starts_with(':')) {
            return Err(Fault::value("expected ':' after conversion specifier"));
        }
    }
    let value = find(world, name, fields)?;
    let spec = rest.strip_prefix(':').unwrap_or("");
    let value = match conversion {
        None => value,
        Some('s') => Value::Str(value.to_str(world)?),
        Some('r') => Value::Str(value.to_repr(world)?),
        Some('a') => Value::Str(value.to_repr(world)?.map(world, ascii_escapes)?),
        Some(other) => return Err(Fault::value(format!("Unknown conversion specifier {other}"))),
    };
    // A format specification may itself contain fields.
    let spec = if spec.contains(['{', '}']) {
        let range = text.range_of(spec);
        let mut inner = Builder::new(world);
        write(world, &mut inner, &text.slice(world, range)?, fields, depth + 1)?;
        inner.finish()?.plain().to_owned()
    } else {
        spec.to_owned()
    };
    let is_markup = text.is_markup();
    let mut formatted = Builder::new(world);
    apply(world, &mut formatted, &value, &spec)?;
    let formatted = formatted.finish()?;
    if is_markup && !matches!(&value, Value::Str(text) if text.is_markup()) {
        return out.push_str(&html::escape(world, &formatted)?);
    }
    out.push_str(&formatted)
}

fn find<'a>(world: &World<'a>, name: &str, fields: &mut FieldArguments<'_, 'a>) -> Res<Value<'a>> {
    let first_end = name.find(['.', '[']).unwrap_or(name.len());
    let (first, mut rest) = name.split_at(first_end);
    let is_whole = rest.is_empty();
    let number = if name.is_empty() {
        let Some(next) = fields.automatic else {
            return Err(Fault::value("cannot switch from manual field specification to automatic field numbering"));
        };
        fields.automatic = Some(next + 1);
        fields.was_automatic = true;
        Some(next)
    } else if first.bytes().all(|byte| byte.is_ascii_digit()) {
        if is_whole && fields.was_automatic {
            return Err(Fault::value("cannot switch from automatic field numbering to manual field specification"));
        }
        if is_whole {
            fields.automatic = None;
        }
        Some(first.parse().unwrap_or(usize::MAX))
    } else {
        None
    };
    let mut value = match number {
        Some(number) => fields.positional.get(number).cloned().ok_or_else(|| {
            Fault::value(format!("Replacement index {number} out of range for positional args tuple"))
        })?,
        None => (fields.keywords)(first)?
            .ok_or_else(|| Fault::value(format!("the format refers to field '{first}', which is missing")))?,
    };
    while !rest.is_empty() {
        world.work(64)?;
        if let Some(behind) = rest.strip_prefix('.') {
            let end = behind.find(['.', '[']).unwrap_or(behind.len());
            value = attribute_named(world, &value, &behind[..end])?;
            rest = &behind[end..];
        } else {
            let behind = &rest[1..];
            let Some(end) = behind.find(']') else { return Err(Fault::value("Missing ']' in format string")) };
            let key = match behind[..end].parse::<i64>() {
                Ok(index) if index >= 0 => Value::Int(index),
                _ => Value::Str(Str::made(world, behind[..end].to_owned())?),
            };
            value = item(world, &value, &key)?;
            rest = &behind[end + 1..];
            if !rest.is_empty() && !rest.starts_with(['.', '[']) {
                return Err(Fault::value("Only '.' or '[' may follow ']' in format field specifier"));
            }
        }
    }
    Ok(value)
}

/// Python's format specification: `[[fill]align][sign][z][#][0][width][,][.precision][type]`.
#[derive(Default)]
struct Spec {
    fill: Option<char>,
    align: Option<char>,
    sign: Option<char>,
    is_alternate: bool,
    has_zeros: bool,
    width: usize,
    grouping: Option<char>,
    precision: Option<usize>,
    kind: Option<char>,
}

fn parse_spec(text: &str, of: &str) -> Res<Spec> {
    let invalid = || Fault::value(format!("Invalid format specifier '{text}' for object of type '{of}'"));
    let mut spec = Spec::default();
    let mut characters = text.chars().peekable();
    let mut ahead = text.chars();
    let (first, second) = (ahead.next(), ahead.next());
    let is_align = |c: Option<char>| matches!(c, Some('<' | '>' | '^' | '='));
    if is_align(second) {
        spec.fill = first;
        spec.align = second;
        characters.next();
        characters.next();
    } else if is_align(first) {
        spec.align = characters.next();
    }
    if let Some('+' | '-' | ' ') = characters.peek() {
        spec.sign = characters.next();
    }
    if characters.peek() == Some(&'z') {
        characters.next();
    }
    if characters.peek() == Some(&'#') {
        spec.is_alternate = true;
        characters.next();
    }
    if characters.peek() == Some(&'0') {
        spec.has_zeros = true;
        characters.next();
    }
    let number = |characters: &mut std::iter::Peekable<std::str::Chars<'_>>| {
        let mut value: Option<usize> = None;
        while let Some(digit) = characters.peek().and_then(|c| c.to_digit(10)) {
            value = Some(value.unwrap_or(0).saturating_mul(10).saturating_add(digit as usize));
            characters.next();
        }
        value
    };
    spec.width = number(&mut characters).unwrap_or(0);
    if let Some(',' | '_') = characters.peek() {
        spec.grouping = characters.next();
    }
    if characters.peek() == Some(&'.') {
        characters.next();
        spec.precision =
            Some(number(&mut characters).ok_or_else(|| Fault::value("Format specifier missing precision"))?);
    }
    spec.kind = characters.next();
    if characters.next().is_some() {
        return Err(invalid());
    }
    Ok(spec)
}

fn apply<'a>(world: &World<'a>, out: &mut Builder<'a>, value: &Value<'a>, spec_text: &str) -> Res<()> {
    if spec_text.is_empty() {
        return out.push_str(&value.to_soft_str(world)?);
    }
    let spec = parse_spec(spec_text, value.kind())?;
    world.meter.check(spec.width)?;
    let unknown =
        |kind: char| Err(Fault::value(format!("Unknown format code '{kind}' for object of type '{}'", value.kind())));
    match value {
        Value::Str(text) => {
            match spec.kind {
                None | Some('s') => {}
                Some(kind) => return unknown(kind),
            }
            if spec.sign.is_some() || spec.grouping.is_some() || spec.align == Some('=') || spec.is_alternate {
                return Err(Fault::value("not allowed in string format specifier"));
            }
            let mut text = text.clone();
            if let Some(precision) = spec.precision
                && let Some((at, _)) = text.plain().char_indices().nth(precision)
            {
                text = text.slice(world, 0..at)?;
            }
            let zero_fill = if spec.has_zeros { '0' } else { ' ' };
            aligned(world, out, &spec, spec.fill.unwrap_or(zero_fill), spec.align.unwrap_or('<'), &text)
        }
        Value::Int(_) | Value::Bool(_) | Value::Big(_) => match spec.kind {
            None | Some('d' | 'b' | 'o' | 'x' | 'X' | 'n') => {
                if spec.precision.is_some() {
                    return Err(Fault::value("Precision not allowed in integer format specifier"));
                }
                let number = crate::value::compare::big(value);
                let (digits, prefix, group) = match spec.kind {
                    Some('b') => (radix(world, &number, 2)?, "0b", 4),
                    Some('o') => (radix(world, &number, 8)?, "0o", 4),
                    Some('x') => (radix(world, &number, 16)?, "0x", 4),
                    Some('X') => (radix(world, &number, 16)?.to_uppercase(), "0X", 4),
                    _ => {
                        (big_digits(&num_bigint::BigInt::from_biguint(Sign::Plus, number.magnitude().clone()))?, "", 3)
                    }
                };
                let prefix = if spec.is_alternate { prefix } else { "" };
                number_aligned(world, out, &spec, number.sign() == Sign::Minus, prefix, &digits, "", group)
            }
            Some('c') => {
                let code = crate::value::number::index(value)?;
                let Some(c) = u32::try_from(code).ok().and_then(char::from_u32) else {
                    return Err(Fault::value("%c arg not in range(0x110000)"));
                };
                let text = Str::made(world, c.to_string())?;
                aligned(world, out, &spec, spec.fill.unwrap_or(' '), spec.align.unwrap_or('<'), &text)
            }
            Some('e' | 'E' | 'f' | 'F' | 'g' | 'G' | '%') => float_aligned(world, out, &spec, to_float(value)?),
            Some(kind) => unknown(kind),
        },
        Value::Float(number) => match spec.kind {
            None | Some('e' | 'E' | 'f' | 'F' | 'g' | 'G' | 'n' | '%') => float_aligned(world, out, &spec, *number),
            Some(kind) => unknown(kind),
        },
        Value::Undefined(_) => Err(Fault::type_error("unsupported format string passed to Undefined.__format__")),
        other => Err(Fault::type_error(format!("unsupported format string passed to {}.__format__", other.kind()))),
    }
}

fn float_aligned<'a>(world: &World<'a>, out: &mut Builder<'a>, spec: &Spec, number: f64) -> Res<()> {
    if spec.precision.is_some_and(|precision| precision > 100_000) {
        return Err(Fault::value("precision too big"));
    }
    let is_upper = matches!(spec.kind, Some('E' | 'F' | 'G'));
    let precision = spec.precision.unwrap_or(6);
    let text = match spec.kind {
        Some('e' | 'E') => float::format(number, Style::Exponent, precision, is_upper, spec.is_alternate),
        Some('f' | 'F') => float::format(number, Style::Fixed, precision, is_upper, spec.is_alternate),
        Some('%') => float::format(number * 100.0, Style::Fixed, precision, false, spec.is_alternate) + "%",
        Some(_) => float::format(number, Style::General, precision, is_upper, spec.is_alternate),
        None => match spec.precision {
            None => float::repr(number.abs()),
            Some(precision) => float::format(number, Style::Short, precision, false, spec.is_alternate),
        },
    };
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (whole, rest) = text.split_at(split);
    let is_negative = number.is_sign_negative() && !number.is_nan();
    number_aligned(world, out, spec, is_negative, "", whole, rest, 3)
}

#[allow(clippy::too_many_arguments, reason = "the parts of one number")]
fn number_aligned<'a>(
    world: &World<'a>,
    out: &mut Builder<'a>,
    spec: &Spec,
    is_negative: bool,
    prefix: &str,
    digits: &str,
    rest: &str,
    group: usize,
) -> Res<()> {
    let sign = match (is_negative, spec.sign) {
        (true, _) => "-",
        (_, Some('+')) => "+",
        (_, Some(' ')) => " ",
        _ => "",
    };
    let align = spec.align.unwrap_or(if spec.has_zeros { '=' } else { '>' });
    let fill = spec.fill.unwrap_or(if spec.has_zeros { '0' } else { ' ' });
    let fixed = sign.len() + prefix.len() + rest.len();
    let mut digits = digits.to_owned();
    // Infinity and NaN have no digits to group.
    if let Some(separator) = spec.grouping.filter(|_| !digits.is_empty()) {
        if align == '=' && fill == '0' {
            // Padding zeros are grouped too.
            world.work(spec.width)?;
            let mut count = digits.len();
            while fixed + count + (count - 1) / group < spec.width {
                count += 1;
            }
            digits = "0".repeat(count - digits.len()) + &digits;
        }
        digits = grouped(&digits, separator, group);
    }
    if align == '=' {
        let missing = spec.width.saturating_sub(fixed + digits.len());
        world.work(missing)?;
        let filling: String = std::iter::repeat_n(fill, missing).collect();
        return out.push(&format!("{sign}{prefix}{filling}{digits}{rest}"), Origin::Engine);
    }
    let text = Str::made(world, format!("{sign}{prefix}{digits}{rest}"))?;
    aligned(world, out, spec, fill, align, &text)
}

fn grouped(digits: &str, separator: char, group: usize) -> String {
    let mut out = String::with_capacity(digits.len() * 2);
    for (at, c) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(group) {
            out.push(separator);
        }
        out.push(c);
    }
    out
}

fn aligned<'a>(
    world: &World<'a>,
    out: &mut Builder<'a>,
    spec: &Spec,
    fill: char,
    align: char,
    text: &Str<'a>,
) -> Res<()> {
    let missing = spec.width.saturating_sub(char_count(text.plain()));
    let left = match align {
        '<' => 0,
        '^' => missing / 2,
        _ => missing,
    };
    out.push_str(&super::strings::pad(world, text, left, missing - left, (fill, Origin::Engine))?)
}
