use std::fmt;

use rolecall_format::Format;

use super::content::{Facet, FolderFormats};
use super::evidence::listed;
use super::names::ModelName;
use super::{Clues, Evidence};

/// A warning about the format chosen for a model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelWarning {
    /// The model is a base model.
    BaseModel {
        /// The name that identifies it as one.
        name: String,
        /// Whether there is a format for chat models of its family.
        has_chats: bool,
    },
    /// The folder has no chat template, and no name identifies the model as a chat model.
    NoTemplate,
    /// The folder has none of the files that identify a model.
    NoFiles,
    /// The format was found by name, and the folder's chat template does not match it.
    OtherTemplate,
    /// The chat template writes a token that opens a prompt, and the format does not.
    NoOpening {
        /// The token.
        bos: String,
    },
    /// The tokenizer lacks these tokens, by which the format is recognized.
    MissingTokens(Vec<String>),
    /// The config names architectures that are not the format's.
    OtherArchitecture(Vec<String>),
    /// Weaker evidence points to another format.
    Contradiction {
        /// The other format.
        format: String,
        /// The evidence for it.
        evidence: Evidence,
    },
    /// Only the last part of the name matches: the model is not by the maker that the pattern
    /// names.
    OtherMaker {
        /// The maker in the name.
        maker: String,
        /// The pattern.
        pattern: String,
    },
}

impl ModelWarning {
    /// Returns a stable name for the kind of warning.
    pub fn code(&self) -> &'static str {
        match self {
            ModelWarning::BaseModel { .. } => "base_model",
            ModelWarning::NoTemplate => "no_template",
            ModelWarning::NoFiles => "no_files",
            ModelWarning::OtherTemplate => "other_template",
            ModelWarning::NoOpening { .. } => "no_opening_token",
            ModelWarning::MissingTokens(_) => "missing_tokens",
            ModelWarning::OtherArchitecture(_) => "other_architecture",
            ModelWarning::Contradiction { .. } => "contradiction",
            ModelWarning::OtherMaker { .. } => "other_maker",
        }
    }
}

impl fmt::Display for ModelWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ModelWarning::BaseModel { name, has_chats: true } => write!(
                f,
                "`{name}` is a base model: its chat tokens were never trained, so this format has no effect until the model is fine-tuned with it"
            ),
            ModelWarning::BaseModel { name, has_chats: false } => write!(
                f,
                "`{name}` is a base model, and no chat format of its family is known: it only continues the text that it is given"
            ),
            ModelWarning::NoTemplate => f.write_str(
                "the folder has no chat template, and no name identifies the model as a chat model: if it is a base model, its chat tokens were never trained",
            ),
            ModelWarning::NoFiles => f.write_str("the folder has none of the files that identify a model: only the name was used"),
            ModelWarning::OtherTemplate => f.write_str(
                "the folder's chat template does not match this format: the model may have been fine-tuned with another one",
            ),
            ModelWarning::NoOpening { bos } => write!(
                f,
                "the chat template opens with `{bos}`, which this format does not write: let the tokenizer add it"
            ),
            ModelWarning::MissingTokens(tokens) => write!(f, "the tokenizer does not have {}", listed(tokens)),
            ModelWarning::OtherArchitecture(names) => {
                write!(f, "config.json names the architecture {}, which is not this family's", listed(names))
            }
            ModelWarning::Contradiction { format, evidence } => {
                write!(f, "weaker evidence points to `{format}`: {evidence}")
            }
            ModelWarning::OtherMaker { maker, pattern } => {
                write!(f, "`{maker}` is not the maker of `{pattern}`: a fine-tune may have another format")
            }
        }
    }
}

/// Returns all warnings about a choice.
pub(super) fn find(
    model: &Clues,
    format: &Format,
    recognised: &FolderFormats<'_>,
    named: Option<&ModelName<'_>>,
) -> Vec<ModelWarning> {
    let mut warnings = Vec::new();
    let tells_base = named.filter(|named| named.is_base() && !(named.by_config && has_template(model)));
    if let Some(named) = tells_base {
        warnings.push(ModelWarning::BaseModel { name: named.name.clone(), has_chats: !format.models.is_empty() });
    }
    if let Some(folder) = &model.folder {
        let chosen = recognised.best.iter().find(|one| one.format.name == format.name);
        match chosen {
            None if folder.files.is_empty() => warnings.push(ModelWarning::NoFiles),
            None if has_template(model) && !format.identity.template.is_empty() => {
                warnings.push(ModelWarning::OtherTemplate);
            }
            _ if !has_template(model) && named.is_none_or(|named| named.by_config) && tells_base.is_none() => {
                warnings.push(ModelWarning::NoTemplate);
            }
            _ => {}
        }
        let opens = folder.template().is_some_and(|template| template.contains("bos_token"));
        if let Some(bos) =
            folder.templates.token("bos_token").filter(|_| opens && !format.controls.iter().any(|control| control.bos))
        {
            warnings.push(ModelWarning::NoOpening { bos: bos.to_owned() });
        }
        if let Some(chosen) = chosen {
            if chosen.tokens == Facet::Fails {
                let missing = format.identity.tokens.iter().filter(|token| !folder.tokens.contains(token));
                warnings.push(ModelWarning::MissingTokens(missing.cloned().collect()));
            }
            if chosen.architecture == Facet::Fails {
                warnings.push(ModelWarning::OtherArchitecture(folder.architectures.clone()));
            }
        }
    }
    warnings.extend(contradictions(format, recognised));
    if let Some(named) = named {
        match named.formats().as_slice() {
            [other] if other.name != format.name => warnings
                .push(ModelWarning::Contradiction { format: other.name.clone(), evidence: named.evidence(other) }),
            _ => warnings.extend(other_maker(model, format, named)),
        }
    }
    warnings
}

fn has_template(model: &Clues) -> bool {
    model.folder.as_ref().is_some_and(|folder| folder.template().is_some())
}

/// Returns warnings about other formats that are the only ones matching the folder's tokens or
/// architecture.
fn contradictions(format: &Format, recognised: &FolderFormats<'_>) -> Vec<ModelWarning> {
    let others: Vec<_> = recognised.others.iter().filter(|one| one.format.name != format.name).collect();
    let all = || recognised.best.iter().chain(&recognised.others);
    let mut warnings = Vec::new();
    for other in &others {
        let weaker = other.evidence().into_iter().find(|evidence| match evidence {
            Evidence::Tokens(_) => all().filter(|one| one.tokens == other.tokens).count() == 1,
            Evidence::Architecture(_) => all().filter(|one| one.architecture == other.architecture).count() == 1,
            _ => false,
        });
        warnings
            .extend(weaker.map(|evidence| ModelWarning::Contradiction { format: other.format.name.clone(), evidence }));
    }
    warnings
}

/// Returns a warning if the name has two parts and only the second matches.
fn other_maker(model: &Clues, format: &Format, named: &ModelName<'_>) -> Option<ModelWarning> {
    let (maker, rest) = model.name.split_once('/')?;
    let is_name = model.folder.is_none() && !maker.is_empty() && !maker.starts_with('.') && rest == named.name;
    let pattern = named.fit(format)?.pattern.as_str();
    (is_name && !named.by_config)
        .then(|| ModelWarning::OtherMaker { maker: maker.to_owned(), pattern: pattern.to_owned() })
}
