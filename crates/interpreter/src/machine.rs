use std::process::{Command, Stdio};

use crate::interpreter::{Interpreter, Stop};
use crate::options::{Isolation, KernelOptions};
use crate::{CodeOutput, Error, Pool, python, python_folder, sandbox};

/// What to do where something is missing.
pub(crate) const HELP: &str = "`rolecall interpreter --check` says what to install";

/// What this machine has for an interpreter, and what not.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MachineCheck {
    /// What is there, a line each.
    pub found: Vec<String>,
    /// What is missing, a line each. If it is empty, code ran.
    pub missing: Vec<String>,
    /// The one command that installs what is missing, if a command can.
    pub install: Option<String>,
}

/// Finds out whether code can be run here, by running some.
///
/// ```no_run
/// let check = rolecall_interpreter::check(&rolecall_interpreter::KernelOptions::default());
/// assert!(check.missing.is_empty(), "{:?}; install with: {:?}", check.missing, check.install);
/// ```
pub fn check(options: &KernelOptions) -> MachineCheck {
    let mut check = MachineCheck { found: Vec::new(), missing: Vec::new(), install: None };
    let mut commands: Vec<String> = Vec::new();
    let mut packages = Vec::new();
    if options.isolation == Isolation::Sandbox {
        for (program, package) in [("bash", "bash"), ("bwrap", "bubblewrap"), ("prlimit", "util-linux")] {
            match sandbox::find_program(program) {
                Some(path) => check.found.push(format!("{program}: {}", path.display())),
                None => {
                    check.missing.push(format!("the program `{program}`, of Debian's package {package}"));
                    packages.push(package);
                }
            }
        }
    }
    let folder = python_folder();
    let name = folder.display();
    if options.kernelspec.is_none() {
        match python::find(options) {
            Ok(found) => {
                check.found.push(format!("ipykernel: in {}", found.program.display()));
                for package in ["matplotlib", "pandas"] {
                    match has_package(&found, package) {
                        true => check.found.push(format!("{package}: there")),
                        false => check.found.push(format!("{package}: not there; models often import it")),
                    }
                }
            }
            Err(error) => {
                check.missing.push(error.to_string().split("; `rolecall").next().unwrap_or_default().to_owned());
                if options.python.is_none() {
                    // A sandbox can read the system's interpreter, whoever starts it. Its package is Debian's.
                    if !runs("/usr/bin/python3".as_ref(), &["-c", "import ensurepip"]) {
                        packages.push("python3-venv");
                    }
                    commands.push(format!("/usr/bin/python3 -m venv {name}"));
                    commands.push(format!("{name}/bin/pip install ipykernel matplotlib pandas"));
                    let fonts = "bin/python -c 'import matplotlib.font_manager'";
                    commands.push(format!("MPLCONFIGDIR={name}/share/rolecall {name}/{fonts}"));
                }
            }
        }
    }
    if !packages.is_empty() {
        let root = if rustix::process::geteuid().is_root() { "" } else { "sudo " };
        commands.insert(0, format!("{root}apt-get install -y {}", packages.join(" ")));
    }
    if !commands.is_empty() {
        check.install = Some(commands.join(" && "));
    }
    if check.missing.is_empty() {
        match try_out(options) {
            Ok(line) => check.found.push(line),
            Err(error) => check.missing.push(format!("a kernel that runs: {error}")),
        }
    }
    check
}

fn has_package(python: &python::Python, package: &str) -> bool {
    let code = format!("import importlib.util, sys; sys.exit(importlib.util.find_spec('{package}') is None)");
    runs(python.program.as_os_str(), &["-P", "-c", &code])
}

fn runs(program: &std::ffi::OsStr, arguments: &[&str]) -> bool {
    let status =
        Command::new(program).args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Runs a line of code. For another language, a kernel that answers is enough.
fn try_out(options: &KernelOptions) -> Result<String, Error> {
    let pool = Pool::new(options.clone(), 0, 1)?;
    let mut session = pool.session()?;
    if options.kernelspec.is_some() {
        return session.warm_up().map(|()| "a kernel: it answers".to_owned());
    }
    let execution = session.run("print(6 * 7)", &Stop::default(), &mut |_| {})?;
    match execution.outputs.as_slice() {
        [CodeOutput::Stdout(text)] if text == "42\n" => Ok("a kernel: it runs code".to_owned()),
        other => Err(Error::Start(format!("it printed {other:?} for `print(6 * 7)`"))),
    }
}
