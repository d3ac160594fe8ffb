use std::fs;
use std::path::Path;
use std::sync::Arc;

use rolecall::encode::PlainMarkers;
use rolecall::model::{BosBy, OpenError};
use rolecall::parse::{CallsInReasoning, UnclosedReasoning};
use rolecall::session::OnRewrite;
use rolecall::template::ModelTemplates;
use rolecall::{Error, Model};
use rolecall_interpreter::KernelOptions;
use rolecall_interpreter::agent::{Callable as _, Mcp, ToolsFile};

use super::{ModelSettings, SettingFault, SettingPlace, Settings};
use crate::engine::EngineKind;
use crate::store::StoreConfig;
use crate::template_process::TemplateProcess;
use crate::{Config, Keys, ModelConfig, Telling};

impl Settings {
    /// Opens what the settings name: the models and the file with the keys.
    pub fn open(&self) -> Result<Config, SettingFault> {
        if self.models.is_empty() {
            return Err(SettingFault::new("no_models", SettingPlace::Nowhere, "no model is configured")
                .with_help("name one with `--model` and `--engine`, or a file with `--config`"));
        }
        let models = self.models.iter().map(ModelSettings::open).collect::<Result<Vec<ModelConfig>, SettingFault>>()?;
        let keys = match &self.keys {
            Some(path) => read_keys(path).map_err(|fault| SettingFault { place: self.place_of("keys"), ..fault })?,
            None => Keys::default(),
        };
        let (sites, limits, local) = (self.sites.clone(), self.limits.clone(), self.local.clone());
        let containers = self.containers.clone();
        let servers = match &self.tools {
            Some(path) => read_servers(path).map_err(|fault| SettingFault {
                place: if fault.place == SettingPlace::Nowhere { self.place_of("tools") } else { fault.place },
                ..fault
            })?,
            None => Vec::new(),
        };
        let (store, telling) = (self.store(), Telling::default());
        Ok(Config { models, keys, sites, limits, store, local, containers, servers, telling })
    }

    fn store(&self) -> StoreConfig {
        let bounds = self.bounds;
        match self.store.as_str() {
            "memory" => StoreConfig::Memory(bounds),
            url if url.contains("://") => StoreConfig::Shared { url: url.to_owned(), most_age: bounds.most_age },
            path => StoreConfig::Embedded { path: path.into(), bounds },
        }
    }

    /// Returns where a key was set last.
    fn place_of(&self, path: &str) -> SettingPlace {
        let last = self.set.iter().rev().find(|(known, _)| known == path);
        last.map_or(SettingPlace::Nowhere, |(_, place)| place.clone())
    }
}

impl ModelSettings {
    fn open(&self) -> Result<ModelConfig, SettingFault> {
        let place = || self.place.clone();
        let needed = |key: &str, value: &Option<String>| {
            value.clone().ok_or_else(|| {
                SettingFault::new("missing_key", place(), format!("the model has no `{key}`"))
                    .with_help(format!("set `{key}` in its table, or pass `--{key}`"))
            })
        };
        let engine = needed("engine", &self.engine)?;
        let asked = match (&self.model, engine.strip_prefix("local:")) {
            // The engine's own file has everything.
            (None, Some(file)) => file.to_owned(),
            _ => needed("model", &self.model)?,
        };
        let mut builder = Model::builder().model(&asked);
        if let Some(path) = &self.tokenizer {
            builder = builder.tokenizer(path);
        }
        if let Some(format) = &self.format {
            builder = builder.format(format.as_str());
        }
        if let Some(path) = &self.template {
            builder = builder.template(path);
        }
        if let Some(asked) = &self.template_python {
            builder = builder.templates(self.open_code(asked)?).bos(BosBy::Tokenizer);
        }
        if self.plain_markers {
            builder = builder.plain_markers(PlainMarkers::Allow);
        }
        let model = builder.open().map_err(|error| {
            let place_of_error = match &error {
                OpenError::Template(error) => match &**error {
                    Error::Template { template, error, .. } => {
                        let at = error.place();
                        format!("{}:{}:{}: ", template.place(), at.line, at.column)
                    }
                    _ => String::new(),
                },
                _ => String::new(),
            };
            let message = format!("the model `{asked}` cannot be opened: {place_of_error}{error}");
            SettingFault { help: error.help().into_iter().next(), ..SettingFault::new(error.code(), place(), message) }
        })?;
        let policies = rolecall::model::Settings {
            calls_in_reasoning: self.calls_in_reasoning.and_then(CallsInReasoning::from_key),
            unclosed_reasoning: self.unclosed_reasoning.and_then(UnclosedReasoning::of_word),
            ..model.settings().clone()
        };
        let model = model.with_settings(policies);
        let name = match &self.model {
            Some(_) => self.served_name(),
            None => ModelSettings { model: Some(asked.clone()), ..self.clone() }.served_name(),
        };
        Ok(ModelConfig {
            name: name.unwrap_or(asked),
            model,
            engine,
            kind: self.engine_kind.unwrap_or(EngineKind::LlamaCpp),
            engine_model: self.engine_model.clone(),
            on_rewrite: self.on_rewrite.unwrap_or(OnRewrite::Rewrite),
        })
    }
}

impl ModelSettings {
    /// Starts the code that renders.
    fn open_code(&self, asked: &str) -> Result<ModelTemplates, SettingFault> {
        let fault = |code, message: String| SettingFault::new(code, self.place.clone(), message);
        let others = [("format", self.format.is_some()), ("template", self.template.is_some())];
        if let Some((other, _)) = others.iter().find(|(_, is_set)| *is_set) {
            let message = format!("both `template_python` and `{other}` are set");
            return Err(fault("conflict", message).with_help("leave one of them out"));
        }
        let python = self.python.clone().unwrap_or_else(|| "python3".into());
        let unusable = |error: &Error| {
            let message = format!("the template `{asked}` cannot be used: {error}");
            SettingFault { help: error.help(), ..fault(error.code(), message) }
        };
        let code = TemplateProcess::start(python, asked.to_owned());
        let code = code.map_err(|error| unusable(&rolecall::render::Error::Code(error).into()))?;
        ModelTemplates::of_code(Arc::new(code)).map_err(|error| unusable(&error))
    }
}

/// Reads a file with keys.
pub(crate) fn read_keys(path: &Path) -> Result<Keys, SettingFault> {
    let shown = path.display();
    let text = fs::read_to_string(path).map_err(|error| {
        SettingFault::new(
            "unreadable_file",
            SettingPlace::Nowhere,
            format!("cannot read the keys in `{shown}`: {error}"),
        )
    })?;
    Keys::read(&text).map_err(|fault| {
        let place = SettingPlace::File { path: shown.to_string(), line: fault.line, column: 1 };
        SettingFault::new("wrong_key", place, fault.to_string())
            .with_help("`rolecall serve --hash-key` writes the line of a key that it reads from standard input")
    })
}

/// Reads a file of tools, which may have MCP servers alone: no API offers the others to clients.
fn read_servers(path: &Path) -> Result<Vec<Mcp>, SettingFault> {
    let shown = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|error| {
        let message = format!("cannot read the tools in `{shown}`: {error}");
        SettingFault::new("unreadable_file", SettingPlace::Nowhere, message)
    })?;
    let file = ToolsFile::read(&text, path.parent().unwrap_or(path), &KernelOptions::default()).map_err(|error| {
        let place = SettingPlace::File { path: shown.clone(), line: error.line, column: 1 };
        SettingFault::new("tools_file", place, error.message)
    })?;
    if let Some(command) = file.commands.first() {
        let message = format!("`{shown}` declares the command `{}`, which clients cannot call", command.name());
        return Err(SettingFault::new("tools_file", SettingPlace::Nowhere, message)
            .with_help("give the gateway a file of its own, with `[[mcp]]` alone"));
    }
    Ok(file.servers)
}
