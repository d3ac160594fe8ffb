use std::sync::Arc;

use crate::{Choice, Control, ControlId, Defaults, Generation, Layout, Pattern, Rules, Slot};

/// How one model family writes a conversation.
///
/// ```
/// use rolecall_format::{Registry, Slot};
/// let registry = Registry::builtin();
/// let format = registry.get("internlm2").expect("it is built in");
/// assert!(format.layout(Slot::User).is_some());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Format {
    /// How it is asked for.
    pub name: String,
    /// What a person calls it.
    pub title: String,
    /// Which models it belongs to.
    pub models: Vec<Pattern>,
    /// The public source of each fact.
    pub sources: Vec<(String, String)>,
    /// The control tokens; shared with every prompt.
    pub controls: Arc<[Control]>,
    /// Marks that look like control tokens and are ordinary text.
    pub plain_marks: Vec<String>,
    /// What a caller may choose.
    pub choices: Vec<Choice>,
    /// Message fields beyond OpenAI's: name and one sentence.
    pub fields: Vec<(String, String)>,
    /// Enumerated names that are written as control tokens.
    pub names: Vec<(String, ControlId)>,
    /// What the maker's own code calls a role: the usual name and the maker's, the first of them the one to show.
    pub roles: Vec<(String, Vec<String>)>,
    /// Who may follow whom.
    pub rules: Rules,
    /// What is said when the conversation does not.
    pub defaults: Defaults,
    /// How the maker lets the model speak.
    pub generation: Arc<Generation>,
    /// Layouts that are ambiguous on purpose.
    pub ambiguous: Vec<Slot>,
    /// By slot; `Slot::ALL` long once loaded.
    pub(crate) layouts: Vec<Option<Layout>>,
}

impl Format {
    /// The layout of a slot, if the family has one.
    #[inline]
    pub fn layout(&self, slot: Slot) -> Option<&Layout> {
        self.layouts.get(slot as usize)?.as_ref()
    }

    /// A control token.
    #[inline]
    pub fn control(&self, id: ControlId) -> &Control {
        &self.controls[id.0]
    }

    /// What the maker's own code calls a role.
    pub fn role_names<'a>(&'a self, usual: &'a str) -> Vec<&'a str> {
        match self.roles.iter().find(|(known, _)| known == usual) {
            Some((_, own)) => own.iter().map(String::as_str).collect(),
            None => vec![usual],
        }
    }

    /// The ids to stop at, where public.
    pub fn stop_ids(&self) -> Vec<u32> {
        self.controls.iter().filter(|control| control.ends_turn).filter_map(|control| control.id).collect()
    }

    /// The names of the spellings that its control tokens have; the usual one has none.
    pub fn spellings(&self) -> Vec<&str> {
        let mut names: Vec<&str> =
            self.controls.iter().flat_map(|control| control.spelled.iter().map(|(name, _)| name.as_str())).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}
