//! The chat templates and special tokens in the metadata of a GGUF file.

use std::collections::BTreeMap;
use std::io::{Read, Seek};
use std::path::Path;

use super::{DEFAULT, ModelTemplates, NamedTemplate};
use crate::gguf::{Error, Gguf, Problem, Value};

const TEMPLATE: &str = "tokenizer.chat_template";
/// The key with the names of the templates other than the default one.
const NAMES: &str = "tokenizer.chat_templates";
/// The maximum number of named templates. No known model has ten.
const MOST_NAMES: u64 = 1000;
const TOKENS: &str = "tokenizer.ggml.tokens";

/// The keys of special tokens' ids, and the names of these tokens in a template.
const IDS: [(&str, &str); 7] = [
    ("tokenizer.ggml.bos_token_id", "bos_token"),
    ("tokenizer.ggml.eos_token_id", "eos_token"),
    ("tokenizer.ggml.unknown_token_id", "unk_token"),
    // llama.cpp spells the key like this.
    ("tokenizer.ggml.seperator_token_id", "sep_token"),
    ("tokenizer.ggml.padding_token_id", "pad_token"),
    ("tokenizer.ggml.cls_token_id", "cls_token"),
    ("tokenizer.ggml.mask_token_id", "mask_token"),
];

impl ModelTemplates {
    /// Reads the chat templates and special tokens from the metadata of a GGUF file.
    pub fn from_gguf<R: Read + Seek>(gguf: &mut Gguf<R>, file: &Path) -> Result<ModelTemplates, Error> {
        let mut templates = ModelTemplates::default();
        let template = |name: &str, key: String, source: &str| NamedTemplate {
            name: name.to_owned(),
            source: source.to_owned(),
            file: file.to_owned(),
            key: Some(key),
            code: None,
        };
        if let Some(source) = gguf.text(TEMPLATE)? {
            templates.put(template(DEFAULT, TEMPLATE.to_owned(), source));
        }
        for name in names(gguf)? {
            let key = format!("{TEMPLATE}.{name}");
            match gguf.text(&key)? {
                Some(source) => templates.put(template(&name, key, source)),
                None => return Err(gguf.error_at(NAMES, Problem::NoSuchTemplate { name })),
            }
        }
        templates.tokens = special_tokens(gguf)?;
        templates.adds_bos = gguf.flag("tokenizer.ggml.add_bos_token")?;
        Ok(templates)
    }
}

/// Returns the names of the templates other than the default one, without duplicates.
fn names<R: Read + Seek>(gguf: &mut Gguf<R>) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    let Some(elements) = gguf.elements(NAMES)? else { return Ok(names) };
    let found = elements.len();
    if found > MOST_NAMES {
        return Err(gguf.error_at(NAMES, Problem::TooMany { what: "templates", found, most: MOST_NAMES }));
    }
    for name in elements.texts() {
        let (_, name) = name?;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

fn special_tokens<R: Read + Seek>(gguf: &mut Gguf<R>) -> Result<Vec<(String, String)>, Error> {
    let mut wanted: BTreeMap<u64, Vec<(&'static str, &'static str)>> = BTreeMap::new();
    for (key, name) in IDS {
        // llama.cpp: -1 means that there is no such token.
        if gguf.value(key) == Some(&Value::Signed(-1)) {
            continue;
        }
        if let Some(id) = gguf.number(key)?.filter(|id| *id != u64::from(u32::MAX)) {
            wanted.entry(id).or_default().push((key, name));
        }
    }
    let mut found = Vec::new();
    let mut count = 0;
    let mut wrong = None;
    if let Some(elements) = gguf.elements(TOKENS)?.filter(|_| !wanted.is_empty()) {
        count = elements.len();
        let last = wanted.keys().next_back().copied().unwrap_or(0);
        // Tokens that are not UTF-8 are common. They are an error only if requested.
        for (id, token) in (0..=last).zip(elements) {
            let token = token?;
            let Some(named) = wanted.remove(&id) else { continue };
            let text = match token {
                Value::Text(bytes) => String::from_utf8(bytes).map_err(|_| Problem::NotUtf8),
                other => Err(Problem::WrongKind { expected: "a string", found: other.kind() }),
            };
            match text {
                Ok(text) => found.extend(named.into_iter().map(|(_, name)| (name.to_owned(), text.clone()))),
                Err(problem) => {
                    wrong = Some(problem);
                    break;
                }
            }
        }
    }
    if let Some(problem) = wrong {
        return Err(gguf.error_at(TOKENS, problem));
    }
    match wanted.into_iter().next() {
        Some((id, named)) => {
            let key = named.first().map_or(TOKENS, |(key, _)| key);
            Err(gguf.error_at(key, Problem::NoSuchToken { id, count }))
        }
        None => Ok(found),
    }
}
