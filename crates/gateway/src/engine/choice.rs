//! How an engine is told which of its models a request is for.
//!
//! Sources: vLLM's documentation of LoRA adapters; SGLang's `entrypoints/http_server.py` (`/v1/models` lists adapters
//! with their `parent`) and `lora_path` in its native API; the README of llama.cpp's server (`GET /lora-adapters` and
//! `lora` of a request, which turns all other adapters off; `model` of its router).

use std::sync::PoisonError;

use rolecall::conversation::{Json, json};

use super::Engine;
use super::fields::text;
use super::model_choice::ModelChoice;
use crate::{Fault, FaultCode};

impl Engine {
    /// Returns how to tell the engine that it is to use a model. An engine that has no model of this name would use
    /// another one in silence, which is an error.
    pub(super) async fn choice(&self, model: Option<&str>) -> Result<ModelChoice, Fault> {
        let Some(name) = model else { return Ok(ModelChoice::default()) };
        if self.wire().refuses_unknown_models() {
            return Ok(ModelChoice::by_name(name));
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
                return Ok(self.wire().choose(name, &card));
            }
            known.push(id.to_owned());
        }
        if let Some(path) = self.wire().adapters() {
            let page = self.page(path).await?.and_then(|page| json::parse(&page).ok());
            let adapters = page.as_ref().and_then(Json::as_array).unwrap_or_default();
            for (names, choice) in adapters.iter().filter_map(|adapter| self.wire().adapter(adapter)) {
                if names.contains(&name) {
                    return Ok(choice);
                }
                known.extend(names.first().map(|name| (*name).to_owned()));
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
