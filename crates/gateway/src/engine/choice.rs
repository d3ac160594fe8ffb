//! How an engine is told which of its models a request is for.
//!
//! Sources: vLLM's documentation of LoRA adapters; SGLang's `entrypoints/http_server.py` (`/v1/models` lists adapters
//! with their `parent`) and `lora_path` in its native API; the README of llama.cpp's server (`GET /lora-adapters` and
//! `lora` of a request, which turns all other adapters off; `model` of its router).

use std::path::Path;
use std::sync::PoisonError;

use rolecall::conversation::Json;
use rolecall::conversation::json;
use rolecall::conversation::json::Object;
use rolecall::conversation::object;

use super::wire::{count, given, text};
use super::{Engine, EngineKind};
use crate::{Fault, FaultCode};

/// What a request says to use one of an engine's models.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum ModelChoice {
    /// Nothing: the engine has one model.
    #[default]
    Only,
    /// The name, in `model`.
    Name(String),
    /// The name of an adapter, in SGLang's `lora_path`.
    Adapter(String),
    /// The number of an adapter, in llama.cpp's `lora`.
    AdapterId(u64),
}

impl ModelChoice {
    /// Adds it to the body of a request.
    pub fn add_to(&self, body: &mut Object) {
        match self {
            ModelChoice::Only => {}
            ModelChoice::Name(name) => body.insert("model", name.as_str().into()),
            ModelChoice::Adapter(name) => body.insert("lora_path", name.as_str().into()),
            ModelChoice::AdapterId(id) => {
                let id = i64::try_from(*id).unwrap_or(i64::MAX);
                let adapter = object! { "id" => id, "scale" => Json::from(1_i64) };
                body.insert("lora", vec![Json::from(adapter)].into());
            }
        }
    }
}

impl Engine {
    /// Returns how to tell the engine that it is to use a model. An engine that has no model of this name would use
    /// another one in silence, which is an error.
    pub(super) async fn choice(&self, model: Option<&str>) -> Result<ModelChoice, Fault> {
        let Some(name) = model else { return Ok(ModelChoice::Only) };
        // These two refuse a name that they do not know.
        if matches!(self.kind(), EngineKind::Vllm | EngineKind::OpenAi) {
            return Ok(ModelChoice::Name(name.to_owned()));
        }
        let known = self.choice.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(choice) = known {
            return Ok(choice);
        }
        let choice = self.found_choice(name).await?;
        *self.choice.lock().unwrap_or_else(PoisonError::into_inner) = Some(choice.clone());
        Ok(choice)
    }

    /// Checks that the engine has a model of this name, if it says which models it has.
    pub async fn check_choice(&self, model: Option<&str>) -> Result<(), Fault> {
        self.choice(model).await.map(drop)
    }

    async fn found_choice(&self, name: &str) -> Result<ModelChoice, Fault> {
        let mut known = Vec::new();
        for card in self.cards().await? {
            let id = text(&card, "id").unwrap_or_default();
            if id == name {
                return Ok(match (self.kind(), given(&card, "parent")) {
                    (EngineKind::Sglang, Some(_)) => ModelChoice::Adapter(name.to_owned()),
                    (EngineKind::Sglang, None) => ModelChoice::Only,
                    _ => ModelChoice::Name(name.to_owned()),
                });
            }
            known.push(id.to_owned());
        }
        if self.kind() == EngineKind::LlamaCpp {
            let adapters = self.page("/lora-adapters").await?.and_then(|page| json::parse(&page).ok());
            for adapter in adapters.as_ref().and_then(Json::as_array).unwrap_or_default() {
                let Some(adapter) = adapter.as_object() else { continue };
                let path = Path::new(text(adapter, "path").unwrap_or_default());
                let names = [path.to_str(), path.file_name().and_then(|name| name.to_str())];
                let stem = path.file_stem().and_then(|stem| stem.to_str());
                if let (true, Some(id)) = (names.contains(&Some(name)) || stem == Some(name), count(adapter, "id")) {
                    return Ok(ModelChoice::AdapterId(id));
                }
                known.extend(stem.map(str::to_owned));
            }
        }
        let message = format!("the engine at {} has no model or adapter `{name}`", self.address);
        let help = match known.is_empty() {
            true => "leave `engine_model` out of the gateway's settings".to_owned(),
            false => format!("set the gateway's `engine_model` to one of: {}", known.join(", ")),
        };
        Err(Fault { help: Some(help.into()), ..Fault::new(FaultCode::UnknownEngineModel, message) })
    }

    pub(super) fn forget_choice(&self) {
        *self.choice.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
