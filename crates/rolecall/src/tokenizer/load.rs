//! Loading a tokenizer. The content of the file determines its kind.

use std::io::{Cursor, Read, Seek};
use std::path::Path;

use rolecall_encode::turn_markers;
use rolecall_tokenizer::{Beside, Error, NamedToken, Tokenizer};

use super::{FileKind, TELLING_TOKENS, TokenizerFile, find_file, unreadable};
use crate::files::{FileReadError, Files};
use crate::gguf::{self, Gguf, Problem};
use crate::template::ModelTemplates;

/// Loads a tokenizer as [`load`](super::load) does, and returns the file that it came from.
pub fn load_file(path: &Path) -> Result<(TokenizerFile, Box<dyn Tokenizer>), Error> {
    load_from(&Files::default(), path)
}

/// Loads a tokenizer as [`load_file`] does.
pub(crate) fn load_from(files: &Files, path: &Path) -> Result<(TokenizerFile, Box<dyn Tokenizer>), Error> {
    let path = find_file(files, path)?;
    if files.is_gguf(&path).map_err(|source| unreadable(&path, source))? {
        let tokenizer = files.gguf(&path).map_err(of_gguf).and_then(from_gguf).map_err(|error| match error {
            Error::Unreadable { source, .. } => unreadable(&path, source),
            error => error,
        })?;
        return Ok((TokenizerFile { path, kind: FileKind::Gguf }, tokenizer));
    }
    let bytes = read(files, &path)?;
    let config = read_beside(files, &path, "tokenizer_config.json")?;
    let named = named_beside(files, &path)?;
    let (kind, tokenizer) = load_bytes(&bytes, Beside { config: config.as_deref(), named })?;
    Ok((TokenizerFile { path, kind }, tokenizer))
}

/// Loads a tokenizer from the bytes of its file.
///
/// `beside` holds the bytes of a `tokenizer_config.json` in the same folder, and the tokens that
/// other files name.
pub fn load_bytes<'a>(bytes: &[u8], beside: impl Into<Beside<'a>>) -> Result<(FileKind, Box<dyn Tokenizer>), Error> {
    let kind = FileKind::of(bytes)?;
    let tokenizer = match kind.read(bytes, beside.into())? {
        Some(tokenizer) => tokenizer,
        None => Gguf::read(Cursor::new(bytes)).map_err(of_gguf).and_then(from_gguf)?,
    };
    Ok((kind, tokenizer))
}

/// Reads another file of the tokenizer's folder, if it exists.
fn read_beside(files: &Files, path: &Path, name: &str) -> Result<Option<Vec<u8>>, Error> {
    let beside = path.with_file_name(name);
    if files.is_file(&beside) { read(files, &beside).map(Some) } else { Ok(None) }
}

/// Returns the tokens that the other files of a model name.
fn named_beside(files: &Files, path: &Path) -> Result<Vec<NamedToken>, Error> {
    let mut named = Vec::new();
    for name in TELLING_TOKENS {
        if let Some(bytes) = read_beside(files, path, name)? {
            let has_texts = name == TELLING_TOKENS[0];
            named.extend(if has_texts {
                NamedToken::in_tokens(name, &bytes)
            } else {
                NamedToken::in_ids(name, &bytes)
            }?);
        }
    }
    Ok(named)
}

fn from_gguf<R: Read + Seek>(mut gguf: Gguf<R>) -> Result<Box<dyn Tokenizer>, Error> {
    let vocabulary = gguf.vocabulary().map_err(of_gguf)?;
    let missing = || Error::Malformed {
        place: "tokenizer.ggml.model".into(),
        why: "the key is missing: the file has no tokenizer".into(),
    };
    let mut vocabulary = vocabulary.ok_or_else(missing)?;
    // A template with errors is reported where it renders.
    let templates = ModelTemplates::from_gguf(&mut gguf, Path::new("")).unwrap_or_default();
    let compiled = templates.templates.iter().map(|named| named.compile(&templates.tokens));
    vocabulary.markers = compiled.flatten().flat_map(|template| turn_markers(&template)).collect();
    vocabulary.into_tokenizer()
}

fn read(files: &Files, path: &Path) -> Result<Vec<u8>, Error> {
    files.read(path).map_err(|error| match error {
        FileReadError::System(source) => unreadable(path, source),
        FileReadError::TooLarge(limit) => {
            let found = format!("the file has more than {limit} bytes, the limit");
            Error::Unsupported { place: path.display().to_string(), found }
        }
    })
}

/// Converts an error in a GGUF file to an error in the tokenizer.
fn of_gguf(error: gguf::Error) -> Error {
    let flaw = match error {
        gguf::Error::Unreadable(source) => return unreadable(Path::new(""), source),
        gguf::Error::Damaged(flaw) => flaw,
    };
    match flaw.problem {
        Problem::Ends { .. } if flaw.key.is_empty() => {
            Error::Truncated { expected: "a GGUF file", offset: usize::try_from(flaw.offset).unwrap_or(usize::MAX) }
        }
        problem => {
            let place = if flaw.key.is_empty() { "GGUF header".to_owned() } else { flaw.key };
            Error::Malformed { place, why: format!("{problem} (byte {})", flaw.offset) }
        }
    }
}
