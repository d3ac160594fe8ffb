//! Plays a script line by line.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use rolecall::Request;
use rolecall::conversation::Json;
use rolecall::conversation::json::Object;

use super::player::{Done, Player};
use super::script::{ScriptStep, operation_of, read_line};
use crate::diagnostic::{Diagnostic, DiagnosticPlace};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::files;
use crate::output::Output;
use crate::reading::ParseRun;
use crate::refusal::Refusal;
use crate::source::Source;

/// A step that was played.
pub struct PlayedStep<'a> {
    /// The number of the step, from 1.
    pub step: usize,
    /// The number of its line, from 1.
    pub line: usize,
    /// The name of the script.
    pub script: &'a str,
    text: &'a str,
    /// The caller's id.
    pub id: Option<Json>,
    pub operation: Option<&'static str>,
    /// The name of the session in which it was played.
    pub session: String,
    pub outcome: Result<Done, Refusal>,
}

impl PlayedStep<'_> {
    /// Returns the step's line, with its number in the script.
    pub fn source(&self) -> Source {
        Source { name: self.script.to_owned(), text: format!("{}{}", "\n".repeat(self.line - 1), self.text) }
    }

    /// Returns the diagnostic of a step that was refused.
    pub fn diagnostic<'a>(&self, refusal: &'a Refusal, source: &'a Source) -> Diagnostic<'a> {
        let mut diagnostic = Failure::diagnostic_of(refusal, source);
        if let DiagnosticPlace::Named(name) = &mut diagnostic.place
            && name == self.script
        {
            *name = format!("{name}, line {}", self.line);
        }
        diagnostic
    }
}

/// Plays a script, and passes each step to `each` as soon as it is done.
pub fn play(
    path: &Path,
    reader: &ParseRun,
    player: &mut Player,
    fails_fast: bool,
    output: &Output,
    each: &mut dyn FnMut(&PlayedStep<'_>) -> Result<(), Failure>,
) -> Result<Exit, Failure> {
    let mut script = Script::open(path)?;
    let mut exit = Exit::Good;
    let mut step = 0;
    while let Some(text) = script.next_line()? {
        step += 1;
        let line = script.line;
        // Nothing of a line that is not UTF-8 can be shown.
        let (text, refusal) = match text {
            Ok(text) => (text, None),
            Err(refusal) => (String::new(), Some(refusal)),
        };
        let mut played = PlayedStep {
            step,
            line,
            script: &script.name,
            text: &text,
            id: Request::id_of(&text),
            operation: operation_of(&text),
            session: player.name().to_owned(),
            outcome: Ok(Done::Began { messages: 0 }),
        };
        played.outcome = match refusal {
            Some(refusal) => Err(refusal),
            None => read_line(&text, step == 1).and_then(|read| {
                played.operation = Some(read.name());
                match &read {
                    ScriptStep::Request(request) | ScriptStep::Import { request, .. } => {
                        reader.warn_about(request, output)?
                    }
                    _ if step == 1 => reader.warn_about(&Request::without_messages(Object::new())?, output)?,
                    _ => {}
                }
                player.play(read)
            }),
        };
        each(&played)?;
        if played.outcome.is_err() {
            exit = Exit::Refused;
            // Without its request, the script would be played in another session.
            let is_request =
                step == 1 && operation_of(&text).is_none_or(|operation| matches!(operation, "import" | "restore"));
            if fails_fast || is_request {
                break;
            }
        }
    }
    Ok(exit)
}

/// The lines of a script, which are read one by one, so that a program can wait for each result.
struct Script {
    name: String,
    input: BufReader<Box<dyn Read + Send>>,
    line: usize,
}

impl Script {
    fn open(path: &Path) -> Result<Script, Failure> {
        let name = if files::is_stdin(path) { "<stdin>".to_owned() } else { path.display().to_string() };
        let input = files::open(path).map_err(|error| files::unreadable_file(path, &error))?;
        Ok(Script { name, input: BufReader::new(input), line: 0 })
    }

    /// Returns the next line that is not blank. Its number is then `line`, from 1.
    fn next_line(&mut self) -> Result<Option<Result<String, Refusal>>, Failure> {
        loop {
            let mut bytes = Vec::new();
            let read = self.input.read_until(b'\n', &mut bytes);
            if read.map_err(|error| Failure::BrokenInput { why: format!("{}: {error}", self.name) })? == 0 {
                return Ok(None);
            }
            self.line += 1;
            let text = match String::from_utf8(bytes) {
                Ok(text) => text,
                Err(error) => {
                    let at = error.utf8_error().valid_up_to();
                    return Ok(Some(Err(Refusal::NotUtf8(at))));
                }
            };
            let text = text.strip_prefix('\u{feff}').filter(|_| self.line == 1).unwrap_or(&text);
            let text = text.trim_end_matches(['\n', '\r']);
            if !text.trim().is_empty() {
                return Ok(Some(Ok(text.to_owned())));
            }
        }
    }
}
