//! Tokenizers: the trait, its adapters, and which kind of file a path holds, told by its content.

#[cfg(feature = "tokenizers")]
mod load;
#[cfg(not(feature = "tokenizers"))]
mod not_built;

use std::fs;
use std::path::{Path, PathBuf};

pub use rolecall_encode::audit::{Audit, ControlFit, Finding, FindingKind, Fit, Level, audit};
pub use rolecall_tokenizer::*;

#[cfg(feature = "tokenizers")]
pub use load::{load_bytes, load_file};
#[cfg(not(feature = "tokenizers"))]
pub use not_built::{load_bytes, load_file};

/// The names that a folder's tokenizer may have, the first of them that is there counts: transformers' own order, then the rest.
const NAMES: &[&str] =
    &["tokenizer.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "tiktoken.model", "tekken.json"];
/// Endings of files that hold a tokenizer, where none of the names is there and one file has the ending.
const ENDINGS: [&str; 2] = ["tiktoken", "gguf"];

/// Files beside a tokenizer that name tokens.
const TELLING_TOKENS: [&str; 3] = ["special_tokens_map.json", "generation_config.json", "config.json"];

/// A file that holds a tokenizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenizerFile {
    /// Where it is.
    pub path: PathBuf,
    /// What kind of file it is.
    pub kind: FileKind,
}

/// The kinds of files that hold a tokenizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileKind {
    /// `tokenizer.json`.
    TokenizerJson,
    /// A sentencepiece `.model`.
    SentencePiece,
    /// Lines of base64 and ranks.
    Tiktoken,
    /// `tekken.json`.
    Tekken,
    /// The vocabulary inside a GGUF file.
    Gguf,
}

impl FileKind {
    /// What people call it.
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

/// Loads a tokenizer from its file, whatever kind it is, or from a folder that holds one.
///
/// The content tells the kind: a `tokenizer.json`, a sentencepiece `.model`, ranks as tiktoken reads them, a `tekken.json`, or a
/// GGUF file, whose metadata alone is read. A `tokenizer_config.json` beside the file is read too (not for GGUF, which says
/// everything itself): it names added tokens and says what is put around a prompt. In a folder `tokenizer.json` is preferred, as
/// transformers does.
pub fn load(path: &Path) -> Result<Box<dyn Tokenizer>, Error> {
    load_file(path).map(|(_, tokenizer)| tokenizer)
}

/// The files that a tokenizer's ids depend on, those that are there: its own, and those of its folder that say which tokens are
/// protected, which are what [`load_file`] and the model's chat templates are read from.
pub fn files_read(path: &Path) -> Result<Vec<PathBuf>, Error> {
    let own = find_file(path)?;
    let folder = own.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut files = crate::files::model_files(folder);
    files.extend(TELLING_TOKENS.iter().map(|name| folder.join(name)).filter(|file| file.is_file()));
    files.push(folder.join(own.file_name().unwrap_or_default()));
    files.sort();
    files.dedup();
    Ok(files)
}

pub(crate) fn find_file(path: &Path) -> Result<PathBuf, Error> {
    if !path.is_dir() {
        return Ok(path.to_path_buf());
    }
    if let Some(file) = NAMES.iter().map(|name| path.join(name)).find(|file| file.is_file()) {
        return Ok(file);
    }
    let entries = fs::read_dir(path).map_err(|source| unreadable(path, source))?;
    let files: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_file()).collect();
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

/// mistral-common: `tokenizer.model.v3`, `mistral_instruct_tokenizer_240216.model.v2`.
fn is_of_version(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let version = name.split_once(".model.v").map(|(_, version)| version);
    version.is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
}

/// mistral-common: `tekken_240718.json`.
fn is_dated_tekken(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let date = name.strip_prefix("tekken_").and_then(|name| name.strip_suffix(".json"));
    date.is_some_and(|date| !date.is_empty() && date.bytes().all(|byte| byte.is_ascii_digit()))
}

fn unreadable(path: &Path, source: std::io::Error) -> Error {
    Error::Unreadable { path: path.to_path_buf(), source }
}
