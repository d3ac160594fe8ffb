use std::sync::Arc;

use rolecall_text::common_prefix;

use crate::{Pattern, Schema};

/// A piece of a grammar.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// A literal text.
    Literal(String),
    /// A control token.
    Token(Token),
    /// Any text without certain markers.
    Text(FreeText),
    /// A text that matches a regular pattern.
    Pattern(Pattern),
    /// A JSON value that matches a schema.
    Json(Arc<Schema>),
    /// Nodes one after the other. An empty sequence is the empty text.
    Sequence(Vec<Node>),
    /// Any one of several nodes. An empty choice matches nothing.
    Choice(Vec<Node>),
    /// A repeated node.
    Repeat {
        /// The node.
        node: Box<Node>,
        /// The minimum number of repetitions.
        min: usize,
        /// The maximum number of repetitions.
        max: Option<usize>,
    },
    /// The named rule of the grammar with this index.
    Rule(usize),
    /// The end of reasoning that is over before the grammar begins.
    Over,
}

/// A control token of the format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The token's text.
    pub text: String,
    /// The token's id, if publicly known.
    pub id: Option<u32>,
}

/// Any text without certain markers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FreeText {
    /// The markers that the text must not contain.
    pub avoid: Vec<String>,
    /// Characters that the text must not begin with, ignoring whitespace.
    pub not_first: Vec<char>,
}

impl Node {
    /// Returns a node for the empty text.
    pub fn empty() -> Node {
        Node::Sequence(Vec::new())
    }

    /// Returns a node that matches nothing.
    pub fn never() -> Node {
        Node::Choice(Vec::new())
    }

    /// Returns a node for a literal text.
    pub fn literal(text: impl Into<String>) -> Node {
        Node::Literal(text.into())
    }

    /// Returns a node for any text.
    pub fn text() -> Node {
        Node::Text(FreeText::default())
    }

    /// Reports whether the node is the empty text.
    pub fn is_empty(&self) -> bool {
        matches!(self, Node::Sequence(nodes) if nodes.is_empty())
    }

    /// Reports whether the node matches nothing.
    pub fn is_never(&self) -> bool {
        matches!(self, Node::Choice(nodes) if nodes.is_empty())
    }

    /// Returns a sequence of nodes, flattened, with adjacent literals joined.
    pub fn sequence(nodes: impl IntoIterator<Item = Node>) -> Node {
        let mut flat: Vec<Node> = Vec::new();
        for node in nodes {
            match node {
                Node::Sequence(inner) => inner.into_iter().for_each(|node| push(&mut flat, node)),
                Node::Choice(inner) if inner.is_empty() => return Node::never(),
                other => push(&mut flat, other),
            }
        }
        if flat.len() == 1 { flat.remove(0) } else { Node::Sequence(flat) }
    }

    /// Returns a choice between nodes, flattened, without duplicates, and with their common start
    /// factored out.
    pub fn choice(nodes: impl IntoIterator<Item = Node>) -> Node {
        let mut flat: Vec<Node> = Vec::new();
        for node in nodes {
            let inner = match node {
                Node::Choice(inner) => inner,
                other => vec![other],
            };
            for node in inner {
                if !flat.contains(&node) {
                    flat.push(node);
                }
            }
        }
        if flat.len() == 1 {
            return flat.remove(0);
        }
        match common_start(&flat) {
            Some(start) => {
                let rests: Vec<Node> = flat.into_iter().map(|node| behind(node, &start)).collect();
                Node::sequence([start, Node::choice(rests)])
            }
            None => Node::Choice(flat),
        }
    }

    /// Returns the node repeated between `min` and `max` times.
    pub fn repeated(self, min: usize, max: Option<usize>) -> Node {
        match (min, max) {
            (_, Some(0)) => Node::empty(),
            (1, Some(1)) => self,
            _ if self.is_empty() => self,
            _ => Node::Repeat { node: Box::new(self), min, max },
        }
    }

    /// Returns a node that matches this node or nothing.
    pub fn optional(self) -> Node {
        self.repeated(0, Some(1))
    }

    /// Splits the node into the parts of a sequence.
    pub fn into_parts(self) -> Vec<Node> {
        match self {
            Node::Sequence(nodes) => nodes,
            other => vec![other],
        }
    }
}

fn push(flat: &mut Vec<Node>, node: Node) {
    match (flat.last_mut(), node) {
        (_, Node::Literal(text)) if text.is_empty() => {}
        (Some(Node::Literal(before)), Node::Literal(text)) => before.push_str(&text),
        (_, node) => flat.push(node),
    }
}

/// Returns a literal or a token that all nodes begin with.
fn common_start(nodes: &[Node]) -> Option<Node> {
    let starts: Vec<&Node> = nodes.iter().map(first).collect::<Option<_>>()?;
    let (one, others) = starts.split_first()?;
    match one {
        Node::Token(_) => others.iter().all(|other| other == one).then(|| (*one).clone()),
        Node::Literal(text) => {
            let mut length = text.len();
            for other in others {
                let Node::Literal(other) = other else { return None };
                length = length.min(common_prefix(text, other));
            }
            (length > 0).then(|| Node::literal(&text[..length]))
        }
        _ => None,
    }
}

fn first(node: &Node) -> Option<&Node> {
    match node {
        Node::Sequence(nodes) => nodes.first(),
        Node::Literal(_) | Node::Token(_) => Some(node),
        _ => None,
    }
}

/// Removes the known start of a node.
fn behind(node: Node, start: &Node) -> Node {
    let mut parts = node.into_parts();
    match (&mut parts[0], start) {
        (Node::Literal(text), Node::Literal(start)) => {
            text.drain(..start.len());
        }
        _ => {
            parts.remove(0);
        }
    }
    Node::sequence(parts)
}

impl FreeText {
    /// Reports whether this may be the text, or its beginning.
    pub fn takes(&self, text: &str) -> bool {
        let first = text.trim_start().chars().next();
        !self.avoid.iter().any(|mark| text.contains(mark.as_str()))
            && !first.is_some_and(|first| self.not_first.contains(&first))
    }

    /// Returns the length of the longest beginning of a text that this may be.
    pub fn most(&self, text: &str) -> usize {
        let blank = text.len() - text.trim_start().len();
        let is_refused = text[blank..].chars().next().is_some_and(|first| self.not_first.contains(&first));
        let text = if is_refused { &text[..blank] } else { text };
        let before = |mark: &String| {
            let end = text.find(mark.as_str())? + mark.len();
            // All of the marker but its last character.
            text[..end].char_indices().next_back().map(|(at, _)| at)
        };
        self.avoid.iter().filter_map(before).min().unwrap_or(text.len())
    }
}
