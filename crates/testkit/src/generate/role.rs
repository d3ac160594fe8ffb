//! The names of roles that a message may have.

use rolecall::conversation::{Conversation, Message, object};
use rolecall::format::Format;
use rolecall::render::{Options, RuleMode, Writer};

use super::maker::Maker;

impl Maker<'_> {
    /// Reports whether the maker's own code uses this name for another role.
    pub(super) fn is_anothers(&self, name: &str, usual: &str) -> bool {
        self.format.roles.iter().any(|(known, own)| known != usual && own.iter().any(|own| own == name))
    }
}

/// Returns the maker's names of a role that are accepted under reference rules.
pub(super) fn own_roles(format: &Format, usual: &str) -> Vec<String> {
    let options = Options { rules: RuleMode::Reference, ..Options::default() };
    let accepted = |name: &&str| {
        let message = Message::from_object(object! { "role" => *name, "content" => "" }).expect("a role and a content");
        !matches!(Writer::format(format.clone(), options.clone()).render(&Conversation::new(vec![message])), Err(error) if error.code() == "unknown_role")
    };
    format.role_names(usual).into_iter().filter(accepted).map(str::to_owned).collect()
}
