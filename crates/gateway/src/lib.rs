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
//! A request passes through these modules: `http` finds the handler and checks the key, `chat` reads the
//! request, `sampling` its settings, `turn` renders and encodes, `engine` speaks with the engine, and
//! `reply` turns the sampled ids into the answer. Every error is a [`Fault`].

mod chat;
mod config;
pub mod engine;
mod fault;
mod gateway;
mod http;
mod keys;
mod number;
mod reply;
mod sampling;
mod stop_texts;
mod tokens;
mod turn;

pub use config::{Config, Limits, ModelConfig};
pub use fault::Fault;
pub use gateway::{Gateway, OpenFault};
pub use http::serve;
pub use keys::Keys;
