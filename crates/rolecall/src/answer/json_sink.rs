//! Answers as JSON values.

use std::io;

use rolecall_conversation::json::Object;
use rolecall_conversation::{Json, object};
use rolecall_render::Origin;

use super::fields::of_origin;
use super::visit::KeySink;

/// An answer as a JSON object.
#[derive(Default)]
pub(super) struct JsonSink {
    pub object: Object,
    segments: Vec<Json>,
}

impl KeySink for JsonSink {
    fn insert(&mut self, key: &str, value: &Json) -> io::Result<()> {
        self.object.insert(key, value.clone());
        Ok(())
    }

    fn insert_text(&mut self, key: &str, text: &str) -> io::Result<()> {
        self.object.insert(key, Json::from(text));
        Ok(())
    }

    fn insert_numbers(&mut self, key: &str, numbers: impl Iterator<Item = u32>) -> io::Result<()> {
        self.insert_list(key, numbers.map(|number| Json::from(i64::from(number))))
    }

    fn insert_list(&mut self, key: &str, values: impl Iterator<Item = Json>) -> io::Result<()> {
        self.object.insert(key, Json::Array(values.collect()));
        Ok(())
    }

    fn begin_segments(&mut self) {}

    fn segment(&mut self, text: &str, origin: &Origin, learned: Option<bool>) -> io::Result<()> {
        let mut segment = object! { "text" => text, "origin" => of_origin(origin) };
        if let Some(learned) = learned {
            segment.insert("loss", Json::from(learned));
        }
        self.segments.push(Json::Object(segment));
        Ok(())
    }

    fn end_segments(&mut self) {
        self.object.insert("segments", Json::Array(std::mem::take(&mut self.segments)));
    }
}
