//! Tokenizers and what tells a model, from disk. Everything else takes bytes.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use rolecall_encode::tokenizer::{Error, HuggingFace, SentencePiece, Tokenizer};

use crate::model::{Damage, FileError, ModelFile, ModelFolder};

/// Bytes of a file that tells a model; the largest known tokenizer.json has a tenth of it.
const MOST: u64 = 512 << 20;

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

/// Reads what the files of a folder say about the model in it. A folder without any of them says nothing.
pub fn read_folder(path: &Path) -> Result<ModelFolder, FileError> {
    let unreadable = |source| FileError::Unreadable { path: path.to_path_buf(), source };
    // A folder that may not be looked into is not an empty one.
    fs::read_dir(path).map_err(unreadable)?;
    let mut folder = ModelFolder::default();
    for file in ModelFile::ALL {
        let path = path.join(file.name());
        let is_needed = file != ModelFile::Tokenizer || !folder.has_all_tokens;
        if is_needed && path.is_file() {
            let text = read_text(&path)?;
            folder.read(file, &text).map_err(|damage| FileError::Damaged { path, damage })?;
        }
    }
    Ok(folder)
}

fn read_text(path: &Path) -> Result<String, FileError> {
    let damaged = |damage| FileError::Damaged { path: path.to_path_buf(), damage };
    let mut bytes = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(MOST + 1).read_to_end(&mut bytes));
    read.map_err(|source| FileError::Unreadable { path: path.to_path_buf(), source })?;
    if bytes.len() as u64 > MOST {
        return Err(damaged(Damage::TooLarge(MOST)));
    }
    let text = String::from_utf8(bytes).map_err(|error| damaged(Damage::NotText(error.utf8_error().valid_up_to())))?;
    // Some editors put a byte order mark before a text.
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
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
