//! Finds templates in a Python file that has other statements too.

use std::ops::Range;

use rolecall_format::LoadError;

use super::reader::{self, Node};
use super::{behind_space, is_name, text};

/// The span of a name, and the dictionary that is assigned to it.
pub(super) type Assignment = (Range<usize>, Result<Node, LoadError>);

/// Returns the dictionaries that the file assigns to names, outside of functions and classes. Other statements, such as
/// imports, are skipped, and nothing is evaluated.
pub(super) fn assignments(source: &str) -> Vec<Assignment> {
    let mut found = Vec::new();
    let mut at = 0;
    loop {
        at = source.len() - behind_space(&source[at..]).len();
        if at == source.len() {
            return found;
        }
        let is_indented = source[..at].chars().next_back().is_some_and(|before| !matches!(before, '\n' | '\r'));
        if let Some((name, value_at)) = assigned(source, at).filter(|_| !is_indented) {
            found.push((name, reader::read_dict(source, value_at)));
        }
        at = end_of_statement(source, at);
    }
}

/// Returns the span of the name to which the statement at an offset assigns a dictionary, and where that begins.
fn assigned(source: &str, at: usize) -> Option<(Range<usize>, usize)> {
    let (name, value) = source[at..].split_once('=')?;
    // A name may be followed by its type.
    let name = name.split_once(':').map_or(name, |(name, _)| name).trim_end();
    let value = behind_space(value);
    let is_assigned = is_name(name) && reader::begins_dict(value);
    is_assigned.then(|| (at..at + name.len(), source.len() - value.len()))
}

/// Returns the offset after the statement at an offset: after a line break outside of brackets and strings.
fn end_of_statement(source: &str, mut at: usize) -> usize {
    let mut depth = 0_usize;
    while let Some(first) = source[at..].chars().next() {
        match first {
            '\'' | '"' => {
                at = text::end(source, at);
                continue;
            }
            '#' => {
                at += source[at..].find(['\n', '\r']).unwrap_or(source.len() - at);
                continue;
            }
            '\\' => at += 1,
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            '\n' | '\r' if depth == 0 => return at + 1,
            _ => {}
        }
        at += source[at..].chars().next().map_or(0, char::len_utf8);
    }
    at
}

#[cfg(test)]
mod tests {
    use super::assignments;

    #[test]
    fn only_assignments_of_dictionaries_at_the_top_are_found() {
        let cases = [
            ("import a\nx = dict(A='1')\n", vec!["x"]),
            ("x = dict(A='1'); import a\n", vec!["x"]),
            ("from a import (\n    b,\n)\nx: dict[str, str] = {'A': '1'}", vec!["x"]),
            ("def f():\n    x = dict(A='1')\ny = dict(A='2')", vec!["y"]),
            ("'''\nx = dict(A='1')\n'''\ny = dict(A='2')", vec!["y"]),
            ("a = f'''\nx = dict(A='1')\n'''\ny = dict(A='2')", vec!["y"]),
            ("a = [\n# )\nx == dict(A='1'),\n')',\n]\ny = dict(A='2')", vec!["y"]),
            ("a = 1 + \\\nx\ny = dict(A='2')\nz = y\nx = dict(a)", vec!["y", "x"]),
            ("x = 'it\\'s\ny = dict(A='2')", vec!["y"]),
            ("x = '''", vec![]),
            ("x = (((", vec![]),
            ("\\", vec![]),
            ("x == dict(A='1')", vec![]),
            ("é = dict(A='1')", vec!["é"]),
        ];
        for (source, names) in cases {
            let found: Vec<&str> = assignments(source).into_iter().map(|(name, _)| &source[name]).collect();
            assert_eq!(found, names, "{source}");
        }
    }
}
