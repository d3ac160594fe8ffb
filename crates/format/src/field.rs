/// The content of a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// A message's text.
    Content,
    /// The name of a message or a function.
    Name,
    /// `reasoning_content`.
    Reasoning,
    /// The number of the user turn.
    Round,
    /// All calls of a message.
    Calls,
    /// The system text folded into a user turn.
    System,
    /// The tools, each in its wrapper.
    Tools,
    /// The tools without their wrappers.
    Functions,
    /// One tool in its wrapper.
    Tool,
    /// One tool without its wrapper.
    Function,
    /// The text that tells the model about the code interpreter.
    Interpreter,
    /// A whole call.
    Call,
    /// A call's arguments.
    Arguments,
    /// An argument's name.
    Key,
    /// An argument's value.
    Value,
    /// The kind of an argument's value.
    Type,
    /// Code for the interpreter.
    Code,
    /// A call's id.
    Id,
    /// An index from 0.
    Index,
    /// Consecutive tool results.
    Results,
    /// The system text combined with the first user message.
    Folded,
    /// The files of a message.
    Files,
    /// A file's path.
    Path,
    /// A file's size.
    Size,
    /// A tool's description.
    Description,
    /// The text before the gap to fill.
    Prefix,
    /// The text after the gap.
    Suffix,
    /// An option of the file (`[options]`), by index.
    Option(usize),
    /// A message field of the file (`[fields]`), by index.
    Extra(usize),
}

impl Field {
    const NAMED: [(&'static str, Field); 27] = [
        ("content", Field::Content),
        ("name", Field::Name),
        ("reasoning", Field::Reasoning),
        ("round", Field::Round),
        ("calls", Field::Calls),
        ("system", Field::System),
        ("tools", Field::Tools),
        ("functions", Field::Functions),
        ("tool", Field::Tool),
        ("function", Field::Function),
        ("interpreter", Field::Interpreter),
        ("call", Field::Call),
        ("arguments", Field::Arguments),
        ("key", Field::Key),
        ("value", Field::Value),
        ("type", Field::Type),
        ("code", Field::Code),
        ("id", Field::Id),
        ("index", Field::Index),
        ("results", Field::Results),
        ("folded", Field::Folded),
        ("files", Field::Files),
        ("path", Field::Path),
        ("size", Field::Size),
        ("description", Field::Description),
        ("prefix", Field::Prefix),
        ("suffix", Field::Suffix),
    ];

    /// Returns the field with a hole's name. The file's own names are not included.
    pub fn from_name(name: &str) -> Option<Field> {
        Field::NAMED.iter().find(|(known, _)| *known == name).map(|(_, field)| *field)
    }

    /// Returns the field's bit in a set of fields. The file's own fields share one bit.
    #[inline]
    pub(crate) const fn bit(self) -> u32 {
        match self {
            Field::Content => 1,
            Field::Name => 1 << 1,
            Field::Reasoning => 1 << 2,
            Field::Round => 1 << 3,
            Field::Calls => 1 << 4,
            Field::System => 1 << 5,
            Field::Tools => 1 << 6,
            Field::Functions => 1 << 7,
            Field::Tool => 1 << 8,
            Field::Function => 1 << 9,
            Field::Interpreter => 1 << 10,
            Field::Call => 1 << 11,
            Field::Arguments => 1 << 12,
            Field::Code => 1 << 13,
            Field::Id => 1 << 14,
            Field::Index => 1 << 15,
            Field::Results => 1 << 16,
            Field::Folded => 1 << 17,
            Field::Files => 1 << 18,
            Field::Path => 1 << 19,
            Field::Size => 1 << 20,
            Field::Option(_) | Field::Extra(_) => 1 << 21,
            Field::Description => 1 << 22,
            Field::Prefix => 1 << 23,
            Field::Suffix => 1 << 24,
            Field::Key => 1 << 25,
            Field::Value => 1 << 26,
            Field::Type => 1 << 27,
        }
    }

    /// Returns the hole's name. The names of the file's own fields are not known here.
    pub fn name(self) -> &'static str {
        match self {
            Field::Option(_) => "an option",
            Field::Extra(_) => "a field",
            field => Field::NAMED.iter().find(|(_, known)| *known == field).map_or("", |(name, _)| name),
        }
    }
}
