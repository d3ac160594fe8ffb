//! Templates as Python literals: `dict(SYSTEM='..', STOP_WORDS=['..'])` or `{'SYSTEM': '..'}`,
//! optionally assigned to a name. A file may have several, by name or in a dictionary, and other
//! statements. The literals are converted to JSON and never evaluated. Each byte of the JSON keeps its
//! position in the file.

mod module;
mod reader;
mod text;

use std::ops::Range;

use rolecall_format::{Diagnostic, LoadError};

use reader::{Node, TokenKind, read_file};

/// A Python literal, converted to JSON.
pub(crate) struct PythonLiteral<'t> {
    pub json: String,
    source: &'t str,
    /// For each byte of the JSON, the byte offset in the file.
    places: Vec<usize>,
}

/// Reports whether a text is a call of `dict`, or braces whose first key is in single quotes. No
/// other supported kind of file starts like this.
pub(crate) fn is_literal(text: &str) -> bool {
    let rest = behind_space(text);
    match rest.strip_prefix('{') {
        Some(rest) => behind_space(rest).starts_with('\''),
        None => {
            let rest = match rest.split_once('=') {
                Some((name, rest)) if is_name(name.trim_end()) => behind_space(rest),
                _ => rest,
            };
            !rest.starts_with('{') && reader::begins_dict(rest)
        }
    }
}

/// A dictionary of a file, with its name, and how it is read.
pub(crate) struct NamedLiteral<'t> {
    pub name: Option<String>,
    /// Where the name is, or the dictionary if it has none.
    pub span: Range<usize>,
    pub read: Result<PythonLiteral<'t>, LoadError>,
}

/// Parses a file with at least one dictionary. If that is a dictionary of dictionaries, the inner ones are returned.
pub(crate) fn read(source: &str) -> Result<Vec<NamedLiteral<'_>>, LoadError> {
    let assigned = match read_file(source) {
        Ok((name, root)) => vec![(name, Ok(root))],
        Err(error) => {
            let found = module::assignments(source);
            if found.is_empty() {
                return Err(error);
            }
            found.into_iter().map(|(name, node)| (Some(name), node)).collect()
        }
    };
    let mut literals = Vec::new();
    for (name_at, node) in assigned {
        let is_dict = |(_, value): &(Node, Node)| matches!(value.kind, TokenKind::Dict(_));
        match node {
            Ok(Node { kind: TokenKind::Dict(entries), .. }) if !entries.is_empty() && entries.iter().all(is_dict) => {
                literals.extend(entries.into_iter().map(|(key, value)| NamedLiteral {
                    name: Some(reader::spelled(&key).collect()),
                    span: key.start..key.end,
                    read: Ok(PythonLiteral::of(source, &value)),
                }));
            }
            node => literals.push(NamedLiteral {
                name: name_at.clone().map(|name| source[name].to_owned()),
                span: name_at.unwrap_or(0..1),
                read: node.map(|node| PythonLiteral::of(source, &node)),
            }),
        }
    }
    Ok(literals)
}

impl<'t> PythonLiteral<'t> {
    fn of(source: &'t str, node: &Node) -> PythonLiteral<'t> {
        let mut literal = PythonLiteral { json: String::new(), source, places: Vec::new() };
        literal.write(node);
        literal
    }

    /// Converts the spans of an error from the JSON to the file.
    pub fn placed(&self, mut error: LoadError) -> LoadError {
        for diagnostic in &mut error.diagnostics {
            diagnostic.span = self.span(diagnostic.span.clone());
        }
        error
    }

    fn span(&self, span: Range<usize>) -> Range<usize> {
        let place = |at: usize| self.places.get(at).copied().unwrap_or(self.source.len());
        let start = place(span.start);
        let last = place(span.end.max(span.start + 1) - 1);
        let width = self.source.get(last..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
        start..(last + width).max(start)
    }

    fn push(&mut self, text: &str, place: usize) {
        self.json.push_str(text);
        self.places.resize(self.json.len(), place);
    }

    fn write(&mut self, node: &Node) {
        match &node.kind {
            TokenKind::Text(characters) => self.write_text(node, characters),
            TokenKind::Word(word) => self.push(word, node.start),
            TokenKind::List(items) => {
                self.push("[", node.start);
                for (at, item) in items.iter().enumerate() {
                    self.push(if at > 0 { "," } else { "" }, item.start);
                    self.write(item);
                }
                self.push("]", node.end.saturating_sub(1));
            }
            TokenKind::Dict(entries) => {
                self.push("{", node.start);
                for (at, (key, value)) in entries.iter().enumerate() {
                    self.push(if at > 0 { "," } else { "" }, key.start);
                    self.write(key);
                    self.push(":", value.start);
                    self.write(value);
                }
                self.push("}", node.end.saturating_sub(1));
            }
        }
    }

    fn write_text(&mut self, node: &Node, characters: &[(usize, char)]) {
        self.push("\"", node.start);
        for &(place, character) in characters {
            match character {
                '"' => self.push("\\\"", place),
                '\\' => self.push("\\\\", place),
                '\0'..='\u{1f}' => self.push(&format!("\\u{:04x}", u32::from(character)), place),
                other => self.push(other.encode_utf8(&mut [0; 4]), place),
            }
        }
        self.push("\"", node.end.saturating_sub(1));
    }
}

/// Returns the text after white space, line continuations and comments.
fn behind_space(text: &str) -> &str {
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        if let Some(comment) = rest.strip_prefix('#') {
            rest = comment.find(['\n', '\r']).map_or("", |end| &comment[end..]);
        } else if let Some(next) = rest.strip_prefix("\\\n").or_else(|| rest.strip_prefix("\\\r\n")) {
            rest = next;
        } else {
            return rest;
        }
    }
}

fn is_name(text: &str) -> bool {
    let begins = text.chars().next().is_some_and(|first| first.is_alphabetic() || first == '_');
    begins && text.chars().all(|character| character.is_alphanumeric() || character == '_')
}

pub(crate) fn mistake(code: &'static str, message: String, span: Range<usize>, help: &str) -> LoadError {
    LoadError { diagnostics: vec![Diagnostic { code, message, span, help: Some(help.to_owned()) }] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json_of(source: &str) -> Option<String> {
        read(source).ok()?.pop()?.read.ok().map(|literal| literal.json)
    }

    #[test]
    fn a_tuple_is_a_list_and_parentheses_alone_are_nothing() {
        let cases = [
            ("dict(A=('a', 'b'))", Some(r#"{"A":["a","b"]}"#)),
            ("dict(A=('a', 'b',))", Some(r#"{"A":["a","b"]}"#)),
            ("dict(A=('a',))", Some(r#"{"A":["a"]}"#)),
            ("dict(A=())", Some(r#"{"A":[]}"#)),
            ("dict(A=('a'))", Some(r#"{"A":"a"}"#)),
            ("dict(A=('a' 'b'))", Some(r#"{"A":"ab"}"#)),
            ("dict(A=(['a']))", Some(r#"{"A":["a"]}"#)),
            ("dict(A=('a' 1))", None),
            ("dict(A=('a',,))", None),
            ("dict(A=(,))", None),
        ];
        for (source, json) in cases {
            assert_eq!(json_of(source).as_deref(), json, "{source}");
        }
    }

    #[test]
    fn a_key_is_compared_with_no_other() {
        let entries: Vec<String> = (0..200_000).map(|number| format!("k{number}=1")).collect();
        let source = format!("dict({})", entries.join(","));
        let start = std::time::Instant::now();
        assert!(json_of(&source).is_some());
        // A comparison of all pairs of keys would take minutes.
        assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
        assert!(json_of("dict(a=1, b=2, a=3)").is_none());
    }
}
