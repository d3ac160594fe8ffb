//! How a template writes contents that are only text: as one text, or in parts.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rolecall::Model;
use rolecall::conversation::json::Object;
use rolecall::conversation::{Content, Json, Message, Part, object};

use crate::call_forms::{CALL, calling};
use crate::forms::{part, prompt_of, role_of, with};

/// Knows for each role which of the two a model's templates write. It is found out when the first message of
/// the role comes.
#[derive(Debug, Default)]
pub struct ContentForms(Mutex<HashMap<String, ContentForm>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ContentForm {
    Any,
    /// Parts are refused, or left out, or written as a list in Python's syntax.
    OnlyText,
    OnlyParts,
}

/// The most roles that are remembered.
const MOST_ROLES: usize = 64;

impl ContentForms {
    /// Changes contents to the form that the templates write, with the same meaning.
    pub fn write(&self, model: &Model, messages: &mut [Message]) {
        let mut last: Option<(String, ContentForm)> = None;
        for message in messages {
            let form = match &last {
                Some((role, form)) if role == role_of(message) => *form,
                _ => last.insert((role_of(message).to_owned(), self.of(model, role_of(message)))).1,
            };
            match (form, message.content()) {
                (ContentForm::OnlyText, Content::Parts(_)) => *message = joined(message),
                (ContentForm::OnlyParts, Content::Text(text)) => *message = with(message, "content", part(text)),
                _ => {}
            }
        }
    }

    fn of(&self, model: &Model, role: &str) -> ContentForm {
        if let Some(form) = self.known().get(role) {
            return *form;
        }
        let form = self.find_out(model, role);
        let mut known = self.known();
        if known.len() >= MOST_ROLES {
            known.clear();
        }
        known.insert(role.to_owned(), form);
        form
    }

    /// Tries both.
    fn find_out(&self, model: &Model, role: &str) -> ContentForm {
        let user = || match role == "user" || self.of(model, "user") != ContentForm::OnlyParts {
            true => object! { "role" => "user", "content" => "a" },
            false => object! { "role" => "user", "content" => part("a") },
        };
        let parts = TEXTS.map(|text| Json::from(object! { "type" => "text", "text" => text })).to_vec();
        let [text, parts] = [TEXTS[0].into(), Json::from(parts)].map(|content| written(model, role, content, &user));
        match (text, parts) {
            (Written::Yes, Written::Yes) => ContentForm::Any,
            (Written::Yes, _) => ContentForm::OnlyText,
            // A list is better than a text of which each character is an item.
            (_, Written::Yes | Written::AsList) => ContentForm::OnlyParts,
            // What writes neither refuses both, or leaves both out, which is noticed later.
            (_, Written::No) => ContentForm::OnlyText,
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, ContentForm>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The texts of the contents that are tried.
const TEXTS: [&str; 2] = ["alpha", "omega"];

/// How a content is written.
enum Written {
    Yes,
    /// In the syntax of Python or JSON.
    AsList,
    /// Not, or not all of it, or in pieces.
    No,
}

fn written(model: &Model, role: &str, content: Json, user: &dyn Fn() -> Object) -> Written {
    let count = if content.as_array().is_some() { TEXTS.len() } else { 1 };
    let asked = object! { "role" => role, "content" => content };
    let told = |mut asked: Object| {
        asked.insert("tool_call_id", CALL.into());
        asked.insert("name", "f".into());
        asked
    };
    let (at, messages) = match role {
        "user" => (0, vec![asked]),
        "assistant" => (1, vec![user(), asked, user()]),
        "tool" | "function" => (2, vec![user(), calling("".into()), told(asked)]),
        _ => (0, vec![asked, user()]),
    };
    let Some(prompt) = prompt_of(model, messages) else { return Written::No };
    let is_missing = prompt.dropped.iter().any(|dropped| {
        let place = &dropped.place;
        place.message == Some(at) && (place.field.is_empty() || place.field.starts_with("content"))
    });
    let has = |text: &&str| prompt.text().contains(*text);
    match is_missing || !TEXTS.iter().take(count).all(&has) {
        true => Written::No,
        false if AS_LIST.iter().any(&has) => Written::AsList,
        false => Written::Yes,
    }
}

/// What a list of parts begins with in Python's syntax and in JSON.
const AS_LIST: [&str; 3] = ["'type': 'text'", r#""type": "text""#, r#""type":"text""#];

/// Joins a content that has only parts of text, with a line break between them. Engines do the same.
fn joined(message: &Message) -> Message {
    let texts: Option<Vec<&str>> = message.parts().map(text_of).collect();
    texts.map_or_else(|| message.clone(), |texts| with(message, "content", texts.join("\n").into()))
}

fn text_of(part: Part<'_>) -> Option<&str> {
    match part {
        Part::Text(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::joined;
    use crate::forms::tests::message;

    #[test]
    fn parts_of_text_become_one_text() {
        let parts =
            message(r#"[{"type": "text", "text": "a"}, {"type": "text", "text": ""}, {"type": "text", "text": "b"}]"#);
        assert_eq!(joined(&parts), message(r#""a\n\nb""#));
        assert_eq!(joined(&message("[]")), message(r#""""#));
        let file = message(r#"[{"type": "text", "text": "a"}, {"type": "file", "file": {"path": "b"}}]"#);
        assert_eq!(joined(&file), file);
    }
}
