//! Checks that every tokenizer file of a folder loads, including those that another file re-tags.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rolecall::conversation::Json;
use rolecall::conversation::json;
use rolecall::conversation::json::Layout;
use rolecall::tokenizer;
use rolecall::tokenizer::Tokenizer;

use super::{Context, text};
use crate::{Report, Verdict};

/// Files next to a tokenizer's file that are not tokenizers themselves.
const BESIDE: [&str; 11] = [
    "tekken_retag.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "generation_config.json",
    "config.json",
    "chat_template.jinja",
    "merges.txt",
    "vocab.json",
    "LICENSE",
    "README.md",
];

/// Loads each file in each subfolder. A subfolder without a tokenizer file is a failure.
pub(super) fn run(folder: &Path, report: &mut Report) {
    let names = listed(folder);
    if names.is_empty() {
        let verdict = Verdict::cannot_run(format!("no tokenizer in {}", folder.display()));
        report.add("tokenizers", "", "load", "folder", verdict);
    }
    for path in names {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let files: Vec<PathBuf> = listed(&path).into_iter().filter(|file| !is_beside(file)).collect();
        if files.is_empty() {
            report.add("tokenizers", name, "load", name, Verdict::cannot_run("a folder without a tokenizer file"));
        }
        for file in files {
            let verdict = match tokenizer::load(&file) {
                Ok(_) => Verdict::Passed,
                Err(error) => Verdict::Failed { expected: "a tokenizer".into(), found: error.to_string() },
            };
            report.add("tokenizers", name, "load", &file.display().to_string(), verdict);
        }
    }
}

fn is_beside(file: &Path) -> bool {
    file.file_name().and_then(|name| name.to_str()).is_some_and(|name| BESIDE.contains(&name))
}

fn listed(folder: &Path) -> BTreeSet<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect()
}

/// Returns a tokenizer by its file name, anywhere in the subfolders: the file itself, or, for
/// `tekken_VERSION.json`, the tekken file next to `tekken_retag.json` with the tokens of that
/// version.
pub(super) fn retagged(name: &str, context: &mut Context) -> Result<Arc<dyn Tokenizer>, String> {
    let folder = context.folders.tokenizers.clone().ok_or("no folder of tokenizers given (--tokenizers)")?;
    let load = || {
        let files: Vec<PathBuf> = listed(&folder).iter().flat_map(|path| listed(path)).collect();
        if let Some(file) = files.iter().find(|file| file.file_name().is_some_and(|found| found == name)) {
            return tokenizer::load(file).ok().map(Arc::from);
        }
        let recipe = files.iter().find(|file| file.file_name().is_some_and(|found| found == BESIDE[0]))?;
        retag(recipe, name.strip_prefix("tekken_")?.strip_suffix(".json")?)
    };
    let made = context.loaded.entry(name.to_owned()).or_insert_with(load).clone();
    made.ok_or_else(|| format!("no tokenizer `{name}`"))
}

/// Returns a tekken file under another version, with that version's control tokens.
fn retag(recipe: &Path, version: &str) -> Option<Arc<dyn Tokenizer>> {
    let read = |path: &Path| match json::parse(&fs::read_to_string(path).ok()?).ok()? {
        Json::Object(object) => Some(object),
        _ => None,
    };
    let tagged = read(recipe)?;
    let mut file = read(&recipe.with_file_name(text(&tagged, "base")))?;
    let versions = tagged.get("versions")?.as_object()?;
    let tags = versions.get(version)?.as_object()?;
    if let (Some(Json::Object(config)), Some(version)) = (file.get_mut("config"), tags.get("version")) {
        config.insert("version", version.clone());
    }
    file.insert("special_tokens", tags.get("special_tokens")?.clone());
    let bytes = json::write(&Json::Object(file), &Layout::default());
    tokenizer::load_bytes(bytes.as_bytes(), None).ok().map(|(_, made)| Arc::from(made))
}
