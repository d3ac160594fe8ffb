use std::fmt;

use rolecall_tokenizer as tokenizer;

/// A prompt that cannot be encoded with a tokenizer.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The tokenizer has not got a control token of the format.
    MissingControl {
        /// The token's text.
        token: String,
        /// Its id, where public.
        id: Option<u32>,
        /// What the tokenizer has under that id instead.
        instead: Option<String>,
    },
    /// The tokenizer gives a control token another id than the format says.
    WrongControlId {
        /// The token's text.
        token: String,
        /// The id that the format says.
        expected: u32,
        /// The id that the tokenizer gives.
        found: u32,
    },
    /// The prompt needs a control token that neither format nor template wrote as such: a role that only this message
    /// has, a number, or a filter is part of its text.
    BuiltControl {
        /// The token's text.
        token: String,
        /// Its id in the tokenizer.
        id: u32,
        /// Where it begins in the prompt, in bytes.
        start: usize,
    },
    /// An id that the tokenizer does not have.
    UnknownId {
        /// The id.
        id: u32,
        /// How many tokens there are.
        size: usize,
    },
    /// A token whose text depends on what stands beside it, so that it cannot be decoded alone.
    NoBytes {
        /// Its id.
        id: u32,
        /// How the tokenizer spells it.
        text: String,
    },
    /// The prompt was written by another format than the encoder is for: their control tokens are not the same.
    OtherFormat {
        /// The first control tokens of the encoder's format.
        expected: Vec<String>,
        /// The first control tokens of the prompt's.
        found: Vec<String>,
    },
    /// The prompt was written by a chat template that the encoder knows nothing of: what that one writes is not protected.
    OtherTemplate,
    /// The run is of no control token of the encoder's format.
    UnknownControl {
        /// The run's text.
        token: String,
    },
    /// The token for text that the vocabulary lacks is a control token: any unknown character would become it.
    UnknownIsControl {
        /// The token's text.
        token: String,
        /// Its id.
        id: u32,
        /// What makes it a control token.
        role: String,
    },
    /// The template wrote a token that its literals did not show: a message could write it too.
    UnforeseenControl {
        /// The token's text.
        token: String,
        /// Its id.
        id: u32,
        /// Where it begins in the prompt, in bytes.
        start: usize,
    },
    /// The tokenizer takes a control token for text, though it is asked to keep it out: any message could write it.
    ForgeableControl {
        /// The token's text.
        token: String,
        /// Its id.
        id: u32,
    },
    /// The tokenizer failed.
    Tokenizer(tokenizer::Error),
}

impl Error {
    /// A stable name for the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            Error::MissingControl { .. } => "missing_control_token",
            Error::WrongControlId { .. } => "wrong_control_id",
            Error::BuiltControl { .. } => "built_control_token",
            Error::UnknownId { .. } => "unknown_id",
            Error::NoBytes { .. } => "token_without_bytes",
            Error::OtherFormat { .. } => "other_format",
            Error::OtherTemplate => "other_template",
            Error::UnknownControl { .. } => "unknown_control_token",
            Error::UnknownIsControl { .. } => "unknown_is_control",
            Error::UnforeseenControl { .. } => "unforeseen_control_token",
            Error::ForgeableControl { .. } => "forgeable_control_token",
            Error::Tokenizer(error) => error.code(),
        }
    }

    /// What to do about it.
    pub fn help(&self) -> String {
        match self {
            Error::MissingControl { .. } | Error::WrongControlId { .. } => {
                "use the tokenizer of a model of this format, or the format of this tokenizer's model".into()
            }
            Error::BuiltControl { .. } => {
                "use roles that everybody knows, or a template that writes the token itself; \
                                           the reference encoding takes it as it is"
                    .into()
            }
            Error::UnknownId { .. } => "use the tokenizer that the ids are of".into(),
            Error::NoBytes { .. } => "ids of word pieces cannot be decoded without loss".into(),
            Error::OtherFormat { .. } => "make the encoder from the format that renders the prompt".into(),
            Error::OtherTemplate => "make the encoder from all templates of the model, `Protection::with_template`".into(),
            Error::UnknownControl { .. } => "take the runs from a prompt of the encoder's format".into(),
            Error::UnknownIsControl { .. } => {
                "use the model's tokenizer with byte fallback, or give the unknown token another role".into()
            }
            Error::UnforeseenControl { .. } => {
                "keep all added tokens out of text (`Protect::AllAdded`)".into()
            }
            Error::ForgeableControl { .. } => {
                "list the token among the tokenizer's added tokens, e.g. in `added_tokens_decoder` of a tokenizer_config.json".into()
            }
            Error::Tokenizer(error) => error.help().into(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::MissingControl { token, id, instead } => {
                write!(f, "the tokenizer has no control token `{token}`")?;
                if let Some(id) = id {
                    write!(f, " (id {id})")?;
                }
                instead.as_ref().map_or(Ok(()), |instead| write!(f, ": that id is `{instead}` there"))
            }
            Error::WrongControlId { token, expected, found } => {
                write!(f, "control token `{token}` has id {found} in the tokenizer, the format says {expected}")
            }
            Error::BuiltControl { token, id, start } => write!(
                f,
                "the template puts control token `{token}` (id {id}) together at byte {start} of the prompt, out of more \
                 than its own text"
            ),
            Error::UnknownId { id, size } => write!(f, "the tokenizer has no id {id}: it has {size} tokens"),
            Error::NoBytes { id, text } => write!(f, "token {id} (`{text}`) has no bytes of its own"),
            Error::OtherFormat { expected, found } => {
                let list = |tokens: &[String]| match tokens {
                    [] => "none".to_owned(),
                    tokens => tokens.iter().map(|token| format!("`{token}`")).collect::<Vec<_>>().join(", "),
                };
                write!(
                    f,
                    "expected a prompt with the encoder's control tokens ({}), found one with others ({})",
                    list(expected),
                    list(found)
                )
            }
            Error::OtherTemplate => {
                f.write_str("expected a prompt of the encoder's chat templates, found one of another")
            }
            Error::UnknownControl { token } => {
                write!(f, "expected a control token of the encoder's format, found `{token}`")
            }
            Error::UnknownIsControl { token, id, role } => write!(
                f,
                "control token `{token}` (id {id}, {role}) is also the tokenizer's token for unknown text: every character \
                 that the vocabulary lacks would become it"
            ),
            Error::UnforeseenControl { token, id, start } => write!(
                f,
                "the template writes the token `{token}` (id {id}) at byte {start} of the prompt, which none of its literals \
                 shows"
            ),
            Error::ForgeableControl { token, id } => {
                write!(
                    f,
                    "text becomes the control token `{token}` (id {id}), which the tokenizer does not keep out of it"
                )
            }
            Error::Tokenizer(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Tokenizer(error) => Some(error),
            _ => None,
        }
    }
}

impl From<tokenizer::Error> for Error {
    fn from(error: tokenizer::Error) -> Error {
        Error::Tokenizer(error)
    }
}
