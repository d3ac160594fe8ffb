//! The syntaxes of values. Each is one file; every crate that prints, parses or constrains a value
//! asks its [`ValueSyntax`].

use rolecall_conversation::{Arguments, Json};

use super::{Elements, JsonStyle};

/// Receives the pieces of a printed value in order.
pub type Write<'w> = &'w mut dyn FnMut(PrintedValue<'_>);

/// A piece of a printed value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrintedValue<'a> {
    /// Text of the value.
    Value(&'a str),
    /// Literal text of the format.
    Format(&'a str),
    /// A marker: a control token if the format has one with this text, or else literal text.
    Marker(&'a str),
}

/// The syntax of a value: how to print it, and what a parser or a grammar needs to know about the
/// printed text.
///
/// To add a syntax, implement this trait in a new file and add a variant to
/// [`Codec`](super::Codec). A new [`Spelling`] also needs a reader in `parse` and a grammar in
/// `grammar`; their matches list all spellings, so the compiler names the places.
pub trait ValueSyntax {
    /// Describes the printed text.
    fn spelling(&self) -> Spelling<'_>;

    /// Prints one value.
    fn print(&self, value: &Json, write: Write<'_>);

    /// Prints all arguments of a call. Called only if [`ValueSyntax::takes_arguments`].
    fn print_arguments(&self, arguments: Arguments<'_>, write: Write<'_>) {
        let object = arguments.to_object().unwrap_or_default();
        self.print(&Json::Object(object), write);
    }

    /// Reports whether `{arguments}` may use this syntax.
    fn takes_arguments(&self) -> bool {
        false
    }

    /// Reports whether `{value}` may use this syntax.
    fn takes_values(&self) -> bool {
        true
    }

    /// Reports whether the end of the text is recognizable without knowing what follows it.
    fn is_delimited(&self) -> bool {
        self.takes_arguments()
    }

    /// Returns the printed text of one value.
    fn printed(&self, value: &Json) -> String {
        let mut text = String::new();
        self.print(value, &mut |piece| text.push_str(piece.text()));
        text
    }

    /// Returns the printed text of all arguments of a call.
    fn printed_arguments(&self, arguments: Arguments<'_>) -> String {
        let mut text = String::new();
        self.print_arguments(arguments, &mut |piece| text.push_str(piece.text()));
        text
    }
}

/// A description of printed values, for parsers and grammars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spelling<'a> {
    /// JSON.
    Json(JsonStyle),
    /// A JSON string that contains JSON.
    JsonString,
    /// Python literals; keyword arguments for all arguments of a call.
    Python,
    /// Braces, bare keys, and strings between these markers.
    Marked(&'a str),
    /// Unquoted strings. Other values are Python literals, or JSON where this says so.
    Text(AsJson),
    /// Unquoted strings, in a CDATA section if XML requires one. Other values are Python literals.
    Cdata,
    /// Unquoted text, and lists and objects as nested elements.
    Elements(&'a Elements),
}

/// The values that an unquoted syntax prints as JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsJson {
    /// None.
    Nothing,
    /// Objects.
    Objects,
    /// Objects and lists.
    Containers,
}

impl<'a> PrintedValue<'a> {
    /// The text of the piece.
    pub fn text(self) -> &'a str {
        match self {
            PrintedValue::Value(text) | PrintedValue::Format(text) | PrintedValue::Marker(text) => text,
        }
    }
}
