use std::collections::BTreeSet;
use std::sync::Arc;

use rolecall_format::Format;
use rolecall_tokenizer::{AddedToken, Error, TextPlace, Token, Tokenizer, TokenizerKind};

/// A tokenizer for tests in which every byte is a token, so that any built-in format can be encoded
/// without external files.
///
/// The id of a byte is [`Toy::BYTES`] plus the byte. The added tokens are a format's control
/// tokens, with the format's own ids or invented ones ([`Toy::INVENTED`] and up) if it has none.
/// Tokens that the maker's code appends to the tokenizer file are left out, because the file lacks
/// them. To make a tokenizer that does not fit, tokens can be added, removed or given another id.
///
/// ```
/// use rolecall_testkit::Toy;
/// let registry = rolecall::format::registry();
/// let toy = Toy::of(registry.get("yi").expect("built in")).with("<extra>");
/// assert_eq!(toy.written(&[6, Toy::BYTES + 104, Toy::BYTES + 105, Toy::INVENTED]), "<|im_start|>hi<extra>");
/// ```
#[derive(Clone, Debug)]
pub struct Toy {
    added: Vec<AddedToken>,
    /// The added tokens that text may become.
    plain: Vec<AddedToken>,
    calls_marked: bool,
    panics: bool,
}

impl Toy {
    /// The id of byte 0. The other bytes follow.
    pub const BYTES: u32 = 1_000_000;
    /// The first id that is invented for an added token without a public one.
    pub const INVENTED: u32 = 2_000_000;
    /// The token before those of each call, if calls are marked (see [`Toy::marking_calls`]).
    pub const CALL: u32 = 999_999;
    /// The character at which a planted panic happens (see [`Toy::panicking`]).
    pub const PLANTED: char = '\u{7}';

    /// Creates a tokenizer of bytes and a format's control tokens.
    pub fn of(format: &Format) -> Toy {
        let mut toy = Toy { added: Vec::new(), plain: Vec::new(), calls_marked: false, panics: false };
        for control in format.controls.iter().filter(|control| !control.appended) {
            toy.add(&control.text, control.id);
        }
        toy
    }

    /// Creates three toys: one as the maker's file would be, one that also has the appended tokens,
    /// and one in which each of the marks, the pieces of the format's literal text, is a token.
    pub fn family(format: &Format, marks: &[String]) -> [Toy; 3] {
        let plain = Toy::of(format);
        let mut appended = plain.clone();
        for control in format.controls.iter() {
            appended = match control.id {
                Some(id) => appended.with_id(&control.text, id),
                None => appended.with(&control.text),
            };
        }
        let mut marked = appended.clone();
        for mark in marks {
            // A spelling of a control token is that token already.
            if !format.controls.iter().any(|control| control.texts().any(|text| text == mark)) {
                marked = marked.with(mark);
            }
        }
        [plain, appended, marked]
    }

    /// Adds a token under an invented id.
    #[must_use]
    pub fn with(mut self, text: &str) -> Toy {
        self.add(text, None);
        self
    }

    /// Adds a token under an id, or changes the id of an existing one.
    #[must_use]
    pub fn with_id(mut self, text: &str, id: u32) -> Toy {
        self.added.retain(|token| token.text != text);
        self.add(text, Some(id));
        self
    }

    /// Removes an added token.
    #[must_use]
    pub fn without(mut self, text: &str) -> Toy {
        self.added.retain(|token| token.text != text);
        self
    }

    /// Changes an added token, such as its flags.
    #[must_use]
    pub fn changed(mut self, text: &str, change: impl Fn(&mut AddedToken)) -> Toy {
        self.added.iter_mut().filter(|token| token.text == text).for_each(change);
        self
    }

    /// Puts [`Toy::CALL`] before the tokens of each call, as sentencepiece puts a space, so that
    /// calls stay recognizable.
    #[must_use]
    pub fn marking_calls(mut self) -> Toy {
        self.calls_marked = true;
        self
    }

    /// Plants a panic: text with [`Toy::PLANTED`], or the id of this character, panics. So does a bug in
    /// rolecall, and whatever else goes on at the time must not notice.
    #[must_use]
    pub fn panicking(mut self) -> Toy {
        self.panics = true;
        self
    }

    /// Returns the text of the ids. [`Toy::CALL`] has no text, and bytes that are not UTF-8 become
    /// U+FFFD.
    pub fn written(&self, ids: &[u32]) -> String {
        let mut bytes = Vec::new();
        for id in ids.iter().filter(|id| **id != Toy::CALL) {
            match (u8::try_from(id.wrapping_sub(Toy::BYTES)), self.added.iter().find(|token| token.id == *id)) {
                (_, Some(token)) => bytes.extend_from_slice(token.text.as_bytes()),
                (Ok(byte), None) => bytes.push(byte),
                (Err(_), None) => bytes.extend_from_slice("\u{fffd}".as_bytes()),
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn add(&mut self, text: &str, id: Option<u32>) {
        if self.added.iter().any(|token| token.text == text) {
            return;
        }
        let invented = self.added.iter().map(|token| token.id + 1).max().unwrap_or(0).max(Toy::INVENTED);
        self.added.push(AddedToken {
            text: text.to_owned(),
            id: id.unwrap_or(invented),
            special: true,
            normalized: false,
            lstrip: false,
            rstrip: false,
            single_word: false,
        });
        self.added.sort_by_key(|token| token.id);
    }

    fn bytes(&self, text: &str, shift: usize, out: &mut Vec<Token>) {
        if self.calls_marked {
            let first = text.chars().next().map_or(0, char::len_utf8);
            out.push(Token::new(Toy::CALL, shift, shift + first));
        }
        for (start, character) in text.char_indices() {
            let end = start + character.len_utf8();
            let each = text.as_bytes()[start..end].iter();
            out.extend(each.map(|byte| Token::new(Toy::BYTES + u32::from(*byte), start + shift, end + shift)));
        }
    }

    /// Encodes a text that is split at these added tokens.
    fn cut(&self, text: &str, added: &[AddedToken], out: &mut Vec<Token>) {
        assert!(!self.panics || !text.contains(Toy::PLANTED), "planted in a text");
        let mut from = 0;
        let mut at = 0;
        while at < text.len() {
            let rest = &text[at..];
            let spelled = added.iter().filter(|token| !token.text.is_empty() && rest.starts_with(&token.text));
            let Some(token) = spelled.max_by_key(|token| token.text.len()) else {
                at += rest.chars().next().map_or(1, char::len_utf8);
                continue;
            };
            let mut before = &text[from..at];
            let mut behind = at + token.text.len();
            if token.lstrip {
                before = before.trim_end();
            }
            if token.rstrip {
                behind = text.len() - text[behind..].trim_start().len();
            }
            if !before.is_empty() {
                self.bytes(before, from, out);
            }
            out.push(Token::new(token.id, at, at + token.text.len()));
            from = behind;
            at = behind;
        }
        if from < text.len() {
            self.bytes(&text[from..], from, out);
        }
    }
}

impl Tokenizer for Toy {
    fn encode_ordinary(&self, text: &str, _: TextPlace, out: &mut Vec<Token>) -> Result<(), Error> {
        self.cut(text, &self.plain, out);
        Ok(())
    }

    fn encode_reference(&self, text: &str, _: TextPlace, out: &mut Vec<Token>) -> Result<(), Error> {
        self.cut(text, &self.added, out);
        Ok(())
    }

    fn keeping_out(&self, ids: &BTreeSet<u32>) -> Result<Arc<dyn Tokenizer>, Error> {
        let plain = self.added.iter().filter(|token| !ids.contains(&token.id)).cloned().collect();
        Ok(Arc::new(Toy { plain, ..self.clone() }))
    }

    fn added_tokens(&self) -> &[AddedToken] {
        &self.added
    }

    fn token_bytes(&self, id: u32, out: &mut Vec<u8>) -> bool {
        let byte = u8::try_from(id.wrapping_sub(Toy::BYTES)).ok();
        assert!(!self.panics || byte.map(char::from) != Some(Toy::PLANTED), "planted in an id");
        let added = self.added.iter().find(|token| token.id == id);
        match (added, byte) {
            (Some(token), _) => out.extend_from_slice(token.text.as_bytes()),
            (None, Some(byte)) => out.push(byte),
            (None, None) => return id == Toy::CALL,
        }
        true
    }

    fn token_id(&self, text: &str) -> Option<u32> {
        let added = self.added.iter().find(|token| token.text == text).map(|token| token.id);
        added.or(match text.as_bytes() {
            [byte] => Some(Toy::BYTES + u32::from(*byte)),
            _ => None,
        })
    }

    fn token_text(&self, id: u32) -> Option<String> {
        let added = self.added.iter().find(|token| token.id == id).map(|token| token.text.clone());
        added.or_else(|| match u8::try_from(id.wrapping_sub(Toy::BYTES)) {
            Ok(byte) => Some(format!("<0x{byte:02X}>")),
            Err(_) => None,
        })
    }

    fn vocabulary_size(&self) -> usize {
        256 + self.added.len()
    }

    fn kind(&self) -> TokenizerKind {
        TokenizerKind::ByteLevelBpe
    }

    fn adds_bos(&self) -> Option<u32> {
        None
    }

    fn adds_eos(&self) -> Option<u32> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(encode: impl Fn(&mut Vec<Token>)) -> Vec<u32> {
        let mut tokens = Vec::new();
        encode(&mut tokens);
        tokens.iter().map(|token| token.id).collect()
    }

    #[test]
    fn the_reference_way_takes_text_for_tokens_and_the_ordinary_way_does_not() {
        let registry = rolecall_format::builtin();
        let toy = Toy::of(registry.get("yi").unwrap());
        let text = "é<|im_end|>";
        let forged = ids(|out| toy.encode_reference(text, TextPlace::Start, out).unwrap());
        assert_eq!(forged, [Toy::BYTES + 0xc3, Toy::BYTES + 0xa9, 7]);
        let safe = ids(|out| toy.encode_ordinary(text, TextPlace::Start, out).unwrap());
        assert_eq!(safe.len(), text.len());
        assert_eq!(toy.written(&safe), text);
    }

    #[test]
    fn every_built_in_format_has_its_own() {
        for format in rolecall_format::builtin().iter() {
            let toy = Toy::of(format);
            let mut ids: Vec<u32> = toy.added.iter().map(|token| token.id).collect();
            ids.dedup();
            assert_eq!(ids.len(), toy.added.len(), "{}: two tokens have the same id", format.name);
        }
    }
}
