/// How much time passes between the turns of a conversation, for templates that write the date.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// All prompts are rendered at the same time.
    #[default]
    AtOnce,
    /// A day passes before each message that is not the assistant's or a tool's.
    Daily,
}
