use crate::CallIds;

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
    /// `blank-system`
    pub blank_system: BlankSystem,
    /// `roles`
    pub roles: RolesRule,
    /// `ending`
    pub ending: EndingRule,
    /// `loss`
    pub loss: LossRule,
    /// Whether it is how training writes a conversation: an answer that is not there is not opened.
    pub learned: bool,
    /// `header`
    pub header: HeaderRule,
    /// `interpreter-field`: all that a field of the family's own may say where only the code interpreter is there to call.
    pub interpreter_field: Option<String>,
    /// `call-ids`
    pub call_ids: CallIds,
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
        /// Nowhere, and the reference refuses one as well.
        Refused = "refused",
    }
}
rule! {
    /// Whether user and assistant take turns.
    TurnsRule {
        /// In any order.
        Any = "any",
        /// One after the other, the user first.
        Alternate = "alternate",
        /// As pairs of what was asked and the answer: what stands before an answer is joined, what has none is left out.
        Answered = "answered",
        /// One after the other, the user first; a last message without its answer is left out.
        Paired = "paired",
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
        /// Behind the first of them.
        AfterFirst = "after-first",
        /// Behind the system text that the format adds, before those of the conversation.
        AfterDefault = "after-default",
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
rule! {
    /// What becomes of a system message without text.
    BlankSystem {
        /// It is written like any other.
        Keep = "keep",
        /// An empty one counts as none.
        Skip = "skip",
        /// One that is empty or has nothing but spaces counts as none.
        SkipSpaces = "skip-spaces",
    }
}
rule! {
    /// How the reference knows who speaks.
    RolesRule {
        /// By the message's role.
        Named = "named",
        /// By the message's place, behind the system messages: the user's, the assistant's, and so on.
        ByPlace = "by-place",
    }
}
rule! {
    /// How a prompt ends whose last message is the assistant's.
    EndingRule {
        /// That turn is closed.
        Closed = "closed",
        /// That turn is closed, and the assistant's next one is opened.
        Reopened = "reopened",
        /// That turn stays open: the model goes on with it.
        Open = "open",
    }
}
rule! {
    /// What of an assistant's turn a training loss touches.
    LossRule {
        /// What the model writes: all behind the generation prompt, with the token that ends the turn.
        Reply = "reply",
        /// All that the layout `assistant` writes.
        Turn = "turn",
        /// Of each assistant message and each result of a call, all but its first token, and the token that follows.
        Shifted = "shifted",
    }
}
rule! {
    /// What may stand in a message's header: in the fields of the family's own, and as the name of a call.
    HeaderRule {
        /// Any text.
        Any = "any",
        /// No line break.
        OneLine = "one-line",
    }
}
