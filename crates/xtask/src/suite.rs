use std::fs;
use std::process::ExitCode;

use crate::python::{self, TestOutcome};

/// Runs all tests of the workspace and of the Python package, and reads the file to which tests
/// without `../shared`, or without a kernel for code, write a line each. With `--complete`, leaving out the Python
/// package or code that runs is a failure. Other arguments are cargo's.
pub fn run(arguments: &[String]) -> Result<ExitCode, String> {
    let is_complete = arguments.iter().any(|argument| argument == "--complete");
    let arguments: Vec<String> = arguments.iter().filter(|argument| *argument != "--complete").cloned().collect();
    let arguments = arguments.as_slice();
    let folder = crate::root().join("target/xtask");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let record = folder.join("skipped");
    fs::write(&record, "").map_err(|error| format!("{}: {error}", record.display()))?;
    let mut tests = crate::cargo();
    if is_complete {
        tests.env("ROLECALL_COMPLETE", "1");
    }
    let status = tests
        .args(["test", "--workspace", "--all-features", "--locked"])
        .args(arguments)
        .env("ROLECALL_SKIPPED", &record)
        // With this variable set, tests would write their own expectations.
        .env_remove("UPDATE")
        .current_dir(crate::root())
        .status()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    // Arguments may select a part of the crates.
    let is_whole = arguments.iter().all(|argument| argument == "--no-fail-fast");
    let python = match (status.success(), is_whole) {
        (true, true) => Some(python::test_base(&record, is_complete)?),
        _ => None,
    };
    let skipped = fs::read_to_string(&record).map_err(|error| format!("{}: {error}", record.display()))?;
    let (code, skipped): (Vec<&str>, Vec<&str>) = skipped.lines().partition(|line| line.ends_with(CODE));
    let skipped = skipped.join("\n");
    let has_passed = status.success() && python != Some(TestOutcome::Failed);
    println!(
        "\n{}{}",
        if has_passed { "" } else { "tests FAILED; " },
        closing_line(&skipped, has_shared(), if is_whole { &[] } else { arguments })
    );
    if !code.is_empty() {
        println!(
            "NOT TESTED: {} tests of code that runs; `rolecall interpreter --check` says what is missing",
            code.len()
        );
    }
    let left_out = match python {
        Some(TestOutcome::LeftOut(why)) => Some(why),
        None if is_complete && status.success() => Some("only a part was run".to_owned()),
        _ => None,
    };
    if let Some(why) = &left_out {
        println!("{}", python::left_out(why));
    }
    Ok(if has_passed && !(is_complete && left_out.is_some()) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// How the lines end of tests that had no kernel.
const CODE: &str = "\tcode that runs";

/// Reports whether the references exist.
fn has_shared() -> bool {
    crate::root().join("../shared/golden").is_dir()
}

/// Describes what was not tested. Each line of the record is a test, a tab, and what it skipped.
/// With arguments, only some tests ran.
fn closing_line(skipped: &str, has_shared: bool, arguments: &[String]) -> String {
    let mut tests: Vec<&str> = skipped.lines().filter_map(|line| line.split('\t').next()).collect();
    let mut reasons: Vec<&str> =
        skipped.lines().filter_map(|line| line.split_once('\t')).map(|(_, what)| what).collect();
    tests.sort_unstable();
    tests.dedup();
    reasons.sort_unstable();
    reasons.dedup();
    let part = match arguments {
        [] => String::new(),
        given => format!("only a part was run (`{}`); ", given.join(" ")),
    };
    let line = match tests.len() {
        0 if has_shared => {
            "no test skipped anything, because ../shared exists; `.ci/run` also runs conformance with the reference systems"
                .to_owned()
        }
        count => format!(
            "NOT TESTED, because ../shared is missing: conformance with the reference systems (`conform`), and parts of \
             {count} tests{}{}",
            if reasons.is_empty() { "" } else { ": " },
            reasons.join("; ")
        ),
    };
    part + &line
}

#[cfg(test)]
mod tests {
    use super::closing_line;

    #[test]
    fn the_closing_line_names_each_skip_once() {
        let skipped = "b\tno template was tried\na\tno template was tried\na\tno ids were compared\n";
        let line = closing_line(skipped, false, &[]);
        assert!(line.ends_with("parts of 2 tests: no ids were compared; no template was tried"), "{line}");
        assert!(!line.contains('\n'), "{line}");
        assert!(closing_line("", true, &[]).starts_with("no test skipped anything"));
    }

    #[test]
    fn the_closing_line_claims_no_more_than_was_run() {
        assert!(closing_line("", false, &[]).starts_with("NOT TESTED"));
        let line = closing_line("", true, &["-p".to_owned(), "rolecall-text".to_owned()]);
        assert!(line.starts_with("only a part was run (`-p rolecall-text`); no test skipped"), "{line}");
    }
}
