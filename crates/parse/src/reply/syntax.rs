//! The markers of the shared call files. They tell which syntax a call has that the layouts do not
//! read.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use rolecall_format::{Format, Op, SHARED_CALL_SLOTS, is_clear_tag, load, shared_calls};

use crate::literal::Literal;
use crate::stray::marks_in;

/// Returns the markers of calls that are told from ordinary text, each with the names of the shared
/// files that have it.
fn syntaxes() -> &'static [(String, Box<str>)] {
    static SYNTAXES: OnceLock<Vec<(String, Box<str>)>> = OnceLock::new();
    SYNTAXES.get_or_init(|| {
        let mut names: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (name, source) in shared_calls() {
            // A test loads every file, so all of them are valid.
            let Ok(format) = load(source) else { continue };
            for mark in marks(&format) {
                let known = names.entry(mark).or_default();
                if !known.contains(&name) {
                    known.push(name);
                }
            }
        }
        let joined = |names: Vec<&str>| -> Box<str> {
            let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            quoted.join(" or ").into()
        };
        names.into_iter().map(|(mark, names)| (mark, joined(names))).collect()
    })
}

/// Returns the markers as literals of a tokenizer with these tokens.
pub(super) fn syntaxes_of(tokens: &[String]) -> Vec<(Literal, Box<str>)> {
    let literal = |text: &str| {
        let mut literal = Literal::of(text);
        literal.mark_tokens(tokens);
        literal
    };
    syntaxes().iter().map(|(mark, names)| (literal(mark), names.clone())).collect()
}

fn marks(format: &Format) -> Vec<String> {
    let layouts = SHARED_CALL_SLOTS.into_iter().filter_map(|slot| format.layout(slot));
    let mut literals = Vec::new();
    for layout in layouts {
        add_literals(format, layout.ops(), &mut literals);
    }
    let marks = literals.iter().flat_map(marks_in).map(|mark| mark.text().to_owned());
    marks.filter(|mark| is_clear_tag(mark)).collect()
}

fn add_literals(format: &Format, ops: &[Op], literals: &mut Vec<Literal>) {
    for op in ops {
        match op {
            Op::Literal(text) => literals.push(Literal::of(text)),
            Op::Control(id) => literals.push(Literal::of(&format.controls[id.0].text)),
            Op::Group(inner) => add_literals(format, inner, literals),
            _ => {}
        }
    }
}
