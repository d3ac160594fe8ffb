//! The files that a model is read from.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use twox_hash::XxHash3_128;

use crate::damage::{Damage, FileError};
use crate::gguf::{self, Gguf};

/// The maximum size in bytes of a file of a model. The largest known `tokenizer.json` is a tenth of
/// this.
const MOST: u64 = 512 << 20;

/// The files that a model is read from: those of the disk, and files held in memory.
///
/// ```
/// use rolecall::model::{Files, Model};
/// let mut files = Files::default();
/// files.hold("my-model/chat_template.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}");
/// let model = Model::builder().files(files).model("my-model").open()?;
/// assert!(model.templates().is_some());
/// # Ok::<(), rolecall::model::OpenError>(())
/// ```
#[derive(Clone, Default)]
pub struct Files {
    held: Arc<BTreeMap<PathBuf, HeldFile>>,
    /// Whether nothing is read from the disk.
    is_closed: bool,
    /// What was found at each path that was read. A model and its tokenizer, which is loaded later,
    /// share it.
    seen: Arc<Mutex<BTreeMap<PathBuf, PathState>>>,
}

/// What is held in memory for a path.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum HeldFile {
    File(Arc<[u8]>),
    /// A folder, with its absolute path if that was determined.
    Folder(Option<PathBuf>),
}

/// What was found at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PathState {
    /// A file of which this many bytes were read, with their digest. Of a GGUF file only the
    /// metadata is read.
    File {
        size: u64,
        digest: u128,
    },
    Folder(Option<PathBuf>),
}

/// Why the bytes of a file cannot be read.
#[derive(Debug)]
pub(crate) enum FileReadError {
    System(io::Error),
    /// It is larger than this many bytes.
    TooLarge(u64),
}

impl Files {
    /// Holds a file in memory. Its folder then counts as held too: other files in it are not looked
    /// up on the disk.
    pub fn hold(&mut self, path: impl Into<PathBuf>, content: impl Into<Vec<u8>>) {
        let path = path.into();
        let held = Arc::make_mut(&mut self.held);
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            held.entry(folder.to_path_buf()).or_insert(HeldFile::Folder(None));
        }
        held.insert(path, HeldFile::File(content.into().into()));
    }

    /// Returns files of which nothing else is read from the disk.
    pub(crate) fn closed(held: BTreeMap<PathBuf, HeldFile>) -> Files {
        Files { held: Arc::new(held), is_closed: true, seen: Arc::default() }
    }

    /// Returns the same files, of which nothing was read yet.
    pub(crate) fn unseen(&self) -> Files {
        Files { seen: Arc::default(), ..self.clone() }
    }

    /// Reports whether a path can only be found in memory.
    fn is_held(&self, path: &Path) -> bool {
        let is_folder = |folder: &Path| matches!(self.held.get(folder), Some(HeldFile::Folder(_)));
        self.is_closed || self.held.contains_key(path) || path.ancestors().any(is_folder)
    }

    pub(crate) fn is_file(&self, path: &Path) -> bool {
        match self.is_held(path) {
            true => matches!(self.held.get(path), Some(HeldFile::File(_))),
            false => path.is_file(),
        }
    }

    pub(crate) fn is_dir(&self, path: &Path) -> bool {
        let is_dir = match self.is_held(path) {
            true => match self.held.get(path) {
                Some(held) => matches!(held, HeldFile::Folder(_)),
                None => self.held.keys().any(|file| file != path && file.starts_with(path)),
            },
            false => path.is_dir(),
        };
        if is_dir {
            self.see(path, PathState::Folder(None));
        }
        is_dir
    }

    /// Checks that a folder can be listed.
    pub(crate) fn list(&self, folder: &Path) -> io::Result<()> {
        match self.is_held(folder) {
            true if self.is_dir(folder) => Ok(()),
            true => Err(io::ErrorKind::NotFound.into()),
            false => fs::read_dir(folder).map(|_| ()),
        }
    }

    /// Returns the files of a folder, sorted.
    pub(crate) fn of_folder(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        if self.is_held(folder) {
            self.list(folder)?;
            files.extend(self.held.keys().filter(|path| path.parent() == Some(folder)).cloned());
        } else {
            for entry in fs::read_dir(folder)? {
                files.push(folder.join(entry?.file_name()));
            }
        }
        files.retain(|path| self.is_file(path));
        files.sort();
        Ok(files)
    }

    /// Returns the absolute path of a folder.
    pub(crate) fn absolute(&self, folder: &Path) -> Option<PathBuf> {
        let path = match self.held.get(folder) {
            Some(HeldFile::Folder(path)) => path.clone(),
            Some(HeldFile::File(_)) => None,
            None if self.is_closed => None,
            None => folder.canonicalize().ok(),
        };
        self.see(folder, PathState::Folder(path.clone()));
        path
    }

    /// Returns the bytes of a file.
    pub(crate) fn read(&self, path: &Path) -> Result<Vec<u8>, FileReadError> {
        let bytes = self.bytes(path, MOST + 1)?;
        if bytes.len() as u64 > MOST {
            return Err(FileReadError::TooLarge(MOST));
        }
        self.see_file(path, &bytes);
        Ok(bytes)
    }

    fn bytes(&self, path: &Path, most: u64) -> Result<Vec<u8>, FileReadError> {
        let mut bytes = Vec::new();
        self.source(path)?.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn source(&self, path: &Path) -> io::Result<OpenFile> {
        match self.held.get(path) {
            Some(HeldFile::File(bytes)) => Ok(OpenFile::Held(Cursor::new(Arc::clone(bytes)))),
            _ if self.is_held(path) => Err(io::ErrorKind::NotFound.into()),
            _ => fs::File::open(path).map(OpenFile::Disk),
        }
    }

    /// Reports whether a file begins with the magic number of a GGUF file. The hub's cache names
    /// its files by hashes, without an extension.
    pub(crate) fn is_gguf(&self, path: &Path) -> io::Result<bool> {
        let mut magic = Vec::new();
        self.source(path)?.take(4).read_to_end(&mut magic)?;
        Ok(magic == *b"GGUF")
    }

    /// Reads the metadata of a GGUF file.
    pub(crate) fn gguf(&self, path: &Path) -> Result<Gguf<OpenFile>, gguf::Error> {
        let gguf = self.source(path).map_err(gguf::Error::Unreadable).and_then(Gguf::read)?;
        let is_known = self.seen.lock().unwrap_or_else(PoisonError::into_inner).contains_key(path);
        if !is_known && let Ok(metadata) = self.bytes(path, gguf.metadata_size()) {
            self.see_file(path, &metadata);
        }
        Ok(gguf)
    }

    pub(crate) fn read_bytes(&self, path: &Path) -> Result<Vec<u8>, FileError> {
        self.read(path).map_err(|error| match error {
            FileReadError::System(source) => FileError::Unreadable { path: path.to_path_buf(), source },
            FileReadError::TooLarge(limit) => {
                FileError::Damaged { path: path.to_path_buf(), damage: Damage::TooLarge(limit) }
            }
        })
    }

    pub(crate) fn read_text(&self, path: &Path) -> Result<String, FileError> {
        let damaged = |damage| FileError::Damaged { path: path.to_path_buf(), damage };
        let text = String::from_utf8(self.read_bytes(path)?)
            .map_err(|error| damaged(Damage::NotText(error.utf8_error().valid_up_to())))?;
        // Some editors write a byte order mark at the start of a text.
        Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
    }

    /// Returns the files of a folder with an extension, sorted by name.
    pub(crate) fn with_extension(&self, folder: &Path, extension: &str) -> Result<Vec<PathBuf>, FileError> {
        let files = self.of_folder(folder);
        let mut files = files.map_err(|source| FileError::Unreadable { path: folder.to_path_buf(), source })?;
        files.retain(|path| path.extension().is_some_and(|found| found == extension));
        Ok(files)
    }

    fn see_file(&self, path: &Path, bytes: &[u8]) {
        self.see(path, PathState::File { size: bytes.len() as u64, digest: XxHash3_128::oneshot(bytes) });
    }

    fn see(&self, path: &Path, found: PathState) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match seen.get_mut(path) {
            Some(PathState::Folder(absolute)) => {
                if let PathState::Folder(Some(found)) = found {
                    *absolute = Some(found);
                }
            }
            Some(PathState::File { .. }) => {}
            None => {
                seen.insert(path.to_path_buf(), found);
            }
        }
    }

    /// Returns everything that was read, with its content. A file that has changed since is an
    /// error.
    pub(crate) fn content(&self) -> Result<BTreeMap<PathBuf, HeldFile>, FileError> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let held = |(path, seen): (PathBuf, PathState)| {
            let held = match seen {
                PathState::Folder(absolute) => HeldFile::Folder(absolute),
                PathState::File { size, digest } => {
                    let bytes = self.bytes(&path, size).ok();
                    let same =
                        bytes.filter(|bytes| bytes.len() as u64 == size && XxHash3_128::oneshot(bytes) == digest);
                    HeldFile::File(same.ok_or_else(|| FileError::Changed { path: path.clone() })?.into())
                }
            };
            Ok((path, held))
        };
        seen.into_iter().map(held).collect()
    }
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Files").field("held", &self.held.keys()).finish_non_exhaustive()
    }
}

impl From<io::Error> for FileReadError {
    fn from(error: io::Error) -> FileReadError {
        FileReadError::System(error)
    }
}

/// An open file.
#[derive(Debug)]
pub(crate) enum OpenFile {
    Disk(fs::File),
    Held(Cursor<Arc<[u8]>>),
}

impl Read for OpenFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            OpenFile::Disk(file) => file.read(buffer),
            OpenFile::Held(bytes) => bytes.read(buffer),
        }
    }
}

impl Seek for OpenFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            OpenFile::Disk(file) => file.seek(to),
            OpenFile::Held(bytes) => bytes.seek(to),
        }
    }
}
