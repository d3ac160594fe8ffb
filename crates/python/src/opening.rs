//! The arguments with which a model is opened.

use std::path::PathBuf;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyDict, PyString};
use rolecall::conversation::json::{self, Layout, Object};
use rolecall::conversation::{Json, Place};
use rolecall::encode::{PlainMarkers, Protect};
use rolecall::model::{BosBy, Files, ModelBuilder, Settings};
use rolecall::render::RuleMode;
use rolecall::template::Forms;
use rolecall::template::jinja::LimitKind;

use crate::error::Fault;
use crate::input::{self, Path};

/// What a model is opened from.
#[derive(Default)]
pub struct Opening {
    path: Option<PathBuf>,
    /// The name of a model in memory.
    name: Option<String>,
    format: Option<String>,
    /// The template of a framework, as the JSON text of its dict.
    fields: Option<String>,
    template: Option<PathBuf>,
    chat_template: Option<Json>,
    tokenizer: Option<PathBuf>,
    tokenizer_bytes: Option<Vec<u8>>,
    /// The config of the tokenizer's bytes, without a template.
    tokenizer_beside: Option<Json>,
    tokenizer_config: Option<Json>,
    bos_tokens: Option<Vec<String>>,
    eos_token: Option<String>,
    settings: Settings,
}

impl Opening {
    /// Reads the arguments: the model, which is a path, a name or an object in memory, and the parts
    /// and settings by keyword.
    pub fn read(model: Option<&Bound<'_, PyAny>>, parts: Option<&Bound<'_, PyDict>>) -> PyResult<Opening> {
        let mut opening = Opening::default();
        if let Some(model) = model.filter(|model| !model.is_none()) {
            match path("model", model)? {
                Some(path) => opening.path = Some(path),
                None if model.is_instance_of::<PyDict>() => opening.fields = Some(input::dict(model, "model")?),
                None => opening.take_object(model, "model")?,
            }
        }
        let Some(parts) = parts else { return Ok(opening) };
        for (name, value) in parts.iter() {
            let name: String = name.extract()?;
            if !NAMES.contains(&name.as_str()) {
                let message = format!("Model() got an unexpected keyword argument '{name}'");
                return Err(PyTypeError::new_err(message));
            }
            if !value.is_none() {
                opening.take(&name, &value)?;
            }
        }
        Ok(opening)
    }

    fn take(&mut self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        match name {
            "format" if value.is_instance_of::<PyDict>() => self.fields = Some(input::dict(value, name)?),
            "format" => self.format = Some(text(name, value)?),
            "template" => {
                let Some(path) = path(name, value)? else { return Err(wrong(name, value, "a path")) };
                self.template = Some(path);
            }
            "chat_template" => self.chat_template = Some(input::json(value, &mut Path::of(name))?),
            "tokenizer" => match (path(name, value)?, bytes(value)?) {
                (Some(path), _) => (self.tokenizer, self.tokenizer_bytes) = (Some(path), None),
                (None, Some(bytes)) => self.tokenizer_bytes = Some(bytes),
                (None, None) => self.take_object(value, name)?,
            },
            "tokenizer_config" => self.tokenizer_config = Some(input::json(value, &mut Path::of(name))?),
            "bos_token" => {
                self.bos_tokens = Some(match value.cast::<PyString>() {
                    Ok(_) => vec![text(name, value)?],
                    Err(_) => value.extract().map_err(|_| wrong(name, value, "a str or a list of str"))?,
                });
            }
            "eos_token" => self.eos_token = Some(text(name, value)?),
            "template_name" => self.settings.template_name = Some(text(name, value)?),
            "options" => self.settings.options = options(name, value)?,
            "bos" => {
                let word = text(name, value)?;
                let known = "`auto`, `template`, `tokenizer` or `none`";
                self.settings.bos = word.parse::<BosBy>().map_err(|()| unknown(value, name, known))?;
            }
            "rules" => self.settings.rules = one_of(name, value, RuleMode::ALL)?,
            "forms" => self.settings.forms = one_of(name, value, Forms::ALL)?,
            "protect" => self.settings.protect = one_of(name, value, Protect::ALL)?,
            "plain_markers" => {
                let allow = value.cast::<PyBool>().map_err(|_| wrong(name, value, "a bool"))?.is_true();
                self.settings.plain_markers = if allow { PlainMarkers::Allow } else { PlainMarkers::Refuse };
            }
            "now" => {
                let time = match value.cast::<PyString>() {
                    Ok(_) => text(name, value)?,
                    Err(_) => {
                        let time = value.call_method1("strftime", ("%Y-%m-%dT%H:%M:%S",));
                        time.and_then(|time| time.extract()).map_err(|_| wrong(name, value, "a datetime or a str"))?
                    }
                };
                let known = "a time like 2026-11-21T12:34:56";
                self.settings.now = Some(time.parse().map_err(|_| unknown(value, name, known))?);
            }
            "limits" => {
                let limits = value.cast::<PyDict>().map_err(|_| wrong(name, value, "a dict of numbers by name"))?;
                for (limit, most) in limits.iter() {
                    let kind = text(name, &limit)?;
                    let known = || LimitKind::RAISED.map(|kind| format!("`{}`", kind.name())).join(", ");
                    let kind = LimitKind::RAISED.into_iter().find(|one| one.name() == kind);
                    let kind = kind.ok_or_else(|| unknown(&limit, name, &known()))?;
                    self.settings.limits.set(kind, most.extract().map_err(|_| wrong(name, &most, "an int from 0"))?);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes the parts of an object in memory. `rolecall/_objects.py` knows the objects.
    fn take_object(&mut self, object: &Bound<'_, PyAny>, argument: &str) -> PyResult<()> {
        let py = object.py();
        let parts = py.import("rolecall._objects")?.call_method1("parts", (object, argument))?;
        let parts = parts.cast_into::<PyDict>()?;
        let bytes = |name: &str| -> PyResult<Option<Vec<u8>>> {
            parts.get_item(name)?.map(|bytes| bytes.extract()).transpose()
        };
        (self.tokenizer, self.tokenizer_bytes) = (None, bytes("tokenizer")?);
        let config = parts.get_item("tokenizer_config")?;
        let config = config.map(|config| input::json(&config, &mut Path::of("tokenizer_config"))).transpose()?;
        if argument != "model" {
            self.tokenizer_beside = config;
            return Ok(());
        }
        self.tokenizer_config = config;
        self.name = parts.get_item("name")?.map(|name| name.extract()).transpose()?;
        Ok(())
    }

    /// Returns the builder of the model. What is in memory is held as the files that it stands for.
    pub fn builder(self) -> ModelBuilder {
        let mut builder = rolecall::Model::builder().settings(self.settings);
        let mut files = Files::default();
        let is_in_memory = self.path.is_none() && (self.name.is_some() || self.tokenizer_config.is_some());
        let config = self.tokenizer_config.or(self.tokenizer_beside);
        let config_with = |template: Option<Json>| {
            let mut object = match &config {
                Some(Json::Object(config)) => config.clone(),
                _ => Object::new(),
            };
            if let Some(template) = template {
                object.insert("chat_template", template);
            }
            json::write(&Json::Object(object), &Layout::compact())
        };
        if let Some(path) = self.path {
            builder = builder.model(path);
        }
        let folder = PathBuf::from(match is_in_memory {
            true => self.name.unwrap_or_else(|| "<model>".to_owned()),
            false => "<tokenizer>".to_owned(),
        });
        if is_in_memory || self.tokenizer_bytes.is_some() {
            files.hold(folder.join(CONFIG), config_with(None));
        }
        if let Some(bytes) = self.tokenizer_bytes {
            files.hold(folder.join(name_of(&bytes)), bytes);
            builder = builder.tokenizer(&folder);
        }
        if is_in_memory {
            builder = builder.model(folder);
        }
        if let Some(format) = self.format {
            builder = builder.format(format);
        }
        if let Some(fields) = self.fields {
            let file = "<dict>/template.json";
            files.hold(PathBuf::from(file), fields);
            builder = builder.format(file);
        }
        if let Some(template) = self.template {
            builder = builder.template(template);
        }
        if let Some(template) = self.chat_template {
            let file = PathBuf::from("<chat_template>").join(CONFIG);
            files.hold(&file, config_with(Some(template)));
            builder = builder.template(file);
        }
        if let Some(tokenizer) = self.tokenizer {
            builder = builder.tokenizer(tokenizer);
        }
        if let Some(tokens) = self.bos_tokens {
            builder = builder.bos_tokens(tokens);
        }
        if let Some(token) = self.eos_token {
            builder = builder.eos_token(token);
        }
        builder.files(files)
    }
}

const CONFIG: &str = "tokenizer_config.json";

/// Returns the name that a tokenizer's file has in a folder. The content determines how it is read.
fn name_of(bytes: &[u8]) -> &'static str {
    if bytes.trim_ascii_start().starts_with(b"{") { "tokenizer.json" } else { "tokenizer.model" }
}

/// The keyword arguments.
const NAMES: [&str; 16] = [
    "format",
    "template",
    "chat_template",
    "tokenizer",
    "tokenizer_config",
    "bos_token",
    "eos_token",
    "template_name",
    "options",
    "bos",
    "rules",
    "forms",
    "protect",
    "plain_markers",
    "now",
    "limits",
];

/// Returns the path of a str or an `os.PathLike`.
fn path(argument: &str, value: &Bound<'_, PyAny>) -> PyResult<Option<PathBuf>> {
    let refuse = |wrong| fault(value.py(), "wrong_type", argument, wrong);
    input::is_path(value)?.then(|| input::path_of(value, refuse)).transpose()
}

fn bytes(value: &Bound<'_, PyAny>) -> PyResult<Option<Vec<u8>>> {
    let is_bytes = value.is_instance_of::<PyBytes>() || value.is_instance_of::<PyByteArray>();
    is_bytes.then(|| value.extract()).transpose()
}

fn text(argument: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    let is_text = value.is_instance_of::<PyString>();
    match is_text.then(|| input::json(value, &mut Path::of(argument))).transpose()? {
        Some(Json::String(text)) => Ok(text),
        _ => Err(wrong(argument, value, "a str")),
    }
}

fn one_of<T: Copy, const N: usize>(
    argument: &str,
    value: &Bound<'_, PyAny>,
    words: [(&'static str, T); N],
) -> PyResult<T> {
    let word = text(argument, value)?.replace('_', "-");
    let known = || words.map(|(word, _)| format!("`{word}`")).join(", ");
    let found = words.iter().find(|(known, _)| *known == word);
    found.map(|(_, meant)| *meant).ok_or_else(|| unknown(value, argument, &known()))
}

fn options(argument: &str, value: &Bound<'_, PyAny>) -> PyResult<Vec<(String, String)>> {
    let Json::Object(options) = input::json(value, &mut Path::of(argument))? else {
        return Err(wrong(argument, value, "a dict of values by name"));
    };
    let option = |(name, value): (&str, &Json)| match value {
        Json::String(text) => Some((name.to_owned(), text.clone())),
        Json::Number(number) => Some((name.to_owned(), number.spelling().to_owned())),
        Json::Bool(flag) => Some((name.to_owned(), flag.to_string())),
        _ => None,
    };
    let options: Option<Vec<_>> = options.iter().map(option).collect();
    options.ok_or_else(|| wrong(argument, value, "a dict whose values are str, int, float or bool"))
}

fn wrong(argument: &str, value: &Bound<'_, PyAny>, expected: &str) -> PyErr {
    let found = value.get_type().name().map_or_else(|_| "an object".to_owned(), |name| name.to_string());
    fault(value.py(), "wrong_type", argument, format!("expected {expected} for `{argument}`, found {found}"))
}

fn unknown(value: &Bound<'_, PyAny>, argument: &str, known: &str) -> PyErr {
    let found = value.str().map_or_else(|_| "an object".to_owned(), |found| found.to_string_lossy().into_owned());
    fault(value.py(), "unknown_value", argument, format!("expected {known} for `{argument}`, found `{found}`"))
}

fn fault(py: Python<'_>, code: &'static str, argument: &str, message: String) -> PyErr {
    let place = Some(Place::field(argument.to_owned()));
    Fault { class: "OpenError", code, message, place, help: None }.raise(py)
}
