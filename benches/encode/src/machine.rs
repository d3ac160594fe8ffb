//! What ran: the processor, and the versions of the libraries.

use crate::peers::Library;

pub fn print_versions(libraries: &[Library]) {
    let information = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = information.lines().find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1));
    let versions: Vec<String> = libraries
        .iter()
        .filter_map(|library| Some(format!("{} {}", library.name(), version(library.name())?)))
        .collect();
    println!("{}; cores that this process may use: {}", model.unwrap_or("unknown processor"), cores());
    println!("{}", versions.join(", "));
}

/// Returns the number of cores that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns the version of a package in the lock file of this benchmark.
fn version(package: &str) -> Option<&'static str> {
    let lock = include_str!("../Cargo.lock");
    let name = format!("name = \"{package}\"");
    let mut lines = lock.lines().skip_while(|line| **line != *name);
    lines.nth(1)?.strip_prefix("version = \"")?.strip_suffix('"')
}
