//! A Python process with the code of a chat template.
//!
//! It gets a conversation as a line of JSON, and answers with the pieces of the prompt. A process that dies or takes too
//! long fails the request that it worked for, and is started again at the next one. It ends when its standard input does,
//! so it never outlives the gateway.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rolecall::conversation::json::{self, Layout, Object};
use rolecall::conversation::{Json, object};
use rolecall::template::{CodeError, CodeErrorKind, CodeMessage, CodePiece, TemplateCode};

/// The code of a template, in a process that is kept.
pub struct TemplateProcess {
    python: PathBuf,
    /// The file or module, with the name of the template in it.
    asked: String,
    name: String,
    stop_words: Vec<String>,
    running: Mutex<Option<RunningTemplate>>,
}

/// A process that awaits a conversation.
struct RunningTemplate {
    child: Child,
    questions: Sender<String>,
    answers: Receiver<Vec<u8>>,
}

/// How long the code may take to be imported.
const TO_START: Duration = Duration::from_secs(60);

/// How long the code may take for a conversation.
const TO_WRITE: Duration = Duration::from_secs(10);

/// The most bytes of an answer.
const MOST_BYTES: u64 = 64 << 20;

/// The module that answers.
const MODULE: &str = "rolecall.serving._template_process";

impl fmt::Debug for TemplateProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TemplateProcess").field("asked", &self.asked).finish_non_exhaustive()
    }
}

impl TemplateProcess {
    /// Starts the process, and waits until the code is imported.
    pub fn start(python: PathBuf, asked: String) -> Result<TemplateProcess, CodeError> {
        let (running, first) = RunningTemplate::start(&python, &asked)?;
        let words = first.get("stop_words").and_then(Json::as_array).unwrap_or_default();
        let stop_words = words.iter().filter_map(|word| Some(word.as_str()?.to_owned())).collect();
        let name = first.get("name").and_then(Json::as_str).unwrap_or(&asked).to_owned();
        Ok(TemplateProcess { python, asked, name, stop_words, running: Mutex::new(Some(running)) })
    }

    /// Returns the pieces of what the code writes, in JSON.
    fn asked(&self, question: &str) -> Result<Object, CodeError> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let living = running.take().and_then(|mut process| process.lives().then_some(process));
        let mut process = match living {
            Some(process) => process,
            None => RunningTemplate::start(&self.python, &self.asked)?.0,
        };
        let answer = process.ask(question, TO_WRITE)?;
        *running = Some(process);
        refused(answer)
    }
}

impl TemplateCode for TemplateProcess {
    fn name(&self) -> &str {
        &self.name
    }

    fn stop_words(&self) -> &[String] {
        &self.stop_words
    }

    fn write(&self, messages: &[CodeMessage<'_>], switches: &Object) -> Result<Vec<CodePiece>, CodeError> {
        let row = |message: &CodeMessage<'_>| -> Json {
            object! { "role" => message.role, "content" => &*message.content }.into()
        };
        let messages: Vec<Json> = messages.iter().map(row).collect();
        let question: Json = object! { "messages" => messages, "switches" => switches.clone() }.into();
        let answer = self.asked(&json::write(&question, &Layout { ascii: true, ..Layout::compact() }))?;
        let pieces = answer.get("pieces").and_then(Json::as_array);
        let piece = |piece: &Json| match piece {
            Json::String(text) => Some(CodePiece::Text(text.clone())),
            Json::Number(index) => Some(CodePiece::Content(index.spelling().parse().ok()?)),
            _ => None,
        };
        let pieces = pieces.and_then(|pieces| pieces.iter().map(piece).collect());
        pieces
            .ok_or_else(|| unavailable("its answer is not in the form that this version of rolecall reads".to_owned()))
    }
}

impl RunningTemplate {
    /// Starts a process. Returns what it says of the template.
    fn start(python: &Path, asked: &str) -> Result<(RunningTemplate, Object), CodeError> {
        let mut command = Command::new(python);
        command.args(["-m", MODULE, asked]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let not_started = |why: String| unavailable(format!("`{}` cannot be started: {why}", python.display()));
        let mut child = command.spawn().map_err(|error| not_started(error.to_string()))?;
        let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(not_started("it has no input or output".to_owned()));
        };
        // A process that does not read must not block whoever asks.
        let (questions, asked) = channel::<String>();
        thread::spawn(move || {
            while let Ok(question) = asked.recv() {
                if input.write_all(question.as_bytes()).and_then(|()| input.flush()).is_err() {
                    return;
                }
            }
        });
        let (sender, answers) = sync_channel(1);
        thread::spawn(move || {
            let mut output = BufReader::new(output);
            loop {
                let mut line = Vec::new();
                let read = (&mut output).take(MOST_BYTES).read_until(b'\n', &mut line);
                // A line that is too long has no end.
                if read.is_err() || line.last() != Some(&b'\n') || sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut process = RunningTemplate { child, questions, answers };
        let first = process.answer(TO_START)?;
        Ok((process, refused(first)?))
    }

    /// Reports whether the process still runs.
    fn lives(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Asks for an answer. A process that gives none is dropped.
    fn ask(&mut self, question: &str, time: Duration) -> Result<Object, CodeError> {
        match self.questions.send(format!("{question}\n")) {
            Ok(()) => self.answer(time),
            Err(_) => Err(unavailable(self.end())),
        }
    }

    fn answer(&mut self, time: Duration) -> Result<Object, CodeError> {
        let line = self.answers.recv_timeout(time).map_err(|error| match error {
            RecvTimeoutError::Timeout => unavailable(format!("it took more than {} seconds", time.as_secs())),
            RecvTimeoutError::Disconnected => unavailable(self.end()),
        })?;
        let answer = std::str::from_utf8(&line).ok().and_then(|line| json::parse(line).ok());
        match answer {
            Some(Json::Object(answer)) => Ok(answer),
            _ => Err(unavailable("its answer is not an object in JSON".to_owned())),
        }
    }

    /// Says how the process ended.
    fn end(&mut self) -> String {
        let _ = self.child.kill();
        match self.child.wait() {
            Ok(status) => format!("its process has ended ({status}), or its answer is too long"),
            Err(error) => format!("its process is lost: {error}"),
        }
    }
}

impl Drop for RunningTemplate {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns an answer, or the error that it is.
fn refused(answer: Object) -> Result<Object, CodeError> {
    let Some(error) = answer.get("error").and_then(Json::as_object) else { return Ok(answer) };
    let text = |key: &str| error.get(key).and_then(Json::as_str);
    let code = text("code");
    let kind = CodeErrorKind::ALL.iter().find(|(name, _)| code == Some(name));
    let message = match error.get("message_index") {
        Some(Json::Number(index)) => index.spelling().parse().ok(),
        _ => None,
    };
    Err(CodeError {
        kind: kind.map_or(CodeErrorKind::Failed, |(_, kind)| *kind),
        message,
        field: text("field").unwrap_or_default().to_owned(),
        what: text("message").unwrap_or("the template's code fails").to_owned(),
        help: text("help").unwrap_or("correct the code, or the conversation that it refuses").to_owned(),
    })
}

fn unavailable(why: String) -> CodeError {
    CodeError {
        kind: CodeErrorKind::Unavailable,
        message: None,
        field: String::new(),
        what: format!("the template's code cannot be run: {why}"),
        help:
            "look at the gateway's standard error, where the code prints; the Python must have the package `rolecall`"
                .to_owned(),
    }
}
