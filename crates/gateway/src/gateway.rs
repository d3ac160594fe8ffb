use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rolecall::conversation::{Json, object};
use rolecall::session::OnRewrite;
use rolecall::{Model, Request};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::closing::Closing;
use crate::engine::{Engine, EngineKind, LocalOptions};
use crate::left_out::Whole;
use crate::observe::{Observer, RequestLog};
use crate::ready::Ready;
use crate::running::Running;
use crate::sessions::Sessions;
use crate::sites::Sites;
use crate::store::{Store, StoreFault};
use crate::texts::Texts;
use crate::{Config, Fault, Keys, Limits, ModelConfig};

/// The place of a request among those at the same time, and what is seen of it.
#[derive(Debug)]
pub(crate) struct Permit {
    pub seen: RequestLog,
    _place: OwnedSemaphorePermit,
}

/// The models that are served, with their engines.
#[derive(Debug)]
pub struct Gateway {
    models: Vec<Arc<ServedModel>>,
    pub(crate) keys: Keys,
    pub(crate) sites: Sites,
    pub(crate) limits: Limits,
    pub(crate) sessions: Sessions,
    pub(crate) observer: Arc<Observer>,
    pub(crate) ready: Ready,
    pub(crate) closing: Closing,
    pub(crate) running: Running,
    slots: Arc<Semaphore>,
}

/// A model that is served.
#[derive(Debug)]
pub(crate) struct ServedModel {
    pub name: String,
    pub model: Model,
    pub engine: Engine,
    pub engine_model: Option<String>,
    pub on_rewrite: OnRewrite,
    pub created: i64,
    /// The texts that end a reply and are no tokens of the tokenizer.
    pub stop_texts: Vec<String>,
    pub texts: Texts,
    pub whole: Whole,
}

/// Why a gateway cannot be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenFault {
    /// No model is configured.
    NoModels,
    /// Two models have the same name.
    SameName(String),
    /// A model cannot be served, for example without a tokenizer.
    Model {
        /// Its name.
        name: String,
        /// What is wrong.
        why: String,
    },
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
            OpenFault::Model { name, why } => write!(formatter, "the model `{name}` cannot be served: {why}"),
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
            OpenFault::Store(fault) => fault.code(),
            OpenFault::Engine { .. } => "unusable_engine",
        }
    }

    /// Returns what to do about it.
    pub fn help(&self) -> Option<&'static str> {
        match self {
            OpenFault::Store(fault) => Some(fault.help()),
            _ => None,
        }
    }
}

impl Gateway {
    /// Loads the tokenizers of all models, and opens the store. It does not connect to the engines.
    pub async fn open(config: Config) -> Result<Gateway, OpenFault> {
        let mut models: Vec<Arc<ServedModel>> = Vec::new();
        for wanted in &config.models {
            if models.iter().any(|known| known.name == wanted.name) {
                return Err(OpenFault::SameName(wanted.name.clone()));
            }
            models.push(Arc::new(ServedModel::open(wanted, &config.local, &config.limits)?));
        }
        if models.is_empty() {
            return Err(OpenFault::NoModels);
        }
        let slots = Arc::new(Semaphore::new(config.limits.requests.min(Semaphore::MAX_PERMITS)));
        let store = Store::open(&config.store).await.map_err(OpenFault::Store)?;
        let sessions = Sessions::new(store, config.limits.live_ids, config.store.most_age());
        let observer = Arc::new(Observer::new(&config.telling));
        let (keys, sites, limits) = (config.keys, config.sites, config.limits);
        let (ready, closing) = (Ready::default(), Closing::default());
        let running = Running::default();
        Ok(Gateway { models, keys, sites, limits, sessions, observer, ready, closing, running, slots })
    }

    /// Returns the models.
    pub(crate) fn models(&self) -> &[Arc<ServedModel>] {
        &self.models
    }

    /// Returns the model of a request.
    pub(crate) fn model(&self, name: Option<&Json>) -> Result<&Arc<ServedModel>, Fault> {
        let name = match name {
            None | Some(Json::Null) => None,
            Some(Json::String(name)) => Some(name),
            Some(_) => return Err(Fault::at("model", "wrong_type", "model: expected a text")),
        };
        let Some(name) = name else {
            return self.models.first().ok_or_else(|| Fault::new(500, "no_models", "no model is configured"));
        };
        let found = self.models.iter().find(|model| model.name == *name);
        found.ok_or_else(|| {
            let names: Vec<&str> = self.models.iter().map(|model| model.name.as_str()).collect();
            let help = Some(format!("use one of: {}", names.join(", ")).into());
            Fault { status: 404, help, ..Fault::at("model", "model_not_found", format!("there is no model `{name}`")) }
        })
    }

    /// Returns whether the gateway lives. Without an engine that it has to start and cannot, it must be started again.
    pub(crate) fn health(&self) -> Result<Json, Fault> {
        let lost = self.models.iter().find(|served| served.engine.loss().is_some());
        match lost {
            None => Ok(object! { "status" => "ok" }.into()),
            Some(served) => {
                let message = format!("the engine of `{}` has ended, and is not started again", served.name);
                let help = Some("restart the gateway; its log has the engine's last output".into());
                Err(Fault { help, ..Fault::new(503, "engine_died", message) })
            }
        }
    }

    /// Returns what is not as safe as it could be, each with the name of its model.
    pub fn warnings(&self) -> Vec<String> {
        let warning = |served: &Arc<ServedModel>| Some(format!("{}: {}", served.name, served.engine.warning()?));
        self.models.iter().filter_map(warning).collect()
    }

    /// Takes the place of one request.
    pub(crate) fn enter(&self, seen: &RequestLog) -> Result<Permit, Fault> {
        let place = Arc::clone(&self.slots).try_acquire_owned().map_err(|_| {
            let busy = Fault::new(429, "too_many_requests", "the gateway is at its limit of requests");
            Fault { retry_after: Some(1), ..busy }
        })?;
        Ok(Permit { seen: seen.clone(), _place: place })
    }
}

impl ServedModel {
    fn open(wanted: &ModelConfig, local: &LocalOptions, limits: &Limits) -> Result<ServedModel, OpenFault> {
        let name = &wanted.name;
        let wrong = |why: String| OpenFault::Model { name: name.clone(), why };
        let model = wanted.model.clone();
        model.decoder().map_err(|error| wrong(error.to_string()))?;
        // A prompt tells whether the format is that of the tokenizer.
        let trial = Request::from_text(r#"{"messages": [{"role": "user", "content": "a"}]}"#);
        if let Some(Err(error)) = trial.ok().and_then(|trial| Some(model.prompt(trial).ok()?.encode())) {
            return Err(wrong(error.to_string()));
        }
        let engine = match (wanted.engine.strip_prefix("local:"), wanted.kind) {
            (Some(_), EngineKind::LlamaCpp) if wanted.engine_model.is_some() => Err(format!(
                "{}: an engine that is started has one model, so `engine_model` must be left out",
                wanted.engine
            )),
            (Some(file), EngineKind::LlamaCpp) => Engine::local(file.as_ref(), local, limits),
            (Some(_), _) => Err(format!("{}: only llama.cpp's server can be started", wanted.engine)),
            (None, kind) => Engine::new(kind, &wanted.engine, limits),
        };
        let engine = engine.map_err(|why| OpenFault::Engine { name: name.clone(), why })?;
        let engine = engine.knowing(model.tokenizer().map_err(|error| wrong(error.to_string()))?);
        let engine_model = wanted.engine_model.clone();
        let stops = model.stops().map_err(|error| wrong(error.to_string()))?;
        let stops = stops.into_iter().filter(|stop| stop.id.is_none() && !stop.text.is_empty());
        Ok(ServedModel {
            name: name.clone(),
            model,
            engine,
            engine_model,
            on_rewrite: wanted.on_rewrite,
            created: now(),
            stop_texts: stops.map(|stop| stop.text).collect(),
            texts: Texts::default(),
            whole: Whole::default(),
        })
    }
}

/// Returns the seconds since 1970.
pub(crate) fn now() -> i64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(elapsed.as_secs()).unwrap_or(i64::MAX)
}

/// Returns a random number.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
