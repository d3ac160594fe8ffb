//! Conversations in the shape of transformers' `apply_chat_template`. `rolecall/hf.py` is what users
//! call.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, object};
use rolecall::{Error, Request};

use crate::error;
use crate::input::{self, Path};
use crate::model::Model;
use crate::once::array;

/// The most conversations that are converted at once.
const AT_ONCE: usize = 512;
/// Fewer conversations than this are not worth a thread.
const PER_THREAD: usize = 32;
/// How long an interrupt may wait while there are more conversations.
const OFTEN: Duration = Duration::from_millis(100);

/// What is wanted of each conversation.
#[derive(Clone, Copy)]
struct ChatOutputs {
    ids: bool,
    mask: bool,
    spans: bool,
}

/// Why a batch ends early.
enum End {
    Library(Error),
    Interrupted(PyErr),
}

/// What one thread did, by the indices of the conversations.
#[derive(Default)]
struct Share {
    applied: Vec<(usize, ChatResult)>,
    end: Option<(usize, End)>,
}

/// What became of a conversation.
enum ChatResult {
    Text(String),
    Ids { ids: Vec<u32>, mask: Option<Vec<u8>>, spans: Option<Vec<u64>> },
}

/// Renders conversations, which share all other keys of their requests, and returns for each its text,
/// or a tuple: its ids, its mask or None, and where its tokens start and end, in characters, or None.
/// This is the native part of `rolecall.hf.apply_chat_template`.
///
/// >>> from rolecall._rolecall import apply_chat_template
/// >>> conversations = [[{"role": "user", "content": "Hi"}]]
/// >>> apply_chat_template(rolecall.load("chatml"), conversations, {}, ids=False, mask=False, spans=False)
/// ['<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n']
#[pyfunction]
#[pyo3(signature = (model, conversations, shared, *, ids, mask=false, spans=false))]
pub fn apply_chat_template<'py>(
    model: &Bound<'py, Model>,
    conversations: &Bound<'py, PyList>,
    shared: &Bound<'py, PyDict>,
    ids: bool,
    mask: bool,
    spans: bool,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let py = model.py();
    let model = model.get().inner();
    let wanted = ChatOutputs { ids, mask, spans };
    let mut common = Object::new();
    for (name, value) in shared.iter() {
        let name: String = name.extract()?;
        common.insert(name.clone(), input::json(&value, &mut Path::of(&name))?);
    }
    let mut results = Vec::with_capacity(conversations.len());
    let mut at = 0;
    while at < conversations.len() {
        let mut parts = Vec::with_capacity(AT_ONCE.min(conversations.len() - at));
        // A conversation's own code may change the list.
        while let (true, Ok(conversation)) = (parts.len() < AT_ONCE, conversations.get_item(at)) {
            parts.push(input::json(&conversation, &mut Path::of("messages"))?);
            at += 1;
            py.check_signals()?;
        }
        let applied = py.detach(|| apply_all(model, parts, &common, wanted));
        let applied = applied.map_err(|end| match end {
            End::Library(error) => error::of(py, &error),
            End::Interrupted(error) => error,
        });
        for one in applied? {
            results.push(python_of(py, one)?);
        }
    }
    Ok(results)
}

/// Applies a template to several conversations, by several threads if that is worth it. Returns the
/// first error. An interrupt ends it after the conversations that the threads are working on.
fn apply_all(
    model: &rolecall::Model,
    parts: Vec<Json>,
    common: &Object,
    wanted: ChatOutputs,
) -> Result<Vec<ChatResult>, End> {
    let count = parts.len();
    let threads = thread::available_parallelism().map_or(1, |most| most.get());
    let threads = threads.min(count / PER_THREAD).max(1);
    let (waiting, is_over) = (Mutex::new(parts.into_iter().enumerate()), AtomicBool::new(false));
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
    // Applies the template to what waits, with a look around after each conversation.
    let work = |look: &mut dyn FnMut() -> Result<(), End>| -> Share {
        let mut share = Share::default();
        while let Some((at, messages)) = next().filter(|_| !is_over.load(Relaxed)) {
            match apply(model, messages, common, wanted).map_err(End::Library).and_then(|one| look().map(|()| one)) {
                Ok(one) => share.applied.push((at, one)),
                Err(end) => {
                    // All earlier conversations are in work, so the first error is known in the end.
                    is_over.store(true, Relaxed);
                    share.end = Some((at, end));
                    break;
                }
            }
        }
        share
    };
    let mut last = Instant::now();
    let mut look = || match last.elapsed() < OFTEN {
        true => Ok(()),
        false => {
            last = Instant::now();
            Python::attach(|py| py.check_signals()).map_err(End::Interrupted)
        }
    };
    let shares: Vec<Share> = thread::scope(|scope| {
        let running: Vec<_> = (1..threads).map(|_| scope.spawn(|| work(&mut || Ok(())))).collect();
        // Signals are handled on this thread.
        let own = work(&mut look);
        // A thread that panics is a bug, which is raised here as it is without threads.
        let others = running.into_iter().map(|thread| thread.join().unwrap_or_else(|bug| resume_unwind(bug)));
        [own].into_iter().chain(others).collect()
    });
    let mut all: Vec<Option<ChatResult>> = (0..count).map(|_| None).collect();
    let mut ends = Vec::new();
    for Share { applied, end } in shares {
        applied.into_iter().for_each(|(at, one)| all[at] = Some(one));
        ends.extend(end);
    }
    // An interrupt is never lost.
    match ends.into_iter().min_by_key(|(at, end)| (!matches!(end, End::Interrupted(_)), *at)) {
        Some((_, end)) => Err(end),
        None => Ok(all.into_iter().flatten().collect()),
    }
}

fn apply(model: &rolecall::Model, messages: Json, common: &Object, wanted: ChatOutputs) -> Result<ChatResult, Error> {
    let mut object = common.clone();
    // A request has messages, but a template can render none.
    let is_empty = messages.as_array().is_some_and(<[Json]>::is_empty);
    let placeholder = || vec![Json::Object(object! { "role" => "user", "content" => "" })];
    object.insert("messages", if is_empty { Json::Array(placeholder()) } else { messages });
    let mut request = Request::from_json(Json::Object(object)).map_err(Error::Request)?;
    if is_empty {
        request.conversation.messages.clear();
    }
    let prompt = model.prompt(request)?;
    if !wanted.ids {
        return Ok(ChatResult::Text(prompt.text().to_owned()));
    }
    let encoded = prompt.encode()?;
    let mask = wanted.mask.then(|| prompt.assistant_mask(&encoded)).transpose()?;
    Ok(ChatResult::Ids {
        mask: mask.map(|mask| mask.into_iter().map(u8::from).collect()),
        spans: wanted.spans.then(|| encoded.spans_in_characters(prompt.text())),
        ids: encoded.ids(),
    })
}

fn python_of(py: Python<'_>, applied: ChatResult) -> PyResult<Bound<'_, PyAny>> {
    Ok(match applied {
        ChatResult::Text(text) => PyString::new(py, &text).into_any(),
        ChatResult::Ids { ids, mask, spans } => {
            let mask = mask.map(|mask| array(py, mask)).transpose()?;
            let spans = spans.map(|spans| array(py, spans)).transpose()?;
            (array(py, ids)?, mask, spans).into_pyobject(py)?.into_any()
        }
    })
}
