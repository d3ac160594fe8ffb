use std::fmt;

use rolecall_tokenizer as tokenizer;

/// Error from encoding a prompt with a tokenizer, or from decoding ids.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The tokenizer lacks a control token of the format.
    MissingControl {
        /// The token's text.
        token: String,
        /// The id that the format gives, if it is public.
        id: Option<u32>,
        /// The text of the token that has that id in the tokenizer.
        instead: Option<String>,
    },
    /// The tokenizer gives a control token a different id than the format does.
    WrongControlId {
        /// The token's text.
        token: String,
        /// The id in the format.
        expected: u32,
        /// The id in the tokenizer.
        found: u32,
    },
    /// The prompt contains a control token that neither the format nor the template wrote
    /// literally: a nonstandard role, a number or the output of a filter is part of its text.
    BuiltControl {
        /// The token's text.
        token: String,
        /// Its id in the tokenizer.
        id: u32,
        /// Byte offset in the prompt where the token begins.
        start: usize,
    },
    /// The tokenizer has no token with this id.
    UnknownId {
        /// The id.
        id: u32,
        /// The number of tokens in the tokenizer.
        size: usize,
    },
    /// The token cannot be decoded alone because its text depends on the tokens around it.
    NoBytes {
        /// Its id.
        id: u32,
        /// The tokenizer's spelling of the token.
        text: String,
    },
    /// The prompt was rendered with a different format than the encoder's, so its control tokens
    /// differ.
    OtherFormat {
        /// The first control tokens of the encoder's format.
        expected: Vec<String>,
        /// The first control tokens of the prompt's format.
        found: Vec<String>,
    },
    /// The prompt was rendered with a chat template that the encoder does not know, so the tokens
    /// that this template writes are not protected.
    OtherTemplate,
    /// The run's control token is not a control token of the encoder's format.
    UnknownControl {
        /// The run's text.
        token: String,
    },
    /// The tokenizer's unknown token is also a control token, so any unknown character would encode
    /// to a control token.
    UnknownIsControl {
        /// The token's text.
        token: String,
        /// Its id.
        id: u32,
        /// The reason why it is a control token.
        role: String,
    },
    /// The template wrote a token that none of its literals spells, so the token is not protected
    /// and a message could forge it.
    UnforeseenControl {
        /// The token's text.
        token: String,
        /// Its id.
        id: u32,
        /// Byte offset in the prompt where the token begins.
        start: usize,
    },
    /// The chat template belongs to another tokenizer: it marks turns with texts that are not tokens of
    /// this one, so that each would become several ordinary tokens.
    ForeignTemplate {
        /// The template's name.
        template: String,
        /// The texts.
        markers: Vec<String>,
    },
    /// The tokenizer encodes text to a control token even though it was asked to keep that token
    /// out of text, so any message could forge it.
    ForgeableControl {
        /// The token's text.
        token: String,
        /// Its id.
        id: u32,
    },
    /// The prompt has more tokens than the caller wants. The rest was not encoded.
    TooLong {
        /// The most tokens that it may have.
        most: usize,
    },
    /// The tokenizer failed.
    Tokenizer(tokenizer::Error),
}

impl Error {
    /// Returns a stable name for the kind of error.
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
            Error::ForeignTemplate { .. } => "foreign_template",
            Error::ForgeableControl { .. } => "forgeable_control_token",
            Error::TooLong { .. } => "too_many_tokens",
            Error::Tokenizer(error) => error.code(),
        }
    }

    /// Returns a hint on how to fix the error.
    pub fn help(&self) -> String {
        match self {
            Error::MissingControl { .. } | Error::WrongControlId { .. } => {
                "use the tokenizer of a model of this format, or the format of this tokenizer's model".into()
            }
            Error::BuiltControl { .. } => {
                "use standard roles, or a template that writes the token literally; \
                                           the reference encoding accepts the token"
                    .into()
            }
            Error::UnknownId { .. } => {
                "use the tokenizer that produced the ids, and name the format if the maker's code appends tokens".into()
            }
            Error::NoBytes { .. } => "word-piece ids cannot be decoded without loss".into(),
            Error::OtherFormat { .. } => "create the encoder from the format that rendered the prompt".into(),
            Error::OtherTemplate => "create the encoder from all templates of the model (`Protection::with_template`)".into(),
            Error::UnknownControl { .. } => "use runs of a prompt that was rendered with the encoder's format".into(),
            Error::UnknownIsControl { .. } => {
                "use the model's tokenizer with byte fallback, or use a separate token for unknown text".into()
            }
            Error::UnforeseenControl { .. } => {
                "protect all added tokens (`Protect::AllAdded`)".into()
            }
            Error::ForeignTemplate { .. } => {
                "use the chat template and the tokenizer of one model, or allow the markers as text if the model was \
                 trained on them (`plain_markers`)"
                    .into()
            }
            Error::ForgeableControl { .. } => {
                "add the token to the tokenizer's added tokens, e.g. in `added_tokens_decoder` of a tokenizer_config.json".into()
            }
            Error::TooLong { .. } => "shorten the conversation".into(),
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
                instead.as_ref().map_or(Ok(()), |instead| write!(f, ": it has `{instead}` under that id"))
            }
            Error::WrongControlId { token, expected, found } => {
                write!(f, "control token `{token}` has id {found} in the tokenizer, but id {expected} in the format")
            }
            Error::BuiltControl { token, id, start } => write!(
                f,
                "the template builds control token `{token}` (id {id}) at byte {start} of the prompt from parts that are not \
                 all literals"
            ),
            Error::UnknownId { id, size } => write!(f, "id {id} is not in the tokenizer, which has {size} tokens"),
            Error::NoBytes { id, text } => write!(f, "token {id} (`{text}`) cannot be decoded on its own"),
            Error::OtherFormat { expected, found } => {
                let list = |tokens: &[String]| match tokens {
                    [] => "none".to_owned(),
                    tokens => tokens.iter().map(|token| format!("`{token}`")).collect::<Vec<_>>().join(", "),
                };
                write!(
                    f,
                    "expected a prompt with the encoder's control tokens ({}), found a prompt with other control tokens ({})",
                    list(expected),
                    list(found)
                )
            }
            Error::OtherTemplate => {
                f.write_str("expected a prompt from the encoder's chat templates, found one from another template")
            }
            Error::UnknownControl { token } => {
                write!(f, "expected a control token of the encoder's format, found `{token}`")
            }
            Error::UnknownIsControl { token, id, role } => write!(
                f,
                "control token `{token}` (id {id}, {role}) is also the tokenizer's unknown token: every character \
                 that the vocabulary lacks would encode to it"
            ),
            Error::UnforeseenControl { token, id, start } => write!(
                f,
                "the template writes token `{token}` (id {id}) at byte {start} of the prompt, but none of its literals spells \
                 that token"
            ),
            Error::ForeignTemplate { template, markers } => {
                let (first, rest) = markers.split_at(markers.len().min(6));
                let listed = first.iter().map(|marker| format!("`{marker}`")).collect::<Vec<_>>().join(", ");
                let more = if rest.is_empty() { "" } else { ", .." };
                write!(
                    f,
                    "the chat template `{template}` marks turns with {listed}{more}, which the tokenizer has no token for"
                )
            }
            Error::ForgeableControl { token, id } => {
                write!(
                    f,
                    "text that spells control token `{token}` (id {id}) encodes to it: the tokenizer does not keep the token out of text"
                )
            }
            Error::TooLong { most } => write!(f, "the prompt has more than {most} tokens"),
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
