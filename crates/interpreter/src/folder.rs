use std::fs::{File, Permissions};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, io};

use rolecall::conversation::{Json, object};
use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;
use uuid::Uuid;

use crate::Error;
use crate::options::KernelLimits;

/// The files of a session, which code sees in [`DATA`](crate::DATA). Clones are the same folder; it is removed with the
/// last of them.
///
/// Code that runs may put anything there at any time, so no name is followed: neither links nor pipes nor devices are
/// opened, and nothing outside is ever read or written.
///
/// ```
/// # use rolecall_interpreter::{Folder, KernelOptions};
/// let folder = Folder::new(&KernelOptions::default())?;
/// folder.write("data.csv", b"a,b\n1,2\n")?;
/// assert_eq!(folder.read("data.csv")?, b"a,b\n1,2\n");
/// assert_eq!(folder.list()?[0].name, "data.csv");
/// # Ok::<(), rolecall_interpreter::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Folder(Arc<Home>);

/// A file of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// Its name, with folders: `plots/a.png`.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// When it was changed, in seconds since 1970.
    pub changed: i64,
}

/// How full a folder is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub bytes: u64,
    pub files: u64,
}

impl Usage {
    /// Returns what is allowed.
    pub fn limit(limits: &KernelLimits) -> Usage {
        Usage { bytes: limits.disk, files: limits.files }
    }

    pub fn is_beyond(self, most: Usage) -> bool {
        self.bytes > most.bytes || self.files > most.files
    }
}

/// Everything of a session on this machine's disk.
#[derive(Debug)]
struct Home {
    root: PathBuf,
    data: OwnedFd,
    /// The user that the session's code runs as, if it is not the one of this process.
    user: Option<u32>,
    limits: KernelLimits,
    /// How many kernels were started here.
    starts: AtomicUsize,
    /// Held while the session lives, so that a later process knows which folders are left over.
    _lock: OwnedFd,
}

const PREFIX: &str = "rolecall-session-";

/// The most folders within each other that are looked into.
const MOST_DEPTH: usize = 32;

impl Folder {
    /// Makes an empty folder. What processes that were killed have left behind is removed first.
    pub fn new(options: &crate::KernelOptions) -> Result<Folder, Error> {
        let parent = options.folder.clone().unwrap_or_else(env::temp_dir);
        let named = |error: io::Error| Error::File { name: parent.display().to_string(), why: error.to_string() };
        sweep(&parent);
        let id = Uuid::new_v4();
        let root = parent.join(format!("{PREFIX}{}", &id.simple().to_string()[..16]));
        // Each session of a privileged process has a user of its own. No other program uses these: they are above
        // the users that containers are given, and below those that mean nobody.
        let user = rustix::process::geteuid().is_root().then(|| 1_879_048_192 + (id.as_u128() as u32 >> 6));
        fs::create_dir(&root).map_err(named)?;
        let made = (|| {
            let lock = File::create(root.join("lock"))?;
            rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
            fs::set_permissions(&root, Permissions::from_mode(if user.is_some() { 0o711 } else { 0o700 }))?;
            make_folder(&root.join("data"), user)?;
            let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let data = rustix::fs::open(root.join("data"), flags, Mode::empty())?;
            Ok((lock.into(), data))
        })();
        match made {
            Ok((lock, data)) => Ok(Folder(Arc::new(Home {
                root,
                data,
                user,
                limits: options.limits.clone(),
                starts: AtomicUsize::new(0),
                _lock: lock,
            }))),
            Err(error) => {
                let _ = fs::remove_dir_all(&root);
                Err(named(error))
            }
        }
    }

    /// Returns the folder's path on this machine. Code may have put links there: do not open its files by path.
    pub fn path(&self) -> PathBuf {
        self.0.root.join("data")
    }

    /// Returns where a file is for the code.
    pub fn path_within(name: &str) -> String {
        format!("{}/{name}", crate::DATA)
    }

    /// Returns the part of a message that attaches a file, which is to be in the folder.
    pub fn part(name: &str, size: u64) -> Json {
        let file = object! { "path" => Folder::path_within(name), "size" => i64::try_from(size).unwrap_or(i64::MAX) };
        object! { "type" => "file", "file" => file }.into()
    }

    /// Makes the folders of the next kernel: for its sockets, and for ours. No code has ever been there, and what is left of
    /// the kernel before goes.
    pub(crate) fn next_run(&self) -> io::Result<(PathBuf, PathBuf)> {
        let number = self.0.starts.fetch_add(1, Ordering::Relaxed);
        let named = |number: usize| ["run", "relay"].map(|name| self.0.root.join(format!("{name}-{number}")));
        if let Some(before) = number.checked_sub(1) {
            named(before).iter().for_each(|folder| remove(folder));
        }
        let [run, relay] = named(number);
        make_folder(&run, self.0.user)?;
        make_folder(&relay, None)?;
        Ok((run, relay))
    }

    pub(crate) fn root(&self) -> &Path {
        &self.0.root
    }

    pub(crate) fn user(&self) -> Option<u32> {
        self.0.user
    }

    /// Writes a file, in the place of one that has the name.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        self.put(name, bytes, false)
    }

    /// Writes a file, unless one has the name. Returns whether it was written.
    pub(crate) fn write_new(&self, name: &str, bytes: &[u8]) -> Result<bool, Error> {
        match self.create(name, bytes, true) {
            Err(Error::File { why, .. }) if why == Errno::EXIST.to_string() => Ok(false),
            other => other.map(|()| true),
        }
    }

    fn put(&self, name: &str, bytes: &[u8], is_new: bool) -> Result<(), Error> {
        self.check_room(name, bytes.len())?;
        self.create(name, bytes, is_new)
    }

    /// Checks that a file of this size may be written.
    pub(crate) fn check_room(&self, name: &str, size: usize) -> Result<(), Error> {
        let limits = &self.0.limits;
        let usage = self.usage(Usage::limit(limits));
        let full =
            |what: &str, most: u64| Error::File { name: name.into(), why: format!("{what} of the session is {most}") };
        if usage.bytes.saturating_add(size as u64) > limits.disk {
            return Err(full("the limit of bytes for all files", limits.disk));
        }
        if usage.files >= limits.files {
            return Err(full("the limit of files", limits.files));
        }
        Ok(())
    }

    fn create(&self, name: &str, bytes: &[u8], is_new: bool) -> Result<(), Error> {
        let failed = |error: io::Error| file_error(name, &error);
        let parts = check(name)?;
        let (last, folders) = parts.split_last().ok_or_else(|| bad(name, "it is empty"))?;
        let mut at = self.0.data.try_clone().map_err(failed)?;
        for folder in folders {
            match rustix::fs::mkdirat(&at, *folder, Mode::RWXU) {
                Ok(()) => self.give(&at, folder).map_err(failed)?,
                Err(Errno::EXIST) => {}
                Err(error) => return Err(failed(error.into())),
            }
            at = open_folder(&at, folder).map_err(failed)?;
        }
        if !is_new {
            // The name goes, whatever it stands for. What it stood for stays as it was.
            match rustix::fs::unlinkat(&at, *last, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(failed(error.into())),
            }
        }
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&at, *last, flags, Mode::from(0o644)).map_err(|error| failed(error.into()))?;
        if let Some(user) = self.0.user {
            rustix::fs::fchown(&file, Some(Uid::from_raw(user)), Some(Gid::from_raw(user)))
                .map_err(|error| failed(error.into()))?;
        }
        File::from(file).write_all(bytes).map_err(failed)
    }

    fn give(&self, at: &OwnedFd, name: &str) -> io::Result<()> {
        if let Some(user) = self.0.user {
            let (user, group) = (Uid::from_raw(user), Gid::from_raw(user));
            rustix::fs::chownat(at, name, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Ok(())
    }

    /// Reads a file.
    pub fn read(&self, name: &str) -> Result<Vec<u8>, Error> {
        let failed = |error: io::Error| file_error(name, &error);
        let file = self.open(name)?;
        let size = file.metadata().map_err(failed)?.len();
        let most = self.0.limits.disk;
        if size > most {
            return Err(Error::File {
                name: name.into(),
                why: format!("it has {size} bytes, and the limit is {most}"),
            });
        }
        let mut bytes = Vec::new();
        // It may grow while it is read.
        file.take(most).read_to_end(&mut bytes).map_err(failed)?;
        Ok(bytes)
    }

    fn open(&self, name: &str) -> Result<File, Error> {
        let failed = |error: io::Error| file_error(name, &error);
        let parts = check(name)?;
        let (last, folders) = parts.split_last().ok_or_else(|| bad(name, "it is empty"))?;
        let mut at = self.0.data.try_clone().map_err(failed)?;
        for folder in folders {
            at = open_folder(&at, folder).map_err(failed)?;
        }
        // A pipe would wait for a writer.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&at, *last, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::LOOP) => return Err(bad(name, "it is a link")),
            Err(error) => return Err(failed(error.into())),
        };
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(bad(name, "it is not a file"));
        }
        Ok(file)
    }

    /// Removes a file.
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        let failed = |error: io::Error| file_error(name, &error);
        let parts = check(name)?;
        let (last, folders) = parts.split_last().ok_or_else(|| bad(name, "it is empty"))?;
        let mut at = self.0.data.try_clone().map_err(failed)?;
        for folder in folders {
            at = open_folder(&at, folder).map_err(failed)?;
        }
        rustix::fs::unlinkat(&at, *last, AtFlags::empty()).map_err(|error| failed(error.into()))
    }

    /// Returns the files, by name. Links and what else is no file is left out, and so is a file whose name cannot be asked
    /// for: with control characters, too long, or no text.
    pub fn list(&self) -> Result<Vec<FileEntry>, Error> {
        let mut entries = Vec::new();
        let most = self.0.limits.files;
        walk(self.0.data.as_fd(), "", 0, &mut |entry, is_file, _| {
            if is_file && check(&entry.name).is_ok() && !entry.name.contains('\u{fffd}') {
                entries.push(entry);
            }
            (entries.len() as u64) <= most
        });
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    /// Returns how full the folder is, as far as `most`, together with that of the kernel's sockets. What cannot be
    /// looked into is beyond every limit.
    pub(crate) fn usage(&self, most: Usage) -> Usage {
        let mut usage = Usage::default();
        let mut add = |_: FileEntry, _: bool, space: u64| {
            usage.bytes += space;
            usage.files += 1;
            !usage.is_beyond(most)
        };
        let mut is_hidden = walk(self.0.data.as_fd(), "", 0, &mut add) == Walked::Hidden;
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let number = self.0.starts.load(Ordering::Relaxed).saturating_sub(1);
        if let Ok(run) = rustix::fs::open(self.0.root.join(format!("run-{number}")), flags, Mode::empty()) {
            is_hidden |= walk(run, "", 0, &mut add) == Walked::Hidden;
        }
        if is_hidden {
            usage.files = u64::MAX;
        }
        usage
    }
}

/// How a walk through a folder ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Walked {
    Whole,
    /// `show` ended it.
    Ended,
    /// There is something that could not be looked into.
    Hidden,
}

/// Shows everything within a folder, until `show` returns false: each entry, whether it is a file, and the space that
/// counts. A file with holes counts with its size, and one with space beyond its end with that.
fn walk(folder: impl AsFd, prefix: &str, depth: usize, show: &mut impl FnMut(FileEntry, bool, u64) -> bool) -> Walked {
    let Ok(entries) = Dir::read_from(folder.as_fd()) else { return Walked::Hidden };
    let mut walked = Walked::Whole;
    for entry in entries {
        let Ok(entry) = entry else { return Walked::Hidden };
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let Ok(stat) = rustix::fs::statat(folder.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let kind = FileType::from_raw_mode(stat.st_mode);
        let full = format!("{prefix}{}", name.to_string_lossy());
        let space = stat.st_blocks.max(0) as u64 * 512;
        let is_file = kind == FileType::RegularFile;
        let size = if is_file { stat.st_size.max(0) as u64 } else { space };
        let inner = format!("{full}/");
        if !show(FileEntry { name: full, size, changed: stat.st_mtime }, is_file, space.max(size)) {
            return Walked::Ended;
        }
        if kind != FileType::Directory {
            continue;
        }
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let inside = rustix::fs::openat(folder.as_fd(), name, flags, Mode::empty());
        match inside {
            Ok(inside) if depth < MOST_DEPTH => match walk(inside, &inner, depth + 1, show) {
                Walked::Ended => return Walked::Ended,
                Walked::Hidden => walked = Walked::Hidden,
                Walked::Whole => {}
            },
            // It went away meanwhile.
            Err(Errno::NOENT) => {}
            _ => walked = Walked::Hidden,
        }
    }
    walked
}

/// Makes a folder that its user alone can look into.
fn make_folder(path: &Path, user: Option<u32>) -> io::Result<()> {
    fs::create_dir(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o700))?;
    if let Some(user) = user {
        std::os::unix::fs::chown(path, Some(user), Some(user))?;
    }
    Ok(())
}

fn open_folder(at: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(at, name, flags, Mode::empty())?)
}

/// Divides a name at its slashes. A name with the folder of the sandbox before it is the same name.
fn check(name: &str) -> Result<Vec<&str>, Error> {
    let within = name.strip_prefix(crate::DATA).and_then(|rest| rest.strip_prefix('/')).unwrap_or(name);
    if within.starts_with('/') {
        return Err(bad(name, "it is not in /mnt/data"));
    }
    if name.len() > 1024 {
        return Err(bad(name, "it is longer than 1024 bytes"));
    }
    let parts: Vec<&str> = within.split('/').collect();
    if parts.len() > MOST_DEPTH {
        return Err(bad(name, "it has more than 32 folders"));
    }
    for part in &parts {
        match *part {
            "" => return Err(bad(name, "a part of it is empty")),
            "." | ".." => return Err(bad(name, "a part of it is `.` or `..`")),
            part if part.chars().any(char::is_control) => return Err(bad(name, "it has a control character")),
            _ => {}
        }
    }
    Ok(parts)
}

fn bad(name: &str, why: &'static str) -> Error {
    Error::FileName { name: name.to_owned(), why }
}

fn file_error(name: &str, error: &io::Error) -> Error {
    match error.kind() {
        ErrorKind::NotFound => Error::File { name: name.to_owned(), why: "there is no such file".into() },
        _ => Error::File {
            name: name.to_owned(),
            why: Errno::from_io_error(error).map_or(error.to_string(), |e| e.to_string()),
        },
    }
}

/// Removes the folders of sessions whose process was killed.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let path = entry.path();
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        // A session that is just being made has no lock yet.
        let is_new = entry
            .metadata()
            .and_then(|data| data.modified())
            .is_ok_and(|time| time.elapsed().is_ok_and(|age| age.as_secs() < 10));
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let is_left = match rustix::fs::open(path.join("lock"), flags, Mode::empty()) {
            Ok(lock) => rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok(),
            Err(error) => error == Errno::NOENT,
        };
        if is_left && !is_new {
            remove(&path);
        }
    }
}

/// Removes a folder, however deep it is, and also what code made unreadable. Nothing runs in it any more. Folders are
/// brought up to the first level instead of going down to the last, for which there might be too few open files.
fn remove(root: &Path) {
    let mut number = 0;
    let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
    // Each pass takes a level away.
    loop {
        let mut has_folders = false;
        for entry in entries(root) {
            let path = entry.path();
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let _ = fs::remove_file(path);
                continue;
            }
            let _ = fs::set_permissions(&path, Permissions::from_mode(0o700));
            for inner in entries(&path) {
                if inner.file_type().is_ok_and(|kind| kind.is_dir()) {
                    let _ = fs::set_permissions(inner.path(), Permissions::from_mode(0o700));
                    number += 1;
                    has_folders |= fs::rename(inner.path(), root.join(format!(".removed-{number}"))).is_ok();
                } else {
                    let _ = fs::remove_file(inner.path());
                }
            }
            let _ = fs::remove_dir(path);
        }
        if !has_folders {
            break;
        }
    }
    let _ = fs::remove_dir(root);
}

impl Drop for Home {
    fn drop(&mut self) {
        remove(&self.root);
    }
}
