//! Shared code of the tests of hostile files, the example that measures them, and the mutation run.

#![allow(dead_code, reason = "each of them uses a part")]

pub mod attacks;
pub mod files;

use std::fs;
use std::process::Command;
use std::time::Duration;

/// Returns the CPU time of this thread.
pub fn cpu_time() -> Duration {
    let found = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = found.split_whitespace().next().and_then(|number| number.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}

/// Returns the peak memory use of this process.
pub fn peak_kilobytes() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    line.and_then(|line| line.split_whitespace().nth(1)).and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// The environment variable with the index of the attack that a process is to run.
const NUMBER: &str = "ROLECALL_ATTACK";

/// Returns the index of the attack that this process is to run, if it was started for one.
pub fn number_of_attack() -> Option<usize> {
    std::env::var(NUMBER).ok()?.parse().ok()
}

/// Runs one attack in a separate process and returns what the test printed after `measured `, or
/// the error output if the process died.
pub fn measure_apart(test: &str, attack: usize) -> Result<String, String> {
    let mut command = Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(NUMBER, attack.to_string());
    let process = command.output().map_err(|error| error.to_string())?;
    let output = String::from_utf8_lossy(&process.stdout);
    let measured = output.lines().find_map(|line| line.strip_prefix("measured ")).map(str::to_owned);
    measured.ok_or_else(|| format!("the process died\n{}", String::from_utf8_lossy(&process.stderr)))
}
