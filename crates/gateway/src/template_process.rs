//! A Python process with the code of a chat template.
//!
//! It gets a conversation as a line of JSON, and answers with the pieces of the prompt. A process that dies or takes too
//! long fails the request that it worked for, and is started again at the next one. It ends when its standard input does,
//! so it never outlives the gateway. Conversations wait for one another, and none longer than it may take itself.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use rolecall::conversation::json::{self, Layout, Object};
use rolecall::conversation::{Json, object};
use rolecall::template::{CodeError, CodeErrorKind, CodeMessage, CodePiece, TemplateCode};

/// The code of a template, in a process that is kept.
pub struct TemplateProcess {
    asked: String,
    name: String,
    stop_words: Vec<String>,
    /// How long a conversation may take, with those before it.
    time: Duration,
    /// What a thread asks the process, one after the other.
    questions: Sender<Question>,
}

/// A conversation to be written.
struct Question {
    text: String,
    /// When nobody waits for the answer any more.
    end: Instant,
    answer: SyncSender<Result<Object, CodeError>>,
}

/// A process that awaits a conversation.
struct RunningTemplate {
    child: Child,
    questions: Sender<String>,
    answers: Receiver<Vec<u8>>,
    /// How many questions it was asked.
    count: i64,
}

/// How long the code may take to be imported.
const TO_START: Duration = Duration::from_secs(60);

/// How long a conversation may take, unless it is said.
const TO_WRITE: Duration = Duration::from_secs(10);

/// How long a process that has closed its output may take to end.
const TO_END: Duration = Duration::from_secs(2);

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
        let (questions, waiting) = channel();
        let place = asked.clone();
        thread::spawn(move || answer_all(&waiting, running, &python, &place));
        Ok(TemplateProcess { asked, name, stop_words, time: TO_WRITE, questions })
    }

    /// Returns the same process with another limit on the time of a conversation, with those before it. It is 10 seconds
    /// otherwise.
    #[must_use]
    pub fn within(self, time: Duration) -> TemplateProcess {
        TemplateProcess { time, ..self }
    }

    /// Returns the answer to a question, in JSON.
    fn ask(&self, text: String) -> Result<Object, CodeError> {
        let (answer, answered) = sync_channel(1);
        let question = Question { text, end: Instant::now() + self.time, answer };
        let is_asked = self.questions.send(question).is_ok();
        let late = || unavailable(format!("it took more than {} seconds", self.time.as_secs()));
        match is_asked {
            // Whoever asks the process is late first.
            true => answered.recv_timeout(self.time + TO_END).unwrap_or_else(|_| Err(late())),
            false => Err(unavailable("nobody asks it".to_owned())),
        }
    }
}

/// Asks a process until there is nobody who asks. One that ends is started again at the next question.
fn answer_all(waiting: &Receiver<Question>, running: RunningTemplate, python: &Path, asked: &str) {
    let mut running = Some(running);
    while let Ok(Question { text, end, answer }) = waiting.recv() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let _ = answer.send(Err(unavailable("conversations before it took too long".to_owned())));
            continue;
        }
        let living = running.take().and_then(|mut process| process.lives().then_some(process));
        let process = living.map_or_else(|| Ok(RunningTemplate::start(python, asked)?.0), Ok);
        let answered = process.and_then(|mut process| {
            let answered = process.ask(&text, left)?;
            running = Some(process);
            refused(answered)
        });
        let _ = answer.send(answered);
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
        let question = object! { "messages" => messages, "switches" => switches.clone() };
        let answer = self.ask(json::write(&question.into(), &Layout { ascii: true, ..Layout::compact() }))?;
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
        let mut process = RunningTemplate { child, questions, answers, count: 0 };
        let first = process.answer(TO_START)?;
        Ok((process, refused(first)?))
    }

    /// Reports whether the process still runs, and has said nothing that it was not asked.
    fn lives(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None)) && matches!(self.answers.try_recv(), Err(TryRecvError::Empty))
    }

    /// Asks for an answer. A process that gives none, or that of another question, is to be dropped.
    fn ask(&mut self, question: &str, time: Duration) -> Result<Object, CodeError> {
        self.count += 1;
        // The question is an object.
        let numbered = format!("{{\"number\":{},{}\n", self.count, question.trim_start_matches('{'));
        if self.questions.send(numbered).is_err() {
            return Err(unavailable(self.end()));
        }
        let answer = self.answer(time)?;
        match answer.get("number") {
            Some(Json::Number(number)) if number.as_i64() == Some(self.count) => Ok(answer),
            _ => Err(unavailable("it answered another question".to_owned())),
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
        let end = Instant::now() + TO_END;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return format!("its process has ended ({status})"),
                Ok(None) if Instant::now() < end => thread::sleep(Duration::from_millis(10)),
                _ => return "its answer is too long".to_owned(),
            }
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
