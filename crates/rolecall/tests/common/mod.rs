//! What the test of hostile files, the example that measures them and the mutation run share.

#![allow(dead_code, reason = "each of them uses a part")]

pub mod attacks;
pub mod files;

use std::fs;
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
