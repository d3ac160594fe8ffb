use crate::CallIds;

/// The rules for the order of messages. Format files and errors use each rule's name.
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
    /// `tool-texts`
    pub tool_texts: ToolTexts,
    /// `blank-system`
    pub blank_system: BlankSystem,
    /// `roles`
    pub roles: RolesRule,
    /// `ending`
    pub ending: EndingRule,
    /// `loss`
    pub loss: LossRule,
    /// Whether the format writes training text: a missing answer is not opened.
    pub learned: bool,
    /// `header`
    pub header: HeaderRule,
    /// `interpreter-field`: the only value that the family's own fields may have if the
    /// conversation has the code interpreter and no other tool.
    pub interpreter_field: Option<String>,
    /// `call-ids`
    pub call_ids: CallIds,
}

/// Generates an enum of named values. The first value is the default.
macro_rules! rule {
    ($(#[$about:meta])* $name:ident { $($(#[$help:meta])* $value:ident = $key:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$help])* $value,)+ }

        impl $name {
            /// The values' keys in format files, the default first.
            pub const KEYS: &'static [&'static str] = &[$($key,)+];

            /// Returns the value with a key.
            pub fn from_key(key: &str) -> Option<$name> {
                match key { $($key => Some($name::$value),)+ _ => None }
            }

            /// Returns the value's key.
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
    /// The allowed places of system messages.
    SystemRule {
        /// Anywhere.
        Anywhere = "anywhere",
        /// Before all other messages.
        Leading = "leading",
        /// Only one, as the first message.
        First = "first",
        /// Only one, as the first message, written inside the first user turn.
        Fold = "fold",
        /// Nowhere.
        None = "none",
        /// Nowhere. The reference also refuses system messages.
        Refused = "refused",
    }
}
rule! {
    /// The required order of user and assistant messages.
    TurnsRule {
        /// In any order.
        Any = "any",
        /// Alternating, the user first.
        Alternate = "alternate",
        /// Pairs of question and answer. All user messages before an answer are joined, and those
        /// without an answer are dropped.
        Answered = "answered",
        /// Alternating, the user first. A last message without an answer is dropped.
        Paired = "paired",
    }
}
rule! {
    /// Whether two user messages may follow each other.
    UsersRule {
        /// Yes.
        Any = "any",
        /// No.
        Apart = "apart",
    }
}
rule! {
    /// When an assistant message is allowed.
    AssistantRule {
        /// Always.
        Any = "any",
        /// After a user message.
        AfterUser = "after-user",
    }
}
rule! {
    /// When a tool result is allowed.
    ToolRule {
        /// Always.
        Any = "any",
        /// After the assistant or another result.
        AfterAssistant = "after-assistant",
        /// After a message with calls or another result.
        AfterCall = "after-call",
    }
}
rule! {
    /// Whether calls need results.
    AnswersRule {
        /// No.
        Any = "any",
        /// Before any other message.
        Required = "required",
    }
}
rule! {
    /// The place of the turns that offer tools.
    ToolsPlace {
        /// After the opening system messages.
        AfterSystem = "after-system",
        /// Before the opening system messages.
        BeforeSystem = "before-system",
        /// After the first system message.
        AfterFirst = "after-first",
        /// After the system text that the format adds, before the system messages of the
        /// conversation.
        AfterDefault = "after-default",
    }
}
rule! {
    /// How to treat a tool that is a text.
    ToolTexts {
        /// Refuse it.
        Refused = "refused",
        /// Write it as it stands.
        Written = "written",
    }
}
rule! {
    /// How to treat a system text when tools are offered.
    SystemWithTools {
        /// Keep it.
        Keep = "keep",
        /// Replace it with the system text for tools.
        Replace = "replace",
    }
}
rule! {
    /// How to treat a system message without text.
    BlankSystem {
        /// Write it like any other.
        Keep = "keep",
        /// Ignore an empty one.
        Skip = "skip",
        /// Ignore one that is empty or consists only of spaces.
        SkipSpaces = "skip-spaces",
    }
}
rule! {
    /// How the reference determines the speaker of a message.
    RolesRule {
        /// From the message's role.
        Named = "named",
        /// From the message's position after the system messages: user, assistant, and so on.
        ByPlace = "by-place",
    }
}
rule! {
    /// How a prompt ends if its last message is the assistant's.
    EndingRule {
        /// The turn is closed.
        Closed = "closed",
        /// The turn is closed, and another assistant turn is opened.
        Reopened = "reopened",
        /// The turn stays open, and the model continues it.
        Open = "open",
    }
}
rule! {
    /// The tokens of an assistant turn that carry loss.
    LossRule {
        /// All tokens after the generation prompt, including the token that ends the turn.
        Reply = "reply",
        /// All tokens that the layout `assistant` writes.
        Turn = "turn",
        /// All but the first token of each assistant message and call result, and the token that
        /// follows.
        Shifted = "shifted",
    }
}
rule! {
    /// The text allowed in a message's header: in the family's own fields and in the name of a
    /// call.
    HeaderRule {
        /// Any text.
        Any = "any",
        /// No line break.
        OneLine = "one-line",
    }
}
