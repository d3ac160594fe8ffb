//! The dependencies: each has a reason and an accepted licence, and the dependency trees of core
//! crates are small.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::{env, fs};

use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, json};

/// Licences that each suffice in the licence expression of a dependency.
const ACCEPTED: &[&str] = &[
    "MIT",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "Unlicense",
    "CC0-1.0",
    "Unicode-3.0",
    "0BSD",
    "BSL-1.0",
    "MPL-2.0",
];

/// The maximum number of external packages below each crate, build scripts included. Features are
/// those of the whole workspace: `libm` below `num-traits` comes from the code that writes columns,
/// and users of these crates do not get it.
const MOST: &[(&str, usize)] = &[
    ("rolecall-text", 0),
    ("rolecall-conversation", 0),
    ("rolecall-format", 10),
    ("rolecall-jinja", 5),
    ("rolecall-render", 15),
    ("rolecall-openai", 0),
    ("rolecall", 110),
];

#[test]
fn every_dependency_says_why_it_is_there() {
    let mut manifests = vec![rolecall_testkit::root().join("benches/Cargo.toml")];
    let crates = fs::read_dir(rolecall_testkit::root().join("crates")).unwrap();
    manifests.extend(crates.filter_map(Result::ok).map(|entry| entry.path().join("Cargo.toml")));
    for path in manifests {
        let text = fs::read_to_string(&path).unwrap();
        let mut in_dependencies = false;
        let mut previous = "";
        for line in text.lines() {
            if line.starts_with('[') {
                in_dependencies = line.contains("dependencies");
            } else if in_dependencies && line.contains('=') && !line.starts_with("rolecall") && !line.starts_with('#') {
                assert!(
                    previous.starts_with("# "),
                    "{}: `{line}` has no comment above it with the reason",
                    path.display()
                );
            }
            // Several crates may share a reason.
            if !(in_dependencies && line.contains('=') && previous.starts_with("# ") && !line.starts_with('#')) {
                previous = line;
            }
        }
    }
}

#[test]
fn licences_are_accepted_and_core_trees_are_small() {
    let metadata = metadata();
    let mut packages: BTreeMap<&str, &Object> = BTreeMap::new();
    for package in list(&metadata, "packages") {
        packages.insert(text(package, "id"), package);
        let licence = text(package, "license");
        let alternatives = licence.split(" OR ").flat_map(|part| part.split('/'));
        let good = alternatives.map(|part| part.trim_matches(['(', ')', ' '])).any(|alternative| {
            alternative.split(" AND ").all(|part| {
                let part = part.trim_matches(['(', ')', ' ']).split(" WITH ").next().unwrap_or_default();
                ACCEPTED.contains(&part.trim())
            })
        });
        assert!(
            good || text(package, "name").starts_with("rolecall"),
            "{}: licence `{licence}`",
            text(package, "name")
        );
    }
    let resolve = metadata.get("resolve").and_then(Json::as_object).unwrap();
    let edges: BTreeMap<&str, Vec<&str>> = list(resolve, "nodes")
        .map(|node| {
            let used = list(node, "deps").filter(|dependency| {
                list(dependency, "dep_kinds").any(|kind| kind.get("kind").and_then(Json::as_str) != Some("dev"))
            });
            (text(node, "id"), used.map(|dependency| text(dependency, "pkg")).collect())
        })
        .collect();
    for (name, most) in MOST {
        let start = packages.iter().find(|(_, package)| text(package, "name") == *name).map(|(id, _)| *id).unwrap();
        let mut reached = BTreeSet::from([start]);
        let mut open = vec![start];
        while let Some(id) = open.pop() {
            for next in edges.get(id).into_iter().flatten() {
                if reached.insert(next) {
                    open.push(next);
                }
            }
        }
        let others = reached.iter().filter(|id| !text(packages[*id], "name").starts_with("rolecall")).count();
        assert!(others <= *most, "{name} depends on {others} external packages, at most {most} are allowed");
    }
}

fn metadata() -> Object {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // Only the packages for this platform are downloaded.
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--offline", "--filter-platform", &host()])
        .current_dir(rolecall_testkit::root())
        .output()
        .expect("cargo runs");
    let parsed = json::parse(&String::from_utf8_lossy(&output.stdout)).unwrap_or(Json::Null);
    let errors = String::from_utf8_lossy(&output.stderr);
    parsed
        .as_object()
        .cloned()
        .unwrap_or_else(|| panic!("run `cargo test --workspace` to fetch missing packages: {errors}"))
}

fn host() -> String {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("-vV").output().expect("rustc runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().find_map(|line| line.strip_prefix("host: ")).expect("rustc names its host").to_owned()
}

fn list<'a>(object: &'a Object, key: &str) -> impl Iterator<Item = &'a Object> {
    object.get(key).and_then(Json::as_array).unwrap_or_default().iter().filter_map(Json::as_object)
}

fn text<'a>(object: &'a Object, key: &str) -> &'a str {
    object.get(key).and_then(Json::as_str).unwrap_or_default()
}
