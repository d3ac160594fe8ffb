//! Runs golden files of reference systems through rolecall and says what passed.
//!
//!     conform FILE... [--templates DIR] [--tokenizers DIR] [--facts DIR] [--failures N]
//!
//! The facts, where not given, are looked for in `facts` beside the first file's folder.

use std::path::PathBuf;
use std::process::ExitCode;
use std::{env, fs};

use rolecall_testkit::golden::Folders;
use rolecall_testkit::{Report, golden};

const USAGE: &str = "usage: conform FILE... [--templates DIR] [--tokenizers DIR] [--facts DIR] [--failures N]";

fn main() -> ExitCode {
    match arguments().and_then(|arguments| run(&arguments)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("conform: {message}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

#[derive(Default)]
struct Arguments {
    files: Vec<PathBuf>,
    folders: Folders,
    failures: Option<usize>,
}

fn arguments() -> Result<Arguments, String> {
    let mut read = Arguments::default();
    let mut given = env::args().skip(1);
    while let Some(argument) = given.next() {
        let mut value = || given.next().ok_or_else(|| format!("`{argument}` needs a value"));
        match argument.as_str() {
            "--tokenizers" => read.folders.tokenizers = Some(value()?.into()),
            "--templates" => read.folders.templates = Some(value()?.into()),
            "--facts" => read.folders.facts = Some(value()?.into()),
            "--failures" => read.failures = Some(value()?.parse().map_err(|_| "`--failures` needs a number")?),
            "-h" | "--help" => return Err("runs golden files".into()),
            option if option.starts_with("--") => return Err(format!("unknown option `{option}`")),
            file => read.files.push(file.into()),
        }
    }
    if read.files.is_empty() {
        return Err("no files".into());
    }
    Ok(read)
}

fn run(arguments: &Arguments) -> Result<bool, String> {
    let mut folders = arguments.folders.clone();
    folders.facts = folders.facts.or_else(|| Some(arguments.files.first()?.parent()?.join("../facts")));
    let mut context = golden::Context::new(folders);
    let mut report = Report::new();
    for file in &arguments.files {
        let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        golden::run_file(&text, &mut context, &mut report);
    }
    print!("{}", report.print(arguments.failures.unwrap_or(5)));
    Ok(report.totals().1 == 0)
}
