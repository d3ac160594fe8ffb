use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, Message};
use rolecall::guard::guard;
use rolecall::session::{Finish, Keep, OnRewrite, Seams};
use rolecall::{Request, answer, session};

use crate::cut::Cut;
use crate::delta::Delta;
use crate::input::{self, Path};
use crate::model::Model;
use crate::once::read_only;
use crate::plan::Plan;
use crate::reply::Reply;
use crate::request::keywords;
use crate::{error, output, policies};

/// A conversation with a model as the ids that an engine has processed.
///
/// `Model.session` begins one. Sampled ids are never decoded and encoded again, and each turn returns
/// only its new ids. An operation that raises leaves the session as it was. Threads may share a
/// session: their operations follow one another.
///
/// >>> model = rolecall.load("path/to/model")
/// >>> session = model.session([{"role": "user", "content": "Hi"}])
/// >>> prompt = session.open()  # send its ids to the engine
/// >>> reply = session.accept(session.encode_sampled("Hello<|im_end|>"), "stop")
/// >>> delta = session.append({"role": "user", "content": "Thanks"})
/// >>> delta = session.open()
/// >>> delta.keep, len(delta.ids), delta.proof["code"]  # the engine has the first 11
/// (11, 10, 'growth')
#[pyclass(frozen, module = "rolecall")]
pub struct Session {
    model: Py<Model>,
    inner: Mutex<session::Session>,
    /// How often the session changed.
    version: AtomicU64,
    /// All ids, as they were after so many changes.
    ids: Mutex<Option<(u64, Py<PyAny>)>>,
}

impl Session {
    pub fn new(model: Py<Model>, inner: session::Session) -> Session {
        Session { model, inner: Mutex::new(inner), version: AtomicU64::new(0), ids: Mutex::new(None) }
    }

    /// Waits for other threads. The interpreter must not wait for this one meanwhile.
    fn lock(&self) -> MutexGuard<'_, session::Session> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the session while other threads run.
    fn read<T: Send>(&self, py: Python<'_>, work: impl FnOnce(&session::Session) -> T + Send) -> T {
        py.detach(|| work(&self.lock()))
    }

    /// Does something that may fail, in the same way.
    pub fn try_read<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&session::Session) -> Result<T, rolecall::Error> + Send,
    ) -> PyResult<T> {
        self.read(py, work).map_err(|error| error::of(py, &error))
    }

    /// Changes the session while other threads run.
    fn change<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut session::Session) -> Result<T, rolecall::Error> + Send,
    ) -> PyResult<T> {
        let changed = py.detach(|| {
            let mut session = self.lock();
            let changed = guard(|| work(&mut session));
            self.version.fetch_add(1, Ordering::Release);
            changed?
        });
        changed.map_err(|error| error::of(py, &error))
    }
}

#[pymethods]
impl Session {
    /// Restores a session that `save` returned. The model must be the one of the session.
    #[staticmethod]
    fn load(model: &Bound<'_, Model>, saved: &Bound<'_, PyAny>) -> PyResult<Session> {
        restore(model, saved)
    }

    /// The model that the session belongs to.
    #[getter]
    pub fn model(&self, py: Python<'_>) -> Py<Model> {
        self.model.clone_ref(py)
    }

    /// All ids: a read-only array of uint32, of shape (ids,).
    #[getter]
    pub fn ids(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let (version, new) = py.detach(|| {
            let session = self.lock();
            let version = self.version.load(Ordering::Acquire);
            let is_known = self.known_ids().as_ref().is_some_and(|(of, _)| *of == version);
            (version, (!is_known).then(|| session.ids()))
        });
        let new = new.map(|ids| read_only(py, ids)).transpose()?;
        let mut known = self.known_ids();
        match (new, &*known) {
            // Another thread may have changed the session since. What is known is then newer.
            (None, Some((_, array))) => Ok(array.clone_ref(py)),
            (new, _) => {
                let array = new.map_or_else(|| read_only(py, Vec::<u32>::new()), Ok)?;
                *known = Some((version, array.clone_ref(py)));
                Ok(array)
            }
        }
    }

    /// The text of all ids. Sampled ids need not be valid UTF-8.
    #[getter]
    fn bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.read(py, session::Session::bytes))
    }

    /// The text of the ids from an index on, up to `end` if it is given.
    #[pyo3(signature = (first, end=None))]
    fn bytes_of<'py>(
        &self,
        first: &Bound<'py, PyAny>,
        end: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let py = first.py();
        let first = input::count("first", first)?;
        let end = end.map(|end| input::count("end", end)).transpose()?;
        let bytes = self.read(py, |session| {
            let end = end.unwrap_or_else(|| session.len()).min(session.len());
            session.bytes_of(first.min(end)..end)
        });
        Ok(PyBytes::new(py, &bytes))
    }

    /// Who wrote each run of ids, as dicts: `author`, `message` if they belong to one, `part`, `ids` as
    /// the first index and the end, and the loss `weight`.
    #[getter]
    fn segments(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        output::object(py, &answer::of_segments(&self.read(py, session::Session::segments)))
    }

    /// All messages as dicts, those without ids included.
    #[getter]
    fn messages(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let messages = self.read(py, session::Session::messages);
        let messages = messages.iter().map(|message| Json::Object(message.as_object().clone()));
        output::object(py, &Json::Array(messages.collect()))
    }

    /// Whether a reply is awaited.
    #[getter]
    fn is_open(&self, py: Python<'_>) -> bool {
        self.read(py, session::Session::is_open)
    }

    /// The last reply, or None if there is none or a new turn was opened since.
    #[getter]
    fn reply(&self, py: Python<'_>) -> Option<Reply> {
        self.read(py, |session| {
            let reply = session.reply()?.clone();
            // The reply's ids may be followed by those that close it.
            let own = |segment: &session::Segment| {
                segment.message == Some(reply.message) && segment.author == session::Author::Sampled
            };
            let segments: Vec<_> = session.segments().into_iter().filter(own).collect();
            let (first, end) = (segments.first()?.ids.start, segments.last()?.ids.end);
            let ids = session.ids().get(first..end)?.to_vec();
            Some(Reply::new(reply.into(), first, ids, segments))
        })
    }

    /// The ids of each branch that was replaced, in order: arrays of uint32.
    #[getter]
    fn branches<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let branches: Vec<Vec<u32>> = self.read(py, |session| session.branches().collect());
        let arrays: Vec<_> = branches.into_iter().map(|ids| read_only(py, ids)).collect::<PyResult<_>>()?;
        PyList::new(py, arrays)
    }

    /// Shows what appending messages would change in the ids already sent.
    fn plan(&self, messages: &Bound<'_, PyAny>) -> PyResult<Plan> {
        let py = messages.py();
        let new = messages_of(messages)?;
        self.try_read(py, |session| session.plan(&new)).map(Plan::new)
    }

    /// Shows what appending messages would change if from now on other tools, documents and switches
    /// apply. Those that are not given no longer apply.
    #[pyo3(signature = (messages, *, tools=None, documents=None, **switches))]
    fn plan_with(
        &self,
        messages: &Bound<'_, PyAny>,
        tools: Option<&Bound<'_, PyAny>>,
        documents: Option<&Bound<'_, PyAny>>,
        switches: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Plan> {
        let py = messages.py();
        let new = messages_of(messages)?;
        let request = request(py, self.model.get().inner(), None, tools, documents, switches)?;
        self.try_read(py, |session| session.plan_with(request, &new)).map(Plan::new)
    }

    /// Appends messages, or a plan of them. They have no ids until `open`, because a later message may
    /// still change their text.
    ///
    /// `on_rewrite` says what to do where the template rewrites ids already sent: `"refuse"` raises,
    /// `"keep"` keeps what was sent, and `"rewrite"` writes the text anew. The ids of the result close
    /// an unfinished reply, or replace what the template rewrites. Raises `SessionError` with the code
    /// "rewrites" if the template rewrites something and `on_rewrite` is `"refuse"`, the default.
    #[pyo3(signature = (messages, *, on_rewrite=None))]
    fn append(&self, messages: &Bound<'_, PyAny>, on_rewrite: Option<&Bound<'_, PyAny>>) -> PyResult<Delta> {
        let py = messages.py();
        let on = rewriting(on_rewrite)?;
        let delta = match messages.cast::<Plan>() {
            Ok(plan) => {
                let plan = plan.get().inner();
                self.change(py, |session| session.append(plan, on))
            }
            Err(_) => {
                let new = messages_of(messages)?;
                self.change(py, |session| session.append(session.plan(&new)?, on))
            }
        };
        delta.map(Delta::new)
    }

    /// Opens the model's turn: returns the ids of everything pending and of the generation prompt.
    fn open(&self, py: Python<'_>) -> PyResult<Delta> {
        self.change(py, session::Session::open).map(Delta::new)
    }

    /// Takes the ids that the model sampled, unchanged, and parses them. They may include the stop token.
    ///
    /// Raises `SessionError` with the code "not_open" if no reply is awaited, and `EncodeError` for an id
    /// that the tokenizer does not have.
    ///
    /// `finish` is why the engine ended the reply: `"stop"`, `"length"` or `"abort"`.
    #[pyo3(signature = (ids, finish=None))]
    fn accept(&self, ids: &Bound<'_, PyAny>, finish: Option<&Bound<'_, PyAny>>) -> PyResult<Reply> {
        let finish = finish.map_or(Ok(Finish::Stop), finish_of)?;
        let py = ids.py();
        let ids = input::ids(ids, &mut Path::of("ids"))?;
        let (reply, keep, segments) = self.change(py, |session| {
            let keep = session.len();
            let reply = session.accept(&ids, finish)?;
            Ok((reply, keep, session.segments_from(keep)))
        })?;
        Ok(Reply::new(reply, keep, ids, segments))
    }

    /// Parses the ids of a reply to a prompt with these ids, with the session's model, tools and
    /// switches. The session does not change, and its own ids do not matter. The segments of the
    /// result count the reply's ids from 0.
    ///
    /// Without `finish`, the ids tell whether the model stopped.
    #[pyo3(signature = (ids, *, prompt_ids=None, finish=None))]
    fn parse(
        &self,
        ids: &Bound<'_, PyAny>,
        prompt_ids: Option<&Bound<'_, PyAny>>,
        finish: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Reply> {
        let py = ids.py();
        let finish = finish.map(finish_of).transpose()?;
        let ids = input::ids(ids, &mut Path::of("ids"))?;
        let prompt = prompt_ids.map(|prompt| input::ids(prompt, &mut Path::of("prompt_ids"))).transpose()?;
        let prompt = prompt.unwrap_or_default();
        let (reply, segments) = self.try_read(py, |session| {
            let finish = finish.unwrap_or_else(|| session.finish_of(&ids));
            session.parse(&ids, finish, &prompt)
        })?;
        Ok(Reply::new(reply.into(), 0, ids, segments))
    }

    /// Takes a reply and the messages that follow it, and opens the next turn, on a fork. Returns the
    /// fork, what follows the reply's ids, and the index of the first new message.
    ///
    /// Without `finish`, the ids tell whether the model stopped.
    #[pyo3(signature = (ids, messages, *, finish=None, on_rewrite=None))]
    fn next_turn(
        &self,
        ids: &Bound<'_, PyAny>,
        messages: &Bound<'_, PyAny>,
        finish: Option<&Bound<'_, PyAny>>,
        on_rewrite: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<(Session, Delta, usize)> {
        let py = ids.py();
        let (finish, on) = (finish.map(finish_of).transpose()?, rewriting(on_rewrite)?);
        let ids = input::ids(ids, &mut Path::of("ids"))?;
        let new = messages_of(messages)?;
        let next = self.try_read(py, |session| {
            let finish = finish.unwrap_or_else(|| session.finish_of(&ids));
            session.next_turn(&ids, finish, &new, on)
        })?;
        Ok((Session::new(self.model.clone_ref(py), next.session), Delta::new(next.delta), next.first))
    }

    /// Encodes a text that stands for what the model sampled: text that spells a control token becomes
    /// this token. Use it where an engine returns no ids, and never for text from a user.
    fn encode_sampled(&self, text: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let py = text.py();
        let text = input::text(text, &mut Path::of("text"))?;
        read_only(py, self.try_read(py, |session| session.encode_sampled(&text))?)
    }

    /// Ends an unfinished reply: writes what closes open reasoning, and then the token with which the
    /// template ends the turn. These ids carry no loss. Without an unfinished reply, nothing happens.
    fn close(&self, py: Python<'_>) -> PyResult<Delta> {
        self.change(py, session::Session::close).map(Delta::new)
    }

    /// Removes the oldest turns. Either this many `turns` stay, or as many as have at most this many
    /// `ids`. System messages at the start, tools and documents always stay.
    #[pyo3(signature = (*, turns=None, ids=None))]
    fn truncate(
        &self,
        py: Python<'_>,
        turns: Option<&Bound<'_, PyAny>>,
        ids: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Cut> {
        let keep = match (turns, ids) {
            (Some(turns), None) => Keep::Turns(input::count("turns", turns)?),
            (None, Some(ids)) => Keep::Ids(input::count("ids", ids)?),
            _ => return Err(input::refuse(py, "turns", "expected either `turns` or `ids`".to_owned())),
        };
        Cut::new(py, self.change(py, |session| session.truncate(keep))?)
    }

    /// Returns a session that goes on from here independently. It shares all ids, so its cost does not
    /// depend on their number.
    fn fork(&self, py: Python<'_>) -> Session {
        let inner = self.read(py, session::Session::clone);
        Session::new(self.model.clone_ref(py), inner)
    }

    fn __copy__(&self, py: Python<'_>) -> Session {
        self.fork(py)
    }

    fn __deepcopy__(&self, py: Python<'_>, _memo: &Bound<'_, PyAny>) -> Session {
        self.fork(py)
    }

    /// Returns the session as JSON text, with a version and a checksum. It holds ids, messages,
    /// branches, notes, tools, documents, switches and the clock, and names the model by digests.
    fn save(&self, py: Python<'_>) -> PyResult<String> {
        self.try_read(py, session::Session::save)
    }

    /// Pickles the session with its model.
    fn __reduce__<'py>(slf: &Bound<'py, Session>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let py = slf.py();
        let saved = slf.get().save(py)?;
        let load = slf.get_type().getattr("load")?;
        Ok((load, (slf.get().model.clone_ref(py), saved).into_pyobject(py)?))
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.read(py, session::Session::len)
    }

    /// A session without ids is a session too.
    fn __bool__(&self) -> bool {
        true
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let (ids, is_open) = self.read(py, |session| (session.len(), session.is_open()));
        format!("Session({ids} ids{})", if is_open { ", awaits a reply" } else { "" })
    }
}

impl Session {
    fn known_ids(&self) -> MutexGuard<'_, Option<(u64, Py<PyAny>)>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads why an engine ended a reply.
pub fn finish_of(value: &Bound<'_, PyAny>) -> PyResult<Finish> {
    input::word("finish", value, &[("stop", Finish::Stop), ("length", Finish::Length), ("abort", Finish::Abort)])
}

fn rewriting(value: Option<&Bound<'_, PyAny>>) -> PyResult<OnRewrite> {
    let words = [("refuse", OnRewrite::Refuse), ("keep", OnRewrite::Keep), ("rewrite", OnRewrite::Rewrite)];
    input::word_or_default("on_rewrite", value, &words)
}

/// Reads how a conversation is divided.
pub fn seams(value: Option<&Bound<'_, PyAny>>) -> PyResult<Seams> {
    input::word_or_default("seams", value, &[("live", Seams::Live), ("whole", Seams::Whole)])
}

/// Restores a saved session.
pub fn restore(model: &Bound<'_, Model>, saved: &Bound<'_, PyAny>) -> PyResult<Session> {
    let py = model.py();
    let saved = input::text(saved, &mut Path::of("saved"))?;
    let inner = model.get().inner();
    let restored = py.detach(|| inner.restore_session(&saved));
    Ok(Session::new(model.clone().unbind(), restored.map_err(|error| error::of(py, &error))?))
}

/// Returns a request, which may be without messages.
pub fn request(
    py: Python<'_>,
    model: &rolecall::Model,
    messages: Option<&Bound<'_, PyAny>>,
    tools: Option<&Bound<'_, PyAny>>,
    documents: Option<&Bound<'_, PyAny>>,
    switches: Option<&Bound<'_, PyDict>>,
) -> PyResult<Request> {
    let messages = messages.map(|messages| input::json(messages, &mut Path::of("messages"))).transpose()?;
    let messages = messages.unwrap_or_else(|| Json::Array(Vec::new()));
    let object = keywords(model, messages, tools, documents, [], switches)?;
    let is_empty = object.get("messages").and_then(Json::as_array).is_some_and(<[Json]>::is_empty);
    let request = match is_empty {
        true => Request::without_messages(object),
        false => Request::from_json(Json::Object(object)),
    };
    request.map_err(|error| error::of(py, &rolecall::Error::Request(error)))
}

/// Returns messages. One message need not be in a list.
pub fn messages_of(messages: &Bound<'_, PyAny>) -> PyResult<Vec<Message>> {
    let list = match input::json(messages, &mut Path::of("messages"))? {
        Json::Array(list) if list.is_empty() => return Ok(Vec::new()),
        message @ Json::Object(_) => Json::Array(vec![message]),
        list => list,
    };
    let mut object = Object::new();
    object.insert("messages", list);
    let request = Request::from_json(Json::Object(object));
    let request = request.map_err(|error| error::of(messages.py(), &rolecall::Error::Request(error)))?;
    Ok(request.conversation.messages)
}

#[pymethods]
impl Model {
    /// Begins a session. The messages are pending until `Session.open`; there may be none yet.
    ///
    /// `policies` is a dict with `calls_in_reasoning` and `unclosed_reasoning`, as `parse` takes it.
    ///
    /// Raises what `prompt` raises, and `TokenizerError` if the model has no tokenizer.
    ///
    /// >>> rolecall.load("path/to/model").session([{"role": "user", "content": "Hi"}]).open().ids.tolist()
    /// [705, 258, 198, 307, 706, 198, 705, 270, 198]
    #[pyo3(signature = (messages=None, *, tools=None, documents=None, policies=None, **switches))]
    fn session(
        slf: &Bound<'_, Model>,
        messages: Option<&Bound<'_, PyAny>>,
        tools: Option<&Bound<'_, PyAny>>,
        documents: Option<&Bound<'_, PyAny>>,
        policies: Option<&Bound<'_, PyAny>>,
        switches: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Session> {
        let py = slf.py();
        let mut request = self::request(py, slf.get().inner(), messages, tools, documents, switches)?;
        policies::of_session(policies, &mut request.other)?;
        let inner = slf.get().inner();
        let begun = py.detach(|| inner.session(request)).map_err(|error| error::of(py, &error))?;
        Ok(Session::new(slf.clone().unbind(), begun))
    }

    /// Begins a session with a conversation that already has replies. Everything up to the last reply
    /// gets ids, and the messages after it are pending.
    ///
    /// `seams` says how the conversation is divided before it is encoded: `"live"` as an engine sees
    /// it, prompts and replies separately, or `"whole"` not at all, as trainers do.
    ///
    /// >>> messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    /// >>> len(rolecall.load("path/to/model").import_session(messages))
    /// 11
    #[pyo3(signature = (messages, *, seams=None, tools=None, documents=None, **switches))]
    fn import_session(
        slf: &Bound<'_, Model>,
        messages: &Bound<'_, PyAny>,
        seams: Option<&Bound<'_, PyAny>>,
        tools: Option<&Bound<'_, PyAny>>,
        documents: Option<&Bound<'_, PyAny>>,
        switches: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Session> {
        let py = slf.py();
        let seams = self::seams(seams)?;
        let request = self::request(py, slf.get().inner(), Some(messages), tools, documents, switches)?;
        let inner = slf.get().inner();
        let begun = py.detach(|| inner.import_session(request, seams));
        Ok(Session::new(slf.clone().unbind(), begun.map_err(|error| error::of(py, &error))?))
    }

    /// Restores a session that `Session.save` returned. Raises `SessionError` if the text is damaged, or the
    /// session is one of another model.
    ///
    /// >>> model = rolecall.load("path/to/model")
    /// >>> saved = model.session([{"role": "user", "content": "Hi"}]).save()
    /// >>> model.restore_session(saved).messages
    /// [{'role': 'user', 'content': 'Hi'}]
    fn restore_session(slf: &Bound<'_, Model>, saved: &Bound<'_, PyAny>) -> PyResult<Session> {
        restore(slf, saved)
    }
}
