//! Shared code of the tests of hostile files, the example that measures them, and the mutation run.

#![allow(dead_code, reason = "each of them uses a part")]

pub mod attacks;
pub mod files;

/// Time and memory of this process.
#[path = "../../../jinja/tests/common/usage.rs"]
mod usage;

use std::process::Command;

pub use usage::{cpu_time, peak_kilobytes};

/// The environment variable with the index of the attack that a process is to run.
const NUMBER: &str = "ROLECALL_ATTACK";

/// Returns the index of the attack that this process is to run, if it was started for one.
pub fn number_of_attack() -> Option<usize> {
    std::env::var(NUMBER).ok()?.parse().ok()
}

/// Runs one attack in a separate process and returns what the test printed after `measured `, or
/// the error output if the process died.
fn measure_apart(test: &str, attack: usize) -> Result<String, String> {
    let mut command = Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(NUMBER, attack.to_string());
    let process = command.output().map_err(|error| error.to_string())?;
    let output = String::from_utf8_lossy(&process.stdout);
    let measured = output.lines().find_map(|line| line.strip_prefix("measured ")).map(str::to_owned);
    measured.ok_or_else(|| format!("the process died\n{}", String::from_utf8_lossy(&process.stderr)))
}

/// Measures attacks, each in a separate process. Returns what was measured, with the attack's
/// index, and a line for each process that died.
pub fn measure_each<'n>(test: &str, names: impl IntoIterator<Item = &'n str>) -> (Vec<(usize, String)>, Vec<String>) {
    let (mut measured, mut died) = (Vec::new(), Vec::new());
    for (number, name) in names.into_iter().enumerate() {
        match measure_apart(test, number) {
            Ok(found) => measured.push((number, found)),
            Err(why) => died.push(format!("{name}: {why}")),
        }
    }
    (measured, died)
}
