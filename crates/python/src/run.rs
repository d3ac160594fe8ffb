use std::collections::BTreeSet;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString, PyTuple};
use rolecall::conversation::json::{self, Layout};
use rolecall::conversation::{Json, Message, Role};
use rolecall_interpreter::Stop;
use rolecall_interpreter::agent::{
    Agent, AgentError, AgentEvent, Ask, Decision, Engine, Policy, Replay, Toolbox, TurnEnd,
};

use crate::caller::{self, Caller};
use crate::engine::PythonEngine;
use crate::error::Fault;
use crate::function::Function;
use crate::input::{self, Path};
use crate::interpreter::{self, Interpreter, SharedSession};
use crate::model::Model;
use crate::once::Once;
use crate::session::{self, Session};
use crate::{error, grammar, output};

/// The name by which `allow` and `ask` know code.
const CODE: &str = "code_interpreter";

/// What became of a run: the conversation, and why it ended.
///
/// `Model.run` returns it. It can be pickled.
///
/// >>> model = rolecall.load("path/to/model")
/// >>> result = model.run([{"role": "user", "content": "Hi"}], engine=lambda request: "Hello<|im_end|>")
/// >>> result.answer, result.end
/// ('Hello', 'answer')
/// >>> result.session.rollout().ids.tolist() == result.ids.tolist()  # to train on what was sampled
/// True
#[pyclass(frozen, module = "rolecall")]
pub struct RunResult {
    session: Py<Session>,
    conversation: Json,
    end: String,
    events: Vec<Json>,
    event_list: Once,
}

impl RunResult {
    fn messages(&self) -> &[Json] {
        let messages = self.conversation.as_object().and_then(|object| object.get("messages"));
        messages.and_then(Json::as_array).unwrap_or_default()
    }
}

#[pymethods]
impl RunResult {
    /// All messages as dicts, those that the run began with included.
    #[getter(messages)]
    fn message_list(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        output::object(py, &Json::Array(self.messages().to_vec()))
    }

    /// The text of the model's last message, or None if it has none.
    #[getter]
    fn answer(&self) -> Option<String> {
        let messages = self.messages().iter().rev().filter_map(Json::as_object);
        let mut replies = messages.filter_map(|message| Message::from_object(message.clone()).ok());
        replies.find(|message| *message.role() == Role::Assistant).and_then(|message| message.text())
    }

    /// Why it ended: "answer", "length" (a reply reached `max_tokens`), "rounds", "time", or "stopped" (the engine
    /// ended a reply with "abort").
    #[getter]
    fn end(&self) -> &str {
        &self.end
    }

    /// All ids of the conversation: a read-only array of uint32, of shape (ids,).
    #[getter]
    fn ids(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.session.get().ids(py)
    }

    /// The session of the conversation, which has the ids as they were sampled.
    #[getter]
    fn session(&self, py: Python<'_>) -> Py<Session> {
        self.session.clone_ref(py)
    }

    /// Every step, as dicts with a `type`: "prompt", the events of `parse_stream`, "message", "call", "output",
    /// "result" and "end". `Model.run` replays them.
    #[getter]
    fn events(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.event_list.list(py, self.events.iter().cloned())
    }

    /// The conversation as a dict with `messages`, `tools` and the template's switches: a file of it is one that every
    /// command reads.
    #[getter]
    fn conversation(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        output::object(py, &self.conversation)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let (py, result) = (slf.py(), slf.get());
        let text = |json: &Json| json::write(json, &Layout::compact());
        let events = text(&Json::Array(result.events.clone()));
        let parts = (result.session.clone_ref(py), text(&result.conversation), result.end.clone(), events);
        Ok((slf.get_type().getattr("_restore")?, parts.into_pyobject(py)?))
    }

    /// Returns the result that was pickled. Raises `RequestError` if it is damaged.
    #[staticmethod]
    fn _restore(
        session: &Bound<'_, Session>,
        conversation: &Bound<'_, PyAny>,
        end: &Bound<'_, PyAny>,
        events: &Bound<'_, PyAny>,
    ) -> PyResult<RunResult> {
        let json = |value: &Bound<'_, PyAny>, name: &str| {
            let text = input::argument(value, name)?;
            json::parse(&text).map_err(|error| input::refuse(value.py(), name, error.to_string()))
        };
        let Json::Array(list) = json(events, "events")? else {
            return Err(input::wrong_type(events, "events", "the text of a list"));
        };
        Ok(RunResult {
            session: session.clone().unbind(),
            conversation: json(conversation, "conversation")?,
            end: input::argument(end, "end")?,
            events: list,
            event_list: Once::default(),
        })
    }

    fn __repr__(&self) -> String {
        format!("RunResult(end={:?}, {} messages, {} events)", self.end, self.messages().len(), self.events.len())
    }
}

#[pymethods]
impl Model {
    /// Lets the model reply, runs what it calls, and gives it the results, until it answers or a limit is reached.
    ///
    /// `messages`, `documents` and `switches` are those of `prompt`. `tools` are functions, whose definitions come
    /// from their names, docstrings and type hints, or dicts with an OpenAI definition and what is called:
    /// `{"function": {..}, "call": f}`. A function gets keyword arguments. The model reads what it returns: a str as it
    /// is, and anything else as JSON. It reads the errors of functions, too: they do not end the run.
    ///
    /// `engine` samples a reply. It gets a dict with the `ids` of the prompt, how many of them it had before (`keep`),
    /// `stop_ids`, `max_tokens`, the `text` of the prompt, and the `grammar` that a first reply must follow if
    /// `tool_choice` asks for a call, or None. It returns ids; a dict with `ids` and `finish` ("stop", "length" or
    /// "abort"); or an iterator of either, such as a generator, which may yield a single id, too. An engine that has
    /// no ids returns a str, in which the text of a control token counts as this token.
    ///
    /// `interpreter` runs the model's code: True, a dict of the arguments of `Interpreter`, or an `Interpreter`, whose
    /// variables and files stay. Code runs if `allow` has the name "code_interpreter", or if `ask` allows it: a
    /// function that gets each call as a dict, and returns True, or False, or a str with the reason against it, which
    /// the model reads. The functions that were passed need no permission.
    ///
    /// `rounds` is the most replies, `time` the seconds after which no further reply begins, `max_tokens` the most ids
    /// of a reply. Calls of one reply run in at most as many threads as `parallel` says; if it is 1, they run in the
    /// thread of the caller. `tool_choice` is "auto", "required", or the name of a tool that must be called first.
    /// `on_event` is called with each step, a dict.
    ///
    /// `replay` has the `events` of an earlier run, as dicts or as lines of JSON: then the engine is not asked, and
    /// nothing is run.
    ///
    /// Raises what `session` raises, `InterpreterError` if no code can be run here, and what `engine`, `ask` and
    /// `on_event` raise. An interrupt ends it.
    ///
    /// >>> def add(a: int, b: int) -> int:
    /// ...     "Add two numbers."
    /// ...     return a + b
    /// >>> replies = iter([
    /// ...     '<tool_call>\n{"name": "add", "arguments": {"a": 2, "b": 3}}\n</tool_call><|im_end|>', "5<|im_end|>"])
    /// >>> model = rolecall.load("path/to/model")
    /// >>> messages = [{"role": "user", "content": "2+3?"}]
    /// >>> result = model.run(messages, tools=[add], engine=lambda request: next(replies))
    /// >>> [message["role"] for message in result.messages], result.answer
    /// (['user', 'assistant', 'tool', 'assistant'], '5')
    #[pyo3(
        signature = (messages, *, tools=None, documents=None, engine=None, interpreter=None, allow=None, ask=None,
                     rounds=None, time=None, max_tokens=None, parallel=None, tool_choice=None, on_event=None,
                     replay=None, **switches),
        text_signature = "($self, messages, *, tools=None, documents=None, engine=None, interpreter=None, allow=None, \
                          ask=None, rounds=16, time=600.0, max_tokens=None, parallel=4, tool_choice='auto', \
                          on_event=None, replay=None, **switches)"
    )]
    #[expect(clippy::too_many_arguments, reason = "each is a keyword argument in Python")]
    fn run(
        slf: &Bound<'_, Model>,
        messages: &Bound<'_, PyAny>,
        tools: Option<&Bound<'_, PyAny>>,
        documents: Option<&Bound<'_, PyAny>>,
        engine: Option<&Bound<'_, PyAny>>,
        interpreter: Option<&Bound<'_, PyAny>>,
        allow: Option<&Bound<'_, PyAny>>,
        ask: Option<&Bound<'_, PyAny>>,
        rounds: Option<&Bound<'_, PyAny>>,
        time: Option<&Bound<'_, PyAny>>,
        max_tokens: Option<&Bound<'_, PyAny>>,
        parallel: Option<&Bound<'_, PyAny>>,
        tool_choice: Option<&Bound<'_, PyAny>>,
        on_event: Option<&Bound<'_, PyAny>>,
        replay: Option<&Bound<'_, PyAny>>,
        switches: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<RunResult> {
        let py = slf.py();
        let request = session::request(py, slf.get().inner(), None, None, documents, switches)?;
        let messages = session::messages_of(messages)?;
        let on_event = on_event.map(|on| input::callable(on, "on_event")).transpose()?;
        let sampler = match (replay, engine) {
            (Some(replay), _) => Sampler::Replay(read_replay(replay)?),
            (None, Some(engine)) => Sampler::Python(input::callable(engine, "engine")?),
            (None, None) => {
                return Err(input::refuse(py, "engine", "expected a function that samples replies".to_owned()));
            }
        };
        let functions = Function::read_all(py, tools)?;
        let permission = Permission::read(py, &functions, allow, ask)?;
        let defaults = Policy::default();
        let policy = Policy {
            rounds: rounds.map_or(Ok(defaults.rounds), |rounds| positive("rounds", rounds))?,
            time: time.map_or(Ok(defaults.time), |time| input::seconds("time", time))?,
            max_tokens: max_tokens.map(|most| positive("max_tokens", most)).transpose()?,
            parallel: parallel.map_or(Ok(defaults.parallel), |parallel| positive("parallel", parallel))?,
            choice: tool_choice.map(grammar::choice).transpose()?.unwrap_or_default(),
            ..defaults
        };
        let code = match interpreter {
            Some(interpreter) => read_interpreter(interpreter, &permission, &sampler)?,
            None => Code::None,
        };
        let (model, stop) = (slf.get().inner().clone(), Stop::default());
        let stops = stop.clone();
        let ended = caller::call(py, &stop, move |caller| {
            let mut toolbox = match code {
                Code::None => Toolbox::default(),
                Code::Offered => Toolbox::default().offering_code(),
                Code::Session(session) => Toolbox::default().with_interpreter(Box::new(session)),
            };
            let is_here = policy.parallel == 1;
            for function in functions {
                toolbox = toolbox.with(function.callable(caller.clone(), is_here));
            }
            let (mut engine, toolbox, policy): (Box<dyn Engine>, _, _) = match sampler {
                Sampler::Replay(mut replay) => {
                    let toolbox = replay.toolbox(toolbox);
                    // What was refused is recorded as such.
                    (Box::new(replay), toolbox, Policy { ask: Some(Box::new(|_| Decision::Run)), ..policy })
                }
                Sampler::Python(call) => {
                    let engine = PythonEngine { call, caller: caller.clone() };
                    (Box::new(engine), toolbox, permission.policy(policy, &caller))
                }
            };
            let mut agent = Agent::new(&model, request, toolbox, policy)?;
            let mut events = Vec::new();
            let end = agent.turn(&messages, &mut *engine, &stops, &mut |event: &AgentEvent<'_>| {
                let event = event.to_json();
                if let Some(on_event) = &on_event {
                    let (on_event, event) = (Arc::clone(on_event), event.clone());
                    caller.tell(move |py| on_event.call1(py, (output::object(py, &event)?,)).map(|_| ()));
                }
                events.push(event);
            })?;
            Ok((end, agent.session().clone(), agent.conversation(), events))
        });
        let (end, session, conversation, events): (TurnEnd, _, _, _) = ended?.map_err(|error| in_agent(py, &error))?;
        let session = Py::new(py, Session::new(slf.clone().unbind(), session))?;
        let end = end.name().to_owned();
        Ok(RunResult { session, conversation, end, events, event_list: Once::default() })
    }
}

/// What samples replies.
enum Sampler {
    Replay(Replay),
    Python(Arc<Py<PyAny>>),
}

/// Whether code is run, and by what.
enum Code {
    None,
    /// It is only answered for by a record.
    Offered,
    Session(SharedSession),
}

/// Reads the argument `interpreter`, and opens a session if it asks for one.
fn read_interpreter(value: &Bound<'_, PyAny>, permission: &Permission, sampler: &Sampler) -> PyResult<Code> {
    let py = value.py();
    if let Ok(flag) = value.cast::<PyBool>()
        && !flag.is_true()
    {
        return Ok(Code::None);
    }
    if matches!(sampler, Sampler::Replay(_)) {
        return Ok(Code::Offered);
    }
    if permission.ask.is_none() && !permission.allowed.contains(CODE) {
        let message = "nothing allows the code of the model to run".to_owned();
        let help = Some(format!("pass `allow={CODE:?}`, or a function `ask` that decides about each call"));
        let place = Some(rolecall::conversation::Place::field("allow".to_owned()));
        return Err(Fault { class: "RequestError", code: "nobody_allows", message, place, help }.raise(py));
    }
    if let Ok(interpreter) = value.cast::<Interpreter>() {
        return interpreter.get().session(py).map(Code::Session);
    }
    let options = match value.cast::<PyDict>() {
        Ok(dict) => interpreter::options_of(dict)?,
        Err(_) if value.is_instance_of::<PyBool>() => Default::default(),
        Err(_) => return Err(input::wrong_type(value, "interpreter", "True, a dict, or an Interpreter")),
    };
    let session = interpreter::open(py, options)?;
    // That no kernel starts is the caller's to know, rather than the model's at each call.
    session.warm_up(py)?;
    Ok(Code::Session(session))
}

/// What may run.
struct Permission {
    allowed: BTreeSet<String>,
    ask: Option<Arc<Py<PyAny>>>,
}

impl Permission {
    fn read(
        py: Python<'_>,
        functions: &[Function],
        allow: Option<&Bound<'_, PyAny>>,
        ask: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Permission> {
        // Who passes a function wants it to be called.
        let mut allowed: BTreeSet<String> = functions.iter().map(|function| function.name().to_owned()).collect();
        let names = match allow {
            None => Vec::new(),
            Some(name) if name.is_instance_of::<PyString>() => vec![input::argument(name, "allow")?],
            Some(names) => {
                let names = names.try_iter().map_err(|_| input::wrong_type(names, "allow", "names of tools"))?;
                names.map(|name| input::argument(&name?, "allow")).collect::<PyResult<_>>()?
            }
        };
        for name in names {
            if name != CODE && !allowed.contains(&name) {
                let what = format!("there is no tool {name:?}; code has the name {CODE:?}");
                return Err(input::refuse(py, "allow", what));
            }
            allowed.insert(name);
        }
        Ok(Permission { allowed, ask: ask.map(|ask| input::callable(ask, "ask")).transpose()? })
    }

    fn policy(self, policy: Policy, caller: &Caller) -> Policy {
        let caller = caller.clone();
        let ask = self.ask.map(|ask| -> Ask {
            Box::new(move |call| {
                let (ask, call) = (Arc::clone(&ask), AgentEvent::Call(call).to_json());
                let decision = caller.ask(move |py| decide(ask.call1(py, (output::object(py, &call)?,))?.bind(py)));
                decision.unwrap_or_else(|| Decision::Refuse("the user stopped".into()))
            })
        });
        Policy { ask, ..policy }.allowing(self.allowed)
    }
}

/// Reads what a function `ask` returned.
fn decide(decision: &Bound<'_, PyAny>) -> PyResult<Decision> {
    if let Ok(reason) = decision.cast::<PyString>() {
        return input::text_of(reason, &Path::of("ask")).map(Decision::Refuse);
    }
    match decision.cast::<PyBool>() {
        Ok(flag) if flag.is_true() => Ok(Decision::Run),
        Ok(_) => Ok(Decision::Refuse("the user said no".into())),
        Err(_) => Err(input::wrong_type(decision, "ask", "True, False or a reason from this function")),
    }
}

/// Reads the events of an earlier run: lines of JSON, or a list of dicts or lines.
fn read_replay(value: &Bound<'_, PyAny>) -> PyResult<Replay> {
    let lines = match input::json(value, &mut Path::of("replay"))? {
        Json::String(text) => text,
        Json::Array(events) => {
            let line = |event: &Json| match event {
                Json::String(line) => line.trim_end_matches('\n').to_owned(),
                other => json::write(other, &Layout::compact()),
            };
            events.iter().map(line).collect::<Vec<String>>().join("\n")
        }
        _ => return Err(input::wrong_type(value, "replay", "a list of events, or lines of JSON")),
    };
    Replay::from_lines(&lines).map_err(|error| input::refuse(value.py(), "replay", error.to_string()))
}

fn positive(argument: &str, value: &Bound<'_, PyAny>) -> PyResult<usize> {
    match input::count(argument, value)? {
        0 => Err(input::refuse(value.py(), argument, "expected a whole number from 1".to_owned())),
        count => Ok(count),
    }
}

/// Returns the exception of an agent. What an engine of Python raised was raised before.
fn in_agent(py: Python<'_>, error: &AgentError) -> PyErr {
    match error {
        AgentError::Core(error) => error::of(py, error),
        other => Fault {
            class: "RequestError",
            code: other.code(),
            message: other.to_string(),
            place: None,
            help: Some("replay a run with the messages, tools and switches that it had".to_owned()),
        }
        .raise(py),
    }
}
