//! The content of harmony's messages: texts, the settings of a system message, and the developer's
//! instructions and tools.

use rolecall_conversation::json::Object;
use rolecall_conversation::{Json, object};
use rolecall_openai::Error;
use rolecall_render::DateTime;

use super::gathered::GatheredMessages;
use super::{FUNCTIONS, check_keys, missing, take_text, unknown, wrong_type};

/// What harmony itself writes if nothing else is given. Templates have it as literal text.
const CUTOFF: &str = "2024-06";
const PARTS: &str = "`text`, `system_content`, `developer_content`";
const SYSTEM_KEYS: [&str; 7] = [
    "type",
    "model_identity",
    "reasoning_effort",
    "conversation_start_date",
    "knowledge_cutoff",
    "channel_config",
    "tools",
];
const DEVELOPER_KEYS: [&str; 3] = ["type", "instructions", "tools"];
const EFFORTS: [&str; 3] = ["low", "medium", "high"];
const DATE: &str = "a date like 2026-11-21";

/// The texts of a message's content. What is not text was added to the request.
#[derive(Default)]
pub(super) struct Content {
    pub texts: Vec<Text>,
}

/// A text with its path.
pub(super) struct Text {
    pub text: String,
    pub path: String,
    /// Whether it is the developer's instructions, which are a message of their own.
    is_whole: bool,
}

impl Content {
    /// Returns the text with its path. Harmony writes texts one after the other.
    pub(super) fn joined(self, path: &str) -> (String, String) {
        let mut texts = self.texts.into_iter();
        match texts.next() {
            Some(Text { text, path, .. }) => (text, path),
            None => (String::new(), format!("{path}.content")),
        }
    }

    fn add(&mut self, text: String, path: String, whole: &str, is_whole: bool) {
        match self.texts.last_mut().filter(|last| !is_whole && !last.is_whole) {
            Some(last) => {
                last.text.push_str(&text);
                whole.clone_into(&mut last.path);
            }
            None => self.texts.push(Text { text, path, is_whole }),
        }
    }
}

/// Reads the content of a message. Only instructions may have other parts than text.
pub(super) fn read_content(
    content: Json,
    message: usize,
    is_instruction: bool,
    gathered: &mut GatheredMessages,
) -> Result<Content, Error> {
    let whole = format!("messages[{message}].content");
    let parts = match content {
        Json::Array(parts) => parts,
        // harmony reads a string as one part.
        Json::String(text) => {
            return Ok(Content { texts: vec![Text { text, path: whole, is_whole: false }] });
        }
        other => return Err(wrong_type(whole, "a list of parts, or a string", &other)),
    };
    let mut content = Content::default();
    for (at, part) in parts.into_iter().enumerate() {
        let path = format!("{whole}[{at}]");
        let mut part = match part {
            Json::Object(part) => part,
            other => return Err(wrong_type(path, "a part such as {\"type\": \"text\", \"text\": \"..\"}", &other)),
        };
        let kind = take_text(&mut part, "type", &path)?.ok_or_else(|| missing(format!("{path}.type")))?;
        match kind.as_str() {
            "text" => {
                let text = take_text(&mut part, "text", &path)?.ok_or_else(|| missing(format!("{path}.text")))?;
                gathered.add_unread(&part, &path);
                content.add(text, format!("{path}.text"), &whole, false);
            }
            "system_content" if is_instruction => {
                check_keys(&part, &SYSTEM_KEYS, message)?;
                read_settings(part, &path, gathered)?;
            }
            "developer_content" if is_instruction => {
                check_keys(&part, &DEVELOPER_KEYS, message)?;
                if let Some(text) = take_text(&mut part, "instructions", &path)? {
                    content.add(text, format!("{path}.instructions"), &whole, true);
                }
                for (space, config, path) in take_namespaces(&mut part, &path)? {
                    read_tools(&space, config, &path, gathered)?;
                }
                gathered.add_unread(&part, &path);
            }
            _ => {
                let known = if is_instruction { PARTS } else { "`text`" };
                return Err(unknown(format!("{path}.type"), known, kind));
            }
        }
    }
    Ok(content)
}

/// Reads the settings of a system message: switches of the template, and the date.
fn read_settings(mut part: Object, path: &str, gathered: &mut GatheredMessages) -> Result<(), Error> {
    if let Some(identity) = take_text(&mut part, "model_identity", path)? {
        gathered.set_switch("model_identity", Json::String(identity), format!("{path}.model_identity"))?;
    }
    if let Some(effort) = take_text(&mut part, "reasoning_effort", path)? {
        let path = format!("{path}.reasoning_effort");
        let Some(known) = EFFORTS.into_iter().find(|known| effort.eq_ignore_ascii_case(known)) else {
            return Err(unknown(path, "`Low`, `Medium`, `High`", effort));
        };
        gathered.set_switch("reasoning_effort", Json::from(known), path)?;
    }
    if let Some(date) = take_text(&mut part, "conversation_start_date", path)? {
        let path = format!("{path}.conversation_start_date");
        if date.parse::<DateTime>().is_err() {
            return Err(wrong_type(path, DATE, &Json::String(date)));
        }
        gathered.set_date(date, path)?;
    }
    if let Some(cutoff) = take_text(&mut part, "knowledge_cutoff", path)?.filter(|cutoff| cutoff != CUTOFF) {
        gathered.add_unread_at(format!("{path}.knowledge_cutoff"), Json::String(cutoff));
    }
    match part.remove("channel_config") {
        None | Some(Json::Null) => {}
        Some(Json::Object(config)) if is_usual(&config) => {}
        Some(config @ Json::Object(_)) => gathered.add_unread_at(format!("{path}.channel_config"), config),
        Some(other) => return Err(wrong_type(format!("{path}.channel_config"), "an object", &other)),
    }
    let mut built_in = Vec::new();
    for (space, config, path) in take_namespaces(&mut part, path)? {
        built_in.push(Json::String(space));
        // The template has a description of its own.
        gathered.add_unread_at(path, Json::Object(config));
    }
    if !built_in.is_empty() {
        gathered.set_switch("builtin_tools", Json::Array(built_in), format!("{path}.tools"))?;
    }
    gathered.add_unread(&part, path);
    Ok(())
}

/// Reports whether all of harmony's channels are required, as by default.
fn is_usual(config: &Object) -> bool {
    let channels = config.get("valid_channels").and_then(Json::as_array).unwrap_or_default();
    config.len() == 2
        && config.get("channel_required") == Some(&Json::Bool(true))
        && channels.iter().map(Json::as_str).eq(super::CHANNELS.map(Some))
}

/// Takes the namespaces of tools, each with its path.
fn take_namespaces(part: &mut Object, path: &str) -> Result<Vec<(String, Object, String)>, Error> {
    let path = format!("{path}.tools");
    let spaces = match part.remove("tools") {
        None | Some(Json::Null) => return Ok(Vec::new()),
        Some(Json::Object(spaces)) => spaces,
        Some(other) => return Err(wrong_type(path, "an object of namespaces, such as `functions`", &other)),
    };
    let named = |(space, config): (&str, &Json)| {
        let path = format!("{path}.{space}");
        match config {
            Json::Object(config) => Ok((space.to_owned(), config.clone(), path)),
            other => Err(wrong_type(path, "an object with `name` and `tools`", other)),
        }
    };
    spaces.iter().map(named).collect()
}

/// Reads the tools of a namespace. Those of another namespace than `functions` have it in their
/// name, as their calls do.
fn read_tools(space: &str, mut config: Object, path: &str, gathered: &mut GatheredMessages) -> Result<(), Error> {
    let functions = FUNCTIONS.trim_end_matches('.');
    let tools = match config.remove("tools") {
        None | Some(Json::Null) => Vec::new(),
        Some(Json::Array(tools)) => tools,
        Some(other) => return Err(wrong_type(format!("{path}.tools"), "a list of tools", &other)),
    };
    match take_text(&mut config, "name", path)? {
        Some(name) if name != space => gathered.add_unread_at(format!("{path}.name"), Json::String(name)),
        // Templates write every tool as a function.
        _ if space != functions => gathered.add_unread_at(path.to_owned(), Json::from(space)),
        _ => {}
    }
    gathered.add_unread(&config, path);
    for (at, tool) in tools.into_iter().enumerate() {
        let path = format!("{path}.tools[{at}]");
        let mut tool = match tool {
            Json::Object(tool) => tool,
            other => return Err(wrong_type(path, "a tool: an object with `name`", &other)),
        };
        for key in ["description", "parameters"] {
            if tool.get(key).is_some_and(Json::is_null) {
                tool.remove(key);
            }
        }
        match tool.get("name") {
            Some(Json::String(_)) if space == functions => {}
            Some(Json::String(name)) => {
                let name = format!("{space}.{name}");
                tool.insert("name", Json::String(name));
            }
            Some(other) => return Err(wrong_type(format!("{path}.name"), "a string", other)),
            None => return Err(missing(format!("{path}.name"))),
        }
        gathered.add_tool(Json::Object(object! { "type" => "function", "function" => tool }), &path);
    }
    Ok(())
}
