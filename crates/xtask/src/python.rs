//! Builds the Python package's wheel, installs it into an environment of its own, and runs its tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const HELP: &str = "\
Builds the Python package's wheel and runs its tests with it.

    cargo xtask python [--extras] [--python PROGRAM] [ARGUMENT ..]

    --extras           also install the libraries that the package works with (transformers, datasets,
                       Ray and others), and fail if a test that needs one of them is skipped
    --python PROGRAM   the interpreter (default: python3)
    ARGUMENT ..        arguments for pytest
";

/// The oldest CPython that the package supports.
const OLDEST: &str = "3.10";

/// The largest wheel, in bytes.
const LARGEST_WHEEL: u64 = 15_000_000;

/// The result of the tests.
#[derive(Debug, PartialEq, Eq)]
pub enum TestOutcome {
    Passed,
    Failed,
    /// They were not run, for this reason.
    LeftOut(String),
}

/// What is tested, and with what.
#[derive(Debug, PartialEq, Eq)]
struct TestPlan<'a> {
    /// Whether the libraries that the package works with are installed.
    with_extras: bool,
    interpreter: &'a str,
    /// The file to which tests without `../shared` write a line each.
    record: Option<&'a Path>,
    /// Whether a test of code that runs fails without a kernel.
    is_complete: bool,
    pytest: &'a [String],
}

impl Default for TestPlan<'_> {
    fn default() -> Self {
        TestPlan { with_extras: false, interpreter: "python3", record: None, is_complete: false, pytest: &[] }
    }
}

/// Runs the tests. Not running them is a failure.
pub fn run(arguments: &[String]) -> Result<ExitCode, String> {
    if let [argument] = arguments
        && (argument == "--help" || argument == "-h")
    {
        print!("{HELP}");
        return Ok(ExitCode::SUCCESS);
    }
    match test(&plan_of(arguments)?)? {
        TestOutcome::Passed => Ok(ExitCode::SUCCESS),
        TestOutcome::Failed => Ok(ExitCode::FAILURE),
        TestOutcome::LeftOut(why) => Err(left_out(&why)),
    }
}

/// Runs the tests that need only the interpreter and numpy, on the oldest CPython that the package supports if that is
/// installed. Tests without `../shared` or without a kernel for code write a line each to `record`; if the run is to be
/// complete, those without a kernel fail.
pub fn test_base(record: &Path, is_complete: bool) -> Result<TestOutcome, String> {
    let oldest = oldest();
    if oldest.is_none() {
        println!("the Python package is NOT TESTED on CPython {OLDEST}, because that is not installed");
    }
    let interpreter = oldest.as_deref().unwrap_or("python3");
    test(&TestPlan { record: Some(record), interpreter, is_complete, ..TestPlan::default() })
}

/// Returns the program of the oldest supported CPython, which a version manager may keep apart from the others.
fn oldest() -> Option<String> {
    let home = std::env::var_os("PYENV_ROOT").map(PathBuf::from);
    let home = home.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".pyenv")));
    let folders = home.and_then(|home| fs::read_dir(home.join("versions")).ok()).into_iter().flatten().flatten();
    let kept = folders.filter(|folder| folder.file_name().to_string_lossy().starts_with(&format!("{OLDEST}.")));
    let kept = kept.map(|folder| folder.path().join("bin/python3").to_string_lossy().into_owned());
    // One that only a version manager's stub answers for has no version.
    [format!("python{OLDEST}")].into_iter().chain(kept).find(|program| version_of(program).as_deref() == Some(OLDEST))
}

/// Says that the tests were not run.
pub fn left_out(why: &str) -> String {
    format!("the Python package was NOT TESTED: {why}")
}

fn plan_of(mut arguments: &[String]) -> Result<TestPlan<'_>, String> {
    let mut plan = TestPlan::default();
    loop {
        match arguments {
            [flag, rest @ ..] if flag == "--extras" => (plan.with_extras, arguments) = (true, rest),
            [flag, program, rest @ ..] if flag == "--python" => (plan.interpreter, arguments) = (program, rest),
            [flag] if flag == "--python" => return Err("--python needs the name of an interpreter".to_owned()),
            pytest => return Ok(TestPlan { pytest, ..plan }),
        }
    }
}

/// Runs the tests, if there is a Python with `venv`, and the network or earlier packages.
fn test(plan: &TestPlan<'_>) -> Result<TestOutcome, String> {
    let folder = crate::root().join("target/python");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let version = match version_of(plan.interpreter) {
        Some(version) => version,
        None => return Ok(TestOutcome::LeftOut(format!("there is no {}", plan.interpreter))),
    };
    let env = folder.join(format!("{}-{version}", if plan.with_extras { "extras" } else { "env" }));
    if let Err(why) = prepare(&env, plan)? {
        return Ok(TestOutcome::LeftOut(why));
    }
    let wheels = folder.join("wheels");
    // Only the new wheel is installed.
    if wheels.is_dir() {
        fs::remove_dir_all(&wheels).map_err(|error| format!("{}: {error}", wheels.display()))?;
    }
    let mut build = Command::new(program(&env, "maturin"));
    build.args(["build", "--release", "--locked", "--out"]).arg(&wheels);
    if !succeeds(build.current_dir(crate::root().join("python")))? {
        return Ok(TestOutcome::Failed);
    }
    if let Some(bytes) = size_of_wheel(&wheels)?.filter(|bytes| *bytes > LARGEST_WHEEL) {
        return Err(format!("the wheel has {bytes} bytes; the most is {LARGEST_WHEEL}"));
    }
    let mut install = Command::new(program(&env, "python"));
    install.args(["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--force-reinstall", "--find-links"]);
    if !succeeds(install.arg(&wheels).arg("rolecall"))? {
        return Ok(TestOutcome::Failed);
    }
    let mut tests = Command::new(program(&env, "python"));
    // The installed package is tested: neither the root nor `python/tests`, which pytest adds to the path,
    // has a `rolecall`.
    tests.args(["-m", "pytest", "-q", "python/tests"]).args(plan.pytest);
    tests.env_remove("ROLECALL_EXTRAS").env_remove("ROLECALL_SKIPPED");
    if let Some(record) = plan.record {
        tests.env("ROLECALL_SKIPPED", record);
    }
    if plan.is_complete {
        tests.env("ROLECALL_COMPLETE", "1");
    }
    if plan.with_extras {
        tests.env("ROLECALL_EXTRAS", "1");
    }
    Ok(if succeeds(&mut tests)? { TestOutcome::Passed } else { TestOutcome::Failed })
}

/// Creates the environment with its packages, or returns the reason why this is not possible.
fn prepare(env: &Path, plan: &TestPlan<'_>) -> Result<Result<(), String>, String> {
    let mut files = vec![crate::root().join("python/requirements/tests.txt")];
    if plan.with_extras {
        files.push(crate::root().join("python/requirements/extras.txt"));
    }
    let mut wanted = String::new();
    for file in &files {
        wanted += &fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    let record = env.join("packages");
    if fs::read_to_string(&record).is_ok_and(|found| found == wanted) {
        return Ok(Ok(()));
    }
    if !succeeds(Command::new(plan.interpreter).args(["-m", "venv", "--clear"]).arg(env))? {
        return Ok(Err(format!("{} has no venv", plan.interpreter)));
    }
    let mut install = Command::new(program(env, "python"));
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    for file in &files {
        install.arg("-r").arg(file);
    }
    if !succeeds(&mut install)? {
        return Ok(Err("pip cannot install the packages that the tests need".to_owned()));
    }
    fs::write(&record, wanted).map_err(|error| format!("{}: {error}", record.display()))?;
    Ok(Ok(()))
}

/// Returns the version of an interpreter, such as `3.11`, if there is one.
fn version_of(interpreter: &str) -> Option<String> {
    let code = "import sys; print('%d.%d' % sys.version_info[:2])";
    let output = Command::new(interpreter).args(["-c", code]).output().ok()?;
    let version = String::from_utf8(output.stdout).ok()?;
    Some(version.trim().to_owned()).filter(|version| output.status.success() && !version.is_empty())
}

fn size_of_wheel(wheels: &Path) -> Result<Option<u64>, String> {
    let entries = fs::read_dir(wheels).map_err(|error| format!("{}: {error}", wheels.display()))?;
    Ok(entries.flatten().filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).max())
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

#[cfg(test)]
mod tests {
    use super::{TestPlan, plan_of, version_of};

    #[test]
    fn flags_come_before_the_arguments_for_pytest() {
        let arguments = ["--extras", "--python", "python3.10", "-k", "--extras"].map(str::to_owned);
        let plan =
            TestPlan { with_extras: true, interpreter: "python3.10", pytest: &arguments[3..], ..TestPlan::default() };
        assert_eq!(plan_of(&arguments), Ok(plan));
        assert!(plan_of(&["--python".to_owned()]).is_err());
    }

    #[test]
    fn an_interpreter_that_does_not_exist_has_no_version() {
        assert_eq!(version_of("no-such-python"), None);
        assert_eq!(version_of("false"), None);
    }
}
