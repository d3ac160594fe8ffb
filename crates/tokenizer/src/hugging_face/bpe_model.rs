use tokenizers::models::bpe::{BPE, Vocab};

use super::super::Error;
use crate::byte_alphabet::byte_name;

/// A validated BPE model as its file describes it. Building a tokenizer from it does not panic.
pub(super) struct BpeModel {
    pub vocab: Vocab,
    /// In order: the left id, the right id, and the id of the product.
    pub merges: Vec<(u32, u32, u32)>,
    pub unknown: Option<String>,
    pub fuse_unknown: bool,
    pub byte_fallback: bool,
    pub ignore_merges: bool,
    /// The prefix of each symbol except the first of a word.
    pub prefix: String,
    /// The suffix of the last symbol of a word.
    pub suffix: Option<String>,
    /// The texts, ordered by id.
    texts: Vec<(u32, String)>,
}

impl BpeModel {
    /// Creates a model from a vocabulary with unique ids. The caller sets the other fields.
    pub fn new(vocab: Vocab) -> Self {
        let mut texts: Vec<_> = vocab.iter().map(|(text, &id)| (id, text.clone())).collect();
        texts.sort_unstable_by_key(|&(id, _)| id);
        Self {
            vocab,
            merges: Vec::new(),
            unknown: None,
            fuse_unknown: false,
            byte_fallback: false,
            ignore_merges: false,
            prefix: String::new(),
            suffix: None,
            texts,
        }
    }

    pub fn id(&self, text: &str) -> Option<u32> {
        self.vocab.get(text).copied()
    }

    pub fn text(&self, id: u32) -> Option<&str> {
        // Most vocabularies have all ids from 0 on.
        let (_, text) = match self.texts.get(id as usize) {
            Some(found) if found.0 == id => found,
            _ => &self.texts[self.texts.binary_search_by_key(&id, |&(id, _)| id).ok()?],
        };
        Some(text)
    }

    pub fn largest_id(&self) -> u32 {
        self.texts.last().map_or(0, |&(id, _)| id)
    }

    pub fn unknown_id(&self) -> Option<u32> {
        self.id(self.unknown.as_deref()?)
    }

    /// Returns the tokens for the 256 bytes, if all of them exist.
    pub fn byte_ids(&self) -> Option<Box<[u32; 256]>> {
        let mut ids = Box::new([0; 256]);
        for (byte, id) in (0..=u8::MAX).zip(ids.iter_mut()) {
            *id = self.id(&byte_name(byte))?;
        }
        Some(ids)
    }

    /// Returns the same model in the form of the reference crate.
    pub fn to_crate(&self) -> Result<BPE, Error> {
        let text = |id| self.text(id).unwrap_or_default().to_owned();
        let merges = self.merges.iter().map(|&(left, right, _)| (text(left), text(right))).collect();
        let mut builder = BPE::builder()
            .vocab_and_merges(self.vocab.clone(), merges)
            .fuse_unk(self.fuse_unknown)
            .byte_fallback(self.byte_fallback)
            .ignore_merges(self.ignore_merges);
        if let Some(unknown) = &self.unknown {
            builder = builder.unk_token(unknown.clone());
        }
        if !self.prefix.is_empty() {
            builder = builder.continuing_subword_prefix(self.prefix.clone());
        }
        if let Some(suffix) = &self.suffix {
            builder = builder.end_of_word_suffix(suffix.clone());
        }
        builder.build().map_err(|error| Error::malformed("model", error.to_string()))
    }
}
