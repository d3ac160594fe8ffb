//! Python's `str` methods.

mod padding;
mod parts;

pub(super) use padding::center_sides;
use padding::{center, expandtabs, ljust, maketrans, rjust, translate, zfill};
use parts::{partition, rpartition, rsplit, split, splitlines};

use std::ops::Range;

use super::Args;
use super::braces;
use super::case;
use super::int_arg;
use super::methods::Method;
use super::needed;
use super::str_arg;
use crate::error::{Fault, Res};
use crate::lexer::is_space;
use crate::output::Origin;
use crate::value::builder::{Builder, Pieces};
use crate::value::iter::Iter;
use crate::value::repr::is_printable;
use crate::value::text::{Slice, Str};
use crate::value::{Value, char_count};
use crate::vm::World;

pub(super) const METHODS: &[Method] = &[
    Method::new("strip", strip),
    Method::new("lstrip", lstrip),
    Method::new("rstrip", rstrip),
    Method::new("split", split),
    Method::new("startswith", startswith),
    Method::new("endswith", endswith),
    Method::new("replace", replace),
    Method::new("format", braces::format),
    Method::new("join", join),
    Method::new("upper", upper),
    Method::new("lower", lower),
    Method::new("title", title),
    Method::new("capitalize", capitalize),
    Method::new("find", find),
    Method::new("rfind", rfind),
    Method::new("index", index),
    Method::new("rindex", rindex),
    Method::new("count", count),
    Method::new("rsplit", rsplit),
    Method::new("splitlines", splitlines),
    Method::new("partition", partition),
    Method::new("rpartition", rpartition),
    Method::new("removeprefix", removeprefix),
    Method::new("removesuffix", removesuffix),
    Method::new("center", center),
    Method::new("ljust", ljust),
    Method::new("rjust", rjust),
    Method::new("zfill", zfill),
    Method::new("expandtabs", expandtabs),
    Method::new("swapcase", swapcase),
    Method::new("casefold", casefold),
    Method::new("format_map", braces::format_map),
    Method::new("isalnum", |world, args| is(world, args, |text| all(text, char::is_alphanumeric))),
    Method::new("isalpha", |world, args| is(world, args, |text| all(text, is_letter))),
    Method::new("isascii", |world, args| is(world, args, str::is_ascii)),
    Method::new("isdecimal", |world, args| is(world, args, |text| all(text, is_decimal))),
    Method::new("isdigit", |world, args| is(world, args, |text| all(text, is_digit))),
    Method::new("isidentifier", |world, args| is(world, args, is_identifier)),
    Method::new("islower", |world, args| is(world, args, is_lower)),
    Method::new("isnumeric", |world, args| is(world, args, |text| all(text, char::is_numeric))),
    Method::new("isprintable", |world, args| is(world, args, |text| text.chars().all(is_printable))),
    Method::new("isspace", |world, args| is(world, args, |text| all(text, is_space))),
    Method::new("istitle", |world, args| is(world, args, is_title)),
    Method::new("isupper", |world, args| is(world, args, is_upper)),
    Method::new("maketrans", maketrans),
    Method::new("translate", translate),
    Method::new("encode", |_, _| Err(Fault::unsupported("byte strings are not supported"))),
];

fn is<'a>(world: &World<'a>, args: Args<'_, 'a>, holds: impl Fn(&str) -> bool) -> Res<Value<'a>> {
    args.bind::<0>("method", [])?;
    world.work(args.subject_str()?.plain().len() * 4)?;
    Ok(Value::Bool(holds(args.subject_str()?.plain())))
}

fn all(text: &str, holds: impl Fn(char) -> bool) -> bool {
    !text.is_empty() && text.chars().all(holds)
}

/// Reports whether a character is a letter. Rust's `is_alphabetic` also includes vowel signs and
/// letter numbers.
fn is_letter(c: char) -> bool {
    c.is_alphabetic() && !is_mark_or_number(c)
}

fn is_mark_or_number(c: char) -> bool {
    matches!(c, '\u{345}' | '\u{5b0}'..='\u{5c7}' | '\u{610}'..='\u{61a}' | '\u{64b}'..='\u{65f}' | '\u{670}'
        | '\u{900}'..='\u{903}' | '\u{93a}'..='\u{93b}' | '\u{93e}'..='\u{94f}' | '\u{16ee}'..='\u{16f0}'
        | '\u{2160}'..='\u{2182}' | '\u{2185}'..='\u{2188}' | '\u{24b6}'..='\u{24e9}' | '\u{3007}'
        | '\u{3021}'..='\u{3029}' | '\u{3038}'..='\u{303a}' | '\u{1f130}'..='\u{1f189}')
}

/// The zero of each script's decimal digits, which the other nine follow (Unicode 14).
const ZEROS: &[u32] = &[
    0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xde6, 0xe50, 0xed0, 0xf20,
    0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90, 0x1b50, 0x1bb0, 0x1c40, 0x1c50, 0xa620, 0xa8d0,
    0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10, 0x104a0, 0x10d30, 0x11066, 0x110f0, 0x11136, 0x111d0, 0x112f0,
    0x11450, 0x114d0, 0x11650, 0x116c0, 0x11730, 0x118e0, 0x11950, 0x11c50, 0x11d50, 0x11da0, 0x16a60, 0x16ac0,
    0x16b50, 0x1d7ce, 0x1d7d8, 0x1d7e2, 0x1d7ec, 0x1d7f6, 0x1e140, 0x1e2f0, 0x1e950, 0x1fbf0,
];

/// Returns the value of a decimal digit.
pub(crate) fn decimal_value(c: char) -> Option<u32> {
    if c.is_ascii() {
        return c.to_digit(10);
    }
    let zero = *ZEROS.get(ZEROS.partition_point(|zero| *zero <= c as u32).checked_sub(1)?)?;
    (c as u32 - zero < 10).then_some(c as u32 - zero)
}

fn is_decimal(c: char) -> bool {
    decimal_value(c).is_some()
}

fn is_digit(c: char) -> bool {
    is_decimal(c)
        || matches!(c, '\u{b2}' | '\u{b3}' | '\u{b9}' | '\u{1369}'..='\u{1371}' | '\u{19da}' | '\u{2070}'
            | '\u{2074}'..='\u{2079}' | '\u{2080}'..='\u{2089}' | '\u{2460}'..='\u{2468}' | '\u{2474}'..='\u{247c}'
            | '\u{2488}'..='\u{2490}' | '\u{24ea}' | '\u{24f5}'..='\u{24fd}' | '\u{24ff}' | '\u{2776}'..='\u{277e}'
            | '\u{2780}'..='\u{2788}' | '\u{278a}'..='\u{2792}')
}

fn is_identifier(text: &str) -> bool {
    let goes_on = |c: char| c.is_alphanumeric() || c == '_' || is_combining(c);
    text.starts_with(|c: char| c.is_alphabetic() || c == '_') && text.chars().all(goes_on)
}

/// Reports whether a character is a combining mark used with many scripts. Rust treats the marks of
/// single scripts as letters, or they are not covered here.
fn is_combining(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{483}'..='\u{487}' | '\u{591}'..='\u{5bd}' | '\u{1ab0}'..='\u{1aff}'
        | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20f0}' | '\u{3099}'..='\u{309a}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{fe20}'..='\u{fe2f}')
}

pub(crate) fn is_lower(text: &str) -> bool {
    text.chars().any(char::is_lowercase) && !text.chars().any(|c| c.is_uppercase() || case::is_title(c))
}

pub(crate) fn is_upper(text: &str) -> bool {
    text.chars().any(char::is_uppercase) && !text.chars().any(|c| c.is_lowercase() || case::is_title(c))
}

fn is_title(text: &str) -> bool {
    let mut was_cased = false;
    let mut has_cased = false;
    for c in text.chars() {
        if c.is_uppercase() || case::is_title(c) {
            if was_cased {
                return false;
            }
        } else if c.is_lowercase() && !was_cased {
            return false;
        }
        was_cased = case::is_cased(c);
        has_cased |= was_cased;
    }
    has_cased
}

/// The ends of a string that an operation applies to.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Ends {
    Left,
    Right,
    Both,
}

/// Strips as Python does: white space, or any of the given characters.
pub(crate) fn strip_text<'a>(world: &World<'a>, text: &Str<'a>, chars: Option<&Value<'a>>, ends: Ends) -> Res<Str<'a>> {
    let plain = text.plain();
    let kept = match chars {
        None | Some(Value::None) => cut_ends(plain, ends, is_space),
        Some(chars) => {
            let chars = str_arg(chars)?.plain();
            if chars.len() > 16 {
                // Each character of the text may be searched among all of them.
                world.work(plain.len().saturating_mul(chars.len() / 4))?;
            }
            cut_ends(plain, ends, |c| chars.contains(c))
        }
    };
    if kept.len() == plain.len() {
        return Ok(text.clone());
    }
    world.work((plain.len() - kept.len()) * 4)?;
    text.slice(world, text.range_of(kept))
}

/// Trims white space from both ends of a slice in place.
#[inline]
pub(crate) fn trim_slice<'a>(world: &World<'a>, slice: &mut Slice<'a>) -> Res<()> {
    let kept = slice.text.trim_start_matches(is_space);
    let start = slice.text.len() - kept.len();
    let kept = kept.trim_end_matches(is_space);
    world.work(slice.text.len() - kept.len())?;
    *slice = Slice { text: kept, origin: slice.origin.forward(start) };
    Ok(())
}

/// Evaluates `trim` for any value.
pub(crate) fn trimmed<'a>(world: &World<'a>, value: &Value<'a>) -> Res<Value<'a>> {
    strip_text(world, &value.to_soft_str(world)?, None, Ends::Both).map(Value::Str)
}

fn cut_ends(text: &str, ends: Ends, is_unwanted: impl Fn(char) -> bool) -> &str {
    let mut kept = text;
    if ends != Ends::Right {
        kept = kept.trim_start_matches(&is_unwanted);
    }
    if ends != Ends::Left {
        kept = kept.trim_end_matches(&is_unwanted);
    }
    kept
}

fn strip_ends<'a>(world: &World<'a>, args: Args<'_, 'a>, ends: Ends) -> Res<Value<'a>> {
    let [chars] = args.bind("strip", ["chars"])?;
    strip_text(world, args.subject_str()?, chars, ends).map(Value::Str)
}

fn strip<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    strip_ends(world, args, Ends::Both)
}

fn lstrip<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    strip_ends(world, args, Ends::Left)
}

fn rstrip<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    strip_ends(world, args, Ends::Right)
}

/// Checks that there is room for the parts of a text separated by characters of a kind, before they
/// are searched.
pub(super) fn check_parts(world: &World<'_>, text: &str, is_border: impl Fn(char) -> bool) -> Res<()> {
    world.work(text.len() * 2)?;
    let borders = text.chars().filter(|c| is_border(*c)).count();
    world.work((borders + 1) * 32)?;
    world.meter.check((borders + 1).saturating_mul(2 * size_of::<&str>()))
}

/// Checks that there is room for the lines of a text.
pub(super) fn check_lines(world: &World<'_>, text: &str) -> Res<()> {
    check_parts(world, text, is_line_break)
}

fn is_line_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\x0b' | '\x0c' | '\x1c' | '\x1d' | '\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Splits into lines as Python does, with or without their line breaks.
pub(crate) fn lines(text: &str, keeps_breaks: bool) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(is_line_break).unwrap_or(rest.len());
        let mut after = rest[end..].chars().next().map_or(end, |c| end + c.len_utf8());
        if rest[end..].starts_with("\r\n") {
            after = end + 2;
        }
        lines.push(&rest[..if keeps_breaks { after } else { end }]);
        rest = &rest[after..];
    }
    lines
}

/// Returns the byte range between two character indexes, given as Python's optional `start` and
/// `end`.
fn window(text: &str, start: Option<&Value<'_>>, end: Option<&Value<'_>>) -> Res<Option<Range<usize>>> {
    if start.is_none() && end.is_none() {
        return Ok(Some(0..text.len()));
    }
    let length = char_count(text) as i64;
    let clamp = |at: i64| if at < 0 { (at + length).max(0) } else { at };
    let given = |value: Option<&Value<'_>>, default: i64| match value {
        None | Some(Value::None) => Ok(default),
        value => int_arg(value, default),
    };
    let (start, end) = (clamp(given(start, 0)?), clamp(given(end, length)?).min(length));
    if start > end {
        return Ok(None);
    }
    let byte = |index: i64| text.char_indices().nth(index as usize).map_or(text.len(), |(at, _)| at);
    Ok(Some(byte(start)..byte(end)))
}

fn starts_or_ends<'a>(
    world: &World<'a>,
    args: Args<'_, 'a>,
    name: &str,
    holds: impl Fn(&str, &str) -> bool,
) -> Res<Value<'a>> {
    let [wanted, start, end] = args.bind(name, ["prefix", "start", "end"])?;
    let wanted = needed(name, "prefix", wanted)?;
    let text = args.subject_str()?.plain();
    if start.is_some() || end.is_some() {
        world.work(text.len() * 2)?;
    }
    let Some(window) = window(text, start, end)? else { return Ok(Value::Bool(false)) };
    let text = &text[window];
    let compared = |part: &str| if part.len() > 256 { world.work(part.len().min(text.len())) } else { Ok(()) };
    if let Value::Tuple(list) = wanted {
        for item in &list.items {
            world.work(64)?;
            compared(str_arg(item)?.plain())?;
            if holds(text, str_arg(item)?.plain()) {
                return Ok(Value::Bool(true));
            }
        }
        return Ok(Value::Bool(false));
    }
    match wanted {
        Value::Str(wanted) => {
            compared(wanted.plain())?;
            Ok(Value::Bool(holds(text, wanted.plain())))
        }
        other => {
            Err(Fault::type_error(format!("{name} first arg must be str or a tuple of str, not {}", other.kind())))
        }
    }
}

fn startswith<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    starts_or_ends(world, args, "startswith", |text, part| text.starts_with(part))
}

fn endswith<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    starts_or_ends(world, args, "endswith", |text, part| text.ends_with(part))
}

fn replace<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let [old, new, count] = args.bind("replace", ["old", "new", "count"])?;
    let (old, new) = (needed("replace", "old", old)?, needed("replace", "new", new)?);
    replace_text(world, args.subject_str()?, str_arg(old)?, str_arg(new)?, int_arg(count, -1)?).map(Value::Str)
}

/// Replaces as Python does. Text that stays keeps its origin, and replacements have theirs. If the
/// text contains input, which then decides where and how often they appear, the replacements lose
/// their offsets.
pub(crate) fn replace_text<'a>(
    world: &World<'a>,
    text: &Str<'a>,
    old: &Str<'a>,
    new: &Str<'a>,
    most: i64,
) -> Res<Str<'a>> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let plain = text.plain();
    world.work(plain.len() + old.plain().len() * 4)?;
    let new = if text.is_markup() { super::html::escape(world, new)? } else { new.clone() };
    if !old.is_empty() && !plain.contains(old.plain()) || most == 0 {
        return Ok(text.clone());
    }
    let new = if text.all_parts().any(|part| matches!(part.origin, Origin::Input { .. })) {
        // The input determines where and how often the replacement appears.
        let mut moved = Builder::new(world);
        for part in new.all_parts() {
            moved.push_marked(part.text, part.origin.changed(), part.mark)?;
        }
        moved.finish_as(new.is_markup())?
    } else {
        new
    };
    let mut builder = Builder::new(world);
    let mut from = 0;
    if old.is_empty() {
        // Between all characters and at both ends.
        let mut done = 0;
        for (at, c) in plain.char_indices() {
            world.work(32)?;
            if done < most {
                world.work(64 + new.weight())?;
                builder.push_str(&new)?;
                done += 1;
            }
            builder.push_range(text, at..at + c.len_utf8())?;
        }
        if done < most {
            builder.push_str(&new)?;
        }
        return builder.finish_as(text.is_markup());
    }
    for (at, found) in plain.match_indices(old.plain()).take(most) {
        world.work(64 + new.weight())?;
        builder.push_range(text, from..at)?;
        builder.push_str(&new)?;
        from = at + found.len();
    }
    builder.push_range(text, from..plain.len())?;
    builder.finish_as(text.is_markup())
}

fn join<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let [items] = args.bind("join", ["iterable"])?;
    let separator = args.subject_str()?;
    let mut iter = Iter::new(world, needed("join", "iterable", items)?)
        .map_err(|_| Fault::type_error("can only join an iterable"))?;
    let mut builder = Builder::new(world);
    let mut index = 0;
    while let Some(item) = iter.next(world)? {
        let item = if separator.is_markup() { Value::Str(item.to_soft_str(world)?) } else { item };
        let Value::Str(item) = &item else {
            return Err(Fault::type_error(format!(
                "sequence item {index}: expected str instance, {} found",
                item.kind()
            )));
        };
        world.work(64 + separator.weight() + item.weight())?;
        if index > 0 {
            builder.push_str(separator)?;
        }
        index += 1;
        if separator.is_markup() {
            builder.push_str(&super::html::escape(world, item)?)?;
        } else {
            builder.push_str(item)?;
        }
    }
    builder.finish_as(separator.is_markup()).map(Value::Str)
}

fn mapped<'a>(world: &World<'a>, args: Args<'_, 'a>, change: impl Fn(&str) -> String) -> Res<Value<'a>> {
    args.bind::<0>("method", [])?;
    let text = args.subject_str()?;
    world.work(text.plain().len() * 6)?;
    text.map(world, change).map(Value::Str)
}

fn upper<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    mapped(world, args, case::upper)
}

fn lower<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    mapped(world, args, case::lower)
}

fn casefold<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    mapped(world, args, case::fold)
}

fn swapcase<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    mapped(world, args, case::swap)
}

fn title<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    args.bind::<0>("title", [])?;
    let text = args.subject_str()?;
    world.work(text.plain().len() * 16)?;
    let mut was_cased = false;
    text.map(world, |part| case::title(part, &mut was_cased)).map(Value::Str)
}

fn capitalize<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    args.bind::<0>("capitalize", [])?;
    capitalize_text(world, args.subject_str()?).map(Value::Str)
}

/// Makes the first character uppercase and all others lowercase.
pub(crate) fn capitalize_text<'a>(world: &World<'a>, text: &Str<'a>) -> Res<Str<'a>> {
    world.work(text.plain().len() * 6)?;
    let mut is_first = true;
    text.map(world, |part| {
        let mut out = String::with_capacity(part.len());
        let mut rest = part.chars();
        if std::mem::replace(&mut is_first, false)
            && let Some(first) = rest.next()
        {
            case::title_char(first, &mut out);
        }
        out.push_str(&rest.as_str().to_lowercase());
        out
    })
}

fn search<'a>(world: &World<'a>, args: Args<'_, 'a>, name: &str, from: Ends) -> Res<Option<i64>> {
    let [wanted, start, end] = args.bind(name, ["sub", "start", "end"])?;
    let wanted = str_arg(needed(name, "sub", wanted)?)?.plain();
    let text = args.subject_str()?.plain();
    world.work(text.len() * 2 + wanted.len() * 4)?;
    let Some(window) = window(text, start, end)? else { return Ok(None) };
    let inside = &text[window.clone()];
    let found = if from == Ends::Left { inside.find(wanted) } else { inside.rfind(wanted) };
    Ok(found.map(|at| char_count(&text[..window.start + at]) as i64))
}

fn find<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    Ok(Value::Int(search(world, args, "find", Ends::Left)?.unwrap_or(-1)))
}

fn rfind<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    Ok(Value::Int(search(world, args, "rfind", Ends::Right)?.unwrap_or(-1)))
}

fn index<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    search(world, args, "index", Ends::Left)?.map(Value::Int).ok_or_else(|| Fault::value("substring not found"))
}

fn rindex<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    search(world, args, "rindex", Ends::Right)?.map(Value::Int).ok_or_else(|| Fault::value("substring not found"))
}

fn count<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let [wanted, start, end] = args.bind("count", ["sub", "start", "end"])?;
    let wanted = str_arg(needed("count", "sub", wanted)?)?.plain();
    let text = args.subject_str()?.plain();
    world.work(text.len() * 4 + wanted.len() * 4)?;
    let Some(window) = window(text, start, end)? else { return Ok(Value::Int(0)) };
    let inside = &text[window];
    Ok(Value::length(if wanted.is_empty() { char_count(inside) + 1 } else { inside.matches(wanted).count() }))
}

fn removeprefix<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let [prefix] = args.bind("removeprefix", ["prefix"])?;
    let prefix = str_arg(needed("removeprefix", "prefix", prefix)?)?;
    let text = args.subject_str()?;
    world.work(prefix.plain().len())?;
    let start = if text.plain().starts_with(prefix.plain()) { prefix.plain().len() } else { 0 };
    text.slice(world, start..text.plain().len()).map(Value::Str)
}

fn removesuffix<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let [suffix] = args.bind("removesuffix", ["suffix"])?;
    let suffix = str_arg(needed("removesuffix", "suffix", suffix)?)?;
    let text = args.subject_str()?;
    world.work(suffix.plain().len())?;
    let end = text.plain().len() - if text.plain().ends_with(suffix.plain()) { suffix.plain().len() } else { 0 };
    text.slice(world, 0..end).map(Value::Str)
}

/// Pads a string on both sides with this many fill characters.
pub(crate) fn pad<'a>(
    world: &World<'a>,
    text: &Str<'a>,
    left: usize,
    right: usize,
    fill: (char, Origin),
) -> Res<Str<'a>> {
    if left == 0 && right == 0 {
        return Ok(text.clone());
    }
    let bytes = left.saturating_add(right).saturating_mul(fill.0.len_utf8());
    world.meter.check(bytes.saturating_add(text.plain().len()))?;
    world.work(bytes)?;
    let mut builder = Builder::new(world);
    let filling = |times: usize| fill.0.to_string().repeat(times);
    builder.push(&filling(left), fill.1)?;
    builder.push_str(text)?;
    builder.push(&filling(right), fill.1)?;
    builder.finish_as(text.is_markup())
}
