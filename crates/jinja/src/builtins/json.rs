//! `tojson` as transformers defines it: Python's `json.dumps` with `ensure_ascii=False` and without
//! HTML escapes.

use super::{Args, FilterFn, flag, str_arg};
use crate::error::{Fault, Res};
use crate::input::{InputEntry, InputNode, InputValue, Tag};
use crate::output::{Offset, Origin};
use crate::value::builder::{Builder, Pieces};
use crate::value::compare::{order, sort};
use crate::value::text::Str;
use crate::value::{Value, float, number};
use crate::vm::World;

pub(super) const FILTERS: &[(&str, FilterFn)] = &[("tojson", to_json)];

const ENGINE: Origin = Origin::Engine;

enum Indent<'a> {
    Width(usize),
    Text(Str<'a>),
}

struct Layout<'a> {
    is_ascii: bool,
    /// The indentation of one level; without it, everything is on one line.
    indent: Option<Indent<'a>>,
    /// The template's own separators between items and after keys, instead of the usual ones.
    separators: Option<(Str<'a>, Str<'a>)>,
    sorts_keys: bool,
}

/// The usual separator after a key.
const AFTER_KEY: &str = ": ";

/// The maximum number of spaces that are written together with the character before them.
const FEW_BLANKS: usize = 64;

/// Characters before a line, each with a line break and the spaces that may follow it.
macro_rules! before_line {
    ($character:literal) => {
        concat!($character, "\n                                                                ")
    };
}

const LIST: &str = before_line!("[");
const DICT: &str = before_line!("{");
const COMMA: &str = before_line!(",");

fn to_json<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let mut out = Builder::new(world);
    print(world, &mut out, args)?;
    out.finish().map(Value::Str)
}

/// Writes the result of `tojson` without creating a value, since it is usually printed directly.
pub(crate) fn print<'a>(world: &World<'a>, out: &mut impl Pieces<'a>, args: Args<'_, 'a>) -> Res<()> {
    let [is_ascii, indent, separators, sort_keys] =
        args.bind("tojson", ["ensure_ascii", "indent", "separators", "sort_keys"])?;
    let indent = match indent {
        None | Some(Value::None) => None,
        Some(Value::Str(text)) => Some(Indent::Text(text.clone())),
        Some(width) => Some(Indent::Width(usize::try_from(number::index(width)?).unwrap_or(0))),
    };
    let separators = match separators {
        None | Some(Value::None) => None,
        Some(pair) => match crate::value::iter::collect(world, pair)?.as_slice() {
            [between, after] => Some((str_arg(between)?.clone(), str_arg(after)?.clone())),
            other => return Err(Fault::value(format!("expected 2 separators, found {}", other.len()))),
        },
    };
    let layout = Layout {
        is_ascii: flag(world, is_ascii, false),
        indent,
        separators,
        sorts_keys: flag(world, sort_keys, false),
    };
    write(world, out, args.subject(), &layout, 0)
}

fn write<'a>(
    world: &World<'a>,
    out: &mut impl Pieces<'a>,
    value: &Value<'a>,
    layout: &Layout<'a>,
    depth: u32,
) -> Res<()> {
    world.work(64)?;
    world.check_depth(depth)?;
    match value {
        Value::Str(text) => write_string(world, out, text, layout.is_ascii),
        Value::None => out.push("null", ENGINE),
        Value::Bool(true) => out.push("true", ENGINE),
        Value::Bool(false) => out.push("false", ENGINE),
        Value::Int(value) => out.push(&value.to_string(), ENGINE),
        Value::Big(value) => {
            world.work(value.bits() as usize)?;
            out.push(&number::big_digits(value)?, ENGINE)
        }
        Value::Float(value) => out.push(&float_text(*value), ENGINE),
        Value::InputDict(node, _) | Value::InputList(node, _) => {
            write_node(world, out, world.inputs.look(*node), &mut None, layout, depth)
        }
        Value::List(_) | Value::InputPart(_) | Value::Tuple(_) => {
            let length = value.size(world).unwrap_or(0);
            if length == 0 {
                return out.push("[]", ENGINE);
            }
            for index in 0..length {
                begin_item(out, layout, LIST, depth, index)?;
                if let Some(item) = value.item_at(world, index)? {
                    write(world, out, &item, layout, depth + 1)?;
                }
            }
            end_items(out, layout, depth)?;
            out.push("]", ENGINE)
        }
        Value::Dict(_) => write_dict(world, out, value, layout, depth),
        other => Err(Fault::type_error(format!("Object of type {} is not JSON serializable", other.kind()))),
    }
}

/// The spellings of the values not yet written, if the caller provides them.
type Spellings<'a> = Option<std::slice::Iter<'a, String>>;

/// Writes a caller's value directly.
fn write_node<'a>(
    world: &World<'a>,
    out: &mut impl Pieces<'a>,
    found: InputNode<'a>,
    spellings: &mut Spellings<'a>,
    layout: &Layout<'a>,
    depth: u32,
) -> Res<()> {
    world.work(64)?;
    world.check_depth(depth)?;
    let InputNode { node, value, tag } = found;
    let mut own = None;
    let spellings = match value {
        InputValue::List | InputValue::Dict if spellings.is_none() && !layout.is_ascii => {
            own = world.inputs.spellings(node).map(<[String]>::iter);
            &mut own
        }
        InputValue::List | InputValue::Dict => spellings,
        _ => match spellings.as_mut().and_then(Iterator::next) {
            Some(spelling) => return write_spelled(world, out, spelling, tag),
            None => &mut own,
        },
    };
    match value {
        InputValue::Str(text) => write_input(world, out, text, tag, layout.is_ascii),
        InputValue::List => {
            let length = world.inputs.len(node);
            if length == 0 {
                return out.push_engine("[]");
            }
            for index in 0..length {
                begin_item(out, layout, LIST, depth, index)?;
                if let Some(item) = world.inputs.look_at(node, index) {
                    write_node(world, out, item, spellings, layout, depth + 1)?;
                }
            }
            end_items(out, layout, depth)?;
            out.push_engine("]")
        }
        InputValue::Dict if layout.sorts_keys => write_dict(world, out, &Value::of_node(world, found)?, layout, depth),
        InputValue::Dict => {
            let length = world.inputs.len(node);
            if length == 0 {
                return out.push_engine("{}");
            }
            for index in 0..length {
                begin_item(out, layout, DICT, depth, index)?;
                if let Some((InputEntry { key, key_tag, .. }, value)) = world.inputs.look_entry(node, index) {
                    match spellings.as_mut().and_then(Iterator::next) {
                        Some(spelling) => write_spelled(world, out, spelling, key_tag)?,
                        None => write_input(world, out, key, key_tag, layout.is_ascii)?,
                    }
                    end_key(out, layout)?;
                    // Most values are strings, and a call for each takes longer than writing it.
                    match value.value {
                        InputValue::Str(text) if spellings.is_none() => {
                            world.work(64)?;
                            world.check_depth(depth + 1)?;
                            write_input(world, out, text, value.tag, layout.is_ascii)?;
                        }
                        _ => write_node(world, out, value, spellings, layout, depth + 1)?,
                    }
                }
            }
            end_items(out, layout, depth)?;
            out.push_engine("}")
        }
        InputValue::Null => out.push_engine("null"),
        InputValue::Bool(true) => out.push_engine("true"),
        InputValue::Bool(false) => out.push_engine("false"),
        InputValue::Number(_) => write(world, out, &Value::of_node(world, found)?, layout, depth),
    }
}

/// Writes the spelling from the caller's JSON text verbatim.
fn write_spelled<'a>(world: &World<'a>, out: &mut impl Pieces<'a>, spelling: &str, tag: Tag) -> Res<()> {
    world.work(spelling.len() * 2)?;
    out.push(spelling, Origin::Input { tag, offset: Offset::UNKNOWN })
}

fn write_input<'a>(world: &World<'a>, out: &mut impl Pieces<'a>, text: &'a str, tag: Tag, is_ascii: bool) -> Res<()> {
    world.work(text.len() * 2)?;
    if !needs_escapes(text.as_bytes(), is_ascii) {
        return out.push_quoted(text, Origin::Input { tag, offset: Offset::UNKNOWN });
    }
    write_string(world, out, &Str::input(text, tag), is_ascii)
}

fn write_dict<'a>(
    world: &World<'a>,
    out: &mut impl Pieces<'a>,
    dict: &Value<'a>,
    layout: &Layout<'a>,
    depth: u32,
) -> Res<()> {
    let length = dict.size(world).unwrap_or(0);
    if length == 0 {
        return out.push("{}", ENGINE);
    }
    if layout.sorts_keys {
        world.check_items(length * 2)?;
        let mut entries = Vec::with_capacity(length);
        for index in 0..length {
            entries.extend(dict.entry_at(world, index)?);
        }
        let entries = sort(entries, |left, right| {
            world.work(64)?;
            Ok(order(world, "<", &left.0, &right.0, 0)? == Some(std::cmp::Ordering::Less))
        })?;
        for (index, (key, value)) in entries.iter().enumerate() {
            write_entry(world, out, index, key, value, layout, depth)?;
        }
    } else {
        for index in 0..length {
            if let Some((key, value)) = dict.entry_at(world, index)? {
                write_entry(world, out, index, &key, &value, layout, depth)?;
            }
        }
    }
    end_items(out, layout, depth)?;
    out.push("}", ENGINE)
}

fn write_entry<'a>(
    world: &World<'a>,
    out: &mut impl Pieces<'a>,
    index: usize,
    key: &Value<'a>,
    value: &Value<'a>,
    layout: &Layout<'a>,
    depth: u32,
) -> Res<()> {
    begin_item(out, layout, DICT, depth, index)?;
    match key {
        Value::Str(key) => write_string(world, out, key, layout.is_ascii)?,
        Value::None => out.push("\"null\"", ENGINE)?,
        Value::Bool(true) => out.push("\"true\"", ENGINE)?,
        Value::Bool(false) => out.push("\"false\"", ENGINE)?,
        Value::Float(value) => out.push(&format!("\"{}\"", float_text(*value)), ENGINE)?,
        Value::Int(_) | Value::Big(_) => {
            out.push("\"", ENGINE)?;
            write(world, out, key, layout, depth)?;
            out.push("\"", ENGINE)?;
        }
        other => {
            return Err(Fault::type_error(format!("keys must be str, int, float, bool or None, not {}", other.kind())));
        }
    }
    end_key(out, layout)?;
    write(world, out, value, layout, depth + 1)
}

/// Writes what precedes an item: the list's or dict's opening (`LIST` or `DICT`) before the first
/// one, and the separator before any other.
#[inline]
fn begin_item<'a>(out: &mut impl Pieces<'a>, layout: &Layout<'a>, opening: &str, depth: u32, index: usize) -> Res<()> {
    let before = if index == 0 { opening } else { COMMA };
    match (&layout.indent, &layout.separators) {
        (_, Some((between, _))) if index > 0 => out.push_str(between)?,
        // One push for both takes less time than two pushes.
        (Some(Indent::Width(width)), _) if width.saturating_mul(depth as usize + 1) <= FEW_BLANKS => {
            return out.push_engine(&before[..2 + width * (depth as usize + 1)]);
        }
        (None, _) if index > 0 => return out.push_engine(", "),
        _ => out.push_engine(&before[..1])?,
    }
    break_line(out, layout, depth + 1)
}

#[inline]
fn end_key<'a>(out: &mut impl Pieces<'a>, layout: &Layout<'a>) -> Res<()> {
    match &layout.separators {
        None => out.push_engine(AFTER_KEY),
        Some((_, after_key)) => out.push_str(after_key),
    }
}

fn end_items<'a>(out: &mut impl Pieces<'a>, layout: &Layout<'a>, depth: u32) -> Res<()> {
    break_line(out, layout, depth)
}

#[inline]
fn break_line<'a>(out: &mut impl Pieces<'a>, layout: &Layout<'a>, depth: u32) -> Res<()> {
    match &layout.indent {
        None => Ok(()),
        Some(indent) => indent_line(out, indent, depth),
    }
}

fn indent_line<'a>(out: &mut impl Pieces<'a>, indent: &Indent<'a>, depth: u32) -> Res<()> {
    match indent {
        Indent::Width(width) => {
            let wanted = width.saturating_mul(depth as usize);
            if wanted <= FEW_BLANKS {
                return out.push_engine(&COMMA[1..wanted + 2]);
            }
            out.reserve(wanted + 1)?;
            out.push_engine("\n")?;
            out.push_engine(&" ".repeat(wanted))
        }
        Indent::Text(indent) => {
            out.push_engine("\n")?;
            (0..depth).try_for_each(|_| out.push_str(indent))
        }
    }
}

fn float_text(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned()
    } else {
        float::repr(value)
    }
}

/// Writes a quoted string. Quotes and escapes have the origin of the text they enclose or replace.
fn write_string<'a>(world: &World<'a>, out: &mut impl Pieces<'a>, text: &Str<'a>, is_ascii: bool) -> Res<()> {
    let plain = text.plain();
    world.work(plain.len() * 2)?;
    if let Str::Slice(slice) = text
        && !needs_escapes(slice.text.as_bytes(), is_ascii)
    {
        return out.push_quoted(slice.text, slice.origin.changed());
    }
    out.push("\"", text.origin_at(0).changed())?;
    for part in text.all_parts() {
        // In chunks, so that a long text is not copied whole.
        let mut rest = part.text;
        while !rest.is_empty() {
            let end = (0..=rest.len().min(8192)).rev().find(|at| rest.is_char_boundary(*at)).unwrap_or(rest.len());
            let (now, later) = rest.split_at(end);
            let escaped = escaped(now, is_ascii);
            world.work(escaped.len() + 32)?;
            out.push_marked(&escaped, part.origin.changed(), part.mark)?;
            rest = later;
        }
    }
    out.push("\"", text.origin_at(plain.len()).changed())
}

/// Reports whether a text contains a byte that JSON escapes. It reads eight bytes at a time, since
/// most texts are short and have none.
fn needs_escapes(text: &[u8], is_ascii: bool) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * ONES;
    // The high bit of a byte of the result is set if the byte of `word` is zero. Bytes above a zero
    // may be reported too, which does not change whether there is one.
    let has_zero = |word: u64| word.wrapping_sub(ONES) & !word;
    let found = |word: u64| {
        let control = word.wrapping_sub(0x20 * ONES) & !word;
        let quote = has_zero(word ^ (u64::from(b'"') * ONES));
        let backslash = has_zero(word ^ (u64::from(b'\\') * ONES));
        let beyond = if is_ascii { word | has_zero(word ^ (0x7f * ONES)) } else { 0 };
        (control | quote | backslash | beyond) & HIGH
    };
    let Some(last) = text.last_chunk::<8>() else {
        return text.iter().any(|byte| matches!(byte, ..b' ' | b'"' | b'\\') || (is_ascii && *byte >= 0x7f));
    };
    // The last eight bytes overlap with the word before them, if the length is not a multiple.
    let (words, _) = text.as_chunks::<8>();
    words.iter().fold(found(u64::from_le_bytes(*last)), |all, word| all | found(u64::from_le_bytes(*word))) != 0
}

fn escaped(text: &str, is_ascii: bool) -> String {
    let mut escaped = String::with_capacity(text.len() + 16);
    let mut from = 0;
    for (at, byte) in text.bytes().enumerate() {
        if byte >= b' ' && byte != b'"' && byte != b'\\' && (!is_ascii || byte < 0x7f) {
            continue;
        }
        if at < from {
            // Inside a character that was escaped as a whole.
            continue;
        }
        escaped.push_str(&text[from..at]);
        match byte {
            b'"' => escaped.push_str("\\\""),
            b'\\' => escaped.push_str("\\\\"),
            b'\n' => escaped.push_str("\\n"),
            _ => {
                let c = text[at..].chars().next().unwrap_or_default();
                escape(c, &mut escaped);
                from = at + c.len_utf8();
                continue;
            }
        }
        from = at + 1;
    }
    escaped.push_str(&text[from..]);
    escaped
}

fn escape(c: char, out: &mut String) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\x0c' => out.push_str("\\f"),
        '\x08' => out.push_str("\\b"),
        c => {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str("\\u");
                out.extend([12, 8, 4, 0].map(|shift| char::from(HEX[usize::from(*unit >> shift & 15)])));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::needs_escapes;

    #[test]
    fn every_byte_at_every_place_is_seen() {
        for byte in 0..=u8::MAX {
            let escapes = byte < b' ' || byte == b'"' || byte == b'\\';
            for length in 1..20 {
                for place in 0..length {
                    for filler in [b' ', b'a', 0x7e, 0x80, 0xff] {
                        let mut text = vec![filler; length];
                        text[place] = byte;
                        assert_eq!(needs_escapes(&text, false), escapes, "{text:?}");
                        let has_beyond = text.iter().any(|byte| *byte >= 0x7f);
                        assert_eq!(needs_escapes(&text, true), escapes || has_beyond, "{text:?}");
                    }
                }
            }
        }
    }
}
