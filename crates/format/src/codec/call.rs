//! A call as a JSON object: `{"name": "get_weather", "parameters": {"city": "Paris"}}`.

use rolecall_conversation::json;
use rolecall_conversation::{Arguments, Json};
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

    /// Reads a call back: its name and its arguments.
    pub fn read(&self, text: &str) -> Result<(String, Json), String> {
        let value = json::parse(text).map_err(|error| error.to_string())?;
        let Some(object) = value.as_object() else {
            return Err(format!("expected an object, found {}", value.kind()));
        };
        let name = object.get(&self.name).and_then(Json::as_str);
        let name = name.ok_or_else(|| format!("expected a name under `{}`", self.name))?;
        let arguments = object.get(&self.arguments).cloned().unwrap_or(Json::Object(json::Object::new()));
        Ok((name.to_owned(), arguments))
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

    #[test]
    fn a_printed_call_reads_back() {
        let Json::Object(object) = json::parse(r#"{"k": [1.50, null, "é\n"]}"#).unwrap() else { panic!() };
        let keys = Keys::new("name", "parameters", Style::AsGiven).unwrap();
        let (name, arguments) = keys.read(&printed(Arguments::Value(&object))).unwrap();
        assert_eq!((name.as_str(), arguments), ("a\"b", Json::Object(object)));
    }
}
