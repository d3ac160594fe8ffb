use std::sync::Arc;

use rolecall::Request;
use rolecall::conversation::json::Object;
use rolecall::conversation::{Content, Json, Message, Role, Tool};
use rolecall::grammar::{Answer, Options, Reasoning, ToolChoice};
use rolecall::model::offered_tools;
use rolecall::session::OnRewrite;

use crate::containers::ContainerChoice;
use crate::gateway::Gateway;
use crate::request::answer_form::AnswerForm;
use crate::request::by_text;
use crate::request::labels::{LABELS, check_cache_marks, check_label, unlabelled};
use crate::request::media::refuse_media;
use crate::request::neutral::is_neutral;
use crate::request::number;
use crate::request::sampling::{SETTINGS, Sampling};
use crate::request::schema_limits::{self, MOST_TOOLS};
use crate::request::unread::refuse_unread;
use crate::request::unread_tools::{refuse_texts, refuse_unread_of_tools};
use crate::served_model::ServedModel;
use crate::turn::hosted_calls::HostedTools;
use crate::turn::sessions::chain::says_nothing;
use crate::turn::sessions::record::policy_of;
use crate::{Fault, FaultCode};

/// What a request asks for, whichever API it came by.
#[derive(Clone, Debug)]
pub struct ChatRequest {
    pub served: Arc<ServedModel>,
    /// The request without its messages and settings: tools, documents and switches.
    pub request: Request,
    /// The messages that replace those at the start of the conversation, if it goes on by a name.
    pub instructions: Vec<Message>,
    /// The other messages: all of the conversation, or the new ones if it goes on by a name.
    pub messages: Vec<Message>,
    pub past: Past,
    /// The names under which the finished turn is found, except that of its messages.
    pub names: Vec<String>,
    /// The name that is forgotten after the turn.
    pub forgets: Option<String>,
    /// Whether the finished turn is stored, or only kept in memory.
    pub is_stored: bool,
    pub on_rewrite: OnRewrite,
    pub sampling: Sampling,
    /// The settings that are the model's defaults.
    pub applied: Vec<&'static str>,
    /// The fields that are a wish, which no engine enforces.
    pub wishes: Vec<&'static str>,
    pub calls: AllowedCalls,
    pub answer: AnswerForm,
    /// The number of most likely tokens to report for each token of the reply.
    pub logprobs: Option<u32>,
    /// The number of replies.
    pub choices: usize,
    pub is_streamed: bool,
    pub has_usage: bool,
    /// Where the code of the model runs, if it runs here.
    pub container: Option<ContainerChoice>,
    /// The tools that run here.
    pub hosted: HostedTools,
}

/// How the conversation so far is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Past {
    /// It is the beginning of the messages, if it was seen before.
    Recognised,
    /// It has a name, and must be known.
    Known(String),
    /// It has a name, and begins if it is not known.
    New(String),
}

impl Past {
    /// Returns the name of a conversation of which each turn has the same.
    pub fn session(&self) -> Option<&str> {
        match self {
            Past::New(name) => Some(name),
            Past::Recognised | Past::Known(_) => None,
        }
    }
}

/// What calls a reply may have.
#[derive(Clone, Debug, Default)]
pub struct AllowedCalls {
    pub choice: ToolChoice,
    pub at_most_one: bool,
}

impl AllowedCalls {
    /// Reports whether the model decides itself.
    pub fn is_free(&self) -> bool {
        self.choice == ToolChoice::Auto && !self.at_most_one
    }
}

/// The most replies to a request.
const MOST_CHOICES: i64 = 128;

/// The most likely tokens that OpenAI's API reports at most.
const MOST_LOGPROBS: u32 = 20;

impl ChatRequest {
    /// Reports whether the reply needs no grammar.
    pub fn is_free(&self) -> bool {
        self.calls.is_free() && self.answer.is_free()
    }

    /// Returns what the grammar of the reply must express, or `None` if the model needs none.
    pub fn grammar(&self, can_reason: bool) -> Option<Options> {
        if self.is_free() {
            return None;
        }
        let reasoning = if can_reason { Reasoning::Optional } else { Reasoning::Off };
        let (choice, one_call) = (self.calls.choice.clone(), self.calls.at_most_one);
        Some(Options { choice, one_call, reasoning, answer: self.answer.answer.clone(), ..Options::default() })
    }

    /// Reads a request in the shape of chat completions, into which the other APIs are translated.
    /// Settings that would change how the model speaks are not a client's to choose.
    pub fn read(gateway: &Gateway, request: Request) -> Result<ChatRequest, Fault> {
        let count = request.conversation.messages.len();
        let most = gateway.limits.messages;
        if count > most {
            let message = format!("{count} messages, and at most {most} are allowed");
            return Err(Fault::at("messages", FaultCode::TooManyMessages, message));
        }
        refuse_of_templates(&request)?;
        let served = Arc::clone(gateway.model(request.other.get("model"))?);
        let (sampling, applied) = Sampling::read(&request.other, &served.model)?;
        let tools = offered_tools(&request);
        refuse_texts(&tools)?;
        let Request { mut conversation, other, .. } = request;
        let messages = std::mem::take(&mut conversation.messages);
        if let Some(index) = messages.iter().position(lacks_content) {
            let fault = Fault::at(
                "content",
                FaultCode::MissingField,
                format!("messages[{index}].content: this field is needed"),
            );
            return Err(Fault { message_index: u32::try_from(index).ok(), ..fault });
        }
        check_cache_marks(&messages, conversation.tools.as_deref().unwrap_or_default())?;
        refuse_media(&messages, served.model.templates().is_some())?;
        conversation.tools = conversation.tools.map(unlabelled);
        let mut wanted = ChatRequest {
            on_rewrite: served.on_rewrite,
            served,
            request: Request { id: None, format: None, conversation, other: Object::new() },
            instructions: Vec::new(),
            messages,
            past: Past::Recognised,
            names: Vec::new(),
            forgets: None,
            is_stored: true,
            sampling,
            applied,
            wishes: Vec::new(),
            calls: AllowedCalls::default(),
            answer: AnswerForm::default(),
            logprobs: None,
            choices: 1,
            is_streamed: false,
            has_usage: false,
            container: None,
            hosted: HostedTools::default(),
        };
        for (key, value) in other.iter().filter(|(_, value)| !value.is_null()) {
            wanted.set(key, value)?;
        }
        check_usage(wanted.has_usage, wanted.is_streamed)?;
        let has_odds = other.get("logprobs").and_then(Json::as_bool) == Some(true);
        if wanted.logprobs.is_some() && !has_odds {
            return Err(Fault::at("top_logprobs", FaultCode::Conflict, "top_logprobs: expected `logprobs` to be true"));
        }
        if wanted.choices > 1 && wanted.past != Past::Recognised {
            return Err(Fault::at("n", FaultCode::Conflict, "n: a session goes on with one reply"));
        }
        if wanted.request.conversation.continue_final_message && wanted.past != Past::Recognised {
            let message = "continue_final_message: a message that goes on is no turn of a session";
            let help = Some("leave the name of the session out, and send all messages".into());
            return Err(Fault { help, ..Fault::at("continue_final_message", FaultCode::Conflict, message) });
        }
        if tools.is_empty() {
            if let ToolChoice::Required | ToolChoice::Named(_) = wanted.calls.choice {
                return Err(Fault::at(
                    "tool_choice",
                    FaultCode::WrongValue,
                    "tool_choice: the request offers no tools",
                ));
            }
            // There is nothing to call.
            wanted.calls = AllowedCalls::default();
        }
        if wanted.served.engine.kind().is_by_text() {
            wanted.restrict_to_text()?;
        }
        wanted.check_schemas(&tools)?;
        let model = &wanted.served.model;
        refuse_unread(model, &wanted.request, &wanted.messages)?;
        refuse_unread_of_tools(model, &wanted.request, &wanted.messages, &wanted.calls.choice)?;
        Ok(wanted)
    }

    /// Refuses what an engine by text cannot do, and leaves the model's defaults out that it does not take.
    fn restrict_to_text(&mut self) -> Result<(), Fault> {
        let ChatRequest { calls, answer, logprobs, sampling, applied, .. } = self;
        let refused = if logprobs.is_some() {
            Some("logprobs")
        } else if !answer.is_free() {
            Some("response_format")
        } else if calls.at_most_one {
            Some("parallel_tool_calls")
        } else if !calls.is_free() {
            Some("tool_choice")
        } else {
            None
        };
        refused.map_or(Ok(()), |name| Err(by_text::unsupported(name)))?;
        by_text::restrict_sampling(sampling, applied)
    }

    /// Refuses schemas of which no grammar could be built in a short time.
    fn check_schemas(&self, tools: &[Tool]) -> Result<(), Fault> {
        if let Answer::Schema(schema) = &self.answer.answer {
            schema_limits::check("response_format", schema)?;
        }
        if self.calls.is_free() {
            return Ok(());
        }
        if tools.len() > MOST_TOOLS {
            let message = format!("{} tools, of which a grammar can have at most {MOST_TOOLS}", tools.len());
            return Err(Fault::at("tools", FaultCode::TooManyTools, message));
        }
        let schemas = tools.iter().filter_map(|tool| tool.function()?.get("parameters"));
        schemas.into_iter().try_for_each(|schema| schema_limits::check("tools", schema))
    }

    fn set(&mut self, key: &str, value: &Json) -> Result<(), Fault> {
        let flag = |value: &Json| {
            value
                .as_bool()
                .ok_or_else(|| Fault::at(key, FaultCode::WrongType, format!("{key}: expected true or false")))
        };
        match key {
            "model" => {}
            "stream" => self.is_streamed = flag(value)?,
            "stream_options" => self.has_usage = usage(value)?,
            "parallel_tool_calls" => self.calls.at_most_one = !flag(value)?,
            "tool_choice" => self.calls.choice = choice(value)?,
            "n" => self.choices = choices(value)?,
            "on_rewrite" => {
                let policy = value.as_str().and_then(policy_of);
                let wrong = || {
                    Fault::at(key, FaultCode::WrongValue, "on_rewrite: expected \"keep\", \"rewrite\" or \"refuse\"")
                };
                self.on_rewrite = policy.ok_or_else(wrong)?;
            }
            // The model's settings read them.
            "calls_in_reasoning" | "unclosed_reasoning" => self.request.other.insert(key, value.clone()),
            key if is_neutral(key, value)? => {}
            // OpenAI's defaults.
            "service_tier" if matches!(value.as_str(), Some("auto" | "default")) => {}
            "verbosity" if value.as_str() == Some("medium") => {}
            "modalities"
                if value.as_array().is_some_and(|all| matches!(all, [one] if one.as_str() == Some("text"))) => {}
            "session_id" => {
                let id = match value {
                    Json::String(text) if (1..=256).contains(&text.len()) => Some(text.clone()),
                    value => number::count(value).map(|number| number.to_string()),
                };
                let id = id.ok_or_else(|| {
                    Fault::at(key, FaultCode::WrongValue, "session_id: expected a text of 1 to 256 bytes, or a number")
                })?;
                let name = format!("session:{id}");
                self.names.push(name.clone());
                self.past = Past::New(name);
            }
            // It then goes on only as long as it is in memory.
            "store" if value.as_bool() == Some(false) => self.is_stored = false,
            "response_format" => {
                self.answer = AnswerForm::read(value)?;
                self.wishes.extend(self.answer.is_described.then_some("response_format.json_schema.description"));
            }
            "logprobs" => {
                if flag(value)? {
                    self.logprobs.get_or_insert(0);
                }
            }
            // LMDeploy's client always sends none.
            "top_logprobs" if number::count(value) == Some(0) => {}
            "top_logprobs" => self.logprobs = Some(likely_tokens(key, value, MOST_LOGPROBS)?),
            key if SETTINGS.contains(&key) => {}
            key if LABELS.contains(&key) => check_label(key, value)?,
            key => return Err(Fault::unsupported(key)),
        }
        Ok(())
    }
}

/// Refuses what a request to a template may have, and one to the gateway may not.
fn refuse_of_templates(request: &Request) -> Result<(), Fault> {
    if request.id.is_some() || request.format.is_some() {
        return Err(Fault::unsupported(if request.id.is_some() { "id" } else { "format" }));
    }
    if request.conversation.add_generation_prompt == Some(false) && !request.conversation.continue_final_message {
        return Err(Fault::unsupported("add_generation_prompt"));
    }
    if request.conversation.add_generation_prompt == Some(true) && request.conversation.continue_final_message {
        let message = "continue_final_message: the last message goes on, or a new one begins, but not both";
        let help = Some("leave `add_generation_prompt` out".into());
        return Err(Fault { help, ..Fault::at("continue_final_message", FaultCode::Conflict, message) });
    }
    let is_own = |name: &&&str| request.conversation.template_kwargs.get(name).is_some();
    if let Some(name) = OF_TEMPLATES.iter().find(is_own) {
        return Err(Fault::unsupported(&format!("chat_template_kwargs.{name}")));
    }
    Ok(())
}

/// Reports whether a message has no content, which only one of an assistant with calls or reasoning can be without.
fn lacks_content(message: &Message) -> bool {
    // Any other key is read, or refused by its own name.
    let says_more = || {
        let says = |(key, value): (&str, &Json)| !OF_ANY.contains(&key) && !says_nothing(value);
        message.as_object().iter().any(says)
    };
    match message.role() {
        Role::System | Role::User | Role::Tool => matches!(message.content(), Content::None),
        Role::Assistant => matches!(message.content(), Content::None) && !says_more(),
        _ => false,
    }
}

/// The keys of which a message cannot consist alone.
const OF_ANY: [&str; 5] = ["cache_control", "content", "id", "name", "role"];

/// What a template reads that is not for a client to choose.
const OF_TEMPLATES: [&str; 6] = ["bos_token", "eos_token", "messages", "tools", "documents", "add_generation_prompt"];

/// Reads how many of the most likely tokens are reported for each token, at most `most`.
pub fn likely_tokens(key: &str, value: &Json, most: u32) -> Result<u32, Fault> {
    let count = number::count(value).and_then(|count| u32::try_from(count).ok());
    count.filter(|count| *count <= most).ok_or_else(|| {
        Fault::at(key, FaultCode::WrongValue, format!("{key}: expected a whole number from 0 to {most}"))
    })
}

pub fn choices(value: &Json) -> Result<usize, Fault> {
    let count = number::integer(value).filter(|count| (1..=MOST_CHOICES).contains(count));
    let count = count.and_then(|count| usize::try_from(count).ok());
    count.ok_or_else(|| {
        Fault::at("n", FaultCode::WrongValue, format!("n: expected a whole number from 1 to {MOST_CHOICES}"))
    })
}

pub fn usage(options: &Json) -> Result<bool, Fault> {
    let wrong = |field: &str| {
        Fault::at(field, FaultCode::WrongValue, format!("{field}: expected `include_usage`, true or false"))
    };
    let options = options.as_object().ok_or_else(|| wrong("stream_options"))?;
    let mut has_usage = false;
    for (key, value) in options.iter() {
        match (key, value) {
            ("include_usage", Json::Bool(value)) => has_usage = *value,
            ("include_obfuscation", Json::Bool(false)) => {}
            ("include_obfuscation", _) => return Err(Fault::unsupported("stream_options.include_obfuscation")),
            (key, _) => return Err(wrong(&format!("stream_options.{key}"))),
        }
    }
    Ok(has_usage)
}

/// Refuses the usage of a stream that is none.
pub fn check_usage(has_usage: bool, is_streamed: bool) -> Result<(), Fault> {
    if has_usage && !is_streamed {
        return Err(Fault::at("stream_options", FaultCode::Conflict, "stream_options: expected `stream` to be true"));
    }
    Ok(())
}

fn choice(value: &Json) -> Result<ToolChoice, Fault> {
    let named = |value: &Json| {
        let choice = value.as_object()?;
        let function = choice.get("function")?.as_object()?;
        let is_function = choice.get("type").and_then(Json::as_str) == Some("function");
        function.get("name")?.as_str().filter(|_| is_function).map(str::to_owned)
    };
    if let Some(choice) = value.as_object() {
        let function = choice.get("function").and_then(Json::as_object);
        let of = |object: &Object, known: &[&str]| {
            object.iter().map(|(key, _)| key).find(|key| !known.contains(key)).map(str::to_owned)
        };
        let other = of(choice, &["type", "function"]);
        let other = other.or_else(|| Some(format!("function.{}", of(function?, &["name"])?)));
        if let Some(other) = other {
            return Err(Fault::unsupported(&format!("tool_choice.{other}")));
        }
    }
    match value.as_str() {
        Some("auto") => Ok(ToolChoice::Auto),
        Some("none") => Ok(ToolChoice::None),
        Some("required") => Ok(ToolChoice::Required),
        _ => named(value).map(ToolChoice::Named).ok_or_else(|| {
            let wrong = "tool_choice: expected \"auto\", \"none\", \"required\", or a function by its name";
            Fault::at("tool_choice", FaultCode::WrongValue, wrong)
        }),
    }
}
