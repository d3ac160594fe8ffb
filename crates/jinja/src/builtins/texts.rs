//! Text filters.

use super::functions::size_arg;
use super::strings::{Ends, capitalize_text, center_sides, pad, replace_text, strip_text};
use super::{Args, FilterFn, case, flag, int_arg, needed, percent, strings};
use crate::error::{Fault, Res};
use crate::lexer::is_space;
use crate::output::Origin;
use crate::value::builder::{Builder, Pieces};
use crate::value::text::Str;
use crate::value::{Value, char_count, subscript};
use crate::vm::World;

pub(super) const FILTERS: &[(&str, FilterFn)] = &[
    ("trim", trim),
    ("upper", |world, args| mapped(world, args, "upper", case::upper)),
    ("lower", |world, args| mapped(world, args, "lower", case::lower)),
    ("string", string),
    ("replace", replace),
    ("title", title),
    ("capitalize", capitalize),
    ("indent", indent),
    ("format", format),
    ("center", center),
    ("truncate", truncate),
    ("wordcount", word_count),
];

fn subject<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Str<'a>> {
    args.subject().to_soft_str(world)
}

fn trim<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let [chars] = args.bind("trim", ["chars"])?;
    strip_text(world, &subject(world, args)?, chars, Ends::Both).map(Value::Str)
}

fn mapped<'a>(world: &World<'a>, args: Args<'_, 'a>, name: &str, change: impl Fn(&str) -> String) -> Res<Value<'a>> {
    args.bind::<0>(name, [])?;
    let text = subject(world, args)?;
    world.work(text.plain().len() * 6)?;
    text.map(world, change).map(Value::Str)
}

fn string<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    args.bind::<0>("string", [])?;
    subject(world, args).map(Value::Str)
}

fn replace<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let [old, new, count] = args.bind("replace", ["old", "new", "count"])?;
    let most = match count {
        None | Some(Value::None) => -1,
        count => int_arg(count, -1)?,
    };
    let old = needed("replace", "old", old)?.to_str(world)?;
    let new = needed("replace", "new", new)?.to_str(world)?;
    replace_text(world, &args.subject().to_str(world)?, &old, &new, most).map(Value::Str)
}

/// jinja2: words start only after `-`, white space and opening brackets.
fn title<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    args.bind::<0>("title", [])?;
    let text = subject(world, args)?;
    world.work(text.plain().len() * 12)?;
    let mut is_start = true;
    let changed = text.map(world, |part| {
        let mut out = String::with_capacity(part.len());
        for c in part.chars() {
            if is_start {
                out.extend(c.to_uppercase());
            } else {
                out.extend(c.to_lowercase());
            }
            is_start = is_space(c) || matches!(c, '-' | '(' | '{' | '[' | '<');
        }
        out
    })?;
    // jinja2 joins the words into a new string, which is not safe HTML.
    changed.with_markup(world, false).map(Value::Str)
}

fn capitalize<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    args.bind::<0>("capitalize", [])?;
    capitalize_text(world, &subject(world, args)?).map(Value::Str)
}

fn indent<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let [width, first, blank] = args.bind("indent", ["width", "first", "blank"])?;
    let Value::Str(text) = args.subject() else {
        return Err(match args.subject() {
            Value::Undefined(absence) => absence.fault(),
            other => Fault::type_error(format!("unsupported operand type(s) for +=: '{}' and 'str'", other.kind())),
        });
    };
    let indent = match width {
        Some(Value::Str(indent)) => indent.clone(),
        width => {
            let width = size_arg(width, 4)?;
            world.meter.check(width)?;
            world.work(width)?;
            Str::made(world, " ".repeat(width))?
        }
    };
    let plain = text.plain();
    strings::check_lines(world, plain)?;
    let mut lines = strings::lines(plain, false);
    // jinja2 appends a line feed before it splits. A line break at the end therefore adds an empty
    // line, except for a carriage return, which the line feed completes.
    let is_open = |c: char| c != '\r' && strings::lines(c.encode_utf8(&mut [0; 4]), false).concat().is_empty();
    if plain.is_empty() || plain.ends_with(is_open) {
        lines.push(&plain[plain.len()..]);
    }
    world.work(lines.len().saturating_mul(indent.plain().len()).saturating_add(plain.len()))?;
    let (first, blank) = (flag(world, first, false), flag(world, blank, false));
    let mut builder = Builder::new(world);
    if first {
        builder.push_str(&indent)?;
    }
    for (index, line) in lines.iter().enumerate() {
        let range = text.range_of(line);
        if index > 0 {
            // The line break has the text's origin, although it is always a line feed.
            let before = range.start.checked_sub(1).map_or(Origin::Engine, |at| text.origin_at(at));
            let is_verbatim = plain[..range.start].ends_with('\n') && !plain[..range.start].ends_with("\r\n");
            builder.push("\n", if is_verbatim { before } else { before.changed() })?;
            if blank || !line.is_empty() {
                builder.push_str(&indent)?;
            }
        }
        builder.push_range(text, range)?;
    }
    builder.finish_as(text.is_markup()).map(Value::Str)
}

fn format<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let text = subject(world, args)?;
    let positional = args.positional();
    if !args.names.is_empty() {
        if !positional.is_empty() {
            return Err(Fault::type_error("can't handle positional and keyword arguments at the same time"));
        }
        let mut dict = crate::value::dict::Dict::new(world)?;
        for (name, value) in args.keywords() {
            dict.insert(world, super::functions::name_value(name), value.clone())?;
        }
        return percent::format(world, &text, &dict.into_value()).map(Value::Str);
    }
    percent::format(world, &text, &Value::tuple(world, positional.to_vec())?).map(Value::Str)
}

fn center<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let [width] = args.bind("center", ["width"])?;
    let text = subject(world, args)?;
    world.work(text.plain().len())?;
    let width = size_arg(width, 80)?;
    let (left, right) = center_sides(width.saturating_sub(char_count(text.plain())), width);
    pad(world, &text, left, right, (' ', Origin::Engine)).map(Value::Str)
}

fn truncate<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let [length, kill_words, end, leeway] = args.bind("truncate", ["length", "killwords", "end", "leeway"])?;
    let length = int_arg(length, 255)?;
    let leeway = match leeway {
        None | Some(Value::None) => 5,
        leeway => int_arg(leeway, 5)?,
    };
    let end = end.cloned().unwrap_or(Value::text("..."));
    let Value::Str(end) = &end else { return Err(Fault::type_error("the `end` argument of `truncate` must be a str")) };
    let end_length = char_count(end.plain()) as i64;
    if length < end_length || leeway < 0 {
        return Err(Fault::value(format!("expected length >= {end_length}, got {length}")));
    }
    let value = args.subject();
    if value.python_len(world)? as i64 <= length.saturating_add(leeway) {
        return Ok(value.clone());
    }
    let stop = Value::Int(length - end_length);
    let Value::Str(cut) = subscript::slice(world, value, [&Value::None, &stop, &Value::None])? else {
        return Err(Fault::type_error("only a str can be truncated"));
    };
    let kept = if flag(world, kill_words, false) {
        cut.plain().len()
    } else {
        cut.plain().rfind(' ').unwrap_or(cut.plain().len())
    };
    let mut builder = Builder::new(world);
    builder.push_range(&cut, 0..kept)?;
    builder.push_str(end)?;
    builder.finish_as(cut.is_markup()).map(Value::Str)
}

fn word_count<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    args.bind::<0>("wordcount", [])?;
    let text = subject(world, args)?;
    world.work(text.plain().len() * 4)?;
    let words = text.plain().split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty());
    Ok(Value::length(words.count()))
}
