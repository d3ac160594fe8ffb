//! Draws the comparison of growing conversations: a line for each conversation, and the changes.

mod changes;
mod page;

use rolecall::template::ModelTemplates;

pub use page::draw;

/// The templates that render the conversations.
#[derive(Clone, Copy, Default)]
pub struct Sources<'a> {
    /// The model's templates, unless a conversation carries its own.
    pub templates: Option<&'a ModelTemplates>,
    /// The name of the template, if the command line sets it.
    pub name: Option<&'a str>,
}
