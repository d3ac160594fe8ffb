/// Something that an audit found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it is.
    pub kind: FindingKind,
    /// What was found.
    pub message: String,
    /// The tokens that it is about, each with its id where it has one.
    pub tokens: Vec<(String, Option<u32>)>,
}

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Prompts cannot be encoded, or not safely.
    Error,
    /// Something will go wrong in other programs, or for some texts.
    Warning,
    /// Good to know.
    Note,
}

/// The kinds of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum FindingKind {
    /// A control token of the format is not there.
    ControlMissing,
    /// A control token of the format has another id.
    ControlOtherId,
    /// Plain text becomes a control token of the format.
    ControlIsText,
    /// A token stands in text that its own spelling does not lead back to.
    ChangedByNormalization,
    /// Other spellings become a token too.
    OtherSpellings,
    /// Text that spells a token has no spelling in ordinary tokens.
    NoPlainSpelling,
    /// A token takes the white space beside it.
    TakesSpace,
    /// A token is matched only where no word goes on.
    SingleWord,
    /// Two tokens have one text.
    TextTwice,
    /// Both the tokenizer and the prompt open the text.
    DoubleBos,
    /// The chat template writes what is no token.
    TemplateWritesText,
    /// Text that spells the name of a byte's piece becomes the byte.
    ByteNameIsText,
    /// One id has two texts.
    TwoTexts,
    /// A control token is not flagged as special.
    NotSpecial,
    /// Ids without a token.
    Holes,
    /// Tokens that no text becomes.
    NeverText,
    /// Added tokens that are text.
    TextTokens,
    /// Text that spells an added token becomes it in the reference.
    SpelledByText,
}

impl FindingKind {
    /// A stable name.
    pub fn code(self) -> &'static str {
        match self {
            Self::ControlMissing => "control-missing",
            Self::ControlOtherId => "control-other-id",
            Self::ControlIsText => "control-is-text",
            Self::ChangedByNormalization => "changed-by-normalization",
            Self::OtherSpellings => "other-spellings",
            Self::NoPlainSpelling => "no-plain-spelling",
            Self::TakesSpace => "takes-space",
            Self::SingleWord => "single-word",
            Self::TextTwice => "text-twice",
            Self::DoubleBos => "double-bos",
            Self::TemplateWritesText => "template-writes-text",
            Self::ByteNameIsText => "byte-name-is-text",
            Self::TwoTexts => "two-texts",
            Self::NotSpecial => "not-special",
            Self::Holes => "holes",
            Self::NeverText => "never-text",
            Self::TextTokens => "text-tokens",
            Self::SpelledByText => "spelled-by-text",
        }
    }

    /// How much it matters.
    pub fn level(self) -> Level {
        match self {
            Self::ControlMissing | Self::ControlOtherId | Self::ControlIsText => Level::Error,
            Self::ChangedByNormalization
            | Self::OtherSpellings
            | Self::NoPlainSpelling
            | Self::TakesSpace
            | Self::SingleWord
            | Self::TextTwice
            | Self::DoubleBos
            | Self::TemplateWritesText
            | Self::ByteNameIsText => Level::Warning,
            Self::TwoTexts
            | Self::NotSpecial
            | Self::Holes
            | Self::NeverText
            | Self::TextTokens
            | Self::SpelledByText => Level::Note,
        }
    }

    /// What to do about it.
    pub fn help(self) -> &'static str {
        match self {
            Self::ControlMissing | Self::ControlOtherId => {
                "use the tokenizer of a model of this format, or the format of this tokenizer's model"
            }
            Self::ControlIsText => {
                "list the token among the tokenizer's added tokens: until then a message can forge it"
            }
            Self::ChangedByNormalization => {
                "set `normalized` to false for the token: the reference never finds it in a prompt as it is spelled"
            }
            Self::OtherSpellings => {
                "set `normalized` to false for the token; rolecall never looks for tokens in content, other programs do"
            }
            Self::NoPlainSpelling => {
                "messages with this text are refused; a vocabulary with its characters would spell it"
            }
            Self::TakesSpace => {
                "rolecall leaves that white space out as the reference does; check that the template's line breaks survive"
            }
            Self::SingleWord => {
                "other programs do not find it behind or before a letter; rolecall writes it wherever the format does"
            }
            Self::TextTwice => "take one out: which of the ids comes out is chance",
            Self::DoubleBos => {
                "give other programs the prompt with `add_special_tokens=False`; rolecall writes the token once"
            }
            Self::TemplateWritesText => "add the token to the tokenizer, or the model reads its letters",
            Self::ByteNameIsText => {
                "rolecall encodes the letters; other programs should not parse special tokens in content"
            }
            Self::TwoTexts => "the id is found under either text, and shown as one of them",
            Self::NotSpecial => {
                "programs that skip special tokens when they decode still show it; that is right for markers such as `<think>`"
            }
            Self::Holes => "ids of these numbers mean nothing here; a model may still give them",
            Self::NeverText => "only ids can ask for them",
            Self::TextTokens => {
                "content becomes them as the reference's does: each is a run of one character and no marker"
            }
            Self::SpelledByText => {
                "rolecall keeps such text apart from the tokens; other programs need `split_special_tokens` or the like"
            }
        }
    }
}
