//! What a gateway is started with: a file in TOML, environment variables and flags.
//!
//! [`KEYS`] and [`MODEL_KEYS`] name every setting once. The file's keys, the environment variables, the
//! flags and the manual come from these tables.

pub(crate) mod check;
pub(crate) mod config;
mod fault;
mod file;
mod key;
mod open;
mod value;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rolecall::conversation::spelling;
use rolecall::session::OnRewrite;

use crate::Limits;
use crate::containers::ContainerConfig;
use crate::engine::{EngineKind, LocalOptions};
use crate::http::sites::Sites;
use crate::store::Bounds;

pub use fault::{SettingFault, SettingPlace};
pub use key::{KEYS, Key, MODEL_KEYS, Slot};
pub(crate) use open::read_keys;
use value::RawValue;

/// What a gateway is started with.
///
/// ```
/// use std::path::Path;
/// use rolecall_gateway::{Settings, Sources};
/// let file = "[[models]]\nmodel = \"chatml\"\nengine = \"http://127.0.0.1:8080\"\n";
/// let mut sources = Sources::default();
/// sources.file = Some((Path::new("gateway.toml"), file));
/// sources.flags = vec![("limits.requests".to_owned(), "64".to_owned())];
/// let settings = Settings::read(&sources)?;
/// assert_eq!((settings.models[0].engine.as_deref(), settings.limits.requests), (Some("http://127.0.0.1:8080"), 64));
/// # Ok::<(), rolecall_gateway::SettingFault>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The address to listen on.
    pub listen: String,
    /// The file with the API keys.
    pub keys: Option<PathBuf>,
    /// Which pages in browsers may use the gateway.
    pub sites: Sites,
    /// How long requests may go on once the gateway is told to stop.
    pub drain: Duration,
    /// Whether the log contains requests and replies.
    pub log_content: bool,
    /// The collector that gets traces.
    pub traces: Option<String>,
    /// The name of the gateway in traces.
    pub service: String,
    /// Where conversations are kept: a file, the address of Redis, or `memory`.
    pub store: String,
    /// How much is kept.
    pub bounds: Bounds,
    /// What requests may need.
    pub limits: Limits,
    /// How engines are started.
    pub local: LocalOptions,
    /// Whether the code of models runs here, and how.
    pub containers: ContainerConfig,
    /// The file that declares MCP servers.
    pub tools: Option<PathBuf>,
    /// The models.
    pub models: Vec<ModelSettings>,
    /// What was set, and where, in the order of precedence: later ones replace earlier ones.
    pub set: Vec<(String, SettingPlace)>,
    /// What was found and not used.
    pub warnings: Vec<String>,
}

/// What a model is served with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelSettings {
    /// The name in requests. Without it, the end of the model's path.
    pub name: Option<String>,
    /// The model: a folder, a GGUF file, or a name.
    pub model: Option<String>,
    /// The tokenizer, if it is not the model's own.
    pub tokenizer: Option<PathBuf>,
    /// The format, if it is not what the model's files say.
    pub format: Option<String>,
    /// The chat template, if it is not the model's own.
    pub template: Option<PathBuf>,
    /// The Python file or module whose code renders, with the name of the template in it.
    pub template_python: Option<String>,
    /// The Python interpreter of that code.
    pub python: Option<PathBuf>,
    /// Whether markers that the template writes around turns may be text instead of tokens.
    pub plain_markers: bool,
    /// The engine's address.
    pub engine: Option<String>,
    /// The kind of engine.
    pub engine_kind: Option<EngineKind>,
    /// The engine's name for the model.
    pub engine_model: Option<String>,
    /// What to do if the model's template rewrites what was sent in earlier turns.
    pub on_rewrite: Option<OnRewrite>,
    /// How calls inside reasoning are treated.
    pub calls_in_reasoning: Option<&'static str>,
    /// How reasoning is treated that is open when the model ends its turn.
    pub unclosed_reasoning: Option<&'static str>,
    /// Where the model is configured.
    pub place: SettingPlace,
}

/// Where settings come from. Flags replace environment variables, and these replace the file.
#[derive(Clone, Debug, Default)]
pub struct Sources<'a> {
    /// A file, with its text.
    pub file: Option<(&'a Path, &'a str)>,
    /// Environment variables. Those that do not begin with `ROLECALL_` are left alone.
    pub environment: Vec<(String, String)>,
    /// Flags, each with the path of its key.
    pub flags: Vec<(String, String)>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            listen: "127.0.0.1:8000".to_owned(),
            keys: None,
            sites: Sites::default(),
            drain: Duration::from_secs(30),
            log_content: false,
            traces: None,
            service: "rolecall".to_owned(),
            store: "rolecall.redb".to_owned(),
            bounds: Bounds::default(),
            limits: Limits::default(),
            local: LocalOptions::default(),
            containers: ContainerConfig::default(),
            tools: None,
            models: Vec::new(),
            set: Vec::new(),
            warnings: Vec::new(),
        }
    }
}

impl Settings {
    /// Reads the settings.
    pub fn read(sources: &Sources<'_>) -> Result<Settings, SettingFault> {
        let mut settings = Settings::default();
        if let Some((path, text)) = sources.file {
            file::read(&mut settings, path, text)?;
        }
        let mut of_model = Vec::new();
        for (name, value) in sources.environment.iter().filter(|(_, value)| !value.is_empty()) {
            match name.as_str() {
                // What names the gateway itself replaces it.
                "OTEL_EXPORTER_OTLP_ENDPOINT" => settings.traces = settings.traces.take().or(Some(value.clone())),
                "OTEL_SERVICE_NAME" => settings.service = value.clone(),
                _ => {}
            }
        }
        for (name, value) in &sources.environment {
            let Some(found) = AnyKey::by(name, Key::variable, Key::variable) else {
                settings.note_variable(name);
                continue;
            };
            settings.put(found, value, SettingPlace::Variable(name.clone()), &mut of_model)?;
        }
        for (path, value) in &sources.flags {
            let by_path = |path: &str| AnyKey::by(path, |key| key.path.to_owned(), |key| key.path.to_owned());
            let Some(found) = by_path(path) else {
                return Err(SettingFault::unknown(path, all_paths(), SettingPlace::Flag(path.clone())));
            };
            settings.put(found, value, SettingPlace::Flag(found.flag()), &mut of_model)?;
        }
        settings.put_on_model(of_model)?;
        Ok(settings)
    }

    /// Sets a key of the gateway, or keeps a key of a model for later.
    fn put<'a>(
        &mut self,
        found: AnyKey,
        value: &'a str,
        place: SettingPlace,
        of_model: &mut Vec<(&'static Key<ModelSettings>, &'a str, SettingPlace)>,
    ) -> Result<(), SettingFault> {
        match found {
            AnyKey::OfGateway(key) => {
                key.set(self, &RawValue::Loose(value), None, &place)?;
                self.set.push((key.path.to_owned(), place));
            }
            AnyKey::OfModel(key) => of_model.push((key, value, place)),
        }
        Ok(())
    }

    /// Sets keys of the only model, or of the model that one of these keys names.
    fn put_on_model(
        &mut self,
        keys: Vec<(&'static Key<ModelSettings>, &str, SettingPlace)>,
    ) -> Result<(), SettingFault> {
        let Some((_, _, first)) = keys.first() else { return Ok(()) };
        let named = keys.iter().rev().find(|(key, ..)| key.path == "name").map(|(_, name, _)| *name);
        let at = match (self.models.len(), named) {
            (0, _) => {
                self.models.push(ModelSettings { place: first.clone(), ..ModelSettings::default() });
                0
            }
            (1, _) => 0,
            (_, Some(name)) => {
                let of_name = |model: &ModelSettings| model.served_name().as_deref() == Some(name);
                self.models.iter().position(of_name).ok_or_else(|| {
                    let names: Vec<String> = self.models.iter().filter_map(ModelSettings::served_name).collect();
                    SettingFault::new("unknown_model", first.clone(), format!("no model has the name `{name}`"))
                        .with_help(format!("use one of: {}", names.join(", ")))
                })?
            }
            (count, None) => {
                let message = format!("the file has {count} models, and it is not said which one is meant");
                return Err(SettingFault::new("ambiguous_model", first.clone(), message)
                    .with_help("name it with `--name`, or change the file"));
            }
        };
        for (key, value, place) in keys {
            if let Some(model) = self.models.get_mut(at) {
                key.set(model, &RawValue::Loose(value), None, &place)?;
            }
            self.set.push((format!("models.{at}.{}", key.path), place));
        }
        Ok(())
    }

    /// Notes a variable that looks like ours and is not known. It may also be another program's:
    /// Kubernetes sets variables named after its services.
    fn note_variable(&mut self, name: &str) {
        if !name.starts_with(PREFIX) || name == FILE_VARIABLE {
            return;
        }
        let known: Vec<String> = KEYS.iter().map(Key::variable).chain(MODEL_KEYS.iter().map(Key::variable)).collect();
        let near = spelling::nearest(name, known.iter().map(String::as_str));
        let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
        self.warnings.push(format!("the environment variable `{name}` is not known and not used{near}"));
    }

    /// Returns what was set, each with its value and place. Of a key that was set several times, the
    /// last one counts.
    pub fn effective(&self) -> Vec<(&str, String, &SettingPlace)> {
        let is_last = |at: usize, path: &str| !self.set[at + 1..].iter().any(|(later, _)| later == path);
        let last = self.set.iter().enumerate().filter(|(at, (path, _))| is_last(*at, path));
        last.map(|(_, (path, place))| (path.as_str(), self.shown(path), place)).collect()
    }

    pub(crate) fn shown(&self, path: &str) -> String {
        let of_model = path.strip_prefix("models.").and_then(|rest| rest.split_once('.'));
        let shown = match of_model {
            Some((at, path)) => {
                let model = at.parse().ok().and_then(|at: usize| self.models.get(at));
                let key = MODEL_KEYS.iter().find(|key| key.path == path);
                model.zip(key).map(|(model, key)| key.shown(model))
            }
            None => KEYS.iter().find(|key| key.path == path).map(|key| key.shown(self)),
        };
        shown.unwrap_or_default()
    }
}

impl ModelSettings {
    /// Returns the name in requests: the given one, or the end of the model's path, or the model's name.
    pub fn served_name(&self) -> Option<String> {
        if self.name.is_some() {
            return self.name.clone();
        }
        let model = self.model.as_deref()?;
        let path = Path::new(model);
        if !path.exists() {
            return Some(model.to_owned());
        }
        // `.` and `..` have no name of their own.
        let full = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let name = if full.is_file() { full.file_stem() } else { full.file_name() };
        Some(name.map_or_else(|| model.to_owned(), |name| name.to_string_lossy().into_owned()))
    }
}

/// A key of either table.
#[derive(Clone, Copy)]
enum AnyKey {
    OfGateway(&'static Key<Settings>),
    OfModel(&'static Key<ModelSettings>),
}

impl AnyKey {
    /// Finds a key by one of its names.
    fn by(
        name: &str,
        of_gateway: impl Fn(&Key<Settings>) -> String,
        of_model: impl Fn(&Key<ModelSettings>) -> String,
    ) -> Option<AnyKey> {
        let in_gateway = KEYS.iter().find(|key| of_gateway(key) == name).map(AnyKey::OfGateway);
        in_gateway.or_else(|| MODEL_KEYS.iter().find(|key| of_model(key) == name).map(AnyKey::OfModel))
    }

    fn flag(self) -> String {
        match self {
            AnyKey::OfGateway(key) => key.flag(),
            AnyKey::OfModel(key) => key.flag(),
        }
    }
}

fn all_paths() -> impl Iterator<Item = &'static str> {
    KEYS.iter().map(|key| key.path).chain(MODEL_KEYS.iter().map(|key| key.path))
}

/// What our environment variables begin with.
pub const PREFIX: &str = "ROLECALL_";

/// The environment variable that names the file.
pub const FILE_VARIABLE: &str = "ROLECALL_CONFIG";
