//! Plants small bugs and looks for a test that fails.
//!
//! Compiling once per bug would take days. Instead, a copy of the workspace contains all bugs at
//! once, each with a switch in the environment, and is compiled once. Every test then runs alone
//! without a bug and records which switches it reads. A bug is tried with the tests that read its
//! switch, quickest first, until one fails.

mod build;
mod instrument;
mod plan;
mod site;
mod trial;
mod workspace;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, thread};

use trial::Verdict;

const HELP: &str = "\
Plants bugs in a copy of the workspace and checks that a test catches each.

    cargo xtask mutants [OPTION ..]

    --seed N        picks the bugs; the same seed and source give the same bugs  [20261122]
    --count N       the number of bugs, spread over the crates by their lines    [300]
    --crates A,B    the crates that get bugs  [render,tokenizer,encode,parse,infer,format,jinja,rolecall,gateway]
    --jobs N        the number of bugs tried at a time                           [2]
    --only A,B      tries only the bugs with these numbers, even if already tried
    --limit N       stops after this many bugs; a later run continues
    --survivors     retries the bugs that survived (with --keep-plan after adding a test)
    --keep-plan     keeps the bugs of the last run if the source of the crates is unchanged, and recompiles the tests
    --then COMMAND  runs this in the copy for each survivor; if it fails, the bug counts as caught by the command alone
    --list          prints the bugs of the last run and their results

Everything is stored in target/mutants/SEED-COUNT: the copy (tree), the bugs (plan), the results (results). An
interrupted run continues where it stopped, if the source is unchanged; remove the folder to start over. The copy
cannot reach ../shared: only the contents of this repository can catch a bug. Documentation tests are not run. The
bugs are tried in the order of their numbers, which is random, so that a part of a run is a fair sample. The
environment variable CARGO selects another cargo. The exit code is 0 if every bug was tried and caught, 1 if one
survived or was not tried, and 2 if a test could not be run.
";

/// The caller's options.
#[derive(Clone, Debug)]
pub struct Options {
    seed: u64,
    count: usize,
    crates: Vec<String>,
    jobs: usize,
    only: Vec<u32>,
    limit: usize,
    retry_survivors: bool,
    keep_plan: bool,
    then: Option<String>,
    list: bool,
}

impl Options {
    fn read(arguments: &[String]) -> Result<Options, String> {
        let mut options = Options {
            seed: 20_261_122,
            count: 300,
            crates: ["render", "tokenizer", "encode", "parse", "infer", "format", "jinja", "rolecall", "gateway"]
                .map(str::to_owned)
                .into(),
            jobs: 2,
            only: Vec::new(),
            limit: usize::MAX,
            retry_survivors: false,
            keep_plan: false,
            then: None,
            list: false,
        };
        let mut arguments = arguments.iter();
        while let Some(name) = arguments.next() {
            let mut value = || arguments.next().cloned().ok_or_else(|| format!("{name} needs a value"));
            match name.as_str() {
                "--seed" => options.seed = number(&value()?)?,
                "--count" => options.count = number(&value()?)?,
                "--crates" => options.crates = value()?.split(',').map(str::to_owned).collect(),
                "--jobs" => options.jobs = number(&value()?)?,
                "--only" => options.only = value()?.split(',').map(number).collect::<Result<_, _>>()?,
                "--limit" => options.limit = number(&value()?)?,
                "--survivors" => options.retry_survivors = true,
                "--keep-plan" => options.keep_plan = true,
                "--then" => options.then = Some(value()?),
                "--list" => options.list = true,
                other => return Err(format!("unknown option {other}; --help lists the options")),
            }
        }
        Ok(options)
    }

    /// Returns the folder for everything of this run.
    fn folder(&self) -> PathBuf {
        crate::root().join(format!("target/mutants/{}-{}", self.seed, self.count))
    }
}

fn number<N: std::str::FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| format!("expected a number, found {text:?}"))
}

pub fn run(arguments: &[String]) -> Result<ExitCode, String> {
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        print!("{HELP}");
        return Ok(ExitCode::SUCCESS);
    }
    let options = Options::read(arguments)?;
    let folder = options.folder();
    if options.list {
        return report(&plan::MutationPlan::read(&folder)?, &Verdicts::read(&folder)?);
    }
    let workspace = build::prepare(&options)?;
    let verdicts = try_all(&options, &workspace)?;
    report(&workspace.plan, &verdicts)
}

/// Tries every mutation without a verdict.
fn try_all(options: &Options, workspace: &workspace::Workspace) -> Result<Verdicts, String> {
    let folder = options.folder();
    let known = Verdicts::read(&folder)?;
    let is_open = |id: &u32| match known.0.get(id) {
        _ if !options.only.is_empty() => options.only.contains(id),
        Some(verdict) => options.retry_survivors && matches!(verdict, Verdict::Survived | Verdict::Unreached),
        None => true,
    };
    let open: Vec<u32> = (0..workspace.plan.sites.len() as u32).filter(is_open).take(options.limit).collect();
    let (next, shared) = (AtomicUsize::new(0), Mutex::new((known, None)));
    thread::scope(|scope| {
        for _ in 0..options.jobs.max(1) {
            scope.spawn(|| {
                while let Some(id) = open.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let verdict = workspace.try_one(*id, options.then.as_deref());
                    let Ok(mut shared) = shared.lock() else { return };
                    let verdict = match verdict {
                        Ok(verdict) => verdict,
                        Err(error) => {
                            shared.1 = Some(error);
                            return;
                        }
                    };
                    let (site, source) = workspace.plan.site(*id);
                    eprintln!("{id:>3} {verdict}: {}:{} {}", site.file, site.line, site.told(source));
                    shared.0.0.insert(*id, verdict);
                    if let Err(error) = shared.0.write(&folder) {
                        shared.1 = Some(error);
                        return;
                    }
                }
            });
        }
    });
    let (verdicts, error) = shared.into_inner().map_err(|_| "a thread panicked".to_owned())?;
    error.map_or(Ok(verdicts), Err)
}

/// Prints the survivors and the score.
fn report(plan: &plan::MutationPlan, verdicts: &Verdicts) -> Result<ExitCode, String> {
    let mut caught: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut by_command = 0;
    for (id, verdict) in &verdicts.0 {
        let (site, source) = plan.site(*id);
        let name = site.file.split('/').nth(1).unwrap_or_default();
        let (of_crate, all) = caught.entry(name).or_default();
        *all += 1;
        match verdict {
            Verdict::Killed(_) | Verdict::TimedOut(_) => *of_crate += 1,
            Verdict::ByCommand => {
                by_command += 1;
                println!(
                    "{id:>3} caught by the command alone: {}:{}:{} {}",
                    site.file,
                    site.line,
                    site.column,
                    site.told(source)
                );
            }
            Verdict::Survived | Verdict::Unreached => {
                println!("{id:>3} {verdict}: {}:{}:{} {}", site.file, site.line, site.column, site.told(source));
            }
        }
    }
    let total: usize = caught.values().map(|(caught, _)| caught).sum();
    for (name, (caught, all)) in &caught {
        println!("{name}: {caught} of {all}");
    }
    let rest = verdicts.0.len() - total - by_command;
    println!(
        "{total} of {} bugs caught by the repository's own tests, {by_command} by the command alone, {rest} survived{}",
        verdicts.0.len(),
        match plan.sites.len() - verdicts.0.len() {
            0 => String::new(),
            open => format!(", {open} not tried"),
        }
    );
    let is_whole = verdicts.0.len() == plan.sites.len();
    Ok(if is_whole && rest + by_command == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The verdict on each mutation.
struct Verdicts(BTreeMap<u32, Verdict>);

impl Verdicts {
    fn read(folder: &std::path::Path) -> Result<Verdicts, String> {
        let Ok(text) = fs::read_to_string(folder.join("results")) else { return Ok(Verdicts(BTreeMap::new())) };
        let mut verdicts = BTreeMap::new();
        for line in text.lines() {
            let (id, verdict) = line.split_once('\t').ok_or_else(|| format!("expected a tab in {line:?}"))?;
            verdicts.insert(number(id)?, Verdict::read(verdict)?);
        }
        Ok(Verdicts(verdicts))
    }

    fn write(&self, folder: &std::path::Path) -> Result<(), String> {
        let lines: String = self.0.iter().map(|(id, verdict)| format!("{id}\t{verdict}\n")).collect();
        let path = folder.join("results");
        fs::write(&path, lines).map_err(|error| format!("{}: {error}", path.display()))
    }
}
