/// Bytes of text, of which the last may be an incomplete character.
#[derive(Clone, Debug, Default)]
pub struct Characters {
    /// The bytes that were not taken.
    pub bytes: Vec<u8>,
}

impl Characters {
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Takes the characters that are complete. Bytes that can become none are replaced.
    pub fn complete(&mut self) -> String {
        let mut text = String::new();
        let mut from = 0;
        while let Some(rest) = self.bytes.get(from..).filter(|rest| !rest.is_empty()) {
            let (valid, wrong) = match std::str::from_utf8(rest) {
                Ok(all) => (all.len(), None),
                Err(error) => (error.valid_up_to(), error.error_len()),
            };
            text.push_str(&String::from_utf8_lossy(&rest[..valid]));
            from += valid;
            match wrong {
                Some(wrong) => {
                    text.push('\u{fffd}');
                    from += wrong;
                }
                // More bytes may complete the character.
                None => break,
            }
        }
        self.bytes.drain(..from);
        text
    }

    /// Reports whether an incomplete character stays incomplete if these bytes follow.
    pub fn is_broken_by(&self, next: &[u8]) -> bool {
        if self.is_empty() || next.is_empty() {
            return false;
        }
        let all = [&self.bytes, next].concat();
        let error = std::str::from_utf8(&all).err();
        error.is_some_and(|error| error.valid_up_to() == 0 && error.error_len() == Some(self.bytes.len()))
    }

    /// Takes all, even an incomplete character, which is replaced.
    pub fn rest(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.bytes)).into_owned()
    }
}
