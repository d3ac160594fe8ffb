use crate::Layout;

/// The texts to use where the conversation has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Defaults {
    /// A system text that the maker's code adds.
    pub system: Option<String>,
    /// The index of the option that replaces the system text.
    pub system_option: Option<usize>,
    /// When the system text is added.
    pub system_when: SystemWhen,
    /// A system text that is added if tools are offered and the conversation has no system message.
    pub system_with_tools: Option<String>,
    /// The text that tells the model about its code interpreter.
    pub interpreter: Option<String>,
    /// The index of the option that replaces the interpreter text.
    pub interpreter_option: Option<usize>,
    /// Named system texts. The option `system_template` selects one of them.
    pub system_templates: Vec<(String, Layout)>,
    /// The text that marks the gap for the model to fill.
    pub gap: Option<String>,
}

/// When a default system text is added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SystemWhen {
    /// If the first message is not a system message.
    #[default]
    NotFirst,
    /// If there is no system message.
    None,
    /// Always, before all other messages.
    Always,
}

impl SystemWhen {
    /// Every value, with its key in `[defaults]` and as a value of the option `system-when`.
    pub const ALL: [(&'static str, SystemWhen); 3] =
        [("not-first", SystemWhen::NotFirst), ("none", SystemWhen::None), ("always", SystemWhen::Always)];

    /// Returns the value with a key.
    pub fn from_key(key: &str) -> Option<SystemWhen> {
        SystemWhen::ALL.into_iter().find(|(known, _)| *known == key).map(|(_, when)| when)
    }
}
