use std::sync::Arc;

use rolecall::conversation::{Json, object};
use rolecall::template::ModelTemplates;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::containers::Containers;
use crate::http::closing::Closing;
use crate::http::ready::Ready;
use crate::http::sites::Sites;
use crate::mcp_servers::McpServers;
use crate::observe::{Observer, RequestLog};
use crate::served_model::ServedModel;
use crate::store::Store;
use crate::turn::running::Running;
use crate::turn::sessions::Sessions;
use crate::turn::used_approvals::UsedApprovals;
use crate::work::AT_ONCE;
use crate::{Config, Fault, FaultCode, Keys, Limits, OpenFault};

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
    pub(crate) containers: Option<Arc<Containers>>,
    pub(crate) servers: McpServers,
    pub(crate) used_approvals: UsedApprovals,
    slots: Arc<Semaphore>,
    /// Whether a template is code.
    has_code: bool,
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
        let containers = tokio::task::spawn_blocking(move || Containers::open(&config.containers)).await;
        let containers = containers.map_err(|error| OpenFault::Interpreter(error.to_string()))??.map(Arc::new);
        if let Some(containers) = &containers {
            containers.watch();
        }
        let servers = McpServers::new(config.servers)?;
        let has_code = models.iter().any(|served| served.model.templates().is_some_and(ModelTemplates::are_code));
        Ok(Gateway {
            has_code,
            models,
            keys,
            sites,
            limits,
            sessions,
            observer,
            ready,
            closing,
            running,
            containers,
            servers,
            used_approvals: UsedApprovals::default(),
            slots,
        })
    }

    /// Returns the size of work on a request. Templates that are code take as long as they like, so nothing that renders
    /// is short.
    pub(crate) fn size_of_work(&self, size: usize) -> usize {
        if self.has_code { size.max(AT_ONCE + 1) } else { size }
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
            Some(_) => return Err(Fault::at("model", FaultCode::WrongType, "model: expected a text")),
        };
        let Some(name) = name else {
            return self.models.first().ok_or_else(|| Fault::new(FaultCode::NoModels, "no model is configured"));
        };
        let found = self.models.iter().find(|model| model.name == *name);
        found.ok_or_else(|| {
            let names: Vec<&str> = self.models.iter().map(|model| model.name.as_str()).collect();
            let help = Some(format!("use one of: {}", names.join(", ")).into());
            Fault { help, ..Fault::at("model", FaultCode::ModelNotFound, format!("there is no model `{name}`")) }
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
                Err(Fault { status: 503, help, ..Fault::new(FaultCode::EngineDied, message) })
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
            let busy = Fault::new(FaultCode::TooManyRequests, "the gateway is at its limit of requests");
            Fault { retry_after: Some(1), ..busy }
        })?;
        Ok(Permit { seen: seen.clone(), _place: place })
    }
}
