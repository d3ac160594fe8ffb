//! Reads `tokenizer.json`. Our own engine encodes if it covers the file, and the `tokenizers` crate
//! otherwise.
//!
//! `file` reads and validates the file, `covered` chooses the engine, and `reference` wraps the
//! crate, which is built only when it is needed.

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

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use tokenizers::{Model, ModelWrapper, NormalizerWrapper, PreTokenizerWrapper};

use self::added_vocabulary::AddedVocabulary;
use self::bpe_model::BpeModel;
use self::file::{FileModel, TokenizerJson};
use self::reference::{Reference, Whole};
use self::spelling::Spelling;
use super::added::is_space;
use super::config::Config;
use super::native::{Core, Kept, Native, NativeRefusal, Out, PART, Reading};
use super::token_bytes::TokenBytes;
use super::{
    AddedToken, Beside, Engine, Error, NamedToken, TextPlace, Token, TokenRef, Tokenizer, TokenizerKind, check_length,
};

/// Reports whether a file looks like a JSON object, as a `tokenizer.json` does.
pub(super) fn is_object(bytes: &[u8]) -> bool {
    bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{')
}

/// A tokenizer read from a `tokenizer.json`.
///
/// ```
/// # use rolecall_tokenizer::{HuggingFace, TextPlace, Tokenizer};
/// let json = br#"{
///   "added_tokens": [{"id": 3, "content": "<a>", "special": true,
///                     "normalized": false, "lstrip": false, "rstrip": false, "single_word": false}],
///   "model": {"type": "BPE", "vocab": {"<": 0, "a": 1, ">": 2}, "merges": []}
/// }"#;
/// let tokenizer = HuggingFace::from_bytes(json, None)?;
/// let mut tokens = Vec::new();
/// tokenizer.encode_ordinary("<a>", TextPlace::Start, &mut tokens)?;
/// assert_eq!(tokens.iter().map(|token| token.id).collect::<Vec<_>>(), [0, 1, 2]);
/// # Ok::<(), rolecall_tokenizer::Error>(())
/// ```
pub struct HuggingFace {
    shared: Arc<Shared>,
    /// The tokens that are kept out of text.
    out: BTreeSet<u32>,
    own: Result<Native, String>,
    reference: OnceLock<Result<Reference, String>>,
}

/// The parts that do not depend on which tokens are kept out of text.
struct Shared {
    core: Result<Arc<Core>, String>,
    parts: Parts,
    whole: OnceLock<Result<Arc<Whole>, String>>,
    vocabulary: AddedVocabulary,
    /// The added tokens that are not text.
    added: Vec<AddedToken>,
    kind: TokenizerKind,
    spelling: Spelling,
    /// Collected when ids are first decoded.
    bytes: OnceLock<TokenBytes>,
    prefix_at_start: bool,
    prefix_inside: bool,
    bos: Option<u32>,
    adds_bos: Option<u32>,
    adds_eos: Option<u32>,
    /// The token for text that cannot be encoded otherwise.
    stands_in: Option<u32>,
    named: Vec<NamedToken>,
    chat_control: Option<Vec<String>>,
}

/// The parts from which the reference crate is built.
struct Parts {
    /// `None` for a model that only the crate supports.
    model: Option<BpeModel>,
    normalizer: Option<NormalizerWrapper>,
    pre_tokenizer: Option<PreTokenizerWrapper>,
    added: Vec<AddedToken>,
    unknown: Option<u32>,
    byte_fallback: bool,
}

impl HuggingFace {
    /// Reads a `tokenizer.json`, with the `tokenizer_config.json` next to it if there is one.
    pub fn from_bytes<'a>(json: &[u8], beside: impl Into<Beside<'a>>) -> Result<Self, Error> {
        Self::from_file(TokenizerJson::from_bytes(json)?, Config::beside(beside.into())?)
    }

    /// Assembles the parts of a file and chooses its engine, whatever kind of file the vocabulary
    /// comes from.
    fn from_file(mut file: TokenizerJson, config: Config) -> Result<Self, Error> {
        let around = post_processor::tokens_around(&file.post_processor);
        let added = added_tokens(&mut file, config.added, &config.named);
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
        let whole = OnceLock::new();
        let mut stands_in = parts.unknown;
        let (vocabulary, core) = match file.model {
            FileModel::Bpe(model) => {
                let vocabulary = AddedVocabulary::new(&parts.added, |text| model.id(text), model.vocab.len())?;
                let (normalizer, pre_tokenizer) = (parts.normalizer.as_ref(), parts.pre_tokenizer.as_ref());
                let core = covered::build_core(&model, normalizer, pre_tokenizer, &parts.added);
                let has_all = match file.kind == TokenizerKind::ByteLevelBpe {
                    true => covered::has_all_bytes(&model),
                    false => model.byte_fallback && model.byte_ids().is_some(),
                };
                // Text that can be spelled in bytes is never unknown.
                stands_in = parts.unknown.filter(|_| !has_all);
                parts.model = Some(model);
                (vocabulary, core.map(Arc::new))
            }
            FileModel::Other(model) => {
                let vocabulary =
                    AddedVocabulary::new(&parts.added, |text| model.token_to_id(text), model.get_vocab_size())?;
                let is_byte = |byte: u8| model.token_to_id(&crate::byte_alphabet::byte_name(byte)).is_some();
                stands_in = stands_in.filter(|_| !(parts.byte_fallback && (0..=u8::MAX).all(is_byte)));
                let built = Arc::new(parts.whole(model)?);
                whole.get_or_init(|| Ok(built));
                (vocabulary, Err(format!("a {} model", file.kind)))
            }
        };
        let mut added: Vec<_> = parts.added.iter().filter(|token| !token.is_text()).cloned().collect();
        added.sort_by_key(|token| token.id);
        let (normalizer, pre_tokenizer) = (parts.normalizer.as_ref(), parts.pre_tokenizer.as_ref());
        let inside = pre_tokenizer.and_then(prefix_space::inside);
        let mut shared = Shared {
            prefix_at_start: prefix_space::adds(normalizer, pre_tokenizer),
            prefix_inside: prefix_space::adds(normalizer, inside.as_ref().or(pre_tokenizer)),
            bos: None,
            spelling: file.spelling,
            bytes: OnceLock::new(),
            core,
            parts,
            whole,
            vocabulary,
            added,
            kind: file.kind,
            adds_bos: around.before,
            adds_eos: around.behind,
            stands_in,
            named: config.named,
            chat_control: config.chat_control,
        };
        // transformers: explicit flags in the config take precedence over the post-processor, and a
        // missing flag means false.
        let id_of = |text: &Option<String>| text.as_deref().and_then(|text| shared.token_id(text));
        let named_bos = id_of(&config.bos);
        if (config.add_bos, config.add_eos) != (None, None) {
            let bos = id_of(&config.bos).filter(|_| config.add_bos == Some(true));
            let eos = id_of(&config.eos).filter(|_| config.add_eos == Some(true));
            (shared.adds_bos, shared.adds_eos) = (bos, eos);
        }
        shared.bos = shared.adds_bos.or(named_bos);
        for (place, id) in [("before", shared.adds_bos), ("after", shared.adds_eos)] {
            if let Some(id) = id.filter(|&id| shared.token_text(id).is_none()) {
                let why = format!("expected a token to add {place} a text, found id {id}, which does not exist");
                return Err(Error::malformed("post_processor", why));
            }
        }
        let out = shared.added.iter().map(|token| token.id).collect();
        Self::of_shared(Arc::new(shared), out)
    }

    fn of_shared(shared: Arc<Shared>, out: BTreeSet<u32>) -> Result<Self, Error> {
        let own = match (&shared.core, &shared.parts.model) {
            (Ok(core), Some(model)) => covered::build_own(core, model, &shared.parts.added, &out),
            (Ok(_), None) => Err("no model".to_owned()),
            (Err(why), _) => Err(why.clone()),
        };
        let tokenizer = Self { shared, out, own, reference: OnceLock::new() };
        if tokenizer.own.is_err() {
            // Report problems with a file when it is loaded.
            tokenizer.reference()?;
        }
        Ok(tokenizer)
    }

    /// Returns the same tokenizer, run by the reference crate for comparison.
    pub fn with_reference_engine(self) -> Result<Self, Error> {
        let own = Err("at the caller's request".to_owned());
        let tokenizer = Self { own: self.own.and(own), ..self };
        tokenizer.reference()?;
        Ok(tokenizer)
    }

    fn reference(&self) -> Result<&Reference, Error> {
        let built = self.reference.get_or_init(|| {
            let whole = self.shared.whole().map_err(|error| error.to_string())?;
            let Parts { added, unknown, byte_fallback, .. } = &self.shared.parts;
            Reference::new(Arc::clone(whole), added, &self.out, *unknown, *byte_fallback).map_err(|e| e.to_string())
        });
        built.as_ref().map_err(|why| Error::malformed("tokenizer.json", why.as_str()))
    }
}

/// Returns the added tokens of a file, with those of the config and those that other files name.
fn added_tokens(file: &mut TokenizerJson, of_config: Vec<AddedToken>, named: &[NamedToken]) -> Vec<AddedToken> {
    let mut added = std::mem::take(&mut file.added_tokens);
    for token in of_config {
        // transformers: the config's flags take precedence over those in tokenizer.json.
        match added.iter_mut().find(|known| known.text == token.text) {
            Some(known) => *known = token,
            None => added.push(token),
        }
    }
    match &file.model {
        FileModel::Bpe(model) => {
            let has_bytes = model.byte_fallback && model.byte_ids().is_some();
            let text = |id| model.text(id).map(str::to_owned);
            add_named(&mut added, named, !has_bytes, |text| model.id(text), text);
        }
        FileModel::Other(model) => {
            let needs_characters = !file.byte_fallback;
            let id = |text: &str| model.token_to_id(text);
            add_named(&mut added, named, needs_characters, id, |id| model.id_to_token(id));
        }
    }
    added
}

impl Shared {
    fn whole(&self) -> Result<&Arc<Whole>, Error> {
        let built = self.whole.get_or_init(|| {
            let model = self.parts.model.as_ref().ok_or_else(|| "no model".to_owned())?;
            let model = model.to_crate().map_err(|error| error.to_string())?;
            self.parts.whole(model.into()).map(Arc::new).map_err(|error| error.to_string())
        });
        built.as_ref().map_err(|why| Error::malformed("tokenizer.json", why.as_str()))
    }

    fn token_id(&self, text: &str) -> Option<u32> {
        self.vocabulary.id(text).or_else(|| match &self.parts.model {
            Some(model) => model.id(text),
            None => self.whole().ok()?.model().token_to_id(text),
        })
    }

    fn token_text(&self, id: u32) -> Option<String> {
        let model_text = || match &self.parts.model {
            Some(model) => model.text(id).map(str::to_owned),
            None => self.whole().ok()?.model().id_to_token(id),
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
}

/// Adds the tokens that files name and that the list of added tokens lacks, as transformers does. A
/// character that text needs is not such a token, whatever a file says, and neither is white space.
fn add_named(
    added: &mut Vec<AddedToken>,
    named: &[NamedToken],
    needs_characters: bool,
    id_of: impl Fn(&str) -> Option<u32>,
    text_of: impl Fn(u32) -> Option<String>,
) {
    for named in named {
        let found = match &named.token {
            TokenRef::Text(text) => id_of(text).map(|id| (text.clone(), id)),
            TokenRef::Id(id) => text_of(*id).map(|text| (text, *id)),
        };
        let Some((text, id)) = found else { continue };
        let is_needed = needs_characters && text.chars().count() == 1;
        let is_known = added.iter().any(|known| known.text == text || known.id == id);
        if !is_needed && !is_known && !is_space(&text) {
            added.push(AddedToken::special(text, id));
        }
    }
}

impl std::fmt::Debug for HuggingFace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        super::describe(self, "HuggingFace", f)
    }
}

thread_local! {
    /// Room for the tokens of one text. A prompt has many short ones, one after the other.
    static ROOM: Cell<Vec<Token>> = const { Cell::new(Vec::new()) };
}

impl HuggingFace {
    /// Encodes with our own engine. Returns `None` if the reference crate must encode the text.
    fn encode_own<K: Kept>(
        &self,
        text: &str,
        place: TextPlace,
        reading: Reading,
        out: Out<'_, K>,
    ) -> Option<Result<(), Error>> {
        match self.own.as_ref().ok()?.encode(text, place, reading, out) {
            Ok(()) => Some(Ok(())),
            Err(NativeRefusal::Error(error)) => Some(Err(error)),
            Err(NativeRefusal::NotCovered) => None,
        }
    }
}

impl Tokenizer for HuggingFace {
    fn encode_ordinary(&self, text: &str, place: TextPlace, out: &mut Vec<Token>) -> Result<(), Error> {
        self.encode_at_most(text, place, usize::MAX, out)
    }

    fn encode_at_most(&self, text: &str, place: TextPlace, most: usize, out: &mut Vec<Token>) -> Result<(), Error> {
        match self.encode_own(text, place, Reading::Ordinary, Out::behind(out).at_most(most)) {
            Some(done) => done,
            None => self.reference()?.encode_ordinary(text, place, out),
        }
    }

    fn encode_ids(&self, text: &str, place: TextPlace, out: &mut Vec<u32>) -> Result<(), Error> {
        if let Some(done) = self.encode_own(text, place, Reading::Ordinary, Out::behind(out)) {
            return done;
        }
        let mut tokens = Vec::new();
        self.reference()?.encode_ordinary(text, place, &mut tokens)?;
        out.extend(tokens.iter().map(|token| token.id));
        Ok(())
    }

    fn encode_in_parts(&self, text: &str, place: TextPlace, take: &mut dyn FnMut(&[Token])) -> Result<(), Error> {
        let mut tokens = ROOM.take();
        // Most tokens cover at least three bytes.
        tokens.reserve((text.len() / 3 + 1).min(PART));
        let mut taken = 0;
        let mut counted = |part: &[Token]| {
            taken += part.len();
            take(part);
        };
        let out = Out::in_parts(&mut tokens, &mut counted);
        let done = match self.encode_own(text, place, Reading::Ordinary, out) {
            Some(done) => done,
            None => {
                self.reference().and_then(|reference| reference.encode_ordinary(text, place, &mut tokens)).map(|()| {
                    // Both engines produce the same tokens, so continue where our own engine stopped.
                    take(tokens.get(taken..).unwrap_or_default());
                })
            }
        };
        tokens.clear();
        if tokens.capacity() <= 2 * PART {
            ROOM.set(tokens);
        }
        done
    }

    fn encode_reference(&self, text: &str, place: TextPlace, out: &mut Vec<Token>) -> Result<(), Error> {
        match self.encode_own(text, place, Reading::Reference, Out::behind(out)) {
            Some(done) => done,
            None => self.reference()?.encode_reference(text, place, out),
        }
    }

    fn normalizes(&self) -> bool {
        self.shared.parts.normalizer.is_some()
    }

    fn find_added(&self, text: &str, out: &mut Vec<Token>) -> Result<(), Error> {
        check_length(text)?;
        let mut found = Vec::new();
        if !self.own.as_ref().is_ok_and(|own| own.find_added(text, &mut found)) {
            self.reference()?.find_added(text, &mut found);
        }
        out.append(&mut found);
        Ok(())
    }

    fn added_tokens(&self) -> &[AddedToken] {
        &self.shared.added
    }

    fn text_tokens(&self) -> Vec<AddedToken> {
        self.shared.parts.added.iter().filter(|token| token.is_text()).cloned().collect()
    }

    fn token_id(&self, text: &str) -> Option<u32> {
        self.shared.token_id(text)
    }

    fn token_text(&self, id: u32) -> Option<String> {
        self.shared.token_text(id)
    }

    fn keeping_out(&self, ids: &BTreeSet<u32>) -> Result<Arc<dyn Tokenizer>, Error> {
        let mut tokenizer = Self::of_shared(Arc::clone(&self.shared), ids.clone())?;
        if let (Ok(_), Err(why)) = (&tokenizer.own, &self.own)
            && self.shared.core.is_ok()
        {
            // Keep the engine that the caller requested.
            tokenizer.own = Err(why.clone());
        }
        Ok(Arc::new(tokenizer))
    }

    fn named(&self) -> &[NamedToken] {
        &self.shared.named
    }

    fn chat_control_tokens(&self) -> Option<&[String]> {
        self.shared.chat_control.as_deref()
    }

    fn unknown(&self) -> Option<u32> {
        self.shared.stands_in
    }

    fn token_bytes(&self, id: u32, out: &mut Vec<u8>) -> bool {
        self.shared.token_bytes(id, out)
    }

    fn decode_bytes(&self, ids: &[u32], out: &mut Vec<u8>) -> usize {
        let write = |id, out: &mut Vec<u8>| self.shared.token_bytes(id, out);
        let bytes = self.shared.bytes.get_or_init(|| TokenBytes::new(self.vocabulary_size(), write));
        bytes.decode(ids, write, out)
    }

    fn prefix_space(&self, place: TextPlace) -> bool {
        match place {
            TextPlace::Start => self.shared.prefix_at_start,
            TextPlace::Inside => self.shared.prefix_inside,
        }
    }

    fn vocabulary_size(&self) -> usize {
        let model_size = match &self.shared.parts.model {
            Some(model) => model.vocab.len(),
            None => self.shared.whole().map_or(0, |whole| whole.model().get_vocab_size()),
        };
        model_size + self.shared.vocabulary.beyond()
    }

    fn engine(&self) -> Engine {
        match &self.own {
            Ok(_) => Engine::Native,
            Err(why) => Engine::Crate { why: why.clone() },
        }
    }

    fn kind(&self) -> TokenizerKind {
        self.shared.kind
    }

    fn bos(&self) -> Option<u32> {
        self.shared.bos
    }

    fn adds_bos(&self) -> Option<u32> {
        self.shared.adds_bos
    }

    fn adds_eos(&self) -> Option<u32> {
        self.shared.adds_eos
    }
}

impl Parts {
    fn whole(&self, model: ModelWrapper) -> Result<Whole, Error> {
        Whole::new(model, self.normalizer.clone(), self.pre_tokenizer.clone(), &self.added)
    }
}
