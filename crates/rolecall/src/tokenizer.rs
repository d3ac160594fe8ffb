//! Tokenizers: the trait, its implementations, and loading a tokenizer from any kind of file.

mod audit;
#[cfg(feature = "tokenizers")]
mod load;
#[cfg(not(feature = "tokenizers"))]
mod not_built;

use std::path::{Path, PathBuf};

pub use rolecall_encode::audit::{Audit, ControlFit, Finding, FindingKind, Fit, Level, audit};
pub use rolecall_tokenizer::*;

pub use audit::audit_with;
#[cfg(feature = "tokenizers")]
pub use load::{load_bytes, load_file};
#[cfg(not(feature = "tokenizers"))]
pub use not_built::{load_bytes, load_file};

#[cfg(feature = "tokenizers")]
pub(crate) use load::load_from;
#[cfg(not(feature = "tokenizers"))]
pub(crate) use not_built::load_from;

use crate::files::Files;

/// The names that a folder's tokenizer may have. The first that exists is used: transformers' own
/// order, then the rest.
const NAMES: &[&str] =
    &["tokenizer.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "tiktoken.model", "tekken.json"];
/// The extensions of files that hold a tokenizer. Used if no file has one of the names and exactly
/// one file has the extension.
const ENDINGS: [&str; 2] = ["tiktoken", "gguf"];

/// Files in the tokenizer's folder that name tokens.
const TELLING_TOKENS: [&str; 3] = ["special_tokens_map.json", "generation_config.json", "config.json"];

/// A file that holds a tokenizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenizerFile {
    /// The path.
    pub path: PathBuf,
    /// The kind of file.
    pub kind: FileKind,
}

/// A kind of file that holds a tokenizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileKind {
    /// `tokenizer.json`.
    TokenizerJson,
    /// A sentencepiece `.model`.
    SentencePiece,
    /// Lines of base64-encoded tokens with their ranks.
    Tiktoken,
    /// `tekken.json`.
    Tekken,
    /// The vocabulary inside a GGUF file.
    Gguf,
}

impl FileKind {
    /// Returns the common name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            FileKind::TokenizerJson => "tokenizer.json",
            FileKind::SentencePiece => "sentencepiece model",
            FileKind::Tiktoken => "tiktoken ranks",
            FileKind::Tekken => "tekken.json",
            FileKind::Gguf => "GGUF vocabulary",
        }
    }
}

/// Loads a tokenizer from a file of any kind, or from a folder that holds one.
///
/// The content determines the kind: a `tokenizer.json`, a sentencepiece `.model`, ranks in
/// tiktoken's format, a `tekken.json`, or a GGUF file, of which only the metadata is read. A
/// `tokenizer_config.json` in the same folder is read too, because it names added tokens and the
/// tokens put around a prompt. It is not read for a GGUF file, which has all of this itself. In a
/// folder, `tokenizer.json` is preferred, as in transformers.
pub fn load(path: &Path) -> Result<Box<dyn Tokenizer>, Error> {
    load_file(path).map(|(_, tokenizer)| tokenizer)
}

/// Returns the existing files that a tokenizer's ids depend on.
///
/// These are its own file and the files in its folder that determine which tokens are protected:
/// those that [`load_file`] reads, and those that the model's chat templates are loaded from.
pub fn files_read(path: &Path) -> Result<Vec<PathBuf>, Error> {
    let own = find_file(&Files::default(), path)?;
    let folder = own.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut files = crate::identify::model_files(folder);
    files.extend(TELLING_TOKENS.iter().map(|name| folder.join(name)).filter(|file| file.is_file()));
    files.push(folder.join(own.file_name().unwrap_or_default()));
    files.sort();
    files.dedup();
    Ok(files)
}

pub(crate) fn find_file(from: &Files, path: &Path) -> Result<PathBuf, Error> {
    if !from.is_dir(path) {
        return Ok(path.to_path_buf());
    }
    if let Some(file) = NAMES.iter().map(|name| path.join(name)).find(|file| from.is_file(file)) {
        return Ok(file);
    }
    let files = from.of_folder(path).map_err(|source| unreadable(path, source))?;
    let has_ending = |ending: &'static str| move |file: &Path| file.extension().is_some_and(|found| found == ending);
    let kinds: [&dyn Fn(&Path) -> bool; 4] =
        [&is_of_version, &is_dated_tekken, &has_ending(ENDINGS[0]), &has_ending(ENDINGS[1])];
    for is_one in kinds {
        let mut ended: Vec<&PathBuf> = files.iter().filter(|file| is_one(file)).collect();
        ended.sort();
        match ended.as_slice() {
            [] => {}
            [file] => return Ok((*file).clone()),
            several => {
                let candidates = several.iter().map(|file| (*file).clone()).collect();
                return Err(Error::Several { path: path.to_path_buf(), candidates });
            }
        }
    }
    Err(Error::Missing { path: path.to_path_buf() })
}

/// Names of mistral-common: `tokenizer.model.v3`, `mistral_instruct_tokenizer_240216.model.v2`.
fn is_of_version(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let version = name.split_once(".model.v").map(|(_, version)| version);
    version.is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
}

/// Names of mistral-common: `tekken_240718.json`.
fn is_dated_tekken(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let date = name.strip_prefix("tekken_").and_then(|name| name.strip_suffix(".json"));
    date.is_some_and(|date| !date.is_empty() && date.bytes().all(|byte| byte.is_ascii_digit()))
}

fn unreadable(path: &Path, source: std::io::Error) -> Error {
    Error::Unreadable { path: path.to_path_buf(), source }
}
