//! Tokenizers: the trait, its implementations, and loading a tokenizer from any kind of file.

use std::fs::{self, File};
use std::io::{Cursor, Read, Seek};
use std::path::{Path, PathBuf};

pub use rolecall_encode::audit::{Audit, ControlFit, Finding, FindingKind, Fit, Level, audit};
pub use rolecall_encode::tokenizer::*;

use crate::gguf;
use crate::gguf::{Gguf, Problem};

/// The maximum size in bytes of a file that is read whole. The largest known `tokenizer.json` is a
/// tenth of this.
const MOST: u64 = 512 << 20;

/// The names that a folder's tokenizer may have. The first that exists is used: transformers' own
/// order, then the rest.
const NAMES: &[&str] =
    &["tokenizer.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "tiktoken.model", "tekken.json"];
/// The extensions of files that hold a tokenizer. Used if no file has one of the names and exactly
/// one file has the extension.
const ENDINGS: [&str; 2] = ["tiktoken", "gguf"];

type NamedReader = fn(&str, &[u8]) -> Result<Vec<Named>, Error>;
/// Files in the tokenizer's folder that name tokens.
const TELLING_TOKENS: [(&str, NamedReader); 3] = [
    ("special_tokens_map.json", Named::in_tokens),
    ("generation_config.json", Named::in_ids),
    ("config.json", Named::in_ids),
];

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

/// Loads a tokenizer as [`load`] does, and returns the file that it came from.
pub fn load_file(path: &Path) -> Result<(TokenizerFile, Box<dyn Tokenizer>), Error> {
    let path = find_file(path)?;
    let mut file = File::open(&path).map_err(|source| unreadable(&path, source))?;
    let mut bytes = Vec::new();
    file.by_ref().take(4).read_to_end(&mut bytes).map_err(|source| unreadable(&path, source))?;
    if bytes == *b"GGUF" {
        let tokenizer = from_gguf(file).map_err(|error| match error {
            Error::Unreadable { source, .. } => unreadable(&path, source),
            error => error,
        })?;
        return Ok((TokenizerFile { path, kind: FileKind::Gguf }, tokenizer));
    }
    read_rest(&mut file, &mut bytes, &path)?;
    let config = read_beside(&path, "tokenizer_config.json")?;
    let named = named_beside(&path)?;
    let (kind, tokenizer) = load_bytes(&bytes, Beside { config: config.as_deref(), named })?;
    Ok((TokenizerFile { path, kind }, tokenizer))
}

/// Returns the existing files that a tokenizer's ids depend on.
///
/// These are its own file and the files in its folder that determine which tokens are protected:
/// those that [`load_file`] reads, and those that the model's chat templates are loaded from.
pub fn files_read(path: &Path) -> Result<Vec<PathBuf>, Error> {
    let own = find_file(path)?;
    let folder = own.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut files = crate::files::model_files(folder);
    files.extend(TELLING_TOKENS.iter().map(|(name, _)| folder.join(name)).filter(|file| file.is_file()));
    files.push(folder.join(own.file_name().unwrap_or_default()));
    files.sort();
    files.dedup();
    Ok(files)
}

/// Loads a tokenizer from the bytes of its file.
///
/// `beside` holds the bytes of a `tokenizer_config.json` in the same folder, and the tokens that
/// other files name.
pub fn load_bytes<'a>(bytes: &[u8], beside: impl Into<Beside<'a>>) -> Result<(FileKind, Box<dyn Tokenizer>), Error> {
    let beside = beside.into();
    // A tokenizer.json is an object; a sentencepiece model starts with a protobuf field tag.
    let starts_as_json = bytes.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'{');
    if bytes.starts_with(b"GGUF") {
        Ok((FileKind::Gguf, from_gguf(Cursor::new(bytes))?))
    } else if starts_as_json && is_tekken(bytes) {
        Ok((FileKind::Tekken, Box::new(HuggingFace::from_tekken(bytes, beside)?)))
    } else if starts_as_json {
        Ok((FileKind::TokenizerJson, Box::new(HuggingFace::from_bytes(bytes, beside)?)))
    } else if is_tiktoken(bytes) {
        Ok((FileKind::Tiktoken, Box::new(HuggingFace::from_tiktoken(bytes, beside)?)))
    } else if is_plain_text(bytes) {
        let why = "the file is plain text".to_owned();
        Err(Error::NotRecognized { expected: "a tokenizer's file", why })
    } else {
        Ok((FileKind::SentencePiece, Box::new(SentencePiece::from_bytes(bytes, beside)?)))
    }
}

/// Reads another file of the tokenizer's folder, if it exists.
fn read_beside(path: &Path, name: &str) -> Result<Option<Vec<u8>>, Error> {
    let beside = path.with_file_name(name);
    if beside.is_file() { read(&beside).map(Some) } else { Ok(None) }
}

/// Returns the tokens that the other files of a model name.
fn named_beside(path: &Path) -> Result<Vec<Named>, Error> {
    let mut named = Vec::new();
    for (name, reader) in TELLING_TOKENS {
        if let Some(bytes) = read_beside(path, name)? {
            named.extend(reader(name, &bytes)?);
        }
    }
    Ok(named)
}

fn from_gguf<R: Read + Seek>(file: R) -> Result<Box<dyn Tokenizer>, Error> {
    let vocabulary = Gguf::read(file).and_then(|mut gguf| gguf.vocabulary()).map_err(of_gguf)?;
    let missing = || Error::Malformed {
        place: "tokenizer.ggml.model".into(),
        why: "the key is missing: the file has no tokenizer".into(),
    };
    vocabulary.ok_or_else(missing)?.into_tokenizer()
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

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let mut file = File::open(path).map_err(|source| unreadable(path, source))?;
    let mut bytes = Vec::new();
    read_rest(&mut file, &mut bytes, path)?;
    Ok(bytes)
}

fn read_rest(file: &mut File, bytes: &mut Vec<u8>, path: &Path) -> Result<(), Error> {
    file.take(MOST + 1).read_to_end(bytes).map_err(|source| unreadable(path, source))?;
    match bytes.len() as u64 > MOST {
        true => {
            let found = format!("the file has more than {MOST} bytes, the limit");
            Err(Error::Unsupported { place: path.display().to_string(), found })
        }
        false => Ok(()),
    }
}

fn unreadable(path: &Path, source: std::io::Error) -> Error {
    Error::Unreadable { path: path.to_path_buf(), source }
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

/// A sentencepiece model has binary data in its first bytes.
fn is_plain_text(bytes: &[u8]) -> bool {
    let start = &bytes[..bytes.len().min(512)];
    let readable = |byte: &u8| *byte >= 0x20 || matches!(byte, b'\n' | b'\r' | b'\t');
    !start.is_empty() && start.iter().all(readable)
}
