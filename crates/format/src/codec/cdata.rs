//! A string as XML text, in a CDATA section where it needs one.

use super::literal;
use rolecall_conversation::Json;

/// What opens the section.
pub const OPEN: &str = "<![CDATA[";

/// What closes it.
pub const CLOSE: &str = "]]>";

/// What is printed of a value, and whether a section stands around it: a string with `<`, `&` or a newline.
/// Any other value is as Python prints it. Nothing is escaped.
pub fn print(value: &Json) -> (String, bool) {
    let needed = value.as_str().is_some_and(|text| text.contains(['<', '&', '\n']));
    (literal::print(value), needed)
}

/// Reads what was printed: the text inside the section, where there is one.
pub fn read(text: &str) -> &str {
    text.strip_prefix(OPEN).and_then(|rest| rest.strip_suffix(CLOSE)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_stands_only_where_xml_needs_it() {
        let cases = [("a b", false), ("a < b", true), ("a & b", true), ("a\nb", true), ("]]>", false)];
        for (text, needed) in cases {
            assert_eq!(print(&Json::from(text)), (text.to_owned(), needed));
        }
        assert_eq!(print(&Json::Bool(true)), ("True".to_owned(), false));
        assert_eq!(read("<![CDATA[a]]>]]>"), "a]]>");
        assert_eq!(read("a]]>"), "a]]>");
    }
}
