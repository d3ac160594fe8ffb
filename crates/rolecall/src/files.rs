//! Tokenizers from disk. The crates below take bytes.

use std::fs;
use std::path::{Path, PathBuf};

use rolecall_encode::tokenizer::{Error, HuggingFace, SentencePiece, Tokenizer};

/// Loads a tokenizer from a `tokenizer.json`, a sentencepiece `.model`, or a folder that holds one.
///
/// A `tokenizer_config.json` beside the file is read too: it names added tokens and says what is put around a prompt.
/// In a folder `tokenizer.json` is preferred, as transformers does.
pub fn load(path: &Path) -> Result<Box<dyn Tokenizer>, Error> {
    let file = find_file(path)?;
    let bytes = read(&file)?;
    let config = read_beside(&file, "tokenizer_config.json")?;
    let config = config.as_deref();
    // A tokenizer.json is an object; a sentencepiece model starts with a protobuf field tag.
    let starts_as_json = bytes.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'{');
    if starts_as_json || file.extension().is_some_and(|e| e == "json") {
        Ok(Box::new(HuggingFace::from_bytes(&bytes, config)?))
    } else if is_plain_text(&bytes) {
        let why = "it holds plain text".to_owned();
        Err(Error::NotRecognized { expected: "a tokenizer.json or a sentencepiece .model file", why })
    } else {
        Ok(Box::new(SentencePiece::from_bytes(&bytes, config)?))
    }
}

fn find_file(path: &Path) -> Result<PathBuf, Error> {
    if !path.is_dir() {
        return Ok(path.to_path_buf());
    }
    ["tokenizer.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model"]
        .iter()
        .map(|name| path.join(name))
        .find(|file| file.is_file())
        .ok_or_else(|| Error::Missing { path: path.to_path_buf() })
}

fn read_beside(file: &Path, name: &str) -> Result<Option<Vec<u8>>, Error> {
    let path = file.with_file_name(name);
    if path.is_file() { read(&path).map(Some) } else { Ok(None) }
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|source| Error::Unreadable { path: path.to_path_buf(), source })
}

/// A sentencepiece model is binary from its first bytes on.
fn is_plain_text(bytes: &[u8]) -> bool {
    let start = &bytes[..bytes.len().min(512)];
    let readable = |byte: &u8| *byte >= 0x20 || matches!(byte, b'\n' | b'\r' | b'\t');
    !start.is_empty() && start.iter().all(readable)
}
