use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, object};
use toml::de::{DeTable, DeValue};

use super::{Command, Mcp};
use crate::{Isolation, KernelOptions};

/// A file that declares tools: commands, and MCP servers.
///
/// ```
/// use rolecall_interpreter::KernelOptions;
/// use rolecall_interpreter::agent::{Callable, ToolsFile};
/// let file = ToolsFile::read(r#"
/// [[tool]]
/// name = "weather"
/// description = "Get the weather"
/// argv = ["python3", "weather.py"]
/// timeout = 10
/// parameters = { type = "object", properties = { city = { type = "string" } } }
/// "#, ".".as_ref(), &KernelOptions::default())?;
/// assert_eq!(file.commands[0].name(), "weather");
/// # Ok::<(), rolecall_interpreter::agent::ToolsFileError>(())
/// ```
#[derive(Debug, Default)]
pub struct ToolsFile {
    /// The commands.
    pub commands: Vec<Arc<Command>>,
    /// The MCP servers. They are not connected yet.
    pub servers: Vec<Mcp>,
}

/// What is wrong with such a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolsFileError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for ToolsFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for ToolsFileError {}

/// Names that mean something else where tools are allowed.
pub(super) const RESERVED: [&str; 2] = ["code_interpreter", "all"];

const TOOL_KEYS: &[&str] = &["name", "description", "argv", "timeout", "sandbox", "read", "parameters"];
const MCP_KEYS: &[&str] = &["name", "argv", "url", "token_env", "timeout"];

impl ToolsFile {
    /// Reads a file. Paths in it are relative to `folder`, which may be empty, as that of a path without folders is.
    /// `options` say how commands are run.
    pub fn read(text: &str, folder: &Path, options: &KernelOptions) -> Result<ToolsFile, ToolsFileError> {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let line = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
        let failed = |at: usize, message: String| ToolsFileError { line: line(at), message };
        let table = DeTable::parse(text)
            .map_err(|error| failed(error.span().map_or(0, |span| span.start), error.message().to_owned()))?;
        let mut file = ToolsFile::default();
        for (key, value) in table.get_ref() {
            let at = key.span().start;
            let DeValue::Array(entries) = value.get_ref() else {
                return Err(failed(at, format!("expected `[[tool]]` or `[[mcp]]`, found `{}`", key.get_ref())));
            };
            for entry in entries {
                let at = entry.span().start;
                let DeValue::Table(table) = entry.get_ref() else { return Err(failed(at, "expected a table".into())) };
                let entry = ToolEntry { table, at };
                match key.get_ref().as_ref() {
                    "tool" => file
                        .commands
                        .push(Arc::new(entry.command(folder, options).map_err(|(at, why)| failed(at, why))?)),
                    "mcp" => file.servers.push(entry.server(folder).map_err(|(at, why)| failed(at, why))?),
                    other => return Err(failed(at, format!("expected `[[tool]]` or `[[mcp]]`, found `[[{other}]]`"))),
                }
            }
        }
        let mut names: Vec<&str> = file.commands.iter().map(|command| command.name.as_str()).collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(failed(0, format!("two tools have the name `{}`", pair[0]))),
            None => Ok(file),
        }
    }
}

/// A table of the file.
struct ToolEntry<'a> {
    table: &'a DeTable<'a>,
    at: usize,
}

type Found<T> = Result<T, (usize, String)>;

impl ToolEntry<'_> {
    fn get(&self, key: &str) -> Option<(usize, &DeValue<'_>)> {
        self.table
            .iter()
            .find(|(name, _)| name.get_ref() == key)
            .map(|(_, value)| (value.span().start, value.get_ref()))
    }

    fn check(&self, keys: &[&str]) -> Found<()> {
        match self.table.keys().find(|key| !keys.contains(&key.get_ref().as_ref())) {
            Some(key) => {
                Err((key.span().start, format!("expected one of {}, found `{}`", keys.join(", "), key.get_ref())))
            }
            None => Ok(()),
        }
    }

    fn text(&self, key: &str) -> Found<Option<String>> {
        match self.get(key) {
            None => Ok(None),
            Some((_, DeValue::String(text))) => Ok(Some(text.to_string())),
            Some((at, _)) => Err((at, format!("expected a text for `{key}`"))),
        }
    }

    fn texts(&self, key: &str) -> Found<Option<Vec<String>>> {
        let Some((at, value)) = self.get(key) else { return Ok(None) };
        let text = |value: &toml::Spanned<DeValue<'_>>| match value.get_ref() {
            DeValue::String(text) => Some(text.to_string()),
            _ => None,
        };
        let texts = value.as_array().and_then(|values| values.iter().map(text).collect::<Option<Vec<String>>>());
        texts.map(Some).ok_or_else(|| (at, format!("expected a list of texts for `{key}`")))
    }

    fn name(&self) -> Found<String> {
        let name = self.text("name")?.ok_or_else(|| (self.at, "expected a `name`".to_owned()))?;
        let is_good = !name.is_empty()
            && name.len() <= 64
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
        match is_good && !RESERVED.contains(&name.as_str()) {
            true => Ok(name),
            false => Err((
                self.at,
                format!("expected a name of at most 64 letters, digits, `_`, `-` and `.`, found `{name}`"),
            )),
        }
    }

    fn timeout(&self, usual: u64) -> Found<Duration> {
        let seconds = match self.get("timeout") {
            None => Some(usual as f64),
            Some((_, DeValue::Integer(value))) => value.to_string().parse().ok(),
            Some((_, DeValue::Float(value))) => value.to_string().parse().ok(),
            Some(_) => None,
        };
        let seconds =
            seconds.filter(|seconds| *seconds > 0.0).and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        seconds.ok_or_else(|| (self.at, "expected a number of seconds for `timeout`".to_owned()))
    }

    fn command(&self, folder: &Path, options: &KernelOptions) -> Found<Command> {
        self.check(TOOL_KEYS)?;
        let name = self.name()?;
        let mut options = options.clone();
        match self.get("sandbox") {
            None | Some((_, DeValue::Boolean(true))) => {}
            Some((_, DeValue::Boolean(false))) => options.isolation = Isolation::UnsafeNone,
            Some((at, _)) => return Err((at, "expected true or false for `sandbox`".into())),
        }
        let argv = self.texts("argv")?.filter(|argv| !argv.is_empty());
        let argv = argv.ok_or_else(|| (self.at, "expected `argv`: a program and its arguments".to_owned()))?;
        // What is a file beside this one is meant, and may be read.
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let mut readable: Vec<PathBuf> =
            self.texts("read")?.unwrap_or_default().iter().map(|path| folder.join(path)).collect();
        let argv = argv.into_iter().map(|argument| {
            let path = folder.join(&argument);
            match !argument.is_empty() && path.is_file() {
                true => {
                    readable.push(path.clone());
                    path.display().to_string()
                }
                false => argument,
            }
        });
        let argv = argv.collect();
        if let Some(missing) = readable.iter().find(|path| !path.exists()) {
            return Err((self.at, format!("there is no {}", missing.display())));
        }
        let mut function = object! { "name" => name.clone() };
        if let Some(description) = self.text("description")? {
            function.insert("description", description.into());
        }
        let parameters = match self.get("parameters") {
            None => object! { "type" => "object", "properties" => Object::new() }.into(),
            Some((_, value @ DeValue::Table(_))) => to_json(value),
            Some((at, _)) => return Err((at, "expected a JSON schema as a table for `parameters`".into())),
        };
        function.insert("parameters", parameters);
        let definition = object! { "type" => "function", "function" => function }.into();
        Ok(Command {
            name,
            definition,
            argv,
            timeout: self.timeout(30)?,
            readable,
            options,
            folder: None,
            beside: folder,
        })
    }

    fn server(&self, folder: &Path) -> Found<Mcp> {
        self.check(MCP_KEYS)?;
        let (name, timeout) = (self.name()?, self.timeout(30)?);
        let token_variable = self.text("token_env")?;
        match (self.texts("argv")?.filter(|argv| !argv.is_empty()), self.text("url")?) {
            (Some(_), None) if token_variable.is_some() => {
                Err((self.at, "`token_env` is for servers with a `url`: a program has the environment".into()))
            }
            (Some(argv), None) => Ok(Mcp::program(name, argv, folder.to_owned(), timeout)),
            (None, Some(url)) if token_variable.is_some() && !is_private(&url) => {
                Err((self.at, "a token is sent by https, or to this machine: expected `https://` in `url`".into()))
            }
            (None, Some(url)) => Ok(Mcp::at(name, url, token_variable, timeout)),
            _ => Err((self.at, "expected either `argv` or `url`".into())),
        }
    }
}

/// Reports whether nobody on the way reads what is sent to an address.
fn is_private(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("http://") else { return url.starts_with("https://") };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    ["127.0.0.1", "localhost", "[::1]"]
        .iter()
        .any(|own| host == *own || host.strip_prefix(own).is_some_and(|port| port.starts_with(':')))
}

fn to_json(value: &DeValue<'_>) -> Json {
    match value {
        DeValue::String(text) => text.to_string().into(),
        DeValue::Boolean(value) => (*value).into(),
        DeValue::Array(values) => values.iter().map(|value| to_json(value.get_ref())).collect::<Vec<Json>>().into(),
        DeValue::Table(table) => {
            // The table is sorted. A model reads a schema as it was written.
            let mut entries: Vec<_> = table.iter().collect();
            entries.sort_by_key(|(key, _)| key.span().start);
            let entries = entries.into_iter().map(|(key, value)| (key.get_ref().to_string(), to_json(value.get_ref())));
            Json::Object(entries.collect::<Object>())
        }
        DeValue::Integer(number) => number.to_string().parse::<i64>().map_or(Json::Null, Into::into),
        DeValue::Float(number) => {
            let spelling = number.to_string();
            rolecall::conversation::json::parse(&spelling).unwrap_or_else(|_| spelling.into())
        }
        DeValue::Datetime(time) => time.to_string().into(),
    }
}
