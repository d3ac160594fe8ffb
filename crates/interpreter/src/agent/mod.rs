//! The loop: a model replies, what it calls is run, the results are its next turn, until it answers.
//!
//! An [`Agent`] owns a [`Session`], so that each turn sends only what is new. The [`Toolbox`] has what can be called, the
//! [`Policy`] says what may run and how long, an [`Engine`] samples, and every step is an [`AgentEvent`] that can be shown,
//! written down and replayed ([`Replay`]).

mod command;
mod engine;
mod event;
mod mcp;
mod mcp_process;
mod policy;
mod replay;
mod toolbox;
mod tools_file;

use std::sync::Arc;
use std::thread;
use std::time::Instant;

use rolecall::conversation::{Arguments, Call, Json, Message, Tool, json, object};
use rolecall::format::CodeResult;
use rolecall::grammar::{Grammar, Options, ToolChoice};
use rolecall::session::{Finish, OnRewrite, Session};
use rolecall::tokenizer::{TextPlace, Tokenizer};
use rolecall::{Error as CoreError, Model, Request};

use crate::{Folder, Stop};

pub use command::Command;
pub use engine::{Engine, EngineError, Sampled, Sampling};
pub use event::{AgentEvent, OwnCall, TurnEnd};
pub use mcp::{Mcp, McpConnection, McpTool};
pub use policy::{Ask, Decision, Policy};
pub use replay::{Replay, ReplayError};
pub use toolbox::{Callable, ToolError, ToolResult, Toolbox};
pub use tools_file::{ToolsFile, ToolsFileError};

/// A conversation with a model that calls tools and runs code.
///
/// ```
/// use rolecall::{Model, Request};
/// use rolecall_interpreter::agent::{Agent, Policy, Toolbox};
/// let model = Model::open("internlm2")?;
/// let request = Request::from_text(r#"{"messages": [{"role": "system", "content": "Be brief."}]}"#)?;
/// // Without a tokenizer there are no ids, so this model has no sessions.
/// assert!(Agent::new(&model, request, Toolbox::default(), Policy::default()).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Agent {
    session: Session,
    tokenizer: Arc<dyn Tokenizer>,
    /// The tools that the conversation was begun with, ours included.
    request: Request,
    toolbox: Toolbox,
    policy: Policy,
    /// How the model's family has results of code.
    code_result: CodeResult,
}

/// Why a turn of an agent failed. The conversation is as it was after the last step that worked.
#[derive(Debug)]
#[non_exhaustive]
pub enum AgentError {
    /// The conversation cannot be written, or the reply not be read.
    Core(Box<CoreError>),
    /// The engine failed.
    Engine(EngineError),
}

impl AgentError {
    /// Returns the stable code.
    pub fn code(&self) -> &'static str {
        match self {
            AgentError::Core(error) => error.code(),
            AgentError::Engine(_) => "engine",
        }
    }
}

impl std::fmt::Display for AgentError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AgentError::Core(error) => error.fmt(f),
            AgentError::Engine(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for AgentError {}

impl From<CoreError> for AgentError {
    fn from(error: CoreError) -> AgentError {
        AgentError::Core(Box::new(error))
    }
}

impl Agent {
    /// Begins a conversation. The tools of the toolbox are offered beside those of the request.
    pub fn new(model: &Model, request: Request, toolbox: Toolbox, policy: Policy) -> Result<Agent, AgentError> {
        let mut request = request;
        let own = toolbox.definitions().into_iter().map(Tool::from_json).collect::<Result<Vec<Tool>, _>>();
        let own = own.map_err(|error| CoreError::from(rolecall::request::Error::from(error)))?;
        if !own.is_empty() {
            request.conversation.tools.get_or_insert_default().extend(own);
        }
        let tokenizer = Arc::clone(model.tokenizer()?);
        let session = model.session(request.clone())?;
        let code_result = model.format().map(|format| format.code_result.clone()).unwrap_or_default();
        Ok(Agent { session, tokenizer, request, toolbox, policy, code_result })
    }

    /// Adds messages that the conversation begins with. The replies among them count as written by the caller.
    pub fn begin_with(&mut self, messages: &[Message]) -> Result<(), AgentError> {
        self.add(messages)
    }

    /// Returns the conversation's session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Returns the folder of the code interpreter, if there is one.
    pub fn folder(&self) -> Option<Folder> {
        self.toolbox.folder()
    }

    /// Goes back to an earlier state of the conversation. What tools and code did stays done.
    pub fn go_back(&mut self, session: Session) {
        self.session = session;
    }

    /// Returns the conversation so far, as a file that every command reads: the messages, and the tools.
    pub fn conversation(&self) -> Json {
        let mut conversation = self.request.to_json();
        let messages = self.session.messages();
        if let Json::Object(object) = &mut conversation {
            object.insert(
                "messages",
                messages.iter().map(|message| message.as_object().clone().into()).collect::<Vec<Json>>().into(),
            );
        }
        conversation
    }

    /// Adds messages, and lets the model reply, with all that it calls, until it answers or a limit is reached.
    pub fn turn(
        &mut self,
        messages: &[Message],
        engine: &mut dyn Engine,
        stop: &Stop,
        see: &mut dyn FnMut(&AgentEvent<'_>),
    ) -> Result<TurnEnd, AgentError> {
        let begin = Instant::now();
        // A turn that fails leaves the conversation as it was.
        let before = self.session.clone();
        let added = self.add(messages);
        let end = added.and_then(|()| self.rounds(begin, engine, stop, see));
        if end.is_err() && !self.has_replied(&before) {
            self.session = before;
        }
        let end = end?;
        see(&AgentEvent::End(end));
        Ok(end)
    }

    fn has_replied(&self, before: &Session) -> bool {
        self.session.messages().len() > before.messages().len() + 1
    }

    fn add(&mut self, messages: &[Message]) -> Result<(), AgentError> {
        if messages.is_empty() {
            return Ok(());
        }
        let plan = self.session.plan(messages)?;
        self.session.append(plan, OnRewrite::Rewrite)?;
        Ok(())
    }

    fn rounds(
        &mut self,
        begin: Instant,
        engine: &mut dyn Engine,
        stop: &Stop,
        see: &mut dyn FnMut(&AgentEvent<'_>),
    ) -> Result<TurnEnd, AgentError> {
        for round in 0.. {
            if stop.is_stopped() {
                return Ok(TurnEnd::Stopped);
            }
            let calls = match self.reply(round == 0, engine, stop, see)? {
                NextStep::End(end) => return Ok(end),
                NextStep::Calls(calls) => calls,
            };
            if round + 1 >= self.policy.rounds {
                return Ok(TurnEnd::Rounds);
            }
            if begin.elapsed() > self.policy.time {
                return Ok(TurnEnd::Time);
            }
            let results = self.run(&calls, stop, see);
            let is_stopped = stop.is_stopped();
            let messages = results?;
            self.add(&messages)?;
            if is_stopped {
                return Ok(TurnEnd::Stopped);
            }
        }
        Ok(TurnEnd::Rounds)
    }

    /// Lets the model reply once.
    fn reply(
        &mut self,
        is_first: bool,
        engine: &mut dyn Engine,
        stop: &Stop,
        see: &mut dyn FnMut(&AgentEvent<'_>),
    ) -> Result<NextStep, AgentError> {
        let mut session = self.session.clone();
        let delta = session.open()?;
        see(&AgentEvent::Prompt { keep: delta.keep, ids: &delta.ids });
        let context = session.reply_context()?;
        let stops: Vec<u32> = context.stops()?.into_iter().map(|(id, _)| id).collect();
        let grammar = self.grammar(is_first, &context)?;
        let ids = session.ids();
        let sampling = Sampling {
            keep: delta.keep.min(ids.len()),
            ids,
            stop_ids: stops,
            text: String::from_utf8_lossy(&session.bytes()).into_owned(),
            grammar,
            max_tokens: self.policy.max_tokens,
        };
        let mut parser = Some(context.id_parser()?);
        let (mut sampled, mut failed) = (Vec::new(), None);
        let finish = engine.sample(&sampling, stop, &mut |piece| {
            let Some(parser) = parser.as_mut().filter(|_| failed.is_none()) else { return };
            let mut emit = |event: rolecall::Event<'_>| see(&AgentEvent::Reply(event));
            match piece {
                Sampled::Ids(ids) => {
                    if let Err(error) = parser.push_all(ids, &mut emit) {
                        failed = Some(AgentError::from(CoreError::from(error)));
                    }
                    sampled.extend_from_slice(ids);
                }
                Sampled::Text(text) => {
                    parser.push_text(text, &mut emit);
                    let mut tokens = Vec::new();
                    match self.tokenizer.encode_ordinary(text, TextPlace::Inside, &mut tokens) {
                        Ok(()) => sampled.extend(tokens.iter().map(|token| token.id)),
                        Err(error) => failed = Some(AgentError::Engine(EngineError(error.to_string()))),
                    }
                }
                Sampled::Spelled(text) => {
                    parser.push_spelled(text, &mut emit);
                    match session.encode_sampled(text) {
                        Ok(ids) => sampled.extend(ids),
                        Err(error) => failed = Some(error.into()),
                    }
                }
            }
        });
        let finish = finish.map_err(AgentError::Engine)?;
        if let Some(error) = failed {
            return Err(error);
        }
        let why = match finish {
            Finish::Stop => rolecall::Stop::End,
            Finish::Length => rolecall::Stop::Length,
            Finish::Abort => rolecall::Stop::Abort,
        };
        if let Some(parser) = parser.take() {
            parser.finish(why, &mut |event| see(&AgentEvent::Reply(event)));
        }
        let reply = session.accept(&sampled, finish)?;
        self.session = session;
        see(&AgentEvent::Message { ids: &sampled, finish, message: &reply.said });
        let count = reply.said.calls().len();
        let calls: Vec<OwnCall> =
            reply.said.calls().enumerate().map(|(index, call)| own_call(index, count, &call)).collect();
        Ok(match finish {
            Finish::Length => NextStep::End(TurnEnd::Length),
            Finish::Abort => NextStep::End(TurnEnd::Stopped),
            Finish::Stop if calls.is_empty() => NextStep::End(TurnEnd::Answer),
            Finish::Stop => NextStep::Calls(calls),
        })
    }

    /// Returns what the first reply must follow, if the policy asks for a call.
    fn grammar(&self, is_first: bool, context: &rolecall::model::ReplyContext) -> Result<Option<Grammar>, AgentError> {
        if !is_first || matches!(self.policy.choice, ToolChoice::Auto) {
            return Ok(None);
        }
        let options = Options {
            tools: context.tools().to_vec(),
            choice: self.policy.choice.clone(),
            one_call: true,
            ..Options::default()
        };
        Ok(Some(context.grammar(options)?))
    }

    /// Runs calls, and returns the messages of their results, in the order of the calls.
    fn run(
        &mut self,
        calls: &[OwnCall],
        stop: &Stop,
        see: &mut dyn FnMut(&AgentEvent<'_>),
    ) -> Result<Vec<Message>, AgentError> {
        let mut results: Vec<Option<ToolResult>> = Vec::new();
        for call in calls {
            see(&AgentEvent::Call(call));
            // Nobody is asked about what cannot run. The model reads which tools there are.
            let decision = match stop.is_stopped() {
                true => Decision::Refuse("the user stopped".into()),
                false if !self.toolbox.has(call) => Decision::Run,
                false => self.policy.decide(call),
            };
            results.push(match decision {
                Decision::Run => None,
                Decision::Refuse(why) => Some(ToolResult::refused(&why)),
            });
        }
        // Code has a state that one call leaves to the next. Functions run beside each other.
        let parallel = self.policy.parallel.max(1);
        let open: Vec<usize> = (0..calls.len()).filter(|at| results[*at].is_none() && !calls[*at].is_code()).collect();
        for some in open.chunks(parallel) {
            let toolbox = &self.toolbox;
            let ended: Vec<ToolResult> = thread::scope(|scope| {
                let running: Vec<_> = some.iter().map(|at| scope.spawn(|| toolbox.call(&calls[*at], stop))).collect();
                running.into_iter().map(|call| call.join().unwrap_or_else(|_| ToolResult::panicked())).collect()
            });
            for (at, result) in some.iter().zip(ended) {
                results[*at] = Some(result);
            }
        }
        let mut messages = Vec::new();
        for (call, result) in calls.iter().zip(results) {
            let result = match result {
                Some(result) => result,
                None => {
                    self.toolbox.run_code(call, &self.code_result, stop, &mut |output| see(&AgentEvent::Output(output)))
                }
            };
            see(&AgentEvent::Result { call, result: &result });
            messages.push(result_message(call, &result)?);
        }
        Ok(messages)
    }
}

enum NextStep {
    End(TurnEnd),
    Calls(Vec<OwnCall>),
}

fn own_call(index: usize, of: usize, call: &Call<'_>) -> OwnCall {
    let id = call.id().unwrap_or_default().to_owned();
    match call {
        Call::CodeInterpreter { code, .. } => OwnCall { index, of, id, name: None, input: (*code).to_owned() },
        Call::Function { name, arguments, .. } => {
            let input = match arguments {
                Arguments::Text(text) => (*text).to_owned(),
                Arguments::Value(object) => json::write(&Json::Object((*object).clone()), &json::Layout::compact()),
                Arguments::None => "{}".to_owned(),
            };
            OwnCall { index, of, id, name: Some((*name).to_owned()), input }
        }
    }
}

fn result_message(call: &OwnCall, result: &ToolResult) -> Result<Message, AgentError> {
    let mut message = object! { "role" => "tool", "content" => result.text.clone() };
    if !call.id.is_empty() {
        message.insert("tool_call_id", call.id.clone().into());
    }
    if let Some(name) = &call.name {
        message.insert("name", name.clone().into());
    }
    Ok(Message::from_object(message).map_err(|error| CoreError::from(rolecall::request::Error::from(error)))?)
}
