//! What this process has used, where the system says it.

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

/// What [`slowness`]'s work takes on the machine where the limits of time were measured, in nanoseconds.
const WORK: f64 = 10.0e6;

/// How many times as long this machine takes now as the one where the limits of time were measured, and at least once: a
/// neighbour that fills the caches slows everything down, and what is measured with it. The work is of the standard library
/// alone, so an engine that has become slower is not excused by it.
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
