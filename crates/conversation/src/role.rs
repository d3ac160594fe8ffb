use std::fmt;

/// Who speaks in a message.
///
/// ```
/// use rolecall_conversation::Role;
/// assert_eq!(Role::from_name("observation"), Role::Tool);
/// assert_eq!(Role::from_name("narrator"), Role::Other("narrator".into()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The application's instructions.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
    /// The answer to a call.
    Tool,
    /// A name that no family knows; formats refuse it.
    Other(String),
}

impl Role {
    /// The role of a name or of one of its aliases.
    pub fn from_name(name: &str) -> Role {
        match name {
            "system" => Role::System,
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "tool" => Role::Tool,
            other => {
                let is_alias = |role: &Role| role.aliases().contains(&other);
                [Role::System, Role::Tool].into_iter().find(is_alias).unwrap_or_else(|| Role::Other(other.to_owned()))
            }
        }
    }

    /// The other names that are read as this role.
    pub fn aliases(&self) -> &'static [&'static str] {
        match self {
            // What OpenAI's newer models call the application's instructions.
            Role::System => &["developer"],
            // InternLM2, ChatGLM3, OpenAI's first function calling and Llama 3.1, in this order.
            Role::Tool => &["environment", "observation", "function", "ipython"],
            Role::User | Role::Assistant | Role::Other(_) => &[],
        }
    }

    /// The usual name.
    pub fn name(&self) -> &str {
        match self {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
            Role::Other(name) => name,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
