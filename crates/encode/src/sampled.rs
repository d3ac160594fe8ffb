//! Encodes a text that stands for what a model wrote.

use rolecall_format::ControlId;
use rolecall_tokenizer::TextPlace;

use crate::{Encoder, Error};

impl Encoder {
    /// Encodes a text that stands for the ids that a model sampled after a prompt.
    ///
    /// Every spelling of a control token becomes this token, because a model writes its own control
    /// tokens. Never pass text from a user.
    pub fn encode_sampled(&self, text: &str) -> Result<Vec<u32>, Error> {
        let mut ids = Vec::new();
        let mut from = 0;
        let mut at = 0;
        while at < text.len() {
            let Some((control, length)) = self.control_at(&text[at..]) else {
                at += text[at..].chars().next().map_or(1, char::len_utf8);
                continue;
            };
            self.encode_between(&text[from..at], &mut ids)?;
            ids.push(self.control_id(control)?);
            at += length;
            from = at;
        }
        self.encode_between(&text[from..], &mut ids)?;
        Ok(ids)
    }

    /// Returns the control token of the format with which a text begins, and the length of its text.
    fn control_at(&self, text: &str) -> Option<(ControlId, usize)> {
        let each = self.controls().iter().enumerate();
        let found = each.flat_map(|(at, control)| control.texts().map(move |known| (ControlId(at), known)));
        let found = found.filter(|(_, known)| !known.is_empty() && text.starts_with(known));
        found.map(|(control, known)| (control, known.len())).max_by_key(|(_, length)| *length)
    }

    fn encode_between(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), Error> {
        if text.is_empty() {
            return Ok(());
        }
        let mut tokens = Vec::new();
        self.tokenizer().encode_reference(text, TextPlace::Inside, &mut tokens)?;
        ids.extend(tokens.iter().map(|token| token.id));
        Ok(())
    }
}
