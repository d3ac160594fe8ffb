//! Safe HTML, which templates can request although nothing is escaped by default.

use super::{Args, FilterFn, flag};
use crate::error::{Fault, Res};
use crate::lexer::is_space;
use crate::output::Origin;
use crate::value::Value;
use crate::value::builder::{Builder, Pieces};
use crate::value::text::Str;
use crate::vm::World;

pub(super) const FILTERS: &[(&str, FilterFn)] = &[
    ("e", escape_filter),
    ("escape", escape_filter),
    ("forceescape", force_escape),
    ("safe", safe),
    ("striptags", strip_tags),
    ("xmlattr", xml_attributes),
];

/// Escapes a string as markupsafe's `escape` does.
pub(crate) fn escape<'a>(world: &World<'a>, text: &Str<'a>) -> Res<Str<'a>> {
    if text.is_markup() {
        return Ok(text.clone());
    }
    let mut builder = Builder::new(world);
    world.work(text.plain().len())?;
    for part in text.all_parts() {
        world.work(32)?;
        let mut from = 0;
        for (at, c) in part.text.char_indices() {
            let entity = match c {
                '&' => "&amp;",
                '<' => "&lt;",
                '>' => "&gt;",
                '"' => "&#34;",
                '\'' => "&#39;",
                _ => continue,
            };
            world.work(32)?;
            builder.push_marked(&part.text[from..at], part.origin.forward(from), part.mark)?;
            builder.push_marked(entity, part.origin.changed(), part.mark)?;
            from = at + 1;
        }
        builder.push_marked(&part.text[from..], part.origin.forward(from), part.mark)?;
    }
    builder.finish_as(true)
}

fn escape_filter<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    args.bind::<0>("escape", [])?;
    escape(world, &args.subject().to_soft_str(world)?).map(Value::Str)
}

fn force_escape<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    args.bind::<0>("forceescape", [])?;
    escape(world, &args.subject().to_str(world)?).map(Value::Str)
}

fn safe<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    args.bind::<0>("safe", [])?;
    args.subject().to_soft_str(world)?.with_markup(world, true).map(Value::Str)
}

/// Removes tags and comments, collapses white space to single spaces, and decodes entities.
fn strip_tags<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    args.bind::<0>("striptags", [])?;
    let text = args.subject().to_str(world)?;
    let plain = text.plain();
    world.work(plain.len() * 8)?;
    super::strings::check_parts(world, plain, |c| c == '<')?;
    // Comments are removed before tags, as in markupsafe. `kept` holds the remaining ranges.
    let mut kept: Vec<std::ops::Range<usize>> = std::iter::once(0..plain.len()).collect();
    for (open, close) in [("<!--", "-->"), ("<", ">")] {
        let mut next = Vec::new();
        for range in kept {
            let mut from = range.start;
            while let Some(start) = plain[from..range.end].find(open).map(|at| from + at) {
                let Some(end) = plain[start..range.end].find(close).map(|at| start + at + close.len()) else { break };
                next.push(from..start);
                from = end;
            }
            next.push(from..range.end);
        }
        kept = next;
    }
    let mut stripped = Builder::new(world);
    for range in kept {
        stripped.push_range(&text, range)?;
    }
    let stripped = stripped.finish()?;
    let mut words = Builder::new(world);
    let plain = stripped.plain();
    for (index, word) in plain.split(is_space).filter(|word| !word.is_empty()).enumerate() {
        if index > 0 {
            words.push(" ", Origin::Engine)?;
        }
        words.push_range(&stripped, stripped.range_of(word))?;
    }
    let words = words.finish()?;
    const ENTITIES: [(&str, &str); 6] =
        [("&lt;", "<"), ("&gt;", ">"), ("&#34;", "\""), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
    let mut out = Builder::new(world);
    let mut from = 0;
    while let Some(at) = words.plain()[from..].find('&').map(|at| from + at) {
        out.push_range(&words, from..at)?;
        let rest = &words.plain()[at..];
        match ENTITIES.iter().find(|(entity, _)| rest.starts_with(entity)) {
            Some((entity, character)) => {
                out.push(character, words.origin_at(at).changed())?;
                from = at + entity.len();
            }
            None => {
                out.push_range(&words, at..at + 1)?;
                from = at + 1;
            }
        }
    }
    out.push_range(&words, from..words.plain().len())?;
    out.finish().map(Value::Str)
}

fn xml_attributes<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let [auto_space] = args.bind("xmlattr", ["autospace"])?;
    let dict = args.subject();
    if let Value::Undefined(absence) = dict {
        return Err(absence.fault());
    }
    if !dict.is_mapping() {
        return Err(Fault::type_error(format!("'{}' object has no attribute 'items'", dict.kind())));
    }
    let mut out = Builder::new(world);
    let mut is_first = !flag(world, auto_space, true);
    for index in 0..dict.size(world).unwrap_or(0) {
        world.work(64)?;
        let Some((key, value)) = dict.entry_at(world, index)? else { continue };
        if matches!(value, Value::None | Value::Undefined(_)) {
            continue;
        }
        let Value::Str(key) = &key else {
            return Err(Fault::type_error(format!("expected string or bytes-like object, got '{}'", key.kind())));
        };
        if key.plain().contains(|c: char| c.is_ascii_whitespace() || matches!(c, '\x0b' | '/' | '>' | '=')) {
            return Err(Fault::value(format!("Invalid character in attribute name: '{}'", key.plain())));
        }
        if !is_first {
            out.push(" ", Origin::Engine)?;
        }
        is_first = false;
        out.push_str(&escape(world, key)?)?;
        out.push("=\"", Origin::Engine)?;
        out.push_str(&escape(world, &value.to_soft_str(world)?)?)?;
        out.push("\"", Origin::Engine)?;
    }
    out.finish().map(Value::Str)
}
