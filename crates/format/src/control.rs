/// A control token of a format, by its number in [`crate::Format::controls`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ControlId(pub usize);

/// A token that only the format may emit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// Its usual text.
    pub text: String,
    /// Its id, where public.
    pub id: Option<u32>,
    /// Whether it opens the prompt.
    pub bos: bool,
    /// Whether the model writes it when its turn is over.
    pub ends_turn: bool,
    /// Whether some layout or name writes it; others are known only to stop at, or to be kept out of text.
    pub emitted: bool,
    /// Whether its id lies behind the tokenizer file's vocabulary.
    pub appended: bool,
    /// Which of the tokenizer's own tokens it is, if its text is that of the tokenizer at hand.
    pub own: Option<Own>,
    /// Whether its id is all that is known of it; its text only stands for it.
    pub by_id: bool,
    /// What the reference's tokenizer does with a plain text that spells it.
    pub in_text: InText,
    /// Other names of the same id: the spelling's name and the text.
    pub spelled: Vec<(String, String)>,
}

/// A token that every tokenizer names its own way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {
    /// The one that opens a text.
    Bos,
    /// The one that closes it.
    Eos,
}

/// What the reference's tokenizer does with a plain text that spells a control token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InText {
    /// The text becomes the token: anyone can forge it there.
    #[default]
    Always,
    /// Only where the caller of that tokenizer asks for it.
    OnRequest,
    /// It stays text.
    Never,
}

impl Control {
    /// Its text in a spelling; the usual one where that spelling does not name it.
    #[inline]
    pub fn spelling(&self, name: Option<&str>) -> &str {
        match name {
            None => &self.text,
            Some(name) => self.spelled.iter().find(|(known, _)| known == name).map_or(&self.text, |(_, text)| text),
        }
    }

    /// The same token with another of its texts as the usual one; the text that was usual stays known.
    pub(crate) fn spelled_as(&self, text: &str) -> Control {
        let mut control = self.clone();
        if let Some((name, other)) = control.spelled.iter_mut().find(|(_, other)| other == text) {
            *name = "usual".to_owned();
            std::mem::swap(other, &mut control.text);
        }
        control
    }

    /// All its texts, the usual one first.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.text.as_str()).chain(self.spelled.iter().map(|(_, text)| text.as_str()))
    }
}
