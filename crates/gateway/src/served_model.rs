use rolecall::session::OnRewrite;
use rolecall::{Model, Request};

use crate::clock::now;
use crate::engine::{Engine, EngineKind, LocalOptions};
use crate::request::texts::Texts;
use crate::turn::support_cache::SupportCache;
use crate::{Limits, ModelConfig, OpenFault};

/// A model that is served.
#[derive(Debug)]
pub struct ServedModel {
    pub name: String,
    pub model: Model,
    pub engine: Engine,
    pub engine_model: Option<String>,
    pub on_rewrite: OnRewrite,
    pub created: i64,
    /// The texts that end a reply and are no tokens of the tokenizer.
    pub stop_texts: Vec<String>,
    pub texts: Texts,
    pub support: SupportCache,
}

impl ServedModel {
    /// Loads the tokenizer.
    pub fn open(wanted: &ModelConfig, local: &LocalOptions, limits: &Limits) -> Result<ServedModel, OpenFault> {
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
            (_, kind) => Engine::open(&wanted.engine, kind, local, limits),
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
            support: SupportCache::default(),
        })
    }
}
