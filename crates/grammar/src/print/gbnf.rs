//! Printing of grammars as GBNF, the format of llama.cpp, which xgrammar supports as well.

use super::PrintedGrammar;
use crate::{Class, Grammar, Node, Pattern};

impl Grammar {
    /// Prints the grammar as GBNF for llama.cpp, with control tokens as their text and schemas as
    /// rules.
    pub fn to_gbnf(&self) -> PrintedGrammar {
        let lowered = self.lowered();
        PrintedGrammar { text: written(&lowered), notes: lowered.notes }
    }

    /// Prints one piece of the grammar as a separate grammar.
    pub(super) fn part_to_gbnf(&self, part: &Node) -> String {
        written(&self.lowered_part(part))
    }
}

/// The number of rules that is too many for a repetition in llama.cpp: those that the repeated part
/// generates, times the count (`MAX_REPETITION_THRESHOLD` in `llama-grammar.cpp`). Depending on its
/// version, the engine refuses the grammar or ignores the maximum.
const TOO_MANY: usize = 2000;
/// The length of the stretches into which longer repetitions are divided.
const STRETCH: usize = 1000;

fn written(lowered: &Grammar) -> String {
    let mut writer = GbnfPrinter { grammar: lowered, parts: Vec::new() };
    let mut text = format!("root ::= {}\n", writer.top(&lowered.root));
    for rule in &lowered.rules {
        text.push_str(&format!("{} ::= {}\n", rule.name, writer.top(&rule.node)));
    }
    for (number, part) in writer.parts.iter().enumerate() {
        text.push_str(&format!("part-{number} ::= {part}\n"));
    }
    text
}

struct GbnfPrinter<'a> {
    grammar: &'a Grammar,
    /// The definitions of further rules, which keep repetitions within the engine's limit.
    parts: Vec<String>,
}

impl GbnfPrinter<'_> {
    /// Prints a whole rule, which needs no parentheses.
    fn top(&mut self, node: &Node) -> String {
        match node {
            Node::Choice(ways) if !ways.is_empty() => {
                ways.iter().map(|way| self.part(way)).collect::<Vec<_>>().join(" | ")
            }
            other => self.part(other),
        }
    }

    fn part(&mut self, node: &Node) -> String {
        match node {
            Node::Literal(text) => quoted(text),
            Node::Token(token) => quoted(&token.text),
            Node::Pattern(pattern) => self.pattern(pattern),
            Node::Sequence(nodes) if nodes.is_empty() => "\"\"".into(),
            Node::Sequence(nodes) => nodes.iter().map(|node| self.part(node)).collect::<Vec<_>>().join(" "),
            Node::Choice(ways) if ways.is_empty() => NEVER.into(),
            Node::Choice(_) => format!("({})", self.top(node)),
            Node::Repeat { node, min, max } => {
                let atom = self.atom(node);
                self.repeated(atom, size(node), *min, *max)
            }
            Node::Rule(rule) => self.grammar.rules.get(*rule).map_or(String::new(), |rule| rule.name.clone()),
            // Lowered grammars contain none of these.
            Node::Text(_) | Node::Json(_) | Node::Over => String::new(),
        }
    }

    /// Prints a node that a repetition count can follow.
    fn atom(&mut self, node: &Node) -> String {
        match node {
            Node::Literal(_) | Node::Token(_) | Node::Rule(_) | Node::Choice(_) => self.part(node),
            Node::Pattern(Pattern::Class(_) | Pattern::Choice(_)) => self.part(node),
            other => format!("({})", self.part(other)),
        }
    }

    fn pattern(&mut self, pattern: &Pattern) -> String {
        match pattern {
            Pattern::Text(text) => quoted(text),
            Pattern::Class(class) => class_part(class),
            Pattern::Sequence(parts) if parts.is_empty() => "\"\"".into(),
            Pattern::Sequence(parts) => parts.iter().map(|part| self.pattern(part)).collect::<Vec<_>>().join(" "),
            Pattern::Choice(ways) if ways.is_empty() => NEVER.into(),
            Pattern::Choice(ways) => {
                format!("({})", ways.iter().map(|way| self.pattern(way)).collect::<Vec<_>>().join(" | "))
            }
            Pattern::Repeat { pattern, min, max } => {
                let atom = match **pattern {
                    Pattern::Class(_) | Pattern::Choice(_) => self.pattern(pattern),
                    _ => format!("({})", self.pattern(pattern)),
                };
                self.repeated(atom, pattern_size(pattern), *min, *max)
            }
        }
    }

    /// Prints a repetition of a part that generates this many rules.
    fn repeated(&mut self, atom: String, size: usize, min: usize, max: Option<usize>) -> String {
        let count = max.unwrap_or(min).max(1);
        let atom = if (size + 1).saturating_mul(count) < TOO_MANY { atom } else { self.named(atom) };
        if count < TOO_MANY {
            return counted(&atom, min, max);
        }
        let mut parts = vec![self.stretch(&atom); min / STRETCH];
        let left = min % STRETCH;
        if left > 0 {
            parts.push(counted(&atom, left, Some(left)));
        }
        parts.push(match max {
            Some(max) => self.up_to(&atom, max.saturating_sub(min)),
            None => counted(&atom, 0, None),
        });
        parts.join(" ")
    }

    /// Prints a repetition without a minimum. Whether it reaches the end of its first stretch
    /// decides what may follow, so there is only one way to read each text.
    fn up_to(&mut self, atom: &str, most: usize) -> String {
        if most < TOO_MANY {
            return counted(atom, 0, Some(most));
        }
        let (short, stretch) = (counted(atom, 0, Some(STRETCH - 1)), self.stretch(atom));
        let rest = self.up_to(atom, most - STRETCH);
        self.named(format!("{short} | {stretch} {rest}"))
    }

    fn stretch(&mut self, atom: &str) -> String {
        self.named(counted(atom, STRETCH, Some(STRETCH)))
    }

    /// Returns the name of a further rule.
    fn named(&mut self, definition: String) -> String {
        let known = self.parts.iter().position(|part| *part == definition);
        let number = known.unwrap_or_else(|| {
            self.parts.push(definition);
            self.parts.len() - 1
        });
        format!("part-{number}")
    }
}

/// Returns the number of rules that llama.cpp generates for a node, or a little more.
fn size(node: &Node) -> usize {
    match node {
        Node::Pattern(pattern) => pattern_size(pattern),
        Node::Sequence(nodes) => nodes.iter().map(size).fold(0, usize::saturating_add),
        Node::Choice(ways) => ways.iter().map(size).fold(1, usize::saturating_add),
        Node::Repeat { node, min, max } => size(node).saturating_add(repetition_size(*min, *max)),
        Node::Rule(_) => 1,
        Node::Literal(_) | Node::Token(_) | Node::Text(_) | Node::Json(_) | Node::Over => 0,
    }
}

fn pattern_size(pattern: &Pattern) -> usize {
    match pattern {
        Pattern::Text(_) | Pattern::Class(_) => 0,
        Pattern::Sequence(parts) => parts.iter().map(pattern_size).fold(0, usize::saturating_add),
        Pattern::Choice(ways) => ways.iter().map(pattern_size).fold(1, usize::saturating_add),
        Pattern::Repeat { pattern, min, max } => pattern_size(pattern).saturating_add(repetition_size(*min, *max)),
    }
}

fn repetition_size(min: usize, max: Option<usize>) -> usize {
    1 + max.map_or(1, |max| max.saturating_sub(min))
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
