//! The file that a batch writes. What is not complete has another name: `FILE.part` grows, `FILE.resume` says how far it
//! is, and `FILE` is there when all is done.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::journal::{Journal, beside};
use super::lines::Mark;
use super::tally::Tally;
use super::{Kind, Wanted, columns};

/// What is asked of the output's file.
#[derive(Clone, Debug)]
pub struct Target {
    pub path: PathBuf,
    pub kind: Kind,
    pub wanted: Wanted,
    pub begin: Begin,
    /// How often the journal is written: so much work at most is done again.
    pub often: Duration,
}

/// What may be there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// Nothing.
    Fresh,
    /// A run that was interrupted, which goes on.
    Resume,
    /// Anything: it is replaced.
    Replace,
}

/// Why a file cannot be written as asked.
#[derive(Debug)]
pub enum Problem {
    Exists,
    /// It is a folder, a device or a pipe.
    NoFile,
    /// The files of an interrupted run are there.
    Interrupted,
    /// A complete file, and nothing that says how it came to be.
    NothingToResume,
    /// A part, and no journal.
    NoJournal,
    BadJournal(io::Error),
    /// These are not what they were.
    OtherArguments(Vec<String>),
    OtherInput,
    /// The part is shorter than the journal says.
    ShortPart,
    Unwritable(io::Error),
}

/// A file that is being written.
pub struct OutputFile {
    target: Target,
    part: PathBuf,
    journal_path: PathBuf,
    file: File,
    journal: Journal,
    saved: Instant,
}

/// A run that may begin, or has nothing left to do.
pub enum Opened {
    Open(Box<OutputFile>),
    Complete(Tally),
}

impl OutputFile {
    /// Opens the file, or goes on with it if it depends on the same things as a fresh one.
    pub fn open(target: Target, fresh: Journal) -> Result<Opened, Problem> {
        let (part, journal_path) = (beside(&target.path, ".part"), beside(&target.path, ".resume"));
        let exists = match fs::metadata(&target.path) {
            Ok(metadata) if !metadata.is_file() => return Err(Problem::NoFile),
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(Problem::Unwritable(error)),
        };
        let journal = match (target.begin, Journal::load(&journal_path)) {
            (Begin::Replace, _) => None,
            (_, Err(error)) => return Err(Problem::BadJournal(error)),
            (_, Ok(journal)) => journal,
        };
        match (target.begin, &journal) {
            (Begin::Fresh, Some(_)) => return Err(Problem::Interrupted),
            (Begin::Fresh, None) if exists => return Err(Problem::Exists),
            (Begin::Fresh, None) if part.exists() => return Err(Problem::Interrupted),
            (Begin::Resume, None) if part.exists() => return Err(Problem::NoJournal),
            (Begin::Resume, None) if exists => return Err(Problem::NothingToResume),
            (Begin::Resume, Some(journal)) => {
                return OutputFile::resume(target, part, journal_path, journal.clone(), &fresh.made_of);
            }
            _ => {}
        }
        let journal = fresh;
        // A part is never without a journal, whenever the run is ended.
        journal.save(&journal_path).map_err(Problem::Unwritable)?;
        let file = File::create(&part).map_err(Problem::Unwritable)?;
        let mut open = OutputFile { target, part, journal_path, file, journal, saved: Instant::now() };
        open.write_head()?;
        Ok(Opened::Open(Box::new(open)))
    }

    fn resume(
        target: Target,
        part: PathBuf,
        journal_path: PathBuf,
        journal: Journal,
        made_of: &[(String, String)],
    ) -> Result<Opened, Problem> {
        let other = journal.differs_in(made_of);
        if !other.is_empty() {
            return Err(Problem::OtherArguments(other));
        }
        let file = OpenOptions::new().write(true).create(journal.output == 0).truncate(false).open(&part);
        let mut file = match file {
            Ok(file) => file,
            // The part has its last name; only the journal was still there.
            Err(error) if error.kind() == io::ErrorKind::NotFound && journal.complete && target.path.exists() => {
                fs::remove_file(&journal_path).map_err(Problem::Unwritable)?;
                return Ok(Opened::Complete(journal.tally));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Problem::ShortPart),
            Err(error) => return Err(Problem::Unwritable(error)),
        };
        let length = file.metadata().map_err(Problem::Unwritable)?.len();
        if length < journal.output {
            return Err(Problem::ShortPart);
        }
        // What stands behind it was not yet counted, and is written again.
        let cut = file.set_len(journal.output).and_then(|()| file.seek(SeekFrom::End(0)));
        cut.map_err(Problem::Unwritable)?;
        let mut open = OutputFile { target, part, journal_path, file, journal, saved: Instant::now() };
        if open.journal.output == 0 {
            open.write_head()?;
        }
        Ok(Opened::Open(Box::new(open)))
    }

    fn write_head(&mut self) -> Result<(), Problem> {
        let head = columns::head(self.target.kind, self.target.wanted);
        let head = head.map_err(|error| Problem::Unwritable(io::Error::other(error.0)))?;
        self.file.write_all(&head).map_err(Problem::Unwritable)?;
        self.journal.output += head.len() as u64;
        Ok(())
    }

    /// Where the input goes on, and what was counted before it.
    pub fn begun(&self) -> (Mark, &Tally) {
        (self.journal.input, &self.journal.tally)
    }

    /// Adds the rows up to a place in the input.
    pub fn write(&mut self, bytes: &[u8], mark: Mark, tally: &Tally) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.journal.output += bytes.len() as u64;
        self.journal.input = mark;
        self.journal.tally.clone_from(tally);
        if self.saved.elapsed() >= self.target.often {
            self.save()?;
        }
        Ok(())
    }

    /// Makes sure that a later run can go on from here.
    pub fn save(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        self.journal.save(&self.journal_path)?;
        self.saved = Instant::now();
        Ok(())
    }

    /// Gives the file its name, now that all rows are in it.
    pub fn finish(mut self) -> io::Result<()> {
        self.journal.complete = true;
        self.save()?;
        if self.target.kind == Kind::Parquet {
            let joined = beside(&self.target.path, ".joined");
            columns::join(&self.part, &joined, self.target.wanted)?;
            fs::rename(&joined, &self.target.path)?;
            fs::remove_file(&self.part)?;
            return remove_journal(&self.journal_path);
        }
        // The end does not count: a run that is ended here writes it again.
        self.file.write_all(columns::end(self.target.kind))?;
        self.file.sync_data()?;
        fs::rename(&self.part, &self.target.path)?;
        remove_journal(&self.journal_path)
    }
}

fn remove_journal(path: &Path) -> io::Result<()> {
    fs::remove_file(path)
}

impl Problem {
    /// A stable name for the kind of problem.
    pub fn code(&self) -> &'static str {
        match self {
            Problem::Exists => "output_exists",
            Problem::NoFile => "output_is_no_file",
            Problem::Interrupted => "interrupted_run",
            Problem::NothingToResume => "nothing_to_resume",
            Problem::NoJournal | Problem::BadJournal(_) => "no_journal",
            Problem::OtherArguments(_) => "other_arguments",
            Problem::OtherInput => "other_input",
            Problem::ShortPart => "damaged_part",
            Problem::Unwritable(_) => "unwritable_output",
        }
    }

    /// What to do about it.
    pub fn help(&self) -> &'static str {
        match self {
            Problem::Exists => "name another file, or replace it with `--force`",
            Problem::NoFile => "name a file; without `--output` JSON lines go to standard output",
            Problem::Interrupted => "go on with `--resume`, or begin anew with `--force`",
            Problem::OtherArguments(_) => "go on with what it was begun with, or begin anew with `--force`",
            Problem::OtherInput => "give it the input that it was begun with, or begin anew with `--force`",
            Problem::NothingToResume | Problem::NoJournal | Problem::BadJournal(_) | Problem::ShortPart => {
                "begin anew with `--force`"
            }
            Problem::Unwritable(_) => "`--resume` goes on from here once it can be written again",
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Exists => f.write_str("the output is there already"),
            Problem::NoFile => f.write_str("the output is a folder, a device or a pipe"),
            Problem::Interrupted => f.write_str("a run that was interrupted has left a part of this output"),
            Problem::NothingToResume => f.write_str("the output is complete, and nothing says that it is this run's"),
            Problem::NoJournal => {
                f.write_str("a part of this output is there, but not the journal beside it (`.resume`)")
            }
            Problem::BadJournal(error) => {
                write!(f, "the journal beside the output (`.resume`) cannot be read: {error}")
            }
            Problem::OtherArguments(names) => {
                write!(f, "the interrupted run was begun with another {}", names.join(", another "))
            }
            Problem::OtherInput => f.write_str("the interrupted run had another input, up to where it stopped"),
            Problem::ShortPart => f.write_str("the part of this output is shorter than the journal beside it says"),
            Problem::Unwritable(error) => write!(f, "cannot write the output: {error}"),
        }
    }
}
