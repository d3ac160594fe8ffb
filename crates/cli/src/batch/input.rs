//! Reads the files of a run as one stream of lines.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::records::Records;
use crate::failure::Failure;
use crate::files;
use crate::io_message::io_message;

/// The files of a run, one after the other. The last line of a file ends with the file.
pub struct Input {
    rest: VecDeque<PathBuf>,
    open: Option<Box<dyn Read + Send>>,
    /// The name of the open file.
    name: String,
    last: u8,
    /// The number of line breaks read so far.
    lines: u64,
    begun: InputFiles,
}

/// The files that lines come from: for each file, the number of lines before it and its name.
#[derive(Clone, Debug, Default)]
pub struct InputFiles(Arc<Mutex<Vec<(u64, String)>>>);

impl InputFiles {
    /// Reports whether all lines come from one file.
    pub fn is_one(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len() <= 1
    }

    /// Returns the location of a line: `file.jsonl, line 7`.
    pub fn place(&self, line: u64) -> String {
        match self.place_of(line) {
            (Some(name), line) => format!("{name}, line {line}"),
            (None, line) => format!("line {line}"),
        }
    }

    /// Returns the file of a line, and its number in the file.
    pub fn place_of(&self, line: u64) -> (Option<String>, u64) {
        let begun = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match begun.iter().rev().find(|(before, _)| *before < line) {
            Some((before, name)) => (Some(name.clone()), line - before),
            None => (None, line),
        }
    }
}

impl Input {
    /// Opens the first file. Errors of the other files are reported when they are reached, except
    /// for files that do not exist or hold no text.
    pub fn open(paths: &[PathBuf]) -> Result<(Input, InputFiles), Failure> {
        for path in paths.iter().filter(|path| !files::is_stdin(path)) {
            let metadata = path.metadata().map_err(|error| files::unreadable_file(path, &error))?;
            // A pipe can be opened only once.
            if metadata.is_file() {
                files::open(path).map_err(|error| files::unreadable_file(path, &error))?;
            }
        }
        let begun = InputFiles::default();
        let mut input = Input {
            rest: paths.iter().cloned().collect(),
            open: None,
            name: String::new(),
            last: b'\n',
            lines: 0,
            begun: begun.clone(),
        };
        if let Some(first) = paths.first() {
            input.next_file().map_err(|error| files::unreadable_file(first, &error))?;
        }
        Ok((input, begun))
    }

    /// Opens the next file. Returns false if there is none.
    fn next_file(&mut self) -> io::Result<bool> {
        let Some(path) = self.rest.pop_front() else { return Ok(false) };
        self.open = Some(Box::new(Records::new(files::open(&path)?)));
        let name = if files::is_stdin(&path) { "<stdin>".to_owned() } else { path.display().to_string() };
        self.name = name.clone();
        self.begun.0.lock().unwrap_or_else(PoisonError::into_inner).push((self.lines, name));
        Ok(true)
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let Some(open) = &mut self.open else { return Ok(0) };
            let count = open.read(buffer).map_err(|error| named(&self.name, &error))?;
            if let [.., last] = buffer[..count] {
                self.last = last;
                if !self.rest.is_empty() {
                    self.lines += buffer[..count].iter().filter(|byte| **byte == b'\n').count() as u64;
                }
                return Ok(count);
            }
            if buffer.is_empty() {
                return Ok(0);
            }
            self.open = None;
            if self.rest.is_empty() {
                return Ok(0);
            }
            if self.last != b'\n' {
                self.lines += 1;
            }
            let is_cut = std::mem::replace(&mut self.last, b'\n') != b'\n';
            let path = self.rest.front().map(|path| path.display().to_string()).unwrap_or_default();
            self.next_file().map_err(|error| named(&path, &error))?;
            if is_cut {
                buffer[0] = b'\n';
                return Ok(1);
            }
        }
    }
}

/// Adds the name of the file to an error.
fn named(path: &str, error: &io::Error) -> io::Error {
    io::Error::other(format!("{path}: {}", io_message(error)))
}
