//! Resource usage of this process, where the system reports it.

use std::fs;
use std::time::Duration;

/// Returns the CPU time of this thread.
pub fn cpu_time() -> Duration {
    let found = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = found.split_whitespace().next().and_then(|number| number.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}

/// Returns the peak memory of this process.
pub fn peak_kilobytes() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    line.and_then(|line| line.split_whitespace().nth(1)).and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// The time for the work in [`slowness`] on the machine where the time limits were measured, in
/// nanoseconds.
const WORK: f64 = 10.0e6;

/// Returns how many times slower this machine currently is than the one where the time limits were
/// measured, at least 1. Other load on the machine, such as a process that fills the caches, also
/// slows down the code under test. The work uses only the standard library, so it does not excuse a
/// slower engine.
pub fn slowness() -> f64 {
    let before = cpu_time();
    let mut map = std::collections::HashMap::new();
    for number in 0_u64..200_000 {
        let key = (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 10_007).to_string();
        *map.entry(key).or_insert(0_u64) += number;
    }
    let mut pairs: Vec<(String, u64)> = map.into_iter().collect();
    pairs.sort_unstable();
    std::hint::black_box(&pairs);
    ((cpu_time() - before).as_secs_f64() * 1e9 / WORK).max(1.0)
}
