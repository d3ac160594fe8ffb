use std::borrow::Cow;

use rolecall_conversation::json::escape_into;

/// Text that becomes a JSON string while it comes.
#[derive(Clone, Debug, Default)]
pub(crate) struct TextValue {
    is_open: bool,
}

impl TextValue {
    /// Takes the next piece.
    pub(crate) fn push(&mut self, text: &str, out: &mut String) {
        self.open(out);
        escape_into(out, text, false);
    }

    /// The text is over.
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

/// The text inside a CDATA section, if that is all there is; else the text as it is. Sections that follow one another are one text, as
/// XML has it for a text that holds `]]>`.
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
