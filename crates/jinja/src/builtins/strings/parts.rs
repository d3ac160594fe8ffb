//! Methods that split a string.

use super::super::Args;
use super::super::flag;
use super::super::int_arg;
use super::super::needed;
use super::super::str_arg;
use super::Ends;
use super::check_lines;
use super::check_parts;
use super::lines;
use crate::error::Fault;
use crate::error::Res;
use crate::lexer::is_space;
use crate::value::Value;
use crate::value::text::Str;
use crate::vm::World;

pub(super) fn split<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    split_from(world, args, Ends::Left)
}

pub(super) fn rsplit<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    split_from(world, args, Ends::Right)
}

pub(super) fn split_from<'a>(world: &World<'a>, args: Args<'_, 'a>, from: Ends) -> Res<Value<'a>> {
    let [separator, most] = args.bind("split", ["sep", "maxsplit"])?;
    let text = args.subject_str()?;
    let plain = text.plain();
    world.work(plain.len())?;
    let most = usize::try_from(int_arg(most, -1)?).unwrap_or(usize::MAX);
    let parts: Vec<&str> = match separator {
        None | Some(Value::None) => {
            check_parts(world, plain, is_space)?;
            if from == Ends::Left { split_space(plain, most) } else { rsplit_space(plain, most) }
        }
        Some(separator) => {
            let separator = str_arg(separator)?.plain();
            if separator.is_empty() {
                return Err(Fault::value("empty separator"));
            }
            if most == 0 {
                vec![plain]
            } else {
                world.work(separator.len() * 6)?;
                let pieces = plain.matches(separator).count().min(most) + 1;
                world.check_items(pieces * 2)?;
                let most = most.saturating_add(1);
                if from == Ends::Left {
                    plain.splitn(most, separator).collect()
                } else {
                    let mut parts: Vec<&str> = plain.rsplitn(most, separator).collect();
                    parts.reverse();
                    parts
                }
            }
        }
    };
    slices(world, text, &parts)
}

/// Creates a list of strings from parts of a string.
pub(super) fn slices<'a>(world: &World<'a>, text: &Str<'a>, parts: &[&str]) -> Res<Value<'a>> {
    world.check_items(parts.len())?;
    let mut items = Vec::with_capacity(parts.len());
    let each = if let Str::Slice(_) = text { 32 } else { 128 };
    for part in parts {
        world.work(each)?;
        items.push(Value::Str(text.slice(world, text.range_of(part))?));
    }
    Value::list(world, items)
}

pub(super) fn split_space(text: &str, most: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while !rest.is_empty() {
        if parts.len() == most {
            // Python keeps the white space at the end of the unsplit rest.
            parts.push(rest);
            break;
        }
        let end = rest.find(is_space).unwrap_or(rest.len());
        parts.push(&rest[..end]);
        rest = rest[end..].trim_start_matches(is_space);
    }
    parts
}

pub(super) fn rsplit_space(text: &str, most: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text.trim_end_matches(is_space);
    while !rest.is_empty() {
        if parts.len() == most {
            // Python keeps the white space at the start of the unsplit rest.
            parts.push(rest);
            break;
        }
        let start = rest.char_indices().rev().find(|(_, c)| is_space(*c)).map_or(0, |(at, c)| at + c.len_utf8());
        parts.push(&rest[start..]);
        rest = rest[..start].trim_end_matches(is_space);
    }
    parts.reverse();
    parts
}

pub(super) fn splitlines<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let [keeps_breaks] = args.bind("splitlines", ["keepends"])?;
    let text = args.subject_str()?;
    check_lines(world, text.plain())?;
    slices(world, text, &lines(text.plain(), flag(world, keeps_breaks, false)))
}

pub(super) fn partition_at<'a>(world: &World<'a>, args: Args<'_, 'a>, from: Ends) -> Res<Value<'a>> {
    let [separator] = args.bind("partition", ["sep"])?;
    let separator = str_arg(needed("partition", "sep", separator)?)?;
    let text = args.subject_str()?;
    let plain = text.plain();
    world.work(plain.len() * 2 + separator.plain().len() * 4)?;
    if separator.is_empty() {
        return Err(Fault::value("empty separator"));
    }
    let found = if from == Ends::Left { plain.find(separator.plain()) } else { plain.rfind(separator.plain()) };
    let ranges = match (found, from) {
        (Some(at), _) => {
            let behind = at + separator.plain().len();
            [0..at, at..behind, behind..plain.len()]
        }
        (None, Ends::Left) => [0..plain.len(), 0..0, 0..0],
        (None, _) => [0..0, 0..0, 0..plain.len()],
    };
    let mut items = Vec::with_capacity(3);
    for range in ranges {
        items.push(Value::Str(text.slice(world, range)?));
    }
    Value::tuple(world, items)
}

pub(super) fn partition<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    partition_at(world, args, Ends::Left)
}

pub(super) fn rpartition<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    partition_at(world, args, Ends::Right)
}
