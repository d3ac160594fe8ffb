//! Why a batch's output file cannot be written.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::io_message::io_message;

/// The reasons why the output file cannot be written.
#[derive(Debug)]
pub enum OutputProblem {
    Exists,
    /// The output is a folder, a device or a pipe.
    NoFile,
    /// The folder of the output does not exist.
    NoFolder(PathBuf),
    /// The output cannot be begun.
    Unopened(io::Error),
    /// The files of an interrupted run exist.
    Interrupted,
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
            OutputProblem::NoFolder(_) => "no_output_folder",
            OutputProblem::Interrupted => "interrupted_run",
            OutputProblem::NoJournal | OutputProblem::BadJournal(_) => "no_journal",
            OutputProblem::OtherArguments(_) => "other_arguments",
            OutputProblem::OtherInput => "other_input",
            OutputProblem::ShortPart => "damaged_part",
            OutputProblem::Unopened(_) | OutputProblem::Unwritable(_) => "unwritable_output",
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
            OutputProblem::NoJournal | OutputProblem::BadJournal(_) | OutputProblem::ShortPart => {
                "start over with `--force`"
            }
            OutputProblem::NoFolder(_) => "create the folder, or choose another file",
            OutputProblem::Unopened(_) => "choose another file; nothing was written",
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
            OutputProblem::NoFolder(folder) => write!(f, "the folder `{}` does not exist", folder.display()),
            OutputProblem::Unopened(error) => write!(f, "cannot begin the output: {}", io_message(error)),
            OutputProblem::Unwritable(error) => write!(f, "cannot write the output: {error}"),
        }
    }
}
