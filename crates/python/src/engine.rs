use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyIterator, PyList, PyMapping, PyString, PyTuple};
use rolecall::session::Finish;
use rolecall_interpreter::Stop;
use rolecall_interpreter::agent::{Engine, EngineError, Sampled, Sampling};

use crate::caller::Caller;
use crate::grammar::Grammar;
use crate::input::{self, Path};
use crate::session::finish_of;

/// A Python function that samples replies.
pub struct PythonEngine {
    pub call: Arc<Py<PyAny>>,
    pub caller: Caller,
}

/// What such a function returns.
enum EngineReply {
    Whole(ReplyPiece),
    Stream(Arc<Py<PyIterator>>),
}

/// A piece of a reply.
struct ReplyPiece {
    content: ReplyContent,
    finish: Option<Finish>,
}

enum ReplyContent {
    Ids(Vec<u32>),
    Text(String),
}

/// What has been sampled so far, and where it must end.
struct ReplyProgress<'a> {
    sampling: &'a Sampling,
    count: usize,
    finish: Option<Finish>,
}

impl Engine for PythonEngine {
    fn sample(
        &mut self,
        sampling: &Sampling,
        stop: &Stop,
        take: &mut dyn FnMut(Sampled<'_>),
    ) -> Result<Finish, EngineError> {
        let stopped = || EngineError("it was stopped".into());
        let (call, asked) = (Arc::clone(&self.call), sampling.clone());
        let returned = self.caller.ask(move |py| read_returned(call.call1(py, (request(py, asked)?,))?.bind(py)));
        let mut progress = ReplyProgress { sampling, count: 0, finish: None };
        match returned.ok_or_else(stopped)? {
            EngineReply::Whole(piece) => progress.add(piece, take),
            EngineReply::Stream(stream) => loop {
                if stop.is_stopped() {
                    self.close(stream);
                    return Ok(Finish::Abort);
                }
                let next = Arc::clone(&stream);
                let piece = self.caller.ask(move |py| {
                    let next = next.bind(py).clone().next();
                    next.map(|next| read_piece(&next?)).transpose()
                });
                let Some(piece) = piece.ok_or_else(stopped)? else { break };
                progress.add(piece, take);
                if progress.finish.is_some() {
                    self.close(stream);
                    break;
                }
            },
        }
        Ok(progress.finish())
    }
}

impl PythonEngine {
    /// Ends a stream that is not read to its end, as `break` in a loop over a generator does.
    fn close(&self, stream: Arc<Py<PyIterator>>) {
        self.caller.ask(move |py| {
            let stream = stream.bind(py);
            if stream.hasattr("close")? {
                stream.call_method0("close")?;
            }
            Ok(())
        });
    }
}

impl ReplyProgress<'_> {
    /// Takes a piece, up to a token that ends the reply or the most ids.
    fn add(&mut self, piece: ReplyPiece, take: &mut dyn FnMut(Sampled<'_>)) {
        match piece.content {
            ReplyContent::Ids(mut ids) => {
                let room = self.sampling.max_tokens.map_or(usize::MAX, |most| most.saturating_sub(self.count));
                let end = ids.iter().position(|id| self.sampling.stop_ids.contains(id));
                match end.filter(|end| *end < room) {
                    Some(end) => {
                        ids.truncate(end + 1);
                        self.finish = Some(Finish::Stop);
                    }
                    None if ids.len() > room => {
                        ids.truncate(room);
                        self.finish = Some(Finish::Length);
                    }
                    None => {}
                }
                self.count += ids.len();
                take(Sampled::Ids(&ids));
            }
            ReplyContent::Text(text) => take(Sampled::Spelled(&text)),
        }
        self.finish = self.finish.or(piece.finish);
    }

    /// Returns why the reply ended, once there is no more of it.
    fn finish(&self) -> Finish {
        let is_full = self.sampling.max_tokens.is_some_and(|most| self.count >= most);
        self.finish.unwrap_or(if is_full { Finish::Length } else { Finish::Stop })
    }
}

/// Returns what an engine is asked for, as a dict.
fn request(py: Python<'_>, sampling: Sampling) -> PyResult<Bound<'_, PyDict>> {
    let request = PyDict::new(py);
    request.set_item("ids", sampling.ids)?;
    request.set_item("keep", sampling.keep)?;
    request.set_item("stop_ids", sampling.stop_ids)?;
    request.set_item("text", sampling.text)?;
    request.set_item("max_tokens", sampling.max_tokens)?;
    request.set_item("grammar", sampling.grammar.map(Grammar::new))?;
    Ok(request)
}

fn read_returned(returned: &Bound<'_, PyAny>) -> PyResult<EngineReply> {
    let is_piece = |item: PyResult<Bound<'_, PyAny>>| item.is_ok_and(|item| item.is_instance_of::<PyInt>());
    let is_whole = match returned.cast::<PyList>() {
        Ok(list) => list.is_empty() || is_piece(list.get_item(0)),
        Err(_) if returned.is_instance_of::<PyTuple>() => is_piece(returned.get_item(0)),
        Err(_) => {
            returned.is_instance_of::<PyString>()
                || returned.cast::<PyMapping>().is_ok()
                || returned.hasattr("tolist")?
        }
    };
    if is_whole {
        return read_piece(returned).map(EngineReply::Whole);
    }
    match returned.try_iter() {
        Ok(stream) => Ok(EngineReply::Stream(Arc::new(stream.unbind()))),
        Err(_) => Err(input::wrong_type(
            returned,
            "engine",
            "ids, a text, a dict with `ids` or `text`, or an iterator of these from the engine",
        )),
    }
}

fn read_piece(piece: &Bound<'_, PyAny>) -> PyResult<ReplyPiece> {
    if let Ok(text) = piece.cast::<PyString>() {
        return Ok(ReplyPiece {
            content: ReplyContent::Text(input::text_of(text, &Path::of("engine"))?),
            finish: None,
        });
    }
    if piece.is_instance_of::<PyInt>() {
        let id = PyList::new(piece.py(), [piece])?;
        return Ok(ReplyPiece { content: ReplyContent::Ids(input::ids(&id, &mut Path::of("engine"))?), finish: None });
    }
    let Ok(dict) = piece.cast::<PyMapping>() else {
        return Ok(ReplyPiece {
            content: ReplyContent::Ids(input::ids(piece, &mut Path::of("engine"))?),
            finish: None,
        });
    };
    let get = |key: &str| -> PyResult<Option<Bound<'_, PyAny>>> {
        let value = dict.call_method1("get", (key,))?;
        Ok(Some(value).filter(|value| !value.is_none()))
    };
    let content = match (get("ids")?, get("text")?) {
        (Some(ids), None) => ReplyContent::Ids(input::ids(&ids, &mut Path::of("engine"))?),
        (None, Some(text)) => ReplyContent::Text(input::text(&text, &mut Path::of("engine"))?),
        // The last piece of a stream may say only why it ends.
        (None, None) if dict.contains("finish")? => ReplyContent::Ids(Vec::new()),
        _ => {
            let what = "expected either `ids` or `text` in the dict of an engine".to_owned();
            return Err(input::refuse(piece.py(), "engine", what));
        }
    };
    Ok(ReplyPiece { content, finish: get("finish")?.map(|finish| finish_of(&finish)).transpose()? })
}
