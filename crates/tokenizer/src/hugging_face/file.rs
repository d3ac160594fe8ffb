use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use foldhash::quality::RandomState;
use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::error::Category;
use serde_json::value::RawValue;
use tokenizers::models::bpe::Vocab;
use tokenizers::models::unigram::Unigram;
use tokenizers::models::wordlevel::WordLevel;
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::{ModelWrapper, NormalizerWrapper, PreTokenizerWrapper};

use super::super::{AddedToken, Error, LARGEST_ID, TokenizerKind};
use super::bpe_model::BpeModel;
use super::limits::{check_parts, check_piece, check_word};
use super::normalizer::check_normalizer;
use super::spelling::Spelling;

const EXPECTED: &str = "a tokenizer.json";

/// A validated `tokenizer.json`. Building a tokenizer from it does not panic.
pub(super) struct TokenizerJson {
    pub added_tokens: Vec<AddedToken>,
    pub post_processor: Value,
    /// The token for text that the model does not know.
    pub unknown: Option<u32>,
    pub byte_fallback: bool,
    pub kind: TokenizerKind,
    pub spelling: Spelling,
    pub normalizer: Option<NormalizerWrapper>,
    pub pre_tokenizer: Option<PreTokenizerWrapper>,
    pub model: FileModel,
}

/// The model of a file.
pub(super) enum FileModel {
    /// In parts, for either engine.
    Bpe(BpeModel),
    /// In the form of the reference crate.
    Other(ModelWrapper),
}

impl TokenizerJson {
    pub fn from_bytes(json: &[u8]) -> Result<Self, Error> {
        let raw: Raw = serde_json::from_slice(json).map_err(|error| unreadable(json, &error))?;
        let no_model = || Error::NotRecognized { expected: EXPECTED, why: "the file has no `model`".to_owned() };
        let raw_model = raw.model.ok_or_else(no_model)?;
        check_normalizer(&raw.normalizer)?;
        check_parts("pre_tokenizer", &raw.pre_tokenizer)?;
        check_pre_tokenizer(&raw.pre_tokenizer)?;
        let byte_level = mentions_byte_level(&raw.normalizer) || mentions_byte_level(&raw.pre_tokenizer);
        let ReadModel { model, unknown, byte_fallback, kind } = read_model(raw_model, byte_level)?;
        let has_affixes = match &model {
            FileModel::Bpe(bpe) => !bpe.prefix.is_empty() || bpe.suffix.is_some(),
            FileModel::Other(_) => false,
        };
        let spelling = Spelling::of(kind, &raw.normalizer, &raw.pre_tokenizer, byte_fallback, has_affixes);
        Ok(Self {
            added_tokens: raw.added_tokens.into_iter().map(AddedToken::from).collect(),
            post_processor: raw.post_processor,
            unknown,
            byte_fallback,
            kind,
            spelling,
            normalizer: read_part("normalizer", raw.normalizer)?,
            pre_tokenizer: read_part("pre_tokenizer", raw.pre_tokenizer)?,
            model,
        })
    }
}

#[derive(Deserialize)]
struct Raw<'a> {
    #[serde(default)]
    added_tokens: Vec<RawToken>,
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    pre_tokenizer: Value,
    #[serde(default)]
    post_processor: Value,
    #[serde(borrow)]
    model: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct RawToken {
    id: u32,
    content: String,
    single_word: bool,
    lstrip: bool,
    rstrip: bool,
    normalized: bool,
    special: bool,
}

impl From<RawToken> for AddedToken {
    fn from(raw: RawToken) -> Self {
        Self {
            text: raw.content,
            id: raw.id,
            special: raw.special,
            normalized: raw.normalized,
            lstrip: raw.lstrip,
            rstrip: raw.rstrip,
            single_word: raw.single_word,
        }
    }
}

#[derive(Deserialize)]
struct Tag {
    #[serde(rename = "type")]
    name: Option<String>,
    merges: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct RawBpe<'a> {
    dropout: Option<f32>,
    unk_token: Option<String>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
    fuse_unk: Option<bool>,
    byte_fallback: Option<bool>,
    ignore_merges: Option<bool>,
    vocab: Vocab,
    #[serde(borrow)]
    merges: Vec<Merge<'a>>,
}

#[derive(Deserialize)]
struct RawUnigram {
    vocab: Vec<(String, f64)>,
    unk_id: Option<usize>,
    #[serde(default)]
    byte_fallback: bool,
}

#[derive(Deserialize)]
struct RawWordPiece {
    vocab: Vocab,
    unk_token: String,
    continuing_subword_prefix: String,
    max_input_chars_per_word: usize,
}

#[derive(Deserialize)]
struct RawWordLevel {
    vocab: Vocab,
    unk_token: String,
}

struct ReadModel {
    model: FileModel,
    unknown: Option<u32>,
    byte_fallback: bool,
    kind: TokenizerKind,
}

fn read_model(raw: &RawValue, byte_level: bool) -> Result<ReadModel, Error> {
    let tag: Tag = read_json(raw)?;
    let built = |error: tokenizers::Error| Error::malformed("model", error.to_string());
    match tag.name.as_deref().or(tag.merges.map(|_| "BPE")) {
        Some("BPE") => {
            let raw: RawBpe = read_json(raw)?;
            let unknown = raw.unk_token.as_ref().and_then(|unk| raw.vocab.get(unk).copied());
            let byte_fallback = raw.byte_fallback.unwrap_or(false);
            let kind = if byte_level { TokenizerKind::ByteLevelBpe } else { TokenizerKind::Bpe };
            Ok(ReadModel { model: FileModel::Bpe(check_bpe(raw)?), unknown, byte_fallback, kind })
        }
        Some("Unigram") => {
            let raw: RawUnigram = read_json(raw)?;
            let mut seen = HashSet::new();
            if let Some((piece, _)) = raw.vocab.iter().find(|(piece, _)| piece.is_empty() || !seen.insert(piece)) {
                return Err(Error::malformed("model.vocab", format!("piece `{piece}` is empty or a duplicate")));
            }
            raw.vocab.iter().try_for_each(|(piece, _)| check_piece(piece))?;
            let unknown = raw.unk_id.and_then(|id| id.try_into().ok());
            let byte_fallback = raw.byte_fallback;
            let model = Unigram::from(raw.vocab, raw.unk_id, byte_fallback).map_err(built)?.into();
            Ok(ReadModel { model: FileModel::Other(model), unknown, byte_fallback, kind: TokenizerKind::Unigram })
        }
        Some("WordPiece") => {
            let raw: RawWordPiece = read_json(raw)?;
            check_word(raw.max_input_chars_per_word)?;
            check_vocabulary(&raw.vocab)?;
            let unknown = raw.vocab.get(&raw.unk_token).copied();
            let model = WordPiece::builder()
                .vocab(raw.vocab)
                .unk_token(raw.unk_token)
                .continuing_subword_prefix(raw.continuing_subword_prefix)
                .max_input_chars_per_word(raw.max_input_chars_per_word)
                .build()
                .map_err(built)?
                .into();
            Ok(ReadModel {
                model: FileModel::Other(model),
                unknown,
                byte_fallback: false,
                kind: TokenizerKind::WordPiece,
            })
        }
        Some("WordLevel") => {
            let raw: RawWordLevel = read_json(raw)?;
            check_vocabulary(&raw.vocab)?;
            let unknown = raw.vocab.get(&raw.unk_token).copied();
            let model = WordLevel::builder().vocab(raw.vocab).unk_token(raw.unk_token).build().map_err(built)?.into();
            Ok(ReadModel {
                model: FileModel::Other(model),
                unknown,
                byte_fallback: false,
                kind: TokenizerKind::WordLevel,
            })
        }
        Some(other) => Err(Error::unsupported("model.type", other)),
        None => Err(Error::malformed("model", "expected a `type`, found none")),
    }
}

fn check_bpe(raw: RawBpe<'_>) -> Result<BpeModel, Error> {
    check_vocabulary(&raw.vocab)?;
    if raw.dropout.is_some_and(|dropout| dropout != 0.0) {
        return Err(Error::unsupported("model.dropout", "random merges, which give different ids each time"));
    }
    if let Some(unk) = raw.unk_token.as_ref().filter(|unk| !raw.vocab.contains_key(*unk)) {
        return Err(Error::malformed("model.unk_token", format!("`{unk}` is not in the vocabulary")));
    }
    let prefix = raw.continuing_subword_prefix.unwrap_or_default();
    let mut merges = Vec::with_capacity(raw.merges.len());
    let mut joined = String::new();
    for Merge(left, right) in raw.merges {
        // The crate strips the prefix and joins the rest without checks, so all three must be in
        // the vocabulary.
        let id = |text: &str| raw.vocab.get(text).copied();
        let product = right.strip_prefix(prefix.as_str()).and_then(|tail| {
            joined.clear();
            joined.push_str(&left);
            joined.push_str(tail);
            id(&joined)
        });
        let (Some(left), Some(right), Some(product)) = (id(&left), id(&right), product) else {
            let why = format!("merge `{left}` + `{right}` uses or produces a token that is not in the vocabulary");
            return Err(Error::malformed("model.merges", why));
        };
        merges.push((left, right, product));
    }
    let mut model = BpeModel::new(raw.vocab);
    model.merges = merges;
    model.unknown = raw.unk_token;
    model.fuse_unknown = raw.fuse_unk.unwrap_or(false);
    model.byte_fallback = raw.byte_fallback.unwrap_or(false);
    model.ignore_merges = raw.ignore_merges.unwrap_or(false);
    model.prefix = prefix;
    model.suffix = raw.end_of_word_suffix.filter(|suffix| !suffix.is_empty());
    Ok(model)
}

fn check_vocabulary(vocabulary: &Vocab) -> Result<(), Error> {
    let mut seen = HashSet::with_capacity_and_hasher(vocabulary.len(), RandomState::default());
    for (text, &id) in vocabulary {
        if id > LARGEST_ID || !seen.insert(id) {
            let why = format!("`{text}` has id {id}, which is too large or already taken");
            return Err(Error::malformed("model.vocab", why));
        }
    }
    Ok(())
}

fn check_pre_tokenizer(value: &Value) -> Result<(), Error> {
    // The crate divides by the length.
    if value["type"] == "FixedLength" && value["length"] == 0 {
        return Err(Error::malformed("pre_tokenizer.length", "expected a positive number, found 0"));
    }
    value["pretokenizers"].as_array().into_iter().flatten().try_for_each(check_pre_tokenizer)
}

fn mentions_byte_level(value: &Value) -> bool {
    let nested = ["normalizers", "pretokenizers"].map(|key| value[key].as_array());
    value["type"] == "ByteLevel" || nested.into_iter().flatten().flatten().any(mentions_byte_level)
}

fn read_part<T: serde::de::DeserializeOwned>(place: &str, value: Value) -> Result<Option<T>, Error> {
    serde_json::from_value(value).map_err(|error| Error::malformed(place, error.to_string()))
}

fn read_json<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Result<T, Error> {
    serde_json::from_str(raw.get()).map_err(|error| Error::malformed("model", error.to_string()))
}

fn unreadable(json: &[u8], error: &serde_json::Error) -> Error {
    match error.classify() {
        Category::Eof => Error::Truncated { expected: EXPECTED, offset: json.len() },
        Category::Data => Error::malformed("tokenizer.json", error.to_string()),
        Category::Syntax | Category::Io => Error::NotRecognized { expected: EXPECTED, why: error.to_string() },
    }
}

/// A merge, written `"a b"` in older files and `["a", "b"]` in newer ones.
struct Merge<'a>(Cow<'a, str>, Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Merge<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MergeVisitor)
    }
}

struct MergeVisitor;

impl<'de> Visitor<'de> for MergeVisitor {
    type Value = Merge<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a merge: two tokens")
    }

    fn visit_borrowed_str<E: serde::de::Error>(self, text: &'de str) -> Result<Merge<'de>, E> {
        let (left, right) = halves(text)?;
        Ok(Merge(left.into(), right.into()))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Merge<'de>, E> {
        let (left, right) = halves(text)?;
        Ok(Merge(left.to_owned().into(), right.to_owned().into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Merge<'de>, A::Error> {
        match (parts.next_element::<Text>()?, parts.next_element::<Text>()?, parts.next_element::<Text>()?) {
            (Some(Text(left)), Some(Text(right)), None) => Ok(Merge(left, right)),
            _ => Err(serde::de::Error::custom("expected a merge of two tokens")),
        }
    }
}

fn halves<E: serde::de::Error>(text: &str) -> Result<(&str, &str), E> {
    let mut parts = text.split(' ');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(left), Some(right), None) => Ok((left, right)),
        _ => Err(E::custom(format!("expected two tokens separated by a space, found `{text}`"))),
    }
}

/// A string borrowed from the file unless it contains escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
