//! The kinds of files that hold a tokenizer, in one table.

use std::path::Path;

#[cfg(feature = "files")]
use super::{Beside, Error, HuggingFace, SentencePiece, Tokenizer};

/// Generates the enum, and what is known of each kind, from one table.
macro_rules! kinds {
    ($(
        $(#[$about:meta])*
        $kind:ident: $name:literal, $noun:literal, [$($file:literal),*] [$($form:ident),*] [$($extension:literal),*],
            if $is:path $(=> $read:path)?;
    )+) => {
        /// A kind of file that holds a tokenizer.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum FileKind {
            $($(#[$about])* $kind,)+
        }

        impl FileKind {
            /// All kinds.
            pub const ALL: &[FileKind] = &[$(FileKind::$kind),+];
            /// What holds a tokenizer, for messages.
            pub const LIST: &str = concat!($($noun, ", ",)+ "or a folder that contains one");
            pub(super) const HELP: &str = concat!("pass ", $($noun, ", ",)+ "or a folder that contains one");
            /// The names that a folder's tokenizer may have. The first that exists is used.
            pub const FILE_NAMES: &[&str] = &[$($($file,)*)+];
            /// What recognizes other names. The first that fits a file is used if no file has one of the
            /// [names](Self::FILE_NAMES), and if it fits no other file.
            pub const OTHER_NAMES: &[fn(&Path) -> bool] = &[
                $($(|path| path.file_name().is_some_and(|name| $form(&name.to_string_lossy())),)*)+
                $($(|path| path.extension().is_some_and(|found| found == $extension),)*)+
            ];

            /// Returns the common name of the kind.
            pub fn name(self) -> &'static str {
                match self { $(FileKind::$kind => $name,)+ }
            }

            /// Returns the kind of a file with this content.
            #[cfg(feature = "files")]
            pub fn of(bytes: &[u8]) -> Result<FileKind, Error> {
                let is_it = |kind: &&FileKind| match kind { $(FileKind::$kind => $is(bytes),)+ };
                let why = "the file is plain text".to_owned();
                let unknown = Error::NotRecognized { expected: "a tokenizer's file", why };
                FileKind::ALL.iter().rfind(is_it).copied().ok_or(unknown)
            }

            /// Reads a file of this kind. Returns `None` for a GGUF file: it is as large as its model, so
            /// whoever holds it reads the metadata into an `EmbeddedVocabulary`.
            #[cfg(feature = "files")]
            pub fn read(self, bytes: &[u8], beside: Beside<'_>) -> Result<Option<Box<dyn Tokenizer>>, Error> {
                Ok(match self {
                    $($(FileKind::$kind => Some(Box::new($read(bytes, beside)?)),)?)+
                    _ => None,
                })
            }
        }
    };
}

// Each row: the common name, the noun in lists; the names that such a file has in a folder, functions that
// recognize further names, and extensions; what recognizes the content and what reads it. A folder's file of
// an earlier row is preferred, in transformers' own order. Content is compared with the last row first,
// because the first rows accept almost anything.
kinds! {
    /// `tokenizer.json`.
    TokenizerJson: "tokenizer.json", "a tokenizer.json", ["tokenizer.json"] [] [],
        if super::hugging_face::is_object => HuggingFace::from_bytes;
    /// A sentencepiece `.model`.
    SentencePiece: "sentencepiece model", "a sentencepiece .model",
        ["tokenizer.model", "spiece.model", "sentencepiece.bpe.model"] [has_version] [],
        if super::sentencepiece::is_sentencepiece => SentencePiece::from_bytes;
    /// Lines of base64-encoded tokens with their ranks.
    Tiktoken: "tiktoken ranks", "tiktoken ranks", ["tiktoken.model"] [] ["tiktoken"],
        if super::tiktoken::is_tiktoken => HuggingFace::from_tiktoken;
    /// `tekken.json`.
    Tekken: "tekken.json", "a tekken.json", ["tekken.json"] [is_dated_tekken] [],
        if super::tekken::is_tekken => HuggingFace::from_tekken;
    /// The vocabulary inside a GGUF file.
    Gguf: "GGUF vocabulary", "a GGUF file", [] [] ["gguf"], if super::gguf::is_gguf;
}

/// Names of mistral-common: `tokenizer.model.v3`, `mistral_instruct_tokenizer_240216.model.v2`.
fn has_version(name: &str) -> bool {
    let version = name.split_once(".model.v").map(|(_, version)| version);
    version.is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
}

/// Names of mistral-common: `tekken_240718.json`.
fn is_dated_tekken(name: &str) -> bool {
    let date = name.strip_prefix("tekken_").and_then(|name| name.strip_suffix(".json"));
    date.is_some_and(|date| !date.is_empty() && date.bytes().all(|byte| byte.is_ascii_digit()))
}
