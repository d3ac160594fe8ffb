//! Reads sentencepiece `.model` files and encodes as the sentencepiece library does: normalizer,
//! then BPE or unigram.
//!
//! The library is written in C++, and its ports omit details that matter here (unused pieces,
//! user-defined pieces in ordinary text). This module therefore implements the encoder itself. It
//! is small, and the two readings of a text differ only in the `Reading` passed down.

mod bpe;
pub(super) mod charsmap;
mod model;
mod native;
mod normalizer;
mod protobuf;
mod sections;
mod trie;
mod unigram;

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

use self::model::{Algorithm, Model, PieceKind, VocabularyPiece};
use self::native::Words;
use self::normalizer::{Normalizer, Prefix};
use self::sections::{Section, Sections};
use self::trie::Trie;
use super::added::is_space;
use super::config::Config;
use super::hugging_face::is_object;
use super::native::Kept;
use super::native::added::AddedSearch;
use super::token_bytes::TokenBytes;
use super::{
    AddedToken, Beside, Error, NamedToken, TextPlace, Token, TokenRef, Tokenizer, TokenizerKind, check_length,
};

/// Reports whether a file may be a sentencepiece model: it has binary data in its first bytes.
pub(super) fn is_sentencepiece(bytes: &[u8]) -> bool {
    let start = &bytes[..bytes.len().min(512)];
    let readable = |byte: &u8| *byte >= 0x20 || matches!(byte, b'\n' | b'\r' | b'\t');
    // A damaged tokenizer.json has binary data too.
    (start.is_empty() || !start.iter().all(readable)) && !is_object(bytes)
}

/// A tokenizer read from a sentencepiece `.model`.
pub struct SentencePiece {
    shared: Arc<Shared>,
    ordinary: Reading,
    /// The config's added tokens at which ordinary text is split too.
    plain_sections: Sections,
    /// Whether the fast engine is used if it covers the model.
    takes_words: bool,
}

/// The parts that do not depend on which tokens are kept out of text.
struct Shared {
    model: Model,
    normalizer: Normalizer,
    encoder: Encoder,
    reference: Reading,
    /// The config's added tokens. The reference splits a text at them before sentencepiece sees it.
    sections: Sections,
    added: Vec<AddedToken>,
    /// The config's added tokens that look like text.
    text_tokens: Vec<AddedToken>,
    /// The texts of the config's added tokens, which may rename a piece.
    names: HashMap<u32, String>,
    /// Collected when ids are first decoded.
    bytes: OnceLock<TokenBytes>,
    prefix_inside: bool,
    bos: Option<u32>,
    adds_bos: Option<u32>,
    adds_eos: Option<u32>,
    named: Vec<NamedToken>,
    chat_control: Option<Vec<String>>,
}

enum Encoder {
    Bpe(bpe::Bpe),
    Unigram(unigram::Unigram),
}

/// Which pieces text may encode to, and which user-defined pieces are matched before anything else.
struct Reading {
    /// By piece: whether merging or search may produce it.
    open: Vec<bool>,
    /// Pieces that take part in merges but are split again, like unused pieces.
    apart: BTreeSet<u32>,
    matched: Trie,
    /// The same user-defined pieces for our fast engine, or `None` if they contain characters that
    /// a normalizer changes.
    cuts: Option<AddedSearch>,
    /// The fast engine, created on first use.
    words: OnceLock<Option<Words>>,
}

/// A range of normalized bytes and its piece; `None` is text that no piece spells.
struct PieceRange {
    start: usize,
    end: usize,
    piece: Option<u32>,
}

impl SentencePiece {
    /// Reads a `.model`, with the `tokenizer_config.json` next to it if there is one.
    pub fn from_bytes<'a>(bytes: &[u8], beside: impl Into<Beside<'a>>) -> Result<Self, Error> {
        let model = Model::from_bytes(bytes)?;
        let mut config = Config::beside(beside.into())?;
        let names: HashMap<u32, String> = config.added.iter().map(|token| (token.id, token.text.clone())).collect();
        add_named(&model, &mut config);
        let added = protected_tokens(&model, &config.added);
        let encoder = match model.algorithm {
            Algorithm::Bpe => Encoder::Bpe(bpe::Bpe::new(&model)),
            Algorithm::Unigram => Encoder::Unigram(unigram::Unigram::new(&model)),
        };
        let mut normalizer = Normalizer::new(&model.normalizer, model.whitespace_as_suffix)?;
        // transformers: `add_prefix_space` overrides the model's own setting.
        if let Some(prefix) = config.add_prefix_space {
            normalizer.add_dummy_prefix &= prefix;
        }
        let id_of = |text: &Option<String>| {
            let text = text.as_ref()?;
            names.iter().find(|(_, name)| *name == text).map(|(&id, _)| id).or_else(|| model.piece_id(text))
        };
        let out = added.iter().map(|token| token.id).collect();
        let shared = Shared {
            bos: id_of(&config.bos),
            adds_bos: id_of(&config.bos).filter(|_| config.add_bos == Some(true)),
            adds_eos: id_of(&config.eos).filter(|_| config.add_eos == Some(true)),
            prefix_inside: config.legacy != Some(false),
            text_tokens: config.added.iter().filter(|token| token.is_text()).cloned().collect(),
            reference: Reading::new(&model, &BTreeSet::new()),
            sections: Sections::new(config.added)?,
            named: config.named,
            chat_control: config.chat_control,
            bytes: OnceLock::new(),
            normalizer,
            encoder,
            added,
            names,
            model,
        };
        Self::of_shared(Arc::new(shared), &out)
    }

    fn of_shared(shared: Arc<Shared>, out: &BTreeSet<u32>) -> Result<Self, Error> {
        let plain = shared.sections.tokens().iter().filter(|token| !out.contains(&token.id)).cloned();
        Ok(Self {
            ordinary: Reading::new(&shared.model, out),
            plain_sections: Sections::new(plain.collect())?,
            takes_words: true,
            shared,
        })
    }

    /// Returns the same tokenizer, which encodes step by step as the library does, for comparison.
    pub fn with_reference_engine(self) -> Self {
        Self { takes_words: false, ..self }
    }

    fn encode<K: Kept>(
        &self,
        text: &str,
        sections: &Sections,
        reading: &Reading,
        mut place: TextPlace,
        take: &mut dyn FnMut(&[K]) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        check_length(text)?;
        for section in sections.split(text) {
            let flow = match section {
                Section::Token { id, start, end } => take(&[K::of(Token::new(id, start, end))]),
                Section::Text { start, end } => {
                    self.encode_section(&text[start..end], start, reading, self.prefix_at(place), take)
                }
            };
            if flow.is_break() {
                break;
            }
            place = TextPlace::Inside;
        }
        Ok(())
    }

    /// Encodes a section in one sentencepiece call. Tokens that must be matched outside of
    /// sentencepiece are already cut out of the text.
    fn encode_section<K: Kept>(
        &self,
        text: &str,
        base: usize,
        reading: &Reading,
        prefix: Prefix,
        take: &mut dyn FnMut(&[K]) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let words = reading.words.get_or_init(|| Words::new(&self.shared.model, reading));
        let mut taken = 0;
        if let (true, Some(words), Some(cuts)) = (self.takes_words, words, &reading.cuts) {
            let prefix = self.shared.normalizer.add_dummy_prefix && prefix == Prefix::AsTheModelSays;
            let mut placed = Vec::new();
            let encoded = words.encode(text, cuts, prefix, &mut |tokens| {
                taken += tokens.len();
                if base == 0 {
                    return take(tokens);
                }
                placed.clear();
                placed.extend_from_slice(tokens);
                K::spans(&mut placed).iter_mut().for_each(|token| *token = token.behind(base));
                take(&placed)
            });
            if let Ok(flow) = encoded {
                return flow;
            }
        }
        // Both ways produce the same tokens, so continue where the fast engine stopped.
        let tokens = self.encode_step_by_step(text, base, reading, prefix);
        let tokens: Vec<K> = tokens.into_iter().map(K::of).collect();
        take(tokens.get(taken..).unwrap_or_default())
    }

    fn encode_step_by_step(&self, text: &str, base: usize, reading: &Reading, prefix: Prefix) -> Vec<Token> {
        let mut out: Vec<Token> = Vec::new();
        let normalized = self.shared.normalizer.normalize(text, &reading.matched, prefix);
        let found = match &self.shared.encoder {
            Encoder::Bpe(bpe) => bpe.encode(&normalized.text, &self.shared.model, reading),
            Encoder::Unigram(unigram) => unigram.encode(&normalized.text, &self.shared.model, reading),
        };
        let mut was_unknown = false;
        for PieceRange { start, end, piece } in found {
            let span = (normalized.origin[start], normalized.origin[end]);
            let mut push = |id| {
                out.push(Token::covering(id, span, text).behind(base));
            };
            match (piece, &self.shared.model.byte_pieces) {
                (Some(id), _) => push(id),
                (None, Some(bytes)) => {
                    normalized.text[start..end].bytes().for_each(|byte| push(bytes[usize::from(byte)]));
                }
                // sentencepiece: adjacent unknown pieces become one.
                (None, None) if was_unknown => {
                    if let Some(last) = out.last_mut() {
                        last.end = Token::covering(last.id, span, text).behind(base).end;
                    }
                }
                (None, None) => push(self.shared.model.unknown),
            }
            was_unknown = piece.is_none();
        }
        out
    }

    fn prefix_at(&self, place: TextPlace) -> Prefix {
        match place {
            TextPlace::Inside if !self.shared.prefix_inside => Prefix::Without,
            TextPlace::Start | TextPlace::Inside => Prefix::AsTheModelSays,
        }
    }
}

impl Shared {
    fn token_text(&self, id: u32) -> Option<&str> {
        let piece = || self.model.pieces.get(id as usize).map(|piece| piece.text.as_str());
        self.names.get(&id).map(String::as_str).or_else(piece)
    }

    fn token_bytes(&self, id: u32, out: &mut Vec<u8>) -> bool {
        let is_byte = self.model.pieces.get(id as usize).is_some_and(|piece| piece.kind == PieceKind::Byte);
        let pieces = self.model.byte_pieces.as_ref().filter(|_| is_byte);
        let byte = pieces.and_then(|pieces| pieces.iter().position(|piece| *piece == id));
        if let Some(byte) = byte.and_then(|byte| u8::try_from(byte).ok()) {
            out.push(byte);
            return true;
        }
        let Some(text) = self.token_text(id) else { return false };
        out.extend_from_slice(text.replace('\u{2581}', " ").as_bytes());
        true
    }
}

impl std::fmt::Debug for SentencePiece {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        super::describe(self, "SentencePiece", f)
    }
}

impl Tokenizer for SentencePiece {
    fn encode_ordinary(&self, text: &str, place: TextPlace, out: &mut Vec<Token>) -> Result<(), Error> {
        self.encode_at_most(text, place, usize::MAX, out)
    }

    fn encode_at_most(&self, text: &str, place: TextPlace, most: usize, out: &mut Vec<Token>) -> Result<(), Error> {
        let first = out.len();
        self.encode(text, &self.plain_sections, &self.ordinary, place, &mut |tokens| {
            out.extend_from_slice(tokens);
            if out.len() - first > most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
    }

    fn encode_ids(&self, text: &str, place: TextPlace, out: &mut Vec<u32>) -> Result<(), Error> {
        self.encode(text, &self.plain_sections, &self.ordinary, place, &mut |ids| {
            out.extend_from_slice(ids);
            ControlFlow::Continue(())
        })
    }

    fn encode_in_parts(&self, text: &str, place: TextPlace, take: &mut dyn FnMut(&[Token])) -> Result<(), Error> {
        self.encode(text, &self.plain_sections, &self.ordinary, place, &mut |tokens| {
            take(tokens);
            ControlFlow::Continue(())
        })
    }

    fn encode_reference(&self, text: &str, place: TextPlace, out: &mut Vec<Token>) -> Result<(), Error> {
        self.encode(text, &self.shared.sections, &self.shared.reference, place, &mut |tokens| {
            out.extend_from_slice(tokens);
            ControlFlow::Continue(())
        })
    }

    fn keeping_out(&self, ids: &BTreeSet<u32>) -> Result<Arc<dyn Tokenizer>, Error> {
        Ok(Arc::new(Self { takes_words: self.takes_words, ..Self::of_shared(Arc::clone(&self.shared), ids)? }))
    }

    fn named(&self) -> &[NamedToken] {
        &self.shared.named
    }

    fn chat_control_tokens(&self) -> Option<&[String]> {
        self.shared.chat_control.as_deref()
    }

    fn unknown(&self) -> Option<u32> {
        self.shared.model.byte_pieces.is_none().then_some(self.shared.model.unknown)
    }

    fn added_tokens(&self) -> &[AddedToken] {
        &self.shared.added
    }

    fn text_tokens(&self) -> Vec<AddedToken> {
        self.shared.text_tokens.clone()
    }

    fn token_id(&self, text: &str) -> Option<u32> {
        self.shared.sections.id(text).or_else(|| self.shared.model.piece_id(text))
    }

    fn token_text(&self, id: u32) -> Option<String> {
        self.shared.token_text(id).map(str::to_owned)
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
        self.shared.normalizer.adds_prefix(self.prefix_at(place))
    }

    fn vocabulary_size(&self) -> usize {
        let beyond = self.shared.names.keys().filter(|&&id| id as usize >= self.shared.model.pieces.len()).count();
        self.shared.model.pieces.len() + beyond
    }

    fn kind(&self) -> TokenizerKind {
        match self.shared.encoder {
            Encoder::Bpe(_) => TokenizerKind::SentencePieceBpe,
            Encoder::Unigram(_) => TokenizerKind::SentencePieceUnigram,
        }
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

impl Reading {
    /// Creates a reading in which text never encodes to the pieces in `out`.
    fn new(model: &Model, out: &BTreeSet<u32>) -> Self {
        let is_bpe = matches!(model.algorithm, Algorithm::Bpe);
        let pieces = || (0..).zip(&model.pieces);
        let opens = |id: u32, piece: &VocabularyPiece| match piece.kind {
            PieceKind::UserDefined => !out.contains(&id),
            // Merges may pass through a piece that is kept out, but a search must avoid it.
            PieceKind::Normal => is_bpe || !out.contains(&id),
            // Merges pass through unused pieces, but text never encodes to them.
            PieceKind::Unused => true,
            PieceKind::Unknown | PieceKind::Control | PieceKind::Byte => false,
        };
        let open: Vec<bool> = pieces().map(|(id, piece)| opens(id, piece)).collect();
        let is_apart = |(id, piece): &(u32, &VocabularyPiece)| piece.kind == PieceKind::Normal && out.contains(id);
        let apart = pieces().filter(|piece| is_bpe && is_apart(piece)).map(|(id, _)| id).collect();
        let user_defined = pieces().filter(|(_, piece)| piece.kind == PieceKind::UserDefined);
        let matched = user_defined.filter(|&(id, _)| open[id as usize]).map(|(id, piece)| (piece.text.as_str(), id));
        let matched: Vec<_> = matched.collect();
        let keeps_texts = matched.iter().all(|(text, _)| !text.contains([' ', '\u{2581}']));
        let texts = || matched.iter().map(|&(text, id)| (text.to_owned(), id)).collect();
        let cuts = keeps_texts.then(|| AddedSearch::new(texts()).ok()).flatten();
        Self { matched: Trie::new(matched), open, apart, cuts, words: OnceLock::new() }
    }

    fn is_open(&self, id: u32) -> bool {
        self.open.get(id as usize) == Some(&true)
    }

    /// Reports whether a merged piece is split again.
    fn is_apart(&self, id: u32, piece: &VocabularyPiece) -> bool {
        piece.kind == PieceKind::Unused || self.apart.contains(&id)
    }

    fn takes_apart(&self) -> bool {
        !self.apart.is_empty()
    }
}

/// Adds the learned pieces that files name and that the config does not list, as transformers does.
/// A character that text needs is not such a token, and neither is white space.
fn add_named(model: &Model, config: &mut Config) {
    for named in &config.named {
        let id = match &named.token {
            TokenRef::Text(text) => model.piece_id(text),
            TokenRef::Id(id) => Some(*id),
        };
        let Some((id, piece)) = id.and_then(|id| Some((id, model.pieces.get(id as usize)?))) else { continue };
        let is_needed = model.byte_pieces.is_none() && piece.text.chars().count() == 1;
        let is_known = config.added.iter().any(|known| known.text == piece.text || known.id == id);
        if piece.kind == PieceKind::Normal && !is_needed && !is_known && !is_space(&piece.text) {
            config.added.push(AddedToken::special(piece.text.clone(), id));
        }
    }
}

fn protected_tokens(model: &Model, config: &[AddedToken]) -> Vec<AddedToken> {
    let mut protected: Vec<_> = config.iter().filter(|token| !token.is_text()).cloned().collect();
    for (id, piece) in (0..).zip(&model.pieces) {
        let token = AddedToken {
            text: piece.text.clone(),
            id,
            special: piece.kind != PieceKind::UserDefined,
            normalized: false,
            lstrip: false,
            rstrip: false,
            single_word: false,
        };
        let known = || config.iter().any(|other| other.id == id && other.text == token.text);
        if piece.kind != PieceKind::Normal && !token.is_text() && !known() {
            protected.push(token);
        }
    }
    protected.sort_by_key(|token| token.id);
    protected
}
