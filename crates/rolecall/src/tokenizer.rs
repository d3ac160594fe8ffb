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

/// Loads a tokenizer from a file of any [kind](FileKind), or from a folder that holds one.
///
/// The content determines the kind. A `tokenizer_config.json` in the same folder is read too,
/// because it names added tokens and the tokens put around a prompt. It is not read for a GGUF file,
/// which has all of this itself and of which only the metadata is read. In a folder,
/// `tokenizer.json` is preferred, as in transformers.
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
    if let Some(file) = FileKind::FILE_NAMES.iter().map(|name| path.join(name)).find(|file| from.is_file(file)) {
        return Ok(file);
    }
    let files = from.of_folder(path).map_err(|source| unreadable(path, source))?;
    let such = |is_one: &fn(&Path) -> bool| files.iter().filter(|file| is_one(file)).cloned().collect::<Vec<_>>();
    let candidates = FileKind::OTHER_NAMES.iter().map(such).find(|found| !found.is_empty()).unwrap_or_default();
    match &candidates[..] {
        [] => Err(Error::Missing { path: path.to_path_buf() }),
        [file] => Ok(file.clone()),
        _ => Err(Error::Several { path: path.to_path_buf(), candidates }),
    }
}

fn unreadable(path: &Path, source: std::io::Error) -> Error {
    Error::Unreadable { path: path.to_path_buf(), source }
}
