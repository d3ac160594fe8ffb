//! `docs/documents.md`: every item of the five systems' documents, how to do it here, and the tests that hold it. The
//! items are in `crates/testkit/documents/`; a test that they name exists.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::collections::BTreeSet;
use std::fmt::Write;
use std::{env, fs};

use toml::de::{DeTable, DeValue};

const PAGE: &str = "docs/documents.md";

/// The files of `crates/testkit/documents/`, in the order of the page.
const DOCUMENTS: [&str; 5] = ["internlm2", "lmflow", "chatglm3", "xtuner", "lmdeploy"];

/// A document, with its items in the order of its text.
struct Document {
    title: String,
    source: String,
    parts: Vec<(String, Vec<Item>)>,
}

/// A statement, an example, a template, an option or a method of a document.
struct Item {
    /// The item in a sentence.
    item: String,
    /// What does it here.
    how: String,
    /// The tests that hold it, or that hold what is done instead.
    tests: Vec<String>,
    /// Why it is deliberately otherwise here.
    why: String,
    /// What a test is missing for.
    untested: String,
}

/// How many items there are of each kind.
#[derive(Default)]
struct Counts {
    items: usize,
    held: usize,
    otherwise: usize,
    untested: usize,
}

#[test]
fn every_item_of_the_documents_names_tests_that_exist() {
    let mut wrong = Vec::new();
    for document in DOCUMENTS.map(read) {
        let mut seen = BTreeSet::new();
        for item in document.items() {
            let name = format!("{}: {}", document.title, item.item);
            let is_told = !item.tests.is_empty() || !item.why.is_empty();
            let is_missing = !item.untested.is_empty();
            if item.item.is_empty() || is_told == is_missing {
                wrong.push(format!("{name}: expected `item`, and `tests`, `why` or `untested`"));
            }
            if item.how.is_empty() && item.why.is_empty() && item.untested.is_empty() {
                wrong.push(format!("{name}: expected `how`"));
            }
            if !seen.insert(item.item.clone()) {
                wrong.push(format!("{name}: twice"));
            }
            wrong
                .extend(item.tests.iter().filter(|test| !exists(test)).map(|test| format!("{name}: no test `{test}`")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_test_that_does_not_exist_is_noticed() {
    let own = "crates/testkit/tests/document_items.rs";
    assert!(exists(&format!("{own}::a_test_that_does_not_exist_is_noticed")));
    assert!(exists("fixtures/conform.toml::lmflow · document printed example"));
    // A function that is no test, other names, and a file that is not there.
    for name in ["exists", "a_test_that_does_not_exist_is_notice", "absent", ""] {
        assert!(!exists(&format!("{own}::{name}")), "{name}");
    }
    for test in [own, "docs/README.md", "fixtures/conform.toml::absent", "python/tests/absent.py::test_a", "a.case"] {
        assert!(!exists(test), "{test}");
    }
    let python = "python/tests/test_documents.py::test_xtuner_writes";
    assert!(exists(python) && exists(&format!("{python}[vicuna]")) && !exists(&format!("{python}[absent]")));
}

#[test]
fn the_page_has_every_item_of_the_documents() {
    let documents = DOCUMENTS.map(read);
    let mut page = String::from(INTRODUCTION);
    page.push_str("| document | items | held by a test | deliberately otherwise | without a test |\n");
    page.push_str("| --- | --- | --- | --- | --- |\n");
    let mut all = Counts::default();
    for document in &documents {
        let counts = document.counts();
        let link = document.title.to_lowercase().replace(' ', "-").replace('\'', "");
        let _ = writeln!(page, "| [{}](#{link}) {}", document.title, counts.cells());
        all.add(&counts);
    }
    let _ = writeln!(page, "| all {}", all.cells());
    println!(
        "the five documents: {} items, {} held, {} otherwise, {} untested",
        all.items, all.held, all.otherwise, all.untested
    );
    for document in &documents {
        let _ = writeln!(page, "\n## {}\n\n{}\n", document.title, document.source);
        for (at, (part, items)) in document.parts.iter().enumerate() {
            let gap = if at == 0 { "" } else { "\n" };
            let _ = writeln!(page, "{gap}### {part}\n\n| item | here | test |\n| --- | --- | --- |");
            for item in items {
                let _ = writeln!(page, "| {} | {} | {} |", cell(&item.item), cell(&item.how), cell(&item.verdict()));
            }
        }
    }
    let path = rolecall_testkit::root().join(PAGE);
    if fs::read_to_string(&path).ok().as_deref() != Some(&page) {
        assert!(env::var_os("UPDATE").is_some(), "{PAGE} is stale; run `UPDATE=1 cargo test` to write it");
        fs::write(path, page).unwrap();
    }
}

const INTRODUCTION: &str = "\
# The five documents

A test writes this page (`crates/testkit/tests/document_items.rs`, `UPDATE=1`) from `crates/testkit/documents/`, and
checks that every test it names exists.

Five systems describe chat formats in documents of their own. The tables list what a reader of these documents relies
on, the command, the Python call or the request that does it here, and the tests that hold it. A test in `fixtures/` is
a case file; one in `fixtures/conform.toml` is an operation on recorded results of the system's own code, which
`conform` compares. In Python, the name in brackets is a parameter of the test. Where an item is deliberately otherwise,
the reason is given, and the tests hold what is done instead.

";

impl Document {
    fn items(&self) -> impl Iterator<Item = &Item> {
        self.parts.iter().flat_map(|(_, items)| items)
    }

    fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for item in self.items() {
            counts.items += 1;
            match (item.untested.is_empty(), item.why.is_empty()) {
                (false, _) => counts.untested += 1,
                (_, false) => counts.otherwise += 1,
                _ => counts.held += 1,
            }
        }
        counts
    }
}

impl Item {
    /// What the last column says: the tests, the reason, or what is missing.
    fn verdict(&self) -> String {
        let tests = self.tests.iter().map(|test| format!("`{test}`")).collect::<Vec<_>>().join("<br>");
        match (self.untested.is_empty(), self.why.is_empty(), tests.is_empty()) {
            (false, ..) => format!("**none**: {}", self.untested),
            (_, true, _) => tests,
            (_, _, true) => format!("otherwise: {}", self.why),
            _ => format!("otherwise: {}<br>{tests}", self.why),
        }
    }
}

impl Counts {
    fn add(&mut self, other: &Counts) {
        self.items += other.items;
        self.held += other.held;
        self.otherwise += other.otherwise;
        self.untested += other.untested;
    }

    fn cells(&self) -> String {
        format!("| {} | {} | {} | {} |", self.items, self.held, self.otherwise, self.untested)
    }
}

/// Returns a text as a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// Reports whether a test exists: a case file, or a name in a file after `::`.
fn exists(test: &str) -> bool {
    let (file, name) = test.split_once("::").unwrap_or((test, ""));
    let Ok(text) = fs::read_to_string(rolecall_testkit::root().join(file)) else { return false };
    let ending = file.rsplit('.').next().unwrap_or_default();
    match ending {
        "case" => name.is_empty(),
        "toml" => text.lines().any(|line| line.starts_with(&format!("\"{name}\" = "))),
        "py" => {
            let (function, parameter) = name.split_once('[').unwrap_or((name, ""));
            let parameter = parameter.strip_suffix(']').unwrap_or_default();
            function.starts_with("test_")
                && text.lines().any(|line| line.starts_with(&format!("def {function}(")))
                && (parameter.is_empty() || text.contains(&format!("\"{parameter}\"")))
        }
        "rs" => {
            let lines: Vec<&str> = text.lines().map(str::trim).collect();
            let is_function =
                |line: &str| ["fn", "async fn"].iter().any(|word| line.starts_with(&format!("{word} {name}(")));
            let at = lines.iter().position(|line| is_function(line));
            let above = |at: usize| lines[..at].iter().rev().take_while(|line| line.starts_with("#["));
            !name.is_empty() && at.is_some_and(|at| above(at).any(|line| line.contains("test")))
        }
        _ => false,
    }
}

/// Reads a file of `crates/testkit/documents/`.
fn read(name: &str) -> Document {
    let path = rolecall_testkit::root().join(format!("crates/testkit/documents/{name}.toml"));
    let source = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let table = DeTable::parse(&source).unwrap_or_else(|error| panic!("{}: {error}", path.display())).into_inner();
    let item = |table: &DeTable<'_>| {
        let known = ["item", "how", "tests", "why", "untested"];
        let key = table.keys().find(|key| !known.contains(&key.get_ref().as_ref()));
        assert!(key.is_none(), "{}: unknown key {key:?}", path.display());
        Item {
            item: text(table, "item"),
            how: text(table, "how"),
            tests: texts(table, "tests"),
            why: text(table, "why"),
            untested: text(table, "untested"),
        }
    };
    let parts = tables(&table, "part").into_iter();
    let parts = parts.map(|part| (text(part, "title"), tables(part, "items").into_iter().map(item).collect()));
    Document { title: text(&table, "title"), source: text(&table, "source"), parts: parts.collect() }
}

fn text(table: &DeTable<'_>, key: &str) -> String {
    match table.get(key).map(|value| value.get_ref()) {
        Some(DeValue::String(text)) => text.to_string(),
        None => String::new(),
        Some(other) => panic!("`{key}`: expected a text, found {other:?}"),
    }
}

fn texts(table: &DeTable<'_>, key: &str) -> Vec<String> {
    let text = |value: &DeValue<'_>| match value {
        DeValue::String(text) => text.to_string(),
        other => panic!("`{key}`: expected a text, found {other:?}"),
    };
    match table.get(key).map(|value| value.get_ref()) {
        Some(DeValue::Array(list)) => list.iter().map(|value| text(value.get_ref())).collect(),
        None => Vec::new(),
        Some(other) => panic!("`{key}`: expected a list, found {other:?}"),
    }
}

fn tables<'t, 'i>(table: &'t DeTable<'i>, key: &str) -> Vec<&'t DeTable<'i>> {
    let Some(DeValue::Array(list)) = table.get(key).map(|value| value.get_ref()) else {
        panic!("expected a list of tables `{key}`")
    };
    let each = |value: &'t DeValue<'i>| match value {
        DeValue::Table(table) => table,
        other => panic!("`{key}`: expected a table, found {other:?}"),
    };
    list.iter().map(|value| each(value.get_ref())).collect()
}
