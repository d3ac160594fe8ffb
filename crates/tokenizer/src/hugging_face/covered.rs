//! Decides which parts of a `tokenizer.json` our own engine covers, once when the file is loaded.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, LazyLock};

use foldhash::fast::RandomState;
use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};
use tokenizers::normalizers::Replace;
use tokenizers::pre_tokenizers::metaspace::PrependScheme;
use tokenizers::pre_tokenizers::split::SplitPattern;
use tokenizers::{NormalizerWrapper, PreTokenizerWrapper, SplitDelimiterBehavior};

use super::super::AddedToken;
use super::super::native::added::AddedSearch;
use super::super::native::alphabet::{Alphabet, Characters, Otherwise};
use super::super::native::bpe::{Bpe, Tables, UnmergedWords};
use super::super::native::byte_joints::ByteJoints;
use super::super::native::forged::{ForgedTokens, MergeSpelling};
use super::super::native::joints::Joints;
use super::super::native::merges::{self, Merges, Symbols};
use super::super::native::pattern::RegexPattern;
use super::super::native::whole_characters::WholeCharacters;
use super::super::native::words::Words;
use super::super::native::{Core, Cuts, MemoryOwner, Native, NormalizedText, Prefix};
use super::bpe_model::BpeModel;

/// The pattern of the `ByteLevel` pre-tokenizer, a constant of the reference crate.
const BYTE_LEVEL: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// Builds our own engine for a model, keeping these tokens out of text. The error names what the
/// engine does not cover.
pub(super) fn build_own(
    core: &Arc<Core>,
    model: &BpeModel,
    added: &[AddedToken],
    out: &BTreeSet<u32>,
) -> Result<Native, String> {
    let plain: Vec<&AddedToken> = added.iter().filter(|token| !out.contains(&token.id)).collect();
    if !plain.iter().all(|token| is_simple(token)) {
        return Err("tokens in text that absorb white space or match only whole words".to_owned());
    }
    let plain = added_texts(core.composes, core.normalizer_replaces, plain.into_iter());
    let forged = forged_tokens(model, out, &core.tables.alphabet);
    Ok(Native {
        bpe: Bpe { tables: Arc::clone(&core.tables), forged },
        plain: plain.ok_or("added tokens that are matched after a normalizer")??,
        core: Arc::clone(core),
        owner: MemoryOwner::new(),
    })
}

/// Builds the parts of our own engine that do not depend on which tokens are kept out. The error
/// names what the engine does not cover.
pub(super) fn build_core(
    model: &BpeModel,
    normalizer: Option<&NormalizerWrapper>,
    pre_tokenizer: Option<&PreTokenizerWrapper>,
    added: &[AddedToken],
) -> Result<Core, String> {
    if !model.prefix.is_empty() || model.suffix.is_some() {
        return Err("symbols with a prefix or suffix".to_owned());
    }
    if model.largest_id() > merges::LARGEST_ID {
        return Err("ids above two million".to_owned());
    }
    let mut plan = Preprocessing::default();
    plan.read_normalizer(normalizer)?;
    plan.read_pre_tokenizer(pre_tokenizer)?;
    let alphabet = if plan.bytes { byte_alphabet(model)? } else { character_alphabet(model, plan.space)? };
    let merges = Merges::new(&model.merges, model.largest_id())?;
    let unmerged = match (model.ignore_merges, &alphabet, plan.space) {
        (false, ..) => HashMap::default(),
        (true, Alphabet::Characters(_), Some(_)) => return Err("`ignore_merges` with replaced spaces".to_owned()),
        (true, ..) => unmerged_words(model, &merges, &alphabet),
    };
    let (joints, characters) = match &alphabet {
        Alphabet::Bytes(byte_ids) => {
            let spelled = model.vocab.iter().filter_map(|(text, &id)| Some((spelled_bytes(text, &alphabet)?, id)));
            let spelled: Vec<_> = spelled.collect();
            let tokens = || spelled.iter().map(|(bytes, id)| (bytes.as_slice(), *id));
            let pairs = model.merges.iter().map(|&(left, right, _)| (left, right));
            let joints = ByteJoints::new(tokens().map(|(bytes, _)| bytes));
            (Some(joints), Some(WholeCharacters::new(tokens(), byte_ids, pairs, &merges)))
        }
        Alphabet::Characters(_) => (None, None),
    };
    let tables = Tables { unmerged: UnmergedWords::new(unmerged), merges, joints, characters, alphabet };
    let added = all_added(&plan, added)?;
    Ok(Core {
        composes: plan.composes,
        normalizer_replaces: plan.normalizer_replaces,
        prefix: plan.prefix,
        cuts: plan.cuts(model)?,
        tables: Arc::new(tables),
        added,
    })
}

/// The combined effect of normalizer and pre-tokenizer.
struct Preprocessing {
    composes: bool,
    prefix: Prefix,
    /// The character that replaces a space in the vocabulary, while the text still contains spaces.
    space: Option<char>,
    /// Whether the normalizer replaces the spaces.
    normalizer_replaces: bool,
    splits: Vec<(RegexPattern, bool)>,
    /// Whether words are split before spaces.
    before_spaces: bool,
    /// Whether the vocabulary consists of bytes.
    bytes: bool,
}

impl Default for Preprocessing {
    fn default() -> Self {
        Self {
            composes: false,
            prefix: Prefix::Nothing,
            space: None,
            normalizer_replaces: false,
            splits: Vec::new(),
            before_spaces: false,
            bytes: false,
        }
    }
}

impl Preprocessing {
    fn read_normalizer(&mut self, normalizer: Option<&NormalizerWrapper>) -> Result<(), String> {
        let parts = normalizer.map_or(Vec::new(), flattened);
        match parts.as_slice() {
            [] => {}
            [NormalizerWrapper::NFC(_)] => self.composes = true,
            [NormalizerWrapper::Replace(replace)] => self.space = replaced_space(replace),
            [NormalizerWrapper::Prepend(prepend), NormalizerWrapper::Replace(replace)] => {
                self.space = replaced_space(replace);
                let Some(character) = self.space.filter(|space| prepend.prepend == space.to_string()) else {
                    return Err("a normalizer that prepends something other than its space".to_owned());
                };
                self.prefix = Prefix::AnotherSpace { character };
            }
            _ => return Err(format!("normalizer {}", names(&parts))),
        }
        if matches!(parts.last(), Some(NormalizerWrapper::Replace(_))) && self.space.is_none() {
            return Err("a normalizer that replaces more than spaces".to_owned());
        }
        self.normalizer_replaces = self.space.is_some();
        Ok(())
    }

    fn read_pre_tokenizer(&mut self, pre_tokenizer: Option<&PreTokenizerWrapper>) -> Result<(), String> {
        match pre_tokenizer {
            None => {}
            Some(PreTokenizerWrapper::Sequence(sequence)) => {
                for part in sequence.as_ref() {
                    self.read_pre_tokenizer(Some(part))?;
                }
            }
            Some(_) if self.bytes || self.before_spaces => {
                return Err("a pre-tokenizer after the last supported one".to_owned());
            }
            Some(PreTokenizerWrapper::ByteLevel(byte_level)) => {
                if byte_level.add_prefix_space {
                    return Err("ByteLevel with `add_prefix_space`".to_owned());
                }
                if byte_level.use_regex {
                    self.push_split(RegexPattern::parse(BYTE_LEVEL)?, false);
                }
                self.bytes = true;
            }
            Some(PreTokenizerWrapper::Split(split)) => {
                let pattern = match &split.pattern {
                    // The normalizer has already replaced the spaces.
                    SplitPattern::String(text) if self.space.is_some() && text == " " => return Ok(()),
                    SplitPattern::String(text) => RegexPattern::of_text(text),
                    SplitPattern::Regex(regex) => RegexPattern::parse(regex)?,
                };
                let drops_gaps = match (split.behavior, split.invert) {
                    (SplitDelimiterBehavior::Isolated, _) => false,
                    (SplitDelimiterBehavior::Removed, true) => true,
                    (behavior, _) => return Err(format!("Split with behavior {behavior}")),
                };
                self.push_split(pattern, drops_gaps);
            }
            Some(PreTokenizerWrapper::Digits(digits)) => {
                self.push_split(RegexPattern::of_set(numeric(), !digits.individual_digits), false);
            }
            Some(PreTokenizerWrapper::Metaspace(metaspace)) => {
                if self.space.is_some() || !self.splits.is_empty() || self.prefix != Prefix::Nothing {
                    return Err("Metaspace combined with other pre-tokenizers".to_owned());
                }
                let character = metaspace.get_replacement();
                self.space = Some(character);
                self.prefix = match metaspace.prepend_scheme {
                    PrependScheme::Never => Prefix::Nothing,
                    PrependScheme::Always => Prefix::Space { character, first_only: false },
                    PrependScheme::First => Prefix::Space { character, first_only: true },
                };
                self.before_spaces = metaspace.get_split();
            }
            Some(other) => return Err(format!("pre-tokenizer {}", name(other))),
        }
        if self.space.is_some() && (self.bytes || !self.splits.is_empty()) {
            return Err("replaced spaces before a pattern".to_owned());
        }
        Ok(())
    }

    fn push_split(&mut self, pattern: RegexPattern, drops_gaps: bool) {
        self.splits.push((pattern, drops_gaps));
    }

    fn cuts(self, model: &BpeModel) -> Result<Cuts, String> {
        if self.bytes || !self.splits.is_empty() {
            return Ok(Cuts::Words(Words::new(&self.splits)?));
        }
        let merged: HashSet<u32> = model.merges.iter().flat_map(|&(left, right, _)| [left, right]).collect();
        let is_merged = |id: Option<u32>| id.is_some_and(|id| merged.contains(&id));
        let nameless = model.byte_ids().map_or(Vec::new(), |ids| ids.to_vec());
        // Characters without a symbol could still interact: as one unknown token, or by merges of
        // their replacements.
        let meet = (!model.byte_fallback && model.fuse_unknown)
            || is_merged(model.unknown_id())
            || nameless.into_iter().any(|id| is_merged(Some(id)));
        if model.ignore_merges || meet {
            let why = "spaces that split words whose unknown characters interact";
            return if self.before_spaces { Err(why.to_owned()) } else { Ok(Cuts::None) };
        }
        let texts = model.merges.iter().filter_map(|&(_, _, product)| model.text(product));
        Ok(Cuts::Joints(Joints::new(texts, self.space, self.before_spaces)))
    }
}

/// Returns the tokens to split at, in raw text and in normalized text, or `None` if a normalizer
/// changes their texts.
fn added_texts<'a>(
    composes: bool,
    normalizer_replaces: bool,
    tokens: impl Iterator<Item = &'a AddedToken>,
) -> Option<Result<[AddedSearch; 2], String>> {
    let (normalized, raw): (Vec<_>, Vec<_>) = tokens.partition(|token| token.normalized);
    if !normalized.is_empty() && normalizer_replaces {
        return None;
    }
    let raw = raw.into_iter().map(|token| (token.text.clone(), token.id)).collect();
    let composed = |text: &str| match composes {
        true => NormalizedText::composed(text).text.into_owned(),
        false => text.to_owned(),
    };
    let normalized = normalized.into_iter().map(|token| (composed(&token.text), token.id)).collect();
    Some(AddedSearch::new(raw).and_then(|raw| Ok([raw, AddedSearch::new(normalized)?])))
}

/// Reports whether a token matches exactly its own text, in any context.
fn is_simple(token: &AddedToken) -> bool {
    !token.lstrip && !token.rstrip && !token.single_word
}

/// Returns all added tokens if each matches exactly its own text.
fn all_added(plan: &Preprocessing, added: &[AddedToken]) -> Result<Option<[AddedSearch; 2]>, String> {
    let (mut ids, mut texts) = (HashSet::new(), HashSet::new());
    if !added.iter().all(|token| is_simple(token) && ids.insert(token.id) && texts.insert(&token.text)) {
        return Ok(None);
    }
    added_texts(plan.composes, plan.normalizer_replaces, added.iter()).transpose()
}

/// Reports whether a byte vocabulary has a token for every byte.
pub(super) fn has_all_bytes(model: &BpeModel) -> bool {
    byte_alphabet(model).is_ok()
}

fn byte_alphabet(model: &BpeModel) -> Result<Alphabet, String> {
    let mut ids = Box::new([0; 256]);
    for (byte, id) in ids.iter_mut().enumerate() {
        let text = byte_character(byte as u8).to_string();
        *id = model.id(&text).ok_or_else(|| format!("a vocabulary without byte {byte:#04X}"))?;
    }
    Ok(Alphabet::Bytes(ids))
}

fn character_alphabet(model: &BpeModel, space: Option<char>) -> Result<Alphabet, String> {
    let otherwise = match (model.byte_fallback, model.byte_ids(), model.unknown_id()) {
        (true, Some(ids), _) => Otherwise::Bytes(ids),
        (true, None, _) => return Err("byte fallback without all bytes".to_owned()),
        (false, _, Some(id)) => Otherwise::Unknown { id, fused: model.fuse_unknown },
        (false, _, None) => return Err("dropping of unknown characters".to_owned()),
    };
    let symbols = model.vocab.iter().filter_map(|(text, &id)| {
        let mut characters = text.chars();
        characters.next().filter(|_| characters.next().is_none()).map(|c| (c, id))
    });
    Ok(Alphabet::Characters(Characters::new(symbols, otherwise, space)))
}

/// Returns the words that are tokens although merging does not produce them.
fn unmerged_words(model: &BpeModel, merges: &Merges, alphabet: &Alphabet) -> HashMap<Vec<u8>, u32, RandomState> {
    let mut word = Symbols::default();
    let words = model.vocab.iter().filter_map(|(text, &id)| Some((spelled_bytes(text, alphabet)?, id)));
    let unmerged = words.filter(|(bytes, id)| {
        alphabet.fill(bytes, &mut word);
        merges.merge(&mut word);
        word.ids != [*id]
    });
    unmerged.collect()
}

/// Returns the forged tokens. `forgery` does the same for the reference crate.
fn forged_tokens(model: &BpeModel, out: &BTreeSet<u32>, alphabet: &Alphabet) -> ForgedTokens {
    let mut tokens = HashMap::new();
    let mut watch = |id: u32, stands_in: bool| {
        if let Some(name) = model.text(id) {
            let text = spelled_bytes(name, alphabet);
            tokens.insert(id, MergeSpelling { name: name.to_owned(), text, stands_in });
        }
    };
    let unknown = model.unknown_id();
    out.iter().copied().chain(unknown).for_each(|id| watch(id, Some(id) == unknown));
    if model.byte_fallback {
        let names = (0..=u8::MAX).filter_map(|byte| model.id(&crate::byte_alphabet::byte_name(byte)));
        names.for_each(|id| watch(id, true));
    }
    ForgedTokens::new(tokens)
}

/// Returns the bytes of text that a token of the vocabulary spells.
fn spelled_bytes(text: &str, alphabet: &Alphabet) -> Option<Vec<u8>> {
    match alphabet {
        Alphabet::Characters(_) => Some(text.as_bytes().to_vec()),
        Alphabet::Bytes(_) => text.chars().map(character_byte).collect(),
    }
}

/// Returns the character that represents a byte in a byte-level vocabulary: the byte itself if it
/// is printable.
fn byte_character(byte: u8) -> char {
    let others = (0..byte).filter(|&byte| !is_printable(byte)).count() as u32;
    if is_printable(byte) { char::from(byte) } else { char::from_u32(0x100 + others).unwrap_or_default() }
}

/// Returns the byte that a character represents in a byte-level vocabulary.
fn character_byte(c: char) -> Option<u8> {
    static BYTES: LazyLock<[Option<u8>; 0x144]> = LazyLock::new(|| {
        let mut bytes = [None; 0x144];
        (0..=u8::MAX).for_each(|byte| bytes[byte_character(byte) as usize] = Some(byte));
        bytes
    });
    *BYTES.get(c as usize)?
}

fn is_printable(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF)
}

/// Returns the characters that the reference crate treats as digits.
fn numeric() -> ClassUnicode {
    let characters = ('\0'..=char::MAX).filter(|c| c.is_numeric());
    ClassUnicode::new(characters.map(|c| ClassUnicodeRange::new(c, c)))
}

/// Returns the replacement for a space if `replace` replaces spaces with one character.
fn replaced_space(replace: &Replace) -> Option<char> {
    let mut characters = replace.content.chars();
    let character = characters.next().filter(|_| characters.next().is_none())?;
    let same = Replace::new(" ", replace.content.as_str()).ok()?;
    (same == *replace).then_some(character)
}

fn flattened(normalizer: &NormalizerWrapper) -> Vec<&NormalizerWrapper> {
    match normalizer {
        NormalizerWrapper::Sequence(sequence) => sequence.as_ref().iter().flat_map(flattened).collect(),
        other => vec![other],
    }
}

fn names(parts: &[&NormalizerWrapper]) -> String {
    parts.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// Returns the `type` of a part, as its file names it.
fn name(part: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(part).unwrap_or_default();
    value["type"].as_str().unwrap_or("of unknown kind").to_owned()
}
