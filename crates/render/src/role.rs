//! Who speaks, by the usual names or by those of the format's maker.

use rolecall_conversation::{Conversation, Message, Role};
use rolecall_format::Format;

static USUAL: [Role; 4] = [Role::System, Role::User, Role::Assistant, Role::Tool];

/// The role of a message: a name that is unknown elsewhere may be the maker's own.
#[inline]
pub(crate) fn role_of<'m>(message: &'m Message, format: &Format) -> &'m Role {
    match message.role() {
        Role::Other(name) => {
            let own = |role: &&Role| format.role_names(role.name()).contains(&name.as_str());
            USUAL.iter().find(own).unwrap_or(message.role())
        }
        role => role,
    }
}

/// Whether a generation prompt ends the prompt.
pub(crate) fn generates(conversation: &Conversation, format: &Format) -> bool {
    let last = conversation.messages.last().map(|message| role_of(message, format));
    let wanted = conversation.add_generation_prompt.unwrap_or(last != Some(&Role::Assistant));
    wanted && !conversation.continue_final_message
}
