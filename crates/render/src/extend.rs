//! The new part of a prompt alone, for an engine that has cached the rest.

use rolecall_conversation::Conversation;
use rolecall_format::Format;

use crate::{Error, Options, Prompt, render};

/// Renders what a conversation adds to a prompt that was rendered before, of its first messages and with the same
/// options. The two texts join to the whole prompt; where they would not, because the format writes earlier turns
/// otherwise now, the error says from which byte and which message on.
///
/// ```
/// use rolecall_conversation::{Conversation, Message};
/// use rolecall_format::Registry;
/// use rolecall_render::{Options, extend, render};
///
/// let registry = Registry::builtin();
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

/// How many bytes two texts share at their start, in whole characters.
fn common_prefix(one: &str, other: &str) -> usize {
    let mut same = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    while !one.is_char_boundary(same) || !other.is_char_boundary(same) {
        same -= 1;
    }
    same
}
