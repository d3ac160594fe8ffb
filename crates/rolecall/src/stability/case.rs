use rolecall_conversation::{Conversation, Json, json};

use super::Pace;

/// The built-in conversations. Each has a note on what it shows.
const SET: &str = include_str!("conversations.json");

/// A conversation whose prompts are compared as it grows.
///
/// ```
/// use rolecall::stability::Case;
/// assert!(Case::all().iter().any(|case| case.name == "reasoning-with-tools"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The name.
    pub name: String,
    /// What the conversation shows, in a few words.
    pub tells: String,
    /// The conversation.
    pub conversation: Conversation,
    /// How much time passes between its turns.
    pub pace: Pace,
    /// Whether the conversation is also compared with each switch of a chat template set to the
    /// value that is not its default.
    pub switched: bool,
}

impl Case {
    /// Returns the built-in conversations.
    pub fn all() -> Vec<Case> {
        let set = json::parse(SET).ok();
        let items = set.as_ref().and_then(Json::as_array).unwrap_or_default();
        let cases: Vec<Case> = items.iter().filter_map(read).collect();
        // A test reads the set, so a release has no broken one.
        debug_assert!(!items.is_empty() && cases.len() == items.len(), "the set of conversations is broken");
        cases
    }

    /// Returns a user's own conversation.
    pub fn of(name: impl Into<String>, conversation: Conversation) -> Case {
        Case { name: name.into(), tells: String::new(), conversation, pace: Pace::AtOnce, switched: false }
    }

    /// Returns the conversation with a switch set.
    pub(super) fn with_switch(&self, name: &str, value: bool) -> Case {
        let mut case = self.clone();
        case.name = format!("{}, {name}={value}", self.name);
        case.conversation.template_kwargs.insert(name, Json::Bool(value));
        case
    }
}

fn read(item: &Json) -> Option<Case> {
    let object = item.as_object()?;
    let text = |key: &str| Some(object.get(key)?.as_str()?.to_owned());
    let flag = |key: &str| object.get(key).and_then(Json::as_bool).unwrap_or(false);
    Some(Case {
        name: text("name")?,
        tells: text("tells")?,
        conversation: Conversation::from_json(item.clone()).ok()?,
        pace: if flag("daily") { Pace::Daily } else { Pace::AtOnce },
        switched: flag("switched"),
    })
}

#[cfg(test)]
mod tests {
    use super::Case;

    #[test]
    fn every_conversation_is_read_and_has_its_own_name() {
        let mut names: Vec<String> = Case::all().into_iter().map(|case| case.name).collect();
        assert!(names.len() > 15);
        names.sort();
        names.dedup();
        assert_eq!(names.len(), Case::all().len());
    }
}
