//! What the codecs print, to find out which of them a template is like.

use rolecall_conversation::Json;
use rolecall_conversation::json::{self, Layout, Object};
use rolecall_format::Codec;
use rolecall_format::codec::python;

/// A single value as a codec of `{value}` prints it.
pub(crate) fn print(codec: &Codec, value: &Json) -> Option<String> {
    match (codec, value) {
        (Codec::Text | Codec::Literal | Codec::Mixed, Json::String(text)) => Some(text.clone()),
        (Codec::Json(style), _) => Some(json::write(value, &layout(style.indent))),
        (Codec::Mixed, Json::Array(_) | Json::Object(_)) => Some(json::write(value, &Layout::default())),
        (Codec::Literal | Codec::Mixed, _) => python_value(value),
        (Codec::Cdata, Json::String(text)) => Some(match text.contains(['<', '>', '&', '\n']) {
            true => format!("<![CDATA[{text}]]>"),
            false => text.clone(),
        }),
        _ => None,
    }
}

/// All arguments as a codec of `{arguments}` prints them.
pub(crate) fn print_arguments(codec: &Codec, arguments: &Object) -> Option<String> {
    match codec {
        Codec::Json(style) => Some(json::write(&Json::Object(arguments.clone()), &layout(style.indent))),
        Codec::Python => Some(python::print(arguments)),
        Codec::JsonString => {
            let text = json::write(&Json::Object(arguments.clone()), &Layout::default());
            let mut quoted = String::new();
            json::write_string(&mut quoted, &text, false);
            Some(quoted)
        }
        Codec::Marked(mark) => {
            let mut text = String::new();
            marked(&mut text, &Json::Object(arguments.clone()), mark);
            Some(text)
        }
        _ => None,
    }
}

fn layout(indent: Option<usize>) -> Layout {
    indent.map_or_else(Layout::default, Layout::indented)
}

/// As Python's `repr`.
fn python_value(value: &Json) -> Option<String> {
    let mut one = Object::new();
    one.insert("x", value.clone());
    python::print(&one).strip_prefix("x=").map(str::to_owned)
}

fn marked(out: &mut String, value: &Json, mark: &str) {
    match value {
        Json::String(text) => {
            out.push_str(mark);
            out.push_str(text);
            out.push_str(mark);
        }
        Json::Array(values) => {
            out.push('[');
            for (at, value) in values.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                marked(out, value, mark);
            }
            out.push(']');
        }
        Json::Object(object) => {
            let mut entries: Vec<(&str, &Json)> = object.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            out.push('{');
            for (at, (key, value)) in entries.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                out.push_str(key);
                out.push(':');
                marked(out, value, mark);
            }
            out.push('}');
        }
        other => json::write_into(out, other, &Layout::compact()),
    }
}

/// Where a JSON object opens before a place and closes again: the text of it, if it is one.
pub(crate) fn object_around(text: &str, place: usize) -> Option<(std::ops::Range<usize>, Object)> {
    let start = text.get(..place)?.rfind('{')?;
    let mut depth = 0usize;
    let mut quoted = false;
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(start) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' if !quoted => depth += 1,
            b'}' if !quoted => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    let Ok(Json::Object(object)) = json::parse(text.get(start..=at)?) else { return None };
                    return Some((start..at + 1, object));
                }
            }
            _ => {}
        }
    }
    None
}

/// Whether two values are the same but for the order of keys.
pub(crate) fn same(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| same(value, other)))
        }
        (Json::Array(a), Json::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        _ => a == b,
    }
}
