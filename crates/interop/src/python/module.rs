//! Finds templates in a Python file that has other statements too.
//!
//! The file is never run, so a name counts only if one plain assignment at the top of the file says what it is. What
//! other code changes through another name (`y = x; y['A'] = ..`, `f(x)`) is not seen.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

use rolecall_format::LoadError;

use super::reader::{self, Node};
use super::{behind_space, is_name, mistake, text};

/// The span of a name, and the dictionary that is assigned to it.
pub(super) type Assignment = (Range<usize>, Result<Node, LoadError>);

/// Returns the dictionaries that the file assigns to names, outside of functions and classes. Other statements, such as
/// imports, are skipped, and nothing is evaluated. A name that is assigned or changed elsewhere, too, has an error.
pub(super) fn assignments(source: &str) -> Vec<Assignment> {
    let words = words(source);
    // The last assignment of a name counts.
    let mut found: Vec<Assignment> = Vec::new();
    let mut by_name: HashMap<&str, usize> = HashMap::new();
    for word in &words {
        if let Some(value_at) = plainly_assigned(source, word) {
            let assignment = (word.span.clone(), reader::read_dict(source, value_at));
            match by_name.entry(&source[word.span.clone()]) {
                Entry::Occupied(known) => found[*known.get()] = assignment,
                Entry::Vacant(new) => {
                    new.insert(found.len());
                    found.push(assignment);
                }
            }
        }
    }
    for word in &words {
        let name = &source[word.span.clone()];
        if let Some(at) = by_name.get(name)
            && changes(source, word)
            && plainly_assigned(source, word).is_none()
        {
            let message = format!("`{name}` may be changed here, and the file is not run");
            let help = "keep one plain assignment of the template in the file";
            found[*at].1 = Err(mistake("changed_template", message, word.span.clone(), help));
        }
    }
    found
}

/// A word of the code, outside of strings and comments.
struct Word {
    span: Range<usize>,
    /// The number of open brackets.
    depth: usize,
    begins_statement: bool,
    /// The word before it, if nothing but white space is between.
    before: Range<usize>,
    /// The end of its statement.
    end: usize,
}

fn words(source: &str) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let (mut at, mut depth) = (0, 0_usize);
    let mut begins_statement = true;
    // The first word of the statement, and the word that ends here.
    let (mut first, mut before) = (0, 0..0);
    while let Some(next) = source[at..].chars().next() {
        let length = next.len_utf8();
        let mut ends = false;
        match next {
            '\'' | '"' => {
                at = text::end(source, at);
                (before, begins_statement) = (0..0, false);
                continue;
            }
            '#' => {
                at += source[at..].find(['\n', '\r']).unwrap_or(source.len() - at);
                continue;
            }
            _ if next.is_alphanumeric() || next == '_' => {
                let rest = &source[at..];
                let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
                let span = at..at + length;
                words.push(Word { span: span.clone(), depth, begins_statement, before, end: source.len() });
                (before, begins_statement) = (span, false);
                at += length;
                continue;
            }
            '\\' => {
                // It may join the next line.
                let rest = &source[at + 1..];
                at += 1 + if rest.starts_with("\r\n") { 2 } else { rest.chars().next().map_or(0, char::len_utf8) };
                continue;
            }
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            '\n' | '\r' | ';' if depth == 0 => ends = true,
            _ => {}
        }
        at += length;
        if ends {
            words[first..].iter_mut().for_each(|word| word.end = at - 1);
            (first, before, begins_statement) = (words.len(), 0..0, true);
        } else if !next.is_whitespace() {
            (before, begins_statement) = (0..0, false);
        }
    }
    words
}

/// Reports whether a statement is not part of another one: nothing but whole statements is before it in its line.
fn is_at_top(source: &str, at: usize) -> bool {
    let line = source[..at].rsplit(['\n', '\r']).next().unwrap_or_default();
    // A statement after a colon, as in `if x: y; z`, is not told from one after a whole statement.
    line.is_empty() || (line.trim_end().ends_with(';') && !line.starts_with([' ', '\t']) && !line.contains(':'))
}

/// Returns where the dictionary begins that a statement at the top assigns to the word that it begins with.
fn plainly_assigned(source: &str, word: &Word) -> Option<usize> {
    if !word.begins_statement || !is_at_top(source, word.span.start) {
        return None;
    }
    let (between, value) = source[word.span.end..word.end].split_once('=')?;
    // A name may be followed by its type.
    let between = between.trim();
    let is_target = between.is_empty() || between.starts_with(':');
    let value = behind_space(value);
    let name = &source[word.span.clone()];
    let is_assigned = is_target && is_name(name) && !KEYWORDS.contains(&name) && reader::begins_dict(value);
    is_assigned.then(|| word.end - value.len())
}

/// Reports whether something may change the value of a word where it stands.
fn changes(source: &str, word: &Word) -> bool {
    let rest = source[word.span.end..].trim_start_matches([' ', '\t']);
    let is_attribute = source[..word.span.start].trim_end_matches([' ', '\t']).ends_with('.');
    if is_attribute {
        return false;
    }
    let binds = ["as", "class", "def", "del", "for", "global", "import", "nonlocal"];
    if binds.contains(&&source[word.before.clone()]) || rest.starts_with(":=") {
        return true;
    }
    // An item, or a method, which may change it.
    if rest.starts_with('[') || rest.starts_with('.') {
        return true;
    }
    let is_assigned = |rest: &str| rest.starts_with('=') && !rest.starts_with("==");
    // Within brackets, a name before `=` is that of an argument.
    let operator = rest.trim_start_matches(['+', '-', '*', '/', '%', '|', '&', '^', '@', '<', '>']);
    word.depth == 0
        && (is_assigned(operator) || rest.starts_with(',') || (word.begins_statement && rest.starts_with(':')))
}

/// The words of Python that may begin a statement with a colon.
const KEYWORDS: [&str; 12] =
    ["class", "def", "elif", "else", "except", "finally", "for", "if", "lambda", "try", "while", "with"];

#[cfg(test)]
mod tests {
    use super::assignments;

    #[test]
    fn only_assignments_of_dictionaries_at_the_top_are_found() {
        let cases = [
            ("import a\nx = dict(A='1')\n", vec!["x"]),
            ("x = dict(A='1'); import a\n", vec!["x"]),
            ("import a; x = dict(A='1')\n", vec!["x"]),
            ("from a import (\n    b,\n)\nx: dict[str, str] = {'A': '1'}", vec!["x"]),
            ("def f():\n    x = dict(A='1')\ny = dict(A='2')", vec!["y"]),
            ("'''\nx = dict(A='1')\n'''\ny = dict(A='2')", vec!["y"]),
            ("a = f'''\nx = dict(A='1')\n'''\ny = dict(A='2')", vec!["y"]),
            ("a = [\n# )\nx == dict(A='1'),\n')',\n]\ny = dict(A='2')", vec!["y"]),
            ("a = \\\r\nx = dict(A='1')\r\ny = dict(A='2')", vec!["y"]),
            ("a = 1 + \\\nx\ny = dict(A='2')\nz = y\nx = dict(a)", vec!["y", "x"]),
            ("x = 'it\\'s\ny = dict(A='2')", vec!["y"]),
            ("x: dict\ny = dict(A='1')", vec!["y"]),
            ("try:\n    x = dict(A='1')\nexcept E:\n    pass\ny = dict(A='1')", vec!["y"]),
            ("if a:\n    x = dict(A='1')\nelse:\n    x = dict(A='2')", vec![]),
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

    #[test]
    fn a_name_that_is_changed_elsewhere_is_refused() {
        let first = "x = dict(A='1')\n";
        let is_read = |more: &str| assignments(&format!("{first}{more}\n")).pop().map(|(_, read)| read.is_ok());
        let changes = [
            "x['A'] = '2'",
            "x.update(A='2')",
            "x |= dict(A='2')",
            "x = f()",
            "x = y",
            "y = x = dict(A='2')",
            "x = (dict(A='2'))",
            "x = None",
            "del x",
            "if a: x = dict(A='2')",
            "if a:\n    x = dict(A='2')",
            "def f():\n    global x",
            "x, y = a",
            "import a as x",
            "def x(): pass",
            "for x in a: pass",
            "(x := 1)",
            "x: int = 1",
            "x.pop('A')",
            "with a as x: pass",
        ];
        for change in changes {
            assert_eq!(is_read(change), Some(false), "{change}");
        }
        for other in
            ["y = x", "f(x)", "f(x=1)", "a.x = 1", "print(x)", "# x = 1", "'''\nx = 1\n'''", "x == y", "return x"]
        {
            assert_eq!(is_read(other), Some(true), "{other}");
        }
        // The last plain assignment counts, as in Python.
        let source = "x = dict(A='1')\nx = dict(A='22')";
        let found = assignments(source);
        assert_eq!((found.len(), found[0].0.start, found[0].1.is_ok()), (1, 16, true));
    }

    #[test]
    fn a_long_file_is_read_in_little_time() {
        let names: String = (0..100_000).map(|number| format!("k{number} = dict(A='1')\nx=dict\naaa\n")).collect();
        let start = std::time::Instant::now();
        assert_eq!(assignments(&format!("{names}y = dict(A='1')")).len(), 100_001);
        assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    }
}
