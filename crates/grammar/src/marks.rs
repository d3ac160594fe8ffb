//! Ends of free texts: a free text must not contain the marker of anything that may follow it.

use rolecall_format::{Field, Format, Layout, Op};

use crate::Node;

/// The start of a fixed text, as far as it identifies what comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TextStart {
    /// The marker's text.
    pub(crate) text: String,
    /// Whether the marker is a control token.
    pub(crate) is_token: bool,
}

/// Returns the marker that a node opens with, if it is always the same.
pub(crate) fn opening(node: &Node) -> Option<TextStart> {
    let mut marks = starts(std::slice::from_ref(node), &[]).into_iter().filter_map(|start| start.mark());
    let first = marks.next()?;
    marks.all(|mark| mark == first).then_some(first)
}

/// Returns the marker that the pieces of a layout open with.
pub(crate) fn opening_of(ops: &[Op], format: &Format) -> Option<TextStart> {
    let mut nodes = Vec::new();
    for op in ops {
        match op {
            Op::Literal(text) => nodes.push(Node::literal(text)),
            Op::Control(id) => {
                let control = format.control(*id);
                nodes.push(Node::Token(crate::Token { text: control.text.clone(), id: control.id }));
            }
            Op::Seam | Op::Own(_) => {}
            // Calls open as a single call does. A call as one JSON object opens with its brace.
            Op::Hole { field: Field::Calls, .. } if nodes.is_empty() => {}
            Op::Hole { field: Field::Call, .. } => nodes.push(Node::literal("{")),
            Op::Hole { .. } | Op::Group(_) => break,
        }
    }
    opening(&Node::sequence(nodes))
}

/// Returns the marker directly before reasoning, if there is one.
pub(crate) fn before_reasoning(layout: &Layout, format: &Format) -> Option<String> {
    fn search(ops: &[Op], format: &Format) -> Option<String> {
        let mut before = None;
        for op in ops {
            match op {
                Op::Literal(text) => {
                    let text = text.trim_end();
                    let start = if text.ends_with('>') {
                        text.rfind('<')
                    } else if text.ends_with(']') {
                        text.rfind('[')
                    } else {
                        None
                    };
                    before = start.map(|at| text[at..].to_owned());
                }
                Op::Control(id) => before = Some(format.control(*id).text.clone()),
                Op::Hole { field: Field::Reasoning, .. } => return before,
                Op::Group(inner) => {
                    if let Some(found) = search(inner, format) {
                        return Some(found);
                    }
                    before = None;
                }
                Op::Hole { .. } => before = None,
                Op::Seam | Op::Own(_) => {}
            }
        }
        None
    }
    search(layout.ops(), format)
}

/// Reports whether a marker does not occur in ordinary answers. This holds for a control token, a
/// tag, or a word with punctuation, but not for a lone bracket or brace.
pub(crate) fn is_telling(mark: &TextStart) -> bool {
    let text = mark.text.trim();
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        _ if mark.is_token => true,
        (Some('<'), Some(_)) => true,
        (Some('['), Some(second)) => text.len() > 3 && (second.is_alphabetic() || second == '/'),
        (Some('{' | '(' | '"' | '\''), _) => false,
        _ => text.len() > 3 && text.chars().any(|c| !c.is_alphanumeric()),
    }
}

/// Excludes from every free text in the tree the markers that may close it.
pub(crate) fn close(node: Node) -> Node {
    closed(node, &[])
}

fn closed(node: Node, follow: &[Start]) -> Node {
    match node {
        Node::Text(mut text) => {
            for mark in follow.iter().filter_map(Start::mark) {
                if !text.avoid.contains(&mark.text) {
                    text.avoid.push(mark.text);
                }
            }
            Node::Text(text)
        }
        Node::Sequence(nodes) => {
            let mut rest: Vec<Node> = Vec::with_capacity(nodes.len());
            for node in nodes.into_iter().rev() {
                let next = if holds_text(&node) { starts(&rest, follow) } else { Vec::new() };
                rest.insert(0, closed(node, &next));
            }
            Node::Sequence(rest)
        }
        Node::Choice(nodes) => Node::Choice(nodes.into_iter().map(|node| closed(node, follow)).collect()),
        Node::Repeat { node, min, max } => {
            let mut next = follow.to_vec();
            next.extend(starts(std::slice::from_ref(&*node), &[]));
            Node::Repeat { node: Box::new(closed(*node, &next)), min, max }
        }
        other => other,
    }
}

fn holds_text(node: &Node) -> bool {
    match node {
        Node::Text(_) => true,
        Node::Sequence(nodes) | Node::Choice(nodes) => nodes.iter().any(holds_text),
        Node::Repeat { node, .. } => holds_text(node),
        _ => false,
    }
}

/// Fixed text that a node may begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Start {
    text: String,
    is_token: bool,
}

impl Start {
    /// Returns as much of the text as is needed to recognize it: a tag up to its end, a word, or
    /// punctuation with the whitespace before it.
    fn mark(&self) -> Option<TextStart> {
        let bare = self.text.trim_start();
        if self.is_token {
            return Some(TextStart { text: bare.to_owned(), is_token: true });
        }
        let space = self.text.len() - bare.len();
        let first = bare.chars().next();
        let (text, end) = match first {
            None => (self.text.as_str(), None),
            Some('<' | '[') => {
                let end = bare[1..].find(|c: char| c.is_whitespace() || matches!(c, '>' | ']' | '=')).map(|at| at + 1);
                // The punctuation belongs to the marker, but whitespace does not.
                (bare, end.map(|at| if bare[at..].starts_with(char::is_whitespace) { at } else { at + 1 }))
            }
            Some('\'' | '"') => (bare, Some(1)),
            Some(_) => {
                let end = bare.find(|c: char| c.is_whitespace() || c == '<');
                (self.text.as_str(), end.map(|at| space + at))
            }
        };
        let end = end.unwrap_or(text.len());
        (end > 0).then(|| TextStart { text: text[..end].to_owned(), is_token: false })
    }
}

/// Returns the end of the marker that a fixed text opens with.
pub(crate) fn end_of_mark(text: &str) -> usize {
    let mark = Start { text: text.to_owned(), is_token: false }.mark();
    mark.and_then(|mark| Some(text.find(&mark.text)? + mark.text.len())).unwrap_or(text.len())
}

/// Returns the fixed texts that a list of nodes followed by `follow` may begin with. Nodes that are
/// not fixed contribute nothing.
fn starts(nodes: &[Node], follow: &[Start]) -> Vec<Start> {
    let Some((first, rest)) = nodes.split_first() else { return follow.to_vec() };
    let with_rest = |inner: &[Node]| -> Vec<Start> {
        let all: Vec<Node> = inner.iter().chain(rest).cloned().collect();
        starts(&all, follow)
    };
    match first {
        Node::Literal(text) if text.trim().is_empty() => {
            let next = starts(rest, follow);
            if next.is_empty() {
                return vec![Start { text: text.clone(), is_token: false }];
            }
            next.into_iter().map(|start| Start { text: format!("{text}{}", start.text), ..start }).collect()
        }
        Node::Literal(text) => vec![Start { text: text.clone(), is_token: false }],
        Node::Token(token) => vec![Start { text: token.text.clone(), is_token: true }],
        Node::Sequence(inner) => with_rest(inner),
        Node::Choice(ways) => {
            let mut all: Vec<Start> = Vec::new();
            for way in ways {
                for start in with_rest(std::slice::from_ref(way)) {
                    if !all.contains(&start) {
                        all.push(start);
                    }
                }
            }
            all
        }
        Node::Repeat { node, min, .. } => {
            let mut all = with_rest(std::slice::from_ref(&**node));
            if *min == 0 {
                all.extend(starts(rest, follow));
            }
            all
        }
        Node::Text(_) | Node::Pattern(_) | Node::Json(_) | Node::Rule(_) | Node::Over => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_as_short_as_it_tells() {
        let cases = [
            ("\n</parameter>\n", "</parameter>", true),
            ("<tool_call>\n{", "<tool_call>", true),
            ("<function=get", "<function=", true),
            ("[TOOL_CALLS] [", "[TOOL_CALLS]", true),
            ("[{\"name\": \"", "[{\"name\":", false),
            ("{\"name\": \"", "{\"name\":", false),
            ("\n```", "\n```", false),
            ("')", "'", false),
            (" to=functions.f", " to=functions.f", true),
            ("functools[", "functools[", true),
            ("\n", "\n", false),
        ];
        for (text, mark, telling) in cases {
            let found = Start { text: text.into(), is_token: false }.mark().unwrap();
            assert_eq!((found.text.as_str(), is_telling(&found)), (mark, telling), "{text:?}");
        }
    }
}
