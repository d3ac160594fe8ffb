use std::borrow::Cow;

use rolecall_conversation::json::escape_into;

/// Converts text to a JSON string while it streams.
#[derive(Clone, Debug, Default)]
pub(crate) struct TextValue {
    is_open: bool,
}

impl TextValue {
    /// Reads the next piece.
    pub(crate) fn push(&mut self, text: &str, out: &mut String) {
        self.open(out);
        escape_into(out, text, false);
    }

    /// Ends the text.
    pub(crate) fn end(&mut self, out: &mut String) {
        self.open(out);
        out.push('"');
        self.is_open = false;
    }

    fn open(&mut self, out: &mut String) {
        if !self.is_open {
            out.push('"');
            self.is_open = true;
        }
    }
}

/// Returns the text of a CDATA section if the text consists of one, and the text itself otherwise.
/// Adjacent sections form one text, since XML splits a text that contains `]]>` this way.
pub(crate) fn uncdata(text: &str) -> Cow<'_, str> {
    const OPEN: &str = "<![CDATA[";
    const CLOSE: &str = "]]>";
    let Some(inside) = text.trim().strip_prefix(OPEN).and_then(|rest| rest.strip_suffix(CLOSE)) else {
        return text.into();
    };
    match inside.contains("]]><![CDATA[") {
        true => inside.replace("]]><![CDATA[", "").into(),
        false => inside.into(),
    }
}
