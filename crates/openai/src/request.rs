use rolecall_conversation::json::{self, Object};
use rolecall_conversation::spelling::near_miss;
use rolecall_conversation::{Conversation, Json, Place, Problem, Tool, object};

use crate::keys::{self, OF_API, READ};
use crate::{Error, legacy};

/// The keys of a request that determine what is rendered.
const OWN_KEYS: [&str; 6] =
    ["messages", "tools", "documents", "add_generation_prompt", "continue_final_message", "chat_template_kwargs"];

/// A conversation with the other keys of its request.
///
/// ```
/// use rolecall_openai::Request;
/// let request = Request::from_text(r#"{"id": 7, "messages": [{"role": "user", "content": "Hello"}]}"#)?;
/// assert_eq!(request.conversation.messages.len(), 1);
/// # Ok::<(), rolecall_openai::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The caller's id of the request, which is returned with the answer.
    pub id: Option<Json>,
    /// The format that the request names.
    pub format: Option<String>,
    /// The conversation.
    pub conversation: Conversation,
    /// All other keys, unchanged.
    pub other: Object,
}

impl Request {
    /// Parses a request from JSON text.
    pub fn from_text(text: &str) -> Result<Request, Error> {
        Request::from_json(json::parse_unique(text)?)
    }

    /// Parses a request from a JSON value: an object with `messages`, or a bare list of messages. Messages that are a
    /// text, as LMDeploy's clients may send them, are one message of the user.
    pub fn from_json(value: Json) -> Result<Request, Error> {
        let mut object = match value {
            Json::Object(object) => object,
            Json::Array(messages) => [("messages".to_owned(), Json::Array(messages))].into_iter().collect(),
            other => return Ok(Conversation::from_json(other).map(Request::of)?),
        };
        let id = object.remove("id").filter(|id| !id.is_null());
        let format = take_text(&mut object, "format")?;
        if let Some(messages @ Json::String(_)) = object.get_mut("messages") {
            let content = std::mem::replace(messages, Json::Null);
            *messages = vec![object! { "role" => "user", "content" => content }.into()].into();
        }
        legacy::modernize(&mut object);
        if object.get("messages").is_some() && object.get("system").is_some_and(|system| !system.is_null()) {
            return Err(Error::SystemBeside);
        }
        let mut inner = Object::new();
        for key in OWN_KEYS {
            if let Some(value) = object.remove(key) {
                inner.insert(key, value);
            }
        }
        for (key, _) in object.iter().filter(|(key, _)| !READ.contains(key) && !OF_API.contains(key)) {
            let known = OWN_KEYS.into_iter().chain(READ).chain(OF_API);
            let missing = known.filter(|known| inner.get(known).is_none() && object.get(known).is_none());
            if let Some(near) = near_miss(key, missing)
                && !OF_API.contains(&near)
            {
                return Err(Error::MisspeltKey { key: key.to_owned(), near, message: None });
            }
        }
        keys::check(inner.get("messages").and_then(Json::as_array).unwrap_or_default())?;
        let conversation = Conversation::from_json(Json::Object(inner))?;
        Ok(Request { id, format, conversation, other: object })
    }

    /// Reads everything of a request except its messages. A session may begin with such a request,
    /// but no prompt can be made of it.
    ///
    /// ```
    /// use rolecall_conversation::json::Object;
    /// use rolecall_openai::Request;
    /// assert!(Request::without_messages(Object::new())?.conversation.messages.is_empty());
    /// # Ok::<(), rolecall_openai::Error>(())
    /// ```
    pub fn without_messages(mut object: Object) -> Result<Request, Error> {
        let any = object! { "role" => "user", "content" => "" };
        object.insert("messages", Json::Array(vec![Json::Object(any)]));
        let mut request = Request::from_json(Json::Object(object))?;
        request.conversation.messages.clear();
        Ok(request)
    }

    /// Returns the request as JSON, from which [`Request::from_json`] reads the same request. Older
    /// shapes are written in today's.
    ///
    /// ```
    /// use rolecall_openai::Request;
    /// let request = Request::from_text(r#"[{"role": "user", "content": "Hello"}]"#)?;
    /// assert_eq!(Request::from_json(request.to_json())?, request);
    /// # Ok::<(), rolecall_openai::Error>(())
    /// ```
    pub fn to_json(&self) -> Json {
        let Request { id, format, conversation, other } = self;
        // Named one by one, so that a new field is not forgotten here.
        let Conversation { messages, tools, documents, add_generation_prompt, continue_final_message, template_kwargs } =
            conversation;
        let messages = messages.iter().map(|message| Json::Object(message.as_object().clone()));
        let mut object = object! { "messages" => messages.collect::<Vec<Json>>() };
        let tools = tools.as_ref().map(|tools| Json::Array(tools.iter().map(Tool::to_json).collect()));
        let switches = Some(template_kwargs).filter(|switches| !switches.is_empty());
        let optional = [
            ("id", id.clone()),
            ("format", format.as_deref().map(Json::from)),
            ("tools", tools),
            ("documents", documents.clone().map(Json::Array)),
            ("add_generation_prompt", add_generation_prompt.map(Json::Bool)),
            ("continue_final_message", continue_final_message.then_some(Json::Bool(true))),
            ("chat_template_kwargs", switches.cloned().map(Json::Object)),
        ];
        for (key, value) in optional {
            if let Some(value) = value {
                object.insert(key, value);
            }
        }
        for (key, value) in other.iter() {
            object.insert(key, value.clone());
        }
        Json::Object(object)
    }

    fn of(conversation: Conversation) -> Request {
        Request { id: None, format: None, conversation, other: Object::new() }
    }

    /// Returns the keys that neither rolecall nor an API of this shape reads.
    pub fn unread(&self) -> impl Iterator<Item = &str> {
        self.other.iter().map(|(key, _)| key).filter(|key| !READ.contains(key) && !OF_API.contains(key))
    }

    /// Returns the keys of messages that neither rolecall nor an API or dataset of this shape
    /// reads, each with the index of its message.
    pub fn unread_of_messages(&self) -> impl Iterator<Item = (usize, &str)> {
        let messages = self.conversation.messages.iter().enumerate();
        // Most messages have only a role and content.
        let others = messages.filter(|(_, message)| message.as_object().len() > 2);
        others.flat_map(|(index, message)| {
            message.as_object().iter().map(move |(key, _)| (index, key)).filter(|(_, key)| !keys::is_of_messages(key))
        })
    }

    /// Returns the `id` of a request that cannot be parsed otherwise, so that the answer can name
    /// it.
    pub fn id_of(text: &str) -> Option<Json> {
        match json::parse(text) {
            Ok(Json::Object(mut object)) => object.remove("id").filter(|id| !id.is_null()),
            _ => None,
        }
    }
}

fn take_text(object: &mut Object, key: &'static str) -> Result<Option<String>, Error> {
    match object.remove(key) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(text)) => Ok(Some(text)),
        Some(other) => Err(Error::Conversation(rolecall_conversation::Error {
            place: Place::field(key),
            problem: Problem::WrongType { expected: "a string", found: other.kind() },
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_function_calling_is_read_as_todays() {
        let text = r#"{"functions": [{"name": "f"}], "messages": [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{}"}},
            {"role": "function", "name": "f", "content": "1"}]}"#;
        let request = Request::from_text(text).unwrap();
        assert_eq!(request.conversation.tools.as_ref().map(Vec::len), Some(1));
        assert_eq!(request.conversation.messages[1].calls().len(), 1);
    }

    #[test]
    fn a_misspelt_key_is_refused_and_an_unknown_one_is_not() {
        let of = |key: &str| format!(r#"{{"messages": [{{"role": "user", "content": "x"}}], "{key}": false}}"#);
        let error = Request::from_text(&of("add_generation_promt")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown key `add_generation_promt` in the request; a known key is `add_generation_prompt`"
        );
        for known_elsewhere in
            ["model", "tool_choice", "temperature", "stream", "user", "stop", "n", "seed", "metadata"]
        {
            assert!(Request::from_text(&of(known_elsewhere)).is_ok(), "{known_elsewhere}");
        }
    }

    #[test]
    fn a_key_that_is_read_is_no_other_one_misspelt() {
        for key in READ.into_iter().chain(OF_API).filter(|key| *key != "format") {
            let text = format!(r#"{{"messages": [{{"role": "user", "content": "x"}}], "{key}": null}}"#);
            assert!(Request::from_text(&text).is_ok(), "{key}");
        }
    }

    #[test]
    fn a_request_is_read_again_from_its_json() {
        for text in [
            r#"[{"role": "user", "content": "x"}]"#,
            r#"{"id": [1], "format": "f", "messages": [{"role": "assistant", "content": [{"type": "text", "text": "a"}],
                "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{ \"a\":1.50}"}}]}],
                "tools": [{"type": "function", "function": {"name": "f", "x": 1e2}}, {"type": "code_interpreter"}],
                "documents": [], "add_generation_prompt": false, "continue_final_message": true,
                "chat_template_kwargs": {"b": null, "a": 12345678901234567890}, "model": "m", "unknown": {"k": [null]}}"#,
            r#"{"functions": [{"name": "f"}], "messages": [
                {"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{}"}},
                {"role": "function", "name": "f", "content": "1"}], "tools": null, "function_call": "auto"}"#,
            r#"{"messages": [{"role": "user", "content": "x"}], "tools": [], "add_generation_prompt": true}"#,
            r#"{"messages": [{"role": "user", "content": "x"}], "tools": ["f(): a text", "", {"name": "g"}]}"#,
        ] {
            let request = Request::from_text(text).unwrap();
            assert_eq!(Request::from_json(request.to_json()).unwrap(), request, "{text}");
        }
    }

    #[test]
    fn a_message_has_no_tools_that_are_texts() {
        let text = r#"[{"role": "system", "content": "x", "tools": [{"name": "f"}, "g(): a text"]}]"#;
        let error = Request::from_text(text).unwrap_err();
        assert!(error.to_string().contains("tools[1]"), "{error}");
    }

    #[test]
    fn what_is_not_known_is_kept() {
        let request = Request::from_text(r#"{"model": "m", "messages": [{"role": "user", "content": "x"}]}"#).unwrap();
        assert_eq!(request.other.get("model"), Some(&Json::from("m")));
    }
}
