//! `tokenizer.json`, run by the `tokenizers` crate.
//!
//! Ordinary text never meets the crate's added vocabulary: it goes through the normalizer, the pre-tokenizer and the
//! model alone. What the model itself could still spell (its vocabulary may hold `<s>`) is cut apart in `forgery`.

mod file;
mod forgery;
mod normalizer;
mod plain;
mod post_processor;
mod prefix_space;
mod spelling;

use tokenizers::{
    Model, Normalizer, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer, PreTokenizerWrapper,
};

use self::file::File;
use self::forgery::Forgery;
use self::plain::PlainTokens;
use self::spelling::Spelling;
use super::config::Config;
use super::{AddedToken, Error, Kind, Place, Token, Tokenizer};

/// A tokenizer read from a `tokenizer.json`.
///
/// ```
/// # use rolecall_encode::tokenizer::{HuggingFace, Place, Tokenizer};
/// let json = br#"{
///   "added_tokens": [{"id": 3, "content": "<a>", "special": true,
///                     "normalized": false, "lstrip": false, "rstrip": false, "single_word": false}],
///   "model": {"type": "BPE", "vocab": {"<": 0, "a": 1, ">": 2}, "merges": []}
/// }"#;
/// let tokenizer = HuggingFace::from_bytes(json, None)?;
/// let mut tokens = Vec::new();
/// tokenizer.encode_ordinary("<a>", Place::Start, &mut tokens)?;
/// assert_eq!(tokens.iter().map(|token| token.id).collect::<Vec<_>>(), [0, 1, 2]);
/// # Ok::<(), rolecall_encode::tokenizer::Error>(())
/// ```
pub struct HuggingFace {
    /// Complete, but without post-processor, truncation and padding: those would change ids and spans.
    tokenizer: tokenizers::Tokenizer,
    /// The pre-tokenizer behind a control token, where it differs from the one at the prompt's start.
    inside: Option<PreTokenizerWrapper>,
    forgery: Forgery,
    plain: PlainTokens,
    protected: Vec<AddedToken>,
    kind: Kind,
    spelling: Spelling,
    prefix_at_start: bool,
    prefix_inside: bool,
    bos: Option<u32>,
    adds_bos: Option<u32>,
    adds_eos: Option<u32>,
}

impl HuggingFace {
    /// Reads a `tokenizer.json`, and the `tokenizer_config.json` beside it if there is one.
    pub fn from_bytes(json: &[u8], config: Option<&[u8]>) -> Result<Self, Error> {
        let mut file = File::from_bytes(json)?;
        let config = Config::from_bytes(config)?;
        let spelling = file.spelling;
        let (unknown, byte_fallback, kind) = (file.unknown, file.byte_fallback, file.kind);
        let around = post_processor::tokens_around(&file.post_processor);
        let mut added = file.added_tokens.clone();
        for token in config.added {
            // transformers: the config's flags win over those in tokenizer.json.
            match added.iter_mut().find(|known| known.text == token.text) {
                Some(known) => *known = token,
                None => added.push(token),
            }
        }
        if let Some(legacy) = config.legacy {
            prefix_space::modernize(&mut file.normalizer, &mut file.pre_tokenizer, legacy, config.add_prefix_space);
        }
        let tokenizer = file.into_tokenizer(&added)?;

        let (plain, mut protected): (Vec<_>, Vec<_>) = added.into_iter().partition(AddedToken::is_text);
        protected.sort_by_key(|token| token.id);
        let forgery = Forgery::new(tokenizer.get_model(), &protected, unknown, byte_fallback);
        let plain = PlainTokens::new(plain, tokenizer.get_normalizer())?;
        let inside = tokenizer.get_pre_tokenizer().and_then(prefix_space::inside);
        let id_of = |text: &Option<String>| text.as_deref().and_then(|text| tokenizer.token_to_id(text));
        // transformers: explicit flags in the config win over the post-processor, and a missing one is off.
        let (adds_bos, adds_eos) = match (config.add_bos, config.add_eos) {
            (None, None) => (around.before, around.behind),
            (bos, eos) => {
                (id_of(&config.bos).filter(|_| bos == Some(true)), id_of(&config.eos).filter(|_| eos == Some(true)))
            }
        };
        let bos = adds_bos.or_else(|| id_of(&config.bos));
        let prefix_at_start = prefix_space::adds(tokenizer.get_normalizer(), tokenizer.get_pre_tokenizer());
        let pre_tokenizer = inside.as_ref().or(tokenizer.get_pre_tokenizer());
        let prefix_inside = prefix_space::adds(tokenizer.get_normalizer(), pre_tokenizer);
        Ok(Self {
            inside,
            forgery,
            plain,
            protected,
            kind,
            spelling,
            prefix_at_start,
            prefix_inside,
            bos,
            adds_bos,
            adds_eos,
            tokenizer,
        })
    }

    /// Splits off nothing but the added tokens that are text, then normalizes.
    fn normalize_ordinary(&self, text: &str) -> Result<PreTokenizedString, Error> {
        let mut run = PreTokenizedString::from(text);
        self.plain.split_raw(&mut run)?;
        if let Some(normalizer) = self.tokenizer.get_normalizer() {
            run.normalize(|text| normalizer.normalize(text)).map_err(unencodable)?;
        }
        self.plain.split_normalized(&mut run)?;
        Ok(run)
    }

    fn encode(
        &self,
        text: &str,
        mut run: PreTokenizedString,
        place: Place,
        tokenize: impl Fn(&str) -> tokenizers::Result<Vec<tokenizers::Token>>,
        out: &mut Vec<Token>,
    ) -> Result<(), Error> {
        let pre_tokenizer = match place {
            Place::Start => self.tokenizer.get_pre_tokenizer(),
            Place::Inside => self.inside.as_ref().or(self.tokenizer.get_pre_tokenizer()),
        };
        if let Some(pre_tokenizer) = pre_tokenizer {
            pre_tokenizer.pre_tokenize(&mut run).map_err(unencodable)?;
        }
        run.tokenize(|word| tokenize(word.get())).map_err(unencodable)?;
        let encoding = run.into_encoding(None, 0, OffsetType::Byte).map_err(unencodable)?;
        let spans = encoding.get_offsets().iter();
        let first = out.len();
        out.extend(encoding.get_ids().iter().zip(spans).map(|(&id, &span)| Token::covering(id, span, text)));
        cover_marks(text, &mut out[first..]);
        Ok(())
    }
}

impl std::fmt::Debug for HuggingFace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        super::describe(self, "HuggingFace", f)
    }
}

impl Tokenizer for HuggingFace {
    fn encode_ordinary(&self, text: &str, place: Place, out: &mut Vec<Token>) -> Result<(), Error> {
        let run = self.normalize_ordinary(text)?;
        let model = self.tokenizer.get_model();
        self.encode(text, run, place, |word| self.forgery.tokenize(model, word), out)
    }

    fn encode_reference(&self, text: &str, place: Place, out: &mut Vec<Token>) -> Result<(), Error> {
        let added = self.tokenizer.get_added_vocabulary();
        let run = added.extract_and_normalize(self.tokenizer.get_normalizer(), text);
        self.encode(text, run, place, |word| self.tokenizer.get_model().tokenize(word), out)
    }

    fn normalizes(&self) -> bool {
        self.tokenizer.get_normalizer().is_some()
    }

    fn find_added(&self, text: &str, out: &mut Vec<Token>) -> Result<(), Error> {
        let added = self.tokenizer.get_added_vocabulary();
        let run = added.extract_and_normalize(self.tokenizer.get_normalizer(), text);
        for (_, span, tokens) in run.get_splits(OffsetReferential::Original, OffsetType::Byte) {
            let found = tokens.iter().flatten().map(|token| Token::covering(token.id, span, text));
            out.extend(found.filter(|token| self.protected.iter().any(|added| added.id == token.id)));
        }
        Ok(())
    }

    fn added_tokens(&self) -> &[AddedToken] {
        &self.protected
    }

    fn token_id(&self, text: &str) -> Option<u32> {
        self.tokenizer.token_to_id(text)
    }

    fn token_text(&self, id: u32) -> Option<String> {
        let added = self.tokenizer.get_added_vocabulary().get_added_tokens_decoder();
        added.get(&id).map(|token| token.content.clone()).or_else(|| self.tokenizer.get_model().id_to_token(id))
    }

    fn token_bytes(&self, id: u32, out: &mut Vec<u8>) -> bool {
        if let Some(added) = self.tokenizer.get_added_vocabulary().get_added_tokens_decoder().get(&id) {
            out.extend_from_slice(added.content.as_bytes());
            return true;
        }
        self.tokenizer.get_model().id_to_token(id).is_some_and(|text| self.spelling.write(&text, out))
    }

    fn prefix_space(&self, place: Place) -> bool {
        match place {
            Place::Start => self.prefix_at_start,
            Place::Inside => self.prefix_inside,
        }
    }

    fn vocabulary_size(&self) -> usize {
        self.tokenizer.get_vocab_size(true)
    }

    fn kind(&self) -> Kind {
        self.kind
    }

    fn bos(&self) -> Option<u32> {
        self.bos
    }

    fn adds_bos(&self) -> Option<u32> {
        self.adds_bos
    }

    fn adds_eos(&self) -> Option<u32> {
        self.adds_eos
    }
}

/// Gives text that no token spans to the token before it, up to the next white space.
///
/// Where a normalizer joins a letter and the mark behind it, the crate leaves the mark out of the span.
fn cover_marks(text: &str, tokens: &mut [Token]) {
    let mut next_start = text.len();
    let mut later: Option<(Token, usize)> = None;
    for token in tokens.iter_mut().rev() {
        let before = *token;
        if let Some(gap) = text.get(token.end..next_start) {
            token.end += gap.find(char::is_whitespace).unwrap_or(gap.len());
        } else if let Some((same, end)) = later
            && (same.start, same.end) == (token.start, token.end)
        {
            // Tokens that share a character share the mark.
            token.end = end;
        }
        later = Some((before, token.end));
        next_start = next_start.min(token.start);
    }
}

fn unencodable(error: tokenizers::Error) -> Error {
    Error::Unencodable { why: error.to_string() }
}
