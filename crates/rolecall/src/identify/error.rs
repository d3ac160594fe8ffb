use std::fmt;
use std::path::PathBuf;

use rolecall_conversation::json::ParseError;
use rolecall_format::Registry;

use super::content::Recognised;
use super::{Candidate, Clues};
use crate::gguf::{Flaw, Problem};

/// A model for which no format can be chosen without a guess.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unidentified {
    /// Nothing says which format it needs.
    Unknown {
        /// The model as it was asked for.
        model: String,
        /// What was looked at, in words.
        looked_at: Vec<String>,
        /// Formats that come near.
        candidates: Vec<Candidate>,
    },
    /// Several formats fit equally well.
    Ambiguous {
        /// The model as it was asked for.
        model: String,
        /// The formats, and what speaks for each.
        candidates: Vec<Candidate>,
    },
}

impl Unidentified {
    /// A stable name for the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            Unidentified::Unknown { .. } => "unknown_model",
            Unidentified::Ambiguous { .. } => "ambiguous_model",
        }
    }

    /// The formats that it might be.
    pub fn candidates(&self) -> &[Candidate] {
        match self {
            Unidentified::Unknown { candidates, .. } | Unidentified::Ambiguous { candidates, .. } => candidates,
        }
    }

    /// What is known, and what to do about it.
    pub fn help(&self) -> Vec<String> {
        let mut help = Vec::new();
        match self {
            Unidentified::Unknown { looked_at, candidates, .. } => {
                help.extend(looked_at.iter().cloned());
                let (seen, near): (Vec<_>, Vec<_>) = candidates.iter().partition(|one| !one.evidence.is_empty());
                help.extend(seen.iter().map(|candidate| format!("it may be {candidate}")));
                let names: Vec<String> = near.iter().map(|one| format!("`{}`", one.format)).collect();
                if !names.is_empty() {
                    help.push(format!("formats of models with a similar name: {}", names.join(", ")));
                }
                help.push(match candidates.is_empty() {
                    true => "choose a format by its name".into(),
                    false => "if you know that one of them fits, choose it by its name".into(),
                });
            }
            Unidentified::Ambiguous { candidates, .. } => {
                help.extend(candidates.iter().map(Candidate::to_string));
                help.push("choose one by its name, or say more in the format files (`models`, `[identity]`)".into());
            }
        }
        help
    }
}

impl fmt::Display for Unidentified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unidentified::Unknown { model, .. } => write!(f, "no format says that it fits the model `{model}`"),
            Unidentified::Ambiguous { model, .. } => write!(f, "several formats fit the model `{model}` equally well"),
        }
    }
}

impl std::error::Error for Unidentified {}

/// The error for a model that nothing was found for.
pub(super) fn unknown(model: &Clues, recognised: &Recognised<'_>, registry: &Registry) -> Unidentified {
    let seen = recognised.others.iter().map(|one| Candidate::of(one.format, one.evidence()));
    let mut candidates: Vec<Candidate> = seen.collect();
    for name in registry.nearest_to(&model.name) {
        if !candidates.iter().any(|candidate| candidate.format == name) {
            candidates.push(Candidate { format: name, evidence: Vec::new() });
        }
    }
    let mut looked_at = Vec::new();
    if let Some(folder) = &model.folder {
        looked_at.push(match (folder.template(), folder.files.as_slice()) {
            (_, []) => {
                "the folder has none of the files that tell a model (config.json, tokenizer_config.json, ..)".to_owned()
            }
            (Some(_), _) => "its chat template is not that of any format here".to_owned(),
            (None, files) => format!("there is no chat template in {}", files.join(", ")),
        });
    }
    Unidentified::Unknown { model: model.name.clone(), looked_at, candidates }
}

/// What is wrong with a file of a model's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Damage {
    /// It is not JSON.
    NotJson(ParseError),
    /// A field holds something else than it should.
    WrongType {
        /// The field; empty for the whole file.
        field: &'static str,
        /// What was expected.
        expected: &'static str,
        /// What is there.
        found: &'static str,
    },
    /// It is not UTF-8, from this byte on.
    NotText(usize),
    /// It is larger than this many bytes.
    TooLarge(u64),
    /// It is a GGUF file whose metadata cannot be read.
    Gguf(Flaw),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::NotJson(error) => write!(f, "not JSON: {}", error.message),
            Damage::WrongType { field: "", expected, found } => write!(f, "expected {expected}, found {found}"),
            Damage::WrongType { field, expected, found } => {
                write!(f, "expected {expected} for `{field}`, found {found}")
            }
            Damage::NotText(offset) => write!(f, "not UTF-8 from byte {offset} on"),
            Damage::TooLarge(limit) => write!(f, "larger than {limit} bytes"),
            Damage::Gguf(flaw) => write!(f, "{flaw}"),
        }
    }
}

impl std::error::Error for Damage {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Damage::NotJson(error) => Some(error),
            _ => None,
        }
    }
}

/// A file of a model's folder that cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum FileError {
    /// The file or folder could not be read.
    Unreadable {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is not what it should be.
    Damaged {
        /// Which one.
        path: PathBuf,
        /// What is wrong with it.
        damage: Damage,
    },
    /// A file or folder that was to have a chat template has none.
    NoTemplate {
        /// Which one.
        path: PathBuf,
        /// Where one would be.
        looked_for: &'static str,
        /// Files of the folder that may have one.
        candidates: Vec<PathBuf>,
    },
}

impl FileError {
    /// A stable name for the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            FileError::Unreadable { .. } => "model_unreadable",
            FileError::Damaged { .. } => "model_damaged",
            FileError::NoTemplate { .. } => "no_template",
        }
    }

    /// What to do about it.
    pub fn help(&self) -> String {
        match self {
            FileError::Unreadable { .. } => "give the path of a file or folder that can be read".into(),
            FileError::Damaged { damage: Damage::Gguf(Flaw { problem: Problem::BigEndian, .. }), .. } => {
                "convert it: the `gguf` package of Python has `gguf-convert-endian`".into()
            }
            FileError::Damaged { damage: Damage::Gguf(_), .. } => {
                "the file is cut short or damaged: get it again, or give the model's .jinja file".into()
            }
            FileError::Damaged { .. } => "mend the file or take it out of the folder".into(),
            FileError::NoTemplate { candidates, .. } => match candidates.as_slice() {
                [] => "base models have no chat template: give a .jinja file, or name a format".into(),
                [only] => format!("give the file that may have one: {}", only.display()),
                [first, ..] => format!("give one of its .gguf files: {}, ..", first.display()),
            },
        }
    }

    /// Line and column of what is wrong, from 1, where it is at one place.
    pub fn line_and_column(&self) -> Option<(usize, usize)> {
        match self {
            FileError::Damaged { damage: Damage::NotJson(error), .. } => Some((error.line, error.column)),
            _ => None,
        }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileError::Unreadable { path, source } => write!(f, "cannot read `{}`: {source}", path.display()),
            FileError::Damaged { path, damage: Damage::NotJson(error) } => {
                write!(f, "`{}` is not JSON: {error}", path.display())
            }
            FileError::Damaged { path, damage } => write!(f, "`{}`: {damage}", path.display()),
            FileError::NoTemplate { path, looked_for, .. } => {
                write!(f, "`{}` has no chat template: there is no {looked_for}", path.display())
            }
        }
    }
}

impl std::error::Error for FileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            FileError::Unreadable { source, .. } => Some(source),
            FileError::Damaged { damage, .. } => Some(damage),
            FileError::NoTemplate { .. } => None,
        }
    }
}
