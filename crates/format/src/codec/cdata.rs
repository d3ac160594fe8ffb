//! Strings as XML text, in a CDATA section if XML requires one.

use super::literal;
use super::value::{PrintedValue, Spelling, ValueSyntax, Write};
use rolecall_conversation::Json;

/// The text that opens the section.
pub const OPEN: &str = "<![CDATA[";

/// The text that closes the section.
pub const CLOSE: &str = "]]>";

/// A string as XML text, in a CDATA section if it contains `<`, `&` or a newline. Any other value
/// is a Python literal. Nothing is escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cdata;

impl ValueSyntax for Cdata {
    fn spelling(&self) -> Spelling<'_> {
        Spelling::Cdata
    }

    fn print(&self, value: &Json, write: Write<'_>) {
        let needs_section = value.as_str().is_some_and(|text| text.contains(['<', '&', '\n']));
        if needs_section {
            write(PrintedValue::Format(OPEN));
        }
        write(PrintedValue::Value(&literal::print(value)));
        if needs_section {
            write(PrintedValue::Format(CLOSE));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_surrounds_only_what_xml_would_misread() {
        let cases = [("a b", false), ("a < b", true), ("a & b", true), ("a\nb", true), ("]]>", false)];
        for (text, in_section) in cases {
            let expected = if in_section { format!("{OPEN}{text}{CLOSE}") } else { text.to_owned() };
            assert_eq!(Cdata.printed(&Json::from(text)), expected);
        }
        assert_eq!(Cdata.printed(&Json::Bool(true)), "True");
    }
}
