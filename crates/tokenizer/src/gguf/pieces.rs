use serde_json::json;

use super::super::byte_pairs::of_added;
use super::super::{Beside, Error, SentencePiece};
use super::{EmbeddedVocabulary, TOKENS, TokenType};

/// Builds a tokenizer from pieces with scores by writing the equivalent sentencepiece model, so
/// that there is one loader with all its checks.
pub(super) fn build(file: EmbeddedVocabulary, is_unigram: bool) -> Result<SentencePiece, Error> {
    let (bos, eos) = file.around(!is_unigram, is_unigram)?;
    let Some(scores) = &file.scores else {
        return Err(Error::malformed("tokenizer.ggml.scores", "expected a list of scores, found none"));
    };
    let unknown = file.id_of("unknown_token_id", file.unknown)?;
    let has_unknown = (0..file.tokens.len()).any(|id| file.type_of(id) == TokenType::Unknown);
    let has_bytes = (0..file.tokens.len()).any(|id| file.type_of(id) == TokenType::Byte);
    let mut model = Message::default();
    let mut added = serde_json::Map::new();
    for (id, (token, score)) in file.tokens.iter().zip(scores).enumerate() {
        // A file without types specifies the unknown piece by its id.
        let of_type = match file.type_of(id) {
            TokenType::Normal if !has_unknown && unknown.is_some_and(|unknown| unknown as usize == id) => {
                TokenType::Unknown
            }
            of_type => of_type,
        };
        if matches!(of_type, TokenType::Control | TokenType::UserDefined) {
            added.insert(id.to_string(), of_added(&file.added(id, of_type == TokenType::Control)));
        }
        let mut piece = Message::default();
        piece.bytes(1, token.as_bytes());
        piece.float(2, *score);
        piece.number(3, number_of(of_type));
        model.bytes(1, &piece.0);
    }
    let mut trainer = Message::default();
    trainer.number(3, if is_unigram { 1 } else { 2 });
    trainer.number(35, u64::from(has_bytes));
    model.bytes(2, &trainer.0);
    let mut normalizer = Message::default();
    normalizer.bytes(2, &file.charsmap);
    normalizer.number(3, u64::from(file.add_space_prefix.unwrap_or(true)));
    normalizer.number(4, u64::from(file.remove_extra_whitespaces.unwrap_or(is_unigram)));
    model.bytes(3, &normalizer.0);
    let text = |id: Option<u32>| id.and_then(|id| file.tokens.get(id as usize));
    let config = json!({
        "added_tokens_decoder": added,
        "add_bos_token": bos.is_some(), "bos_token": text(bos),
        "add_eos_token": eos.is_some(), "eos_token": text(eos),
    });
    let config = config.to_string();
    let beside = Beside { config: Some(config.as_bytes()), ..file.beside() };
    SentencePiece::from_bytes(&model.0, beside).map_err(|error| match error {
        Error::Malformed { place, why } => match place.strip_prefix("pieces") {
            Some(index) => Error::malformed(format!("{TOKENS}{index}"), why),
            None => Error::malformed(format!("tokenizer.ggml: {place}"), why),
        },
        other => other,
    })
}

fn number_of(of_type: TokenType) -> u64 {
    match of_type {
        TokenType::Normal => 1,
        TokenType::Unknown => 2,
        TokenType::Control => 3,
        TokenType::UserDefined => 4,
        TokenType::Unused => 5,
        TokenType::Byte => 6,
    }
}

/// Writer for the fields of a protobuf message.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn number(&mut self, field: u64, number: u64) {
        self.varint(field << 3);
        self.varint(number);
    }

    fn float(&mut self, field: u64, number: f32) {
        self.varint(field << 3 | 5);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }
}
