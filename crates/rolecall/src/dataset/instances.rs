//! LMFlow's files: one object that holds all instances and names their type.

use rolecall_conversation::Json;
use rolecall_conversation::json::Object;
use rolecall_conversation::{Place, Problem};
use rolecall_openai::Error;

use super::dialogue::read_tools;
use super::{Draft, KINDS, Origins, message, missing, take_text, wrong_type};

/// Reads `{"type": "conversation", "instances": [{"messages", "system"?, "tools"?}, ..]}`, where
/// `system` is the system message, or
/// `{"type": "text2text", "instances": [{"input", "output"}, ..]}`. Without a type, the keys of
/// each instance determine it.
pub(super) fn read(mut object: Object) -> Result<Vec<Draft>, Error> {
    if let Some(other) = take_text(&mut object, "type")?.filter(|kind| !KINDS.contains(&kind.as_str())) {
        let problem = Problem::UnknownType { known: "`conversation`, `text2text`", found: other };
        return Err(rolecall_conversation::Error { place: Place::field("type"), problem }.into());
    }
    let instances = match object.remove("instances") {
        Some(Json::Array(instances)) => instances,
        Some(other) => return Err(wrong_type("instances", "a list of instances", &other)),
        None => return Err(missing("instances")),
    };
    if instances.is_empty() {
        let problem = Problem::NoMessages;
        return Err(rolecall_conversation::Error { place: Place::field("instances"), problem }.into());
    }
    let is_one = instances.len() == 1;
    let each = instances.into_iter().enumerate().map(|(at, instance)| {
        let path = if is_one { String::new() } else { format!("instances[{at}].") };
        match instance {
            Json::Object(mut instance) => {
                // Other keys of the file are read with each instance, or reported as unknown.
                for (key, value) in object.iter() {
                    if instance.get(key).is_none() {
                        instance.insert(key, value.clone());
                    }
                }
                read_one(instance, &path).map_err(|error| under(&path, error))
            }
            other => Err(wrong_type(format!("instances[{at}]"), "an object", &other)),
        }
    });
    each.collect()
}

fn read_one(mut instance: Object, path: &str) -> Result<Draft, Error> {
    let (mut messages, mut paths) = (Vec::new(), Vec::new());
    if let Some(system) = take_text(&mut instance, "system")? {
        messages.push(message("system", system));
        paths.push(format!("{path}system"));
    }
    // The instance's id in the file becomes the id of the request.
    if let Some(id) = instance.remove("conversation_id")
        && instance.get("id").is_none()
    {
        instance.insert("id", id);
    }
    match instance.remove("messages") {
        Some(Json::Array(said)) => {
            let first = said.first().and_then(Json::as_object).and_then(|first| first.get("role")?.as_str());
            if first == Some("system") && !messages.is_empty() {
                return Err(Error::SystemBeside);
            }
            paths.extend((0..said.len()).map(|at| format!("{path}messages[{at}]")));
            messages.extend(said);
        }
        Some(other) => return Err(wrong_type("messages", "a list of messages", &other)),
        None if instance.get("input").is_some() && instance.get("output").is_some() => {
            for (key, role) in [("input", "user"), ("output", "assistant")] {
                let said = instance.remove(key).unwrap_or(Json::Null);
                let Json::String(said) = said else { return Err(wrong_type(key, "a string", &said)) };
                messages.push(message(role, said));
                paths.push(format!("{path}{key}"));
            }
        }
        None => return Err(missing("messages")),
    }
    read_tools(&mut instance)?;
    instance.insert("messages", Json::Array(messages));
    Ok(Draft { object: instance, side: None, origins: Origins::of_paths(paths) })
}

/// Adds the path of an instance to its error.
fn under(path: &str, error: Error) -> Error {
    match error {
        Error::Conversation(mut error) if !error.place.field.starts_with(path) => {
            error.place.field = format!("{path}{}", error.place.field).into();
            error.into()
        }
        other => other,
    }
}
