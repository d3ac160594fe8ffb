use crate::Field;

/// A place in a prompt that has a layout of its own.
///
/// ```
/// use rolecall_format::Slot;
/// assert_eq!(Slot::from_key("user-first"), Some(Slot::UserFirst));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Slot {
    /// Once, first.
    Begin,
    /// Each system message.
    System,
    /// A system message that opens the conversation.
    SystemFirst,
    /// Each user message.
    User,
    /// The first user message.
    UserFirst,
    /// The system text and the first user's, in one.
    Folded,
    /// Each assistant message.
    Assistant,
    /// An assistant message that makes calls.
    AssistantWithCalls,
    /// One call of a function.
    Call,
    /// One call of the code interpreter.
    CallInterpreter,
    /// Between two calls.
    CallSeparator,
    /// Each result of a call.
    Tool,
    /// A result of the code interpreter.
    ToolInterpreter,
    /// Around a run of results.
    ToolGroup,
    /// A turn that offers the tools.
    Tools,
    /// A turn that offers the code interpreter.
    ToolsInterpreter,
    /// One tool of the list.
    ToolsItem,
    /// Between two tools of the list.
    ToolsSeparator,
    /// A turn for the files of a user message.
    File,
    /// A part of text inside the content.
    PartText,
    /// A file inside the content.
    PartFile,
    /// An image inside the content.
    PartImage,
    /// Audio inside the content.
    PartAudio,
    /// A video inside the content.
    PartVideo,
    /// Last, when the model is to speak.
    Generate,
    /// Last, when it is not.
    End,
}

use Slot::*;

impl Slot {
    /// Every slot, in the manual's order.
    pub const ALL: [Slot; 26] = [
        Begin,
        System,
        SystemFirst,
        User,
        UserFirst,
        Folded,
        Assistant,
        AssistantWithCalls,
        Call,
        CallInterpreter,
        CallSeparator,
        Tool,
        ToolInterpreter,
        ToolGroup,
        Tools,
        ToolsInterpreter,
        ToolsItem,
        ToolsSeparator,
        File,
        PartText,
        PartFile,
        PartImage,
        PartAudio,
        PartVideo,
        Generate,
        End,
    ];

    /// The key in `[layout]`.
    pub fn key(self) -> &'static str {
        match self {
            Begin => "begin",
            System => "system",
            SystemFirst => "system-first",
            User => "user",
            UserFirst => "user-first",
            Folded => "folded",
            Assistant => "assistant",
            AssistantWithCalls => "assistant-with-calls",
            Call => "call",
            CallInterpreter => "call-interpreter",
            CallSeparator => "call-separator",
            Tool => "tool",
            ToolInterpreter => "tool-interpreter",
            ToolGroup => "tool-group",
            Tools => "tools",
            ToolsInterpreter => "tools-interpreter",
            ToolsItem => "tools-item",
            ToolsSeparator => "tools-separator",
            File => "file",
            PartText => "part-text",
            PartFile => "part-file",
            PartImage => "part-image",
            PartAudio => "part-audio",
            PartVideo => "part-video",
            Generate => "generate",
            End => "end",
        }
    }

    /// The slot of a key.
    pub fn from_key(key: &str) -> Option<Slot> {
        Slot::ALL.into_iter().find(|slot| slot.key() == key)
    }

    /// The holes that its layout may have, beside the file's own options and fields.
    pub fn fields(self) -> &'static [Field] {
        use Field as F;
        match self {
            Begin | CallSeparator | ToolsSeparator | PartImage | PartAudio | PartVideo | End => &[],
            System | SystemFirst => &[F::Content, F::Name, F::Tools, F::Functions, F::Interpreter],
            User | UserFirst => &[F::Content, F::Name, F::Round, F::Tools, F::Functions, F::Folded],
            Folded => &[F::System, F::Content],
            Assistant | AssistantWithCalls => &[F::Content, F::Name, F::Reasoning, F::Calls, F::Round],
            Call => &[F::Call, F::Name, F::Arguments, F::Id, F::Index],
            CallInterpreter => &[F::Code, F::Id, F::Index],
            Tool | ToolInterpreter => &[F::Content, F::Name, F::Id],
            ToolGroup => &[F::Results],
            Tools => &[F::Tools, F::Functions],
            ToolsInterpreter => &[F::Interpreter],
            ToolsItem => &[F::Tool, F::Function, F::Index],
            File => &[F::Files],
            PartText => &[F::Content],
            PartFile => &[F::Path, F::Size],
            Generate => &[F::Round],
        }
    }

    /// Whether its layout is a turn: one that a message of the conversation fills.
    pub fn is_turn(self) -> bool {
        matches!(
            self,
            System | SystemFirst | User | UserFirst | Assistant | AssistantWithCalls | Tool | ToolInterpreter
        )
    }
}
