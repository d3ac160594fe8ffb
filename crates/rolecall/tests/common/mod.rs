//! What the test of hostile files, the example that measures them and the mutation run share.

#![allow(dead_code, reason = "each of them uses a part")]

pub mod attacks;
pub mod files;

use std::fs;
use std::process::Command;
use std::time::Duration;

/// The processor's time of this thread.
pub fn cpu_time() -> Duration {
    let found = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = found.split_whitespace().next().and_then(|number| number.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}

/// The most memory that this process has had.
pub fn peak_kilobytes() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    line.and_then(|line| line.split_whitespace().nth(1)).and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Set for a process that is to run one attack, to its number.
const NUMBER: &str = "ROLECALL_ATTACK";

/// The attack that this process is to run, if it was started for one.
pub fn number_of_attack() -> Option<usize> {
    std::env::var(NUMBER).ok()?.parse().ok()
}

/// What a test prints behind `measured ` in a process of its own that runs one attack; else what the process said as it died.
pub fn measure_apart(test: &str, attack: usize) -> Result<String, String> {
    let mut command = Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(NUMBER, attack.to_string());
    let process = command.output().map_err(|error| error.to_string())?;
    let output = String::from_utf8_lossy(&process.stdout);
    let measured = output.lines().find_map(|line| line.strip_prefix("measured ")).map(str::to_owned);
    measured.ok_or_else(|| format!("the process died\n{}", String::from_utf8_lossy(&process.stderr)))
}
