//! Refuses tokenizer files in a build without the feature `tokenizers`.

use std::path::Path;

use rolecall_tokenizer::{Beside, Error, Tokenizer};

use super::{FileKind, TokenizerFile};
use crate::files::Files;

/// Returns [`Error::NotBuilt`]: this build does not read tokenizer files.
pub fn load_file(_path: &Path) -> Result<(TokenizerFile, Box<dyn Tokenizer>), Error> {
    Err(Error::NotBuilt)
}

/// Returns [`Error::NotBuilt`]: this build does not read tokenizer files.
pub(crate) fn load_from(_files: &Files, _path: &Path) -> Result<(TokenizerFile, Box<dyn Tokenizer>), Error> {
    Err(Error::NotBuilt)
}

/// Returns [`Error::NotBuilt`]: this build does not read tokenizer files.
pub fn load_bytes<'a>(_bytes: &[u8], _beside: impl Into<Beside<'a>>) -> Result<(FileKind, Box<dyn Tokenizer>), Error> {
    Err(Error::NotBuilt)
}
