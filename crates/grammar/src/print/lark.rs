//! Printing of grammars as Lark grammars for llguidance.

use std::sync::Arc;

use rolecall_conversation::json::{self, Layout};
use rolecall_conversation::{Json, object};

use super::PrintedGrammar;
use super::regex::{escaped, regex};
use crate::node::FreeText;
use crate::schema::Schema;
use crate::{Grammar, Node, Note, Token, marks};

impl Grammar {
    /// Prints the grammar as a Lark grammar for llguidance, with control tokens as tokens and
    /// schemas unchanged.
    pub fn to_lark(&self) -> PrintedGrammar {
        let mut writer = LarkPrinter::new(self, String::new());
        let lines = writer.rules("start");
        PrintedGrammar { text: lines.join("\n") + "\n", notes: writer.notes }
    }
}

struct LarkPrinter<'a> {
    grammar: &'a Grammar,
    /// The prefix of its rule names.
    prefix: String,
    /// Rules and terminals in addition to those of the grammar.
    lines: Vec<String>,
    schemas: Vec<(Arc<Schema>, String)>,
    /// The expression of each text, and the name of its rule.
    texts: Vec<(String, String)>,
    notes: Vec<Note>,
}

impl<'a> LarkPrinter<'a> {
    fn new(grammar: &'a Grammar, prefix: String) -> LarkPrinter<'a> {
        let notes = grammar.notes.clone();
        LarkPrinter { grammar, prefix, lines: Vec::new(), schemas: Vec::new(), texts: Vec::new(), notes }
    }

    /// Prints the whole grammar, with its root under this name.
    fn rules(&mut self, root: &str) -> Vec<String> {
        let grammar = self.grammar;
        let mut lines = vec![format!("{root}: {}", self.choice(&grammar.root))];
        for rule in &grammar.rules {
            lines.push(format!("{}: {}", self.name_of(&rule.name), self.choice(&rule.node)));
        }
        lines.append(&mut self.lines);
        lines
    }

    fn name_of(&self, rule: &str) -> String {
        format!("{}{}", self.prefix, rule.replace('-', "_"))
    }

    /// Prints a whole rule, which needs no parentheses.
    fn choice(&mut self, node: &Node) -> String {
        match node {
            Node::Choice(ways) if ways.is_empty() => NEVER.into(),
            Node::Choice(ways) => {
                // An empty alternative is expressed as a count.
                let beside_json = ways.iter().any(|way| matches!(way, Node::Json(_)));
                let full = ways.iter().filter(|way| !way.is_empty());
                let full: Vec<String> =
                    full.map(|way| if beside_json { self.beside_json(way) } else { self.part(way) }).collect();
                let joined = full.join(" | ");
                if full.len() == ways.len() { joined } else { format!("({joined})?") }
            }
            other => self.part(other),
        }
    }

    /// Prints an alternative to a JSON value. The lexer does not backtrack, so that a bracket which may
    /// open either is a text of its own.
    fn beside_json(&mut self, way: &Node) -> String {
        let mut parts = way.clone().into_parts();
        let opening = match parts.first_mut() {
            Some(Node::Literal(text)) if text.starts_with(['{', '[']) => text.remove(0).to_string(),
            _ => return self.part(way),
        };
        format!("{} {}", quoted(&opening), self.part(&Node::sequence(parts)))
    }

    fn part(&mut self, node: &Node) -> String {
        match node {
            Node::Literal(text) => quoted(text),
            Node::Token(token) => self.token(token),
            Node::Text(text) => self.text(text),
            Node::Pattern(pattern) => format!("/{}/", regex(pattern)),
            Node::Json(schema) => self.schema(schema),
            Node::Sequence(nodes) if nodes.is_empty() => "\"\"".into(),
            Node::Sequence(nodes) => self.sequence(nodes),
            Node::Choice(ways) if ways.is_empty() => NEVER.into(),
            Node::Choice(ways) => {
                let inner = self.choice(node);
                if ways.iter().any(Node::is_empty) { inner } else { format!("({inner})") }
            }
            Node::Repeat { node, min, max } => {
                let inner = self.choice(node);
                let count = match (min, max) {
                    (0, None) => "*".into(),
                    (1, None) => "+".into(),
                    (0, Some(1)) => "?".into(),
                    (min, None) => format!("{{{min},}}"),
                    (min, Some(max)) => format!("{{{min},{max}}}"),
                };
                format!("({inner}){count}")
            }
            Node::Rule(rule) => self.grammar.rules.get(*rule).map_or(String::new(), |rule| self.name_of(&rule.name)),
            Node::Over => String::new(),
        }
    }

    /// Prints parts in a row. A free text includes the text that closes it, because the lexer does
    /// not backtrack.
    fn sequence(&mut self, nodes: &[Node]) -> String {
        let as_text = |node: &Node| match node {
            Node::Token(token) if is_text(token) => {
                self.note(&[Note::TokenAsText { text: token.text.clone() }]);
                Node::literal(&token.text)
            }
            other => other.clone(),
        };
        let nodes = Node::sequence(nodes.iter().map(as_text)).into_parts();
        let mut parts: Vec<String> = Vec::new();
        let mut at = 0;
        while let Some(node) = nodes.get(at) {
            at += 1;
            let (Node::Text(text), Some(Node::Literal(closing))) = (node, nodes.get(at)) else {
                parts.push(self.part(node));
                continue;
            };
            if closing.trim().is_empty() && matches!(nodes.get(at + 1), Some(Node::Token(_))) {
                // The token ends the text, whatever whitespace precedes it.
                parts.push(self.text_behind(text, closing));
                at += 1;
                continue;
            }
            let end = marks::end_of_mark(closing);
            parts.push(self.text_to(text, &closing[..end]));
            if end < closing.len() {
                parts.push(quoted(&closing[end..]));
            }
            at += 1;
        }
        parts.join(" ")
    }

    fn text(&mut self, text: &FreeText) -> String {
        self.text_behind(text, "")
    }

    /// Prints a text with this ending, whatever comes next.
    fn text_behind(&mut self, text: &FreeText, end: &str) -> String {
        let mut expression = format!("/(?s:.*){}/", escaped(end));
        for mark in &text.avoid {
            expression.push_str(&format!(" & ~/(?s:.*){}(?s:.*)/", escaped(mark)));
        }
        expression.push_str(&not_first(text));
        self.named(expression, false)
    }

    /// Prints a text with the text that closes it, up to the first occurrence of the latter.
    fn text_to(&mut self, text: &FreeText, closing: &str) -> String {
        let mut expression = format!("/(?s:.*){}/", escaped(closing));
        for mark in &text.avoid {
            // If the closing text contains the marker, the marker is allowed there, with no more
            // text after it than the closing text has.
            let after = closing.rfind(mark.as_str()).map(|at| closing[at + mark.len()..].chars().count());
            let more = match after {
                None => "*".to_owned(),
                Some(0) => "+".to_owned(),
                Some(after) => format!("{{{},}}", after + 1),
            };
            expression.push_str(&format!(" & ~/(?s:.*){}(?s:.{more})/", escaped(mark)));
        }
        expression.push_str(&not_first(text));
        self.named(expression, true)
    }

    fn named(&mut self, expression: String, lazy: bool) -> String {
        if let Some((_, name)) = self.texts.iter().find(|(known, _)| *known == expression) {
            return name.clone();
        }
        let number = self.texts.len();
        let name = format!("text_{number}");
        let options = if lazy { "[lazy]" } else { "" };
        self.lines.push(format!("{name}{options}: TEXT_{number}"));
        self.lines.push(format!("TEXT_{number}: {expression}"));
        self.texts.push((expression, name.clone()));
        name
    }

    fn schema(&mut self, schema: &Arc<Schema>) -> String {
        if let Some((_, name)) = self.schemas.iter().find(|(known, _)| known == schema) {
            return name.clone();
        }
        let name = format!("json_{}", self.schemas.len());
        if schema.style.ascii {
            // The engine's JSON Schema support does not accept escaped letters, which this format
            // writes.
            let lowered = self.grammar.lowered_part(&Node::Json(schema.clone()));
            let mut writer = LarkPrinter::new(&lowered, format!("{name}_"));
            self.lines.extend(writer.rules(&name));
            let notes = writer.notes;
            self.note(&notes);
            self.schemas.push((schema.clone(), name.clone()));
            return name;
        }
        if schema.is_part {
            self.note(&schema.notes);
        }
        let mut source = schema.source.clone();
        if let Json::Object(object) = &mut source {
            object.insert("x-guidance", Json::Object(reading_of(schema)));
        }
        self.lines.push(format!("{name}: %json {}", json::write(&source, &Layout::default())));
        self.schemas.push((schema.clone(), name.clone()));
        name
    }

    fn token(&mut self, token: &Token) -> String {
        match token.id {
            _ if is_name(&token.text) => token.text.clone(),
            Some(id) => format!("<[{id}]>"),
            None => {
                self.note(&[Note::TokenAsText { text: token.text.clone() }]);
                quoted(&token.text)
            }
        }
    }

    fn note(&mut self, notes: &[Note]) {
        for note in notes {
            if !self.notes.contains(note) {
                self.notes.push(note.clone());
            }
        }
    }
}

/// A character that no model writes, to represent a node that matches nothing.
const NEVER: &str = "/\\x00/";

/// Returns how the engine reads a schema. It ignores keywords that it does not support, as other
/// engines do. White space is that of the style: by default the engine allows any amount of it, of
/// which a small model may find no end.
fn reading_of(schema: &Schema) -> json::Object {
    let mut reading = object! { "lenient" => true };
    if schema.style.indent.is_none() {
        reading.insert("whitespace_flexible", Json::Bool(false));
        reading.insert("item_separator", Json::from(", ?"));
        reading.insert("key_separator", Json::from(": ?"));
    }
    reading
}

/// Reports whether a token's text is also its name in a Lark grammar.
fn is_name(text: &str) -> bool {
    let inside = text.strip_prefix('<').and_then(|rest| rest.strip_suffix('>'));
    inside
        .is_some_and(|inside| !inside.is_empty() && !inside.contains(|c: char| c.is_whitespace() || "<>[".contains(c)))
}

/// Reports whether a token can only be expressed as text.
fn is_text(token: &Token) -> bool {
    token.id.is_none() && !is_name(&token.text)
}

fn not_first(text: &FreeText) -> String {
    let each = text.not_first.iter().map(|c| format!(" & ~/\\s*{}(?s:.*)/", escaped(&c.to_string())));
    each.collect()
}

fn quoted(text: &str) -> String {
    let mut out = String::new();
    json::write_string(&mut out, text, false);
    out
}
