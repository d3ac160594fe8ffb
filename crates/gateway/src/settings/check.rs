use std::time::Duration;

use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, object};
use rolecall::format::Generation;
use rolecall::model::StopToken;
use tokio::net::lookup_host;

use crate::engine::About;
use crate::gateway::Gateway;
use crate::http::run::RunFault;
use crate::observe::Traces;
use crate::served_model::ServedModel;
use crate::settings::Settings;
use crate::store::{Bounds, Store, StoreConfig, StoreFault};
use crate::{Fault, FaultCode};

/// What a gateway would run with, and what its engines answer.
#[derive(Clone, Debug)]
pub struct Report {
    /// The models.
    pub models: Vec<ModelReport>,
    /// The address to listen on.
    pub listen: String,
    /// Where conversations are kept.
    pub store: String,
    /// The number of API keys, or `None` if everybody may use the gateway.
    pub keys: Option<usize>,
    /// The MCP servers, each with the names of its tools.
    pub servers: Vec<(String, Vec<String>)>,
    /// What may be wrong.
    pub warnings: Vec<String>,
    /// What keeps the gateway from running, apart from its engines: codes and messages.
    pub faults: Vec<(&'static str, String)>,
}

/// What a model would be served with.
#[derive(Clone, Debug)]
pub struct ModelReport {
    /// The name in requests.
    pub name: String,
    /// What the model was opened from.
    pub model: String,
    /// Why each part was chosen: the format or chat template, and the tokenizer.
    pub parts: Vec<String>,
    /// The tokens that end a reply.
    pub stops: Vec<StopToken>,
    /// The sampling defaults, by name.
    pub sampling: Vec<(&'static str, String)>,
    /// The engine's address.
    pub engine: String,
    /// The word for the kind of engine.
    pub kind: &'static str,
    /// What the engine answered, or why it did not.
    pub answer: Result<String, String>,
}

/// Opens everything that the settings name, and asks the engines.
pub fn check(settings: &Settings) -> Result<Report, RunFault> {
    let mut config = settings.open().map_err(RunFault::Setting)?;
    let addresses: Vec<String> = config.models.iter().map(|model| model.engine.clone()).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| RunFault::System(error.to_string()))?;
    runtime.block_on(async {
        let (mut warnings, mut faults) = (Vec::new(), Vec::new());
        match Store::open(&config.store).await {
            Ok(_) => {}
            // A gateway that runs has its store for itself, and is no mistake.
            Err(fault @ StoreFault::Locked(_)) => warnings.push(fault.to_string()),
            Err(fault) => faults.push((fault.code(), fault.to_string())),
        }
        if let Err(error) = lookup_host(&settings.listen).await {
            faults.push(("cannot_run", format!("{}: {error}", settings.listen)));
        }
        if let Some(endpoint) = &settings.traces
            && let Err(why) = Traces::to(endpoint, &settings.service)
        {
            faults.push(("cannot_run", why));
        }
        // A store that was opened may still have its file for itself.
        config.store = StoreConfig::Memory(Bounds::default());
        let gateway = Gateway::open(config).await.map_err(RunFault::Open)?;
        let asked = gateway.models().iter().zip(addresses).map(|(served, address)| {
            let served = std::sync::Arc::clone(served);
            async move { ModelReport::of(&served, address).await }
        });
        let models = futures_util::future::join_all(asked).await;
        for (served, model) in gateway.models().iter().zip(&models) {
            warnings.extend(served.model.warnings().iter().map(|warning| format!("{}: {warning}", model.name)));
            if model.stops.iter().all(|stop| stop.id.is_none()) {
                warnings.push(format!("{}: no token is known to end a reply", model.name));
            }
        }
        warnings.extend(gateway.warnings());
        let mut servers = Vec::new();
        for server in gateway.servers.iter() {
            match server.tools().await {
                Ok(tools) => {
                    let names = tools.iter().map(|tool| tool.own_name().to_owned()).collect();
                    servers.push((server.label().to_owned(), names));
                }
                Err(error) => faults.push((FaultCode::McpServerFailed.name(), error.to_string())),
            }
        }
        let keys = gateway.keys.count();
        if keys == Some(0) {
            warnings.push("there is no key in the file, so nobody may use the gateway".to_owned());
        }
        let (listen, store) = (settings.listen.clone(), settings.shown("store.at"));
        Ok(Report { models, listen, store, keys, servers, warnings, faults })
    })
}

impl Report {
    /// Reports whether the gateway would run, and every engine answered.
    pub fn is_good(&self) -> bool {
        self.faults.is_empty() && self.models.iter().all(|model| model.answer.is_ok())
    }

    /// Returns what the gateway itself would run with, for people.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let keys = match self.keys {
            None => "none, everybody may use it".to_owned(),
            Some(count) => count.to_string(),
        };
        let mut lines = vec![("listens on", self.listen.clone()), ("API keys", keys), ("store", self.store.clone())];
        for (name, tools) in &self.servers {
            lines.push(("MCP server", format!("{name}: {}", or_none(tools.join(", ")))));
        }
        lines
    }

    /// Returns the report as JSON.
    pub fn to_json(&self) -> Json {
        let models: Vec<Json> = self.models.iter().map(ModelReport::to_json).collect();
        let warnings: Vec<Json> = self.warnings.iter().map(|warning| Json::from(warning.as_str())).collect();
        let keys = self.keys.map_or(Json::Null, |count| Json::from(count as i64));
        let fault =
            |(code, message): &(&str, String)| Json::from(object! { "code" => *code, "message" => message.as_str() });
        let faults: Vec<Json> = self.faults.iter().map(fault).collect();
        let server = |(name, tools): &(String, Vec<String>)| {
            let tools: Vec<Json> = tools.iter().map(|tool| tool.as_str().into()).collect();
            Json::from(object! { "name" => name.as_str(), "tools" => tools })
        };
        let servers: Vec<Json> = self.servers.iter().map(server).collect();
        object! {
            "good" => self.is_good(), "models" => models, "listen" => self.listen.as_str(), "store" => self.store.as_str(), "keys" => keys,
            "mcp_servers" => servers, "warnings" => warnings, "faults" => faults,
        }
        .into()
    }
}

impl ModelReport {
    async fn of(served: &ServedModel, engine: String) -> ModelReport {
        let model = &served.model;
        ModelReport {
            name: served.name.clone(),
            model: model.name().to_owned(),
            parts: model.evidence().iter().map(ToString::to_string).collect(),
            stops: model.stops().unwrap_or_default(),
            sampling: sampling(&model.sampling()),
            kind: served.engine.kind().word(),
            answer: answer(served, &engine).await,
            engine,
        }
    }

    /// Returns what the model would be served with, for people.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let mut lines = vec![("model", self.model.clone())];
        for part in &self.parts {
            let (name, why) = part.split_once(": ").unwrap_or(("part", part));
            // The names are those of the library.
            let name =
                ["format", "chat template", "recognised format", "tokenizer"].into_iter().find(|known| *known == name);
            lines.push((name.unwrap_or("part"), why.to_owned()));
        }
        let stop = |stop: &StopToken| match stop.id {
            Some(id) => format!("{id} {}", stop.text).trim_end().to_owned(),
            None => format!("{} (no id)", stop.text),
        };
        let stops: Vec<String> = self.stops.iter().map(stop).collect();
        lines.push(("stop ids", or_none(stops.join(", "))));
        let sampling: Vec<String> = self.sampling.iter().map(|(name, value)| format!("{name} {value}")).collect();
        lines.push(("sampling", or_none(sampling.join(", "))));
        lines.push(("engine", format!("{} at {}", self.kind, self.engine)));
        lines.push(match &self.answer {
            Ok(answer) => ("it answers", answer.clone()),
            Err(why) => ("no answer", why.clone()),
        });
        lines
    }

    fn to_json(&self) -> Json {
        let parts: Vec<Json> = self.parts.iter().map(|part| Json::from(part.as_str())).collect();
        let stop = |stop: &StopToken| -> Json {
            let id = stop.id.map_or(Json::Null, |id| Json::from(i64::from(id)));
            object! { "text" => stop.text.as_str(), "id" => id }.into()
        };
        let stops: Vec<Json> = self.stops.iter().map(stop).collect();
        let sampling: Object =
            self.sampling.iter().map(|(name, value)| ((*name).to_owned(), Json::from(value.as_str()))).collect();
        let answer: Json = match &self.answer {
            Ok(answer) => object! { "good" => true, "text" => answer.as_str() }.into(),
            Err(why) => object! { "good" => false, "text" => why.as_str() }.into(),
        };
        object! {
            "name" => self.name.as_str(), "model" => self.model.as_str(), "parts" => parts, "stops" => stops,
            "sampling" => sampling, "engine" => self.engine.as_str(), "engine_kind" => self.kind, "answer" => answer,
        }
        .into()
    }
}

/// Asks an engine what it is. One that is started here first loads its model.
async fn answer(served: &ServedModel, address: &str) -> Result<String, String> {
    let about = match address.starts_with("local:") {
        true => served.engine.ready(LOADING).await,
        false => served.engine.probe(PATIENCE).await,
    };
    let about = match about {
        Ok(about) => served.engine.check_choice(served.engine_model.as_deref()).await.map(|()| about),
        Err(fault) => Err(fault),
    };
    let why = |fault: Fault| served.engine.last_output().unwrap_or_else(|| fault.message.into_string());
    let About { models, context, slots, build } = about.map_err(why)?;
    let mut parts = vec!["it is ready".to_owned()];
    parts.extend(build.map(|build| format!("version {build}")));
    if !models.is_empty() {
        parts.push(format!("models {}", models.join(", ")));
    }
    parts.extend(context.map(|context| format!("context of {context} ids")));
    parts.extend(slots.map(|slots| format!("{slots} replies at the same time")));
    Ok(parts.join("; "))
}

/// How long an engine may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long an engine may take to load its model.
const LOADING: Duration = Duration::from_secs(300);

fn or_none(text: String) -> String {
    if text.is_empty() { "none".to_owned() } else { text }
}

fn sampling(usual: &Generation) -> Vec<(&'static str, String)> {
    let number = |value: Option<f64>| value.map(|value| value.to_string());
    let count = |value: Option<u64>| value.map(|value| value.to_string());
    let all = [
        ("temperature", number(usual.temperature)),
        ("top_p", number(usual.top_p)),
        ("top_k", count(usual.top_k)),
        ("min_p", number(usual.min_p)),
        ("repetition_penalty", number(usual.repetition_penalty)),
        ("max_tokens", count(usual.max_new_tokens)),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}
