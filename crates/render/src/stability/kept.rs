use rolecall_text::{common_items, common_prefix};

use super::{ByteSource, Change};
use crate::Prompt;

/// How much of an earlier prompt a later one keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptLength {
    /// The length of the earlier prompt in bytes.
    pub bytes: usize,
    /// The length of the earlier prompt in code points.
    pub characters: usize,
    /// The first place where the prompts differ, or `None` if the later prompt begins with the
    /// earlier one.
    pub change: Option<Change>,
    /// How many ids of the earlier prompt the later one keeps, if both were encoded.
    pub ids: Option<KeptIds>,
}

/// How many ids of an earlier prompt a later one keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptIds {
    /// The number of ids of the earlier prompt.
    pub of: usize,
    /// The number of ids that both prompts begin with.
    pub kept: usize,
}

/// Compares two prompts of one writer, where the later one should begin with the earlier one.
///
/// ```
/// use rolecall_conversation::{Conversation, Message};
/// use rolecall_render::stability::compare;
/// use rolecall_render::{ChatTemplate, TemplateOptions, Writer};
///
/// // The template marks the last message.
/// let source = "{% for m in messages %}[{{ '>' if loop.last }}{{ m.content }}]{% endfor %}";
/// let writer = Writer::template(ChatTemplate::compile(source, Vec::new())?, TemplateOptions::default());
/// let mut conversation = Conversation::new(vec![Message::user("Hi")]);
/// let earlier = writer.render(&conversation)?;
/// conversation.messages.push(Message::assistant("Hello"));
/// let later = writer.render(&conversation)?;
/// assert_eq!((earlier.text(), later.text()), ("[>Hi]", "[Hi][>Hello]"));
///
/// let kept = compare(&earlier, &later);
/// let change = kept.change.as_ref().expect("the mark moves");
/// assert_eq!((change.byte, change.earlier.message, kept.lost_bytes()), (1, Some(0), 4));
/// # Ok::<(), rolecall_render::Error>(())
/// ```
pub fn compare(earlier: &Prompt, later: &Prompt) -> KeptLength {
    let (text, byte) = (earlier.text(), common_prefix(earlier.text(), later.text()));
    let character = text[..byte].chars().count();
    let change = ByteSource::at(earlier, byte).map(|written| Change {
        byte,
        character,
        earlier: written,
        later: ByteSource::at(later, byte),
    });
    KeptLength { bytes: text.len(), characters: character + text[byte..].chars().count(), change, ids: None }
}

impl KeptLength {
    /// Reports whether the later prompt begins with the earlier one.
    pub fn is_stable(&self) -> bool {
        self.change.is_none()
    }

    /// Returns how many bytes of the earlier prompt the later one does not begin with.
    pub fn lost_bytes(&self) -> usize {
        self.change.as_ref().map_or(0, |change| self.bytes - change.byte)
    }

    /// Returns how many ids of the earlier prompt are not valid in the later one, if both were
    /// encoded. Ids can be lost although the text is stable: a token may contain the end of the
    /// earlier text and the beginning of the new one.
    pub fn lost_ids(&self) -> Option<usize> {
        self.ids.map(|ids| ids.of - ids.kept)
    }
}

impl KeptIds {
    /// Compares the ids of two prompts.
    pub fn compare(earlier: &[u32], later: &[u32]) -> KeptIds {
        KeptIds { of: earlier.len(), kept: common_items(earlier, later) }
    }
}
