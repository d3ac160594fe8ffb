use rolecall_conversation::Conversation;
use rolecall_format::Format;
use rolecall_jinja::Spot;

use crate::{ChatTemplate, Error, Options, Prompt, TemplateOptions, render, render_template, written_at};

/// What renders the prompts of a conversation.
#[derive(Clone, Copy, Debug)]
pub enum Speaker<'a> {
    /// A format.
    Format(&'a Format, &'a Options),
    /// A chat template.
    Template(&'a ChatTemplate, &'a TemplateOptions),
}

impl Speaker<'_> {
    /// Renders a conversation.
    pub fn render(self, conversation: &Conversation) -> Result<Prompt, Error> {
        match self {
            Speaker::Format(format, options) => render(conversation, format, options),
            Speaker::Template(template, options) => render_template(conversation, template, options),
        }
    }

    /// Returns the place in the chat template that wrote a byte of a conversation's prompt. A
    /// format has none.
    pub fn spot_at(self, conversation: &Conversation, byte: usize) -> Option<Spot> {
        match self {
            Speaker::Format(..) => None,
            Speaker::Template(template, options) => written_at(conversation, template, options, byte).ok()?,
        }
    }
}
