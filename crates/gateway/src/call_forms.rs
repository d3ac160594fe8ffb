//! How a template writes calls without text, and the results of calls.

use std::collections::HashMap;
use std::sync::OnceLock;

use rolecall::conversation::json::Object;
use rolecall::conversation::{Content, Json, Message, Role, object};

use crate::forms::{Trial, part, with};

/// Knows what a model's templates need of calls and results, without tools and with. It is found out when the
/// first of them comes.
#[derive(Debug, Default)]
pub struct CallForms([Needs; 2]);

#[derive(Debug, Default)]
struct Needs {
    empties: OnceLock<EmptyForm>,
    names_results: OnceLock<bool>,
}

/// What a message has as its content, if it has calls and no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EmptyForm {
    /// Null or an empty text, as it was sent.
    AsSent,
    Null,
    Text,
    /// A list of one empty text.
    Part,
}

impl CallForms {
    /// Changes messages to the forms that the templates write, with the same meaning. `before` are the messages
    /// before them, as far as they are known.
    pub fn write<'a, 'm>(
        &self,
        has_tools: bool,
        trial: &dyn Fn() -> Trial<'m>,
        before: impl Iterator<Item = &'a Message>,
        messages: &mut [Message],
    ) {
        let needs = &self.0[usize::from(has_tools)];
        if messages.iter().any(is_empty_call) {
            let form = *needs.empties.get_or_init(|| find_out(&trial()));
            for message in messages.iter_mut().filter(|message| is_empty_call(message)) {
                *message = match form {
                    EmptyForm::AsSent => continue,
                    EmptyForm::Null => with(message, "content", Json::Null),
                    EmptyForm::Text => with(message, "content", "".into()),
                    EmptyForm::Part => with(message, "content", part("")),
                };
            }
        }
        if messages.iter().any(is_nameless_result) && *needs.names_results.get_or_init(|| must_name(&trial())) {
            let mut names = HashMap::new();
            before.for_each(|message| note_names(&mut names, message));
            for message in messages {
                note_names(&mut names, message);
                if is_nameless_result(message)
                    && let Some(name) = call_id(message).and_then(|id| names.get(id))
                {
                    *message = with(message, "name", name.as_str().into());
                }
            }
        }
    }
}

/// Reports whether a message has calls and no text. OpenAI's clients and servers write null then.
fn is_empty_call(message: &Message) -> bool {
    matches!(message.content(), Content::None | Content::Text("")) && message.calls().len() > 0
}

/// Tries the forms of [`EmptyForm`].
fn find_out(trial: &Trial<'_>) -> EmptyForm {
    // How often it writes Python's `None`, unless it fails or leaves out the call.
    let nones = |content: Json| {
        let prompt = results(true)
            .into_iter()
            .find_map(|result| trial.prompt(vec![trial.user.clone(), calling(content.clone()), result]))?;
        let lacks_call = prompt.dropped().iter().any(|dropped| dropped.place.message == Some(1));
        (!lacks_call).then(|| prompt.text().matches("None").count())
    };
    match (nones(Json::Null), nones("".into())) {
        (Some(null), Some(text)) if null <= text => EmptyForm::AsSent,
        (_, Some(_)) => EmptyForm::Text,
        (Some(_), None) => EmptyForm::Null,
        (None, None) => nones(part("")).map_or(EmptyForm::AsSent, |_| EmptyForm::Part),
    }
}

/// Reports whether a message is the result of a call, and only the call has its name. OpenAI's API has no
/// field for it.
fn is_nameless_result(message: &Message) -> bool {
    *message.role() == Role::Tool && call_id(message).is_some() && text_of(message.as_object(), "name").is_none()
}

fn call_id(message: &Message) -> Option<&str> {
    text_of(message.as_object(), "tool_call_id")
}

fn text_of<'a>(object: &'a Object, key: &str) -> Option<&'a str> {
    object.get(key).and_then(Json::as_str)
}

/// Notes the names of the functions that a message calls, by the ids of the calls.
fn note_names(names: &mut HashMap<String, String>, message: &Message) {
    let calls = message.as_object().get("tool_calls").and_then(Json::as_array).unwrap_or_default();
    for call in calls.iter().filter_map(Json::as_object) {
        let name = call.get("function").and_then(Json::as_object).and_then(|function| text_of(function, "name"));
        if let (Some(id), Some(name)) = (text_of(call, "id"), name) {
            names.insert(id.to_owned(), name.to_owned());
        }
    }
}

/// Reports whether the template fails with a result that has no name.
fn must_name(trial: &Trial<'_>) -> bool {
    let is_written = |result: &Object| {
        calls().into_iter().any(|call| trial.prompt(vec![trial.user.clone(), call, result.clone()]).is_some())
    };
    !results(false).iter().any(is_written) && results(true).iter().any(is_written)
}

/// The id of the call of [`calling`]. Some templates take only nine characters.
pub const CALL: &str = "call00000";

/// Returns messages with a call: some templates write it only with a text beside it, or only without.
pub fn calls() -> [Object; 4] {
    ["".into(), Json::Null, part(""), "b".into()].map(calling)
}

fn calling(content: Json) -> Object {
    let function = object! { "name" => "f", "arguments" => "{}" };
    let call = object! { "id" => CALL, "type" => "function", "function" => function };
    object! { "role" => "assistant", "content" => content, "tool_calls" => vec![Json::from(call)] }
}

/// Returns the result of that call, as a text and in parts.
fn results(has_name: bool) -> [Object; 2] {
    ["b".into(), part("b")].map(|content| {
        let mut result = object! { "role" => "tool", "tool_call_id" => CALL, "content" => content };
        if has_name {
            result.insert("name", "f".into());
        }
        result
    })
}
