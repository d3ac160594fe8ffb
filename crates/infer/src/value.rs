//! The output of the codecs, to determine which of them matches a template.

use rolecall_conversation::json::{self, Object};
use rolecall_conversation::{Arguments, Json};
use rolecall_format::Codec;
use rolecall_format::codec::{Elements, JsonStyle, literal};

/// Prints a single value with a codec for `{value}`.
pub(crate) fn print(codec: &Codec, value: &Json) -> Option<String> {
    match (codec, codec.value_syntax()) {
        (Codec::Text, _) => Some(literal::print(value).into_owned()),
        (_, syntax) => Some(syntax?.printed(value)),
    }
}

/// Prints all arguments with a codec for `{arguments}`.
pub(crate) fn print_arguments(codec: &Codec, arguments: &Object) -> Option<String> {
    let syntax = codec.value_syntax().filter(|syntax| syntax.takes_arguments())?;
    Some(syntax.printed_arguments(Arguments::Value(arguments)))
}

/// Returns the JSON styles to try, most common first. Multi-line styles are included only if the
/// text has several lines.
pub(crate) fn json_styles(has_lines: bool) -> Vec<JsonStyle> {
    let flags = [(false, false), (true, false), (false, true), (true, true)];
    let mut styles: Vec<JsonStyle> = Vec::new();
    for ascii in [false, true] {
        styles.extend(flags.map(|(compact, sorted)| JsonStyle { compact, sorted, ascii, ..JsonStyle::PLAIN }));
    }
    if has_lines {
        for level in 0..4 {
            styles.extend([4, 2, 1, 3, 8].map(|spaces| JsonStyle { indent: Some(spaces), level, ..JsonStyle::PLAIN }));
        }
    }
    styles
}

/// Returns the syntaxes in which a template may have written the object of [`nested`] as this text.
pub(crate) fn elements(text: &str) -> Vec<Codec> {
    let found = elements_in(text);
    let both = found
        .into_iter()
        .flat_map(|elements| [false, true].map(|is_python| Elements { is_python, ..elements.clone() }));
    both.map(|elements| Codec::Elements(Box::new(elements))).collect()
}

/// An object with a string, and a list that begins with a number.
pub(crate) fn nested() -> Json {
    json::parse(r#"{"vint": "Drelk", "plo": [61, null, {"ung": true}]}"#).unwrap_or(Json::Null)
}

fn elements_in(text: &str) -> Option<Elements> {
    let behind = |word: &str, from: usize| text.get(from..)?.find(word).map(|at| (from + at, from + at + word.len()));
    let (first, first_end) = behind("vint", 0)?;
    let (value, value_end) = behind("Drelk", first_end)?;
    let (closing, closing_end) = behind("vint", value_end)?;
    let (list, list_end) = behind("plo", closing_end)?;
    let (number, _) = behind("61", list_end)?;
    let lead = text.get(..first)?;
    let gap = &lead[..lead.len() - lead.trim_start().len()];
    let open = &lead[gap.len()..];
    let (open_end, close) = (text.get(first_end..value)?, text.get(value_end..closing)?);
    let close_end = text.get(closing_end..list)?.strip_suffix(lead)?;
    // The opening tag of a list may lack the white space before other values.
    let item = text.get(list_end..number)?;
    let item = item.strip_prefix(open_end).or(item.strip_prefix(open_end.trim_end()))?.strip_suffix(open_end)?;
    let inner = &item[..item.len() - item.trim_start().len()];
    let item = item[inner.len()..].strip_prefix(open)?;
    let mut elements = Elements::new(&format!("{open}*{open_end}"), &format!("{close}*{close_end}"), item)?;
    if let Some(spaces) = gap.strip_prefix('\n').map(str::len) {
        let step = inner.len().checked_sub(gap.len())?;
        elements.indent = Some(step);
        elements.level = spaces.checked_div(step).unwrap_or(1);
    }
    Some(elements)
}

/// Returns the JSON object that opens before a position, and its range, if there is one.
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

/// Reports whether two values are equal, ignoring the order of keys.
pub(crate) fn same(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| same(value, other)))
        }
        (Json::Array(a), Json::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::object_around;

    #[test]
    fn an_object_is_found_by_a_place_in_it() {
        let text = r#"a {x {"k": {"s": "}\"}"}, "n": 1} b}"#;
        let (range, object) = object_around(text, text.find("\"k\"").unwrap()).unwrap();
        assert_eq!(&text[range], r#"{"k": {"s": "}\"}"}, "n": 1}"#);
        assert_eq!(object.iter().map(|(key, _)| key).collect::<Vec<_>>(), ["k", "n"]);
        assert!(object_around(text, 1).is_none());
        assert!(object_around("a {x} b", 4).is_none());
        assert!(object_around("a {\"x\": 1", 6).is_none());
    }
}
