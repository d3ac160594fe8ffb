//! The facts about a format as JSON.

use std::sync::Arc;

use rolecall_conversation::{Json, Tool, object};
use rolecall_format::Format;

use super::fields::of_generation;
use crate::format::{example, rules_of, settings_of};

/// Returns the facts that the list of formats shows.
pub fn of_format_in_short(format: &Format) -> Json {
    let options = settings_of(format).into_iter().map(|setting| {
        let mut object = object! { "name" => setting.name, "default" => setting.default, "help" => setting.help };
        if !setting.values.is_empty() {
            object.insert("values", texts(setting.values.iter().map(String::as_str)));
        }
        Json::Object(object)
    });
    Json::Object(object! {
        "name" => format.name.as_str(),
        "aliases" => texts(format.aliases.iter().map(String::as_str)),
        "title" => format.title.as_str(),
        "part" => format.part.key(),
        "models" => texts(format.models.iter().map(|pattern| pattern.as_str())),
        "options" => Json::Array(options.collect()),
        "stop" => texts(format.stops().into_iter()),
        "stop_ids" => Json::Array(format.stop_ids().into_iter().map(|id| Json::from(i64::from(id))).collect()),
    })
}

/// Returns all facts about a format, with an example.
pub fn of_format(format: &Arc<Format>) -> Json {
    let Json::Object(mut object) = of_format_in_short(format) else { return Json::Null };
    let controls = format.controls.iter().map(|control| {
        let mut inner = object! { "text" => control.text.as_str() };
        if let Some(id) = control.id {
            inner.insert("id", Json::from(i64::from(id)));
        }
        inner.insert("bos", Json::from(control.bos));
        inner.insert("ends_turn", Json::from(control.ends_turn));
        let spelled = control.spelled.iter().map(|(name, text)| (name.clone(), Json::from(text.as_str())));
        inner.insert("spelled", Json::Object(spelled.collect()));
        Json::Object(inner)
    });
    let named = |pairs: &[(String, String)]| {
        Json::Object(pairs.iter().map(|(name, text)| (name.clone(), Json::from(text.as_str()))).collect())
    };
    object.insert("control", Json::Array(controls.collect()));
    let rules = rules_of(format).into_iter().map(|(name, value)| {
        let value = value.parse::<i64>().map_or_else(|_| Json::from(value.as_str()), Json::from);
        (name.to_owned(), value)
    });
    object.insert("rules", Json::Object(rules.collect()));
    object.insert("fields", named(&format.fields));
    let roles = format.roles.iter().map(|(usual, own)| (usual.clone(), texts(own.iter().map(String::as_str))));
    object.insert("roles", Json::Object(roles.collect()));
    object.insert("generation", of_generation(&format.generation));
    object.insert("sources", named(&format.sources));
    if let Ok((conversation, prompt)) = example(format) {
        let messages = conversation.messages.iter().map(|message| Json::Object(message.as_object().clone()));
        let mut example = object! { "messages" => Json::Array(messages.collect()) };
        if let Some(tools) = &conversation.tools {
            example.insert("tools", Json::Array(tools.iter().filter_map(Tool::wrapped).collect()));
        }
        example.insert("prompt", Json::from(prompt.text()));
        object.insert("example", Json::Object(example));
    }
    Json::Object(object)
}

fn texts<'a>(texts: impl Iterator<Item = &'a str>) -> Json {
    Json::Array(texts.map(Json::from).collect())
}
