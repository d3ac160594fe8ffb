//! Commands for contributors. `suite` runs all tests and reports what was skipped, `python` builds and
//! tests the Python package, `mutants` plants bugs and looks for a test that fails, `fuzz` runs each
//! fuzz target for a while, and `compare` compares the speed of two commits. Each prints the output of
//! the commands that it runs, and a last line of its own.
//!
//! Start reading at [`main`].

mod compare;
mod fuzz;
mod mutants;
mod python;
mod suite;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

const HELP: &str = "\
Commands for contributors to rolecall.

    cargo xtask test [ARGUMENT ..]   run all tests; the last line lists what was not tested. With
                                     --complete, leaving out the Python package is a failure
    cargo xtask python [OPTION ..]   build the Python package and run its tests (--help lists the options)
    cargo xtask mutants [OPTION ..]  plant bugs and check that a test catches each (--help lists the options)
    cargo xtask fuzz [OPTION ..]     run each fuzz target for a while (--help lists the options)
    cargo xtask compare BASE         compare the benchmarks of two commits (--help lists the options)
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.first().map(String::as_str) {
        Some("test") => suite::run(&arguments[1..]),
        Some("python") => python::run(&arguments[1..]),
        Some("mutants") => mutants::run(&arguments[1..]),
        Some("fuzz") => fuzz::run(&arguments[1..]),
        Some("compare") => compare::run(&arguments[1..]),
        Some("--help" | "-h" | "help") => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprint!("{HELP}");
            return ExitCode::from(2);
        }
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::from(2)
    })
}

/// The root folder of the workspace.
fn root() -> PathBuf {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    folder.canonicalize().unwrap_or(folder)
}

/// Returns the command for cargo, as named by the caller.
fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}
