//! Lowering of a grammar to rules without free texts and JSON schemas.

use std::sync::Arc;

use crate::grammar::{Grammar, Rule, Rules};
use crate::node::FreeText;
use crate::schema::Schema;
use crate::value::{self, Syntax};
use crate::{Node, Pattern, automaton};

/// The state of lowering a grammar, with the free texts and schemas already lowered.
struct Lowering {
    rules: Rules,
    texts: Vec<(FreeText, usize)>,
    schemas: Vec<(Arc<Schema>, usize)>,
}

impl Grammar {
    /// Returns an equivalent grammar that consists only of literals, tokens, patterns, choices,
    /// sequences, repetitions and rules.
    pub fn lowered(&self) -> Grammar {
        self.lowered_part(&self.root)
    }

    /// Lowers one piece of the grammar.
    pub(crate) fn lowered_part(&self, root: &Node) -> Grammar {
        let rules = Rules { list: self.rules.clone(), notes: self.notes.clone() };
        let mut lowering = Lowering { rules, texts: Vec::new(), schemas: Vec::new() };
        for rule in 0..self.rules.len() {
            let node = lowering.node(&self.rules[rule].node);
            lowering.rules.fill(rule, node);
        }
        let root = lowering.node(root);
        let Rules { list, notes } = lowering.rules;
        only_used(Grammar { root, rules: list, notes })
    }
}

impl Lowering {
    fn node(&mut self, node: &Node) -> Node {
        match node {
            Node::Text(text) => Node::Rule(self.text(text)),
            Node::Json(schema) => Node::Rule(self.schema(schema)),
            Node::Sequence(nodes) => {
                let nodes: Vec<Node> = nodes.iter().map(|node| self.node(node)).collect();
                Node::sequence(nodes)
            }
            Node::Choice(nodes) => Node::Choice(nodes.iter().map(|node| self.node(node)).collect()),
            Node::Repeat { node, min, max } => self.node(node).repeated(*min, *max),
            other => other.clone(),
        }
    }

    fn text(&mut self, text: &FreeText) -> usize {
        if let Some((_, rule)) = self.texts.iter().find(|(known, _)| known == text) {
            return *rule;
        }
        let states = automaton::states(text);
        let first = self.rules.list.len();
        for _ in &states {
            self.rules.reserve("text");
        }
        for (at, moves) in states.into_iter().enumerate() {
            let ways = moves.into_iter().map(|(class, next)| {
                Node::Sequence(vec![Node::Pattern(Pattern::Class(class)), Node::Rule(first + next)])
            });
            self.rules.fill(first + at, Node::Choice(ways.collect()).optional());
        }
        self.texts.push((text.clone(), first));
        first
    }

    fn schema(&mut self, schema: &Arc<Schema>) -> usize {
        if let Some((_, rule)) = self.schemas.iter().find(|(known, _)| known == schema) {
            return *rule;
        }
        let rule = self.rules.reserve("json");
        self.schemas.push((schema.clone(), rule));
        let node = value::value(schema, Syntax::Json(schema.style), &mut self.rules);
        // The node needs no further lowering: only a string between markers contains a free text,
        // and JSON has no such strings.
        self.rules.fill(rule, node);
        rule
    }
}

/// Returns the grammar with only the rules that are reachable from its root.
fn only_used(grammar: Grammar) -> Grammar {
    let mut numbers: Vec<Option<usize>> = vec![None; grammar.rules.len()];
    let mut order = Vec::new();
    used(&grammar.root, &mut numbers, &mut order);
    let mut at = 0;
    while let Some(rule) = order.get(at).copied() {
        used(&grammar.rules[rule].node, &mut numbers, &mut order);
        at += 1;
    }
    let rules = order.iter().map(|rule| {
        let rule = &grammar.rules[*rule];
        Rule { node: renumbered(&rule.node, &numbers), ..rule.clone() }
    });
    Grammar { root: renumbered(&grammar.root, &numbers), rules: rules.collect(), notes: grammar.notes }
}

fn used(node: &Node, numbers: &mut [Option<usize>], order: &mut Vec<usize>) {
    match node {
        Node::Rule(rule) if numbers[*rule].is_none() => {
            numbers[*rule] = Some(order.len());
            order.push(*rule);
        }
        Node::Sequence(nodes) | Node::Choice(nodes) => nodes.iter().for_each(|node| used(node, numbers, order)),
        Node::Repeat { node, .. } => used(node, numbers, order),
        _ => {}
    }
}

fn renumbered(node: &Node, numbers: &[Option<usize>]) -> Node {
    match node {
        Node::Rule(rule) => Node::Rule(numbers[*rule].unwrap_or(*rule)),
        Node::Sequence(nodes) => Node::Sequence(nodes.iter().map(|node| renumbered(node, numbers)).collect()),
        Node::Choice(nodes) => Node::Choice(nodes.iter().map(|node| renumbered(node, numbers)).collect()),
        Node::Repeat { node, min, max } => {
            Node::Repeat { node: Box::new(renumbered(node, numbers)), min: *min, max: *max }
        }
        other => other.clone(),
    }
}
