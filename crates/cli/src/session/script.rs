//! Reads the lines of a session's script.

use std::fmt;

use rolecall::Request;
use rolecall::conversation::json::{self, Object};
use rolecall::conversation::{Json, Message};
use rolecall::session::{Finish, Keep, OnRewrite, Seams};

use crate::refusal::Refusal;

/// The operations, in the order of the documentation.
const OPERATIONS: [&str; 11] =
    ["append", "plan", "open", "accept", "close", "truncate", "difference", "save", "fork", "switch", "import"];

/// The keys of a request, any of which makes the first line a request.
const OF_REQUEST: [&str; 5] = ["messages", "tools", "documents", "options", "chat_template_kwargs"];

/// One step of a session.
#[derive(Debug)]
pub enum ScriptStep {
    /// The first line may be a request: tools, switches, and the first messages.
    Request(Box<Request>),
    Append {
        messages: Vec<Message>,
        /// Tools, documents and switches that apply from now on.
        with: Option<Box<Request>>,
        on: OnRewrite,
    },
    Plan {
        messages: Vec<Message>,
        with: Option<Box<Request>>,
    },
    Open,
    Accept {
        said: ScriptOutput,
        finish: Finish,
    },
    Close,
    Truncate(Keep),
    Difference,
    Save,
    /// Begins with a saved session.
    Restore(String),
    /// Begins with a conversation that already has replies.
    Import {
        request: Box<Request>,
        seams: Seams,
    },
    /// Gives the session as it is now a name.
    Fork(String),
    /// Goes on with the session of this name.
    Switch(String),
}

/// What the model sampled.
#[derive(Debug)]
pub enum ScriptOutput {
    Ids(Vec<u32>),
    /// A text that stands for the ids: text that spells a control token is this token.
    Text(String),
}

/// A line that is no step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadStep {
    /// The line is not JSON, or has a key twice.
    NotJson(json::ParseError),
    /// The line is not an object.
    NotAnObject { found: String },
    /// The line has none of the operations.
    NoOperation { found: Option<String> },
    /// The line has two of them.
    TwoOperations { first: &'static str, second: &'static str },
    /// A request after the first line.
    LateRequest,
    /// An import or a saved session after the first line.
    LateImport,
    /// A key that the operation does not have.
    UnknownKey { operation: &'static str, key: String },
    /// A value of the wrong type.
    Wrong { field: &'static str, expected: &'static str, found: String },
}

impl ScriptStep {
    /// Returns the name of the operation.
    pub fn name(&self) -> &'static str {
        match self {
            ScriptStep::Request(_) => "request",
            ScriptStep::Append { .. } => "append",
            ScriptStep::Plan { .. } => "plan",
            ScriptStep::Open => "open",
            ScriptStep::Accept { .. } => "accept",
            ScriptStep::Close => "close",
            ScriptStep::Truncate(_) => "truncate",
            ScriptStep::Difference => "difference",
            ScriptStep::Save => "save",
            ScriptStep::Restore(_) => "restore",
            ScriptStep::Import { .. } => "import",
            ScriptStep::Fork(_) => "fork",
            ScriptStep::Switch(_) => "switch",
        }
    }
}

impl BadStep {
    /// Returns a stable code for the kind of mistake.
    pub fn code(&self) -> &'static str {
        match self {
            BadStep::NotJson(error) if error.is_key_twice => "duplicate_key",
            BadStep::NotJson(_) => "not_json",
            _ => "bad_step",
        }
    }

    /// Returns the field at fault.
    pub fn field(&self) -> String {
        match self {
            BadStep::NotJson(_) | BadStep::NotAnObject { .. } => String::new(),
            BadStep::NoOperation { found } => found.clone().unwrap_or_default(),
            BadStep::TwoOperations { second, .. } => (*second).to_owned(),
            BadStep::LateRequest => String::new(),
            BadStep::LateImport => "import".to_owned(),
            BadStep::UnknownKey { key, .. } => key.clone(),
            BadStep::Wrong { field, .. } => (*field).to_owned(),
        }
    }

    pub fn help(&self) -> String {
        match self {
            BadStep::NotJson(error) if error.is_key_twice => {
                "remove one of the keys: only one of them would be read".into()
            }
            BadStep::NotJson(_) => "write each step on one line, as a JSON object such as {\"open\": true}".into(),
            BadStep::NotAnObject { .. } | BadStep::NoOperation { .. } | BadStep::TwoOperations { .. } => {
                format!("write one operation per line: {}", listed(&OPERATIONS))
            }
            BadStep::LateRequest => "add messages with `append`, and other tools or switches as its `with`".into(),
            BadStep::LateImport => "make it the first line".into(),
            BadStep::UnknownKey { operation, .. } => match extra_keys(operation) {
                [] => format!("write only `{operation}`, and an `id` if you want one"),
                keys => format!("beside `{operation}`, a step may have {} and an `id`", listed(keys)),
            },
            BadStep::Wrong { .. } => "`rolecall session --help` lists the steps".into(),
        }
    }
}

impl fmt::Display for BadStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The place has the column.
            BadStep::NotJson(error) if error.is_key_twice => f.write_str(&error.message),
            BadStep::NotJson(error) => write!(f, "not JSON: {}", error.message),
            BadStep::NotAnObject { found } => write!(f, "expected an object, found {found}"),
            BadStep::NoOperation { found: Some(key) } => write!(f, "unknown operation `{key}`"),
            BadStep::NoOperation { found: None } => f.write_str("expected an operation, found none"),
            BadStep::TwoOperations { first, second } => {
                write!(f, "expected one operation, found `{first}` and `{second}`")
            }
            BadStep::LateRequest => f.write_str("expected a step, found a request, which can only be the first line"),
            BadStep::LateImport => f.write_str("only the first line can import a conversation or restore a session"),
            BadStep::UnknownKey { operation, key } => write!(f, "unknown key `{key}` of `{operation}`"),
            BadStep::Wrong { field, expected, found } => write!(f, "`{field}`: expected {expected}, found {found}"),
        }
    }
}

/// Returns the operation that a line names, even if the line is refused.
pub fn operation_of(text: &str) -> Option<&'static str> {
    let value = json::parse(text).ok()?;
    let object = value.as_object()?;
    if is_saved(object) {
        return Some("restore");
    }
    OPERATIONS.into_iter().find(|operation| object.get(operation).is_some())
}

/// Reads a line. Only the first one may be a request.
pub fn read_line(text: &str, is_first: bool) -> Result<ScriptStep, Refusal> {
    let value = json::parse_unique(text).map_err(BadStep::NotJson)?;
    let mut object = match value {
        Json::Object(object) => object,
        messages @ Json::Array(_) if is_first => return Ok(ScriptStep::Request(request(messages)?)),
        other => return Err(BadStep::NotAnObject { found: kind(&other) }.into()),
    };
    if is_saved(&object) {
        return match is_first {
            true => Ok(ScriptStep::Restore(text.trim().to_owned())),
            false => Err(BadStep::LateImport.into()),
        };
    }
    let mut found = OPERATIONS.into_iter().filter(|operation| object.get(operation).is_some());
    let (first, second) = (found.next(), found.next());
    let Some(operation) = first else {
        if is_first {
            return Ok(ScriptStep::Request(request(Json::Object(object))?));
        }
        let mut keys = object.iter().map(|(key, _)| key).filter(|key| *key != "id");
        let found = keys.next().map(str::to_owned);
        let is_late = object.iter().any(|(key, _)| OF_REQUEST.contains(&key));
        return Err(if is_late { BadStep::LateRequest } else { BadStep::NoOperation { found } }.into());
    };
    if let Some(second) = second {
        return Err(BadStep::TwoOperations { first: operation, second }.into());
    }
    let extra = extra_keys(operation);
    let is_known = |key: &str| key == operation || key == "id" || extra.contains(&key);
    if let Some((key, _)) = object.iter().find(|(key, _)| !is_known(key)) {
        return Err(BadStep::UnknownKey { operation, key: key.to_owned() }.into());
    }
    let value = object.remove(operation).unwrap_or(Json::Null);
    Ok(match operation {
        "append" => ScriptStep::Append {
            on: rewriting(object.remove("on_rewrite"))?,
            with: object.remove("with").map(with).transpose()?,
            messages: messages("append", value)?,
        },
        "plan" => {
            ScriptStep::Plan { with: object.remove("with").map(with).transpose()?, messages: messages("plan", value)? }
        }
        "accept" => ScriptStep::Accept { finish: finish(object.remove("finish"))?, said: said(value)? },
        "fork" => ScriptStep::Fork(name("fork", value)?),
        "switch" => ScriptStep::Switch(name("switch", value)?),
        "open" => bare("open", &value, ScriptStep::Open)?,
        "close" => bare("close", &value, ScriptStep::Close)?,
        "truncate" => ScriptStep::Truncate(keep(value)?),
        "save" => bare("save", &value, ScriptStep::Save)?,
        "difference" => bare("difference", &value, ScriptStep::Difference)?,
        _ if !is_first => return Err(BadStep::LateImport.into()),
        _ => ScriptStep::Import { seams: seams(object.remove("seams"))?, request: request(value)? },
    })
}

/// Reports whether an object is a saved session.
fn is_saved(object: &Object) -> bool {
    let other = OPERATIONS.into_iter().chain(["messages"]).any(|key| object.get(key).is_some());
    object.get("version").is_some() && !other
}

/// Returns the keys that an operation has beside its own.
fn extra_keys(operation: &str) -> &'static [&'static str] {
    match operation {
        "append" => &["with", "on_rewrite"],
        "plan" => &["with"],
        "accept" => &["finish"],
        "import" => &["seams"],
        _ => &[],
    }
}

fn request(value: Json) -> Result<Box<Request>, Refusal> {
    Ok(Box::new(match value {
        Json::Object(object) if is_empty(object.get("messages")) => Request::without_messages(object)?,
        Json::Array(list) if list.is_empty() => Request::without_messages(Object::new())?,
        value => Request::from_json(value)?,
    }))
}

/// Reads the tools, documents and switches that apply from a step on.
fn with(value: Json) -> Result<Box<Request>, Refusal> {
    match value {
        Json::Object(object) if is_empty(object.get("messages")) => Ok(Box::new(Request::without_messages(object)?)),
        Json::Object(_) => {
            let (expected, found) = ("an object with `tools`, `documents` or switches", "`messages`".to_owned());
            Err(BadStep::Wrong { field: "with", expected, found }.into())
        }
        other => Err(wrong("with", "an object with `tools`, `documents` or switches", &other).into()),
    }
}

fn is_empty(messages: Option<&Json>) -> bool {
    messages.is_none_or(|messages| messages.is_null() || messages.as_array().is_some_and(<[Json]>::is_empty))
}

/// Reads messages as a request does. One message need not be in a list.
fn messages(field: &'static str, value: Json) -> Result<Vec<Message>, Refusal> {
    let list = match value {
        Json::Array(list) if list.is_empty() => return Ok(Vec::new()),
        Json::Array(list) => list,
        message @ Json::Object(_) => vec![message],
        other => return Err(wrong(field, "a message or a list of messages", &other).into()),
    };
    let object: Object = [("messages".to_owned(), Json::Array(list))].into_iter().collect();
    Ok(Request::from_json(Json::Object(object))?.conversation.messages)
}

fn said(value: Json) -> Result<ScriptOutput, BadStep> {
    let expected = "an object with `ids` or `text`";
    let Json::Object(mut object) = value else { return Err(wrong("accept", expected, &value)) };
    if object.len() != 1 {
        let keys: Vec<&str> = object.iter().map(|(key, _)| key).collect();
        return Err(BadStep::Wrong { field: "accept", expected, found: listed(&keys) });
    }
    match (object.remove("ids"), object.remove("text")) {
        (Some(Json::Array(ids)), _) => Ok(ScriptOutput::Ids(ids.iter().map(token_id).collect::<Result<_, _>>()?)),
        (Some(other), _) => Err(wrong("accept.ids", "a list of ids", &other)),
        (None, Some(Json::String(text))) => Ok(ScriptOutput::Text(text)),
        (None, Some(other)) => Err(wrong("accept.text", "a text", &other)),
        (None, None) => {
            let keys: Vec<&str> = object.iter().map(|(key, _)| key).collect();
            Err(BadStep::Wrong { field: "accept", expected, found: listed(&keys) })
        }
    }
}

fn token_id(value: &Json) -> Result<u32, BadStep> {
    number(value).ok_or_else(|| wrong("accept.ids", "ids, which are numbers from 0", value))
}

fn finish(value: Option<Json>) -> Result<Finish, BadStep> {
    let words = [("stop", Finish::Stop), ("length", Finish::Length), ("abort", Finish::Abort)];
    word("finish", "`stop`, `length` or `abort`", value, &words)
}

fn rewriting(value: Option<Json>) -> Result<OnRewrite, BadStep> {
    let words = [("refuse", OnRewrite::Refuse), ("keep", OnRewrite::Keep), ("rewrite", OnRewrite::Rewrite)];
    word("on_rewrite", "`refuse`, `keep` or `rewrite`", value, &words)
}

fn seams(value: Option<Json>) -> Result<Seams, BadStep> {
    word("seams", "`live` or `whole`", value, &[("live", Seams::Live), ("whole", Seams::Whole)])
}

/// Reads one of several words. `expected` lists them; without a value, it is the default one.
fn word<T: Copy + Default>(
    field: &'static str,
    expected: &'static str,
    value: Option<Json>,
    words: &[(&str, T)],
) -> Result<T, BadStep> {
    let value = value.unwrap_or(Json::Null);
    if value.is_null() {
        return Ok(T::default());
    }
    let found = words.iter().find(|(name, _)| value.as_str() == Some(name));
    found.map(|(_, word)| *word).ok_or_else(|| wrong(field, expected, &value))
}

fn keep(value: Json) -> Result<Keep, BadStep> {
    let expected = "an object with a number of `turns` or `ids`";
    let Json::Object(mut object) = value else { return Err(wrong("truncate", expected, &value)) };
    let (turns, ids) = (object.remove("turns"), object.remove("ids"));
    let count = |value: &Json| number(value).ok_or_else(|| wrong("truncate", expected, value));
    match (turns, ids, object.is_empty()) {
        (Some(turns), None, true) => Ok(Keep::Turns(count(&turns)?)),
        (None, Some(ids), true) => Ok(Keep::Ids(count(&ids)?)),
        _ => Err(wrong("truncate", expected, &Json::Object(object))),
    }
}

/// Returns a whole number from 0.
fn number<N: std::str::FromStr>(value: &Json) -> Option<N> {
    match value {
        Json::Number(_) => json::write(value, &json::Layout::compact()).parse().ok(),
        _ => None,
    }
}

fn name(field: &'static str, value: Json) -> Result<String, BadStep> {
    match value {
        Json::String(name) if !name.is_empty() => Ok(name),
        other => Err(wrong(field, "a name", &other)),
    }
}

fn bare(field: &'static str, value: &Json, step: ScriptStep) -> Result<ScriptStep, BadStep> {
    match value {
        Json::Bool(true) => Ok(step),
        other => Err(wrong(field, "true", other)),
    }
}

fn wrong(field: &'static str, expected: &'static str, found: &Json) -> BadStep {
    BadStep::Wrong { field, expected, found: kind(found) }
}

/// Returns what a value is, or the value itself if it is short.
fn kind(value: &Json) -> String {
    match value {
        Json::Array(_) => "a list".to_owned(),
        Json::Object(_) => "an object".to_owned(),
        other => json::write(other, &json::Layout::compact()).chars().take(40).collect(),
    }
}

/// Returns names as `a`, `b` and `c`, in code quotes.
fn listed(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => "nothing".to_owned(),
    }
}
