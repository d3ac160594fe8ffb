use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use crate::options::KernelOptions;
use crate::{Error, machine, sandbox};

/// A Python interpreter that can run a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Python {
    pub program: PathBuf,
    /// Where its modules are.
    pub folders: Vec<PathBuf>,
    /// Matplotlib's list of fonts, made when it was installed. Without it, each first plot would make one.
    pub fonts: Option<PathBuf>,
}

/// Prints where everything is, line by line.
const TELL: &str = "import os, sys\n\
    paths = [sys.prefix, sys.base_prefix, os.path.dirname(os.path.dirname(os.path.realpath(sys.executable)))] + sys.path\n\
    print(*[path for path in paths if os.path.exists(path)], sep='\\n')";

/// Returns the folder that [`check`](crate::check) tells to install packages into: `rolecall/python` in the user's
/// folder for data, or `/var/lib/rolecall/python` for root, whose own folders no sandbox can read.
pub fn python_folder() -> PathBuf {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || if rustix::process::geteuid().is_root() { None } else { Some(set("HOME")?.join(".local/share")) };
    let data = set("XDG_DATA_HOME").or_else(home);
    data.unwrap_or_else(|| PathBuf::from("/var/lib")).join("rolecall/python")
}

/// Finds an interpreter that has the package `ipykernel`.
pub(crate) fn find(options: &KernelOptions) -> Result<Python, Error> {
    let candidates = match &options.python {
        Some(python) => vec![python.clone()],
        None => {
            [Some(python_folder().join("bin/python")), sandbox::find_program("python3")].into_iter().flatten().collect()
        }
    };
    let mut tried = Vec::new();
    for program in candidates.iter().filter(|program| program.is_file()) {
        match tell(program, "import ipykernel\n") {
            Ok(folders) => {
                let fonts = fonts(program);
                return Ok(Python { program: program.clone(), folders, fonts });
            }
            Err(why) => tried.push(format!("{}: {why}", program.display())),
        }
    }
    let what = match tried.is_empty() {
        true if options.python.is_some() => format!("there is no file {}", candidates[0].display()),
        true => "there is no Python interpreter".to_owned(),
        false => format!("no Python interpreter has the package `ipykernel` ({})", tried.join("; ")),
    };
    Err(Error::Missing { what, help: machine::HELP.to_owned() })
}

/// Returns where an interpreter and its modules are, or nothing if the program is none.
pub(crate) fn folders(program: &Path) -> Vec<PathBuf> {
    let is_python = program.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python"));
    if is_python { tell(program, "").unwrap_or_default() } else { Vec::new() }
}

/// Asks an interpreter where everything is, after a line that may fail.
fn tell(program: &Path, first: &str) -> Result<Vec<PathBuf>, String> {
    // Nothing of the folder that this process happens to be in is imported.
    let output = Command::new(program)
        .args(["-P", "-c", &format!("{first}{TELL}")])
        .stdin(Stdio::null())
        .env_remove("PYTHONPATH")
        .output();
    let output = output.map_err(|error| error.to_string())?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(errors.lines().last().unwrap_or("it failed").to_owned());
    }
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    let folders = lines.lines().map(PathBuf::from);
    // A whole system or all homes are never shown.
    Ok(folders.filter(|path| path.is_absolute() && path.components().count() > 2).collect())
}

/// Finds the list next to the interpreter, where the command of [`machine`] puts it.
fn fonts(program: &Path) -> Option<PathBuf> {
    let folder = program.parent()?.parent()?.join("share/rolecall");
    let entries = fs::read_dir(folder).ok()?;
    entries.flatten().map(|entry| entry.path()).find(|path| path.extension().is_some_and(|ending| ending == "json"))
}
