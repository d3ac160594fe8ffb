//! Checks that a layout has a place for all content of a message. Content without a place is
//! refused or recorded.

use std::borrow::Cow;

use rolecall_conversation::{Call, Message, Part, Place, Role};
use rolecall_format::{Codec, Field, Layout, Op, Slot};

use super::Planner;
use crate::{Dropped, Error};

impl<'a> Planner<'_, 'a> {
    pub(super) fn check_message(&mut self, slot: Slot, index: usize, message: &'a Message) -> Result<(), Error> {
        match self.format.layout(slot) {
            Some(layout) => self.check_layout(layout, Field::Content, index, message),
            None => Ok(()),
        }
    }

    /// Checks that the layout has a place for all content of the message. The message's text goes
    /// into the hole `content`.
    pub(super) fn check_layout(
        &mut self,
        layout: &Layout,
        content: Field,
        index: usize,
        message: &Message,
    ) -> Result<(), Error> {
        if message.plain_text().is_some() && layout.prints(content) {
            return Ok(());
        }
        let prints = |field| match field {
            Field::Content => layout.prints(content) || layout.prints(Field::Folded),
            field => layout.prints(field),
        };
        for (at, part) in message.parts().enumerate() {
            let slot = match part {
                Part::Text(_) => continue,
                Part::Image(_) => Slot::PartImage,
                Part::Audio(_) => Slot::PartAudio,
                Part::Video(_) => Slot::PartVideo,
                Part::File(_)
                    if self.format.layout(Slot::File).is_some() && *self.speakers.roles.of(message) == Role::User =>
                {
                    continue;
                }
                Part::File(_) => Slot::PartFile,
            };
            if self.format.layout(slot).is_none() {
                let place = Place::message(index, format!("content[{at}]"));
                let what = format!("a part of type `{}`", part.kind());
                self.no_place(place, &what, "send only text, or use a format that has a place for it")?;
            }
        }
        let calls = message.calls().len();
        let has_content = message.parts().any(|part| !matches!(part, Part::Text("")));
        if has_content && !prints(Field::Content) {
            let what = if calls > 0 { "text alongside calls" } else { "text in this message" };
            self.no_place(Place::message(index, "content"), what, "send the text in a separate message")?;
        }
        if calls > 0 && !prints(Field::Calls) {
            self.no_place(Place::message(index, "tool_calls"), "calls", "remove them, or use a format that has tools")?;
        }
        for (at, call) in message.calls().enumerate() {
            let (slot, what) = match call {
                Call::Function { .. } => (Slot::Call, "calls of functions"),
                Call::CodeInterpreter { .. } => (Slot::CallInterpreter, "calls of a code interpreter"),
            };
            if calls > 0 && prints(Field::Calls) && self.format.layout(slot).is_none() {
                let place = Place::message(index, format!("tool_calls[{at}]"));
                self.no_place(place, what, "remove them, or use a format that has a place for them")?;
            }
        }
        if message.tools().is_some() && !prints(Field::Tools) && !prints(Field::Functions) {
            self.no_place(
                Place::message(index, "tools"),
                "tools in this message",
                "offer them at the top level, next to `messages`",
            )?;
        }
        self.note_fields(index, message, prints, "the format has no place for it");
        let listed = |name: &str| name.is_empty() || self.format.control_names.iter().any(|(known, _)| known == name);
        let unlisted = message.name().is_some_and(|name| !listed(name));
        // The name on a tool result adds no information.
        if unlisted && *self.speakers.roles.of(message) != Role::Tool && names_only(layout.ops()) {
            let why = "the format writes only names that it has tokens for";
            self.plan.dropped.push(Dropped { place: Place::message(index, "name"), why, by_design: false });
        }
        Ok(())
    }

    /// Records the fields of a message that a layout does not print.
    pub(super) fn note_fields(
        &mut self,
        index: usize,
        message: &Message,
        prints: impl Fn(Field) -> bool,
        why: &'static str,
    ) {
        let mut note = |field: Cow<'static, str>, why, by_design| {
            self.plan.dropped.push(Dropped { place: Place::message(index, field), why, by_design });
        };
        let filled = |text: Option<&str>| text.is_some_and(|text| !text.is_empty());
        if filled(message.reasoning_content()) && !prints(Field::Reasoning) {
            // Nobody else reasons.
            match *self.speakers.roles.of(message) == Role::Assistant {
                true => {
                    note("reasoning_content".into(), "the format does not show earlier reasoning to the model", true)
                }
                false => note("reasoning_content".into(), why, false),
            }
        }
        // A tool result is identified by its position, so the function's name adds no information.
        if filled(message.name()) && *self.speakers.roles.of(message) != Role::Tool && !prints(Field::Name) {
            note("name".into(), why, false);
        }
        for (number, (name, _)) in self.format.fields.iter().enumerate() {
            if filled(message.text_field(name)) && !prints(Field::Extra(number)) {
                note(name.clone().into(), why, false);
            }
        }
    }

    /// Reports whether a message has one of the family's own fields that the layout writes after
    /// the text.
    pub(super) fn says_more(&self, layout: &Layout, message: &Message) -> bool {
        fn flat<'o>(ops: &'o [Op], fields: &mut Vec<&'o Field>) {
            for op in ops {
                match op {
                    Op::Hole { field, .. } => fields.push(field),
                    Op::Group(inner) => flat(inner, fields),
                    _ => {}
                }
            }
        }
        let mut fields = Vec::new();
        flat(layout.ops(), &mut fields);
        let behind = fields.into_iter().skip_while(|field| **field != Field::Content);
        let mut own = behind.filter_map(|field| match field {
            Field::Extra(number) => self.format.fields.get(*number),
            _ => None,
        });
        own.any(|(name, _)| message.text_field(name).is_some_and(|text| !text.is_empty()))
    }

    pub(super) fn no_place(&mut self, place: Place, what: &str, help: &str) -> Result<(), Error> {
        if self.strict {
            let format = self.format.name.clone();
            return Err(Error::NoPlace { place, format, what: what.to_owned(), help: help.to_owned() });
        }
        self.plan.dropped.push(Dropped { place, why: "the format has no place for it", by_design: false });
        Ok(())
    }
}

/// Reports whether the layout writes a name only if it is one of the format's own names.
fn names_only(ops: &[Op]) -> bool {
    ops.iter().any(|op| match op {
        Op::Hole { field: Field::Name, codec, .. } => *codec == Codec::Enumerated,
        Op::Group(inner) => names_only(inner),
        _ => false,
    })
}
