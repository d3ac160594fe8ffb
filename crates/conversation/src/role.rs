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
            // OpenAI's newer models call the application's instructions `developer`.
            "system" | "developer" => Role::System,
            "user" => Role::User,
            "assistant" => Role::Assistant,
            // InternLM2, ChatGLM3, OpenAI's first function calling and Llama 3.1, in this order.
            "tool" | "environment" | "observation" | "function" | "ipython" => Role::Tool,
            other => Role::Other(other.to_owned()),
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
