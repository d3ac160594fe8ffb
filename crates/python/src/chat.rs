//! Conversations in the shape of transformers' `apply_chat_template`. `rolecall/hf.py` is what users
//! call.

use std::thread;

use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, object};
use rolecall::{Error, Request};

use crate::error;
use crate::input::{self, Path};
use crate::model::Model;

/// The most conversations that are converted at once.
const AT_ONCE: usize = 512;
/// Fewer conversations than this are not worth a thread.
const PER_THREAD: usize = 32;

/// What is wanted of each conversation.
#[derive(Clone, Copy)]
struct Wanted {
    ids: bool,
    mask: bool,
    spans: bool,
}

/// What became of a conversation.
enum Applied {
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
    let wanted = Wanted { ids, mask, spans };
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
        }
        let applied = py.detach(|| apply_all(model, parts, &common, wanted));
        for one in applied.map_err(|error| error::of(py, &error))? {
            results.push(python_of(py, one)?);
        }
        py.check_signals()?;
    }
    Ok(results)
}

/// Applies a template to several conversations, by several threads if that is worth it. Returns the
/// first error.
fn apply_all(
    model: &rolecall::Model,
    mut parts: Vec<Json>,
    common: &Object,
    wanted: Wanted,
) -> Result<Vec<Applied>, Error> {
    let each = |parts: Vec<Json>| -> Result<Vec<Applied>, Error> {
        parts.into_iter().map(|messages| apply(model, messages, common, wanted)).collect()
    };
    let most = thread::available_parallelism().map_or(1, |most| most.get());
    let threads = most.min(parts.len() / PER_THREAD).max(1);
    if threads == 1 {
        return each(parts);
    }
    let share = parts.len().div_ceil(threads);
    let mut shares = Vec::with_capacity(threads);
    while !parts.is_empty() {
        let rest = parts.split_off(share.min(parts.len()));
        shares.push(parts);
        parts = rest;
    }
    let done: Vec<_> = thread::scope(|scope| {
        let running: Vec<_> = shares.into_iter().map(|share| scope.spawn(|| each(share))).collect();
        // A thread that panics is a bug, which is raised here as it is without threads.
        running.into_iter().map(|thread| thread.join().unwrap_or_else(|bug| std::panic::resume_unwind(bug))).collect()
    });
    let mut all = Vec::new();
    for share in done {
        all.extend(share?);
    }
    Ok(all)
}

fn apply(model: &rolecall::Model, messages: Json, common: &Object, wanted: Wanted) -> Result<Applied, Error> {
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
        return Ok(Applied::Text(prompt.text().to_owned()));
    }
    let encoded = prompt.encode()?;
    let mask = wanted.mask.then(|| prompt.assistant_mask(&encoded)).transpose()?;
    Ok(Applied::Ids {
        mask: mask.map(|mask| mask.into_iter().map(u8::from).collect()),
        spans: wanted.spans.then(|| encoded.spans_in_characters(prompt.text())),
        ids: encoded.ids(),
    })
}

fn python_of(py: Python<'_>, applied: Applied) -> PyResult<Bound<'_, PyAny>> {
    Ok(match applied {
        Applied::Text(text) => PyString::new(py, &text).into_any(),
        Applied::Ids { ids, mask, spans } => {
            let mask = mask.map(|mask| PyArray1::from_vec(py, mask));
            let spans = spans.map(|spans| PyArray1::from_vec(py, spans));
            (PyArray1::from_vec(py, ids), mask, spans).into_pyobject(py)?.into_any()
        }
    })
}
