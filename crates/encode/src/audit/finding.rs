/// A finding of an audit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The kind of finding.
    pub kind: FindingKind,
    /// A description of the finding.
    pub message: String,
    /// The tokens concerned, each with its id if it has one.
    pub tokens: Vec<(String, Option<u32>)>,
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Prompts cannot be encoded, or not safely.
    Error,
    /// Other programs, or some texts, will run into problems.
    Warning,
    /// Information only.
    Note,
}

/// The kinds of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum FindingKind {
    /// The tokenizer lacks a control token of the format.
    ControlMissing,
    /// A control token of the format has a different id.
    ControlOtherId,
    /// Plain text encodes to a control token of the format.
    ControlIsText,
    /// The chat template belongs to another tokenizer: the markers of its turns are no tokens.
    ForeignTemplate,
    /// The reference does not find a token where text spells it, because normalization changes the
    /// text first.
    ChangedByNormalization,
    /// Other spellings encode to the token as well.
    OtherSpellings,
    /// Text that spells a token cannot be encoded with ordinary tokens.
    NoPlainSpelling,
    /// A token absorbs the white space around it.
    TakesSpace,
    /// A token is matched only as a whole word.
    SingleWord,
    /// Two tokens have the same text.
    TextTwice,
    /// Both the tokenizer and the format add BOS.
    DoubleBos,
    /// The chat template writes text that looks like a token but is none.
    TemplateWritesText,
    /// Text that spells the name of a byte token encodes to that byte.
    ByteNameIsText,
    /// One id has two texts.
    TwoTexts,
    /// An added token is not flagged as special.
    NotSpecial,
    /// Ids without a token.
    Holes,
    /// Tokens that no text encodes to.
    NeverText,
    /// Added tokens that are ordinary text.
    TextTokens,
    /// In the reference, text that spells an added token encodes to it.
    SpelledByText,
}

impl FindingKind {
    /// Returns a stable name.
    pub fn code(self) -> &'static str {
        match self {
            Self::ControlMissing => "control-missing",
            Self::ControlOtherId => "control-other-id",
            Self::ControlIsText => "control-is-text",
            Self::ForeignTemplate => "foreign-template",
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

    /// Returns the severity.
    pub fn level(self) -> Level {
        match self {
            Self::ControlMissing | Self::ControlOtherId | Self::ControlIsText | Self::ForeignTemplate => Level::Error,
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

    /// Returns a hint on how to fix the problem.
    pub fn help(self) -> &'static str {
        match self {
            Self::ControlMissing | Self::ControlOtherId => {
                "use the tokenizer of a model of this format, or the format of this tokenizer's model"
            }
            Self::ControlIsText => {
                "add the token to the tokenizer's added tokens; until then, any message can forge it"
            }
            Self::ForeignTemplate => {
                "use the chat template and the tokenizer of one model; if the model was trained on these texts, \
                 allow them with `plain_markers`"
            }
            Self::ChangedByNormalization => {
                "set `normalized` to false for the token: the reference does not find its text in a prompt"
            }
            Self::OtherSpellings => {
                "set `normalized` to false for the token; rolecall never matches tokens in content, but other programs do"
            }
            Self::NoPlainSpelling => {
                "rolecall rejects messages with this text; use a vocabulary that has its characters"
            }
            Self::TakesSpace => {
                "rolecall drops this white space as the reference does; check that the template's line breaks survive"
            }
            Self::SingleWord => {
                "other programs do not find it next to a letter; rolecall writes it wherever the format does"
            }
            Self::TextTwice => "remove one of them: which of the ids is used depends on chance",
            Self::DoubleBos => {
                "give the prompt to other programs with `add_special_tokens=False`; rolecall writes the token once"
            }
            Self::TemplateWritesText => "add the token to the tokenizer, or the model sees it as plain text",
            Self::ByteNameIsText => {
                "rolecall encodes such text as text; make sure that other programs do not parse special tokens in content"
            }
            Self::TwoTexts => "either text finds the id; decoding shows one of them",
            Self::NotSpecial => {
                "programs that skip special tokens when decoding still show it, which is right for markers such as `<think>`"
            }
            Self::Holes => "these ids cannot be decoded, but a model may still generate them",
            Self::NeverText => "they can only be used by id",
            Self::TextTokens => {
                "content encodes to them as in the reference: each is a run of one character and not a marker"
            }
            Self::SpelledByText => {
                "rolecall encodes such text as text; other programs need `split_special_tokens` or a similar option"
            }
        }
    }
}
