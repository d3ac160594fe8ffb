//! Removal of the part of a reply that the prompt already contains.

use rolecall_format::{Format, Layout, Op};

use crate::Node;
use crate::continuing::ContinuationSearch;

/// The maximum number of bytes of the prompt's end to compare.
const LONGEST: usize = 4000;

/// Returns the alternatives that continue a text, without that text. If both fixed text and free
/// text match, fixed text takes precedence.
pub(crate) fn behind<'a>(ways: impl Iterator<Item = &'a Node>, text: &str) -> Option<Node> {
    if text.len() > LONGEST {
        return None;
    }
    let mut continuing = ContinuationSearch::new(text);
    ways.for_each(|way| continuing.add(way));
    continuing.found().map(Node::choice)
}

/// Returns the alternatives that continue a text whose white space at the ends is not that of the turn: the prompt has it,
/// and it is not wanted again. Only fixed text counts.
pub(crate) fn behind_other_space<'a>(ways: impl Iterator<Item = &'a Node>, text: &str) -> Option<Node> {
    let text = text.trim();
    if text.is_empty() || text.len() > LONGEST {
        return None;
    }
    let ways: Vec<Node> = ways.cloned().map(without_space).collect();
    let mut continuing = ContinuationSearch::new(text);
    ways.iter().for_each(|way| continuing.add(way));
    let found = continuing.found_fixed()?;
    Some(Node::choice(found.into_iter().map(without_space)))
}

/// Returns a node without the white space that it begins with.
fn without_space(node: Node) -> Node {
    let mut parts = node.into_parts();
    while let Some(Node::Literal(text)) = parts.first_mut() {
        *text = text.trim_start().to_owned();
        if !text.is_empty() {
            break;
        }
        parts.remove(0);
    }
    Node::sequence(parts)
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
