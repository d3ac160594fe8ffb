//! Braces, bare keys in alphabetical order, and strings between markers:
//! `{city:<|"|>Oslo<|"|>,days:3,meta:{k:[1,true]}}`.

use rolecall_conversation::json::Object;
use rolecall_conversation::{Arguments, Json};

use super::number;
use super::value::{PrintedValue, Spelling, ValueSyntax, Write};

/// A syntax with bare keys, and with the same marker before and after each string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkedSyntax(String);

impl MarkedSyntax {
    /// Creates the syntax with a marker.
    pub fn new(marker: impl Into<String>) -> MarkedSyntax {
        MarkedSyntax(marker.into())
    }

    /// Returns the marker before and after each string.
    pub fn marker(&self) -> &str {
        &self.0
    }
}

impl ValueSyntax for MarkedSyntax {
    fn spelling(&self) -> Spelling<'_> {
        Spelling::Marked(&self.0)
    }

    fn print(&self, value: &Json, write: Write<'_>) {
        print(value, &self.0, write);
    }

    fn print_arguments(&self, arguments: Arguments<'_>, write: Write<'_>) {
        match arguments {
            Arguments::Value(object) => print_object(object, &self.0, write),
            other => print_object(&other.to_object().unwrap_or_default(), &self.0, write),
        }
    }

    fn takes_arguments(&self) -> bool {
        true
    }
}

fn print(value: &Json, marker: &str, write: Write<'_>) {
    match value {
        Json::Null => write(PrintedValue::Value("null")),
        Json::Bool(true) => write(PrintedValue::Value("true")),
        Json::Bool(false) => write(PrintedValue::Value("false")),
        Json::Number(value) => write(PrintedValue::Value(&number::print(value))),
        Json::String(text) => {
            write(PrintedValue::Marker(marker));
            write(PrintedValue::Value(text));
            write(PrintedValue::Marker(marker));
        }
        Json::Array(items) => {
            write(PrintedValue::Value("["));
            for (index, item) in items.iter().enumerate() {
                write(PrintedValue::Value(if index > 0 { "," } else { "" }));
                print(item, marker, write);
            }
            write(PrintedValue::Value("]"));
        }
        Json::Object(object) => print_object(object, marker, write),
    }
}

fn print_object(object: &Object, marker: &str, write: Write<'_>) {
    let mut entries: Vec<(&str, &Json)> = object.iter().collect();
    // jinja2: `dictsort` ignores letter case.
    entries.sort_by_cached_key(|(key, _)| key.to_lowercase());
    write(PrintedValue::Value("{"));
    for (index, (key, item)) in entries.into_iter().enumerate() {
        write(PrintedValue::Value(if index > 0 { "," } else { "" }));
        write(PrintedValue::Value(key));
        write(PrintedValue::Value(":"));
        print(item, marker, write);
    }
    write(PrintedValue::Value("}"));
}

#[cfg(test)]
mod tests {
    use rolecall_conversation::json;

    use super::*;

    #[test]
    fn keys_are_bare_and_sorted_and_strings_have_markers() {
        let cases = [
            (r#"{"days":3,"city":"Oslo, {x}"}"#, "{city:~Oslo, {x}~,days:3}"),
            (r#"{"b":{"Z":[1,"a",[]],"a":true},"A":1.50}"#, "{A:1.5,b:{a:true,Z:[1,~a~,[]]}}"),
            (r#"{"n":null}"#, "{n:null}"),
            ("{}", "{}"),
        ];
        for (value, text) in cases {
            assert_eq!(MarkedSyntax::new("~").printed(&json::parse(value).unwrap()), text);
        }
    }
}
