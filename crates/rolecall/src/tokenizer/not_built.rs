//! What a build without the feature `tokenizers` says of tokenizer files.

use std::path::Path;

use rolecall_tokenizer::{Beside, Error, Tokenizer};

use super::{FileKind, TokenizerFile};

/// Refuses the file: this build reads no tokenizers.
pub fn load_file(_path: &Path) -> Result<(TokenizerFile, Box<dyn Tokenizer>), Error> {
    Err(Error::NotBuilt)
}

/// Refuses the bytes: this build reads no tokenizers.
pub fn load_bytes<'a>(_bytes: &[u8], _beside: impl Into<Beside<'a>>) -> Result<(FileKind, Box<dyn Tokenizer>), Error> {
    Err(Error::NotBuilt)
}
