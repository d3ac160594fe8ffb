//! Rendering of only the end of a growing conversation.
//!
//! [`Writer::render_growing`] renders a conversation and returns a [`Growth`]: the state of the
//! rendering, which does not depend on the conversation's length. [`Writer::grow`] takes it up and
//! renders what follows, if everything that was read, compared and written before is shown to be
//! the same for the longer conversation. Otherwise it returns the reason, and the caller renders
//! the whole conversation.
//!
//! Start reading at [`Writer::grow`].

mod format;
mod longer;
mod not_grown;
mod reply_end;
mod template;

use std::sync::Arc;

use rolecall_conversation::Conversation;

use crate::{Error, Prompt, Writer};

pub use longer::Longer;
pub use not_grown::NotGrown;
pub use reply_end::{ReplyEnd, ReplyRule, reply_end, reply_end_of};
pub(crate) use reply_end::{first_stop, stop_after};

/// The state of a rendering, from which a longer conversation can be rendered.
///
/// It is immutable, cheap to clone, and its size does not depend on the conversation's length. The
/// only exception are the ids of calls, where a format generates them or tells results apart by
/// them: states share the ids of what they have in common.
#[derive(Clone, Debug)]
pub struct Growth(GrowthKind);

/// The place at which a rendering is taken up, which proves that the text before it is the same.
///
/// A template is taken up at the top of a loop over the messages, before the loop takes a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakenUp {
    /// The line of the loop in the template.
    pub line: u32,
    /// The index of the first message that is rendered again.
    pub message: usize,
}

impl Growth {
    /// Returns the index of the first message that is rendered again if all else is the same.
    pub fn first_message(&self) -> Option<usize> {
        match &self.0 {
            GrowthKind::Format(growth) => Some(growth.first_message()),
            GrowthKind::Template(growth) => growth.place().map(|(_, message)| message),
        }
    }

    /// Returns the place at which a template's rendering is taken up if all else is the same. A
    /// format has no lines.
    pub fn taken_up(&self) -> Option<TakenUp> {
        match &self.0 {
            GrowthKind::Format(_) => None,
            GrowthKind::Template(growth) => growth.place().map(|(line, message)| TakenUp { line, message }),
        }
    }
}

#[derive(Clone, Debug)]
enum GrowthKind {
    Format(Arc<format::FormatGrowth>),
    Template(Arc<template::TemplateGrowth>),
}

/// The end of a longer conversation's prompt.
#[derive(Clone, Debug)]
pub struct Grown {
    /// The byte of the whole prompt at which `prompt` begins. The text before it is that of the
    /// shorter conversation's prompt.
    pub start: usize,
    /// The prompt from there on. Its positions count from its own start; its origins name the
    /// messages of the whole conversation. It lists what was left out of the messages that were
    /// rendered again and of everything outside the messages.
    pub prompt: Prompt,
    /// The state from which a still longer conversation can be rendered.
    pub growth: Option<Growth>,
}

impl Writer {
    /// Renders a conversation as [`render`](Writer::render) does, and returns the state from which
    /// a longer one can be rendered, if there is one.
    pub fn render_growing(&self, conversation: &Conversation) -> Result<(Prompt, Option<Growth>), Error> {
        Ok(match self {
            Writer::Format(format, options) => {
                let (prompt, growth) = format::render(conversation, format, options)?;
                (prompt, growth.map(|growth| Growth(GrowthKind::Format(Arc::new(growth)))))
            }
            Writer::Template(template, options) => {
                let (prompt, growth) = template::render(conversation, template, options)?;
                (prompt, growth.map(|growth| Growth(GrowthKind::Template(Arc::new(growth)))))
            }
        })
    }

    /// Renders the end of a longer conversation. The writer's kind, its options and everything in the
    /// conversation except its messages and `add_generation_prompt` must be those of the rendering
    /// that the state comes from, and its messages must begin with that rendering's.
    pub fn grow(&self, growth: &Growth, longer: &Longer<'_>) -> Result<Grown, NotGrown> {
        match (self, &growth.0) {
            (Writer::Format(format, options), GrowthKind::Format(growth)) => {
                format::grow(growth, longer, format, options)
            }
            (Writer::Template(template, options), GrowthKind::Template(growth)) => {
                template::grow(growth, longer, template, options)
            }
            _ => Err(NotGrown::OtherWriter),
        }
    }
}
