use std::time::Duration;

use rolecall::Model;
use rolecall::session::OnRewrite;
use rolecall_interpreter::agent::Mcp;

use crate::containers::ContainerConfig;
use crate::engine::{EngineKind, LocalOptions};
use crate::http::keys::Keys;
use crate::http::sites::Sites;
use crate::observe::Telling;
use crate::store::StoreConfig;

/// What a gateway serves.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The models. Requests choose one by its name; a request without a name gets the first.
    pub models: Vec<ModelConfig>,
    /// The API keys. Without any, everybody may use the gateway.
    pub keys: Keys,
    /// Which pages in browsers may use the gateway.
    pub sites: Sites,
    /// What requests may need.
    pub limits: Limits,
    /// Where conversations are kept.
    pub store: StoreConfig,
    /// How engines are started whose address is `local:FILE.gguf`.
    pub local: LocalOptions,
    /// Whether the code of models runs here, and how.
    pub containers: ContainerConfig,
    /// The MCP servers whose tools run here, by the names that requests have.
    pub servers: Vec<Mcp>,
    /// Where the gateway tells what it does.
    pub telling: Telling,
}

/// A model with its engine.
#[derive(Clone, Debug)]
pub struct ModelConfig {
    /// The name in requests.
    pub name: String,
    /// The model, with a tokenizer.
    pub model: Model,
    /// The engine's address: `http://host:port`, or `local:FILE.gguf` for one that is started.
    pub engine: String,
    /// Which engine it is.
    pub kind: EngineKind,
    /// The engine's name for the model, if it serves several.
    pub engine_model: Option<String>,
    /// What to do if the model's template rewrites what was sent in earlier turns, unless a request says
    /// otherwise. [`OnRewrite::Rewrite`] gives the prompts that the model was trained on.
    pub on_rewrite: OnRewrite,
}

/// The limits of a gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most connections at the same time. More wait.
    pub connections: usize,
    /// The most bytes of a request's head.
    pub head_bytes: usize,
    /// How long a request's head may take to arrive, and how long a connection may be without a request.
    pub head: Duration,
    /// The most bytes of a request.
    pub body_bytes: usize,
    /// How long a request may take to arrive.
    pub body: Duration,
    /// The most messages of a request.
    pub messages: usize,
    /// The most ids of a prompt.
    pub prompt_ids: usize,
    /// The most requests at the same time. More get the status 429.
    pub requests: usize,
    /// How long the engine may take until its first id.
    pub first_id: Duration,
    /// How long the engine may pause between ids.
    pub next_id: Duration,
    /// The most ids of all conversations in memory; four bytes of text count as one. What is not in memory is
    /// read from the store.
    pub live_ids: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 8192,
            head_bytes: 64 << 10,
            head: Duration::from_secs(30),
            body_bytes: 8 << 20,
            body: Duration::from_secs(30),
            messages: 10_000,
            prompt_ids: 1 << 20,
            requests: 4096,
            first_id: Duration::from_secs(600),
            next_id: Duration::from_secs(60),
            live_ids: 16 << 20,
        }
    }
}
