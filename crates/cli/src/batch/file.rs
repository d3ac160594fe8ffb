//! The output file of a batch. While the batch runs, rows go to `FILE.part`, and `FILE.resume`
//! holds the journal of its progress. `FILE` appears once all rows are written.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::journal::{Journal, beside};
use super::lines::Mark;
use super::tally::Tally;
use super::{Kind, Wanted, columns};

/// The requested output file.
#[derive(Clone, Debug)]
pub struct Target {
    pub path: PathBuf,
    pub kind: Kind,
    pub wanted: Wanted,
    pub begin: Begin,
    /// How often the journal is written. An interrupted run repeats at most this much work.
    pub often: Duration,
}

/// What to do about files that already exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// Fail if any exist.
    Fresh,
    /// Resume an interrupted run.
    Resume,
    /// Replace them.
    Replace,
}

/// The reasons why the output file cannot be written.
#[derive(Debug)]
pub enum Problem {
    Exists,
    /// The output is a folder, a device or a pipe.
    NoFile,
    /// The files of an interrupted run exist.
    Interrupted,
    /// The file is complete, and no journal shows how it was made.
    NothingToResume,
    /// A partial file exists without a journal.
    NoJournal,
    BadJournal(io::Error),
    /// These dependencies of the output have changed.
    OtherArguments(Vec<String>),
    OtherInput,
    /// The partial file is shorter than its journal says.
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

/// An opened output file, or the counts of a run that is already complete.
pub enum Opened {
    Open(Box<OutputFile>),
    Complete(Tally),
}

impl OutputFile {
    /// Opens the file, or resumes it if its dependencies match those of `fresh`.
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
        // Save the journal first, so that a partial file always has one.
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
            // The output already has its final name; only the journal was left.
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
        // Rows after this point are not in the journal and are written again.
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

    /// Returns where the input continues, and the counts up to there.
    pub fn begun(&self) -> (Mark, &Tally) {
        (self.journal.input, &self.journal.tally)
    }

    /// Appends the rows up to a position in the input.
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

    /// Saves the journal, so that a later run can resume from here.
    pub fn save(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        self.journal.save(&self.journal_path)?;
        self.saved = Instant::now();
        Ok(())
    }

    /// Completes the file and gives it its final name.
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
    /// Returns a stable name for the kind of problem.
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

    /// Returns what to do about the problem.
    pub fn help(&self) -> &'static str {
        match self {
            Problem::Exists => "choose another file, or replace this one with `--force`",
            Problem::NoFile => "pass a file name, or omit `--output` to write JSON lines to standard output",
            Problem::Interrupted => "continue with `--resume`, or start over with `--force`",
            Problem::OtherArguments(_) => "resume with the original arguments and files, or start over with `--force`",
            Problem::OtherInput => "resume with the original input, or start over with `--force`",
            Problem::NothingToResume | Problem::NoJournal | Problem::BadJournal(_) | Problem::ShortPart => {
                "start over with `--force`"
            }
            Problem::Unwritable(_) => "once it can be written again, continue from here with `--resume`",
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Exists => f.write_str("the output already exists"),
            Problem::NoFile => f.write_str("expected a regular file as output, found a folder, a device or a pipe"),
            Problem::Interrupted => f.write_str("an interrupted run left a partial output file"),
            Problem::NothingToResume => f.write_str("the output is complete, but it has no journal of this run"),
            Problem::NoJournal => {
                f.write_str("a partial output file exists, but the journal next to it (`.resume`) is missing")
            }
            Problem::BadJournal(error) => {
                write!(f, "cannot read the journal of the output (`.resume`): {error}")
            }
            Problem::OtherArguments(names) => {
                write!(f, "the interrupted run was started with a different {}", names.join(", a different "))
            }
            Problem::OtherInput => f.write_str("the interrupted run had a different input, up to where it stopped"),
            Problem::ShortPart => f.write_str("the partial output file is shorter than its journal says"),
            Problem::Unwritable(error) => write!(f, "cannot write the output: {error}"),
        }
    }
}
