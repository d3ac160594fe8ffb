//! Decodes ids to text.

use std::sync::Arc;

use crate::Error;
use rolecall_tokenizer::{TextPlace, Tokenizer};

/// Decodes ids to the bytes that they represent, and control tokens to their text.
///
/// ```
/// use std::sync::Arc;
/// use rolecall_encode::Decoder;
/// use rolecall_tokenizer::HuggingFace;
/// let json = br#"{
///   "added_tokens": [{"id": 2, "content": "<end>", "special": true,
///                     "normalized": false, "lstrip": false, "rstrip": false, "single_word": false}],
///   "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": false},
///   "model": {"type": "BPE", "vocab": {"\u2581a": 0, "b": 1}, "merges": []}
/// }"#;
/// let decoder = Decoder::new(Arc::new(HuggingFace::from_bytes(json, None)?));
/// // The tokenizer itself added the space before the first word.
/// assert_eq!(decoder.decode(&[0, 1, 0, 2])?, "ab a<end>".as_bytes());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Decoder {
    tokenizer: Arc<dyn Tokenizer>,
    /// In order.
    markers: Vec<u32>,
}

impl Decoder {
    /// Creates a decoder for the ids of a tokenizer.
    pub fn new(tokenizer: Arc<dyn Tokenizer>) -> Decoder {
        // Bytes spelled as text (`<0x41>`) are among the added tokens, but they represent text.
        let is_marker = |id: &u32, text: &str| {
            let mut bytes = Vec::new();
            !tokenizer.token_bytes(*id, &mut bytes) || bytes == text.as_bytes()
        };
        let added = tokenizer.added_tokens().iter();
        let markers = added.filter(|token| is_marker(&token.id, &token.text)).map(|token| token.id);
        let mut markers: Vec<u32> = markers.collect();
        markers.sort_unstable();
        markers.dedup();
        Decoder { tokenizer, markers }
    }

    /// Decodes ids that begin a prompt. An incomplete character at an end stays as raw bytes.
    pub fn decode(&self, ids: &[u32]) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::with_capacity(ids.len() * 4);
        let mut place = Some(TextPlace::Start);
        let adds_inside = self.tokenizer.prefix_space(TextPlace::Inside);
        let mut rest = ids;
        while let Some((id, behind)) = rest.split_first() {
            self.push(*id, &mut place, &mut bytes)?;
            rest = behind;
            // Ids stand for their bytes, unless they begin a text to which a space was added.
            let run = match adds_inside {
                true if place.is_some() => 0,
                true => rest.iter().position(|id| self.is_marker(*id)).unwrap_or(rest.len()),
                false => rest.len(),
            };
            rest = &rest[self.tokenizer.decode_bytes(&rest[..run], &mut bytes)..];
        }
        Ok(bytes)
    }

    /// Returns a decoder that takes the ids one by one, as a model generates them after its prompt.
    pub fn stream(&self) -> DecodeStream<'_> {
        // A tokenizer adds its prefix space at the beginning of a text, and a completion does not
        // begin a text.
        DecodeStream { decoder: self, place: None, bytes: Vec::new() }
    }

    /// Reports whether an id is a control token or another token that text never encodes to.
    pub fn is_marker(&self, id: u32) -> bool {
        // Most tokenizers have them before or after all other ids.
        let ends = self.markers.first().zip(self.markers.last());
        ends.is_some_and(|(first, last)| (*first..=*last).contains(&id)) && self.markers.binary_search(&id).is_ok()
    }

    /// Returns the texts of all these tokens, ordered by id.
    pub fn markers(&self) -> Vec<String> {
        self.markers.iter().filter_map(|id| self.tokenizer.token_text(*id)).collect()
    }

    /// Appends the bytes of an id inside a text, as a model generates it after its prompt. The
    /// bytes may end in an incomplete character.
    pub fn append(&self, id: u32, bytes: &mut Vec<u8>) -> Result<(), Error> {
        self.push(id, &mut None, bytes)
    }

    /// Appends the bytes of an id. `place` is set if a text begins with this id.
    fn push(&self, id: u32, place: &mut Option<TextPlace>, bytes: &mut Vec<u8>) -> Result<(), Error> {
        let unknown = || Error::UnknownId { id, size: self.tokenizer.vocabulary_size() };
        let start = bytes.len();
        let has_bytes = self.tokenizer.decode_bytes(&[id], bytes) == 1;
        if self.is_marker(id) {
            // If it has bytes, they are its text.
            if !has_bytes {
                bytes.truncate(start);
                bytes.extend_from_slice(self.tokenizer.token_text(id).ok_or_else(unknown)?.as_bytes());
            }
            *place = Some(TextPlace::Inside);
            return Ok(());
        }
        if !has_bytes {
            let text = self.tokenizer.token_text(id).ok_or_else(unknown)?;
            return Err(Error::NoBytes { id, text });
        }
        let begins = place.take().is_some_and(|place| self.tokenizer.prefix_space(place));
        if begins && bytes.get(start) == Some(&b' ') {
            bytes.remove(start);
        }
        Ok(())
    }
}

/// Decoder for the ids that a model generates, one by one. It returns each character as soon as it
/// is complete.
pub struct DecodeStream<'a> {
    decoder: &'a Decoder,
    place: Option<TextPlace>,
    /// The bytes of an incomplete character.
    bytes: Vec<u8>,
}

impl DecodeStream<'_> {
    /// Decodes from the beginning of a text, where some tokenizers add a space.
    #[must_use]
    pub fn at(mut self, place: TextPlace) -> Self {
        self.place = Some(place);
        self
    }

    /// Takes the next id and returns the text that is now complete. Bytes that can never become a
    /// character turn into U+FFFD.
    pub fn push(&mut self, id: u32) -> Result<String, Error> {
        self.decoder.push(id, &mut self.place, &mut self.bytes)?;
        let mut text = String::new();
        let mut from = 0;
        loop {
            match std::str::from_utf8(&self.bytes[from..]) {
                Ok(rest) => {
                    text.push_str(rest);
                    from = self.bytes.len();
                    break;
                }
                Err(error) => {
                    let whole = from + error.valid_up_to();
                    text.push_str(std::str::from_utf8(&self.bytes[from..whole]).unwrap_or_default());
                    from = whole;
                    // More bytes may complete the character.
                    let Some(wrong) = error.error_len() else { break };
                    text.push('\u{fffd}');
                    from += wrong;
                }
            }
        }
        self.bytes.drain(..from);
        Ok(text)
    }

    /// Returns the rest of the text if the model stops in the middle of a character.
    pub fn finish(self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}
