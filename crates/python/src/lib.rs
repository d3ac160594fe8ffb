//! The native part of the Python package `rolecall`. It converts between Python and the facade crate,
//! and has no logic of its own.
//!
//! Arguments come in through [`input`], results go out through [`output`], and errors through
//! [`error`], as exceptions of `rolecall.errors`. Each class has a file.

mod data;
mod encoded;
mod error;
mod explanation;
mod framework_prompt;
mod framework_template;
mod grammar;
mod input;
mod model;
mod opening;
mod output;
mod parser;
mod policies;
mod prompt;
mod reasoning;

use pyo3::prelude::*;

/// The module `rolecall._rolecall`.
#[pymodule]
fn _rolecall(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    framework_template::add(module)?;
    module.add_class::<data::Columns>()?;
    module.add_function(wrap_pyfunction!(data::encode_rows, module)?)?;
    module.add_class::<model::Model>()?;
    module.add_class::<prompt::Prompt>()?;
    module.add_class::<encoded::Encoded>()?;
    module.add_class::<explanation::Explanation>()?;
    module.add_class::<parser::OutputParser>()?;
    module.add_class::<reasoning::ReasoningSplit>()?;
    module.add_class::<grammar::Grammar>()
}
