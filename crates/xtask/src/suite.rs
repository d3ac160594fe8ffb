use std::fs;
use std::process::ExitCode;

/// Runs all tests of the workspace. Tests that miss `../shared` write a line each to a file, which this reads.
pub fn run(arguments: &[String]) -> Result<ExitCode, String> {
    let folder = crate::root().join("target/xtask");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let record = folder.join("skipped");
    fs::write(&record, "").map_err(|error| format!("{}: {error}", record.display()))?;
    let status = crate::cargo()
        .args(["test", "--workspace", "--locked"])
        .args(arguments)
        .env("ROLECALL_SKIPPED", &record)
        .current_dir(crate::root())
        .status()
        .map_err(|error| format!("cargo does not start: {error}"))?;
    let skipped = fs::read_to_string(&record).map_err(|error| format!("{}: {error}", record.display()))?;
    println!("\n{}{}", if status.success() { "" } else { "tests FAILED; " }, closing_line(&skipped));
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What was not tested: each line of the record is a test, a tab, and what it did not try.
fn closing_line(skipped: &str) -> String {
    let mut tests: Vec<&str> = skipped.lines().filter_map(|line| line.split('\t').next()).collect();
    let mut reasons: Vec<&str> =
        skipped.lines().filter_map(|line| line.split_once('\t')).map(|(_, what)| what).collect();
    tests.sort_unstable();
    tests.dedup();
    reasons.sort_unstable();
    reasons.dedup();
    match tests.len() {
        0 => "no test skipped anything, since ../shared is there; `.ci/run` also runs conformance with the reference systems"
            .to_owned(),
        count => format!(
            "NOT TESTED, because ../shared is missing: conformance with the reference systems (`conform`), and parts of \
             {count} tests: {}",
            reasons.join("; ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::closing_line;

    #[test]
    fn the_closing_line_names_each_skip_once() {
        let line = closing_line("b\tno template was tried\na\tno template was tried\na\tno ids were compared\n");
        assert!(line.ends_with("parts of 2 tests: no ids were compared; no template was tried"), "{line}");
        assert!(!line.contains('\n'), "{line}");
        assert!(closing_line("").starts_with("no test skipped anything"));
    }
}
