/// What of a conversation a format file describes.
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
    /// All of it.
    #[default]
    Whole,
    /// The assistant's reply alone: what a model writes, to be read back.
    Reply,
    /// What a family's models write otherwise than their template says.
    Correction,
}
