//! Rendering of only the new part of a prompt, for an engine that has cached the rest.

use rolecall_conversation::Conversation;
use rolecall_format::{Format, LossRule};

use crate::growth::reply_end;
use crate::loss::by_format::{shifted, written_by_model};
use crate::loss::openings::common_prefix;
use crate::{Error, Options, Prompt, Turn, render};

/// Renders only the text that a conversation adds to an earlier prompt.
///
/// The earlier prompt must be rendered from the conversation's first messages with the same
/// options. The two texts concatenate to the whole prompt. If they do not, because the format now
/// writes earlier turns differently, the error names the first byte and message that differ.
///
/// ```
/// use rolecall_conversation::{Conversation, Message};
/// use rolecall_format::builtin;
/// use rolecall_render::{Options, extend, render};
///
/// let registry = builtin();
/// let format = registry.get("chatml").expect("built in");
/// let mut conversation = Conversation::new(vec![Message::user("2+2?")]);
/// let before = render(&conversation, format, &Options::default())?;
/// conversation.messages.extend([Message::assistant("4"), Message::user("times 3?")]);
///
/// let new = extend(&conversation, &before, format, &Options::default())?;
/// assert_eq!(new.text(), "4<|im_end|>\n<|im_start|>user\ntimes 3?<|im_end|>\n<|im_start|>assistant\n");
/// # Ok::<(), rolecall_render::Error>(())
/// ```
pub fn extend(
    conversation: &Conversation,
    before: &Prompt,
    format: &Format,
    options: &Options,
) -> Result<Prompt, Error> {
    let whole = render(conversation, format, options)?;
    let same = common_prefix(before.text(), whole.text());
    if same < before.text().len() {
        let message = whole.turns().iter().take_while(|turn| turn.start <= same).last().and_then(|turn| turn.message);
        return Err(Error::Rewritten { message, offset: same });
    }
    Ok(whole.behind(same))
}

/// Returns the part of a whole prompt after the last text that the model wrote.
///
/// This is the new turn alone, for an engine whose cache ends with the model's own last token. If
/// the model has not spoken yet, this is the whole prompt.
///
/// ```
/// use rolecall_conversation::{Conversation, Message};
/// use rolecall_format::builtin;
/// use rolecall_render::{Options, new_turn, render};
///
/// let registry = builtin();
/// let format = registry.get("chatml").expect("built in");
/// let messages = vec![Message::user("2+2?"), Message::assistant("4"), Message::user("times 3?")];
/// let prompt = render(&Conversation::new(messages), format, &Options::default())?;
/// // The engine has `<|im_start|>user\n2+2?<|im_end|>\n<|im_start|>assistant\n4<|im_end|>`.
/// assert_eq!(new_turn(&prompt, format).text(), "\n<|im_start|>user\ntimes 3?<|im_end|>\n<|im_start|>assistant\n");
/// # Ok::<(), rolecall_render::Error>(())
/// ```
pub fn new_turn(prompt: &Prompt, format: &Format) -> Prompt {
    let Some(last) = prompt.turns().iter().rposition(Turn::is_reply) else { return prompt.clone() };
    let turn = prompt.turn_span(last);
    let written = match format.rules.loss {
        LossRule::Turn => turn,
        LossRule::Reply => written_by_model(prompt, format, turn).0,
        LossRule::Shifted => shifted(prompt, turn),
    };
    prompt.clone().behind(written.end)
}

/// Returns the part of a chat template's whole prompt after the reply of a message.
///
/// `stops` are the texts of the tokens that may stop the model. The new turn begins after the one
/// with which the template ends the reply. Where the opening of the next turn stops the model, the
/// new turn begins with it. If no such token follows the reply, it is not known what the model
/// wrote last, and the result is `None`.
pub fn new_turn_after(prompt: &Prompt, message: usize, stops: &[String]) -> Option<Prompt> {
    let turn = prompt.turns().iter().rfind(|turn| turn.message == Some(message)).map(|turn| turn.start);
    let own = || prompt.segments().find(|segment| segment.origin.message() == Some(message)).map(|own| own.start);
    let end = reply_end(prompt, message, turn.or_else(own)?, stops);
    let stop = end.stop?;
    Some(prompt.clone().behind(if end.is_own { stop.end } else { stop.start }))
}

#[cfg(test)]
mod tests {
    use crate::loss::openings::common_prefix;

    #[test]
    fn what_is_shared_ends_between_characters() {
        assert_eq!(common_prefix("aéx", "aèx"), 1);
        assert_eq!(common_prefix("éa", "éb"), 2);
        assert_eq!(common_prefix("é", "é"), 2);
        assert_eq!(common_prefix("日本", "日曜"), 3);
        assert_eq!(common_prefix("", "a"), 0);
    }
}
