use std::sync::Arc;

use pyo3::prelude::*;
use rolecall::conversation::Json;
use rolecall_interpreter::Stop;
use rolecall_interpreter::agent::{Callable, ToolError};

use crate::caller::Caller;
use crate::input::{self, Path};

/// A Python function that a model can call.
pub struct Function {
    name: String,
    definition: Json,
    call: Arc<Py<PyAny>>,
}

impl Function {
    /// Reads the tools of a caller.
    pub fn read_all(py: Python<'_>, tools: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<Function>> {
        let Some(tools) = tools else { return Ok(Vec::new()) };
        let read = module(py)?.getattr("read_tools")?.call1((tools,))?;
        let functions = read.try_iter()?.map(|read| {
            let (name, definition, call): (String, Bound<'_, PyAny>, Py<PyAny>) = read?.extract()?;
            let definition = input::json(&definition, &mut Path::of("tools"))?;
            Ok(Function { name, definition, call: Arc::new(call) })
        });
        functions.collect()
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns what calls the function: in the thread of the caller, or in any thread.
    pub fn callable(self, caller: Caller, is_here: bool) -> Arc<dyn Callable> {
        Arc::new(FunctionCall { function: self, caller, is_here })
    }
}

fn module(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    py.import("rolecall._functions")
}

/// Calls a function, and returns whether it worked and what the model reads.
fn call(py: Python<'_>, function: &Py<PyAny>, arguments: &str) -> PyResult<(bool, String)> {
    module(py)?.getattr("call")?.call1((function, arguments))?.extract()
}

struct FunctionCall {
    function: Function,
    caller: Caller,
    is_here: bool,
}

impl Callable for FunctionCall {
    fn name(&self) -> &str {
        &self.function.name
    }

    fn definition(&self) -> Json {
        self.function.definition.clone()
    }

    fn call(&self, arguments: &str, _: &Stop) -> Result<String, ToolError> {
        let done = match self.is_here {
            true => {
                let (function, arguments) = (Arc::clone(&self.function.call), arguments.to_owned());
                self.caller.ask(move |py| call(py, &function, &arguments))
            }
            false => match Python::attach(|py| call(py, &self.function.call, arguments)) {
                Ok(done) => Some(done),
                // What is no error of the function, such as `SystemExit`, ends everything.
                Err(error) => {
                    self.caller.tell(move |_| Err(error));
                    None
                }
            },
        };
        match done {
            Some((true, text)) => Ok(text),
            Some((false, message)) => Err(ToolError { code: "tool_failed", message }),
            None => Err(ToolError { code: "stopped", message: "the user stopped it".into() }),
        }
    }
}
