use std::sync::{Mutex, PoisonError, TryLockError};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyDict, PyInt, PyList, PyString};
use rolecall::answer::{Chunks, Completion};
use rolecall::conversation::{Json, Place};
use rolecall::model::ReplyContext;
use rolecall::parse::{IdParser, Malformed, OutputParser as TextParser};
use rolecall::{Event, Reading, Stop, answer};

use crate::error::{self, Fault};
use crate::input::{self, Path};
use crate::output;

/// The number of bytes or ids from which the parser works without the GIL. Releasing it costs more
/// than a short chunk.
const LONG: usize = 512;

/// Parses a reply while it streams, as text or as token ids.
///
/// `push` and `finish` return events. However the reply is cut into pieces, the events add up to the
/// same message. All methods may be called from several threads; each piece is parsed as a whole.
///
/// `Model.parser` and `Prompt.parser` return it. `Model.parse_stream` is shorter where the pieces come from
/// an iterator.
///
/// >>> parser = rolecall.load("path/to/model").parser()
/// >>> parser.push("Hel"), parser.push("lo<|im_")
/// ([Content(text='Hel')], [Content(text='lo')])
/// >>> parser.push("end|>"), parser.finish()
/// ([Stop(reason='stop')], [])
/// >>> parser.message()
/// {'role': 'assistant', 'content': 'Hello'}
#[pyclass(frozen, module = "rolecall")]
pub struct OutputParser {
    context: ReplyContext,
    state: Mutex<ParserState>,
}

struct ParserState {
    parser: Live,
    reading: Reading,
    /// Makes OpenAI's chunks instead of events.
    chunks: Option<Chunks>,
}

/// The first piece determines whether the reply is text or ids.
enum Live {
    Waiting,
    Text(Box<TextParser>),
    Ids(Box<IdParser>),
    Ended,
}

/// A piece of a reply.
pub enum Piece {
    Text(String),
    Ids(Vec<u32>),
}

impl Piece {
    /// Converts a whole reply: a str or ints.
    pub fn whole(value: &Bound<'_, PyAny>) -> PyResult<Piece> {
        Piece::of(value, &mut Path::of("reply"))
    }

    fn of(value: &Bound<'_, PyAny>, path: &mut Path) -> PyResult<Piece> {
        match value.cast::<PyString>() {
            Ok(text) => input::text_of(text, path).map(Piece::Text),
            Err(_) => input::ids(value, path).map(Piece::Ids),
        }
    }

    /// Converts a piece of a reply: a str, ints, or one int.
    fn part(value: &Bound<'_, PyAny>) -> PyResult<Piece> {
        let path = &mut Path::of("piece");
        let is_flag = value.is_instance_of::<PyBool>();
        // A number of numpy is an int without being one.
        let is_like_int = || Ok::<_, PyErr>(value.hasattr("__index__")? && !value.hasattr("__iter__")?);
        if !is_flag && (value.is_instance_of::<PyInt>() || is_like_int()?) {
            let one = PyList::new(value.py(), [value])?;
            return input::ids(&one, path).map(Piece::Ids);
        }
        Piece::of(value, path)
    }

    fn len(&self) -> usize {
        match self {
            Piece::Text(text) => text.len(),
            Piece::Ids(ids) => ids.len(),
        }
    }
}

/// An event or chunk that Python has not received yet. Adjacent deltas of the same text are joined.
enum Pending {
    Content(String),
    Reasoning(String),
    CallStarted {
        index: usize,
        id: String,
        name: String,
    },
    Arguments {
        index: usize,
        text: String,
    },
    CallFinished {
        index: usize,
        whole: bool,
        id: Option<String>,
    },
    CodeStarted {
        index: usize,
        id: String,
    },
    Code {
        index: usize,
        text: String,
    },
    Stop(Stop),
    Malformed(Malformed),
    /// An event of another kind, in the command's JSON.
    Other(Json),
    Chunk(Json),
}

impl ParserState {
    fn push(&mut self, context: &ReplyContext, piece: &Piece, pending: &mut Vec<Pending>) -> Result<(), Refusal> {
        if let Live::Waiting = self.parser {
            self.parser = match piece {
                Piece::Text(_) => Live::Text(Box::new(context.text_parser())),
                Piece::Ids(_) => Live::Ids(Box::new(context.id_parser().map_err(Refusal::Library)?)),
            };
        }
        let ParserState { parser, reading, chunks } = self;
        let sink = &mut |event: Event<'_>| take(&event, reading, chunks, pending);
        match (parser, piece) {
            (Live::Text(parser), Piece::Text(text)) => parser.push_text(text, sink),
            (Live::Ids(parser), Piece::Ids(ids)) => {
                parser.push_all(ids, sink).map_err(|error| Refusal::Library(error.into()))?;
            }
            (Live::Text(_), Piece::Ids(_)) => return Err(Refusal::Mixed { expected: "text", found: "token ids" }),
            (Live::Ids(_), Piece::Text(_)) => return Err(Refusal::Mixed { expected: "token ids", found: "text" }),
            (Live::Ended | Live::Waiting, _) => return Err(Refusal::Ended),
        }
        Ok(())
    }

    fn finish(&mut self, context: &ReplyContext, stop: Stop, pending: &mut Vec<Pending>) -> Result<(), Refusal> {
        let ParserState { parser, reading, chunks } = self;
        let sink = &mut |event: Event<'_>| take(&event, reading, chunks, pending);
        match std::mem::replace(parser, Live::Ended) {
            // The prompt may have opened a call that the empty reply leaves open.
            Live::Waiting => context.text_parser().finish(stop, sink),
            Live::Text(mut parser) => parser.finish(stop, sink),
            Live::Ids(parser) => parser.finish(stop, sink),
            Live::Ended => return Err(Refusal::Ended),
        }
        Ok(())
    }
}

/// Takes an event from the parser.
fn take(event: &Event<'_>, reading: &mut Reading, chunks: &mut Option<Chunks>, pending: &mut Vec<Pending>) {
    reading.add(event);
    if let Some(chunks) = chunks {
        return pending.extend(chunks.of_event(event).into_iter().map(Pending::Chunk));
    }
    let new = match (event, pending.last_mut()) {
        (Event::Content(more), Some(Pending::Content(text)))
        | (Event::Reasoning(more), Some(Pending::Reasoning(text))) => return text.push_str(more),
        (Event::Arguments { index, text: more }, Some(Pending::Arguments { index: known, text }))
        | (Event::Code { index, text: more }, Some(Pending::Code { index: known, text }))
            if index == known =>
        {
            return text.push_str(more);
        }
        (Event::Content(text), _) => Pending::Content((*text).to_owned()),
        (Event::Reasoning(text), _) => Pending::Reasoning((*text).to_owned()),
        (&Event::CallStarted { index, id, name }, _) => {
            Pending::CallStarted { index, id: id.to_owned(), name: name.to_owned() }
        }
        (&Event::Arguments { index, text }, _) => Pending::Arguments { index, text: text.to_owned() },
        (&Event::CallFinished { index, whole, id }, _) => {
            Pending::CallFinished { index, whole, id: id.map(str::to_owned) }
        }
        (&Event::CodeStarted { index, id }, _) => Pending::CodeStarted { index, id: id.to_owned() },
        (&Event::Code { index, text }, _) => Pending::Code { index, text: text.to_owned() },
        (Event::Stop(stop), _) => Pending::Stop(*stop),
        (Event::Malformed(malformed), _) => Pending::Malformed(malformed.clone()),
        (other, _) => Pending::Other(answer::of_event(other)),
    };
    pending.push(new);
}

/// The classes of `rolecall.events`.
struct Classes {
    content: Py<PyAny>,
    reasoning: Py<PyAny>,
    call_started: Py<PyAny>,
    arguments: Py<PyAny>,
    call_finished: Py<PyAny>,
    code_started: Py<PyAny>,
    code: Py<PyAny>,
    stop: Py<PyAny>,
    malformed: Py<PyAny>,
}

static CLASSES: PyOnceLock<Classes> = PyOnceLock::new();

impl Classes {
    fn get(py: Python<'_>) -> PyResult<&Classes> {
        CLASSES.get_or_try_init(py, || {
            let module = py.import("rolecall.events")?;
            let class = |name: &str| module.getattr(name).map(Bound::unbind);
            Ok(Classes {
                content: class("Content")?,
                reasoning: class("Reasoning")?,
                call_started: class("CallStarted")?,
                arguments: class("Arguments")?,
                call_finished: class("CallFinished")?,
                code_started: class("CodeStarted")?,
                code: class("Code")?,
                stop: class("Stop")?,
                malformed: class("Malformed")?,
            })
        })
    }

    fn object(&self, py: Python<'_>, event: &Pending) -> PyResult<Py<PyAny>> {
        match event {
            Pending::Content(text) => self.content.call1(py, (text,)),
            Pending::Reasoning(text) => self.reasoning.call1(py, (text,)),
            Pending::CallStarted { index, id, name } => self.call_started.call1(py, (index, id, name)),
            Pending::Arguments { index, text } => self.arguments.call1(py, (index, text)),
            Pending::CallFinished { index, whole, id } => self.call_finished.call1(py, (index, whole, id.as_deref())),
            Pending::CodeStarted { index, id } => self.code_started.call1(py, (index, id)),
            Pending::Code { index, text } => self.code.call1(py, (index, text)),
            Pending::Stop(stop) => self.stop.call1(py, (word_of(*stop),)),
            Pending::Malformed(Malformed { span, why }) => {
                self.malformed.call1(py, ((span.start, span.end), why.code(), why.to_string()))
            }
            Pending::Other(json) | Pending::Chunk(json) => output::object(py, json),
        }
    }
}

/// Why a piece was refused.
enum Refusal {
    Library(rolecall::Error),
    Mixed { expected: &'static str, found: &'static str },
    Ended,
}

impl Refusal {
    fn raise(self, py: Python<'_>) -> PyErr {
        let (code, message, help) = match self {
            Refusal::Library(error) => return error::of(py, &error),
            Refusal::Mixed { expected, found } => (
                "mixed_reply",
                format!("the reply began as {expected}, found {found}"),
                "pass one reply either as text or as token ids",
            ),
            Refusal::Ended => {
                ("reply_ended", "the reply has already ended".to_owned(), "make a new parser for each reply")
            }
        };
        Fault { class: "ParseError", code, message, place: None, help: Some(help.to_owned()) }.raise(py)
    }
}

impl OutputParser {
    /// Returns a parser that makes events, or OpenAI's chunks.
    pub fn new(context: ReplyContext, completion: Option<Completion>) -> OutputParser {
        let chunks = chunks(&context, completion);
        let state = ParserState { parser: Live::Waiting, reading: Reading::default(), chunks };
        OutputParser { context, state: Mutex::new(state) }
    }

    /// Works on the state, without the GIL if the work is long or another thread holds the state. No
    /// Python code runs meanwhile.
    fn with<T: Send>(&self, py: Python<'_>, is_long: bool, work: impl FnOnce(&mut ParserState) -> T + Send) -> T {
        // A panic cannot leave a state that breaks anything: the parser accepts any further output.
        if !is_long {
            match self.state.try_lock() {
                Ok(mut state) => return work(&mut state),
                Err(TryLockError::Poisoned(state)) => return work(&mut state.into_inner()),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        py.detach(|| work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Works on the state and returns the events.
    fn work<'py>(
        &self,
        py: Python<'py>,
        is_long: bool,
        work: impl FnOnce(&mut ParserState, &mut Vec<Pending>) -> Result<(), Refusal> + Send,
    ) -> PyResult<Bound<'py, PyList>> {
        let pending = self.with(py, is_long, |state| {
            let mut pending = Vec::new();
            work(state, &mut pending).map(|()| pending)
        });
        let pending = pending.map_err(|refusal| refusal.raise(py))?;
        let classes = Classes::get(py)?;
        let objects: PyResult<Vec<_>> = pending.iter().map(|event| classes.object(py, event)).collect();
        PyList::new(py, objects?)
    }

    /// Returns a parser for the text after the reasoning of the reply.
    pub fn after_reasoning(context: ReplyContext, completion: Option<Completion>) -> OutputParser {
        let parser = Live::Text(Box::new(context.parser_after_reasoning()));
        let chunks = chunks(&context, completion);
        let state = ParserState { parser, reading: Reading::default(), chunks };
        OutputParser { context, state: Mutex::new(state) }
    }

    /// Parses a whole reply.
    pub fn read(context: &ReplyContext, piece: &Piece, stop: Stop) -> Result<Reading, rolecall::Error> {
        let mut reading = Reading::default();
        let sink = &mut |event: Event<'_>| reading.add(&event);
        match piece {
            Piece::Text(text) => {
                let mut parser = context.text_parser();
                parser.push_text(text, sink);
                parser.finish(stop, sink);
            }
            Piece::Ids(ids) => {
                let mut parser = context.id_parser()?;
                parser.push_all(ids, sink)?;
                parser.finish(stop, sink);
            }
        }
        Ok(reading)
    }
}

/// Returns a converter to OpenAI's chunks, if they are wanted.
fn chunks(context: &ReplyContext, completion: Option<Completion>) -> Option<Chunks> {
    completion.map(|completion| Chunks::new(completion).holding_calls(context.has_late_ids()))
}

#[pymethods]
impl OutputParser {
    /// Parses the next piece of the reply and returns the events that are now certain.
    #[pyo3(signature = (piece, /))]
    fn push<'py>(&self, piece: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let py = piece.py();
        let piece = Piece::part(piece)?;
        self.work(py, piece.len() >= LONG, |state, pending| state.push(&self.context, &piece, pending))
    }

    /// Ends the reply and returns the remaining events. The last one is a `Stop`.
    #[pyo3(signature = (finish_reason=None), text_signature = "($self, finish_reason='stop')")]
    fn finish<'py>(&self, py: Python<'py>, finish_reason: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyList>> {
        let stop = stop_of(py, finish_reason)?;
        self.work(py, false, |state, pending| state.finish(&self.context, stop, pending))
    }

    /// Returns the message so far, as `Model.parse` returns it: `message`, `finish_reason` and
    /// `malformed`. The `finish_reason` is None until the reply ends.
    fn reading(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let reading = self.with(py, false, |state| state.reading.clone());
        let is_open = reading.stop.is_none();
        let object = output::object(py, &answer::of_reading(None, &reading))?;
        if is_open {
            object.bind(py).set_item("finish_reason", py.None())?;
        }
        Ok(object)
    }

    /// Returns the message so far as an assistant's message that can be rendered again. Arguments
    /// that were cut off are refused.
    fn message(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let reading = self.with(py, false, |state| state.reading.clone());
        match answer::to_message(&reading) {
            Ok(message) => output::object(py, &Json::Object(message.as_object().clone())),
            Err(error) => {
                let message = format!("the message has a call that was cut off: {error}");
                let help = Some("render the conversation without this call".to_owned());
                Err(Fault { class: "ParseError", code: "cut_call", message, place: None, help }.raise(py))
            }
        }
    }

    /// The parts of replies that the layouts inferred from the chat template do not cover.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.context.warnings().iter().map(ToString::to_string).collect()
    }

    /// Whether `finish` was called.
    #[getter]
    fn finished(&self, py: Python<'_>) -> bool {
        self.with(py, false, |state| matches!(state.parser, Live::Ended))
    }

    fn __repr__(&self, py: Python<'_>) -> &'static str {
        self.with(py, false, |state| match state.parser {
            Live::Waiting => "OutputParser(no piece yet)",
            Live::Text(_) => "OutputParser(text)",
            Live::Ids(_) => "OutputParser(ids)",
            Live::Ended => "OutputParser(finished)",
        })
    }
}

/// Returns the completion of chunks, from a dict with `id`, `model` and `created`.
pub fn completion(fields: &Bound<'_, PyAny>) -> PyResult<Completion> {
    let Ok(fields) = fields.cast::<PyDict>() else {
        return Err(input::wrong_type(fields, "completion", "a dict"));
    };
    let text =
        |key: &str| fields.get_item(key)?.map_or_else(|| Ok(String::new()), |value| input::argument(&value, key));
    let created = match fields.get_item("created")? {
        Some(value) => {
            let number = value.extract::<i64>();
            number.map_err(|_| input::wrong_type(&value, "created", "an int, in seconds since 1970"))?
        }
        None => 0,
    };
    Ok(Completion { id: text("id")?, model: text("model")?, created })
}

/// Returns the reason of a word in OpenAI's terms.
pub fn stop_of(py: Python<'_>, word: Option<&Bound<'_, PyAny>>) -> PyResult<Stop> {
    let word = word.map_or_else(|| Ok("stop".to_owned()), |word| input::argument(word, "finish_reason"))?;
    match word.as_str() {
        "stop" | "tool_calls" => Ok(Stop::End),
        "length" => Ok(Stop::Length),
        "abort" => Ok(Stop::Abort),
        _ => {
            let message = format!("there is no finish reason `{}`", word.escape_debug());
            let help = Some("pass \"stop\", \"tool_calls\", \"length\" or \"abort\"".to_owned());
            let place = Some(Place::field("finish_reason"));
            Err(Fault { class: "RequestError", code: "unknown_finish_reason", message, place, help }.raise(py))
        }
    }
}

fn word_of(stop: Stop) -> &'static str {
    match stop {
        Stop::End => "stop",
        Stop::Length => "length",
        Stop::Abort => "abort",
    }
}
