//! The documents: generated parts, which are written with `UPDATE=1` and otherwise checked, and the files that they
//! name.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

use rolecall::format::registry;
use rolecall_testkit::Makers;

#[test]
fn compatibility_lists_every_difference_from_the_makers_templates() {
    let mut table = String::from("| format | template | case | why it differs |\n| --- | --- | --- | --- |\n");
    for pair in Makers::read().pairs {
        let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (case, why) in &pair.differs {
            reasons.entry(why).or_default().push(case);
        }
        for (why, cases) in reasons {
            let cases = cases.iter().map(|case| format!("`{case}`")).collect::<Vec<_>>().join(", ");
            let _ =
                writeln!(table, "| `{}` | `{}` | {cases} | {} |", pair.format, pair.template, why.replace('|', "\\|"));
        }
    }
    check("COMPATIBILITY.md", "makers", &table);
}

#[test]
fn the_readme_lists_every_format() {
    let registry = registry();
    let mut table = String::from("| format | family | models, for example |\n| --- | --- | --- |\n");
    // Formats of frameworks are named after their framework.
    for format in registry.iter().filter(|format| !format.name.contains(':')) {
        let model = format.models.first().map_or(String::new(), |pattern| format!("`{}`", pattern.as_str()));
        let _ = writeln!(table, "| `{}` | {} | {model} |", format.name, format.title);
    }
    check("README.md", "formats", &table);
}

/// Words of paths that a document makes up.
const MADE_UP: [&str; 2] = ["acme", "key-and-value-between-tokens"];

#[test]
fn documents_name_only_files_that_exist() {
    let root = rolecall_testkit::root();
    let mut documents = Vec::new();
    find_documents(&root, &mut documents);
    assert!(documents.len() > 20, "{} documents", documents.len());
    let mut missing = Vec::new();
    for document in &documents {
        let text = fs::read_to_string(document).unwrap();
        let folder = document.parent().unwrap();
        let name = document.strip_prefix(&root).unwrap().display();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split([')', '#', ' ', '\n']).next()) {
            if !link.is_empty() && !link.contains("://") && !folder.join(link).exists() {
                missing.push(format!("{name}: the link {link}"));
            }
        }
        // Paths start at the root, the document's folder or `crates`.
        let starts = [root.clone(), folder.to_owned(), root.join("crates")];
        let is_path = |word: &str| {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
            let first = word.split('/').next().filter(|first| first.len() < word.len() && !first.is_empty());
            first.is_some_and(|first| first != ".." && starts.iter().any(|start| start.join(first).is_dir()))
                && word.chars().all(is_plain)
                && !MADE_UP.iter().any(|made_up| word.contains(made_up))
        };
        for word in text.lines().flat_map(|line| line.split('`').skip(1).step_by(2)).filter(|word| is_path(word)) {
            if !word.starts_with("target/") && !starts.iter().any(|start| start.join(word).exists()) {
                missing.push(format!("{name}: `{word}`"));
            }
        }
        for example in text.split("--example ").skip(1) {
            let example = example.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default();
            let mut packages: Vec<PathBuf> =
                fs::read_dir(root.join("crates")).unwrap().flatten().map(|e| e.path()).collect();
            packages.push(root.join("benches"));
            if !packages.iter().any(|package| package.join(format!("examples/{example}.rs")).exists()) {
                missing.push(format!("{name}: the example {example}"));
            }
        }
    }
    assert!(missing.is_empty(), "documents name what does not exist:\n{}", missing.join("\n"));
}

/// Finds the Markdown files of the repository.
fn find_documents(folder: &Path, documents: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            if !name.starts_with('.') && !["target", "node_modules"].contains(&name.as_str()) {
                find_documents(&path, documents);
            }
        } else if name.ends_with(".md") {
            documents.push(path);
        }
    }
}

fn check(file: &str, mark: &str, generated: &str) {
    let path = rolecall_testkit::root().join(file);
    let text = fs::read_to_string(&path).unwrap();
    let (open, close) = (format!("<!-- {mark} -->\n"), format!("<!-- end {mark} -->"));
    let start = text.find(&open).unwrap_or_else(|| panic!("{file} has no {open}")) + open.len();
    let end = text.find(&close).unwrap_or_else(|| panic!("{file} has no {close}"));
    if text[start..end] == *generated {
        return;
    }
    assert!(
        env::var_os("UPDATE").is_some(),
        "{file}: the part `{mark}` is stale; run `UPDATE=1 cargo test` to write it"
    );
    fs::write(&path, format!("{}{generated}{}", &text[..start], &text[end..])).unwrap();
}
