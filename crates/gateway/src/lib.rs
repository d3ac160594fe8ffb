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
//! A request passes through these modules: `http` checks the key and the page that it comes from (`sites`),
//! and `routes` finds the API, which reads what is `wanted`. `exchange` answers it: `sessions` finds the conversation so far, `turn`
//! renders and encodes what is new, `engine` speaks with the engine, `reply` parses the sampled ids, and
//! the API's `writer` writes the answer. Every error is a [`Fault`]. `observe` sees all of it, for the log,
//! metrics and traces.

mod answer_form;
mod by_text;
mod characters;
mod chat_request;
mod check;
mod clock;
mod closing;
mod completing;
mod config;
mod context;
mod dry;
pub mod engine;
mod exchange;
mod fault;
mod gateway;
mod http;
mod ignored_grammar;
mod keys;
mod labels;
mod left_out;
mod media;
mod number;
mod observe;
mod open_fault;
mod pending_logprobs;
mod places;
mod reader;
mod ready;
mod replies;
mod reply;
mod resend;
mod routes;
mod run;
mod running;
mod sampling;
mod schema_limits;
mod served_model;
mod server;
mod sessions;
pub mod settings;
mod sites;
mod spread;
mod stop_texts;
mod store;
mod support_cache;
mod texts;
mod token_odds;
mod turn;
mod unread;
mod unread_tools;
mod usage;
mod work;
mod writer;

pub use check::{ModelReport, Report, check};
pub use config::{Config, Limits, ModelConfig};
pub use fault::Fault;
pub use gateway::Gateway;
pub use keys::{KeyFault, Keys};
pub use observe::{Log, Telling, Traces};
pub use open_fault::OpenFault;
pub use run::{RunFault, run};
pub use server::{ServerEnd, serve};
pub use settings::{SettingFault, Settings, Sources};
pub use sites::Sites;
pub use store::{Bounds, Owner, Store, StoreConfig, StoreFault, StoredTurn, TurnId};
