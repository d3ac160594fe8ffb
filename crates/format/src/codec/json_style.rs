use rolecall_conversation::json::{self, Layout, Object};
use rolecall_conversation::{Arguments, Json};

use super::value::{PrintedValue, Spelling, ValueSyntax, Write};

/// A style of JSON. The plain style is that of Python's `json.dumps(.., ensure_ascii=False)`.
///
/// ```
/// use rolecall_conversation::json;
/// use rolecall_format::codec::JsonStyle;
/// let style = JsonStyle { compact: true, sorted: true, ..JsonStyle::default() };
/// assert_eq!(style.print(&json::parse(r#"{"b": [1, 2], "a": null}"#)?), r#"{"a":null,"b":[1,2]}"#);
/// # Ok::<(), json::ParseError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JsonStyle {
    /// The number of spaces per level, or `None` for a single line: `indent=4`.
    pub indent: Option<usize>,
    /// The nesting level of the value in an indented text: `level=2`.
    pub level: usize,
    /// Whether to omit the spaces after commas and colons: `compact`.
    pub compact: bool,
    /// Whether to escape all non-ASCII characters: `ascii`.
    pub ascii: bool,
    /// Whether to sort keys alphabetically on every level: `sorted`.
    pub sorted: bool,
    /// Whether to parse and reprint arguments given as text. All styles other than the plain one do
    /// this: `parsed`.
    pub parsed: bool,
}

impl JsonStyle {
    /// The plain style, on a single line.
    pub const PLAIN: JsonStyle =
        JsonStyle { indent: None, level: 0, compact: false, ascii: false, sorted: false, parsed: false };

    /// Parses the words in a codec's parentheses.
    pub(super) fn from_words(words: &str) -> Option<JsonStyle> {
        let mut style = JsonStyle::PLAIN;
        for word in words.split(',').map(str::trim) {
            let small = |number: &str| number.trim().parse::<usize>().ok().filter(|number| *number <= 16);
            match word.split_once('=').map_or((word, None), |(key, value)| (key.trim(), Some(value))) {
                ("indent", Some(spaces)) => style.indent = Some(small(spaces)?),
                ("level", Some(level)) => style.level = small(level)?,
                ("compact", None) => style.compact = true,
                ("ascii", None) => style.ascii = true,
                ("sorted", None) => style.sorted = true,
                ("parsed", None) => style.parsed = true,
                _ => return None,
            }
        }
        Some(style)
    }

    /// Returns the words of the style. There are none for the plain style.
    pub(super) fn words(&self) -> String {
        let mut words = Vec::new();
        words.extend(self.indent.map(|spaces| format!("indent={spaces}")));
        words.extend((self.level > 0).then(|| format!("level={}", self.level)));
        let flags =
            [(self.compact, "compact"), (self.ascii, "ascii"), (self.sorted, "sorted"), (self.parsed, "parsed")];
        words.extend(flags.into_iter().filter(|(on, _)| *on).map(|(_, word)| word.to_owned()));
        words.join(", ")
    }

    /// Returns the layout of printed JSON.
    pub fn layout(&self) -> Layout {
        let spaced = Layout { ascii: self.ascii, ..self.indent.map_or_else(Layout::default, Layout::indented) };
        match self.compact {
            true => Layout { item_separator: ",", key_separator: ":", ..spaced },
            false => spaced,
        }
    }

    /// Returns a value as text.
    pub fn print(&self, value: &Json) -> String {
        self.print_deeper(value, 0)
    }

    /// Returns a value as text, nested this many levels deeper.
    pub fn print_deeper(&self, value: &Json, levels: usize) -> String {
        let sorted = self.sorted.then(|| sorted(value));
        json::write_at(sorted.as_ref().unwrap_or(value), &self.layout(), self.level + levels)
    }

    /// Returns the number of bytes that [`JsonStyle::print_deeper`] uses for line breaks and
    /// indentation.
    pub fn indentation(&self, value: &Json, levels: usize) -> usize {
        json::indentation(value, &self.layout(), self.level + levels)
    }

    /// Returns a call's arguments as text. The plain style keeps arguments given as text unchanged.
    pub fn print_arguments(&self, arguments: Arguments<'_>) -> String {
        match arguments {
            Arguments::Value(object) => self.print(&Json::Object(object.clone())),
            Arguments::Text(text) if is_plain(self) && !is_nothing(text) => text.to_owned(),
            // Arguments were already parsed when the message was created.
            other => self.print(&Json::Object(other.to_object().unwrap_or_default())),
        }
    }
}

impl ValueSyntax for JsonStyle {
    fn spelling(&self) -> Spelling<'_> {
        Spelling::Json(*self)
    }

    fn print(&self, value: &Json, write: Write<'_>) {
        write(PrintedValue::Value(&JsonStyle::print(self, value)));
    }

    fn print_arguments(&self, arguments: Arguments<'_>, write: Write<'_>) {
        write(PrintedValue::Value(&JsonStyle::print_arguments(self, arguments)));
    }

    fn takes_arguments(&self) -> bool {
        true
    }
}

fn is_plain(style: &JsonStyle) -> bool {
    *style == JsonStyle { level: style.level, ..JsonStyle::PLAIN }
}

fn is_nothing(text: &str) -> bool {
    text.trim().is_empty() || text.trim() == "null"
}

/// Returns a value with its keys sorted like Python's `sort_keys`, which compares code points.
/// UTF-8 bytes have the same order.
fn sorted(value: &Json) -> Json {
    match value {
        Json::Array(items) => Json::Array(items.iter().map(sorted).collect()),
        Json::Object(object) => {
            let mut entries: Vec<(String, Json)> =
                object.iter().map(|(key, value)| (key.to_owned(), sorted(value))).collect();
            entries.sort_by(|(left, _), (right, _)| left.cmp(right));
            Json::Object(entries.into_iter().collect::<Object>())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(words: &str, value: &str) -> String {
        JsonStyle::from_words(words).unwrap().print(&json::parse(value).unwrap())
    }

    #[test]
    fn styles_are_those_of_json_dumps() {
        let value = r#"{"b": {"d": 1, "c": []}, "a": "é"}"#;
        assert_eq!(printed("parsed", value), r#"{"b": {"d": 1, "c": []}, "a": "é"}"#);
        assert_eq!(printed("compact, ascii", value), r#"{"b":{"d":1,"c":[]},"a":"\u00e9"}"#);
        assert_eq!(printed("sorted", value), r#"{"a": "é", "b": {"c": [], "d": 1}}"#);
        assert_eq!(
            printed("indent=2, level=1", value),
            "{\n    \"b\": {\n      \"d\": 1,\n      \"c\": []\n    },\n    \"a\": \"é\"\n  }"
        );
        assert_eq!(printed("indent=1, compact", r#"{"a": 1}"#), "{\n \"a\":1\n}");
    }

    #[test]
    fn words_read_back() {
        for words in ["indent=2", "indent=4, level=2", "compact, ascii, sorted, parsed", "indent=0, compact"] {
            assert_eq!(JsonStyle::from_words(words).unwrap().words(), words);
        }
        for wrong in ["", "indent", "indent=x", "indent=99", "compact=1", "sort"] {
            assert_eq!(JsonStyle::from_words(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn only_plain_arguments_stay_the_text_that_they_came_as() {
        let text = Arguments::Text("{\"x\":1.0,  \"y\":1e5}");
        assert_eq!(JsonStyle::PLAIN.print_arguments(text), "{\"x\":1.0,  \"y\":1e5}");
        assert_eq!(JsonStyle { parsed: true, ..JsonStyle::PLAIN }.print_arguments(text), "{\"x\": 1.0, \"y\": 1e5}");
        for nothing in [Arguments::None, Arguments::Text(" "), Arguments::Text("null")] {
            assert_eq!(JsonStyle::PLAIN.print_arguments(nothing), "{}");
        }
    }
}
