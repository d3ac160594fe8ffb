//! Printing of grammars as GBNF, the format of llama.cpp, which xgrammar supports as well.

use super::Printed;
use crate::{Class, Grammar, Node, Pattern};

impl Grammar {
    /// Prints the grammar as GBNF for llama.cpp, with control tokens as their text and schemas as
    /// rules.
    pub fn to_gbnf(&self) -> Printed {
        let lowered = self.lowered();
        Printed { text: written(&lowered), notes: lowered.notes }
    }

    /// Prints one piece of the grammar as a separate grammar.
    pub(super) fn part_to_gbnf(&self, part: &Node) -> String {
        written(&self.lowered_part(part))
    }
}

fn written(lowered: &Grammar) -> String {
    let mut text = format!("root ::= {}\n", top(&lowered.root, lowered));
    for rule in &lowered.rules {
        text.push_str(&format!("{} ::= {}\n", rule.name, top(&rule.node, lowered)));
    }
    text
}

/// Prints a whole rule, which needs no parentheses.
fn top(node: &Node, grammar: &Grammar) -> String {
    match node {
        Node::Choice(ways) if !ways.is_empty() => {
            ways.iter().map(|way| part(way, grammar)).collect::<Vec<_>>().join(" | ")
        }
        other => part(other, grammar),
    }
}

fn part(node: &Node, grammar: &Grammar) -> String {
    match node {
        Node::Literal(text) => quoted(text),
        Node::Token(token) => quoted(&token.text),
        Node::Pattern(pattern) => pattern_part(pattern),
        Node::Sequence(nodes) if nodes.is_empty() => "\"\"".into(),
        Node::Sequence(nodes) => nodes.iter().map(|node| part(node, grammar)).collect::<Vec<_>>().join(" "),
        Node::Choice(ways) if ways.is_empty() => NEVER.into(),
        Node::Choice(_) => format!("({})", top(node, grammar)),
        Node::Repeat { node, min, max } => counted(&atom(node, grammar), *min, *max),
        Node::Rule(rule) => grammar.rules.get(*rule).map_or(String::new(), |rule| rule.name.clone()),
        // Lowered grammars contain none of these.
        Node::Text(_) | Node::Json(_) | Node::Over => String::new(),
    }
}

/// Prints a node that a repetition count can follow.
fn atom(node: &Node, grammar: &Grammar) -> String {
    match node {
        Node::Literal(_) | Node::Token(_) | Node::Rule(_) | Node::Choice(_) => part(node, grammar),
        Node::Pattern(Pattern::Class(_) | Pattern::Choice(_)) => part(node, grammar),
        other => format!("({})", part(other, grammar)),
    }
}

fn pattern_part(pattern: &Pattern) -> String {
    match pattern {
        Pattern::Text(text) => quoted(text),
        Pattern::Class(class) => class_part(class),
        Pattern::Sequence(parts) if parts.is_empty() => "\"\"".into(),
        Pattern::Sequence(parts) => parts.iter().map(pattern_part).collect::<Vec<_>>().join(" "),
        Pattern::Choice(ways) if ways.is_empty() => NEVER.into(),
        Pattern::Choice(ways) => format!("({})", ways.iter().map(pattern_part).collect::<Vec<_>>().join(" | ")),
        Pattern::Repeat { pattern, min, max } => {
            let atom = match **pattern {
                Pattern::Class(_) | Pattern::Choice(_) => pattern_part(pattern),
                _ => format!("({})", pattern_part(pattern)),
            };
            counted(&atom, *min, *max)
        }
    }
}

/// A character that no model writes, to represent a node that matches nothing.
const NEVER: &str = "[\\x00]";

fn counted(atom: &str, min: usize, max: Option<usize>) -> String {
    match (min, max) {
        (0, None) => format!("{atom}*"),
        (1, None) => format!("{atom}+"),
        (0, Some(1)) => format!("{atom}?"),
        (_, Some(0)) => "\"\"".into(),
        (min, None) => format!("{atom}{{{min},}}"),
        (min, Some(max)) if min == max => format!("{atom}{{{min}}}"),
        (min, Some(max)) => format!("{atom}{{{min},{max}}}"),
    }
}

fn class_part(class: &Class) -> String {
    if class.ranges.is_empty() {
        return if class.negated { "[^\\x00]".into() } else { NEVER.into() };
    }
    let mut out = String::from(if class.negated { "[^" } else { "[" });
    for (first, last) in &class.ranges {
        class_character(*first, &mut out);
        if first != last {
            out.push('-');
            class_character(*last, &mut out);
        }
    }
    out.push(']');
    out
}

fn class_character(character: char, out: &mut String) {
    match character {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        c if c.is_ascii_control() || matches!(c, '\\' | ']' | '[' | '^' | '-' | '"') => {
            out.push_str(&format!("\\x{:02X}", c as u32));
        }
        c => out.push(c),
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_ascii_control() => out.push_str(&format!("\\x{:02X}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
