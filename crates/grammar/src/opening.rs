//! Removal of the part of a reply that the prompt already contains.

use rolecall_format::{Format, Layout, Op};

use crate::Node;

/// The maximum number of bytes of the prompt's end to compare.
const LONGEST: usize = 4000;

/// Returns the alternatives that continue a text, without that text. If both fixed text and free
/// text match, fixed text takes precedence.
pub(crate) fn behind<'a>(ways: impl Iterator<Item = &'a Node>, text: &str) -> Option<Node> {
    if text.len() > LONGEST {
        return None;
    }
    let mut found: Vec<(usize, Node)> = Vec::new();
    for way in ways {
        advance(std::slice::from_ref(way), text, 0, &mut found);
    }
    let least = found.iter().map(|(cost, _)| *cost).min()?;
    Some(Node::choice(found.into_iter().filter(|(cost, _)| *cost == least).map(|(_, node)| node)))
}

/// Returns the part of a turn after the marker that closes its reasoning.
pub(crate) fn behind_reasoning(node: Node) -> Option<Node> {
    let parts = node.into_parts();
    let at = parts.iter().position(|part| *part == Node::Over)?;
    let mut rest: Vec<Node> = parts.into_iter().skip(at + 1).collect();
    if matches!(rest.as_slice(), [Node::Literal(text), Node::Token(_), ..] if text.trim().is_empty()) {
        rest.remove(0);
    }
    match rest.first_mut() {
        Some(Node::Literal(text)) => {
            let bare = text.trim_start();
            let from = text.len() - bare.len();
            let end = bare.find(|c: char| c.is_whitespace() || c == '>' || c == ']');
            let end =
                end.map_or(text.len(), |at| from + at + usize::from(!bare[at..].starts_with(char::is_whitespace)));
            text.drain(..end);
        }
        Some(Node::Token(_)) => {
            rest.remove(0);
        }
        _ => {}
    }
    // White space after the marker may be in the prompt already, or never come.
    if let Some(Node::Literal(text)) = rest.first_mut() {
        let space = text.len() - text.trim_start().len();
        let space: String = text.drain(..space).collect();
        rest.insert(0, Node::literal(space).optional());
    }
    Some(Node::sequence(rest))
}

/// Returns the fixed text that a layout opens with.
pub(crate) fn fixed_start(layout: &Layout, format: &Format) -> String {
    let mut text = String::new();
    for op in layout.ops() {
        match op {
            Op::Literal(literal) => text.push_str(literal),
            Op::Control(id) => text.push_str(&format.control(*id).text),
            Op::Seam => {}
            Op::Hole { .. } | Op::Group(_) | Op::Own(_) => break,
        }
    }
    text
}

/// Collects every way in which the nodes continue after the text, with the number of bytes that
/// free texts matched.
fn advance(nodes: &[Node], text: &str, cost: usize, found: &mut Vec<(usize, Node)>) {
    if text.is_empty() {
        found.push((cost, Node::sequence(nodes.to_vec())));
        return;
    }
    let Some((first, rest)) = nodes.split_first() else { return };
    let with_rest = |inner: &[Node]| inner.iter().chain(rest).cloned().collect::<Vec<Node>>();
    match first {
        Node::Literal(literal) => match text.strip_prefix(literal.as_str()) {
            Some(more) => advance(rest, more, cost, found),
            None => {
                if let Some(left) = literal.strip_prefix(text) {
                    advance(&with_rest(&[Node::literal(left)]), "", cost, found);
                }
            }
        },
        Node::Token(token) => {
            if let Some(more) = text.strip_prefix(token.text.as_str()) {
                advance(rest, more, cost, found);
            }
        }
        Node::Text(free) => {
            for (at, _) in text.char_indices() {
                if free.takes(&text[..at]) {
                    advance(rest, &text[at..], cost + at, found);
                }
            }
            if free.takes(text) {
                found.push((cost + text.len(), Node::sequence(nodes.to_vec())));
            }
        }
        Node::Sequence(inner) => advance(&with_rest(inner), text, cost, found),
        Node::Choice(ways) => {
            ways.iter().for_each(|way| advance(&with_rest(std::slice::from_ref(way)), text, cost, found))
        }
        Node::Repeat { node, min, max } => {
            if *min == 0 {
                advance(rest, text, cost, found);
            }
            if *max != Some(0) {
                let again = (**node).clone().repeated(min.saturating_sub(1), max.map(|max| max - 1));
                advance(&with_rest(&[(**node).clone(), again]), text, cost, found);
            }
        }
        Node::Pattern(_) | Node::Json(_) | Node::Rule(_) | Node::Over => {}
    }
}
