use std::collections::BTreeMap;

use serde_json::json;

use super::super::byte_pairs::{around, of_added};
use super::super::{Error, HuggingFace};
use super::{EmbeddedVocabulary, TOKENS, TokenType};

/// The prefix that llama.cpp writes before a token that begins a word. The maker's own vocabulary
/// instead marks the tokens that continue one.
const BEGINS: char = '\u{2581}';
const GOES_ON: &str = "##";

/// Builds a WordPiece tokenizer, which splits words into the longest pieces.
pub(super) fn build(file: EmbeddedVocabulary) -> Result<HuggingFace, Error> {
    let unknown = file.id_of("unknown_token_id", file.unknown)?;
    let unknown =
        unknown.ok_or_else(|| Error::malformed("tokenizer.ggml.unknown_token_id", "expected an id, found none"))?;
    let (bos, eos) = file.around(true, false)?;
    // Prompts of this kind end with the separator.
    let eos = match (eos, file.add_eos) {
        (None, None) => file.id_of("seperator_token_id", file.separator)?,
        (eos, _) => eos,
    };
    let mut vocabulary = BTreeMap::new();
    let mut added = Vec::new();
    for (id, token) in file.tokens.iter().enumerate() {
        let of_type = file.type_of(id);
        let is_marker = matches!(of_type, TokenType::Control | TokenType::UserDefined | TokenType::Unknown)
            || id == unknown as usize
            || (token.starts_with('[') && token.ends_with(']'));
        let text = match token.strip_prefix(BEGINS) {
            _ if is_marker => token.clone(),
            Some(word) => word.to_owned(),
            None => format!("{GOES_ON}{token}"),
        };
        if matches!(of_type, TokenType::Control | TokenType::UserDefined | TokenType::Unknown) {
            added.push(of_added(&file.added(id, of_type != TokenType::UserDefined)));
        }
        if let Some(before) = vocabulary.insert(text, id) {
            return Err(Error::malformed(TOKENS, format!("duplicate token `{token}`, with ids {before} and {id}")));
        }
    }
    let lowercase = file.lowercase.unwrap_or(true);
    let tokenizer = json!({
        "added_tokens": added,
        "normalizer": {
            "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": file.strip_accents.unwrap_or(lowercase), "lowercase": lowercase,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": around(bos, eos),
        "model": {
            "type": "WordPiece", "vocab": vocabulary, "unk_token": file.tokens.get(unknown as usize),
            "continuing_subword_prefix": GOES_ON, "max_input_chars_per_word": 100,
        },
    });
    HuggingFace::from_bytes(tokenizer.to_string().as_bytes(), file.beside())
}
