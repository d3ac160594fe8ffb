//! Measures the CPU time, and the memory above the start, of each hostile template in the tests.
//!
//!     cargo run --release -p rolecall-jinja --example hostile [MILLISECONDS]
//!
//! Lists the attacks that take at least this long (by default, all). Each runs in its own process.

use common::attacks::{attacks, measure, shown};

#[path = "../tests/common/mod.rs"]
mod common;

fn main() {
    let argument = |at: usize| std::env::args().nth(at);
    let attacks = attacks();
    if argument(1).as_deref() == Some("one") {
        let number: usize = argument(2).and_then(|number| number.parse().ok()).unwrap_or(0);
        return println!("{}", measure(&attacks[number].0));
    }
    let least: f64 = argument(1).and_then(|number| number.parse().ok()).unwrap_or(0.0);
    let program = std::env::current_exe().unwrap_or_default();
    let (mut slowest, mut largest) = (0f64, 0f64);
    for (number, (source, expected)) in attacks.iter().enumerate() {
        let run = std::process::Command::new(&program).args(["one", &number.to_string()]).output();
        let output = run.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        let parts: Vec<&str> = output.trim_end().splitn(3, ' ').collect();
        let [milliseconds, megabytes, end] = parts[..] else {
            println!("DIED  {}", shown(source));
            continue;
        };
        let (milliseconds, megabytes) = (milliseconds.parse().unwrap_or(0.0), megabytes.parse().unwrap_or(0.0));
        (slowest, largest) = (slowest.max(milliseconds), largest.max(megabytes));
        let is_expected = expected.is_shown_as(end);
        if milliseconds >= least || megabytes > 64.0 || !is_expected {
            let wrong = if is_expected { "" } else { " UNEXPECTED" };
            println!("{milliseconds:7.1} ms {megabytes:5.1} MB  {end}{wrong}  {}", shown(source));
        }
    }
    println!("{} attacks; maximum {slowest:.1} ms and {largest:.1} MB above the start", attacks.len());
}
