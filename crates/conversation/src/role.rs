use std::fmt;

/// The role of a message: who wrote it.
///
/// ```
/// use rolecall_conversation::Role;
/// assert_eq!(Role::from_name("observation"), Role::Tool);
/// assert_eq!(Role::from_name("narrator"), Role::Other("narrator".into()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Instructions of the application.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// The result of a tool call.
    Tool,
    /// A name that is not one of the standard roles or their aliases. Formats reject it.
    Other(String),
}

impl Role {
    /// Returns the role with this name or alias.
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

    /// Returns the other names of this role.
    pub fn aliases(&self) -> &'static [&'static str] {
        match self {
            // OpenAI's newer models use this name for the application's instructions.
            Role::System => &["developer"],
            // The names of InternLM2, ChatGLM3, OpenAI's first function calling and Llama 3.1, in
            // this order.
            Role::Tool => &["environment", "observation", "function", "ipython"],
            Role::User | Role::Assistant | Role::Other(_) => &[],
        }
    }

    /// Returns the standard name.
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
