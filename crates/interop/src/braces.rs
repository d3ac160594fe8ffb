//! Parser for texts with fields in braces, in the syntax of Python's `str.format`.

use rolecall_conversation::spelling;
use rolecall_format::{Codec, Op};

use crate::fields::{Fields, SourceString};

/// Parses a text such as `"USER: {input} ASSISTANT:"`. `known` maps field names to ops. Reports any
/// other name as a mistake.
pub(crate) fn read(fields: &Fields<'_, '_>, written: &SourceString, known: &[(&str, Op)]) -> Vec<Op> {
    let text = &written.text;
    let mut ops = Vec::new();
    let mut literal = String::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        if rest.starts_with("{{") || rest.starts_with("}}") {
            literal.push(first);
            at += 2;
        } else if first == '{' {
            let Some(length) = rest.find('}') else {
                let help = "add `}`, or write `{{` for a literal brace".into();
                fields.report("open_hole", "expected `}` to close this `{`".into(), written.span(at..at + 1), help);
                break;
            };
            let name = &rest[1..length];
            match known.iter().find(|(known, _)| *known == name) {
                Some((_, op)) => {
                    push_literal(&mut ops, &mut literal);
                    ops.push(op.clone());
                }
                None => {
                    let names = || known.iter().map(|(name, _)| *name);
                    let help = match spelling::nearest(name, names()) {
                        Some(near) => format!("did you mean `{{{near}}}`? write `{{{{` for a literal brace"),
                        None => {
                            let list: Vec<String> = names().map(|name| format!("`{{{name}}}`")).collect();
                            format!("use one of {}; write `{{{{` for a literal brace", list.join(", "))
                        }
                    };
                    let message = format!("`{{{name}}}` is not a hole of this field");
                    fields.report("unknown_hole", message, written.span(at..at + length + 1), help);
                }
            }
            at += length + 1;
        } else if first == '}' {
            let help = "write `}}` for a literal brace".into();
            fields.report("lone_brace", "found `}` without `{`".into(), written.span(at..at + 1), help);
            at += 1;
        } else {
            literal.push(first);
            at += first.len_utf8();
        }
    }
    push_literal(&mut ops, &mut literal);
    ops
}

fn push_literal(ops: &mut Vec<Op>, literal: &mut String) {
    if !literal.is_empty() {
        ops.push(Op::Literal(std::mem::take(literal)));
    }
}

/// Returns an op for literal text, or `None` if the text is empty.
pub(crate) fn literal(text: &str) -> Option<Op> {
    (!text.is_empty()).then(|| Op::Literal(text.to_owned()))
}

/// Returns a hole that writes a text unchanged.
pub(crate) fn hole(field: rolecall_format::Field) -> Op {
    Op::hole(field, Codec::Text)
}

/// Parses fields like [`read`], but reports no mistakes: all other text stays text, unknown fields
/// included.
pub(crate) fn pieces(text: &str, known: &[(&str, Op)]) -> Vec<Op> {
    let mut ops = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let found = known.iter().find_map(|(name, op)| {
            let behind = rest.strip_prefix('{')?.strip_prefix(*name)?.strip_prefix('}')?;
            Some((behind, op))
        });
        rest = match found {
            Some((behind, op)) => {
                push_literal(&mut ops, &mut literal);
                ops.push(op.clone());
                behind
            }
            None => {
                literal.push(first);
                &rest[first.len_utf8()..]
            }
        };
    }
    push_literal(&mut ops, &mut literal);
    ops
}
