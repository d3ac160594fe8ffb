//! `tokenizer.json`: by our own engine where that covers the file, by the `tokenizers` crate where it does not.
//!
//! `file` reads and checks, `covered` decides, `reference` is the crate, built only when there is something for it to do.

mod added_vocabulary;
mod bpe_model;
mod covered;
mod file;
mod forgery;
mod limits;
mod normalizer;
mod plain;
mod post_processor;
mod prefix_space;
mod reference;
mod spelling;

use std::sync::OnceLock;

use tokenizers::{Model, ModelWrapper, NormalizerWrapper, PreTokenizerWrapper};

use self::added_vocabulary::AddedVocabulary;
use self::bpe_model::BpeModel;
use self::file::{File, FileModel};
use self::reference::Reference;
use self::spelling::Spelling;
use super::config::Config;
use super::own::{Own, Reading, Unencoded};
use super::{AddedToken, Engine, Error, Kind, Place, Token, Tokenizer};

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
    own: Result<Own, String>,
    parts: Parts,
    reference: OnceLock<Result<Reference, String>>,
    vocabulary: AddedVocabulary,
    protected: Vec<AddedToken>,
    kind: Kind,
    spelling: Spelling,
    prefix_at_start: bool,
    prefix_inside: bool,
    bos: Option<u32>,
    adds_bos: Option<u32>,
    adds_eos: Option<u32>,
}

/// What the reference crate is built from.
struct Parts {
    /// None for a model that the crate alone has.
    model: Option<BpeModel>,
    normalizer: Option<NormalizerWrapper>,
    pre_tokenizer: Option<PreTokenizerWrapper>,
    added: Vec<AddedToken>,
    unknown: Option<u32>,
    byte_fallback: bool,
}

impl HuggingFace {
    /// Reads a `tokenizer.json`, and the `tokenizer_config.json` beside it if there is one.
    pub fn from_bytes(json: &[u8], config: Option<&[u8]>) -> Result<Self, Error> {
        Self::from_file(File::from_bytes(json)?, Config::from_bytes(config)?)
    }

    /// Puts the parts of a file together; whatever a vocabulary is read from, its engine is chosen here.
    fn from_file(mut file: File, config: Config) -> Result<Self, Error> {
        let around = post_processor::tokens_around(&file.post_processor);
        let mut added = file.added_tokens;
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
        let mut parts = Parts {
            model: None,
            normalizer: file.normalizer,
            pre_tokenizer: file.pre_tokenizer,
            added,
            unknown: file.unknown,
            byte_fallback: file.byte_fallback,
        };
        let reference = OnceLock::new();
        let (vocabulary, own) = match file.model {
            FileModel::Bpe(model) => {
                let vocabulary = AddedVocabulary::new(&parts.added, |text| model.id(text), model.vocab.len())?;
                let (normalizer, pre_tokenizer) = (parts.normalizer.as_ref(), parts.pre_tokenizer.as_ref());
                let own = covered::build_own(&model, normalizer, pre_tokenizer, &parts.added);
                parts.model = Some(model);
                (vocabulary, own)
            }
            FileModel::Other(model) => {
                let vocabulary =
                    AddedVocabulary::new(&parts.added, |text| model.token_to_id(text), model.get_vocab_size())?;
                let built = parts.reference(model)?;
                reference.get_or_init(|| Ok(built));
                (vocabulary, Err(format!("a {} model", file.kind)))
            }
        };
        let mut protected: Vec<_> = parts.added.iter().filter(|token| !token.is_text()).cloned().collect();
        protected.sort_by_key(|token| token.id);
        let (normalizer, pre_tokenizer) = (parts.normalizer.as_ref(), parts.pre_tokenizer.as_ref());
        let inside = pre_tokenizer.and_then(prefix_space::inside);
        let mut tokenizer = Self {
            prefix_at_start: prefix_space::adds(normalizer, pre_tokenizer),
            prefix_inside: prefix_space::adds(normalizer, inside.as_ref().or(pre_tokenizer)),
            bos: None,
            spelling: file.spelling,
            own,
            parts,
            reference,
            vocabulary,
            protected,
            kind: file.kind,
            adds_bos: around.before,
            adds_eos: around.behind,
        };
        if tokenizer.own.is_err() {
            // What is wrong with a file is said when it is loaded.
            tokenizer.reference()?;
        }
        // transformers: explicit flags in the config win over the post-processor, and a missing one is off.
        let id_of = |text: &Option<String>| text.as_deref().and_then(|text| tokenizer.token_id(text));
        let named_bos = id_of(&config.bos);
        if (config.add_bos, config.add_eos) != (None, None) {
            let bos = id_of(&config.bos).filter(|_| config.add_bos == Some(true));
            let eos = id_of(&config.eos).filter(|_| config.add_eos == Some(true));
            (tokenizer.adds_bos, tokenizer.adds_eos) = (bos, eos);
        }
        tokenizer.bos = tokenizer.adds_bos.or(named_bos);
        for (place, id) in [("before", tokenizer.adds_bos), ("behind", tokenizer.adds_eos)] {
            if let Some(id) = id.filter(|&id| tokenizer.token_text(id).is_none()) {
                let why = format!("it puts id {id} {place} a text, which is no token");
                return Err(Error::malformed("post_processor", why));
            }
        }
        Ok(tokenizer)
    }

    /// The same tokenizer run by the reference crate, to compare with.
    pub fn with_reference_engine(self) -> Result<Self, Error> {
        let own = Err("as the caller wants it".to_owned());
        let tokenizer = Self { own: self.own.and(own), ..self };
        tokenizer.reference()?;
        Ok(tokenizer)
    }

    fn reference(&self) -> Result<&Reference, Error> {
        let built = self.reference.get_or_init(|| {
            let model = self.parts.model.as_ref().ok_or_else(|| "no model".to_owned())?;
            let model = model.to_crate().map_err(|error| error.to_string())?;
            self.parts.reference(model.into()).map_err(|error| error.to_string())
        });
        built.as_ref().map_err(|why| Error::malformed("tokenizer.json", why.as_str()))
    }
}

impl std::fmt::Debug for HuggingFace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        super::describe(self, "HuggingFace", f)
    }
}

impl Tokenizer for HuggingFace {
    fn encode_ordinary(&self, text: &str, place: Place, out: &mut Vec<Token>) -> Result<(), Error> {
        match self.own.as_ref().map(|own| own.encode(text, place, Reading::Ordinary, out)) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(Unencoded::Error(error))) => Err(error),
            Ok(Err(Unencoded::NotCovered)) | Err(_) => self.reference()?.encode_ordinary(text, place, out),
        }
    }

    fn encode_reference(&self, text: &str, place: Place, out: &mut Vec<Token>) -> Result<(), Error> {
        match self.own.as_ref().map(|own| own.encode(text, place, Reading::Reference, out)) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(Unencoded::Error(error))) => Err(error),
            Ok(Err(Unencoded::NotCovered)) | Err(_) => self.reference()?.encode_reference(text, place, out),
        }
    }

    fn normalizes(&self) -> bool {
        self.parts.normalizer.is_some()
    }

    fn find_added(&self, text: &str, out: &mut Vec<Token>) -> Result<(), Error> {
        let mut found = Vec::new();
        if !self.own.as_ref().is_ok_and(|own| own.find_added(text, &mut found)) {
            self.reference()?.find_added(text, &mut found);
        }
        let is_protected = |token: &Token| self.protected.binary_search_by_key(&token.id, |added| added.id).is_ok();
        out.extend(found.into_iter().filter(is_protected));
        Ok(())
    }

    fn added_tokens(&self) -> &[AddedToken] {
        &self.protected
    }

    fn text_tokens(&self) -> Vec<AddedToken> {
        self.parts.added.iter().filter(|token| token.is_text()).cloned().collect()
    }

    fn token_id(&self, text: &str) -> Option<u32> {
        self.vocabulary.id(text).or_else(|| match &self.parts.model {
            Some(model) => model.id(text),
            None => self.reference().ok()?.model().token_to_id(text),
        })
    }

    fn token_text(&self, id: u32) -> Option<String> {
        let model_text = || match &self.parts.model {
            Some(model) => model.text(id).map(str::to_owned),
            None => self.reference().ok()?.model().id_to_token(id),
        };
        self.vocabulary.text(id).map(str::to_owned).or_else(model_text)
    }

    fn token_bytes(&self, id: u32, out: &mut Vec<u8>) -> bool {
        if let Some(added) = self.vocabulary.text(id) {
            out.extend_from_slice(added.as_bytes());
            return true;
        }
        match &self.parts.model {
            Some(model) => model.text(id).is_some_and(|text| self.spelling.write(text, out)),
            None => self.token_text(id).is_some_and(|text| self.spelling.write(&text, out)),
        }
    }

    fn prefix_space(&self, place: Place) -> bool {
        match place {
            Place::Start => self.prefix_at_start,
            Place::Inside => self.prefix_inside,
        }
    }

    fn vocabulary_size(&self) -> usize {
        let model_size = match &self.parts.model {
            Some(model) => model.vocab.len(),
            None => self.reference().map_or(0, |reference| reference.model().get_vocab_size()),
        };
        model_size + self.vocabulary.beyond()
    }

    fn engine(&self) -> Engine {
        match &self.own {
            Ok(_) => Engine::Own,
            Err(why) => Engine::Crate { why: why.clone() },
        }
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

impl Parts {
    fn reference(&self, model: ModelWrapper) -> Result<Reference, Error> {
        let (normalizer, pre_tokenizer) = (self.normalizer.clone(), self.pre_tokenizer.clone());
        Reference::new(model, normalizer, pre_tokenizer, &self.added, self.unknown, self.byte_fallback)
    }
}

/// Gives text that no token spans to the token before it, up to the next white space.
///
/// Where a normalizer joins a letter and the mark behind it, the crate leaves the mark out of the span.
pub(super) fn cover_marks(text: &str, tokens: &mut [Token]) {
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
