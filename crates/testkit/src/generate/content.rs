//! The content of messages.

use rolecall::conversation::{Json, object};
use rolecall::format::Slot;
use rolecall::render::RuleMode;

use super::maker::Maker;

/// The content that a message should have.
#[derive(Clone, Copy)]
pub(super) enum Wanted {
    /// Any form, or none.
    Any,
    /// A list of parts.
    Parts,
    /// Nothing that would be printed.
    Nothing,
}

impl Maker<'_> {
    pub(super) fn content(&mut self, slot: Slot, wanted: Wanted) -> Option<Json> {
        let kind = match wanted {
            Wanted::Any => self.rng.u8(..12),
            Wanted::Parts => 3,
            Wanted::Nothing => self.rng.u8(..3),
        };
        match kind {
            0 => None,
            1 => Some(Json::Null),
            2 => Some(Json::from("")),
            3..=5 => {
                let quoted = self.quotes_content(slot);
                let mut parts = Vec::new();
                for at in 0..self.rng.usize(..4) {
                    let field = if quoted { "content".to_owned() } else { format!("content[{at}]") };
                    let text = self.in_message(&field, false);
                    parts.push(match self.rng.u8(..4) {
                        0 => Json::from(text),
                        1 if self.rules == RuleMode::Reference => self.file(at),
                        2 if self.rules == RuleMode::Reference => {
                            object! { "type" => "image_url", "image_url" => object! { "url" => text } }.into()
                        }
                        _ => object! { "type" => "text", "text" => text }.into(),
                    });
                }
                Some(Json::Array(parts))
            }
            _ => Some(self.in_message("content", false).into()),
        }
    }

    pub(super) fn file(&mut self, at: usize) -> Json {
        let field = format!("content[{at}]");
        let mut file = object! { "path" => self.in_message(&field, false) };
        match self.rng.u8(..3) {
            0 => file.insert("size", Json::from(self.rng.i64(1..9_000))),
            1 => {
                let size = self.in_message(&field, false);
                file.insert("size", size.into());
            }
            _ => {}
        }
        object! { "type" => "file", "file" => file }.into()
    }
}
