//! Reading the files of a model's folder.

use std::fs;
use std::path::{Path, PathBuf};

use super::folder::{ModelFile, ModelFolder, NAMED_TEMPLATES};
use crate::damage::FileError;
use crate::files::{files_of, read_text};

/// Reads the files of a folder that help to identify its model. A folder without such files gives
/// an empty result.
pub fn read_folder(path: &Path) -> Result<ModelFolder, FileError> {
    read_files(path, &ModelFile::ALL)
}

/// Reads the given files of a folder, and its named templates if templates are requested.
pub(crate) fn read_files(path: &Path, files: &[ModelFile]) -> Result<ModelFolder, FileError> {
    // A folder that cannot be listed is an error; it must not look like an empty one.
    fs::read_dir(path).map_err(|source| FileError::Unreadable { path: path.to_path_buf(), source })?;
    let mut folder = ModelFolder::default();
    for file in files {
        let path = path.join(file.name());
        let is_needed = *file != ModelFile::Tokenizer || !folder.has_all_tokens;
        if is_needed && path.is_file() {
            let text = read_text(&path)?;
            folder.read(*file, &text).map_err(|damage| FileError::Damaged { path, damage })?;
        }
    }
    let named = path.join(NAMED_TEMPLATES);
    if files.contains(&ModelFile::Template) && named.is_dir() {
        for file in files_of(&named, "jinja")? {
            let text = read_text(&named.join(&file))?;
            folder.read_named_template(&file.with_extension("").to_string_lossy(), &text);
        }
    }
    for template in &mut folder.templates.templates {
        template.file = path.join(&template.file);
    }
    Ok(folder)
}

/// Returns the existing files that [`read_folder`] and [`template::load`](crate::template::load) read in a folder.
pub(crate) fn model_files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = ModelFile::ALL.iter().map(|file| folder.join(file.name())).collect();
    let named = folder.join(NAMED_TEMPLATES);
    // Errors of the folder are reported where it is read.
    files.extend(files_of(&named, "jinja").unwrap_or_default().into_iter().map(|file| named.join(file)));
    files.retain(|file| file.is_file());
    files
}
