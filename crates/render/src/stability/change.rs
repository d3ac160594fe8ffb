use rolecall_format::Slot;
use rolecall_jinja::Spot;

use crate::{Origin, Prompt};

/// The first place where a later prompt differs from an earlier one that should be its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The offset in bytes. Both prompts are equal up to this byte, which begins a character.
    pub byte: usize,
    /// The same offset in code points.
    pub character: usize,
    /// What wrote the byte in the earlier prompt.
    pub earlier: ByteSource,
    /// What wrote the byte in the later prompt, or `None` if the later prompt ends there.
    pub later: Option<ByteSource>,
}

/// What wrote a byte of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByteSource {
    /// The origin of the byte.
    pub origin: Origin,
    /// The index of the message that the byte belongs to, from 0: the message in the byte's origin,
    /// else that of its turn. `None` for text that belongs to no message.
    pub message: Option<usize>,
    /// The layout of the turn that contains the byte.
    pub slot: Option<Slot>,
    /// The place in the chat template that wrote the byte, if a template did and the place was
    /// determined (see [`Writer::spot_at`](crate::Writer::spot_at)).
    pub spot: Option<Spot>,
    /// The text from the byte on, up to 40 characters.
    pub text: String,
}

/// The length of [`ByteSource::text`] in characters.
const SHOWN: usize = 40;

impl ByteSource {
    /// Returns what wrote the byte at this offset, without the place in a template.
    pub(super) fn at(prompt: &Prompt, byte: usize) -> Option<ByteSource> {
        let origin = prompt.origin_at(byte)?;
        let turn = prompt.turns().iter().take_while(|turn| turn.start <= byte).last();
        Some(ByteSource {
            message: origin.message().or(turn.and_then(|turn| turn.message)),
            slot: turn.map(|turn| turn.slot),
            origin,
            spot: None,
            text: prompt.text()[byte..].chars().take(SHOWN).collect(),
        })
    }
}
