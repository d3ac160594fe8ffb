//! The chat of `rolecall chat`: lines in, steps out.

mod asking;
mod lines;
pub mod shown;

use std::fs;
use std::io::Write;
use std::path::Path;

use rolecall::Request;
use rolecall::conversation::{Json, Message, json, object};
use rolecall::session::Session;
use rolecall_interpreter::agent::{Agent, Engine, TurnEnd};
use rolecall_interpreter::{Folder, Stop};

use crate::commands::chat::{in_agent, save};
use crate::exit::Exit;
use crate::explain::{ExplainedPrompt, View, draw_terminal};
use crate::failure::Failure;
use crate::files;
use crate::job::{Job, refused};
use crate::output::Output;
use crate::source::Source;
use crate::visible::escape;

pub use asking::Asking;
pub use lines::{ChatLine, Lines};
pub use shown::Shown;

/// A chat.
pub struct Chat<'a> {
    pub agent: Agent,
    pub engine: &'a mut dyn Engine,
    pub lines: Lines,
    pub shown: Shown<'a>,
    /// Where every step is written.
    pub record: Option<Box<dyn Write>>,
    /// The parts of files for the next message.
    pub attached: Vec<Json>,
    /// The conversation before each message.
    pub earlier: Vec<Session>,
    pub job: &'a Job,
}

const COMMANDS: &str = ":prompt, :undo, :save FILE, :file FILE, :files, :get NAME DIR, :help, :quit";

impl Chat<'_> {
    /// Reads lines until there are no more.
    pub fn talk(&mut self) -> Result<Exit, Failure> {
        let mut exit = Exit::Good;
        loop {
            let line = match self.lines.next().map_err(Failure::Unwritable)? {
                ChatLine::Text(line) => line,
                ChatLine::Cancelled => continue,
                ChatLine::End => return Ok(exit),
            };
            let line = line.trim();
            let done = match line.strip_prefix(':') {
                None if line.is_empty() => continue,
                None => self.say(line),
                Some("quit" | "q") => return Ok(exit),
                Some(command) => self.command(command),
            };
            // What goes wrong ends the turn and not the chat.
            if let Err(failure) = done {
                if matches!(failure, Failure::Unwritable(_)) {
                    return Err(failure);
                }
                exit = self.shown.output.show_failure(&failure, self.shown.json);
                if !self.lines.is_terminal() {
                    return Ok(exit);
                }
                // Somebody has seen it, and goes on.
                exit = Exit::Good;
            }
        }
    }

    /// Sends a message, and shows what comes of it.
    fn say(&mut self, text: &str) -> Result<(), Failure> {
        let message = self.message(text)?;
        let before = self.agent.session().clone();
        let stop = Stop::default();
        let _interrupts = lines::on_interrupt(&stop);
        let (shown, record) = (&mut self.shown, &mut self.record);
        let mut unwritable = None;
        let end = self.agent.turn(&[message], self.engine, &stop, &mut |event| {
            let drawn = shown.show(event);
            let recorded = record.as_mut().map_or(Ok(()), |record| {
                let line = json::write(&event.to_json(), &json::Layout::compact());
                writeln!(record, "{line}").and_then(|()| record.flush()).map_err(Failure::Unwritable)
            });
            if let Err(failure) = drawn.and(recorded) {
                unwritable.get_or_insert(failure);
                stop.stop();
            }
        });
        if let Some(failure) = unwritable {
            return Err(failure);
        }
        match end {
            Ok(end) => {
                self.attached.clear();
                self.earlier.push(before);
                self.tell_end(end)
            }
            Err(error) => {
                // The conversation is as before, so the line can be sent again.
                self.agent.go_back(before);
                Err(in_agent(error))
            }
        }
    }

    fn message(&self, text: &str) -> Result<Message, Failure> {
        if self.attached.is_empty() {
            return Ok(Message::user(text));
        }
        let mut parts = self.attached.clone();
        parts.push(object! { "type" => "text", "text" => text }.into());
        let message = Message::from_object(object! { "role" => "user", "content" => parts });
        message.map_err(|error| {
            refused(rolecall::Error::from(rolecall::request::Error::from(error)).into(), &Source::default())
        })
    }

    fn tell_end(&self, end: TurnEnd) -> Result<(), Failure> {
        let why = match end {
            TurnEnd::Answer => return Ok(()),
            TurnEnd::Length => "the reply was cut off at its limit of ids",
            TurnEnd::Rounds => "the model calls again, but as many replies as --rounds allows are there",
            TurnEnd::Time => "the time of the turn is over",
            TurnEnd::Stopped => "stopped",
        };
        self.shown.note(why)
    }

    fn command(&mut self, command: &str) -> Result<(), Failure> {
        // Names with spaces stand in quotes.
        let Some(words) = shlex::split(command) else {
            return self.shown.note("a quotation mark is not closed");
        };
        match words.iter().map(String::as_str).collect::<Vec<&str>>().as_slice() {
            ["help" | "h"] => self.shown.note(COMMANDS),
            ["prompt"] => self.prompt(),
            ["undo"] => match self.earlier.pop() {
                Some(session) => {
                    self.agent.go_back(session);
                    self.shown.note("the last message is taken back; what tools did stays done")
                }
                None => self.shown.note("there is nothing to take back"),
            },
            ["save", path] => {
                save(&self.agent.conversation(), Path::new(path))?;
                self.shown.note(&format!("saved to {path}"))
            }
            ["file", path] => self.attach(Path::new(path)),
            ["files"] => {
                let Some(folder) = self.agent.folder() else { return self.shown.note("there is no code interpreter") };
                let entries = folder.list().map_err(crate::commands::interpreter::failed)?;
                let lines: Vec<String> =
                    entries.iter().map(|entry| format!("{}  {} bytes", escape(&entry.name), entry.size)).collect();
                self.shown.note(&if lines.is_empty() { "no files".into() } else { lines.join("\n") })
            }
            ["get", name, path] => {
                let Some(folder) = self.agent.folder() else { return self.shown.note("there is no code interpreter") };
                let bytes = folder.read(name).map_err(crate::commands::interpreter::failed)?;
                let place = Path::new(path);
                let name = Path::new(name).file_name().unwrap_or_default();
                let place = if place.is_dir() { place.join(name) } else { place.to_owned() };
                fs::write(&place, bytes).map_err(|error| Failure::OutputFile {
                    path: place.display().to_string(),
                    why: error.to_string(),
                })?;
                self.shown.note(&format!("written to {}", place.display()))
            }
            _ => self.shown.note(&format!("expected one of {COMMANDS}")),
        }
    }

    fn attach(&mut self, path: &Path) -> Result<(), Failure> {
        let Some(folder) = self.agent.folder() else { return self.shown.note("there is no code interpreter") };
        let bytes = fs::read(path).map_err(|error| files::unreadable_file(path, &error))?;
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        folder.write(&name, &bytes).map_err(crate::commands::interpreter::failed)?;
        self.attached.push(Folder::part(&name, bytes.len() as u64));
        self.shown.note(&format!("{name} goes with the next message"))
    }

    /// Shows the prompt of the conversation, by who wrote what.
    fn prompt(&self) -> Result<(), Failure> {
        let source = Source::default();
        let request = Request::from_json(self.agent.conversation()).map_err(rolecall::Error::from);
        let prompt = request.and_then(|request| self.job.model.prompt(request));
        let prompt = prompt.map_err(|error| refused(error.into(), &source))?;
        let view = View::new(ExplainedPrompt {
            conversation: &prompt.request().conversation,
            format: self.job.format_of(&prompt),
            prompt: prompt.prompt(),
            tokens: None,
            notes: &[],
            added: &[],
            loss: None,
        });
        let output: &Output = self.shown.output;
        output.stream(|out| draw_terminal(&view, output.paint, output.width, out))
    }
}
