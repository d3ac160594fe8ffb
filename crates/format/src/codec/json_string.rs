//! A JSON string that contains the JSON: `"{\"city\": \"Oslo\"}"`.

use rolecall_conversation::{Arguments, Json, json};

use super::JsonStyle;
use super::value::{PrintedValue, Spelling, ValueSyntax, Write};

/// JSON inside a JSON string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonString;

impl ValueSyntax for JsonString {
    fn spelling(&self) -> Spelling<'_> {
        Spelling::JsonString
    }

    fn print(&self, value: &Json, write: Write<'_>) {
        write_quoted(&JsonStyle::PLAIN.print(value), write);
    }

    fn print_arguments(&self, arguments: Arguments<'_>, write: Write<'_>) {
        write_quoted(&JsonStyle::PLAIN.print_arguments(arguments), write);
    }

    fn takes_arguments(&self) -> bool {
        true
    }

    fn takes_values(&self) -> bool {
        false
    }
}

fn write_quoted(json: &str, write: Write<'_>) {
    let mut quoted = String::new();
    json::write_string(&mut quoted, json, false);
    write(PrintedValue::Value(&quoted));
}
