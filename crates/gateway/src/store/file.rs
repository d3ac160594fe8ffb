use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use redb::{Builder, Database};
use rolecall::guard::guard;

use super::{StoreFault, tables};

/// The database of an embedded store. After an error it is opened and checked again.
///
/// redb cannot go on after an error of the disk, and it panics on some damaged files: nothing that it
/// does leaves this module but as a [`StoreFault`].
pub struct StoreFile {
    path: PathBuf,
    state: RwLock<FileState>,
    /// How often it was opened.
    opened: AtomicU64,
    /// When it could not be opened, and why.
    failed: Mutex<Option<(Instant, StoreFault)>>,
}

enum FileState {
    Open(Database),
    Failed,
    Closed,
}

/// Why work on a database ended early.
pub enum Trouble {
    /// The database is well.
    Fault(StoreFault),
    /// It may not be.
    Database(redb::Error),
}

impl StoreFile {
    /// Opens a file, which is created if it is missing.
    pub fn open(path: PathBuf) -> Result<StoreFile, StoreFault> {
        if !path.try_exists().map_err(of_io)? {
            caught(|| create(&path))?;
        }
        let database = caught(|| open(&path))?;
        Ok(StoreFile {
            path,
            state: RwLock::new(FileState::Open(database)),
            opened: AtomicU64::new(1),
            failed: Mutex::new(None),
        })
    }

    /// Works on the database.
    pub fn with<T>(&self, work: impl FnOnce(&Database) -> Result<T, Trouble>) -> Result<T, StoreFault> {
        self.reopen()?;
        let done = {
            let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
            let FileState::Open(database) = &*state else { return Err(StoreFault::Down("it was closed".into())) };
            caught(|| match work(database) {
                Ok(value) => Ok(Ok(value)),
                Err(Trouble::Fault(fault)) => Ok(Err(fault)),
                Err(Trouble::Database(error)) => Err(error),
            })
        };
        done.unwrap_or_else(|fault| {
            self.leave(FileState::Failed);
            Err(fault)
        })
    }

    /// Returns how often the file was opened. Each time, it may be another one.
    pub fn opened(&self) -> u64 {
        self.opened.load(Ordering::Acquire)
    }

    /// Reports whether the file is open, and nothing failed since. It does not wait while it is opened again.
    pub fn is_open(&self) -> bool {
        self.state.try_read().is_ok_and(|state| matches!(*state, FileState::Open(_)))
    }

    /// Closes the file. It stays closed.
    pub fn close(&self) {
        self.leave(FileState::Closed);
    }

    fn leave(&self, next: FileState) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if let FileState::Open(database) = std::mem::replace(&mut *state, next) {
            // It writes a last time. If it cannot, it repairs itself when it is opened.
            let _: Result<(), StoreFault> = caught(|| {
                drop(database);
                Ok(())
            });
        }
    }

    /// Opens the database again if it failed, at most once a second.
    fn reopen(&self) -> Result<(), StoreFault> {
        if !matches!(*self.state.read().unwrap_or_else(PoisonError::into_inner), FileState::Failed) {
            return Ok(());
        }
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if !matches!(*state, FileState::Failed) {
            return Ok(());
        }
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((when, fault)) = &*failed
            && when.elapsed() < Duration::from_secs(1)
        {
            return Err(fault.clone());
        }
        match caught(|| open(&self.path)) {
            Ok(database) => {
                *state = FileState::Open(database);
                self.opened.fetch_add(1, Ordering::Release);
                *failed = None;
                Ok(())
            }
            Err(fault) => {
                *failed = Some((Instant::now(), fault.clone()));
                Err(fault)
            }
        }
    }
}

/// Opens a database and checks all of it.
fn open(path: &Path) -> Result<Database, redb::Error> {
    let mut database = builder().open(path)?;
    // redb does not check what it reads later.
    database.check_integrity()?;
    tables::check(&database)?;
    Ok(database)
}

/// Creates a file under another name first, so that nobody ever finds half of it.
fn create(path: &Path) -> Result<(), redb::Error> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    let make = || -> Result<(), redb::Error> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        tables::create(&builder().create_file(options.open(&new)?)?)
    };
    match make() {
        // Nobody has locked it, so it was left by a process that was killed.
        Err(redb::Error::Io(error)) if error.kind() == ErrorKind::InvalidData => {
            fs::remove_file(&new)?;
            make()?;
        }
        made => made?,
    }
    match fs::hard_link(&new, path) {
        Ok(()) => fs::remove_file(&new)?,
        // Another process was first.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => fs::remove_file(&new)?,
        // The file system has no links.
        Err(_) => fs::rename(&new, path)?,
    }
    #[cfg(unix)]
    if let Some(folder) = path.parent() {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        fs::File::open(folder)?.sync_all()?;
    }
    Ok(())
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    // The format that later versions of redb read.
    builder.create_with_file_format_v3(true).set_cache_size(64 << 20);
    builder
}

/// Does work of redb, and reports its errors and panics.
fn caught<T>(work: impl FnOnce() -> Result<T, redb::Error>) -> Result<T, StoreFault> {
    match guard(work) {
        Ok(done) => done.map_err(of_error),
        Err(_) => Err(StoreFault::Damaged("the file is truncated or its bytes were changed".into())),
    }
}

fn of_error(error: redb::Error) -> StoreFault {
    use redb::Error;
    match error {
        Error::Io(error) => of_io(error),
        Error::PreviousIo => StoreFault::Down("the disk failed before".into()),
        Error::DatabaseAlreadyOpen => StoreFault::Locked("another process has opened the file".into()),
        Error::UpgradeRequired(version) => StoreFault::Version(format!("the file has redb's format {version}")),
        Error::TableDoesNotExist(_) | Error::TableTypeMismatch { .. } | Error::TypeDefinitionChanged { .. } => {
            StoreFault::Version("the file has other tables".into())
        }
        Error::TableIsMultimap(_) | Error::TableIsNotMultimap(_) => {
            StoreFault::Version("the file has other tables".into())
        }
        Error::Corrupted(_) => StoreFault::Damaged("the file is truncated or its bytes were changed".into()),
        Error::ValueTooLarge(bytes) => StoreFault::Refused(format!("a turn of {bytes} bytes")),
        _ => StoreFault::Down("the database failed".into()),
    }
}

fn of_io(error: io::Error) -> StoreFault {
    let why = error.to_string();
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => StoreFault::Full(why),
        ErrorKind::InvalidData => StoreFault::Damaged("the file is empty, or not a store".into()),
        ErrorKind::UnexpectedEof => StoreFault::Damaged("the file is truncated".into()),
        ErrorKind::NotFound | ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => StoreFault::Refused(why),
        ErrorKind::IsADirectory | ErrorKind::NotADirectory => StoreFault::Refused(why),
        _ => StoreFault::Down(why),
    }
}

impl From<StoreFault> for Trouble {
    fn from(fault: StoreFault) -> Trouble {
        Trouble::Fault(fault)
    }
}

impl From<redb::StorageError> for Trouble {
    fn from(error: redb::StorageError) -> Trouble {
        Trouble::Database(error.into())
    }
}

impl From<redb::TableError> for Trouble {
    fn from(error: redb::TableError) -> Trouble {
        Trouble::Database(error.into())
    }
}

impl From<redb::TransactionError> for Trouble {
    fn from(error: redb::TransactionError) -> Trouble {
        Trouble::Database(error.into())
    }
}

impl From<redb::CommitError> for Trouble {
    fn from(error: redb::CommitError) -> Trouble {
        Trouble::Database(error.into())
    }
}
