//! How a template writes contents that are only text: as one text, in parts, or in one part.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rolecall::conversation::json::Object;
use rolecall::conversation::{Content, Json, Message, object};
use rolecall::{Model, Prompt};

use crate::Fault;
use crate::call_forms::{CALL, calls};
use crate::forms::{Trial, joined_text, part, role_of, with};
use crate::unread::refuse_unread_of_parts;

/// Knows for each role, with tools and without, which form a model's templates write. It is found out when
/// the first message of the role comes.
#[derive(Debug, Default)]
pub struct ContentForms(Mutex<HashMap<(String, bool), ContentForm>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
enum ContentForm {
    Any,
    /// Parts are refused, or left out, or written as a list in Python's syntax.
    OnlyText,
    OnlyParts,
    /// Only the first part is written.
    OnlyPart,
}

/// The most roles that are remembered.
const MOST_ROLES: usize = 64;

impl ContentForms {
    /// Changes contents to the form that the templates write, with the same meaning. Parts that say more than their
    /// text and would become one are refused.
    pub fn write(&self, model: &Model, has_tools: bool, messages: &mut [Message]) -> Result<(), Fault> {
        let mut last: Option<(String, ContentForm)> = None;
        for (index, message) in messages.iter_mut().enumerate() {
            let form = match &last {
                Some((role, form)) if role == role_of(message) => *form,
                _ => last.insert((role_of(message).to_owned(), self.of(model, role_of(message), has_tools))).1,
            };
            match (form, message.content()) {
                (ContentForm::OnlyText, Content::Parts(_)) => {
                    refuse_unread_of_parts(index, message)?;
                    *message = joined(message, whole);
                }
                (ContentForm::OnlyPart, Content::Parts(parts)) if parts.len() != 1 => {
                    refuse_unread_of_parts(index, message)?;
                    *message = joined(message, part);
                }
                (ContentForm::OnlyParts | ContentForm::OnlyPart, Content::Text(text)) => {
                    *message = with(message, "content", part(text));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Reports whether the templates write a text of the assistant.
    pub fn writes_replies(&self, model: &Model, has_tools: bool) -> bool {
        matches!(self.of(model, "assistant", has_tools), ContentForm::Any | ContentForm::OnlyText)
    }

    /// Returns a model to be tried, with a message of the user in the form that its templates write.
    pub fn trial<'a>(&self, model: &'a Model, has_tools: bool) -> Trial<'a> {
        let is_text = self.of(model, "user", has_tools) <= ContentForm::OnlyText;
        let user = object! { "role" => "user", "content" => if is_text { "a".into() } else { part("a") } };
        Trial { model, has_tools, user }
    }

    fn of(&self, model: &Model, role: &str, has_tools: bool) -> ContentForm {
        let kind = (role.to_owned(), has_tools);
        if let Some(form) = self.known().get(&kind) {
            return *form;
        }
        let form = self.find_out(model, role, has_tools);
        let mut known = self.known();
        if known.len() >= MOST_ROLES {
            known.clear();
        }
        known.insert(kind, form);
        form
    }

    /// Tries the forms.
    fn find_out(&self, model: &Model, role: &str, has_tools: bool) -> ContentForm {
        let trial = match role {
            // A trial of the user's messages has no other messages.
            "user" => Trial { model, has_tools, user: Object::new() },
            _ => self.trial(model, has_tools),
        };
        let parts = TEXTS.map(|text| Json::from(object! { "type" => "text", "text" => text })).to_vec();
        let (text, parts) =
            (written(&trial, role, TEXTS[0].into(), 1), written(&trial, role, parts.into(), TEXTS.len()));
        match (text, parts) {
            // A template that writes parts more often than a text does something else with them.
            (WrittenForm::Times(text), WrittenForm::Times(parts)) if text == parts => ContentForm::Any,
            (WrittenForm::Times(_), _) => ContentForm::OnlyText,
            // A list is better than a text of which each character is an item.
            (_, WrittenForm::Times(_) | WrittenForm::AsList) => ContentForm::OnlyParts,
            (_, WrittenForm::No) => match written(&trial, role, part(TEXTS[0]), 1) {
                WrittenForm::Times(_) => ContentForm::OnlyPart,
                // What writes no tools is tried without. Otherwise it refuses all forms, or leaves them out,
                // which is noticed later.
                _ if has_tools => self.of(model, role, false),
                _ => ContentForm::OnlyText,
            },
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<(String, bool), ContentForm>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The texts of the contents that are tried.
const TEXTS: [&str; 2] = ["alpha", "omega"];

/// How a content is written.
enum WrittenForm {
    /// Each of its texts this often.
    Times(usize),
    /// In the syntax of Python or JSON.
    AsList,
    /// Not, or not all of it, or in pieces.
    No,
}

/// Finds out how a content of a role with the first `count` of [`TEXTS`] is written.
fn written(trial: &Trial<'_>, role: &str, content: Json, count: usize) -> WrittenForm {
    let asked = object! { "role" => role, "content" => content };
    let Some((at, prompt)) = prompt(trial, role, &asked) else { return WrittenForm::No };
    let is_missing = prompt.dropped().iter().any(|dropped| {
        let place = &dropped.place;
        place.message == Some(at) && (place.field.is_empty() || place.field.starts_with("content"))
    });
    let mut times = TEXTS.iter().take(count).map(|text| prompt.text().matches(text).count());
    let first = times.next().unwrap_or_default();
    if is_missing || first == 0 || times.any(|other| other != first) {
        WrittenForm::No
    } else if AS_LIST.iter().any(|start| prompt.text().contains(start)) {
        WrittenForm::AsList
    } else {
        WrittenForm::Times(first)
    }
}

/// Returns the prompt of a conversation with a message of a role, and the index of that.
fn prompt(trial: &Trial<'_>, role: &str, asked: &Object) -> Option<(usize, Prompt)> {
    let (user, asked) = (|| trial.user.clone(), asked.clone());
    let (at, prompt) = match role {
        "user" => (0, trial.prompt(vec![asked])),
        "assistant" => (1, trial.prompt(vec![user(), asked, user()])),
        "tool" | "function" => {
            let mut told = asked;
            told.insert("tool_call_id", CALL.into());
            told.insert("name", "f".into());
            (2, calls().into_iter().find_map(|call| trial.prompt(vec![user(), call, told.clone()])))
        }
        _ => (0, trial.prompt(vec![asked, user()])),
    };
    Some((at, prompt?))
}

/// What a list of parts begins with in Python's syntax and in JSON.
const AS_LIST: [&str; 3] = ["'type': 'text'", r#""type": "text""#, r#""type":"text""#];

/// Joins a content that has only parts of text.
fn joined(message: &Message, form: fn(&str) -> Json) -> Message {
    joined_text(message).map_or_else(|| message.clone(), |text| with(message, "content", form(&text)))
}

fn whole(text: &str) -> Json {
    text.into()
}

#[cfg(test)]
mod tests {
    use super::{joined, whole};
    use crate::forms::part;
    use crate::forms::tests::message;

    #[test]
    fn parts_of_text_become_one_text() {
        let parts =
            message(r#"[{"type": "text", "text": "a"}, {"type": "text", "text": ""}, {"type": "text", "text": "b"}]"#);
        assert_eq!(joined(&parts, whole), message(r#""a\n\nb""#));
        assert_eq!(joined(&parts, part), message(r#"[{"type": "text", "text": "a\n\nb"}]"#));
        assert_eq!(joined(&message("[]"), whole), message(r#""""#));
        let file = message(r#"[{"type": "text", "text": "a"}, {"type": "file", "file": {"path": "b"}}]"#);
        assert_eq!(joined(&file, whole), file);
    }
}
