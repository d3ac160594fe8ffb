/// Who may follow whom. Each rule has a name in format files and in errors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// `system`
    pub system: SystemRule,
    /// `turns`
    pub turns: TurnsRule,
    /// `users`
    pub users: UsersRule,
    /// `assistant`
    pub assistant: AssistantRule,
    /// `tool`
    pub tool: ToolRule,
    /// `answers`
    pub answers: AnswersRule,
    /// `max-calls`
    pub max_calls: Option<usize>,
    /// `system-with-tools`
    pub system_with_tools: SystemWithTools,
    /// `tools`
    pub tools: ToolsPlace,
}

/// Makes an enum of named values with the first as default.
macro_rules! rule {
    ($(#[$about:meta])* $name:ident { $($(#[$help:meta])* $value:ident = $key:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$help])* $value,)+ }

        impl $name {
            /// The values as format files name them, the default first.
            pub const KEYS: &'static [&'static str] = &[$($key,)+];

            /// The value of a key.
            pub fn from_key(key: &str) -> Option<$name> {
                match key { $($key => Some($name::$value),)+ _ => None }
            }

            /// The key of the value.
            pub fn key(self) -> &'static str {
                match self { $($name::$value => $key,)+ }
            }
        }

        impl Default for $name {
            fn default() -> $name {
                [$($name::$value,)+][0]
            }
        }
    };
}

rule! {
    /// Where system messages may stand.
    SystemRule {
        /// Anywhere.
        Anywhere = "anywhere",
        /// Before all others.
        Leading = "leading",
        /// One, first.
        First = "first",
        /// One, first, and written inside the first user turn.
        Fold = "fold",
        /// Nowhere.
        None = "none",
    }
}
rule! {
    /// Whether user and assistant take turns.
    TurnsRule {
        /// In any order.
        Any = "any",
        /// One after the other, the user first.
        Alternate = "alternate",
    }
}
rule! {
    /// Whether a user may speak twice in a row.
    UsersRule {
        /// Yes.
        Any = "any",
        /// No.
        Apart = "apart",
    }
}
rule! {
    /// When the assistant may speak.
    AssistantRule {
        /// Always.
        Any = "any",
        /// After some user message.
        AfterUser = "after-user",
    }
}
rule! {
    /// When a tool may answer.
    ToolRule {
        /// Always.
        Any = "any",
        /// After the assistant, or another tool.
        AfterAssistant = "after-assistant",
        /// After a message with calls, or another tool.
        AfterCall = "after-call",
    }
}
rule! {
    /// Whether calls need answers.
    AnswersRule {
        /// No.
        Any = "any",
        /// Before anyone else speaks.
        Required = "required",
    }
}
rule! {
    /// Where the turns stand that offer tools.
    ToolsPlace {
        /// Behind the opening system messages.
        AfterSystem = "after-system",
        /// Before them.
        BeforeSystem = "before-system",
    }
}
rule! {
    /// What becomes of a system text when tools are offered.
    SystemWithTools {
        /// It stays.
        Keep = "keep",
        /// The tools' own prompt takes its place.
        Replace = "replace",
    }
}
