//! One JSON object a line in, one a line out: in order, and with no more than a line in memory.

use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use rolecall::{Json, Request, json};

use crate::diagnostic::{Diagnostic, Place, Severity};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::files;
use crate::output::Output;
use crate::refusal::Refusal;

/// How many refused lines are named at the end.
const NAMED: usize = 10;

/// Answers every line that is not blank.
pub fn answer_lines(
    input: Option<&Path>,
    output: &Output,
    mut answer: impl FnMut(&str) -> Result<Json, Refusal>,
) -> Result<Exit, Failure> {
    let name =
        input.filter(|path| !files::is_stdin(path)).map_or("<stdin>".to_owned(), |path| path.display().to_string());
    let mut reader = BufReader::new(files::open(input)?);
    let mut writer = BufWriter::new(io::stdout().lock());
    let mut line = Vec::new();
    let mut tally = Tally::default();
    loop {
        // Whoever waits for the answer to a line must get it before the next line comes.
        if reader.buffer().is_empty() {
            writer.flush().map_err(Failure::Unwritable)?;
        }
        line.clear();
        match reader.read_until(b'\n', &mut line) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) => {
                writer.flush().map_err(Failure::Unwritable)?;
                return Err(Failure::Unreadable { path: name, why: error.to_string() });
            }
        }
        tally.lines += 1;
        if line.trim_ascii().is_empty() {
            continue;
        }
        tally.answered += 1;
        let answered = answer_line(&line, &mut answer).unwrap_or_else(|error| {
            tally.refuse();
            error
        });
        let text = json::write(&answered, &json::Layout::compact());
        writer.write_all(text.as_bytes()).and_then(|()| writer.write_all(b"\n")).map_err(Failure::Unwritable)?;
    }
    writer.flush().map_err(Failure::Unwritable)?;
    if tally.refused == 0 {
        return Ok(Exit::Good);
    }
    output.show(&tally.diagnostic(name));
    Ok(Exit::Refused)
}

/// The answer to a line; a refusal's is the error.
fn answer_line(line: &[u8], answer: &mut impl FnMut(&str) -> Result<Json, Refusal>) -> Result<Json, Json> {
    let text = std::str::from_utf8(line).map_err(|error| Refusal::NotUtf8(error.valid_up_to()).to_json(None))?;
    let text = text.trim_start_matches('\u{feff}').trim_end_matches(['\n', '\r']);
    answer(text).map_err(|refusal| refusal.to_json(Request::id_of(text).as_ref()))
}

/// How many lines there were, and which were refused.
#[derive(Default)]
struct Tally {
    lines: usize,
    answered: usize,
    refused: usize,
    named: Vec<String>,
}

impl Tally {
    fn refuse(&mut self) {
        self.refused += 1;
        if self.named.len() < NAMED {
            self.named.push(self.lines.to_string());
        }
    }

    fn diagnostic(&self, name: String) -> Diagnostic<'static> {
        let more = if self.refused > self.named.len() { ", .." } else { "" };
        let lines = if self.refused == 1 { "line" } else { "lines" };
        Diagnostic {
            severity: Severity::Error,
            code: "refused_lines",
            message: match self.refused {
                1 => format!("1 of {} lines was refused", self.answered),
                refused => format!("{refused} of {} lines were refused", self.answered),
            },
            place: Place::Named(format!("{name}, {lines} {}{more}", self.named.join(", "))),
            help: Vec::new(),
        }
    }
}
