use crate::Field;

/// Generates the enum, its keys and the list of its values from one table.
macro_rules! slots {
    ($(#[$about:meta])* enum Slot { $($(#[$help:meta])* $slot:ident = $key:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Slot { $($(#[$help])* $slot,)+ }

        impl Slot {
            /// Every slot, in the order of the manual.
            pub const ALL: [Slot; [$($key),+].len()] = [$(Slot::$slot),+];

            /// Returns the key in `[layout]`.
            pub fn key(self) -> &'static str {
                match self { $(Slot::$slot => $key,)+ }
            }
        }
    };
}

slots! {
    /// A place in a prompt that has its own layout.
    ///
    /// ```
    /// use rolecall_format::Slot;
    /// assert_eq!(Slot::from_key("user-first"), Some(Slot::UserFirst));
    /// ```
    enum Slot {
        /// Once, at the start.
        Begin = "begin",
        /// Before each pair of question and answer.
        Pair = "pair",
        /// Each system message.
        System = "system",
        /// A system message that opens the conversation.
        SystemFirst = "system-first",
        /// Each user message.
        User = "user",
        /// The first user message.
        UserFirst = "user-first",
        /// The system text combined with the first user message.
        Folded = "folded",
        /// Each assistant message.
        Assistant = "assistant",
        /// An assistant message that ends the conversation.
        AssistantLast = "assistant-last",
        /// An assistant message that makes calls.
        AssistantWithCalls = "assistant-with-calls",
        /// After an assistant's turn, and not part of it.
        AssistantAfter = "assistant-after",
        /// Around all calls of a message.
        Calls = "calls",
        /// One call of a function.
        Call = "call",
        /// One call of the code interpreter.
        CallInterpreter = "call-interpreter",
        /// Between two calls.
        CallSeparator = "call-separator",
        /// One argument of a call.
        Argument = "argument",
        /// An argument whose value is a string.
        ArgumentString = "argument-string",
        /// Between two arguments.
        ArgumentSeparator = "argument-separator",
        /// Each result of a call.
        Tool = "tool",
        /// A result of the code interpreter.
        ToolInterpreter = "tool-interpreter",
        /// Around consecutive results.
        ToolGroup = "tool-group",
        /// A turn that offers the tools.
        Tools = "tools",
        /// A turn that offers the code interpreter.
        ToolsInterpreter = "tools-interpreter",
        /// A tool's description, within its JSON.
        ToolDescription = "tool-description",
        /// One tool in the list.
        ToolsItem = "tools-item",
        /// Between two tools in the list.
        ToolsSeparator = "tools-separator",
        /// A turn for the files of a user message.
        File = "file",
        /// A text part within the content.
        PartText = "part-text",
        /// A file within the content.
        PartFile = "part-file",
        /// An image within the content.
        PartImage = "part-image",
        /// Audio within the content.
        PartAudio = "part-audio",
        /// A video within the content.
        PartVideo = "part-video",
        /// At the end, if the model is to reply.
        Generate = "generate",
        /// At the end, if the model is not to reply.
        End = "end",
        /// A text without a conversation, for the model to continue.
        Completion = "completion",
        /// A program without a conversation, for the model to continue.
        Python = "python",
        /// A text with a gap for the model to fill.
        Infill = "infill",
        /// A text with a gap for the model to fill, with the text after the gap first.
        InfillSuffixFirst = "infill-suffix-first",
    }
}

use Slot::*;

impl Slot {
    /// Returns the slot with a key.
    pub fn from_key(key: &str) -> Option<Slot> {
        Slot::ALL.into_iter().find(|slot| slot.key() == key)
    }

    /// Returns the holes that its layout may have, in addition to the file's options and fields.
    pub fn fields(self) -> &'static [Field] {
        use Field as F;
        match self {
            Begin | Pair | AssistantAfter | CallSeparator | ArgumentSeparator | ToolsSeparator | PartImage
            | PartAudio | PartVideo | End => &[],
            System | SystemFirst => &[F::Content, F::Name, F::Tools, F::Functions, F::Interpreter],
            User | UserFirst => &[F::Content, F::Name, F::Round, F::Tools, F::Functions, F::Folded],
            Folded => &[F::System, F::Content],
            Assistant | AssistantLast | AssistantWithCalls => &[F::Content, F::Name, F::Reasoning, F::Calls, F::Round],
            Calls => &[F::Calls],
            Argument | ArgumentString => &[F::Key, F::Value, F::Type],
            Call => &[F::Call, F::Name, F::Arguments, F::Id, F::Index],
            CallInterpreter => &[F::Code, F::Id, F::Index],
            Tool | ToolInterpreter => &[F::Content, F::Name, F::Id],
            ToolGroup => &[F::Results],
            Tools => &[F::Tools, F::Functions],
            ToolsInterpreter => &[F::Interpreter],
            ToolDescription => &[F::Name, F::Description],
            ToolsItem => &[F::Tool, F::Function, F::Index],
            File => &[F::Files],
            PartText | Completion | Python => &[F::Content],
            Infill | InfillSuffixFirst => &[F::Prefix, F::Suffix],
            PartFile => &[F::Path, F::Size],
            Generate => &[F::Round],
        }
    }

    /// Reports whether its layout describes the model's reply or the start of the reply.
    pub fn is_reply(self) -> bool {
        matches!(
            self,
            Assistant
                | AssistantLast
                | AssistantWithCalls
                | Calls
                | Call
                | CallInterpreter
                | CallSeparator
                | Argument
                | ArgumentString
                | ArgumentSeparator
                | Generate
        )
    }

    /// Reports whether its layout writes a single user text instead of a conversation.
    pub fn is_text_alone(self) -> bool {
        matches!(self, Completion | Python | Infill | InfillSuffixFirst)
    }

    /// Reports whether its layout is a turn, filled by a message of the conversation.
    pub fn is_turn(self) -> bool {
        matches!(
            self,
            System
                | SystemFirst
                | User
                | UserFirst
                | Assistant
                | AssistantLast
                | AssistantWithCalls
                | Tool
                | ToolInterpreter
        )
    }
}
