//! The holes `files`, `path` and `size`.

use std::borrow::Cow;

use rolecall_conversation::json::Object;
use rolecall_conversation::{File, Json, Part, json, object};
use rolecall_format::{Field, sources};
use rolecall_text::Text;

use super::{PromptWriter, Scene};

impl PromptWriter<'_> {
    pub(super) fn files(&mut self, scene: &Scene<'_>, out: &mut Text) {
        let Some((index, message)) = scene.message() else { return };
        out.push("[", sources::FORMAT);
        let mut between = "";
        for (at, part) in message.parts().enumerate() {
            if let Part::File(file) = part {
                out.push(between, sources::FORMAT);
                between = ", ";
                let source = self.message_source(index, Cow::Owned(format!("content[{at}]")));
                out.push(&json::write(&Json::Object(file_object(file)), &json::Layout::default()), source);
            }
        }
        out.push("]", sources::FORMAT);
    }

    pub(super) fn file_field(&mut self, field: Field, scene: &Scene<'_>, out: &mut Text) {
        if let Some((index, at, Part::File(file))) = scene.part {
            let source = self.message_source(index, Cow::Owned(format!("content[{at}]")));
            match (field, file.path(), file.size()) {
                (Field::Path, Some(path), _) => out.push(path, source),
                (Field::Size, _, Some(Json::String(size))) => out.push(size, source),
                (Field::Size, _, Some(size)) => out.push(&json::write(size, &json::Layout::default()), source),
                _ => {}
            }
        }
    }
}

pub(super) fn file_object(file: File<'_>) -> Object {
    let mut object = object! { "path" => file.path().unwrap_or_default() };
    if let Some(size) = file.size() {
        object.insert("size", size.clone());
    }
    object
}
