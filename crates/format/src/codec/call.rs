//! A call as a JSON object: `{"name": "get_weather", "parameters": {"city": "Paris"}}`.

use rolecall_conversation::Arguments;
use rolecall_conversation::json;
use rolecall_text::{Source, Text};

use super::JsonStyle;

/// The keys for a call's name and arguments, and the style of the arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    name: String,
    arguments: String,
    style: Style,
}

/// The style of a call's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Arguments given as text remain unchanged.
    AsGiven,
    /// Arguments given as text are parsed and printed again: `parsed`.
    Parsed,
    /// Like `Parsed`, with all non-ASCII characters escaped, as Python's `json.dumps` does by
    /// default: `ascii`.
    Ascii,
}

impl Keys {
    /// Creates the keys. They must differ and need no escapes.
    pub fn new(name: &str, arguments: &str, style: Style) -> Option<Keys> {
        let plain = |key: &str| !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        (plain(name) && plain(arguments) && name != arguments).then(|| Keys {
            name: name.into(),
            arguments: arguments.into(),
            style,
        })
    }

    /// Returns the key of the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the key of the arguments.
    pub fn arguments(&self) -> &str {
        &self.arguments
    }

    /// Returns the style of the arguments.
    pub fn style(&self) -> Style {
        self.style
    }

    /// Prints a call. The braces and keys have the source `literal`, the name and the arguments
    /// their own sources.
    pub fn print(&self, out: &mut Text, literal: Source, name: (&str, Source), arguments: (Arguments<'_>, Source)) {
        out.push("{\"", literal);
        out.push(&self.name, literal);
        out.push("\": ", literal);
        let mut quoted = String::new();
        json::write_string(&mut quoted, name.0, self.style == Style::Ascii);
        out.push(&quoted, name.1);
        out.push(", \"", literal);
        out.push(&self.arguments, literal);
        out.push("\": ", literal);
        let style = match self.style {
            Style::AsGiven => JsonStyle::PLAIN,
            Style::Parsed => JsonStyle { parsed: true, ..JsonStyle::PLAIN },
            Style::Ascii => JsonStyle { ascii: true, ..JsonStyle::PLAIN },
        };
        out.push(&style.print_arguments(arguments.0), arguments.1);
        out.push("}", literal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(arguments: Arguments<'_>) -> String {
        let keys = Keys::new("name", "parameters", Style::AsGiven).unwrap();
        let mut out = Text::new();
        keys.print(&mut out, Source(0), ("a\"b", Source(1)), (arguments, Source(2)));
        out.into_plain()
    }

    #[test]
    fn arguments_that_came_as_text_stay_that_text() {
        let text = "{\"x\":1.0,  \"y\":1e5}";
        assert_eq!(printed(Arguments::Text(text)), format!("{{\"name\": \"a\\\"b\", \"parameters\": {text}}}"));
    }

    #[test]
    fn no_arguments_are_an_empty_object() {
        for empty in [Arguments::None, Arguments::Text(""), Arguments::Text(" "), Arguments::Text("null")] {
            assert_eq!(printed(empty), "{\"name\": \"a\\\"b\", \"parameters\": {}}");
        }
    }
}
