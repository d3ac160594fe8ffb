//! `rolecall session`: plays a script of steps.

use std::io::{BufRead, BufReader};
use std::path::Path;

use rolecall::Request;
use rolecall::conversation::json::Object;

use crate::args::Session;
use crate::diagnostic::Place;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::files;
use crate::job::{load_tokenizer, misfit};
use crate::output::Output;
use crate::refusal::Refusal;
use crate::session::{Player, Step, draw_step, of_done, of_refusal, operation_of, read_line, without_messages};
use crate::source::Source;

pub fn run(args: &Session, output: &Output) -> Result<Exit, Failure> {
    let reader = args.model.open(output)?;
    let model = &reader.job.model;
    load_tokenizer(model)?;
    let decoder = model.decoder().map_err(|error| misfit(error, model))?;
    let path = args.input.as_deref().unwrap_or(Path::new("-"));
    let mut player = Player::new(model.clone());
    let mut exit = Exit::Good;
    let mut script = Script::open(path)?;
    let mut step = 0;
    while let Some((line, text)) = script.next_line()? {
        step += 1;
        let text = match text {
            Ok(text) => text,
            Err(refusal) => {
                // Nothing of a line that is not text can be shown.
                let said = Said { step, line, name: &script.name, text: "" };
                said.refuse(args, player.name(), &refusal, output)?;
                exit = Exit::Refused;
                if args.fail_fast {
                    break;
                }
                continue;
            }
        };
        let said = Said { step, line, name: &script.name, text: &text };
        let done = read_line(&text, step == 1).and_then(|line| {
            let operation = line.step.name();
            // The operation is done in the session that was the current one.
            let session = player.name().to_owned();
            if let Step::Request(request) = &line.step {
                reader.warn_about(request, output)?;
            } else if step == 1 {
                reader.warn_about(&without_messages(Object::new())?, output)?;
            }
            Ok((operation, session, line.id, player.play(line.step)?))
        });
        match done {
            Ok((operation, session, id, done)) if args.json => {
                output.write_json(&of_done(step, id.as_ref(), operation, &session, &done))?;
            }
            Ok((operation, session, _, done)) => {
                output.write(&draw_step(step, operation, &session, &done, &decoder, output.paint))?;
            }
            Err(refusal) => {
                said.refuse(args, player.name(), &refusal, output)?;
                exit = Exit::Refused;
                // Without its first request, the script would play in another session.
                if args.fail_fast || (step == 1 && operation_of(&text).is_none()) {
                    break;
                }
            }
        }
    }
    Ok(exit)
}

/// A line that is played.
struct Said<'a> {
    step: usize,
    line: usize,
    name: &'a str,
    text: &'a str,
}

impl Said<'_> {
    /// Prints why a step failed.
    fn refuse(&self, args: &Session, session: &str, refusal: &Refusal, output: &Output) -> Result<(), Failure> {
        let operation = operation_of(self.text);
        if args.json {
            let id = Request::id_of(self.text);
            return output.write_json(&of_refusal(self.step, id.as_ref(), operation, session, self.line, refusal));
        }
        // The line is shown with its number in the script.
        let text = format!("{}{}", "\n".repeat(self.line - 1), self.text);
        let source = Source { name: self.name.to_owned(), text };
        let mut diagnostic = Failure::diagnostic_of(refusal, &source);
        if let Place::Named(name) = &mut diagnostic.place
            && *name == self.name
        {
            *name = format!("{name}, line {}", self.line);
        }
        let mut drawn = format!("{:>3}  {}\n", self.step, operation.unwrap_or("?"));
        for line in diagnostic.draw(output.paint).lines() {
            drawn.push_str("     ");
            drawn.push_str(line);
            drawn.push('\n');
        }
        output.write(&drawn)
    }
}

/// The lines of a script, which are read one by one, so that a program can wait for each result.
struct Script {
    name: String,
    input: BufReader<Box<dyn std::io::Read + Send>>,
    line: usize,
}

impl Script {
    fn open(path: &Path) -> Result<Script, Failure> {
        let name = if files::is_stdin(path) { "<stdin>".to_owned() } else { path.display().to_string() };
        let input = files::open(path).map_err(|error| files::unreadable_file(path, &error))?;
        Ok(Script { name, input: BufReader::new(input), line: 0 })
    }

    /// Returns the next line that is not blank, with its number from 1.
    fn next_line(&mut self) -> Result<Option<(usize, Result<String, Refusal>)>, Failure> {
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
                    return Ok(Some((self.line, Err(Refusal::NotUtf8(at)))));
                }
            };
            let text = text.strip_prefix('\u{feff}').filter(|_| self.line == 1).unwrap_or(&text);
            let text = text.trim_end_matches(['\n', '\r']);
            if !text.trim().is_empty() {
                return Ok(Some((self.line, Ok(text.to_owned()))));
            }
        }
    }
}
