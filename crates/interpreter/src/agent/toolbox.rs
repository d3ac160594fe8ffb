use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rolecall::conversation::{Json, json, object};
use rolecall::format::CodeResult;

use super::OwnCall;
use crate::{CodeOutput, Error, Execution, Folder, Interpreter, Stop};

/// A function that a model can call.
pub trait Callable: Send + Sync {
    /// Returns its name.
    fn name(&self) -> &str;

    /// Returns its definition, in OpenAI's form.
    fn definition(&self) -> Json;

    /// Runs it, with its arguments as JSON text of an object. It is called from several threads at once if the model
    /// makes several calls.
    fn call(&self, arguments: &str, stop: &Stop) -> Result<String, ToolError>;
}

/// Why a call of a function failed. The model reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolError {
    /// A stable code.
    pub code: &'static str,
    /// What happened.
    pub message: String,
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ToolError {}

/// What became of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolResult {
    /// What the model reads.
    pub text: String,
    /// The names of the pictures, in the folder of the session.
    pub pictures: Vec<String>,
    /// The code of the error, if it failed.
    pub error: Option<&'static str>,
}

/// What an agent can call.
#[derive(Default)]
pub struct Toolbox {
    functions: Vec<Arc<dyn Callable>>,
    interpreter: Option<Box<dyn Interpreter>>,
    /// What was recorded, if nothing is run: the results of calls, by their names and inputs.
    recorded: Option<Mutex<VecDeque<(OwnCall, ToolResult)>>>,
    /// Whether code is offered.
    offers_code: bool,
}

impl Toolbox {
    /// Returns the toolbox with a function. Of two with one name, the last is called.
    #[must_use]
    pub fn with(mut self, function: Arc<dyn Callable>) -> Toolbox {
        self.functions.retain(|other| other.name() != function.name());
        self.functions.push(function);
        self
    }

    /// Returns the toolbox with a code interpreter.
    #[must_use]
    pub fn with_interpreter(mut self, interpreter: Box<dyn Interpreter>) -> Toolbox {
        self.interpreter = Some(interpreter);
        self.offers_code = true;
        self
    }

    /// Returns the toolbox with a code interpreter that only a [`Replay`](super::Replay) answers for.
    #[must_use]
    pub fn offering_code(mut self) -> Toolbox {
        self.offers_code = true;
        self
    }

    /// Returns the toolbox, in which nothing runs any more: each call is answered as it was recorded.
    #[must_use]
    pub(super) fn replaying(mut self, results: VecDeque<(OwnCall, ToolResult)>) -> Toolbox {
        self.interpreter = None;
        self.recorded = Some(Mutex::new(results));
        self
    }

    /// Returns the names of the functions.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.functions.iter().map(|function| function.name())
    }

    pub(super) fn folder(&self) -> Option<Folder> {
        self.interpreter.as_ref().map(|interpreter| interpreter.folder().clone())
    }

    /// Returns the definitions of all tools.
    pub fn definitions(&self) -> Vec<Json> {
        let code = self.offers_code.then(|| object! { "type" => "code_interpreter" }.into());
        self.functions.iter().map(|function| function.definition()).chain(code).collect()
    }

    /// Reports whether a call can be run or answered.
    pub(super) fn has(&self, call: &OwnCall) -> bool {
        match &call.name {
            _ if self.recorded.is_some() => true,
            Some(name) => self.names().any(|known| known == name),
            None => self.interpreter.is_some(),
        }
    }

    /// Calls a function.
    pub(super) fn call(&self, call: &OwnCall, stop: &Stop) -> ToolResult {
        if let Some(result) = self.replayed(call) {
            return result;
        }
        let Some(function) = self.functions.iter().find(|function| function.name() == call.name()) else {
            let names: Vec<&str> = self.names().collect();
            let known =
                if names.is_empty() { "there are none".to_owned() } else { format!("there are: {}", names.join(", ")) };
            return ToolResult::failed("unknown_tool", &format!("there is no tool `{}`; {known}", call.name()));
        };
        match json::parse(&call.input) {
            Ok(Json::Object(_)) => {}
            Ok(other) => {
                return ToolResult::failed("arguments", &format!("the arguments are {}, not an object", other.kind()));
            }
            Err(error) => return ToolResult::failed("arguments", &format!("the arguments are not JSON: {error}")),
        }
        match function.call(&call.input, stop) {
            Ok(text) => ToolResult { text, ..ToolResult::default() },
            Err(error) => ToolResult::failed(error.code, &error.message),
        }
    }

    /// Runs code.
    pub(super) fn run_code(
        &mut self,
        call: &OwnCall,
        code_result: &CodeResult,
        stop: &Stop,
        show: &mut dyn FnMut(&CodeOutput),
    ) -> ToolResult {
        if let Some(result) = self.replayed(call) {
            return result;
        }
        let Some(interpreter) = &mut self.interpreter else {
            return ToolResult::failed("unknown_tool", "there is no code interpreter");
        };
        ToolResult::of_code(interpreter.run(&call.input, stop, show), code_result)
    }

    /// Returns what was recorded for a call, if this is a replay. The first of equal calls comes first.
    fn replayed(&self, call: &OwnCall) -> Option<ToolResult> {
        let mut recorded = self.recorded.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        let at = recorded.iter().position(|(other, _)| other.name == call.name && other.input == call.input);
        let result = at.and_then(|at| recorded.remove(at)).map(|(_, result)| result);
        Some(
            result.unwrap_or_else(|| {
                ToolResult::failed("not_recorded", &Error::NotRecorded(call.input.clone()).to_string())
            }),
        )
    }
}

impl fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.names().collect();
        f.debug_struct("Toolbox")
            .field("functions", &names)
            .field("offers_code", &self.offers_code)
            .finish_non_exhaustive()
    }
}

impl ToolResult {
    /// Returns what a model reads of code that was run, or of why it was not.
    pub fn of_code(run: Result<Execution, Error>, code_result: &CodeResult) -> ToolResult {
        match run {
            Ok(execution) => ToolResult {
                text: code_result.whole(&execution.text(|name| code_result.picture(&Folder::path_within(name)))),
                pictures: execution.pictures().map(str::to_owned).collect(),
                error: None,
            },
            Err(error) => {
                let failed = ToolResult::failed(error.code(), &error.to_string());
                ToolResult { text: code_result.whole(&failed.text), ..failed }
            }
        }
    }

    /// Returns the result of a call that failed. The model reads why.
    pub fn failed(code: &'static str, message: &str) -> ToolResult {
        ToolResult { text: format!("error: {message}"), pictures: Vec::new(), error: Some(code) }
    }

    /// Returns the result of a call that somebody refused. The model reads why.
    pub fn refused(why: &str) -> ToolResult {
        ToolResult::failed("refused", &format!("this call was refused: {why}"))
    }

    pub(super) fn panicked() -> ToolResult {
        ToolResult::failed("tool_panicked", "the tool failed in a way that it should not")
    }
}
