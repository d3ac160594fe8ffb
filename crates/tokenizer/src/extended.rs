use std::collections::BTreeSet;
use std::sync::Arc;

use super::{AddedToken, Engine, Error, NamedToken, TextPlace, Token, Tokenizer, TokenizerKind};

/// A tokenizer with tokens after its vocabulary that its file does not have, because the maker's
/// code appends them. Text never encodes to them.
///
/// ```
/// use std::sync::Arc;
/// use rolecall_tokenizer::{AddedToken, ExtendedTokenizer, HuggingFace, Tokenizer};
/// let json = br#"{"added_tokens": [], "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}}"#;
/// let tokenizer = Arc::new(HuggingFace::from_bytes(json, None)?);
/// let extended = ExtendedTokenizer::over(tokenizer, vec![AddedToken::special("<|user|>".into(), 2)]);
/// assert_eq!(extended.token_text(2).as_deref(), Some("<|user|>"));
/// # Ok::<(), rolecall_tokenizer::Error>(())
/// ```
pub struct ExtendedTokenizer {
    tokenizer: Arc<dyn Tokenizer>,
    appended: Vec<AddedToken>,
    /// The added tokens of the file and the appended ones, ordered by id.
    added: Vec<AddedToken>,
}

impl ExtendedTokenizer {
    /// Appends tokens to a tokenizer, except those whose id or text it has. If none are left, the
    /// tokenizer is returned as it is.
    pub fn over(tokenizer: Arc<dyn Tokenizer>, tokens: Vec<AddedToken>) -> Arc<dyn Tokenizer> {
        let is_new =
            |token: &AddedToken| tokenizer.token_text(token.id).is_none() && tokenizer.token_id(&token.text).is_none();
        let appended: Vec<AddedToken> = tokens.into_iter().filter(is_new).collect();
        match appended.is_empty() {
            true => tokenizer,
            false => Arc::new(ExtendedTokenizer::new(tokenizer, appended)),
        }
    }

    fn new(tokenizer: Arc<dyn Tokenizer>, appended: Vec<AddedToken>) -> ExtendedTokenizer {
        let mut added = [tokenizer.added_tokens(), &appended].concat();
        added.sort_by_key(|token| token.id);
        ExtendedTokenizer { tokenizer, appended, added }
    }

    fn appended(&self, id: u32) -> Option<&AddedToken> {
        self.appended.iter().find(|token| token.id == id)
    }
}

impl std::fmt::Debug for ExtendedTokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        super::describe(self, "Extended", f)
    }
}

impl Tokenizer for ExtendedTokenizer {
    fn encode_ordinary(&self, text: &str, place: TextPlace, out: &mut Vec<Token>) -> Result<(), Error> {
        self.tokenizer.encode_ordinary(text, place, out)
    }

    fn encode_ids(&self, text: &str, place: TextPlace, out: &mut Vec<u32>) -> Result<(), Error> {
        self.tokenizer.encode_ids(text, place, out)
    }

    fn keeping_out(&self, ids: &BTreeSet<u32>) -> Result<Arc<dyn Tokenizer>, Error> {
        let own = ids.iter().copied().filter(|id| self.appended(*id).is_none()).collect();
        Ok(Arc::new(ExtendedTokenizer::new(self.tokenizer.keeping_out(&own)?, self.appended.clone())))
    }

    fn named(&self) -> &[NamedToken] {
        self.tokenizer.named()
    }

    fn chat_control_tokens(&self) -> Option<&[String]> {
        self.tokenizer.chat_control_tokens()
    }

    fn unknown(&self) -> Option<u32> {
        self.tokenizer.unknown()
    }

    fn encode_at_most(&self, text: &str, place: TextPlace, most: usize, out: &mut Vec<Token>) -> Result<(), Error> {
        self.tokenizer.encode_at_most(text, place, most, out)
    }

    fn encode_in_parts(&self, text: &str, place: TextPlace, take: &mut dyn FnMut(&[Token])) -> Result<(), Error> {
        self.tokenizer.encode_in_parts(text, place, take)
    }

    fn encode_reference(&self, text: &str, place: TextPlace, out: &mut Vec<Token>) -> Result<(), Error> {
        self.tokenizer.encode_reference(text, place, out)
    }

    fn normalizes(&self) -> bool {
        self.tokenizer.normalizes()
    }

    fn find_added(&self, text: &str, out: &mut Vec<Token>) -> Result<(), Error> {
        self.tokenizer.find_added(text, out)
    }

    fn added_tokens(&self) -> &[AddedToken] {
        &self.added
    }

    fn text_tokens(&self) -> Vec<AddedToken> {
        self.tokenizer.text_tokens()
    }

    fn token_id(&self, text: &str) -> Option<u32> {
        let appended = || self.appended.iter().find(|token| token.text == text).map(|token| token.id);
        self.tokenizer.token_id(text).or_else(appended)
    }

    fn token_text(&self, id: u32) -> Option<String> {
        match self.appended(id) {
            Some(token) => Some(token.text.clone()),
            None => self.tokenizer.token_text(id),
        }
    }

    fn token_bytes(&self, id: u32, out: &mut Vec<u8>) -> bool {
        match self.appended(id) {
            Some(token) => {
                out.extend_from_slice(token.text.as_bytes());
                true
            }
            None => self.tokenizer.token_bytes(id, out),
        }
    }

    fn decode_bytes(&self, ids: &[u32], out: &mut Vec<u8>) -> usize {
        let mut count = 0;
        loop {
            count += self.tokenizer.decode_bytes(&ids[count..], out);
            let Some(token) = ids.get(count).and_then(|id| self.appended(*id)) else { return count };
            out.extend_from_slice(token.text.as_bytes());
            count += 1;
        }
    }

    fn prefix_space(&self, place: TextPlace) -> bool {
        self.tokenizer.prefix_space(place)
    }

    fn vocabulary_size(&self) -> usize {
        self.tokenizer.vocabulary_size() + self.appended.len()
    }

    fn kind(&self) -> TokenizerKind {
        self.tokenizer.kind()
    }

    fn bos(&self) -> Option<u32> {
        self.tokenizer.bos()
    }

    fn engine(&self) -> Engine {
        self.tokenizer.engine()
    }

    fn adds_bos(&self) -> Option<u32> {
        self.tokenizer.adds_bos()
    }

    fn adds_eos(&self) -> Option<u32> {
        self.tokenizer.adds_eos()
    }
}
