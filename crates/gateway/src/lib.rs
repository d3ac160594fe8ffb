//! OpenAI's API in front of any inference engine, by token ids.
//!
//! The gateway renders a conversation to the ids that the model was trained on, sends these to an
//! engine, and parses the ids that the engine samples. The engine's own chat template and parsers are
//! not used, so all engines give the same prompts and read the same calls, and no message can forge a
//! control token.
//!
//! # Overview
//!
//! 1. [`Config`] has the models, each with its engine, and the limits.
//! 2. [`Gateway::open`] checks it.
//! 3. [`serve`] answers requests on a listener until it is told to stop.
//!
//! The command does this with [`Settings`], which it reads from a file, environment variables and flags,
//! and [`run`], which also handles signals.
//!
//! A request passes through these rooms: `http` checks the key and the page that it comes from, and `api` finds the
//! API, which reads a `request`. `turn` answers it: its sessions find the conversation so far, and what is new is rendered
//! and encoded. `engine` speaks with the engine, `reply` parses the sampled ids, and
//! the API's `writer` writes the answer. Every error is a [`Fault`]. `observe` sees all of it, for the log,
//! metrics and traces. `store` keeps conversations, `containers` run the code of models, `mcp_servers` have the tools
//! that the operator offers, `template_process` runs templates that are code, and `settings` says with what all of this
//! is started.

mod api;
mod clock;
mod containers;
pub mod engine;
mod fault;
mod fault_code;
mod gateway;
mod http;
mod mcp_servers;
mod observe;
mod open_fault;
mod reply;
mod request;
mod served_model;
pub mod settings;
mod store;
mod template_process;
mod turn;
mod work;

pub use containers::ContainerConfig;
pub use fault::Fault;
pub use fault_code::FaultCode;
pub use gateway::Gateway;
pub use http::keys::{KeyFault, Keys};
pub use http::run::{RunFault, run};
pub use http::server::{ServerEnd, serve};
pub use http::sites::Sites;
pub use observe::{Log, Telling, Traces};
pub use open_fault::OpenFault;
pub use settings::check::{ModelReport, Report, check};
pub use settings::config::{Config, Limits, ModelConfig};
pub use settings::{SettingFault, Settings, Sources};
pub use store::{Bounds, Owner, Store, StoreConfig, StoreFault, StoredTurn, TurnId};
pub use template_process::TemplateProcess;
