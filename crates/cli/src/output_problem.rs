//! Why a batch's output file cannot be written.

use std::fmt;
use std::io;

/// The reasons why the output file cannot be written.
#[derive(Debug)]
pub enum OutputProblem {
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

impl OutputProblem {
    /// Returns a stable name for the kind of problem.
    pub fn code(&self) -> &'static str {
        match self {
            OutputProblem::Exists => "output_exists",
            OutputProblem::NoFile => "output_is_no_file",
            OutputProblem::Interrupted => "interrupted_run",
            OutputProblem::NothingToResume => "nothing_to_resume",
            OutputProblem::NoJournal | OutputProblem::BadJournal(_) => "no_journal",
            OutputProblem::OtherArguments(_) => "other_arguments",
            OutputProblem::OtherInput => "other_input",
            OutputProblem::ShortPart => "damaged_part",
            OutputProblem::Unwritable(_) => "unwritable_output",
        }
    }

    /// Returns what to do about the problem.
    pub fn help(&self) -> &'static str {
        match self {
            OutputProblem::Exists => "choose another file, or replace this one with `--force`",
            OutputProblem::NoFile => "pass a file name, or omit `--output` to write JSON lines to standard output",
            OutputProblem::Interrupted => "continue with `--resume`, or start over with `--force`",
            OutputProblem::OtherArguments(_) => {
                "resume with the original arguments and files, or start over with `--force`"
            }
            OutputProblem::OtherInput => "resume with the original input, or start over with `--force`",
            OutputProblem::NothingToResume
            | OutputProblem::NoJournal
            | OutputProblem::BadJournal(_)
            | OutputProblem::ShortPart => "start over with `--force`",
            OutputProblem::Unwritable(_) => "once it can be written again, continue from here with `--resume`",
        }
    }
}

impl fmt::Display for OutputProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OutputProblem::Exists => f.write_str("the output already exists"),
            OutputProblem::NoFile => {
                f.write_str("expected a regular file as output, found a folder, a device or a pipe")
            }
            OutputProblem::Interrupted => f.write_str("an interrupted run left a partial output file"),
            OutputProblem::NothingToResume => f.write_str("the output is complete, but it has no journal of this run"),
            OutputProblem::NoJournal => {
                f.write_str("a partial output file exists, but the journal next to it (`.resume`) is missing")
            }
            OutputProblem::BadJournal(error) => {
                write!(f, "cannot read the journal of the output (`.resume`): {error}")
            }
            OutputProblem::OtherArguments(names) => {
                write!(f, "the interrupted run was started with a different {}", names.join(", a different "))
            }
            OutputProblem::OtherInput => {
                f.write_str("the interrupted run had a different input, up to where it stopped")
            }
            OutputProblem::ShortPart => f.write_str("the partial output file is shorter than its journal says"),
            OutputProblem::Unwritable(error) => write!(f, "cannot write the output: {error}"),
        }
    }
}
