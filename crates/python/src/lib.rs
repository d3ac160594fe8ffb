//! The native part of the Python package `rolecall`. It converts between Python and the facade crate,
//! and has no logic of its own.
//!
//! Arguments come in through [`input`], results go out through [`output`], and errors through
//! [`error`], as exceptions of `rolecall.errors`. Each class has a file.

mod attributed;
mod caller;
mod chat;
mod code;
mod cut;
mod data;
mod delta;
mod difference;
mod encoded;
mod engine;
mod error;
mod explanation;
mod format;
mod framework_prompt;
mod framework_template;
mod function;
mod grammar;
mod input;
mod interpreter;
mod loss;
mod model;
mod once;
mod opening;
mod output;
mod parser;
mod plan;
mod policies;
mod prompt;
mod reasoning;
mod registry;
mod reply;
mod request;
mod rollout;
mod run;
mod session;
mod switches;
mod template;
mod tokenizer;

use pyo3::prelude::*;

/// The module `rolecall._rolecall`.
#[pymodule]
fn _rolecall(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    error::adopt_panics(module.py())?;
    framework_template::add(module)?;
    module.add_class::<data::Columns>()?;
    module.add_function(wrap_pyfunction!(data::encode_rows, module)?)?;
    module.add_function(wrap_pyfunction!(chat::apply_chat_template, module)?)?;
    module.add_class::<model::Model>()?;
    module.add_class::<prompt::Prompt>()?;
    module.add_class::<encoded::Encoded>()?;
    module.add_class::<explanation::Explanation>()?;
    module.add_class::<parser::OutputParser>()?;
    module.add_class::<reasoning::ReasoningSplit>()?;
    module.add_class::<grammar::Grammar>()?;
    module.add_class::<attributed::AttributedIds>()?;
    module.add_class::<session::Session>()?;
    module.add_class::<plan::Plan>()?;
    module.add_class::<delta::Delta>()?;
    module.add_class::<reply::Reply>()?;
    module.add_class::<cut::Cut>()?;
    module.add_class::<difference::Difference>()?;
    module.add_class::<rollout::Rollout>()?;
    module.add_class::<run::RunResult>()?;
    module.add_class::<interpreter::Interpreter>()?;
    module.add_class::<format::Format>()?;
    module.add_class::<registry::Registry>()?;
    module.add_class::<template::ChatTemplate>()?;
    module.add_class::<tokenizer::Tokenizer>()
}
