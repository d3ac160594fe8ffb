//! Saving and restoring sessions.
//!
//! `write` turns a session into JSON, `read` checks it and turns it back, and `notes` has the form
//! of each note; `fields` reads typed fields. Start reading at [`Session::save`].

mod fields;
mod notes;
mod read;
mod write;

use rolecall_conversation::Json;
use rolecall_conversation::json::{self, Layout, Object};

use super::{Session, SessionError};
use crate::model::digest::digest;
use crate::{Error, Model};

/// The version of the saved form.
const VERSION: i64 = 1;

impl Session {
    /// Returns the session as JSON text.
    ///
    /// It holds the ids, who wrote them, the messages and branches, and everything that the next
    /// operation needs. It names the model by digests of what the ids depend on: the chat template
    /// with its special tokens or the format, the tokenizer, the settings and the stop tokens.
    /// Tools, documents, switches and the clock are in it as they are.
    ///
    /// ```
    /// use rolecall::template::ModelTemplates;
    /// use rolecall::tokenizer::HuggingFace;
    /// use rolecall::{Model, Request};
    /// let json = br#"{"added_tokens": [], "model": {"type": "BPE",
    ///     "vocab": {"a": 0, "b": 1, "|": 2, ">": 3}, "merges": []}}"#;
    /// let source = "{% for m in messages %}>{{ m.content }}|{% endfor %}{% if add_generation_prompt %}>{% endif %}";
    /// let templates = ModelTemplates::from_json(&source.into())?;
    /// let tokenizer = std::sync::Arc::new(HuggingFace::from_bytes(json, None)?);
    /// let model = Model::builder().templates(templates).loaded_tokenizer(tokenizer).open()?;
    /// let request = Request::from_text(r#"{"messages": [{"role": "user", "content": "a"}]}"#)?;
    /// let mut session = model.session(request)?;
    /// session.open()?;
    /// let restored = model.restore_session(&session.save()?)?;
    /// assert_eq!((restored.ids(), restored.is_open()), (vec![3, 0, 2, 3], true));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn save(&self) -> Result<String, Error> {
        let mut saved = compact(&self.written()?);
        let sum = digest(&saved);
        // The checksum is the last field.
        saved.truncate(saved.len() - 1);
        saved.push_str(&format!(",\"checksum\":\"{sum}\"}}"));
        Ok(saved)
    }
}

impl Model {
    /// Restores a session that [`Session::save`] returned.
    ///
    /// The model must be the one of the session: another chat template, format, tokenizer, other
    /// settings or another clock are refused. Damaged text is refused too. The last rendering is
    /// not saved but made again, so the first operation may prove its result by rendering the whole
    /// conversation. Otherwise everything goes on as before.
    pub fn restore_session(&self, saved: &str) -> Result<Session, Error> {
        let value = json::parse_unique(saved).map_err(|error| damaged("", &error.to_string()))?;
        let Json::Object(mut object) = value else { return Err(damaged("", "expected an object")) };
        match object.get("version").map(|version| json::write(version, &Layout::compact())) {
            Some(version) if version == VERSION.to_string() => {}
            Some(found) => return Err(SessionError::OtherVersion { found }.into()),
            None => return Err(damaged("version", "it is missing")),
        }
        let sum = object.remove("checksum");
        if sum.as_ref().and_then(Json::as_str) != Some(digest(&compact(&object)).as_str()) {
            return Err(damaged("checksum", "the content has another one"));
        }
        Session::read(self, &object)
    }
}

fn compact(object: &Object) -> String {
    let mut text = String::new();
    json::write_object_into(&mut text, object, &Layout::compact());
    text
}

fn damaged(place: &str, why: &str) -> Error {
    let why = if place.is_empty() { why.to_owned() } else { format!("`{place}`: {why}") };
    SessionError::Damaged { why }.into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

    use std::sync::Arc;

    use super::{compact, digest};
    use crate::template::ModelTemplates;
    use crate::tokenizer::HuggingFace;
    use crate::{Model, Request};
    use rolecall_conversation::Json;
    use rolecall_conversation::json::{self, Object};

    #[test]
    fn a_checksum_does_not_hide_a_message_that_is_missing() {
        let vocabulary = br#"{"added_tokens": [], "model": {"type": "BPE",
            "vocab": {"a": 0, "b": 1, "|": 2, ">": 3}, "merges": []}}"#;
        let source = "{% for m in messages %}>{{ m.content }}|{% endfor %}{% if add_generation_prompt %}>{% endif %}";
        let templates = ModelTemplates::from_json(&source.into()).unwrap();
        let tokenizer = Arc::new(HuggingFace::from_bytes(vocabulary, None).unwrap());
        let model = Model::builder().templates(templates).loaded_tokenizer(tokenizer).open().unwrap();
        let request = Request::from_text(r#"{"messages": [{"role": "user", "content": "a"}]}"#).unwrap();
        let mut session = model.session(request).unwrap();
        session.open().unwrap();
        let saved = session.save().unwrap();
        let code = |named: &str| {
            let changed = saved.replace(r#""message":0"#, &format!(r#""message":{named}"#));
            let Json::Object(mut object) = json::parse(&changed).unwrap() else { panic!("an object") };
            object.remove("checksum");
            let sum = digest(&compact(&object));
            object.insert("checksum", sum.into());
            model.restore_session(&compact(&Object::clone(&object))).map_err(|error| error.code()).err()
        };
        assert_eq!(code("0"), None);
        assert_eq!(code("1"), Some("damaged_session"));
    }
}
