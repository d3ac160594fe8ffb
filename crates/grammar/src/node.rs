use std::sync::Arc;

use crate::{Pattern, Schema};

/// A piece of a grammar.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// This text.
    Literal(String),
    /// A control token.
    Token(Token),
    /// Any text without certain marks.
    Text(FreeText),
    /// A regular set of texts.
    Pattern(Pattern),
    /// A JSON value of a schema.
    Json(Arc<Schema>),
    /// One after the other; none at all is the empty text.
    Sequence(Vec<Node>),
    /// Any of them; none at all is what nothing fits.
    Choice(Vec<Node>),
    /// So many times.
    Repeat {
        /// What.
        node: Box<Node>,
        /// At least.
        min: usize,
        /// At most.
        max: Option<usize>,
    },
    /// A named rule of the grammar, by number.
    Rule(usize),
    /// Reasoning that is over before the grammar begins.
    Over,
}

/// A control token of the format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Its text.
    pub text: String,
    /// Its id, where public.
    pub id: Option<u32>,
}

/// Any text without certain marks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FreeText {
    /// The marks.
    pub avoid: Vec<String>,
    /// Characters that it does not begin with, white space aside.
    pub not_first: Vec<char>,
}

impl Node {
    /// The empty text.
    pub fn empty() -> Node {
        Node::Sequence(Vec::new())
    }

    /// What nothing fits.
    pub fn never() -> Node {
        Node::Choice(Vec::new())
    }

    /// A text.
    pub fn literal(text: impl Into<String>) -> Node {
        Node::Literal(text.into())
    }

    /// Any text.
    pub fn text() -> Node {
        Node::Text(FreeText::default())
    }

    /// Whether it is the empty text.
    pub fn is_empty(&self) -> bool {
        matches!(self, Node::Sequence(nodes) if nodes.is_empty())
    }

    /// Whether nothing fits it.
    pub fn is_never(&self) -> bool {
        matches!(self, Node::Choice(nodes) if nodes.is_empty())
    }

    /// One after the other, flattened, literal texts joined.
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

    /// Any of them, flattened, without twins, what they all begin with taken out.
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

    /// It, so many times.
    pub fn repeated(self, min: usize, max: Option<usize>) -> Node {
        match (min, max) {
            (_, Some(0)) => Node::empty(),
            (1, Some(1)) => self,
            _ if self.is_empty() => self,
            _ => Node::Repeat { node: Box::new(self), min, max },
        }
    }

    /// It, or nothing.
    pub fn optional(self) -> Node {
        self.repeated(0, Some(1))
    }

    /// It as a list of what follows each other.
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

/// A literal or a token that every one of several nodes begins with.
fn common_start(nodes: &[Node]) -> Option<Node> {
    let starts: Vec<&Node> = nodes.iter().map(first).collect::<Option<_>>()?;
    let (one, others) = starts.split_first()?;
    match one {
        Node::Token(_) => others.iter().all(|other| other == one).then(|| (*one).clone()),
        Node::Literal(text) => {
            let mut length = text.len();
            for other in others {
                let Node::Literal(other) = other else { return None };
                let same = text.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
                length = length.min(same);
            }
            while !text.is_char_boundary(length) {
                length -= 1;
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

/// A node without what it is known to begin with.
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
    /// Whether this may be the text, or its beginning.
    pub fn takes(&self, text: &str) -> bool {
        let first = text.trim_start().chars().next();
        !self.avoid.iter().any(|mark| text.contains(mark.as_str()))
            && !first.is_some_and(|first| self.not_first.contains(&first))
    }
}
