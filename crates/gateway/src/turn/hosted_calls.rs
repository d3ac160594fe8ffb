use std::collections::VecDeque;
use std::sync::Arc;

use rolecall::conversation::{Message, object};
use rolecall::parse::ParsedCall;
use rolecall::{Model, Reading};
use rolecall_interpreter::Stop;
use tokio::task::JoinHandle;

use crate::clock::random;
use crate::containers::{Container, Ran};
use crate::gateway::Gateway;
use crate::request::chat_request::{ChatRequest, Past};
use crate::store::Owner;
use crate::{Fault, FaultCode};

/// The code of a request that runs here, call by call.
pub struct CodeRuns {
    pub container: Arc<Container>,
    /// The name of the turn whose calls are run.
    pub name: String,
    /// The most ids of all replies together.
    pub most_ids: Option<u64>,
    /// The calls that are still to be run, each with its id.
    calls: VecDeque<(String, String)>,
    running: Option<(String, JoinHandle<Ran>)>,
    results: Vec<Message>,
    rounds: usize,
    stop: Stop,
}

/// The most replies that call code, for one request.
const MOST_ROUNDS: usize = 32;

impl CodeRuns {
    /// Opens the container of a request, if it asks for one and there may be any.
    pub async fn begin(gateway: &Gateway, owner: Owner, wanted: &ChatRequest) -> Result<Option<CodeRuns>, Fault> {
        let (Some(choice), Some(containers)) = (wanted.container.clone(), gateway.containers.clone()) else {
            return Ok(None);
        };
        let answer = match &wanted.past {
            Past::Known(name) => Some(name.clone()),
            _ => None,
        };
        let opened = tokio::task::spawn_blocking(move || containers.choose(owner, &choice, answer.as_deref())).await;
        let container = opened.unwrap_or_else(|error| Err(broken(&error)))?;
        let (calls, results) = (VecDeque::new(), Vec::new());
        let (most_ids, stop, name) = (wanted.sampling.max_tokens, Stop::default(), String::new());
        Ok(Some(CodeRuns { container, name, most_ids, calls, running: None, results, rounds: 0, stop }))
    }

    /// Takes the calls of a reply. Returns false if they are not all code, or if there are none: then the answer is there.
    pub fn take(&mut self, reading: &Reading) -> bool {
        let code = |call: &ParsedCall| match call {
            ParsedCall::Code { id, code, whole: true } => Some((id.clone(), code.clone())),
            _ => None,
        };
        let Some(calls) = reading.calls.iter().map(code).collect::<Option<VecDeque<_>>>() else { return false };
        if calls.is_empty() || self.rounds == MOST_ROUNDS {
            return false;
        }
        self.rounds += 1;
        self.calls = calls;
        self.name = format!("round:{:016x}{:016x}", random(), random());
        true
    }

    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Starts the next call, if there is one.
    pub fn start_next(&mut self, model: &Model) -> bool {
        let Some((id, code)) = self.calls.pop_front() else { return false };
        let code_result = model.format().map(|format| format.code_result.clone()).unwrap_or_default();
        let (container, stop) = (Arc::clone(&self.container), self.stop.clone());
        self.running = Some((id, tokio::task::spawn_blocking(move || container.run(&code, &stop, &code_result))));
        true
    }

    /// Waits for the end of the call that runs. Nothing is lost if this is dropped while it waits.
    pub async fn ran(&mut self) -> Result<Ran, Fault> {
        let Some((id, running)) = &mut self.running else { return Err(broken(&"nothing runs")) };
        let ran = running.await.map_err(|error| broken(&error))?;
        let message = object! { "role" => "tool", "tool_call_id" => id.as_str(), "content" => ran.text.as_str() };
        self.results.push(Message::from_object(message).map_err(|error| broken(&error))?);
        self.running = None;
        Ok(ran)
    }

    /// Returns the name of the turn and the results of its calls, once all have run.
    pub fn take_results(&mut self) -> Option<(String, Vec<Message>)> {
        (!self.results.is_empty()).then(|| (self.name.clone(), std::mem::take(&mut self.results)))
    }

    /// Stops the call that runs.
    pub fn stop(&self) {
        self.stop.stop();
    }

    /// Notes that the answer of these names has the container.
    pub fn remember(&self, gateway: &Gateway, owner: Owner, names: &[String]) {
        if let Some(containers) = &gateway.containers {
            names.iter().for_each(|name| containers.remember(owner, name, &self.container.id));
        }
    }
}

impl Drop for CodeRuns {
    /// A client that leaves ends what runs for it.
    fn drop(&mut self) {
        self.stop.stop();
    }
}

fn broken(error: &dyn std::fmt::Display) -> Fault {
    Fault::new(FaultCode::InterpreterFailed, format!("the code could not be run: {error}"))
}
