use rolecall_conversation::{Message, Role};
use rolecall_render::Prompt;
use rolecall_render::growth::{ReplyRule, reply_end_of};

use crate::Error;

/// Returns the part of a conversation's prompt that a session sends next if it has taken over
/// everything up to the last reply. Without a reply, this is the whole prompt.
///
/// For a chat template that ends the reply with no stop token, it is not known what the model wrote
/// last, which is an error.
pub(super) fn new_turn(prompt: Prompt, messages: &[Message], rule: ReplyRule<'_>) -> Result<Prompt, Error> {
    let Some(message) = messages.iter().rposition(|message| *message.role() == Role::Assistant) else {
        return Ok(prompt);
    };
    let end = reply_end_of(&prompt, message, rule).filter(|end| rule.format.is_some() || end.stop.is_some());
    let end = end.ok_or(Error::NoNewTurn { message })?;
    prompt.after(end.end).ok_or(Error::NoNewTurn { message })
}
