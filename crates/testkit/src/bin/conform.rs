//! Runs golden files of reference systems through rolecall and reports which rows pass.
//!
//!     conform FILE... [--templates DIR] [--tokenizers DIR] [--facts DIR] [--pins FILE] [--only TEXT] [--threads N] [--failures N]
//!     conform --forge N [--seed S] [--templates DIR] [--tokenizers DIR] [--only TEXT] [--threads N] [--failures N]
//!     conform --outputs N [--seed S] [--templates DIR] [--only TEXT] [--threads N] [--failures N]
//!     conform --infer N [--seed S] [--templates DIR] [--only TEXT] [--threads N] [--failures N]
//!
//! The first form runs golden files. Without `--facts`, it looks for a folder `facts` next to the
//! folder of the first file. A row fails if it cannot be run. A row is pending (the summary says
//! skipped) if the library does not implement its operation yet; an excused row names its reason.
//! With `--pins`, the number of passed, pending and excused rows of each file must equal the pinned
//! one.
//!
//! The second form makes N conversations from a seed that try to forge control tokens, on every
//! format and template with every tokenizer that fits.
//!
//! The third form makes N replies, as written and damaged, on every format that has calls or
//! reasoning and on every template from which a layout can be inferred. It parses each reply split
//! in every way.
//!
//! The fourth form makes N templates from those of the cases of inference and of the folder, by
//! deleting, doubling, swapping and nesting their statements, and checks what is inferred from them.
//!
//! The last three forms name the templates that do not compile. A run that tries nothing fails.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;
use std::{env, fs, thread};

use rolecall_testkit::golden::Folders;
use rolecall_testkit::{FolderTemplates, Pins, forge, golden, mutate, outputs};

const USAGE: &str =
    "usage: conform FILE... [--templates DIR] [--tokenizers DIR] [--facts DIR] [--pins FILE] [--only TEXT] [--threads N] [--failures N]
       conform --forge N [--seed S] [--templates DIR] [--tokenizers DIR] [--only TEXT] [--threads N] [--failures N]
       conform --outputs N [--seed S] [--templates DIR] [--only TEXT] [--threads N] [--failures N]
       conform --infer N [--seed S] [--templates DIR] [--only TEXT] [--threads N] [--failures N]";

fn main() -> ExitCode {
    let run = |arguments: Arguments| match (arguments.forge, arguments.outputs, arguments.infer) {
        (Some(count), ..) => run_forge(&arguments, count),
        (None, Some(count), _) => run_outputs(&arguments, count),
        (None, None, Some(count)) => run_infer(&arguments, count),
        (None, None, None) => run_files(&arguments),
    };
    match arguments().and_then(run) {
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
    /// How many conversations try to forge control tokens.
    forge: Option<usize>,
    /// How many replies to parse.
    outputs: Option<usize>,
    /// How many templates to change.
    infer: Option<usize>,
    seed: u64,
    only: Option<String>,
    pins: Option<PathBuf>,
    threads: Option<usize>,
}

fn arguments() -> Result<Arguments, String> {
    let mut read = Arguments::default();
    let mut seen = BTreeSet::new();
    let mut given = env::args().skip(1);
    while let Some(argument) = given.next() {
        if argument.starts_with("--") && !seen.insert(argument.clone()) {
            return Err(format!("`{argument}` is given twice"));
        }
        let mut value = || given.next().ok_or_else(|| format!("`{argument}` needs a value"));
        let no_number = || format!("`{argument}` needs a number");
        match argument.as_str() {
            "--tokenizers" => read.folders.tokenizers = Some(value()?.into()),
            "--templates" => read.folders.templates = Some(value()?.into()),
            "--pins" => read.pins = Some(value()?.into()),
            "--facts" => read.folders.facts = Some(value()?.into()),
            "--failures" => read.failures = Some(value()?.parse().map_err(|_| no_number())?),
            "--forge" => read.forge = Some(value()?.parse().map_err(|_| no_number())?),
            "--outputs" => read.outputs = Some(value()?.parse().map_err(|_| no_number())?),
            "--infer" => read.infer = Some(value()?.parse().map_err(|_| no_number())?),
            "--seed" => read.seed = value()?.parse().map_err(|_| no_number())?,
            "--threads" => read.threads = Some(value()?.parse().map_err(|_| no_number())?),
            "--only" => read.only = Some(value()?),
            "-h" | "--help" => return Err("runs golden files".into()),
            option if option.starts_with("--") => return Err(format!("unknown option `{option}`")),
            file => read.files.push(file.into()),
        }
    }
    let asked = [!read.files.is_empty(), read.forge.is_some(), read.outputs.is_some(), read.infer.is_some()];
    if asked.into_iter().filter(|asked| *asked).count() != 1 {
        return Err("expected files, `--forge`, `--outputs` or `--infer`".into());
    }
    // Refuse options that this form does not use: silently ignoring one would suggest that it had
    // an effect.
    let (files, forge) = (!read.files.is_empty(), read.forge.is_some());
    let of_others = [
        ("--seed", seen.contains("--seed") && files),
        ("--pins", read.pins.is_some() && !files),
        ("--facts", read.folders.facts.is_some() && !files),
        ("--tokenizers", read.folders.tokenizers.is_some() && !files && !forge),
    ];
    match of_others.into_iter().find(|(_, is_odd)| *is_odd) {
        Some((option, _)) => Err(format!("`{option}` does not apply to this form of the command")),
        None => Ok(read),
    }
}

fn run_files(arguments: &Arguments) -> Result<bool, String> {
    let mut folders = arguments.folders.clone();
    folders.facts = folders.facts.or_else(|| Some(arguments.files.first()?.parent()?.join("../facts")));
    let pins = arguments.pins.as_deref().map(read_pins).transpose()?;
    if pins.is_some() && arguments.only.is_some() {
        return Err("`--pins` counts all rows, so it cannot be combined with `--only`".into());
    }
    let mut files = Vec::new();
    for file in &arguments.files {
        let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        files.push((name, text));
    }
    let mut report = golden::run(&files, &folders, arguments.only.as_deref(), threads(arguments));
    if let Some(pins) = &pins {
        report.hold_against(pins);
    }
    print!("{}", report.print(arguments.failures.unwrap_or(5)));
    Ok(report.totals().1 == 0)
}

fn read_pins(path: &Path) -> Result<Pins, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Pins::read(&text).map_err(|error| format!("{}: {error}", path.display()))
}

fn run_forge(arguments: &Arguments, count: usize) -> Result<bool, String> {
    let began = Instant::now();
    let folders = &arguments.folders;
    let mut plan = forge::Plan::with_folders(folders.templates.as_deref(), folders.tokenizers.as_deref())?;
    if let Some(only) = &arguments.only {
        plan.keep(only);
    }
    if plan.subjects.is_empty() {
        return Err("`--only` matches no label; labels have the form `NAME × TOKENIZER`".into());
    }
    say_left_out(&plan.left_out);
    eprintln!(
        "{} pairs of a format or template and a tokenizer, loaded in {:.1?}",
        plan.subjects.len(),
        began.elapsed()
    );
    let threads = threads(arguments);
    let step = (count / 20).max(1_000);
    let progress = |done: usize| {
        // A batch is smaller than a step, so print only when a step is crossed.
        if done / step != done.saturating_sub(forge::BATCH) / step {
            eprintln!("{done} of {count} conversations in {:.0?}", began.elapsed());
        }
    };
    let summary = forge::run(&plan.subjects, count, arguments.seed, threads, &progress);
    for failure in summary.failures.iter().take(arguments.failures.unwrap_or(5)) {
        println!("FAILED {}\n  {}", failure.subject, forge::explain(&plan.subjects, failure));
        println!("  reproduce with: conform --forge 1 --seed {} --only '{}'\n", failure.seed, failure.subject);
    }
    print!("{summary}");
    eprintln!("{:.1?} on {threads} threads, seed {}", began.elapsed(), arguments.seed);
    Ok(summary.is_clean())
}

fn run_outputs(arguments: &Arguments, count: usize) -> Result<bool, String> {
    let began = Instant::now();
    let mut subjects = outputs::built_in();
    if let Some(folder) = &arguments.folders.templates {
        let templates = FolderTemplates::read(folder)?;
        say_left_out(&templates.left_out);
        subjects.extend(outputs::inferred(&templates));
    }
    if let Some(only) = &arguments.only {
        subjects.retain(|subject| subject.label.contains(only.as_str()));
    }
    if subjects.is_empty() {
        return Err("`--only` matches no label".into());
    }
    eprintln!("{} formats and inferred layouts, prepared in {:.1?}", subjects.len(), began.elapsed());
    let began = Instant::now();
    let threads = threads(arguments);
    let summary = outputs::run(&subjects, count, arguments.seed, threads, outputs::USUAL);
    for failure in summary.failures.iter().take(arguments.failures.unwrap_or(5)) {
        println!("{failure}\n");
    }
    print!("{summary}");
    eprintln!("{:.1?} on {threads} threads, seed {}", began.elapsed(), arguments.seed);
    Ok(summary.is_clean())
}

fn run_infer(arguments: &Arguments, count: usize) -> Result<bool, String> {
    let began = Instant::now();
    let mut origins = mutate::of_cases();
    if let Some(folder) = &arguments.folders.templates {
        let templates = FolderTemplates::read(folder)?;
        say_left_out(&templates.left_out);
        origins.extend(mutate::of_folder(&templates));
    }
    if let Some(only) = &arguments.only {
        origins.retain(|origin| origin.label().contains(only.as_str()));
    }
    if origins.is_empty() {
        return Err("`--only` matches no label".into());
    }
    eprintln!("{} templates are changed", origins.len());
    let threads = threads(arguments);
    let summary = mutate::run(&origins, count, arguments.seed, threads);
    for failure in summary.failures.iter().take(arguments.failures.unwrap_or(5)) {
        println!("{failure}\n");
    }
    print!("{summary}");
    eprintln!("{:.1?} on {threads} threads, seed {}", began.elapsed(), arguments.seed);
    Ok(summary.is_clean())
}

fn say_left_out(templates: &[String]) {
    for template in templates {
        eprintln!("left out: {template}");
    }
}

fn threads(arguments: &Arguments) -> usize {
    arguments.threads.or_else(|| thread::available_parallelism().ok().map(usize::from)).unwrap_or(1)
}
