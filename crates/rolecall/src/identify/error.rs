use std::fmt;

use rolecall_format::Registry;

use super::content::FolderFormats;
use super::{Candidate, Clues};

/// An error for a model whose format cannot be determined without guessing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unidentified {
    /// No evidence points to a format.
    Unknown {
        /// The model, as requested.
        model: String,
        /// What was examined, in words.
        looked_at: Vec<String>,
        /// Formats that come close.
        candidates: Vec<Candidate>,
    },
    /// Several formats fit equally well.
    Ambiguous {
        /// The model, as requested.
        model: String,
        /// The formats, with the evidence for each.
        candidates: Vec<Candidate>,
    },
}

impl Unidentified {
    /// Returns a stable name for the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            Unidentified::Unknown { .. } => "unknown_model",
            Unidentified::Ambiguous { .. } => "ambiguous_model",
        }
    }

    /// Returns the candidate formats.
    pub fn candidates(&self) -> &[Candidate] {
        match self {
            Unidentified::Unknown { candidates, .. } | Unidentified::Ambiguous { candidates, .. } => candidates,
        }
    }

    /// Returns what is known, and advice on how to fix the error.
    pub fn help(&self) -> Vec<String> {
        let mut help = Vec::new();
        match self {
            Unidentified::Unknown { looked_at, candidates, .. } => {
                help.extend(looked_at.iter().cloned());
                let (seen, near): (Vec<_>, Vec<_>) = candidates.iter().partition(|one| !one.evidence.is_empty());
                help.extend(seen.iter().map(|candidate| format!("candidate: {candidate}")));
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
                help.push(
                    "choose one by its name, or make the format files more specific (`models`, `[identity]`)".into(),
                );
            }
        }
        help
    }
}

impl fmt::Display for Unidentified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unidentified::Unknown { model, .. } => write!(f, "no format matches the model `{model}`"),
            Unidentified::Ambiguous { model, .. } => write!(f, "several formats fit the model `{model}` equally well"),
        }
    }
}

impl std::error::Error for Unidentified {}

/// Returns the error for a model without any match.
pub(super) fn unknown(model: &Clues, recognised: &FolderFormats<'_>, registry: &Registry) -> Unidentified {
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
                "the folder has none of the files that identify a model (config.json, tokenizer_config.json, ..)"
                    .to_owned()
            }
            (Some(_), _) => "its chat template matches no known format".to_owned(),
            (None, files) => format!("there is no chat template in {}", files.join(", ")),
        });
    }
    Unidentified::Unknown { model: model.name.clone(), looked_at, candidates }
}
