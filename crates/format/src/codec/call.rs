//! A call as a JSON object: `{"name": "get_weather", "parameters": {"city": "Paris"}}`.

use rolecall_conversation::Arguments;
use rolecall_conversation::json;
use rolecall_text::{Source, Text};

use super::JsonStyle;

/// The keys under which a format writes a call's name and arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    name: String,
    arguments: String,
    style: Style,
}

/// How a call's arguments are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Arguments that came as text stay that very text.
    AsGiven,
    /// Arguments that came as text are read and laid out anew: `parsed`.
    Parsed,
    /// The same, and all but ASCII is escaped, as Python's `json.dumps` does unless it is told otherwise: `ascii`.
    Ascii,
}

impl Keys {
    /// The keys, if they differ and need no escape.
    pub fn new(name: &str, arguments: &str, style: Style) -> Option<Keys> {
        let plain = |key: &str| !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        (plain(name) && plain(arguments) && name != arguments).then(|| Keys {
            name: name.into(),
            arguments: arguments.into(),
            style,
        })
    }

    /// The key of the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The key of the arguments.
    pub fn arguments(&self) -> &str {
        &self.arguments
    }

    /// How the arguments are laid out.
    pub fn style(&self) -> Style {
        self.style
    }

    /// Prints a call; the braces and keys are the format's, the rest has the sources given.
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
