//! Lists and objects as nested elements, each named by its key:
//! `<street>Karl Johan</street><tags><item>a</item></tags>`.

use rolecall_conversation::Json;

use super::literal;
use super::value::{PrintedValue, Spelling, ValueSyntax, Write};

/// A syntax in which each value of an object is an element named by its key, and each item of a
/// list is an element with a fixed name. Other values are text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elements {
    /// The text before and after the name in an opening tag.
    pub open: (String, String),
    /// The text before and after the name in a closing tag.
    pub close: (String, String),
    /// The name of the items of a list.
    pub item: String,
    /// Whether values other than strings, lists and objects are printed as Python prints them, not
    /// as JSON.
    pub is_python: bool,
    /// The number of spaces before a nested element for each level, if each is on its own line.
    pub indent: Option<usize>,
    /// The level of the value's own elements.
    pub level: usize,
}

impl Elements {
    /// Creates a syntax without line breaks, from patterns of the tags in which `*` stands for the
    /// name: `<*>` and `</*>`.
    pub fn new(open: &str, close: &str, item: &str) -> Option<Elements> {
        let tag = |pattern: &str| {
            let (before, after) = pattern.split_once('*')?;
            let is_tag = !before.trim().is_empty() && !after.trim().is_empty() && !after.contains('*');
            let is_plain = !pattern.contains(", ") && !pattern.contains(['{', '}']);
            (is_tag && is_plain).then(|| (before.to_owned(), after.to_owned()))
        };
        let is_name = !item.is_empty() && item.chars().all(|c| !c.is_whitespace() && !"<>/*,(){}=\"".contains(c));
        Some(Elements {
            open: tag(open)?,
            close: tag(close)?,
            item: is_name.then(|| item.to_owned())?,
            is_python: false,
            indent: None,
            level: 1,
        })
    }

    /// Parses the words of the codec: `<*>, </*>, item`, and the words `python`, `lines`,
    /// `indent=2` and `level=2`.
    pub fn from_words(words: &str) -> Option<Elements> {
        let mut words = words.split(", ");
        let mut elements = Elements::new(words.next()?, words.next()?, words.next()?)?;
        for word in words {
            match word.split_once('=') {
                None if word == "python" => elements.is_python = true,
                None if word == "lines" => elements.indent = Some(0),
                Some(("indent", spaces)) => elements.indent = Some(spaces.parse().ok()?),
                Some(("level", level)) => elements.level = level.parse().ok()?,
                _ => return None,
            }
        }
        Some(elements)
    }

    /// Returns the text that [`Elements::from_words`] parses.
    pub fn words(&self) -> String {
        let tag = |(before, after): &(String, String)| format!("{before}*{after}");
        let mut words = format!("{}, {}, {}", tag(&self.open), tag(&self.close), self.item);
        if self.is_python {
            words.push_str(", python");
        }
        match self.indent {
            None => {}
            Some(0) => words.push_str(", lines"),
            Some(spaces) => words.push_str(&format!(", indent={spaces}")),
        }
        if self.level != 1 {
            words.push_str(&format!(", level={}", self.level));
        }
        words
    }

    /// Returns the text of a value that is neither a list nor an object.
    pub fn scalar(&self, value: &Json) -> String {
        match (value, self.is_python) {
            (Json::String(text), _) => text.clone(),
            (value, true) => literal::repr(value),
            (value, false) => super::JsonStyle::PLAIN.print(value),
        }
    }

    fn print_at(&self, value: &Json, level: usize, write: Write<'_>) {
        match value {
            Json::Array(items) => {
                items.iter().for_each(|item| self.element(PrintedValue::Format(&self.item), item, level, write));
                self.line(if items.is_empty() { None } else { level.checked_sub(1) }, write);
            }
            Json::Object(object) => {
                object.iter().for_each(|(key, value)| self.element(PrintedValue::Value(key), value, level, write));
                self.line(if object.is_empty() { None } else { level.checked_sub(1) }, write);
            }
            scalar => write(PrintedValue::Value(&self.scalar(scalar))),
        }
    }

    fn element(&self, name: PrintedValue<'_>, value: &Json, level: usize, write: Write<'_>) {
        self.line(Some(level), write);
        write(PrintedValue::Format(&self.open.0));
        write(name);
        write(PrintedValue::Format(&self.open.1));
        self.print_at(value, level + 1, write);
        write(PrintedValue::Format(&self.close.0));
        write(name);
        write(PrintedValue::Format(&self.close.1));
    }

    /// Writes a line break and the indentation of a level.
    fn line(&self, level: Option<usize>, write: Write<'_>) {
        if let (Some(spaces), Some(level)) = (self.indent, level) {
            write(PrintedValue::Format("\n"));
            write(PrintedValue::Format(&" ".repeat(spaces * level)));
        }
    }
}

impl ValueSyntax for Elements {
    fn spelling(&self) -> Spelling<'_> {
        Spelling::Elements(self)
    }

    fn print(&self, value: &Json, write: Write<'_>) {
        self.print_at(value, self.level, write);
    }
}

#[cfg(test)]
mod tests {
    use rolecall_conversation::json;

    use super::*;

    #[test]
    fn lists_and_objects_are_nested_elements() {
        let value = json::parse(r#"{"a": [1, "x < y", null, {"b": true}], "c": {}, "d": []}"#).unwrap();
        let plain = "<a><item>1</item><item>x < y</item><item>null</item><item><b>true</b></item></a><c></c><d></d>";
        assert_eq!(Elements::from_words("<*>, </*>, item").unwrap().printed(&value), plain);
        let lines = Elements::from_words("<p:*>, </p:*>, li, python, indent=2").unwrap();
        let value = json::parse(r#"{"a": [null, {"b": true}]}"#).unwrap();
        let expected = "\n  <p:a>\n    <p:li>None</p:li>\n    <p:li>\n      <p:b>True</p:b>\n    </p:li>\n  </p:a>\n";
        assert_eq!(lines.printed(&value), expected);
    }

    #[test]
    fn words_read_back() {
        for words in ["<*>, </*>, item", "<x *=, </x *>, i, python, lines", "<*>, </*>, e, indent=4, level=2"] {
            assert_eq!(Elements::from_words(words).map(|elements| elements.words()).as_deref(), Some(words));
        }
        for words in ["<*>", "<*>, </*>", "*, </*>, item", "<*>, </>, item", "<*>, </*>, a b", "<*>, </*>, i, x"] {
            assert_eq!(Elements::from_words(words), None, "{words}");
        }
    }
}
