/// The part of a conversation that a format file describes.
///
/// ```
/// use rolecall_format::{FormatPart, load};
/// let reply = load("part = \"reply\"\nname = \"mine\"\n[layout]\nassistant = \"{content}</s>\"\ngenerate = \"\"\nbegin = \"<s>\"");
/// assert!(reply.is_err(), "the control tokens are not declared");
/// let reply = load("part = \"reply\"\nname = \"mine\"\n[layout]\nassistant = \"{content}\"\ngenerate = \"\"")?;
/// assert_eq!(reply.part, FormatPart::Reply);
/// # Ok::<(), rolecall_format::LoadError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FormatPart {
    /// The whole conversation.
    #[default]
    Whole,
    /// Only the assistant's reply, to parse model output.
    Reply,
    /// How a family's models deviate from their chat template.
    Correction,
}

impl FormatPart {
    /// Returns the value of `part` in a format file.
    pub fn key(self) -> &'static str {
        match self {
            FormatPart::Whole => "whole",
            FormatPart::Reply => "reply",
            FormatPart::Correction => "correction",
        }
    }
}
