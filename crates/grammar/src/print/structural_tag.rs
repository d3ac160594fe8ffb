//! Printing of grammars as structural tags for xgrammar.

use rolecall_conversation::json::{self, Layout, Number};
use rolecall_conversation::{Json, object};

use super::PrintedGrammar;
use crate::value::MOST_INDENTATION;
use crate::{Grammar, Node, Note, Purpose, Schema};

impl Grammar {
    /// Prints the grammar as a structural tag for xgrammar, with control tokens as their text and
    /// the tools' schemas unchanged.
    pub fn to_structural_tag(&self) -> PrintedGrammar {
        let mut writer = TagPrinter { grammar: self, notes: self.notes.clone() };
        let format = writer.format(&self.inlined(&self.root));
        let tag = Json::Object(object! { "type" => "structural_tag", "format" => format });
        PrintedGrammar { text: json::write(&tag, &Layout::indented(2)), notes: writer.notes }
    }
}

impl Grammar {
    /// Replaces short rules in a node by their definitions, because a structural tag has no named
    /// rules.
    fn inlined(&self, node: &Node) -> Node {
        let all = |nodes: &[Node]| nodes.iter().map(|node| self.inlined(node)).collect::<Vec<Node>>();
        match node {
            Node::Rule(rule) => match self.rules.get(*rule).filter(|rule| rule.is_short) {
                Some(rule) => self.inlined(&rule.node),
                None => node.clone(),
            },
            Node::Sequence(nodes) => Node::sequence(all(nodes)),
            Node::Choice(ways) => Node::Choice(all(ways)),
            Node::Repeat { node, min, max } => {
                Node::Repeat { node: Box::new(self.inlined(node)), min: *min, max: *max }
            }
            other => other.clone(),
        }
    }
}

struct TagPrinter<'a> {
    grammar: &'a Grammar,
    notes: Vec<Note>,
}

impl TagPrinter<'_> {
    fn format(&mut self, node: &Node) -> Json {
        if needs_grammar(node) || is_exact_answer(node) {
            return self.grammar_of(node);
        }
        Json::Object(match node {
            Node::Literal(text) => object! { "type" => "const_string", "value" => text.as_str() },
            Node::Token(token) => object! { "type" => "const_string", "value" => token.text.as_str() },
            Node::Text(text) if text.not_first.is_empty() => {
                let excludes: Vec<Json> = text.avoid.iter().map(|mark| Json::from(mark.as_str())).collect();
                match excludes.is_empty() {
                    true => object! { "type" => "any_text" },
                    false => object! { "type" => "any_text", "excludes" => excludes },
                }
            }
            Node::Json(schema) => {
                if schema.is_part {
                    self.note(&schema.notes);
                }
                let most = Number::from(most_white_space(schema) as i64);
                object! {
                    "type" => "json_schema",
                    "json_schema" => schema.source.clone(),
                    "max_whitespace_cnt" => Json::Number(most),
                }
            }
            Node::Sequence(nodes) if nodes.is_empty() => object! { "type" => "const_string", "value" => "" },
            Node::Sequence(nodes) => {
                let elements = self.elements(nodes);
                object! { "type" => "sequence", "elements" => elements }
            }
            Node::Choice(ways) if !ways.is_empty() => {
                let elements: Vec<Json> = ways.iter().map(|way| self.format(way)).collect();
                object! { "type" => "or", "elements" => elements }
            }
            Node::Repeat { node, min, max } => {
                let content = self.format(node);
                match (min, max) {
                    (0, None) => object! { "type" => "star", "content" => content },
                    (1, None) => object! { "type" => "plus", "content" => content },
                    (0, Some(1)) => object! { "type" => "optional", "content" => content },
                    (min, max) => {
                        let number = |count: i64| Json::Number(Number::from(count));
                        object! {
                            "type" => "repeat",
                            "min" => number(*min as i64),
                            "max" => number(max.map_or(-1, |max| max as i64)),
                            "content" => content,
                        }
                    }
                }
            }
            other => return self.grammar_of(other),
        })
    }

    /// Prints the elements of a sequence, with adjacent fixed texts joined.
    fn elements(&mut self, nodes: &[Node]) -> Vec<Json> {
        let mut elements = Vec::new();
        let mut fixed = String::new();
        for node in nodes {
            match node {
                Node::Literal(text) => fixed.push_str(text),
                Node::Token(token) => fixed.push_str(&token.text),
                other => {
                    elements.extend(constant(&mut fixed));
                    elements.push(self.format(other));
                }
            }
        }
        elements.extend(constant(&mut fixed));
        elements
    }

    /// Prints a node for which there is no other format.
    fn grammar_of(&mut self, node: &Node) -> Json {
        Json::Object(object! { "type" => "grammar", "grammar" => self.grammar.part_to_gbnf(node) })
    }

    fn note(&mut self, notes: &[Note]) {
        for note in notes {
            if !self.notes.contains(note) {
                self.notes.push(note.clone());
            }
        }
    }
}

fn constant(fixed: &mut String) -> Option<Json> {
    let text = std::mem::take(fixed);
    (!text.is_empty()).then(|| Json::Object(object! { "type" => "const_string", "value" => text }))
}

/// Reports whether a node contains patterns or rules, and nothing that has a separate format.
fn needs_grammar(node: &Node) -> bool {
    has(node, &|node| matches!(node, Node::Pattern(_) | Node::Rule(_)))
        && !has(node, &|node| matches!(node, Node::Json(_) | Node::Text(_)))
}

/// Returns how many characters of white space may come together. By default the engine allows any
/// number, and a small model may find no end of them. xgrammar before 0.2.4 ignores the key.
fn most_white_space(schema: &Schema) -> usize {
    match schema.style.indent {
        None => 1,
        Some(_) => 1 + MOST_INDENTATION,
    }
}

/// Reports whether a node is an answer that rules describe exactly. As a schema it would allow line
/// breaks and spaces before punctuation, which the format does not write.
fn is_exact_answer(node: &Node) -> bool {
    matches!(node, Node::Json(schema) if schema.purpose == Purpose::Answer && schema.notes.is_empty())
}

fn has(node: &Node, kind: &impl Fn(&Node) -> bool) -> bool {
    match node {
        Node::Sequence(nodes) | Node::Choice(nodes) => nodes.iter().any(|node| has(node, kind)),
        Node::Repeat { node, .. } => has(node, kind),
        other => kind(other),
    }
}
