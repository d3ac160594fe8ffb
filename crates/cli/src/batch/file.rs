//! The output file of a batch. While the batch runs, rows go to `FILE.part`, and `FILE.resume`
//! holds the journal of its progress. `FILE` appears once all rows are written.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::journal::{Journal, beside};
use super::lines::LineMark;
use super::tally::Tally;
use super::{RowContents, columns};
use crate::output_problem::OutputProblem;
use crate::row_kind::RowKind;

/// The requested output file.
#[derive(Clone, Debug)]
pub struct Target {
    pub path: PathBuf,
    pub kind: RowKind,
    pub wanted: RowContents,
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

/// A file that is being written.
pub struct OutputFile {
    target: Target,
    part: PathBuf,
    journal_path: PathBuf,
    file: File,
    journal: Journal,
    saved: Instant,
}

/// An opened output file, or the counts of a run that is already complete. They are unknown if its
/// journal was removed, which happens once the file has its name.
pub enum OpenOutput {
    Open(Box<OutputFile>),
    Complete(Option<Tally>),
}

impl OutputFile {
    /// Opens the file, or resumes it if its dependencies match those of `fresh`.
    pub fn open(target: Target, fresh: Journal) -> Result<OpenOutput, OutputProblem> {
        let (part, journal_path) = (beside(&target.path, ".part"), beside(&target.path, ".resume"));
        let exists = match fs::metadata(&target.path) {
            Ok(metadata) if !metadata.is_file() => return Err(OutputProblem::NoFile),
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(OutputProblem::Unwritable(error)),
        };
        let journal = match (target.begin, Journal::load(&journal_path)) {
            (Begin::Replace, _) => None,
            (_, Err(error)) => return Err(OutputProblem::BadJournal(error)),
            (_, Ok(journal)) => journal,
        };
        match (target.begin, &journal) {
            (Begin::Fresh, Some(_)) => return Err(OutputProblem::Interrupted),
            (Begin::Fresh, None) if exists => return Err(OutputProblem::Exists),
            (Begin::Fresh, None) if part.exists() => return Err(OutputProblem::Interrupted),
            (Begin::Resume, None) if part.exists() => return Err(OutputProblem::NoJournal),
            (Begin::Resume, None) if exists => return Ok(OpenOutput::Complete(None)),
            (Begin::Resume, Some(journal)) => {
                return OutputFile::resume(target, part, journal_path, journal.clone(), &fresh.made_of);
            }
            _ => {}
        }
        if let Some(folder) = target.path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists()) {
            return Err(OutputProblem::NoFolder(folder.to_owned()));
        }
        let journal = fresh;
        // Save the journal first, so that a partial file always has one.
        journal.save(&journal_path).map_err(OutputProblem::Unopened)?;
        let file = File::create(&part).map_err(OutputProblem::Unopened)?;
        let mut open = OutputFile { target, part, journal_path, file, journal, saved: Instant::now() };
        open.write_head()?;
        Ok(OpenOutput::Open(Box::new(open)))
    }

    fn resume(
        target: Target,
        part: PathBuf,
        journal_path: PathBuf,
        journal: Journal,
        made_of: &[(String, String)],
    ) -> Result<OpenOutput, OutputProblem> {
        let other = journal.differs_in(made_of);
        if !other.is_empty() {
            return Err(OutputProblem::OtherArguments(other));
        }
        let file = OpenOptions::new().write(true).create(journal.output == 0).truncate(false).open(&part);
        let mut file = match file {
            Ok(file) => file,
            // The output already has its final name; only the journal was left.
            Err(error) if error.kind() == io::ErrorKind::NotFound && journal.complete && target.path.exists() => {
                fs::remove_file(&journal_path).map_err(OutputProblem::Unwritable)?;
                return Ok(OpenOutput::Complete(Some(journal.tally)));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(OutputProblem::ShortPart),
            Err(error) => return Err(OutputProblem::Unwritable(error)),
        };
        let length = file.metadata().map_err(OutputProblem::Unwritable)?.len();
        if length < journal.output {
            return Err(OutputProblem::ShortPart);
        }
        // Rows after this point are not in the journal and are written again.
        let cut = file.set_len(journal.output).and_then(|()| file.seek(SeekFrom::End(0)));
        cut.map_err(OutputProblem::Unwritable)?;
        let mut open = OutputFile { target, part, journal_path, file, journal, saved: Instant::now() };
        if open.journal.output == 0 {
            open.write_head()?;
        }
        Ok(OpenOutput::Open(Box::new(open)))
    }

    fn write_head(&mut self) -> Result<(), OutputProblem> {
        let head = columns::head(self.target.kind, self.target.wanted);
        let head = head.map_err(|error| OutputProblem::Unwritable(io::Error::other(error.0)))?;
        self.file.write_all(&head).map_err(OutputProblem::Unwritable)?;
        self.journal.output += head.len() as u64;
        Ok(())
    }

    /// Returns where the input continues, and the counts up to there.
    pub fn begun(&self) -> (LineMark, &Tally) {
        (self.journal.input, &self.journal.tally)
    }

    /// Appends the rows up to a position in the input.
    pub fn write(&mut self, bytes: &[u8], mark: LineMark, tally: &Tally) -> io::Result<()> {
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
        if self.target.kind == RowKind::Parquet {
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
