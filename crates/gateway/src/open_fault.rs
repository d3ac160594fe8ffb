use std::fmt;

use crate::store::StoreFault;

/// Why a gateway cannot be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenFault {
    /// No model is configured.
    NoModels,
    /// Two models have the same name.
    SameName(String),
    /// Two MCP servers have the same name.
    SameServer(String),
    /// A model cannot be served, for example without a tokenizer.
    Model {
        /// Its name.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// Code of models cannot be run, but shall be.
    Interpreter(String),
    /// The store of conversations cannot be used.
    Store(StoreFault),
    /// An engine's address cannot be used.
    Engine {
        /// The name of its model.
        name: String,
        /// What is wrong.
        why: String,
    },
}

impl fmt::Display for OpenFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenFault::NoModels => write!(formatter, "no model is configured"),
            OpenFault::SameName(name) => write!(formatter, "two models have the name `{name}`"),
            OpenFault::SameServer(name) => write!(formatter, "two MCP servers have the name `{name}`"),
            OpenFault::Model { name, why } => write!(formatter, "the model `{name}` cannot be served: {why}"),
            OpenFault::Interpreter(why) => write!(formatter, "the code of models cannot be run: {why}"),
            OpenFault::Store(fault) => fault.fmt(formatter),
            OpenFault::Engine { name, why } => write!(formatter, "the engine of `{name}` cannot be used: {why}"),
        }
    }
}

impl std::error::Error for OpenFault {}

impl OpenFault {
    /// Returns a stable name for what is wrong.
    pub fn code(&self) -> &'static str {
        match self {
            OpenFault::NoModels => "no_models",
            OpenFault::SameName(_) | OpenFault::Model { .. } => "unusable_model",
            OpenFault::SameServer(_) => "unusable_tools",
            OpenFault::Interpreter(_) => "unusable_interpreter",
            OpenFault::Store(fault) => fault.code(),
            OpenFault::Engine { .. } => "unusable_engine",
        }
    }

    /// Returns what to do about it.
    pub fn help(&self) -> Option<&'static str> {
        match self {
            OpenFault::Interpreter(_) => Some("`rolecall interpreter --check` says what is missing"),
            OpenFault::Store(fault) => Some(fault.help()),
            _ => None,
        }
    }
}
