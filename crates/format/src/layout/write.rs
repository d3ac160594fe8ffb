//! Writes the text of a layout.

use super::Op;
use super::parse::{Vocabulary, parse};
use crate::{Codec, Field, Format};

/// Returns the text that parses to these pieces.
pub(crate) fn write(ops: &[Op], format: &Format, vocabulary: &Vocabulary<'_>) -> String {
    let ops = joined(ops);
    let plain = text_of(&ops, format, vocabulary, false);
    // If adjacent pieces accidentally form a marker, quote all text that can be quoted.
    match is_same(&parse(&plain, vocabulary).0, &ops, format) {
        true => plain,
        false => text_of(&ops, format, vocabulary, true),
    }
}

/// Returns the pieces with adjacent literals joined.
fn joined(ops: &[Op]) -> Vec<Op> {
    let mut joined: Vec<Op> = Vec::with_capacity(ops.len());
    for op in ops {
        match (joined.last_mut(), op) {
            (Some(Op::Literal(before)), Op::Literal(text)) => before.push_str(text),
            (_, Op::Literal(text)) if text.is_empty() => {}
            (_, Op::Group(inner)) => joined.push(Op::Group(self::joined(inner))),
            (_, op) => joined.push(op.clone()),
        }
    }
    joined
}

/// Reports whether two layouts print the same text, ignoring the positions of their holes.
fn is_same(read: &[Op], ops: &[Op], format: &Format) -> bool {
    read.len() == ops.len()
        && read.iter().zip(ops).all(|pair| match pair {
            (Op::Hole { field, codec, .. }, Op::Hole { field: other, codec: others, .. }) => {
                field == other && codec == others
            }
            (Op::Group(inner), Op::Group(others)) => is_same(inner, others, format),
            (Op::Control(id), Op::Own(own)) => format.control(*id).own == Some(*own),
            (op, other) => op == other,
        })
}

fn text_of(ops: &[Op], format: &Format, vocabulary: &Vocabulary<'_>, quotes_all: bool) -> String {
    let mut text = String::new();
    for (at, op) in ops.iter().enumerate() {
        let is_token = |op: &Op| matches!(op, Op::Control(_) | Op::Own(_));
        if quotes_all && is_token(op) && at.checked_sub(1).and_then(|before| ops.get(before)).is_some_and(is_token) {
            text.push_str("{\"\"}");
        }
        match op {
            Op::Literal(literal) => {
                let opens_group = matches!(ops.get(at + 1), Some(Op::Group(_)));
                write_literal(&mut text, literal, opens_group, vocabulary, quotes_all);
            }
            Op::Control(id) => text.push_str(&format.control(*id).text),
            Op::Own(own) => {
                let control = format.controls.iter().find(|control| control.own == Some(*own));
                text.push_str(control.map_or("", |control| &control.text));
            }
            Op::Hole { field, codec, .. } => {
                text.push('{');
                text.push_str(name_of(*field, format));
                if *codec != Codec::Text {
                    text.push(':');
                    text.push_str(&codec.spelling());
                }
                text.push('}');
            }
            Op::Seam => text.push_str("{seam}"),
            Op::Group(inner) => {
                text.push_str("[[");
                text.push_str(&text_of(inner, format, vocabulary, quotes_all));
                text.push_str("]]");
            }
        }
    }
    text
}

fn name_of(field: Field, format: &Format) -> &str {
    match field {
        Field::Option(at) => format.choices.get(at).map_or("", |choice| &choice.name),
        Field::Extra(at) => format.fields.get(at).map_or("", |(name, _)| name),
        field => field.name(),
    }
}

fn write_literal(out: &mut String, literal: &str, opens_group: bool, vocabulary: &Vocabulary<'_>, quotes_all: bool) {
    for (at, character) in literal.char_indices() {
        let rest = &literal[at..];
        let behind = &rest[character.len_utf8()..];
        let doubled = behind.starts_with(character) || literal[..at].ends_with(character);
        let is_control = || vocabulary.controls.iter().any(|(spelling, _)| rest.starts_with(spelling.as_str()));
        let in_quotes = match character {
            '"' => false,
            '[' => doubled || (opens_group && behind.is_empty()) || is_control(),
            ']' => doubled,
            '{' => looks_like_jinja(behind),
            _ => is_control(),
        };
        match character {
            character if in_quotes || (quotes_all && !matches!(character, '"' | '}')) => {
                out.extend(["{\"", &rest[..character.len_utf8()], "\"}"])
            }
            '{' => out.push_str("{{"),
            '}' => out.push_str("}}"),
            character => out.push(character),
        }
    }
}

/// Reports whether the text after a brace looks like a template's expression.
fn looks_like_jinja(behind: &str) -> bool {
    let inside = behind.trim_start_matches('-').trim_start();
    ["'", "bos_token", "message"].iter().any(|start| inside.starts_with(start))
}
