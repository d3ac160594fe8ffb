//! Reading the files of a model's folder.

use std::path::{Path, PathBuf};

use super::folder::{ModelFile, ModelFolder, NAMED_TEMPLATES};
use crate::damage::FileError;
use crate::files::Files;

/// Reads the files of a folder that help to identify its model. A folder without such files gives
/// an empty result.
pub fn read_folder(path: &Path) -> Result<ModelFolder, FileError> {
    read_files(&Files::default(), path, &ModelFile::ALL)
}

/// Reads the given files of a folder, and its named templates if templates are requested.
pub(crate) fn read_files(from: &Files, path: &Path, files: &[ModelFile]) -> Result<ModelFolder, FileError> {
    // A folder that cannot be listed is an error; it must not look like an empty one.
    from.list(path).map_err(|source| FileError::Unreadable { path: path.to_path_buf(), source })?;
    let mut folder = ModelFolder::default();
    for file in files {
        let path = path.join(file.name());
        let is_needed = *file != ModelFile::Tokenizer || !folder.has_all_tokens;
        if is_needed && from.is_file(&path) {
            let text = from.read_text(&path)?;
            folder.read(*file, &text).map_err(|damage| FileError::Damaged { path, damage })?;
        }
    }
    let named = path.join(NAMED_TEMPLATES);
    if files.contains(&ModelFile::Template) && from.is_dir(&named) {
        for file in from.with_extension(&named, "jinja")? {
            let text = from.read_text(&file)?;
            let name = file.file_stem().unwrap_or_default();
            folder.read_named_template(&name.to_string_lossy(), &text);
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
    // Errors of the folder are reported where it is read.
    files.extend(Files::default().with_extension(&folder.join(NAMED_TEMPLATES), "jinja").unwrap_or_default());
    files.retain(|file| file.is_file());
    files
}
