//! A prompt as JSON: what it is rendered from, with a digest of its text and a checksum.

use rolecall_conversation::json::{self, Layout, Object};
use rolecall_conversation::{Json, object};
use rolecall_openai::Request;

use super::digest::digest;
use super::{Model, ModelPrompt, Purpose, Settings, clock};
use crate::Error;

/// The version of the saved form.
const VERSION: i64 = 1;

/// The purposes by their words.
const PURPOSES: [(&str, Purpose); 3] =
    [("answer", Purpose::Answer), ("new_turn", Purpose::NewTurn), ("training", Purpose::Training)];

impl ModelPrompt {
    /// Returns the prompt as JSON text: its request, the time that the chat template saw, and a
    /// digest of the text. The model is not in it.
    ///
    /// [`Model::restore_prompt`] renders the same prompt from it, on any machine and at any time.
    ///
    /// ```
    /// use rolecall::{Model, Request};
    /// let model = Model::open("chatml")?;
    /// let prompt = model.prompt(Request::from_text(r#"[{"role": "user", "content": "Hi"}]"#)?)?;
    /// assert_eq!(model.restore_prompt(&prompt.save())?.text(), prompt.text());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn save(&self) -> String {
        let purpose = PURPOSES.iter().find(|(_, purpose)| *purpose == self.purpose);
        let mut saved = object! {
            "version" => VERSION,
            "request" => self.request.to_json(),
            "purpose" => purpose.map_or(Json::Null, |(word, _)| Json::from(*word)),
            "now" => self.now().map_or(Json::Null, clock::write),
            "appended" => self.appended.as_deref().map_or(Json::Null, Json::from),
            "digest" => digest(self.text()),
        };
        saved.insert("checksum", Json::from(digest(&compact(&saved))));
        compact(&saved)
    }
}

impl Model {
    /// Renders the prompt again that [`ModelPrompt::save`] wrote.
    ///
    /// The model must be the one of the prompt. If it renders another text, or if the JSON text is
    /// damaged, this is an [`Error::SavedPrompt`].
    pub fn restore_prompt(&self, saved: &str) -> Result<ModelPrompt, Error> {
        let saved = json::parse_unique(saved).map_err(|error| damaged(&error.to_string()))?;
        let Json::Object(mut saved) = saved else { return Err(damaged("expected an object")) };
        let sum = saved.remove("checksum");
        let text = |key: &str| saved.get(key).and_then(Json::as_str);
        if saved.get("version") != Some(&Json::from(VERSION)) {
            return Err(damaged(&format!("expected {VERSION} as `version`")));
        }
        if sum.as_ref().and_then(Json::as_str) != Some(digest(&compact(&saved)).as_str()) {
            return Err(damaged("it has another checksum"));
        }
        let purpose = PURPOSES.iter().find(|(word, _)| Some(*word) == text("purpose"));
        let (_, purpose) = purpose.ok_or_else(|| damaged("expected one of the known words as `purpose`"))?;
        let now = match saved.get("now") {
            None | Some(Json::Null) => self.settings().now,
            Some(now) => Some(clock::read(now).ok_or_else(|| damaged("expected a date and a time as `now`"))?),
        };
        let request = saved.get("request").ok_or_else(|| damaged("expected an object as `request`"))?;
        let request = Request::from_json(request.clone())?;
        let mut prompt =
            self.with_settings(Settings { now, ..self.settings().clone() }).prompt_for(request, *purpose)?;
        match saved.get("appended") {
            None | Some(Json::Null) => {}
            Some(Json::String(stop)) => prompt.append_stop(stop),
            Some(_) => return Err(damaged("expected text or null as `appended`")),
        }
        match text("digest") == Some(digest(prompt.text()).as_str()) {
            true => Ok(prompt),
            false => Err(damaged("the model renders another text")),
        }
    }
}

fn compact(object: &Object) -> String {
    json::write(&Json::Object(object.clone()), &Layout::compact())
}

fn damaged(why: &str) -> Error {
    Error::SavedPrompt { why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rolecall_render::DateTime;

    use super::*;
    use crate::template::ModelTemplates;

    const REQUEST: &str = r#"[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes"}]"#;

    fn model(now: Option<DateTime>) -> Model {
        let source =
            "{{ strftime_now('%Y-%m-%d %H:%M:%S') }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}";
        let mut templates = ModelTemplates::from_json(&source.into()).unwrap();
        templates.set_token("eos_token", "</s>".into());
        let builder = Model::builder().templates(templates);
        now.map_or(builder.clone(), |now| builder.now(now)).open().unwrap()
    }

    #[test]
    fn a_prompt_is_the_same_at_another_time() {
        let request = Arc::new(Request::from_text(REQUEST).unwrap());
        let then = DateTime::from_unix(1_000_000_000).unwrap();
        let prompt = model(Some(then)).prompt(Arc::clone(&request)).unwrap();
        assert!(prompt.text().starts_with("2001-09-09 01:46:40"));
        for other in [model(None), model(DateTime::from_unix(0))] {
            let restored = other.restore_prompt(&prompt.save()).unwrap();
            assert_eq!((restored.text(), restored.now()), (prompt.text(), Some(then)));
            assert_eq!(restored.save(), prompt.save());
        }
    }

    #[test]
    fn the_time_of_the_machine_is_saved_too() {
        let prompt = model(None).prompt(Request::from_text(REQUEST).unwrap()).unwrap();
        let later = model(DateTime::from_unix(0));
        assert_eq!(later.restore_prompt(&prompt.save()).unwrap().text(), prompt.text());
    }

    #[test]
    fn an_appended_stop_token_is_saved() {
        let model = model(None);
        let mut prompt = model.prompt_for(Request::from_text(REQUEST).unwrap(), Purpose::Training).unwrap();
        prompt.append_stop("</s>");
        assert!(model.restore_prompt(&prompt.save()).unwrap().text().ends_with("Yes</s>"));
    }

    /// Writes the checksum that belongs to a changed text, as far as it is an object.
    fn summed(changed: &str) -> String {
        let Ok(Json::Object(mut saved)) = json::parse(changed) else { return changed.to_owned() };
        saved.remove("checksum");
        saved.insert("checksum", Json::from(digest(&compact(&saved))));
        compact(&saved)
    }

    #[test]
    fn a_damaged_prompt_is_refused() {
        let model = model(None);
        let saved = model.prompt(Request::from_text(REQUEST).unwrap()).unwrap().save();
        for (old, new) in [
            ("Hi", "Ho"),
            ("\"version\":1", "\"version\":2"),
            ("\"answer\"", "\"other\""),
            ("\"now\":[", "\"now\":[1,"),
            ("\"digest\":\"", "\"digest\":\"0"),
            ("\"appended\":null", "\"appended\":\"</s>\""),
            ("\"appended\":null", "\"appended\":0"),
            ("{", "["),
        ] {
            let changed = saved.replacen(old, new, 1);
            assert_ne!(changed, saved);
            assert_eq!(model.restore_prompt(&changed).unwrap_err().code(), "damaged_prompt", "{changed}");
            // With its own checksum, the content is still checked.
            let changed = summed(&changed);
            assert_eq!(model.restore_prompt(&changed).unwrap_err().code(), "damaged_prompt", "{changed}");
        }
        for size in 0..saved.len() {
            assert_eq!(model.restore_prompt(&saved[..size]).unwrap_err().code(), "damaged_prompt");
        }
        assert!(model.restore_prompt(&summed(&saved.replace("\"user\"", "7"))).is_err());
        assert!(model.restore_prompt(&summed(&saved)).is_ok());
        assert!(Model::open("chatml").unwrap().restore_prompt(&saved).is_err());
    }
}
