//! Generated parts of the documents: written with `UPDATE=1`, otherwise checked.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::collections::BTreeMap;
use std::fmt::Write;
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
