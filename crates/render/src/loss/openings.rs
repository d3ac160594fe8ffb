//! What a template writes between a message and the reply to it, as far as the engine receives it:
//! the end of the message's turn and the generation prompt.

use std::sync::Arc;

use rolecall_conversation::{Conversation, Message};
use rolecall_text::common_prefix;

use super::speech::{QuestionKind, speeches};
use crate::{ChatTemplate, Prompt, TemplateOptions, template};

/// The generation prompts of a conversation, each determined once for a kind of message.
pub(super) struct Openings<'a> {
    conversation: &'a Conversation,
    template: &'a ChatTemplate,
    options: &'a TemplateOptions,
    /// The text after the last byte of a message, by its kind.
    tails: Vec<(QuestionKind, Option<Arc<str>>)>,
    /// The generation prompt by itself, by the kind of message before it.
    added: Vec<(QuestionKind, Option<Arc<str>>)>,
}

impl<'a> Openings<'a> {
    pub fn new(
        conversation: &'a Conversation,
        template: &'a ChatTemplate,
        options: &'a TemplateOptions,
    ) -> Openings<'a> {
        Openings { conversation, template, options, tails: Vec::new(), added: Vec::new() }
    }

    /// Returns what the engine receives after the last byte of a kind of message, including the
    /// generation prompt. The first `end` messages, which end with one of this kind, are the probe.
    pub fn tail(&mut self, kind: &QuestionKind, end: usize) -> Option<Arc<str>> {
        if let Some((_, tail)) = self.tails.iter().find(|(known, _)| known == kind) {
            return tail.clone();
        }
        let found = self.rendered(end, true).and_then(|prompt| {
            let speeches = speeches(&prompt);
            let last = speeches.last();
            let is_it = QuestionKind::of(last, self.conversation) == *kind;
            prompt.text().get(last.map_or(0, |speech| speech.end)..).filter(|_| is_it).map(Arc::from)
        });
        self.tails.push((kind.clone(), found.clone()));
        found
    }

    /// Returns the text that a generation prompt adds after a kind of message.
    pub fn added(&mut self, kind: &QuestionKind, end: usize) -> Option<Arc<str>> {
        if let Some((_, added)) = self.added.iter().find(|(known, _)| known == kind) {
            return added.clone();
        }
        let found = self.rendered(end, true).and_then(|with| {
            let without = self.rendered(end, false)?;
            let same = common_prefix(with.text(), without.text());
            Some(Arc::from(&with.text()[same..]))
        });
        self.added.push((kind.clone(), found.clone()));
        found
    }

    /// Renders the first messages, or a message of a user if there are none.
    fn rendered(&self, end: usize, add_generation_prompt: bool) -> Option<Prompt> {
        let messages = match self.conversation.messages.get(..end)? {
            [] => vec![Message::user("x")],
            messages => messages.to_vec(),
        };
        let conversation = Conversation {
            messages,
            tools: self.conversation.tools.clone(),
            documents: self.conversation.documents.clone(),
            add_generation_prompt: Some(add_generation_prompt),
            continue_final_message: false,
            template_kwargs: self.conversation.template_kwargs.clone(),
        };
        template::render(&conversation, self.template, self.options).ok()
    }
}
