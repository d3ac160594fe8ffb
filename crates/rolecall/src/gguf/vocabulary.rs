//! The vocabulary that a GGUF file embeds.

use std::io::{Read, Seek};

use rolecall_tokenizer::{EmbeddedVocabulary, TokenType};

use super::{Error, Gguf, Problem, Value};

/// The maximum number of tokens in a vocabulary. The largest known has 300,000.
const MOST_TOKENS: u64 = 1 << 21;
/// The maximum number of merges in a vocabulary.
const MOST_MERGES: u64 = 1 << 22;
/// The maximum size in bytes of all its strings.
const MOST_TEXT: usize = 64 << 20;

const TOKENS: &str = "tokenizer.ggml.tokens";

impl<R: Read + Seek> Gguf<R> {
    /// Reads the vocabulary that the file embeds. Returns `None` if the file names no tokenizer.
    pub fn vocabulary(&mut self) -> Result<Option<EmbeddedVocabulary>, Error> {
        let Some(model) = self.text("tokenizer.ggml.model")?.map(str::to_owned) else { return Ok(None) };
        let mut left = MOST_TEXT;
        let tokens = self.bounded_texts(TOKENS, MOST_TOKENS, &mut left)?.unwrap_or_default();
        Ok(Some(EmbeddedVocabulary {
            model,
            pre: self.text("tokenizer.ggml.pre")?.map(str::to_owned),
            tokens,
            scores: self.scores()?,
            types: self.whole_numbers("tokenizer.ggml.token_type", MOST_TOKENS, TokenType::of_number)?,
            merges: self.bounded_texts("tokenizer.ggml.merges", MOST_MERGES, &mut left)?,
            charsmap: self
                .whole_numbers("tokenizer.ggml.precompiled_charsmap", MOST_TEXT as u64, |byte| byte as u8)?
                .unwrap_or_default(),
            bos: self.number("tokenizer.ggml.bos_token_id")?,
            eos: self.number("tokenizer.ggml.eos_token_id")?,
            unknown: self.number("tokenizer.ggml.unknown_token_id")?,
            // The GGUF format spells the key like this.
            separator: self.number("tokenizer.ggml.seperator_token_id")?,
            special: self.special_ids(),
            add_bos: self.flag("tokenizer.ggml.add_bos_token")?,
            add_eos: self.flag("tokenizer.ggml.add_eos_token")?,
            add_space_prefix: self.flag("tokenizer.ggml.add_space_prefix")?,
            remove_extra_whitespaces: self.flag("tokenizer.ggml.remove_extra_whitespaces")?,
            lowercase: self.flag("tokenizer.ggml.normalizer.lowercase")?,
            strip_accents: self.flag("tokenizer.ggml.normalizer.strip_accents")?,
            markers: Vec::new(),
        }))
    }

    /// Returns the keys that hold the id of a token, and the ids.
    fn special_ids(&self) -> Vec<(String, u64)> {
        let named = self.keys().filter_map(|key| Some((key.strip_prefix("tokenizer.ggml.")?, key)));
        let named = named.filter(|(name, _)| name.ends_with("_token_id"));
        // -1 means that there is no such token, read as either type.
        named
            .filter_map(|(name, key)| match self.value(key)? {
                Value::Unsigned(id) => Some((name.to_owned(), *id)),
                Value::Signed(id) => Some((name.to_owned(), u64::try_from(*id).ok()?)),
                _ => None,
            })
            .collect()
    }

    fn bounded_texts(&mut self, key: &str, most: u64, left: &mut usize) -> Result<Option<Vec<String>>, Error> {
        self.check_count(key, most)?;
        let mut texts = Vec::new();
        {
            let Some(elements) = self.elements(key)? else { return Ok(None) };
            for text in elements.texts() {
                let (_, text) = text?;
                match left.checked_sub(text.len()) {
                    Some(rest) => *left = rest,
                    None => break,
                }
                texts.push(text);
            }
        }
        let whole =
            self.value(key).is_some_and(|value| matches!(value, Value::Array(a) if a.len() == texts.len() as u64));
        match whole {
            true => Ok(Some(texts)),
            false => {
                let (found, most) = (MOST_TEXT as u64 + 1, MOST_TEXT as u64);
                Err(self.error_at(key, Problem::TooMany { what: "bytes of strings", found, most }))
            }
        }
    }

    fn scores(&mut self) -> Result<Option<Vec<f32>>, Error> {
        let as_score = |value: &Value| match value {
            Value::Float(score) => Some(*score as f32),
            Value::Signed(score) => Some(*score as f32),
            _ => None,
        };
        self.numbers("tokenizer.ggml.scores", MOST_TOKENS, "a score", as_score)
    }

    fn whole_numbers<T>(&mut self, key: &str, most: u64, of: impl Fn(i64) -> T) -> Result<Option<Vec<T>>, Error> {
        let as_number = |value: &Value| match value {
            Value::Signed(number) => Some(of(*number)),
            Value::Unsigned(number) => i64::try_from(*number).ok().map(&of),
            _ => None,
        };
        self.numbers(key, most, "an integer", as_number)
    }

    fn numbers<T>(
        &mut self,
        key: &str,
        most: u64,
        expected: &'static str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<Vec<T>>, Error> {
        self.check_count(key, most)?;
        let mut numbers = Vec::new();
        let mut wrong = None;
        {
            let Some(elements) = self.elements(key)? else { return Ok(None) };
            for value in elements {
                let value = value?;
                match read(&value) {
                    Some(number) => numbers.push(number),
                    None => {
                        wrong = Some(value.kind());
                        break;
                    }
                }
            }
        }
        match wrong {
            Some(found) => Err(self.error_at(key, Problem::WrongKind { expected, found })),
            None => Ok(Some(numbers)),
        }
    }

    fn check_count(&self, key: &str, most: u64) -> Result<(), Error> {
        match self.value(key) {
            Some(Value::Array(array)) if array.len() > most => {
                Err(self.error_at(key, Problem::TooMany { what: "elements", found: array.len(), most }))
            }
            _ => Ok(()),
        }
    }
}
