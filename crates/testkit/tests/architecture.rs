//! The house: which crate may use which, and what core crates must not know.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use rolecall::{Json, json};

/// Which of our crates each may use. What is not listed here does not exist.
const ARROWS: &[(&str, &[&str])] = &[
    ("rolecall-text", &[]),
    ("rolecall-conversation", &[]),
    ("rolecall-jinja", &["rolecall-text"]),
    ("rolecall-format", &["rolecall-text", "rolecall-conversation"]),
    ("rolecall-render", &["rolecall-format", "rolecall-jinja", "rolecall-text", "rolecall-conversation"]),
    ("rolecall-parse", &["rolecall-format", "rolecall-conversation"]),
    ("rolecall-infer", &["rolecall-format", "rolecall-render", "rolecall-parse", "rolecall-conversation"]),
    ("rolecall-grammar", &["rolecall-format", "rolecall-conversation"]),
    ("rolecall-encode", &["rolecall-render", "rolecall-format"]),
    ("rolecall-interop", &["rolecall-format", "rolecall-render", "rolecall-conversation"]),
    ("rolecall-openai", &["rolecall-conversation"]),
    (
        "rolecall",
        &[
            "rolecall-text",
            "rolecall-conversation",
            "rolecall-format",
            "rolecall-render",
            "rolecall-parse",
            "rolecall-infer",
            "rolecall-grammar",
            "rolecall-encode",
            "rolecall-interop",
            "rolecall-openai",
        ],
    ),
    ("rolecall-testkit", &["rolecall"]),
    (
        "rolecall-cli",
        &[
            "rolecall",
            "rolecall-conversation",
            "rolecall-format",
            "rolecall-render",
            "rolecall-parse",
            "rolecall-infer",
            "rolecall-grammar",
            "rolecall-encode",
            "rolecall-openai",
        ],
    ),
    ("rolecall-benches", &["rolecall"]),
];

#[test]
fn arrows_between_crates_point_one_way() {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(rolecall_testkit::root())
        .output()
        .expect("cargo runs");
    let metadata = json::parse(std::str::from_utf8(&output.stdout).unwrap()).expect("cargo writes JSON");
    let packages = metadata.as_object().and_then(|metadata| metadata.get("packages")).and_then(Json::as_array).unwrap();
    let allowed: BTreeMap<&str, BTreeSet<&str>> =
        ARROWS.iter().map(|(name, uses)| (*name, uses.iter().copied().collect())).collect();
    let mut seen = BTreeSet::new();
    for package in packages.iter().filter_map(Json::as_object) {
        let name = package.get("name").and_then(Json::as_str).unwrap();
        let allowed = allowed.get(name).unwrap_or_else(|| panic!("crate {name} is not in the map of arrows"));
        seen.insert(name);
        for dependency in
            package.get("dependencies").and_then(Json::as_array).unwrap().iter().filter_map(Json::as_object)
        {
            let target = dependency.get("name").and_then(Json::as_str).unwrap();
            let for_tests = dependency.get("kind").and_then(Json::as_str) == Some("dev");
            if target.starts_with("rolecall") && !for_tests {
                assert!(allowed.contains(target), "{name} must not use {target}");
            }
        }
    }
    for name in allowed.keys() {
        assert!(seen.contains(name), "crate {name} is in the map of arrows and not in the workspace");
    }
}

/// A difference between models is a field in a data file: no library source names a model.
#[test]
fn no_model_is_named_in_library_source() {
    let mut words: BTreeSet<String> = [
        "internlm", "chatglm", "qwen", "llama", "mistral", "mixtral", "deepseek", "vicuna", "baichuan", "gemma",
        "zephyr",
    ]
    .map(str::to_owned)
    .into();
    words.insert("<|im_start".to_owned());
    for name in ["text", "conversation", "jinja", "format", "render", "encode", "interop", "openai", "rolecall", "cli"]
    {
        for (path, line, code) in code_lines(&rolecall_testkit::root().join("crates").join(name).join("src")) {
            let code = code.to_lowercase();
            let named = words.iter().find(|word| code.contains(word.as_str()));
            assert!(named.is_none(), "{path}:{line} names a model: {code}");
        }
    }
}

/// Core crates take values and give values: no files, no network, no clock, no environment. (The facade loads files.)
#[test]
fn core_crates_touch_nothing_outside() {
    for name in ["text", "conversation", "jinja", "format", "render", "encode", "interop", "openai"] {
        for (path, line, code) in code_lines(&rolecall_testkit::root().join("crates").join(name).join("src")) {
            for outside in ["std::fs", "fs::read", "std::net", "std::env", "SystemTime", "Instant::now", "std::process"]
            {
                assert!(!code.contains(outside), "{path}:{line} reaches outside: {code}");
            }
        }
    }
}

/// Lines of code below a folder, without comments and without the tests at a file's end.
fn code_lines(folder: &Path) -> Vec<(String, usize, String)> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(folder).unwrap().filter_map(Result::ok) {
        let path = entry.path();
        if path.is_dir() {
            lines.extend(code_lines(&path));
            continue;
        }
        if path.file_name().is_some_and(|name| name == "tests.rs")
            || path.extension().is_none_or(|ending| ending != "rs")
        {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let body = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for (number, line) in body.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            lines.push((path.display().to_string(), number + 1, code.to_owned()));
        }
    }
    lines
}
