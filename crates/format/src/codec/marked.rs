//! Braces, bare keys in alphabetical order, and strings between marks: `{city:<|"|>Oslo<|"|>,days:3,meta:{k:[1,true]}}`.

use rolecall_conversation::Json;
use rolecall_conversation::json::{Number, Object};

use super::number;

/// How deep values may nest when they are read.
const MAX_DEPTH: usize = 100;

/// A piece of what is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// The mark around a string.
    Mark,
    /// Anything else.
    Text(&'a str),
}

/// Gives the pieces of a value in order.
pub fn print(value: &Json, write: &mut impl FnMut(Piece<'_>)) {
    match value {
        Json::Null => write(Piece::Text("null")),
        Json::Bool(true) => write(Piece::Text("true")),
        Json::Bool(false) => write(Piece::Text("false")),
        Json::Number(value) => write(Piece::Text(&number::print(value))),
        Json::String(text) => {
            write(Piece::Mark);
            write(Piece::Text(text));
            write(Piece::Mark);
        }
        Json::Array(items) => {
            write(Piece::Text("["));
            for (index, item) in items.iter().enumerate() {
                write(Piece::Text(if index > 0 { "," } else { "" }));
                print(item, write);
            }
            write(Piece::Text("]"));
        }
        Json::Object(object) => print_object(object, write),
    }
}

/// Gives the pieces of an object in order.
pub fn print_object(object: &Object, write: &mut impl FnMut(Piece<'_>)) {
    let mut entries: Vec<(&str, &Json)> = object.iter().collect();
    // jinja2: `dictsort` takes no account of letter case.
    entries.sort_by_cached_key(|(key, _)| key.to_lowercase());
    write(Piece::Text("{"));
    for (index, (key, item)) in entries.into_iter().enumerate() {
        write(Piece::Text(if index > 0 { "," } else { "" }));
        write(Piece::Text(key));
        write(Piece::Text(":"));
        print(item, write);
    }
    write(Piece::Text("}"));
}

/// Reads one value that takes the whole text.
pub fn read(text: &str, mark: &str) -> Option<Json> {
    let (value, rest) = value(text, mark, 0)?;
    rest.is_empty().then_some(value)
}

fn value<'t>(text: &'t str, mark: &str, depth: usize) -> Option<(Json, &'t str)> {
    if depth > MAX_DEPTH {
        return None;
    }
    if let Some(rest) = text.strip_prefix(mark) {
        let (string, rest) = rest.split_once(mark)?;
        return Some((Json::from(string), rest));
    }
    if let Some(mut rest) = text.strip_prefix('[') {
        let mut items = Vec::new();
        while !rest.starts_with(']') {
            let (item, behind) = value(rest, mark, depth + 1)?;
            items.push(item);
            rest = behind.strip_prefix(',').or_else(|| behind.starts_with(']').then_some(behind))?;
        }
        return Some((Json::Array(items), &rest[1..]));
    }
    if let Some(mut rest) = text.strip_prefix('{') {
        let mut entries = Vec::new();
        while !rest.starts_with('}') {
            let (key, behind) = rest.split_once(':')?;
            let (item, behind) = value(behind, mark, depth + 1)?;
            entries.push((key.to_owned(), item));
            rest = behind.strip_prefix(',').or_else(|| behind.starts_with('}').then_some(behind))?;
        }
        return Some((Json::Object(entries.into_iter().collect()), &rest[1..]));
    }
    let (word, rest) = text.split_at(text.find([',', ']', '}']).unwrap_or(text.len()));
    let value = match word {
        "null" | "None" => Json::Null,
        "true" => Json::Bool(true),
        "false" => Json::Bool(false),
        number => Json::Number(Number::from_spelling(number)?),
    };
    Some((value, rest))
}

#[cfg(test)]
mod tests {
    use rolecall_conversation::json;

    use super::*;

    fn printed(value: &Json) -> String {
        let mut text = String::new();
        print(value, &mut |piece| {
            text.push_str(match piece {
                Piece::Mark => "~",
                Piece::Text(text) => text,
            });
        });
        text
    }

    #[test]
    fn keys_are_bare_and_in_order_and_strings_marked() {
        let cases = [
            (r#"{"days":3,"city":"Oslo, {x}"}"#, "{city:~Oslo, {x}~,days:3}"),
            (r#"{"b":{"Z":[1,"a",[]],"a":true},"A":1.50}"#, "{A:1.5,b:{a:true,Z:[1,~a~,[]]}}"),
            (r#"{"n":null}"#, "{n:null}"),
            ("{}", "{}"),
        ];
        for (value, text) in cases {
            let value = json::parse(value).unwrap();
            assert_eq!(printed(&value), text);
            assert_eq!(printed(&read(text, "~").unwrap()), text);
        }
    }

    #[test]
    fn what_is_cut_off_or_too_deep_is_not_read() {
        for text in ["{a:~x", "{a:", "[1", "[1 2]", "{a}", "x", "1]"] {
            assert_eq!(read(text, "~"), None, "{text}");
        }
        assert_eq!(read(&"[".repeat(100_000), "~"), None);
    }
}
