use rolecall_conversation::Json;
use rolecall_conversation::json;
use rolecall_format::codec::{JsonStyle, MarkedSyntax as MarkedValue, PrintedValue, ValueSyntax, literal};

use crate::node::FreeText;
use crate::schema::{Form, Property};
use crate::{Class, Node, Pattern};

/// A syntax for values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Syntax {
    /// JSON.
    Json(JsonStyle),
    /// JSON inside a JSON string.
    Quoted,
    /// Python literals.
    Python,
    /// Bare keys, and strings between markers.
    Marked {
        /// The marker as a node of the grammar.
        mark: Box<Node>,
        /// The marker's text.
        text: String,
    },
}

use Syntax::{Json as JsonText, Marked, Python, Quoted};

/// The most characters of indentation in a line.
pub(crate) const MOST_INDENTATION: usize = 64;

/// Control characters, which must be escaped in a JSON string.
const CONTROL: (char, char) = ('\0', '\u{1f}');

impl Syntax {
    pub(crate) fn null(&self) -> &'static str {
        if *self == Python { "None" } else { "null" }
    }

    pub(crate) fn truth(&self, value: bool) -> &'static str {
        match (self, value) {
            (Python, true) => "True",
            (Python, false) => "False",
            (_, true) => "true",
            (_, false) => "false",
        }
    }

    /// Returns the whitespace after an opening bracket and before a closing one.
    pub(crate) fn space(&self) -> Node {
        match self {
            JsonText(JsonStyle { indent: Some(_), .. }) => Node::Pattern(line().optional()),
            _ => Node::empty(),
        }
    }

    pub(crate) fn item_separator(&self) -> Node {
        match self {
            JsonText(JsonStyle { indent: Some(_), .. }) => {
                let space = Pattern::Choice(vec![Pattern::text(" "), line()]).optional();
                Node::Pattern(Pattern::Sequence(vec![Pattern::text(","), space]))
            }
            JsonText(_) | Quoted | Python => spaced(","),
            Marked { .. } => Node::literal(","),
        }
    }

    pub(crate) fn key_separator(&self) -> Node {
        match self {
            Marked { .. } => Node::literal(":"),
            _ => spaced(":"),
        }
    }

    /// Sorts properties into the order in which the format writes them.
    pub(crate) fn order(&self, properties: &mut [&Property]) {
        match self {
            Marked { .. } => properties.sort_by_cached_key(|property| property.name.to_lowercase()),
            JsonText(style) if style.sorted => properties.sort_by(|one, other| one.name.cmp(&other.name)),
            _ => {}
        }
    }

    pub(crate) fn key(&self, name: &str) -> Node {
        match self {
            Marked { .. } => Node::literal(name),
            _ => self.constant(&Json::String(name.to_owned())),
        }
    }

    pub(crate) fn any_key(&self) -> Node {
        match self {
            Marked { .. } => {
                let class = Class { negated: true, ranges: Class::chars(":,{}[]<>|\"\n ").ranges };
                Node::Pattern(Pattern::Class(class).repeated(1, None))
            }
            _ => self.string(&Form::default()),
        }
    }

    /// Returns a string of this form, including its quotes.
    pub(crate) fn string(&self, form: &Form) -> Node {
        let body = match &form.pattern {
            Some(pattern) => pattern.clone(),
            None => Pattern::Class(Class::any()).repeated(form.min, form.max),
        };
        match self {
            JsonText(_) => Node::Pattern(between("\"", body.map_classes(&in_json))),
            Quoted => Node::Pattern(between("\\\"", body.map_classes(&in_quoted))),
            Python => {
                // A string with an apostrophe and no double quotes is written in double quotes.
                let way = |quote: char| between(&quote.to_string(), body.map_classes(&|class| in_python(class, quote)));
                Node::Pattern(Pattern::Choice(vec![way('\''), way('"')]))
            }
            Marked { mark, text } => {
                let inner = if form.pattern.is_none() && form.min == 0 && form.max.is_none() {
                    Node::Text(FreeText { avoid: vec![text.clone()], ..FreeText::default() })
                } else {
                    let first: Vec<(char, char)> = text.chars().take(1).map(|c| (c, c)).collect();
                    Node::Pattern(body.map_classes(&|class| Pattern::Class(class.without(&first))))
                };
                Node::sequence([(**mark).clone(), inner, (**mark).clone()])
            }
        }
    }

    /// Returns a particular value that the schema specifies.
    pub(crate) fn constant(&self, value: &Json) -> Node {
        match self {
            JsonText(style) => Node::literal(style.print(value)),
            Quoted => {
                let mut text = String::new();
                json::write_string(&mut text, &json::write(value, &json::Layout::default()), false);
                Node::literal(&text[1..text.len() - 1])
            }
            Python => Node::literal(literal::repr(value)),
            Marked { .. } => self.marked(value),
        }
    }

    fn marked(&self, value: &Json) -> Node {
        let Marked { mark, text } = self else { return Node::never() };
        let mut parts = Vec::new();
        MarkedValue::new(text.as_str()).print(value, &mut |piece| {
            parts.push(match piece {
                PrintedValue::Marker(_) => (**mark).clone(),
                PrintedValue::Value(text) | PrintedValue::Format(text) => Node::literal(text),
            });
        });
        Node::sequence(parts)
    }
}

/// Returns punctuation that a space may follow.
fn spaced(mark: &str) -> Node {
    Node::Pattern(Pattern::Sequence(vec![Pattern::text(mark), Pattern::text(" ").optional()]))
}

/// Returns a line break and the indentation after it.
fn line() -> Pattern {
    let indentation = Pattern::Class(Class::chars(" \t")).repeated(0, Some(MOST_INDENTATION));
    Pattern::Sequence(vec![Pattern::text("\n"), indentation])
}

fn between(quote: &str, body: Pattern) -> Pattern {
    Pattern::Sequence(vec![Pattern::text(quote), body, Pattern::text(quote)])
}

fn hex(count: usize) -> Pattern {
    Pattern::Class(Class::of(&[('0', '9'), ('A', 'F'), ('a', 'f')])).repeated(count, Some(count))
}

/// Reports whether a class contains (almost) all characters, so that any escape may represent one
/// of them.
fn is_wide(class: &Class) -> bool {
    class.negated
}

fn ways(mut ways: Vec<Pattern>) -> Pattern {
    if ways.len() == 1 { ways.remove(0) } else { Pattern::Choice(ways) }
}

/// Returns a pattern for one character of a class inside a JSON string.
fn in_json(class: &Class) -> Pattern {
    escaped(class, "\\", "\\\"/", &JSON_LETTERS, |wide| {
        wide.then(|| Pattern::Sequence(vec![Pattern::text("\\u"), hex(4)]))
    })
}

const JSON_LETTERS: [(char, char); 5] = [('\n', 'n'), ('\r', 'r'), ('\t', 't'), ('\u{8}', 'b'), ('\u{c}', 'f')];

/// Returns the same for JSON inside a JSON string, where each backslash and quote has one more
/// backslash before it.
fn in_quoted(class: &Class) -> Pattern {
    let mut all = Vec::new();
    let plain = class.without(&[('"', '"'), ('\\', '\\'), CONTROL]);
    if !plain.is_empty() {
        all.push(Pattern::Class(plain));
    }
    if class.holds('"') {
        all.push(Pattern::text("\\\\\\\""));
    }
    if class.holds('\\') {
        all.push(Pattern::text("\\\\\\\\"));
    }
    let letters: String = JSON_LETTERS.iter().filter(|(c, _)| class.holds(*c)).map(|(_, letter)| *letter).collect();
    if !letters.is_empty() {
        all.push(Pattern::Sequence(vec![Pattern::text("\\\\"), Pattern::Class(Class::chars(&letters))]));
    }
    if is_wide(class) {
        all.push(Pattern::Sequence(vec![Pattern::text("\\\\u"), hex(4)]));
    }
    ways(all)
}

/// Returns a pattern for one character of a class inside a Python string with these quotes.
fn in_python(class: &Class, quote: char) -> Pattern {
    let own: String = ['\\', quote].iter().collect();
    let letters = [('\n', 'n'), ('\r', 'r'), ('\t', 't')];
    escaped(class, "\\", &own, &letters, |wide| {
        let code = |letter: &str, count| Pattern::Sequence(vec![Pattern::text(format!("\\{letter}")), hex(count)]);
        wide.then(|| Pattern::Choice(vec![code("x", 2), code("u", 4), code("U", 8)]))
    })
}

/// Returns a pattern for one character of a class where some need a backslash: those in `own` as
/// themselves, others as letters.
fn escaped(
    class: &Class,
    backslash: &str,
    own: &str,
    letters: &[(char, char)],
    codes: impl Fn(bool) -> Option<Pattern>,
) -> Pattern {
    // In JSON, a slash may be escaped but does not have to be.
    let mut barred: Vec<(char, char)> = own.chars().filter(|c| *c != '/').map(|c| (c, c)).collect();
    barred.push(CONTROL);
    let plain = class.without(&barred);
    let mut all = Vec::new();
    if !plain.is_empty() {
        all.push(Pattern::Class(plain));
    }
    let mut behind: String = own.chars().filter(|c| class.holds(*c)).collect();
    behind.extend(letters.iter().filter(|(c, _)| class.holds(*c)).map(|(_, letter)| *letter));
    if !behind.is_empty() {
        all.push(Pattern::Sequence(vec![Pattern::text(backslash), Pattern::Class(Class::chars(&behind))]));
    }
    all.extend(codes(is_wide(class)));
    ways(all)
}
