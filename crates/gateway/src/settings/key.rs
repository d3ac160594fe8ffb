use std::path::{Path, PathBuf};
use std::time::Duration;

use rolecall::session::OnRewrite;

use super::fault::{SettingFault, SettingPlace};
use super::value::{self, RawValue};
use super::{ModelSettings, PREFIX, Settings};
use crate::engine::EngineKind;
use crate::http::sites::{is_host, is_origin};
use crate::turn::sessions::record::{POLICIES, name_of, policy_of};

/// A setting of a gateway (`T` is [`Settings`]) or of one of its models ([`ModelSettings`]).
#[derive(Debug)]
pub struct Key<T: 'static> {
    /// The path in the file: `limits.requests`. Keys of models have only their own name.
    pub path: &'static str,
    /// What it does, for the help and the manual.
    pub about: &'static str,
    /// What it may be, and where it is kept.
    pub slot: Slot<T>,
}

/// The type of a setting, and where it is kept.
#[derive(Debug)]
pub enum Slot<T> {
    /// Any text.
    Text(fn(&mut T) -> &mut String),
    /// Any text, or nothing.
    Name(fn(&mut T) -> &mut Option<String>),
    /// Origins of pages.
    Origins(fn(&mut T) -> &mut Vec<String>),
    /// Names of hosts.
    Hosts(fn(&mut T) -> &mut Vec<String>),
    /// A path. One in a file is relative to the file.
    Path(fn(&mut T) -> &mut Option<PathBuf>),
    /// A path if there is such a file, otherwise a name.
    PathOrName(fn(&mut T) -> &mut Option<String>),
    /// An engine's address, or `local:` with a path.
    Engine(fn(&mut T) -> &mut Option<String>),
    /// A store: `memory`, an address, or a path.
    Store(fn(&mut T) -> &mut String),
    /// A kind of engine.
    Kind(fn(&mut T) -> &mut Option<EngineKind>),
    /// What to do with history that a template rewrites.
    Rewrite(fn(&mut T) -> &mut Option<OnRewrite>),
    /// One of these words.
    Word(&'static [&'static str], fn(&mut T) -> &mut Option<&'static str>),
    /// A whole number from 1.
    Count(fn(&mut T) -> &mut usize),
    /// A number of bytes, such as `8MiB`.
    Size(fn(&mut T) -> &mut usize),
    /// A number of bytes on a disk.
    Space(fn(&mut T) -> &mut u64),
    /// A time, such as `30s`.
    Time(fn(&mut T) -> &mut Duration),
    /// `true` or `false`.
    Switch(fn(&mut T) -> &mut bool),
}

/// The settings of a gateway.
pub static KEYS: &[Key<Settings>] = &[
    Key { path: "listen", about: "The address to listen on", slot: Slot::Text(|all| &mut all.listen) },
    Key {
        path: "keys",
        about: "A file with the API keys, one per line: the key itself, or `sha256:` and its digest in hexadecimal. \
                Without it, everybody may use the gateway",
        slot: Slot::Path(|all| &mut all.keys),
    },
    Key {
        path: "allowed_origins",
        about: "The other origins whose pages may use the gateway from a browser, such as `https://chat.example.com`; \
                or `*` for all. Without keys, requests of other pages are refused",
        slot: Slot::Origins(|all| &mut all.sites.origins),
    },
    Key {
        path: "allowed_hosts",
        about: "More names by which clients may call a gateway without keys, such as `chat.example.com`; or `*` for \
                all. Without it, the names of the machine itself; if other machines reach the gateway, also addresses \
                and names without a dot",
        slot: Slot::Hosts(|all| &mut all.sites.hosts),
    },
    Key {
        path: "drain",
        about: "How long running requests may go on after SIGTERM or SIGINT, before they are cut",
        slot: Slot::Time(|all| &mut all.drain),
    },
    Key {
        path: "store.at",
        about: "Where conversations are kept: a file; Redis or Valkey, which several gateways can share, as \
                redis://HOST:PORT; or `memory`, until the gateway ends",
        slot: Slot::Store(|all| &mut all.store),
    },
    Key {
        path: "store.bytes",
        about: "The most bytes of all conversations, in a file or in memory",
        slot: Slot::Space(|all| &mut all.bounds.most_bytes),
    },
    Key {
        path: "store.age",
        about: "How long a conversation is kept after it was last used",
        slot: Slot::Time(|all| &mut all.bounds.most_age),
    },
    Key {
        path: "log_content",
        about: "Whether the log contains what is said: requests and replies. It never contains keys",
        slot: Slot::Switch(|all| &mut all.log_content),
    },
    Key {
        path: "traces.endpoint",
        about: "The OpenTelemetry collector that gets traces, by OTLP over HTTP in JSON: http://HOST:4318. Without it, \
                that of the environment variable OTEL_EXPORTER_OTLP_ENDPOINT, or none",
        slot: Slot::Name(|all| &mut all.traces),
    },
    Key {
        path: "local.server",
        about: "The program that `--engine local:FILE` starts. Without it and `local.python`, `llama-server` on the path",
        slot: Slot::Path(|all| &mut all.local.server),
    },
    Key {
        path: "local.python",
        about: "The Python interpreter, which has the package xllamacpp, that `--engine local:FILE` starts. Without it, \
                `python3` if there is no `llama-server`",
        slot: Slot::Path(|all| &mut all.local.python),
    },
    Key {
        path: "local.context",
        about: "The most ids of a prompt and its reply of an engine that is started, for all replies together. Without \
                it, the engine's own default",
        slot: Slot::Count(|all| &mut all.local.context),
    },
    Key {
        path: "local.parallel",
        about: "The number of replies at the same time of an engine that is started. Without it, its own default",
        slot: Slot::Count(|all| &mut all.local.parallel),
    },
    Key {
        path: "local.threads",
        about: "The number of threads of an engine that is started. Without it, its own default",
        slot: Slot::Count(|all| &mut all.local.threads),
    },
    Key {
        path: "interpreter.enabled",
        about: "Whether the code of models runs here, in a sandbox, for requests to `/v1/responses` that ask for a \
                container. Without it, clients run the code. `rolecall interpreter --check` says what is missing for it",
        slot: Slot::Switch(|all| &mut all.containers.is_on),
    },
    Key {
        path: "interpreter.containers",
        about: "The most containers of code at the same time",
        slot: Slot::Count(|all| &mut all.containers.most),
    },
    Key {
        path: "interpreter.idle",
        about: "How long a container is kept after it was last used",
        slot: Slot::Time(|all| &mut all.containers.idle),
    },
    Key {
        path: "interpreter.file_bytes",
        about: "The most bytes of all files that clients have uploaded to `/v1/files`, which are kept in memory",
        slot: Slot::Size(|all| &mut all.containers.file_bytes),
    },
    Key {
        path: "interpreter.time",
        about: "The time that one run of code may take",
        slot: Slot::Time(|all| &mut all.containers.kernel.limits.wall_time),
    },
    Key {
        path: "interpreter.memory",
        about: "The memory of the code of one container",
        slot: Slot::Space(|all| &mut all.containers.kernel.limits.memory),
    },
    Key {
        path: "interpreter.python",
        about: "The Python interpreter that has the package ipykernel. Without it, the one that \
                `rolecall interpreter --check` names",
        slot: Slot::Path(|all| &mut all.containers.kernel.python),
    },
    Key {
        path: "tools",
        about: "A file that declares MCP servers (`[[mcp]]`), as `rolecall chat --tools` takes it. Their tools run here, \
                for requests to `/v1/responses` that name a server. Without it, there are none",
        slot: Slot::Path(|all| &mut all.tools),
    },
    Key {
        path: "limits.requests",
        about: "The most requests at the same time. More get the status 429",
        slot: Slot::Count(|all| &mut all.limits.requests),
    },
    Key {
        path: "limits.connections",
        about: "The most connections at the same time. More wait",
        slot: Slot::Count(|all| &mut all.limits.connections),
    },
    Key {
        path: "limits.head_bytes",
        about: "The most bytes of a request's head",
        slot: Slot::Size(|all| &mut all.limits.head_bytes),
    },
    Key {
        path: "limits.head_time",
        about: "How long a request's head may take to arrive, and how long a connection may be without a request",
        slot: Slot::Time(|all| &mut all.limits.head),
    },
    Key {
        path: "limits.body_bytes",
        about: "The most bytes of a request",
        slot: Slot::Size(|all| &mut all.limits.body_bytes),
    },
    Key {
        path: "limits.body_time",
        about: "How long a request's body may take to arrive",
        slot: Slot::Time(|all| &mut all.limits.body),
    },
    Key {
        path: "limits.messages",
        about: "The most messages of a request",
        slot: Slot::Count(|all| &mut all.limits.messages),
    },
    Key {
        path: "limits.prompt_ids",
        about: "The most token ids of a prompt",
        slot: Slot::Count(|all| &mut all.limits.prompt_ids),
    },
    Key {
        path: "limits.first_id",
        about: "How long the engine may take until its first token",
        slot: Slot::Time(|all| &mut all.limits.first_id),
    },
    Key {
        path: "limits.next_id",
        about: "How long the engine may pause between tokens, and a client in reading them",
        slot: Slot::Time(|all| &mut all.limits.next_id),
    },
    Key {
        path: "limits.live_ids",
        about: "The most token ids of all conversations in memory, with 4 bytes of text as one. The rest is read from the store",
        slot: Slot::Count(|all| &mut all.limits.live_ids),
    },
];

/// The settings of a model. In the file, each model is a table `[[models]]`.
pub static MODEL_KEYS: &[Key<ModelSettings>] = &[
    Key {
        path: "model",
        about: "The model: its folder, a GGUF file, or its name",
        slot: Slot::PathOrName(|model| &mut model.model),
    },
    Key {
        path: "engine",
        about: "The engine's address: http://HOST:PORT, or local:FILE.gguf, for which llama.cpp's server is started",
        slot: Slot::Engine(|model| &mut model.engine),
    },
    Key { path: "engine_kind", about: "The kind of engine", slot: Slot::Kind(|model| &mut model.engine_kind) },
    Key {
        path: "engine_model",
        about: "The engine's name for the model, or for a LoRA adapter, if it serves several",
        slot: Slot::Name(|model| &mut model.engine_model),
    },
    Key {
        path: "name",
        about: "The model's name in requests. Without it, the end of the model's path",
        slot: Slot::Name(|model| &mut model.name),
    },
    Key {
        path: "tokenizer",
        about: "The tokenizer, if it is not the model's own: a file, or a folder that contains one",
        slot: Slot::Path(|model| &mut model.tokenizer),
    },
    Key {
        path: "format",
        about: "The format to render with instead of the model's own template: a name or a .toml file",
        slot: Slot::PathOrName(|model| &mut model.format),
    },
    Key {
        path: "template",
        about: "The chat template to render with instead of the model's own: a file or a folder",
        slot: Slot::Path(|model| &mut model.template),
    },
    Key {
        path: "template_python",
        about: "A chat template that is code: a Python file or module with a class as LMDeploy's, which renders in a \
                process of its own. FILE.py:NAME is one of several. The package `rolecall` must be installed",
        slot: Slot::PathOrName(|model| &mut model.template_python),
    },
    Key {
        path: "python",
        about: "The Python interpreter for `template_python`, for which the path is not searched. Without it, `python3`",
        slot: Slot::Path(|model| &mut model.python),
    },
    Key {
        path: "plain_markers",
        about: "Whether markers that the template writes around turns may be text instead of tokens",
        slot: Slot::Switch(|model| &mut model.plain_markers),
    },
    Key {
        path: "on_rewrite",
        about: "What to do if the model's template rewrites what was sent in earlier turns: `rewrite` it, as the \
                model was trained; `keep` what was sent, which costs nothing; or `refuse` the request. Without it, \
                `rewrite`",
        slot: Slot::Rewrite(|model| &mut model.on_rewrite),
    },
    Key {
        path: "calls_in_reasoning",
        about: "What a tool call inside reasoning is, unless a request says otherwise: a call if the turn ends after \
                it and the reasoning is never closed (`unclosed`), reasoning (`draft`), or a `call`. Without it, as \
                the model's format says, or `unclosed`",
        slot: Slot::Word(&["unclosed", "draft", "call"], |model| &mut model.calls_in_reasoning),
    },
    Key {
        path: "unclosed_reasoning",
        about: "What reasoning is that is open when the model ends its turn, unless a request says otherwise: \
                `reasoning`, or `content`, for which reasoning is held back until it is closed. Without it, \
                `reasoning`",
        slot: Slot::Word(&["reasoning", "content"], |model| &mut model.unclosed_reasoning),
    },
];

impl<T> Key<T> {
    /// Returns the flag: `--limits-requests`.
    pub fn flag(&self) -> String {
        format!("--{}", self.path.replace(['.', '_'], "-"))
    }

    /// Returns the environment variable: `ROLECALL_LIMITS_REQUESTS`.
    pub fn variable(&self) -> String {
        format!("{PREFIX}{}", self.path.replace('.', "_").to_uppercase())
    }

    /// Returns what stands for the value in the help.
    pub fn value_name(&self) -> String {
        match &self.slot {
            Slot::Text(_) => "ADDRESS".to_owned(),
            Slot::Store(_) => "PATH|URL|memory".to_owned(),
            Slot::Name(_) => "NAME".to_owned(),
            Slot::Origins(_) => "ORIGIN,..".to_owned(),
            Slot::Hosts(_) => "HOST,..".to_owned(),
            Slot::Path(_) => "PATH".to_owned(),
            Slot::PathOrName(_) => "PATH|NAME".to_owned(),
            Slot::Engine(_) => "URL".to_owned(),
            Slot::Kind(_) => EngineKind::ALL.map(|(word, _)| word).join("|"),
            Slot::Rewrite(_) => POLICIES.map(name_of).join("|"),
            Slot::Word(words, _) => words.join("|"),
            Slot::Count(_) => "N".to_owned(),
            Slot::Size(_) | Slot::Space(_) => "BYTES".to_owned(),
            Slot::Time(_) => "TIME".to_owned(),
            Slot::Switch(_) => "true|false".to_owned(),
        }
    }

    /// Returns the value as text. Passwords in addresses are left out.
    pub fn shown(&self, settings: &T) -> String
    where
        T: Clone,
    {
        let settings = &mut settings.clone();
        match &self.slot {
            Slot::Text(of) | Slot::Store(of) => without_password(of(settings)),
            Slot::Name(of) | Slot::PathOrName(of) | Slot::Engine(of) => {
                of(settings).as_deref().map_or(String::new(), without_password)
            }
            Slot::Origins(of) | Slot::Hosts(of) => of(settings).join(", "),
            Slot::Path(of) => of(settings).as_ref().map_or(String::new(), |path| path.display().to_string()),
            Slot::Kind(of) => of(settings).map_or(String::new(), |kind| kind.word().to_owned()),
            Slot::Rewrite(of) => of(settings).map_or(String::new(), |on| name_of(on).to_owned()),
            Slot::Word(_, of) => of(settings).unwrap_or_default().to_owned(),
            Slot::Count(of) => of(settings).to_string(),
            Slot::Size(of) => value::shown_size(*of(settings) as u64),
            Slot::Space(of) => value::shown_size(*of(settings)),
            Slot::Time(of) => value::shown_time(*of(settings)),
            Slot::Switch(of) => of(settings).to_string(),
        }
    }

    /// Sets the value. `folder` is that of the file, if the value is from a file.
    pub(super) fn set(
        &self,
        settings: &mut T,
        given: &RawValue<'_>,
        folder: Option<&Path>,
        place: &SettingPlace,
    ) -> Result<(), SettingFault> {
        let wrong = |wanted: &str| {
            let message = format!("{}: expected {wanted}, found {given}", self.path);
            SettingFault::new("wrong_value", place.clone(), message)
        };
        let text = || given.text().filter(|text| !text.is_empty()).ok_or_else(|| wrong("a text"));
        let under = |path: &str| folder.map_or_else(|| PathBuf::from(path), |folder| folder.join(path));
        match &self.slot {
            Slot::Text(of) => *of(settings) = text()?.to_owned(),
            Slot::Name(of) => *of(settings) = Some(text()?.to_owned()),
            Slot::Origins(of) => {
                *of(settings) =
                    list(given, is_origin).ok_or_else(|| wrong("origins, such as `https://chat.example.com`"))?
            }
            Slot::Hosts(of) => {
                *of(settings) = list(given, is_host)
                    .ok_or_else(|| wrong("names of hosts without ports, such as `chat.example.com`"))?;
            }
            Slot::Path(of) => *of(settings) = Some(under(text()?)),
            Slot::PathOrName(of) => {
                let text = text()?;
                // One of several templates in a file: `FILE.py:NAME`.
                let file = text.rsplit_once(':').map_or(text, |(file, _)| file);
                let is_path = folder.is_some() && (under(text).exists() || under(file).is_file());
                *of(settings) = Some(if is_path { under(text).display().to_string() } else { text.to_owned() });
            }
            Slot::Engine(of) => {
                let text = text()?;
                let local = text.strip_prefix("local:").map(|path| format!("local:{}", under(path).display()));
                *of(settings) = Some(local.unwrap_or_else(|| text.to_owned()));
            }
            Slot::Store(of) => {
                let text = text()?;
                let is_path = text != "memory" && !text.contains("://");
                *of(settings) = if is_path { under(text).display().to_string() } else { text.to_owned() };
            }
            Slot::Kind(of) => {
                let known = EngineKind::of_word(text()?);
                let words = EngineKind::ALL.map(|(word, _)| format!("`{word}`")).join(", ");
                *of(settings) = Some(known.ok_or_else(|| wrong(&format!("one of {words}")))?);
            }
            Slot::Rewrite(of) => {
                let words = POLICIES.map(|on| format!("`{}`", name_of(on))).join(", ");
                *of(settings) = Some(policy_of(text()?).ok_or_else(|| wrong(&format!("one of {words}")))?);
            }
            Slot::Word(words, of) => {
                let word = text()?;
                let known = words.iter().find(|known| **known == word).copied();
                let words = || words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
                *of(settings) = Some(known.ok_or_else(|| wrong(&format!("one of {}", words())))?);
            }
            Slot::Count(of) => {
                *of(settings) =
                    given.count().filter(|count| *count > 0).ok_or_else(|| wrong("a whole number from 1"))?;
            }
            Slot::Size(of) => {
                *of(settings) =
                    given.size().ok_or_else(|| wrong("a number of bytes, such as 4096, `512KiB` or `8MiB`"))?;
            }
            Slot::Space(of) => {
                let size = given.size().ok_or_else(|| wrong("a number of bytes, such as `512MiB` or `8GiB`"))?;
                *of(settings) = size as u64;
            }
            Slot::Time(of) => {
                *of(settings) = given.time().ok_or_else(|| wrong("a time, such as `500ms`, `30s`, `5m` or `1h`"))?;
            }
            Slot::Switch(of) => *of(settings) = given.switch().ok_or_else(|| wrong("`true` or `false`"))?,
        }
        Ok(())
    }
}

/// Returns a list of which every item is good.
fn list(given: &RawValue<'_>, is_good: fn(&str) -> bool) -> Option<Vec<String>> {
    let texts = given.texts()?;
    texts.iter().all(|text| is_good(text)).then(|| texts.into_iter().map(str::to_owned).collect())
}

/// Returns an address without the password in it.
fn without_password(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else { return address.to_owned() };
    let host = rest.split(['/', '?']).next().unwrap_or_default();
    match host.rfind('@') {
        Some(at) => format!("{scheme}://***{}", &rest[at..]),
        None => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{KEYS, MODEL_KEYS, without_password};

    #[test]
    fn a_key_has_one_flag_and_one_variable_of_its_own() {
        let all = KEYS.iter().map(|key| (key.flag(), key.variable()));
        let all: Vec<_> = all.chain(MODEL_KEYS.iter().map(|key| (key.flag(), key.variable()))).collect();
        for (at, (flag, variable)) in all.iter().enumerate() {
            assert!(!all[..at].iter().any(|(known, other)| known == flag || other == variable), "{flag}");
        }
    }

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(without_password("redis://user:secret@host:1/2"), "redis://***@host:1/2");
        assert_eq!(without_password("redis://:se@cret@host"), "redis://***@host");
        assert_eq!(without_password("http://host/a@b"), "http://host/a@b");
        assert_eq!(without_password("127.0.0.1:8000"), "127.0.0.1:8000");
    }
}
