//! What a template writes around the texts of messages, by rendering a plain conversation.

use rolecall_conversation::{Conversation, Message};

use super::{ChatTemplate, TemplateOptions};
use crate::{DateTime, Origin};

/// The texts of the conversation. They spell no marker.
const TEXTS: [&str; 4] = ["qsa", "qub", "qac", "qud"];

/// What a template writes around the texts of messages: markers, names of roles, white space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AroundTurns {
    /// The text before the first message's text, between two of them, and after the last one.
    pub texts: Vec<String>,
    /// The text between a reply and the next turn.
    pub closing: String,
}

impl AroundTurns {
    /// The text that stands for `bos_token` and `eos_token` if they are unknown.
    pub const UNKNOWN: &'static str = "\u{e0ff}";
    /// The text that stands for the name of a role.
    pub const ROLE: &'static str = "\u{e0fe}";

    /// Renders a conversation. Returns `None` if the template refuses it, or leaves texts out.
    ///
    /// ```
    /// use rolecall_render::{AroundTurns, ChatTemplate};
    /// let template = ChatTemplate::compile("{% for m in messages %}[{{ m.role }}]{{ m.content }}<end>{% endfor %}", Vec::new())?;
    /// let closing = AroundTurns::of(&template).map(|around| around.closing);
    /// assert_eq!(closing, Some(format!("<end>[{}]", AroundTurns::ROLE)));
    /// # Ok::<(), rolecall_render::Error>(())
    /// ```
    pub fn of(template: &ChatTemplate) -> Option<AroundTurns> {
        let mut tokens = template.tokens().to_vec();
        for name in ["bos_token", "eos_token"] {
            let is_known = |(known, text): &(String, String)| known == name && !text.is_empty();
            if !tokens.iter().any(is_known) {
                tokens.retain(|(known, _)| known != name);
                tokens.push((name.to_owned(), AroundTurns::UNKNOWN.to_owned()));
            }
        }
        let template = ChatTemplate::compile(template.source(), tokens).ok()?;
        // A template may refuse system messages.
        [0, 1].into_iter().find_map(|first| AroundTurns::render(&template, first))
    }

    fn render(template: &ChatTemplate, first: usize) -> Option<AroundTurns> {
        let [system, user, assistant, last] = TEXTS;
        let messages =
            [Message::system(system), Message::user(user), Message::assistant(assistant), Message::user(last)];
        let mut conversation = Conversation::new(messages.into_iter().skip(first).collect());
        conversation.add_generation_prompt = Some(true);
        let options = TemplateOptions { now: DateTime::from_unix(0), ..TemplateOptions::default() };
        let prompt = super::render(&conversation, template, &options).ok()?;
        let (mut texts, mut closing, mut around) = (Vec::new(), None, String::new());
        for segment in prompt.segments() {
            match &segment.origin {
                Origin::Message { message, field } if field.as_ref() == "content" => {
                    let text = std::mem::take(&mut around);
                    if message + first == 3 {
                        closing = Some(text.clone());
                    }
                    texts.push(text);
                }
                // A marker that is built of a role is no literal of the template.
                Origin::Message { .. } => around.push_str(AroundTurns::ROLE),
                _ => around.push_str(segment.text),
            }
        }
        texts.push(around);
        Some(AroundTurns { texts, closing: closing? })
    }
}
