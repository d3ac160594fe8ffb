use std::collections::HashMap;

use super::super::byte_alphabet::ByteAlphabet;
use super::super::byte_pairs::BytePairs;
use super::super::facts::{Cutting, cutting_named};
use super::super::ranks::Ranks;
use super::super::{Error, HuggingFace};
use super::{EmbeddedVocabulary, TOKENS, TokenType};

/// Builds a byte-level BPE from tokens in the byte alphabet, merges, and the name of the pattern.
pub(super) fn build(mut file: EmbeddedVocabulary) -> Result<HuggingFace, Error> {
    let name = file.pre.take().ok_or_else(|| {
        Error::malformed(
            "tokenizer.ggml.pre",
            "expected the name of the pattern that splits text into words, found none",
        )
    })?;
    let cutting = cutting_named(&name).ok_or_else(|| Error::unsupported("tokenizer.ggml.pre", name))?;
    let (bos, eos) = file.around(cutting.adds_bos, false)?;
    let beside = file.beside();
    let mut vocabulary = Vec::with_capacity(file.tokens.len());
    let mut added = Vec::new();
    let mut seen = HashMap::with_capacity(file.tokens.len());
    for (id, token) in file.tokens.iter().enumerate() {
        if let Some(before) = seen.insert(token.as_str(), id) {
            return Err(Error::malformed(TOKENS, format!("duplicate token `{token}`, with ids {before} and {id}")));
        }
        match file.type_of(id) {
            TokenType::Control | TokenType::Unknown => added.push(file.added(id, true)),
            TokenType::UserDefined => added.push(file.added(id, false)),
            // Unused tokens pad the table to a round number, and no tokenizer.json has them.
            TokenType::Unused => {}
            TokenType::Normal | TokenType::Byte => vocabulary.push((token.clone(), id as u32)),
        }
    }
    let merges = match file.merges.take() {
        Some(merges) => merges.into_iter().enumerate().map(read_merge).collect::<Result<_, _>>()?,
        None if cutting.ranks => merges_of_ids(&vocabulary)?,
        None => return Err(Error::malformed("tokenizer.ggml.merges", "expected a list of merges, found none")),
    };
    check_bytes(&vocabulary)?;
    let cutting = Cutting { whole: cutting.whole || cutting.ranks, ..cutting };
    BytePairs { vocabulary, merges, cutting, added, bos, eos }.into_tokenizer(beside)
}

fn read_merge((index, merge): (usize, String)) -> Result<(String, String), Error> {
    let second = merge.char_indices().skip(1).find(|(_, c)| *c == ' ').map(|(at, _)| at);
    let halves = second.map(|at| (merge[..at].to_owned(), merge[at + 1..].to_owned()));
    halves.ok_or_else(|| {
        let place = format!("tokenizer.ggml.merges[{index}]");
        Error::malformed(place, format!("expected two tokens separated by a space, found `{merge}`"))
    })
}

/// Returns the merges of a vocabulary whose ids are ranks.
fn merges_of_ids(vocabulary: &[(String, u32)]) -> Result<Vec<(String, String)>, Error> {
    let alphabet = ByteAlphabet::new();
    let mut ranks = Ranks::default();
    for (token, id) in vocabulary {
        let place = || format!("{TOKENS}[{id}]");
        let bytes = alphabet.read(token);
        let bytes = bytes.ok_or_else(|| Error::malformed(place(), format!("`{token}` does not spell bytes")))?;
        ranks.push(bytes, *id, place)?;
    }
    ranks.merges()
}

/// Checks that every byte of plain text has a token. Some makers leave out bytes that hardly occur:
/// control characters, and the first bytes of planes without characters. As in the reference, text
/// loses these.
fn check_bytes(vocabulary: &[(String, u32)]) -> Result<(), Error> {
    let alphabet = ByteAlphabet::new();
    let single: std::collections::HashSet<&str> =
        vocabulary.iter().map(|(token, _)| token.as_str()).filter(|token| token.chars().count() == 1).collect();
    let in_text = |byte: &u8| match byte {
        b'\t' | b'\n' | b'\r' => true,
        0..=0x1F | 0x7F | 0xC0 | 0xC1 | 0xF1 | 0xF2 | 0xF4.. => false,
        _ => true,
    };
    match (0..=u8::MAX).filter(in_text).find(|byte| !single.contains(alphabet.spell(&[*byte]).as_str())) {
        Some(byte) => Err(Error::malformed(TOKENS, format!("no token for byte 0x{byte:02X}"))),
        None => Ok(()),
    }
}
