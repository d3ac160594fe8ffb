//! Text in a quoted attribute. Only `&` and `"` are escaped.

use std::borrow::Cow;

/// Escapes text for an attribute.
///
/// ```
/// use rolecall_format::codec::attribute::{escape, unescape};
/// assert_eq!(escape("a \"b\" & c"), "a &quot;b&quot; &amp; c");
/// assert_eq!(unescape("&amp;quot; &quot; &lt; &"), "&quot; \" &lt; &");
/// ```
pub fn escape(text: &str) -> Cow<'_, str> {
    match text.contains(['&', '"']) {
        true => text.replace('&', "&amp;").replace('"', "&quot;").into(),
        false => text.into(),
    }
}

/// Returns the text of an attribute. Anything that is not an escape stays unchanged.
pub fn unescape(text: &str) -> Cow<'_, str> {
    match text.contains('&') {
        true => text.replace("&quot;", "\"").replace("&amp;", "&").into(),
        false => text.into(),
    }
}
