use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use rolecall::tokenizer::{AddedToken, Error, TextPlace, Token, Tokenizer, TokenizerKind};

/// A vocabulary with the markers of a template as added tokens, as the template's own model would
/// have them.
///
/// ```
/// use std::sync::Arc;
/// use rolecall::tokenizer::Tokenizer;
/// use rolecall_testkit::{Toy, sessions::Fitted};
/// let none = rolecall::format::Format::default();
/// let fitted = Fitted::new(Arc::new(Toy::of(&none)), &["<|user|>".to_owned()]);
/// assert_eq!(fitted.token_id("<|user|>"), Some(Fitted::FIRST));
/// ```
pub struct Fitted {
    inner: Arc<dyn Tokenizer>,
    /// The tokens of both.
    added: Vec<AddedToken>,
    own: Vec<AddedToken>,
    /// Our own tokens that text may become.
    plain: Vec<AddedToken>,
}

impl Fitted {
    /// The id of the first added marker.
    pub const FIRST: u32 = 3_000_000;

    /// Adds the markers that the vocabulary lacks.
    pub fn new(inner: Arc<dyn Tokenizer>, markers: &[String]) -> Fitted {
        let missing = markers.iter().filter(|marker| inner.token_id(marker).is_none());
        let own: Vec<AddedToken> = (Fitted::FIRST..).zip(missing).map(|(id, text)| token(id, text)).collect();
        let mut added = inner.added_tokens().to_vec();
        added.extend(own.iter().cloned());
        Fitted { inner, added, own, plain: Vec::new() }
    }

    fn cut(
        &self,
        text: &str,
        place: TextPlace,
        added: &[AddedToken],
        out: &mut Vec<Token>,
        encode: impl Fn(&str, TextPlace, &mut Vec<Token>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (mut from, mut at) = (0, 0);
        let piece = |from: usize, to: usize, out: &mut Vec<Token>| {
            if from == to {
                return Ok(());
            }
            let start = out.len();
            encode(&text[from..to], if from == 0 { place } else { TextPlace::Inside }, out)?;
            for token in &mut out[start..] {
                let Range { start, end } = token.range();
                *token = Token::new(token.id, start + from, end + from);
            }
            Ok(())
        };
        while at < text.len() {
            let rest = &text[at..];
            let spelled = added.iter().filter(|token| rest.starts_with(&token.text));
            let Some(token) = spelled.max_by_key(|token| token.text.len()) else {
                at += rest.chars().next().map_or(1, char::len_utf8);
                continue;
            };
            piece(from, at, out)?;
            from = at + token.text.len();
            out.push(Token::new(token.id, at, from));
            at = from;
        }
        piece(from, text.len(), out)
    }

    fn own_by(&self, is: impl Fn(&AddedToken) -> bool) -> Option<&AddedToken> {
        self.own.iter().find(|token| is(token))
    }
}

fn token(id: u32, text: &str) -> AddedToken {
    AddedToken {
        text: text.to_owned(),
        id,
        special: true,
        normalized: false,
        lstrip: false,
        rstrip: false,
        single_word: false,
    }
}

impl Tokenizer for Fitted {
    fn encode_ordinary(&self, text: &str, place: TextPlace, out: &mut Vec<Token>) -> Result<(), Error> {
        self.cut(text, place, &self.plain, out, |text, place, out| self.inner.encode_ordinary(text, place, out))
    }

    fn encode_reference(&self, text: &str, place: TextPlace, out: &mut Vec<Token>) -> Result<(), Error> {
        self.cut(text, place, &self.own, out, |text, place, out| self.inner.encode_reference(text, place, out))
    }

    fn keeping_out(&self, ids: &BTreeSet<u32>) -> Result<Arc<dyn Tokenizer>, Error> {
        let inner = self.inner.keeping_out(&ids.iter().copied().filter(|id| *id < Fitted::FIRST).collect())?;
        let plain = self.own.iter().filter(|token| !ids.contains(&token.id)).cloned().collect();
        Ok(Arc::new(Fitted { inner, added: self.added.clone(), own: self.own.clone(), plain }))
    }

    fn named(&self) -> &[rolecall::tokenizer::NamedToken] {
        self.inner.named()
    }

    fn added_tokens(&self) -> &[AddedToken] {
        &self.added
    }

    fn token_bytes(&self, id: u32, out: &mut Vec<u8>) -> bool {
        match self.own_by(|token| token.id == id) {
            Some(token) => {
                out.extend_from_slice(token.text.as_bytes());
                true
            }
            None => self.inner.token_bytes(id, out),
        }
    }

    fn token_id(&self, text: &str) -> Option<u32> {
        self.own_by(|token| token.text == text).map(|token| token.id).or_else(|| self.inner.token_id(text))
    }

    fn token_text(&self, id: u32) -> Option<String> {
        self.own_by(|token| token.id == id).map(|token| token.text.clone()).or_else(|| self.inner.token_text(id))
    }

    fn vocabulary_size(&self) -> usize {
        self.inner.vocabulary_size() + self.own.len()
    }

    fn kind(&self) -> TokenizerKind {
        self.inner.kind()
    }

    fn prefix_space(&self, place: TextPlace) -> bool {
        self.inner.prefix_space(place)
    }

    fn adds_bos(&self) -> Option<u32> {
        None
    }

    fn adds_eos(&self) -> Option<u32> {
        None
    }
}
