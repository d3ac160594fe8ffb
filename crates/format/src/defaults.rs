use crate::Layout;

/// What is said when the conversation does not say it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Defaults {
    /// A system text that the maker's code adds.
    pub system: Option<String>,
    /// The option that holds that text instead.
    pub system_option: Option<usize>,
    /// When it is added.
    pub system_when: SystemWhen,
    /// A system text that is added when tools are offered and there is none.
    pub system_with_tools: Option<String>,
    /// What tells the model that it has a code interpreter.
    pub interpreter: Option<String>,
    /// The option that holds that text instead.
    pub interpreter_option: Option<usize>,
    /// System texts by name, one of which the option `system_template` may choose.
    pub system_templates: Vec<(String, Layout)>,
    /// What marks the gap that the model is to fill.
    pub gap: Option<String>,
}

/// When a default system text is added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SystemWhen {
    /// When the first message is not a system message.
    #[default]
    NotFirst,
    /// When no message is.
    None,
    /// Always, before all others.
    Always,
}
