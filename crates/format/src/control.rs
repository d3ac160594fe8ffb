/// The index of a control token in [`crate::Format::controls`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ControlId(pub usize);

/// A token that only the format may emit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// The usual text.
    pub text: String,
    /// The id, where public.
    pub id: Option<u32>,
    /// Whether it opens the prompt.
    pub bos: bool,
    /// Whether the model writes it to end its turn.
    pub ends_turn: bool,
    /// Whether a layout or a name emits it. Other tokens serve only as stop tokens, or are declared
    /// to keep them out of text.
    pub emitted: bool,
    /// Whether its id lies after the vocabulary of the tokenizer file.
    pub appended: bool,
    /// Which of the tokenizer's own tokens it is, if its text depends on the tokenizer.
    pub own: Option<BoundaryToken>,
    /// Whether only its id is known. The text is then a placeholder.
    pub by_id: bool,
    /// How the reference's tokenizer treats plain text that spells the token.
    pub in_text: InText,
    /// Other texts of the same id, each with the name of its spelling.
    pub spelled: Vec<(String, String)>,
}

/// A token whose text each tokenizer chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoundaryToken {
    /// The token that opens a text.
    Bos,
    /// The token that closes a text.
    Eos,
}

/// How the reference's tokenizer treats plain text that spells a control token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InText {
    /// As the token. Anyone can forge the token in text.
    #[default]
    Always,
    /// As the token, but only if the tokenizer's caller asks for this.
    OnRequest,
    /// As text.
    Never,
}

impl Control {
    /// Returns its text in a spelling, or the usual text if the spelling does not include the
    /// token.
    #[inline]
    pub fn spelling(&self, name: Option<&str>) -> &str {
        match name {
            None => &self.text,
            Some(name) => self.spelled.iter().find(|(known, _)| known == name).map_or(&self.text, |(_, text)| text),
        }
    }

    /// Returns the token with another of its texts as the usual one. The former usual text becomes
    /// a spelling.
    pub(crate) fn spelled_as(&self, text: &str) -> Control {
        let mut control = self.clone();
        if let Some((name, other)) = control.spelled.iter_mut().find(|(_, other)| other == text) {
            *name = "usual".to_owned();
            std::mem::swap(other, &mut control.text);
        }
        control
    }

    /// Returns all its texts, the usual one first.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.text.as_str()).chain(self.spelled.iter().map(|(_, text)| text.as_str()))
    }
}
