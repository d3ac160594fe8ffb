//! Builds the Python package's wheel, installs it into an environment of its own, and runs its tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// What the tests need besides the package, with the package that builds the wheel.
const PACKAGES: [&str; 3] = ["maturin==1.16.0", "numpy==2.4.6", "pytest==9.2.0"];

/// The result of the tests.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    Failed,
    /// They were not run, for this reason.
    LeftOut(String),
}

/// Runs the tests. Not running them is a failure.
pub fn run(arguments: &[String]) -> Result<ExitCode, String> {
    match test(arguments)? {
        Outcome::Passed => Ok(ExitCode::SUCCESS),
        Outcome::Failed => Ok(ExitCode::FAILURE),
        Outcome::LeftOut(why) => Err(format!("the Python package was not tested: {why}")),
    }
}

/// Runs the tests, if there is a Python with `venv`, and the network or earlier packages.
fn test(arguments: &[String]) -> Result<Outcome, String> {
    let folder = crate::root().join("target/python");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let env = folder.join("env");
    if let Err(why) = prepare(&env) {
        return Ok(Outcome::LeftOut(why));
    }
    let wheels = folder.join("wheels");
    // Only the new wheel is installed.
    if wheels.is_dir() {
        fs::remove_dir_all(&wheels).map_err(|error| format!("{}: {error}", wheels.display()))?;
    }
    let mut build = Command::new(program(&env, "maturin"));
    build.args(["build", "--release", "--locked", "--out"]).arg(&wheels).env("CARGO_TARGET_DIR", folder.join("build"));
    if !succeeds(build.current_dir(crate::root().join("python")))? {
        return Ok(Outcome::Failed);
    }
    let mut install = Command::new(program(&env, "python"));
    install.args(["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--force-reinstall", "--find-links"]);
    if !succeeds(install.arg(&wheels).arg("rolecall"))? {
        return Ok(Outcome::Failed);
    }
    let mut tests = Command::new(program(&env, "python"));
    // The installed package is tested, and not the folder: the root has no `rolecall`.
    tests.args(["-m", "pytest", "-q", "--import-mode=importlib", "python/tests"]).args(arguments);
    Ok(if succeeds(&mut tests)? { Outcome::Passed } else { Outcome::Failed })
}

/// Creates the environment with its packages. The reason why this is not possible is the error.
fn prepare(env: &Path) -> Result<(), String> {
    let record = env.join("packages");
    let wanted = PACKAGES.join("\n");
    if fs::read_to_string(&record).is_ok_and(|found| found == wanted) {
        return Ok(());
    }
    let is_there = Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success());
    if !is_there {
        return Err("there is no python3".to_owned());
    }
    if !succeeds(Command::new("python3").args(["-m", "venv", "--clear"]).arg(env))? {
        return Err("python3 has no venv".to_owned());
    }
    let mut install = Command::new(program(env, "python"));
    if !succeeds(install.args(["-m", "pip", "install", "--quiet"]).args(PACKAGES))? {
        return Err(format!("pip cannot install {}", PACKAGES.join(" ")));
    }
    fs::write(&record, wanted).map_err(|error| format!("{}: {error}", record.display()))
}

fn program(env: &Path, name: &str) -> PathBuf {
    env.join("bin").join(name)
}

fn succeeds(command: &mut Command) -> Result<bool, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    if command.get_current_dir().is_none() {
        command.current_dir(crate::root());
    }
    let status = command.status();
    status.map(|status| status.success()).map_err(|error| format!("cannot start {name}: {error}"))
}
