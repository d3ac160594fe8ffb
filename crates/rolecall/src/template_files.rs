//! Loading a model's chat templates from disk.

use std::path::Path;

use crate::damage::{Damage, FileError};
use crate::files::Files;
use crate::gguf;
use crate::identify::{ModelFile, ModelFolder, NAMED_TEMPLATES, read_files};
use crate::templates::{DEFAULT, ModelTemplates, NamedTemplate};
use crate::tokenizer::{FileKind, TokenizerFile};

/// Loads a model's chat templates from a `.jinja` file, a `tokenizer_config.json`, a model's folder
/// or a GGUF file, as transformers does.
///
/// The result has at least one template. The special tokens of a `.jinja` file are those that the
/// other files of its folder name.
pub fn load(path: &Path) -> Result<ModelTemplates, FileError> {
    load_from(&Files::default(), path)
}

/// Loads a model's chat templates as [`load`] does.
pub(crate) fn load_from(files: &Files, path: &Path) -> Result<ModelTemplates, FileError> {
    let unreadable = |source| FileError::Unreadable { path: path.to_path_buf(), source };
    let is_called = |ending: &str| path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(ending));
    let (templates, looked_for) = if files.is_dir(path) {
        let whole = "chat_template.jinja, chat_template.json or additional_chat_templates in it, and no `chat_template` in its tokenizer_config.json";
        (read_files(files, path, &ModelFile::OF_TEMPLATES)?.templates, whole)
    } else if is_called("json") {
        (templates_of_json(files, path)?, "`chat_template` in it")
    } else if is_called("gguf") || (!is_called("jinja") && files.is_gguf(path).map_err(unreadable)?) {
        (templates_of_gguf(files, path)?, "`tokenizer.chat_template` in it")
    } else {
        (templates_of_text(files, path)?, "text in it")
    };
    if templates.templates.is_empty() {
        let candidates = if files.is_dir(path) { files.with_extension(path, "gguf")? } else { Vec::new() };
        return Err(FileError::NoTemplate { path: path.to_path_buf(), looked_for, candidates });
    }
    Ok(templates)
}

/// Loads the chat templates in the tokenizer's file or folder.
///
/// If there are none, the result is empty. Damaged files are an error, because what the templates
/// write must be protected.
pub fn beside(file: &TokenizerFile) -> Result<ModelTemplates, FileError> {
    beside_from(&Files::default(), file)
}

/// Loads the chat templates in the tokenizer's file or folder, as [`beside`] does.
pub(crate) fn beside_from(files: &Files, file: &TokenizerFile) -> Result<ModelTemplates, FileError> {
    let folder = file.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match load_from(files, if file.kind == FileKind::Gguf { &file.path } else { folder }) {
        Err(FileError::NoTemplate { .. }) => Ok(ModelTemplates::default()),
        loaded => loaded,
    }
}

/// Loads the templates of a JSON file, and the tokens that it or the other files of its folder
/// name.
fn templates_of_json(files: &Files, path: &Path) -> Result<ModelTemplates, FileError> {
    let beside = path.parent().unwrap_or(Path::new(""));
    let mut folder = ModelFolder::default();
    let read = |folder: &mut ModelFolder, file: ModelFile, path: &Path| {
        folder
            .read(file, &files.read_text(path)?)
            .map_err(|damage| FileError::Damaged { path: path.to_path_buf(), damage })
    };
    let is_legacy = path.file_name().is_some_and(|name| name == ModelFile::TemplateJson.name());
    let config = beside.join(ModelFile::TokenizerConfig.name());
    match is_legacy {
        true if files.is_file(&config) => read(&mut folder, ModelFile::TokenizerConfig, &config)?,
        true => {}
        false => read(&mut folder, ModelFile::TokenizerConfig, path)?,
    }
    let map = beside.join(ModelFile::SpecialTokens.name());
    if files.is_file(&map) {
        read(&mut folder, ModelFile::SpecialTokens, &map)?;
    }
    if is_legacy {
        folder.templates.templates.clear();
        read(&mut folder, ModelFile::TemplateJson, path)?;
    }
    let mut templates = folder.templates;
    templates.templates.iter_mut().for_each(|template| template.file = path.to_path_buf());
    let folder = if beside.as_os_str().is_empty() { Path::new(".") } else { beside };
    Ok(templates.beside(&read_files(files, folder, &ModelFile::OF_TEMPLATES)?.templates))
}

fn templates_of_text(files: &Files, path: &Path) -> Result<ModelTemplates, FileError> {
    let source = files.read_text(path)?;
    // A named template is one folder deeper than the files that name its tokens.
    let parent = path.parent().unwrap_or(Path::new(""));
    let is_named = parent.file_name().is_some_and(|name| name == NAMED_TEMPLATES);
    let folder = if is_named { parent.parent().unwrap_or(Path::new("")) } else { parent };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let mut templates = read_files(files, folder, &ModelFile::OF_TEMPLATES)?.templates;
    let whole = templates.clone();
    templates.templates.clear();
    templates.take_file(NamedTemplate::of_file(DEFAULT, source, path));
    Ok(templates.beside(&whole))
}

fn templates_of_gguf(files: &Files, path: &Path) -> Result<ModelTemplates, FileError> {
    let templates = files.gguf(path).and_then(|mut gguf| ModelTemplates::from_gguf(&mut gguf, path));
    templates.map_err(|error| match error {
        gguf::Error::Unreadable(source) => FileError::Unreadable { path: path.to_path_buf(), source },
        gguf::Error::Damaged(flaw) => FileError::Damaged { path: path.to_path_buf(), damage: Damage::Gguf(flaw) },
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

    use std::fs;

    use super::*;

    #[test]
    fn one_template_of_a_folder_keeps_the_others_protected() {
        let folder = std::env::temp_dir().join(format!("rolecall-templates-{}", std::process::id()));
        fs::create_dir_all(folder.join(NAMED_TEMPLATES)).unwrap();
        let (main, tool) = (folder.join("chat_template.jinja"), folder.join(NAMED_TEMPLATES).join("tool_use.jinja"));
        fs::write(&main, "<|u|>{{ messages[0].content }}").unwrap();
        fs::write(&tool, "<|tool|>{{ messages[0].content }}").unwrap();
        let loaded = [&main, &tool].map(|path| load(path).unwrap());
        fs::remove_dir_all(&folder).unwrap();
        for templates in loaded {
            assert_eq!(templates.templates.len(), 1);
            let protection = format!("{:?}", templates.protection(None));
            assert!(protection.contains("<|tool|>") && protection.contains("<|u|>"), "{protection}");
        }
    }
}
