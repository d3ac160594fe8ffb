//! Identifying the format that a model needs, with the evidence for it.
//!
//! The strongest evidence decides: first the files of a model's folder (chat template, then tokens,
//! then architecture), then an exact name, then the most specific name pattern. Contradicting
//! evidence becomes a warning. If the evidence does not decide, the result is an error that lists
//! the candidates.

mod content;
mod error;
mod evidence;
mod folder;
mod names;
mod read;
mod warning;

pub use crate::damage::{Damage, FileError};
pub use error::Unidentified;
pub use evidence::{Candidate, Evidence};
pub(crate) use folder::NAMED_TEMPLATES;
pub use folder::{ModelFile, ModelFolder};
pub use warning::ModelWarning;

pub use read::read_folder;
pub(crate) use read::{model_files, read_files};

use rolecall_format::{Format, Registry};

use crate::interop::{Dialect, dialects};
use content::FolderFormats;
use names::ModelName;

/// The clues from which a model's format is identified.
#[derive(Clone, Debug, Default)]
pub struct Clues {
    /// The model's name, or the path of its folder.
    pub name: String,
    /// The contents of the folder's files, if it is a folder.
    pub folder: Option<ModelFolder>,
}

/// The format that a model needs, with the evidence for it.
#[derive(Clone, Debug)]
pub struct Identification<'a> {
    /// The format.
    pub format: &'a Format,
    /// The evidence, strongest first. Never empty.
    pub evidence: Vec<Evidence>,
    /// Warnings about the choice.
    pub warnings: Vec<ModelWarning>,
    /// The formats that other frameworks would use.
    pub dialects: Vec<Dialect>,
}

/// Identifies the format that a model needs.
///
/// ```
/// use rolecall::identify::{Clues, ModelFile, ModelFolder, identify};
/// let registry = rolecall::format::registry();
/// let named = Clues { name: "internlm/internlm2-chat-7b".into(), folder: None };
/// assert_eq!(identify(&named, &registry)?.format.name, "internlm2");
///
/// let mut folder = ModelFolder::default();
/// folder.read(ModelFile::Template, "{% for m in messages %}<start_of_turn>{{ m.role }} .. <end_of_turn>{% endfor %}")?;
/// let unknown = Clues { name: "/data/model-final".into(), folder: Some(folder) };
/// assert_eq!(identify(&unknown, &registry).unwrap_err().code(), "unknown_model");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn identify<'a>(model: &Clues, registry: &'a Registry) -> Result<Identification<'a>, Unidentified> {
    let named = names::by_name(model, registry);
    let recognised = model.folder.as_ref().map(|folder| content::recognise(folder, registry)).unwrap_or_default();
    let (format, mut evidence) = match choose(model, &recognised, named.as_ref())? {
        FormatChoice::Content(format, evidence) => (format, evidence),
        FormatChoice::Name(format) => (format, Vec::new()),
        FormatChoice::Nothing => return Err(error::unknown(model, &recognised, registry)),
    };
    if let Some(named) = named.as_ref().filter(|named| named.means(format)) {
        evidence.push(named.evidence(format));
    }
    let warnings = warning::find(model, format, &recognised, named.as_ref());
    Ok(Identification { format, evidence, warnings, dialects: dialects(&model.name) })
}

enum FormatChoice<'a> {
    /// By the files of the folder.
    Content(&'a Format, Vec<Evidence>),
    /// By the name alone.
    Name(&'a Format),
    Nothing,
}

/// Returns the choice of the strongest evidence, or an error with the candidates if it does not
/// decide.
fn choose<'a>(
    model: &Clues,
    recognised: &FolderFormats<'a>,
    named: Option<&ModelName<'a>>,
) -> Result<FormatChoice<'a>, Unidentified> {
    let decided = match recognised.best.as_slice() {
        [] => None,
        [only] => Some(only),
        // Several formats fit equally well. The name decides. Without a name, the format decides
        // whose template fits and for which no question is left open.
        several => {
            let meant = several.iter().filter(|one| named.is_some_and(|named| named.means(one.format)));
            let complete = several.iter().filter(|one| one.is_told_by_template());
            match (only_one(meant), only_one(complete)) {
                (Some(one), _) | (None, Some(one)) => Some(one),
                (None, None) => {
                    let candidates = several.iter().map(|one| Candidate::of(one.format, one.evidence()));
                    return Err(Unidentified::Ambiguous {
                        model: model.name.clone(),
                        candidates: candidates.collect(),
                    });
                }
            }
        }
    };
    match (decided, named) {
        (Some(one), _) => Ok(FormatChoice::Content(one.format, one.evidence())),
        (None, Some(named)) => match named.formats().as_slice() {
            [format] => Ok(FormatChoice::Name(format)),
            several => {
                let candidates = several.iter().map(|format| Candidate::of(format, vec![named.evidence(format)]));
                Err(Unidentified::Ambiguous { model: model.name.clone(), candidates: candidates.collect() })
            }
        },
        (None, None) => Ok(FormatChoice::Nothing),
    }
}

fn only_one<T>(mut items: impl Iterator<Item = T>) -> Option<T> {
    items.next().filter(|_| items.next().is_none())
}
