use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rolecall::conversation::{Json, json};
use rolecall::template::ChatTemplate;

/// The chat templates of a folder.
#[derive(Default)]
pub struct FolderTemplates {
    /// The compiled templates, sorted by file name.
    pub compiled: Vec<(String, ChatTemplate)>,
    /// The templates that do not compile, each with its error.
    pub left_out: Vec<String>,
}

impl FolderTemplates {
    /// Reads the `.jinja` files of a folder, with the special tokens from its `index.json`, if it
    /// has one.
    ///
    /// Returns an error for a folder without templates, an unreadable index, and a missing file
    /// that the index lists.
    pub fn read(folder: &Path) -> Result<FolderTemplates, String> {
        let mut files: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", folder.display());
        for entry in fs::read_dir(folder).map_err(|error| failed(&error))? {
            let name = entry.map_err(|error| failed(&error))?.file_name().to_string_lossy().into_owned();
            if name.ends_with(".jinja") {
                files.insert(name, Vec::new());
            }
        }
        let index = folder.join("index.json");
        if index.exists() {
            files.extend(read_index(&index)?);
        }
        if files.is_empty() {
            return Err(failed(&"no `.jinja` file"));
        }
        let mut templates = FolderTemplates::default();
        for (name, tokens) in files {
            let path = folder.join(&name);
            let source = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            match ChatTemplate::compile(&source, tokens) {
                Ok(template) => templates.compiled.push((name, template)),
                Err(error) => templates.left_out.push(format!("{name}: {error}")),
            }
        }
        Ok(templates)
    }
}

/// Returns the special tokens of each file that an index lists.
fn read_index(path: &Path) -> Result<BTreeMap<String, Vec<(String, String)>>, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = fs::read_to_string(path).map_err(|error| failed(&error))?;
    let index = json::parse(&text).map_err(|error| failed(&error))?;
    let entries = index.as_object().and_then(|index| index.get("templates")?.as_array());
    let entries = entries.ok_or_else(|| failed(&"expected a list `templates`"))?;
    let read = |entry: &Json| {
        let text = |key: &str| entry.as_object()?.get(key)?.as_str().map(str::to_owned);
        let tokens = ["bos_token", "eos_token"].into_iter().filter_map(|key| Some((key.to_owned(), text(key)?)));
        text("file").map(|file| (file, tokens.collect())).ok_or_else(|| failed(&"expected `file` in every entry"))
    };
    entries.iter().map(read).collect()
}
