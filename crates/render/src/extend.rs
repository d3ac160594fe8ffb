//! Rendering of only the new part of a prompt, for an engine that has cached the rest.

use rolecall_conversation::Conversation;
use rolecall_format::Format;

use crate::loss::openings::common_prefix;
use crate::{Error, Options, Prompt, render};

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
