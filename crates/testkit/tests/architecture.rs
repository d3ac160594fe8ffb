//! The architecture: which crate may use which, and what core crates must not do.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use rolecall::conversation::{Json, json};

/// The kind of a crate, by what it may access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Takes values and returns values: no files, network, clock or environment, and no model
    /// names.
    Core,
    /// Part of the product. May access files, but names no model either.
    Edge,
    /// Tests and tools for contributors.
    Workshop,
}
use Kind::{Core, Edge, Workshop};

/// All crates, by folder, with their kind and the crates of ours that they may use. The other tests
/// in this file take their crates from here.
const ARROWS: &[(&str, Kind, &[&str])] = &[
    ("text", Core, &[]),
    ("conversation", Core, &[]),
    ("jinja", Core, &["text"]),
    ("format", Core, &["text", "conversation"]),
    ("render", Core, &["format", "jinja", "text", "conversation"]),
    ("parse", Core, &["format", "text", "conversation"]),
    ("infer", Core, &["format", "render", "parse", "text", "conversation"]),
    ("grammar", Core, &["format", "text", "conversation"]),
    ("tokenizer", Core, &[]),
    ("encode", Core, &["render", "format", "text", "tokenizer"]),
    ("interop", Core, &["format", "render", "conversation"]),
    ("openai", Core, &["conversation"]),
    (
        "rolecall",
        Edge,
        &[
            "text",
            "conversation",
            "format",
            "render",
            "parse",
            "infer",
            "grammar",
            "tokenizer",
            "encode",
            "interop",
            "openai",
        ],
    ),
    ("fixture", Workshop, &[]),
    ("testkit", Workshop, &["rolecall", "text", "fixture", "format", "grammar", "tokenizer"]),
    (
        "cli",
        Edge,
        &[
            "rolecall",
            "text",
            "conversation",
            "format",
            "render",
            "parse",
            "infer",
            "grammar",
            "encode",
            "openai",
            "columns",
            "interpreter",
            "gateway",
        ],
    ),
    ("columns", Edge, &["rolecall"]),
    ("interpreter", Edge, &["rolecall"]),
    ("gateway", Edge, &["rolecall", "text", "interpreter"]),
    ("python", Edge, &["rolecall", "columns", "interpreter"]),
    ("benches", Workshop, &["rolecall"]),
    ("xtask", Workshop, &[]),
];

/// Returns the source folders of all crates of these kinds.
fn sources_of(kinds: &[Kind]) -> Vec<PathBuf> {
    let chosen = ARROWS.iter().filter(|(_, kind, _)| kinds.contains(kind));
    chosen.map(|(name, ..)| rolecall_testkit::root().join("crates").join(name).join("src")).collect()
}

/// Returns the name of a package or dependency without the prefix of our crates.
fn short_name(package: &json::Object) -> &str {
    let name = package.get("name").and_then(Json::as_str).unwrap();
    name.strip_prefix("rolecall-").unwrap_or(name)
}

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
        ARROWS.iter().map(|(name, _, uses)| (*name, uses.iter().copied().collect())).collect();
    let mut seen = BTreeSet::new();
    for package in packages.iter().filter_map(Json::as_object) {
        let name = short_name(package);
        let allowed = allowed.get(name).unwrap_or_else(|| panic!("crate {name} is missing in ARROWS"));
        seen.insert(name);
        for dependency in
            package.get("dependencies").and_then(Json::as_array).unwrap().iter().filter_map(Json::as_object)
        {
            let is_ours = dependency.get("name").and_then(Json::as_str).unwrap().starts_with("rolecall");
            let for_tests = dependency.get("kind").and_then(Json::as_str) == Some("dev");
            if is_ours && !for_tests {
                let target = short_name(dependency);
                assert!(allowed.contains(target), "{name} must not use {target}");
            }
        }
    }
    for name in allowed.keys() {
        assert!(seen.contains(name), "crate {name} is in ARROWS but not in the workspace");
    }
}

/// The root of the facade has only the names that most programs use.
#[test]
fn the_facades_root_is_small() {
    let text = fs::read_to_string(rolecall_testkit::root().join("crates/rolecall/src/lib.rs")).unwrap();
    let root = text.lines().filter_map(|line| line.strip_prefix("pub use ")?.strip_suffix(';'));
    let names: Vec<&str> = root
        .flat_map(|path| match path.split_once('{') {
            Some((_, names)) => names.trim_end_matches('}').split(',').map(str::trim).collect(),
            // `crate as module` is a module.
            None => vec![path].into_iter().filter(|path| !path.contains(" as ")).collect::<Vec<_>>(),
        })
        .collect();
    assert_eq!(names.len(), 10, "{names:?}");
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
    for folder in sources_of(&[Core, Edge]) {
        for (path, line, code) in code_lines(&folder) {
            // An engine bears the name of a model.
            let engine = ["llama.cpp", "llama_cpp", "llamacpp", "llama-server", "llama_server"];
            let code = engine.iter().fold(code.to_lowercase(), |code, name| code.replace(name, ""));
            let named = words.iter().find(|word| code.contains(word.as_str()));
            assert!(named.is_none(), "{path}:{line} names a model: {code}");
        }
    }
}

/// A file has one noun, and can be read at once.
#[test]
fn no_product_file_has_more_than_600_lines() {
    let mut files = Vec::new();
    sources_of(&[Core, Edge]).iter().for_each(|folder| rust_files(folder, &mut files));
    assert!(files.len() > 500, "{} files", files.len());
    for path in files {
        let count = fs::read_to_string(&path).unwrap().lines().count();
        assert!(count <= 600, "{} has {count} lines", path.display());
    }
}

/// A name that many files define cannot be searched for.
#[test]
fn no_type_name_is_defined_in_more_than_three_files() {
    let mut files: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, _, line) in sources_of(&[Core, Edge]).iter().flat_map(|folder| code_lines(folder)) {
        let item = line.strip_prefix("pub").map_or(line.as_str(), |rest| {
            rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or(rest, |(_, rest)| rest).trim_start()
        });
        let name = ["struct ", "enum ", "trait ", "type ", "union "].iter().find_map(|word| item.strip_prefix(word));
        let Some(name) = name else { continue };
        let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
        files.entry(name[..end].to_owned()).or_default().insert(path);
    }
    assert!(files.len() > 800, "{} names", files.len());
    for (name, files) in files {
        assert!(name == "Error" || files.len() <= 3, "{name} is defined in {files:?}");
    }
}

/// Core crates take values and return values: no files, network, clock or environment. (The facade
/// loads files.)
#[test]
fn core_crates_touch_nothing_outside() {
    for folder in sources_of(&[Core]) {
        for (path, line, code) in code_lines(&folder) {
            for outside in ["std::fs", "fs::read", "std::net", "std::env", "SystemTime", "Instant::now", "std::process"]
            {
                assert!(!code.contains(outside), "{path}:{line} accesses the outside world: {code}");
            }
        }
    }
}

/// A test that does not find `../shared` reports what it skips, so that `cargo xtask test` can sum
/// it up.
#[test]
fn whoever_looks_for_references_says_what_is_skipped_without_them() {
    let mut files = Vec::new();
    for entry in fs::read_dir(rolecall_testkit::root().join("crates")).unwrap().filter_map(Result::ok) {
        for folder in ["src", "tests"] {
            rust_files(&entry.path().join(folder), &mut files);
        }
    }
    let mut looking = 0;
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        let code: String =
            text.lines().map(|line| line.split("//").next().unwrap_or_default().to_owned() + "\n").collect();
        // These files report missing references themselves.
        let tells = ["fixture/src/shared.rs", "xtask/src/suite.rs"];
        if tells.iter().chain(&["testkit/tests/architecture.rs"]).any(|known| path.ends_with(known)) {
            continue;
        }
        let by_name = if code.contains("use rolecall_fixture::") { code.matches(" shared()").count() } else { 0 };
        let looks = code.matches("::shared()").count() + by_name;
        let says = code.matches("say_skipped(").count();
        assert!(says >= looks, "{}: looks for references {looks} times but reports {says} skips", path.display());
        assert!(!code.contains("\"../shared") && !code.contains("/../shared"), "{}: use `shared()`", path.display());
        looking += looks;
    }
    assert!(looking > 10, "only {looking} tests look for references");
}

/// A file that `tests/main.rs` does not name is never compiled, and its tests are never run.
#[test]
fn every_file_of_tests_is_part_of_the_one_binary() {
    for (name, ..) in ARROWS {
        let crate_folder = rolecall_testkit::root().join("crates").join(name);
        let tests = crate_folder.join("tests");
        let files: BTreeSet<String> = fs::read_dir(&tests)
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter_map(|name| name.strip_suffix(".rs").filter(|name| *name != "main").map(str::to_owned))
            .collect();
        if files.is_empty() {
            continue;
        }
        let manifest = fs::read_to_string(crate_folder.join("Cargo.toml")).unwrap();
        assert!(manifest.contains("autotests = false"), "{name}: each file in tests/ is a binary of its own");
        let main = fs::read_to_string(tests.join("main.rs")).unwrap();
        let listed = |file: &String| main.lines().any(|line| line == format!("mod {file};"));
        let missing: Vec<&String> = files.iter().filter(|file| !listed(file)).collect();
        assert!(missing.is_empty(), "{name}: tests/main.rs does not list {missing:?}");
    }
}

fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for path in fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path()) {
        match path.is_dir() {
            true => rust_files(&path, files),
            false if path.extension().is_some_and(|ending| ending == "rs") => files.push(path),
            false => {}
        }
    }
}

/// Returns the lines of code in a folder, without comments and without the tests at the end of a
/// file.
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
