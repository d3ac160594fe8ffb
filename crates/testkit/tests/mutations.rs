//! Templates with changed statements: inference never panics, keeps its budget, and what it calls verified
//! parses what the template writes.
//!
//! `ROLECALL_MUTATIONS` sets the number of templates, and `ROLECALL_MUTATION_SEED` the first seed.

use std::env;
use std::fmt::Write;

use rolecall_testkit::{FolderTemplates, mutate};

/// The usual number of templates.
const USUAL: usize = 400;

fn number(name: &str) -> Option<usize> {
    env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn changed_templates_are_inferred_without_a_panic_and_as_they_write() {
    let mut origins = mutate::of_cases();
    match rolecall_testkit::shared() {
        Some(shared) => origins.extend(mutate::of_folder(&FolderTemplates::read(&shared.join("templates")).unwrap())),
        None => rolecall_testkit::say_skipped("only the templates of the cases are changed"),
    }
    let (count, seed) = (number("ROLECALL_MUTATIONS").unwrap_or(USUAL), number("ROLECALL_MUTATION_SEED").unwrap_or(1));
    let summary = mutate::run(&origins, count, seed as u64, 2);
    let mut told = summary.to_string();
    for failure in summary.failures.iter().take(5) {
        let _ = writeln!(told, "{failure}\n");
    }
    assert!(summary.is_clean(), "{told}");
}
