//! The statements of a template, as far as it takes to move them: expressions stay text.

/// A template as its statements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    pub(super) nodes: Vec<Node>,
}

/// A statement, or the text between two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    /// Text, a comment, an expression, or a statement without a body.
    Leaf(String),
    /// Each tag with the nodes up to the next, and the closing tag: `if`, `elif` and `else` are three.
    Block { parts: Vec<(String, Vec<Node>)>, end: String },
}

/// The blocks that have a body in every form.
const BLOCKS: [&str; 8] = ["if", "for", "macro", "call", "filter", "with", "block", "generation"];

impl Tree {
    /// Reads a template. Returns `None` if its blocks are not balanced.
    pub fn read(source: &str) -> Option<Tree> {
        let mut open: Vec<Vec<(String, Vec<Node>)>> = Vec::new();
        let mut nodes: Vec<Node> = Vec::new();
        let mut rest = source;
        while !rest.is_empty() {
            let (piece, name, more) = next_piece(rest);
            rest = more;
            let Some(name) = name else {
                nodes.push(Node::Leaf(piece.to_owned()));
                continue;
            };
            if name.starts_with("end") {
                let mut parts = open.pop()?;
                let (_, outer) = parts.first_mut()?;
                // The first part keeps the nodes around the block until it ends.
                let outer = std::mem::take(outer);
                let body = std::mem::replace(&mut nodes, outer);
                parts.last_mut()?.1 = body;
                if parts.len() > 1 {
                    parts.remove(0);
                }
                nodes.push(Node::Block { parts, end: piece.to_owned() });
            } else if matches!(name, "else" | "elif") {
                let parts = open.last_mut()?;
                parts.last_mut()?.1 = std::mem::take(&mut nodes);
                parts.push((piece.to_owned(), Vec::new()));
            } else if BLOCKS.contains(&name) || name == "set" && !piece.contains('=') {
                let outer = (String::new(), std::mem::take(&mut nodes));
                open.push(vec![outer, (piece.to_owned(), Vec::new())]);
            } else {
                nodes.push(Node::Leaf(piece.to_owned()));
            }
        }
        open.is_empty().then_some(Tree { nodes })
    }

    /// Writes the template.
    pub fn write(&self) -> String {
        let mut source = String::new();
        write(&self.nodes, &mut source);
        source
    }
}

fn write(nodes: &[Node], source: &mut String) {
    for node in nodes {
        match node {
            Node::Leaf(text) => source.push_str(text),
            Node::Block { parts, end } => {
                for (tag, body) in parts {
                    source.push_str(tag);
                    write(body, source);
                }
                source.push_str(end);
            }
        }
    }
}

/// Returns the next piece of a source, the name of its statement if it is one, and the rest.
fn next_piece(source: &str) -> (&str, Option<&str>, &str) {
    let start = ["{{", "{%", "{#"].iter().filter_map(|open| source.find(open)).min().unwrap_or(source.len());
    if start > 0 {
        let (text, rest) = source.split_at(start);
        return (text, None, rest);
    }
    let end = match source.as_bytes().get(1) {
        Some(b'#') => source.find("#}").map(|at| at + 2),
        Some(b'%') => end_of_tag(source, "%}"),
        _ => end_of_tag(source, "}}"),
    };
    let (piece, rest) = source.split_at(end.unwrap_or(source.len()));
    let name = piece.strip_prefix("{%").map(|tag| tag.trim_start_matches(['-', '+']).trim_start());
    let name = name.map(|tag| tag.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default());
    if name == Some("raw") {
        let end = source.find("endraw").and_then(|at| Some(at + source.get(at..)?.find("%}")? + 2));
        let (raw, rest) = source.split_at(end.unwrap_or(source.len()));
        return (raw, None, rest);
    }
    (piece, name, rest)
}

/// Returns the end of the tag that a source begins with. Strings and nested braces may contain its close.
fn end_of_tag(source: &str, close: &str) -> Option<usize> {
    let (mut quote, mut escaped, mut depth) = (None, false, 0_usize);
    for (at, c) in source.char_indices().skip(2) {
        match (quote, c) {
            _ if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, _) if depth == 0 && source.get(at..)?.starts_with(close) => return Some(at + close.len()),
            (None, '{') => depth += 1,
            (None, '}') => depth = depth.saturating_sub(1),
            (None, _) => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_written_as_it_was_read() {
        for source in [
            "a{% if x == '%}' %}b{{ {'a': {}} }}{% elif y %}{# {% if %} #}{% else %}{% set z = 1 %}{% endif %}c",
            "{%- for m in messages -%}{% set t %}{{ m }}{% endset %}{%- endfor -%}",
            "{% raw %}{% if %}{% endraw %}{% generation %}x{% endgeneration %}",
        ] {
            let tree = Tree::read(source).expect("it is balanced");
            assert_eq!(tree.write(), source);
        }
    }

    #[test]
    fn blocks_hold_their_statements() {
        let tree = Tree::read("a{% if x %}b{% else %}c{% endif %}d").expect("it is balanced");
        let leaf = |text: &str| Node::Leaf(text.to_owned());
        let parts = vec![("{% if x %}".to_owned(), vec![leaf("b")]), ("{% else %}".to_owned(), vec![leaf("c")])];
        assert_eq!(tree.nodes, [leaf("a"), Node::Block { parts, end: "{% endif %}".to_owned() }, leaf("d")]);
        assert_eq!(Tree::read("{% if x %}a"), None);
        assert_eq!(Tree::read("a{% endif %}"), None);
    }
}
