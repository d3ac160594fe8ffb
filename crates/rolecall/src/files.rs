//! Reading a model's files from disk.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::damage::{Damage, FileError};

/// The maximum size in bytes of a file of a model. The largest known `tokenizer.json` is a tenth of
/// this.
const MOST: u64 = 512 << 20;

/// Reports whether a file begins with the magic number of a GGUF file. The hub's cache names its
/// files by hashes, without an extension.
pub(crate) fn is_gguf(path: &Path) -> Result<bool, FileError> {
    let mut magic = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(4).read_to_end(&mut magic));
    read.map_err(|source| FileError::Unreadable { path: path.to_path_buf(), source })?;
    Ok(magic == *b"GGUF")
}

/// Returns the GGUF files of a folder, sorted by name.
pub(crate) fn gguf_files(folder: &Path) -> Result<Vec<PathBuf>, FileError> {
    Ok(files_of(folder, "gguf")?.into_iter().map(|name| folder.join(name)).collect())
}

/// Returns the names of a folder's files with an extension, sorted.
pub(crate) fn files_of(folder: &Path, ending: &str) -> Result<Vec<PathBuf>, FileError> {
    let unreadable = |source| FileError::Unreadable { path: folder.to_path_buf(), source };
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|extension| extension == ending) && path.is_file() {
            names.extend(path.file_name().map(PathBuf::from));
        }
    }
    names.sort();
    Ok(names)
}

pub(crate) fn read_bytes(path: &Path) -> Result<Vec<u8>, FileError> {
    let mut bytes = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(MOST + 1).read_to_end(&mut bytes));
    read.map_err(|source| FileError::Unreadable { path: path.to_path_buf(), source })?;
    match bytes.len() as u64 > MOST {
        true => Err(FileError::Damaged { path: path.to_path_buf(), damage: Damage::TooLarge(MOST) }),
        false => Ok(bytes),
    }
}

pub(crate) fn read_text(path: &Path) -> Result<String, FileError> {
    let damaged = |damage| FileError::Damaged { path: path.to_path_buf(), damage };
    let text = String::from_utf8(read_bytes(path)?)
        .map_err(|error| damaged(Damage::NotText(error.utf8_error().valid_up_to())))?;
    // Some editors write a byte order mark at the start of a text.
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}
