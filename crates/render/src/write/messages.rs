//! The holes for a message's own fields.

use std::borrow::Cow;

use rolecall_conversation::{Call, Content, Message, Part, json};
use rolecall_format::{Codec, Field, Slot, sources};
use rolecall_text::Text;

use super::{PromptWriter, Scene, quoted_by, text_by, trimmed};
use crate::plan::{SystemText, What};

impl PromptWriter<'_> {
    pub(super) fn content(&mut self, codec: &Codec, scene: &Scene<'_>, out: &mut Text) {
        if let Some((index, _, Part::Text(text))) = scene.part {
            let source = self.content_source(index);
            return out.push(text, source);
        }
        let before = out.len();
        match scene.turn.what {
            What::Added(text) => out.push(text_by(text, codec), sources::FORMAT),
            What::Chosen(at) => self.hole(Field::Option(at), codec, scene, out),
            What::Template(number) => {
                if let Some((_, layout)) = self.format.defaults.system_templates.get(number) {
                    let _ = self.steps(layout.steps(), scene, out);
                }
            }
            What::Asked(number, _) => {
                let (messages, asked) = (self.messages, self.asked);
                for (index, message) in messages.those(&asked[number]) {
                    self.message_content(index, message, codec, scene, out);
                }
            }
            _ => {
                if let Some((index, message)) = scene.message() {
                    self.message_content(index, message, codec, scene, out);
                }
            }
        }
        if matches!(codec, Codec::Filled) && out.len() == before {
            out.push(" ", sources::FORMAT);
        }
    }

    pub(super) fn message_content(
        &mut self,
        index: usize,
        message: &Message,
        codec: &Codec,
        scene: &Scene<'_>,
        out: &mut Text,
    ) {
        match (message.content(), codec) {
            (Content::None, Codec::Json(_)) => out.push("\"\"", sources::FORMAT),
            (Content::None, _) => {}
            (_, Codec::Json(style)) => {
                let mut quoted = String::new();
                json::write_string(&mut quoted, &message.text().unwrap_or_default(), style.ascii);
                let source = self.content_source(index);
                out.push(&quoted, source);
            }
            (Content::Text(text), _) => {
                let source = self.content_source(index);
                out.push(text_by(text, codec), source);
            }
            (Content::Parts(_), _) => {
                let joined = self.apart(|writer, joined| {
                    for (at, part) in message.parts().enumerate() {
                        writer.part(index, at, part, scene, joined);
                    }
                });
                out.append(&trimmed(joined, codec));
            }
        }
    }

    pub(super) fn part(&mut self, index: usize, at: usize, part: Part<'_>, scene: &Scene<'_>, out: &mut Text) {
        let slot = match part {
            Part::Text(_) => Slot::PartText,
            Part::Image(_) => Slot::PartImage,
            Part::Audio(_) => Slot::PartAudio,
            Part::Video(_) => Slot::PartVideo,
            Part::File(_) => Slot::PartFile,
        };
        match (self.format.layout(slot), part) {
            (Some(layout), _) => {
                let scene = Scene { part: Some((index, at, part)), ..*scene };
                let _ = self.steps(layout.steps(), &scene, out);
            }
            (None, Part::Text(text)) => {
                let source = self.message_source(index, Cow::Owned(format!("content[{at}]")));
                out.push(text, source);
            }
            // The plan refused it, recorded it, or gave it a separate turn.
            (None, _) => {}
        }
    }

    pub(super) fn name(&mut self, codec: &Codec, scene: &Scene<'_>, out: &mut Text) {
        if let Some((at, Call::Function { name, .. })) = scene.call {
            let source = self.call_source(scene, at, "function.name");
            let quoted = quoted_by(name, codec);
            return out.push(text_by(&quoted, codec), source);
        }
        if let Some(name) = scene.tool_name {
            return out.push(text_by(name, codec), sources::FORMAT);
        }
        let Some((index, message)) = scene.message() else { return };
        let Some(name) = message.name() else { return };
        let known = self
            .format
            .control_names
            .iter()
            .find(|(known, _)| matches!(codec, Codec::Names | Codec::Enumerated) && known == name);
        match known {
            Some((_, id)) => {
                self.names_as_tokens.push(index);
                self.control(*id, out);
            }
            None => {
                let source = self.message_source(index, Cow::Borrowed("name"));
                let quoted = quoted_by(name, codec);
                out.push(text_by(&quoted, codec), source);
            }
        }
    }

    pub(super) fn message_text(
        &mut self,
        scene: &Scene<'_>,
        field: &'static str,
        read: impl Fn(&Message) -> Option<&str>,
        codec: &Codec,
        out: &mut Text,
    ) {
        if let Some((index, message)) = scene.message()
            && let Some(text) = read(message)
        {
            let source = self.message_source(index, Cow::Borrowed(field));
            out.push(text_by(text, codec), source);
        }
    }

    pub(super) fn system(&mut self, scene: &Scene<'_>, out: &mut Text) {
        match scene.folded() {
            Some(SystemText::Added(text)) => out.push(text, sources::FORMAT),
            Some(SystemText::Message(index, message)) => self.message_content(index, message, &Codec::Text, scene, out),
            None => {}
        }
    }
}
