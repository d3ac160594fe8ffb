use crate::Field;

/// Makes the enum, its keys and its list of one table.
macro_rules! slots {
    ($(#[$about:meta])* enum Slot { $($(#[$help:meta])* $slot:ident = $key:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Slot { $($(#[$help])* $slot,)+ }

        impl Slot {
            /// Every slot, in the manual's order.
            pub const ALL: [Slot; [$($key),+].len()] = [$(Slot::$slot),+];

            /// The key in `[layout]`.
            pub fn key(self) -> &'static str {
                match self { $(Slot::$slot => $key,)+ }
            }
        }
    };
}

slots! {
    /// A place in a prompt that has a layout of its own.
    ///
    /// ```
    /// use rolecall_format::Slot;
    /// assert_eq!(Slot::from_key("user-first"), Some(Slot::UserFirst));
    /// ```
    enum Slot {
        /// Once, first.
        Begin = "begin",
        /// Before each pair of what was asked and the answer.
        Pair = "pair",
        /// Each system message.
        System = "system",
        /// A system message that opens the conversation.
        SystemFirst = "system-first",
        /// Each user message.
        User = "user",
        /// The first user message.
        UserFirst = "user-first",
        /// The system text and the first user's, in one.
        Folded = "folded",
        /// Each assistant message.
        Assistant = "assistant",
        /// An assistant message that ends the conversation.
        AssistantLast = "assistant-last",
        /// An assistant message that makes calls.
        AssistantWithCalls = "assistant-with-calls",
        /// Behind an assistant's turn, and not part of it.
        AssistantAfter = "assistant-after",
        /// Around the calls of a message.
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
        /// Around a run of results.
        ToolGroup = "tool-group",
        /// A turn that offers the tools.
        Tools = "tools",
        /// A turn that offers the code interpreter.
        ToolsInterpreter = "tools-interpreter",
        /// A tool's description, inside its JSON.
        ToolDescription = "tool-description",
        /// One tool of the list.
        ToolsItem = "tools-item",
        /// Between two tools of the list.
        ToolsSeparator = "tools-separator",
        /// A turn for the files of a user message.
        File = "file",
        /// A part of text inside the content.
        PartText = "part-text",
        /// A file inside the content.
        PartFile = "part-file",
        /// An image inside the content.
        PartImage = "part-image",
        /// Audio inside the content.
        PartAudio = "part-audio",
        /// A video inside the content.
        PartVideo = "part-video",
        /// Last, when the model is to speak.
        Generate = "generate",
        /// Last, when it is not.
        End = "end",
        /// A text alone that the model is to go on with.
        Completion = "completion",
        /// A program alone that the model is to go on with.
        Python = "python",
        /// A text with a gap that the model is to fill.
        Infill = "infill",
        /// The same, where what stands behind the gap comes first.
        InfillSuffixFirst = "infill-suffix-first",
    }
}

use Slot::*;

impl Slot {
    /// The slot of a key.
    pub fn from_key(key: &str) -> Option<Slot> {
        Slot::ALL.into_iter().find(|slot| slot.key() == key)
    }

    /// The holes that its layout may have, beside the file's own options and fields.
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
            Argument | ArgumentString => &[F::Key, F::Value],
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

    /// Whether its layout says how a model writes its reply, or where that begins.
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

    /// Whether its layout writes one user text alone, and no conversation.
    pub fn is_text_alone(self) -> bool {
        matches!(self, Completion | Python | Infill | InfillSuffixFirst)
    }

    /// Whether its layout is a turn: one that a message of the conversation fills.
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
