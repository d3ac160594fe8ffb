use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::thread;

const HELP: &str = "\
Runs each libFuzzer target for a while, with the stable compiler.

    cargo xtask fuzz [OPTION ..]

    --seconds N    how long each target runs                           [60]
    --shared N     how many seconds the chosen targets share, at least ten each
    --target NAME  run only this target; NAME is CRATE/TARGET
    --crate NAME   run only the targets of this crate
    --except NAME  leave out the targets of this crate
    --since COMMIT run only targets of which a crate changed since this commit; a commit that git does
                   not know leaves none out
    --quick        build in less than half the time, for targets that run slower
    --seed N       the seed of libFuzzer's random numbers             [20261122]
    --jobs N       how many targets run at once             [one for each core]

A target is a binary in crates/CRATE/fuzz. Its crates are those that its manifest names. It is built with
coverage counters, debug assertions and overflow checks. The corpus is in target/fuzz/corpus and grows
from run to run. An input that fails is written to target/fuzz/failures, and its path is printed. Building
libFuzzer needs a C++ compiler. The exit code is 0 if no target finds anything.
";

/// The flags that report covered code to libFuzzer. `cargo fuzz` passes the same ones; only its
/// sanitizers need a nightly compiler.
const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions -Coverflow-checks";

/// The least that a target runs if it shares its time, in seconds: it reads its corpus first.
const LEAST: usize = 10;

/// Runs each fuzz target for some time.
pub fn run(arguments: &[String]) -> Result<ExitCode, String> {
    let (mut seconds, mut shared, mut seed) = (60, None, "20261122".to_owned());
    let (mut only, mut of, mut except, mut since) = (None, None, None, None);
    let mut profile = "release";
    let mut jobs = thread::available_parallelism().map_or(1, usize::from);
    let mut arguments = arguments.iter();
    while let Some(name) = arguments.next() {
        let mut value = || arguments.next().cloned().ok_or_else(|| format!("{name} needs a value"));
        let number = |value: String| value.parse().map_err(|error| format!("{name}: {error}"));
        match name.as_str() {
            "--help" | "-h" => {
                print!("{HELP}");
                return Ok(ExitCode::SUCCESS);
            }
            "--quick" => profile = "quick",
            "--seconds" => seconds = number(value()?)?,
            "--shared" => shared = Some(number(value()?)?),
            "--seed" => seed = value()?,
            "--target" => only = Some(value()?),
            "--crate" => of = Some(value()?),
            "--except" => except = Some(value()?),
            "--since" => since = Some(value()?),
            "--jobs" => jobs = number(value()?)?,
            other => return Err(format!("unknown option {other}; --help lists the options")),
        }
    }
    let jobs = jobs.max(1);
    let all = targets(&crate::root())?;
    let is_chosen = |target: &&Target| {
        only.as_ref().is_none_or(|only| *only == target.name())
            && of.as_ref().is_none_or(|of| *of == target.of)
            && except.as_ref() != Some(&target.of)
    };
    let mut chosen: Vec<&Target> = all.iter().filter(is_chosen).collect();
    if chosen.is_empty() {
        let names: Vec<String> = all.iter().map(Target::name).collect();
        return Err(format!("unknown target; the targets are {}", names.join(", ")));
    }
    if let Some(changed) = since.as_deref().and_then(changed_since) {
        chosen.retain(|target| target.crates.iter().any(|folder| changed.contains(folder)));
    }
    if chosen.is_empty() {
        println!("no crate of a fuzz target has changed since {}", since.unwrap_or_default());
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(shared) = shared {
        seconds = (shared * jobs / chosen.len()).max(LEAST);
    }
    let host = host()?;
    build(&chosen, &host, profile)?;
    let built = crate::root().join("target/fuzz/build").join(host).join(profile);
    let failed = run_all(&chosen, jobs, |target| target.run(&built, seconds, &seed))?;
    match failed.is_empty() {
        true => println!("\n{} fuzz targets ran {seconds} s each and found nothing", chosen.len()),
        false => println!("\nfuzz targets that FAILED: {}", failed.join(", ")),
    }
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the folders in `crates` with changes since a commit, or nothing if git does not know it.
fn changed_since(commit: &str) -> Option<BTreeSet<String>> {
    let git =
        Command::new("git").args(["diff", "--name-only", commit, "--", "crates"]).current_dir(crate::root()).output();
    let output = git.ok().filter(|output| output.status.success())?;
    let said = String::from_utf8_lossy(&output.stdout);
    Some(said.lines().filter_map(|path| Some(path.strip_prefix("crates/")?.split('/').next()?.to_owned())).collect())
}

/// Builds targets in one call of cargo, so that what they have in common is built once.
fn build(targets: &[&Target], host: &str, profile: &str) -> Result<(), String> {
    let mut cargo = crate::cargo();
    cargo
        .args(["build", "--profile", profile, "--locked", "--quiet", "--manifest-path"])
        .arg(crate::root().join("fuzz/Cargo.toml"));
    for target in targets {
        println!("{}: building", target.name());
        cargo.args(["--bin", &target.binary]);
    }
    let status = cargo
        // With `--target`, the flags apply to the target and not to build scripts.
        .args(["--target", host])
        .env("CARGO_TARGET_DIR", crate::root().join("target/fuzz/build"))
        .env("RUSTFLAGS", COVERAGE)
        .status()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err("the fuzz targets do not build".to_owned()) }
}

/// Runs the targets, some at once, and returns the names of those that found something.
fn run_all(
    targets: &[&Target],
    jobs: usize,
    run: impl Fn(&Target) -> Result<bool, String> + Sync,
) -> Result<Vec<String>, String> {
    let (waiting, failed) = (Mutex::new(targets.iter()), Mutex::new(Vec::new()));
    let work = || -> Result<(), String> {
        loop {
            // The lock is released before the target runs.
            let next = waiting.lock().expect("nothing panics while it holds this").next();
            let Some(target) = next else { return Ok(()) };
            if !run(target)? {
                failed.lock().expect("nothing panics while it holds this").push(target.name());
            }
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker does not panic"))
    })?;
    Ok(failed.into_inner().expect("nothing panicked"))
}

/// A binary in a crate's `fuzz` folder.
struct Target {
    of: String,
    binary: String,
    folder: PathBuf,
    /// The folders of the crates that it runs.
    crates: BTreeSet<String>,
}

/// Returns all targets listed in the manifests of the `fuzz` folders.
fn targets(root: &Path) -> Result<Vec<Target>, String> {
    let mut targets = Vec::new();
    let entries = fs::read_dir(root.join("crates")).map_err(|error| format!("crates: {error}"))?;
    for folder in entries.filter_map(Result::ok).map(|entry| entry.path()) {
        let Ok(manifest) = fs::read_to_string(folder.join("fuzz/Cargo.toml")) else { continue };
        // `path = "../"` is the crate itself.
        let paths =
            manifest.split("path = \"..").skip(1).filter_map(|rest| Some(rest.split('"').next()?.trim_matches('/')));
        let own = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let crates: BTreeSet<String> =
            paths.map(|path| path.strip_prefix("../").map_or(own.clone(), str::to_owned)).collect();
        for binary in manifest.split("[[bin]]").skip(1) {
            let name = binary.lines().find_map(|line| line.strip_prefix("name = \"")).unwrap_or_default();
            targets.push(Target {
                of: own.clone(),
                binary: name.trim_end_matches('"').to_owned(),
                folder: folder.join("fuzz"),
                crates: crates.clone(),
            });
        }
    }
    targets.sort_by_key(Target::name);
    Ok(targets)
}

impl Target {
    fn name(&self) -> String {
        format!("{}/{}", self.of, self.binary)
    }

    /// Runs the target and reports whether it found nothing.
    fn run(&self, built: &Path, seconds: usize, seed: &str) -> Result<bool, String> {
        let kept = crate::root().join("target/fuzz");
        let (corpus, failures) = (kept.join("corpus").join(self.name()), kept.join("failures").join(self.name()));
        for folder in [&corpus, &failures] {
            fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        let mut command = Command::new(built.join(&self.binary));
        command.args([
            &format!("-max_total_time={seconds}"),
            &format!("-seed={seed}"),
            &format!("-artifact_prefix={}/", failures.display()),
            "-max_len=16384",
            "-timeout=20",
            "-rss_limit_mb=2048",
            "-print_final_stats=1",
            "-verbosity=0",
        ]);
        if built.ends_with("quick") {
            command.env("ROLECALL_FUZZ_QUICK", "1");
        }
        let dictionary = self.folder.join(format!("{}.dict", self.binary));
        if dictionary.exists() {
            command.arg(format!("-dict={}", dictionary.display()));
        }
        command.arg(&corpus);
        let seeds = self.folder.join("seeds").join(&self.binary);
        if seeds.is_dir() {
            command.arg(seeds);
        }
        let output = command.output().map_err(|error| format!("{}: {error}", self.name()))?;
        let said = String::from_utf8_lossy(&output.stderr);
        let _together = std::io::stdout().lock();
        println!("\n{}: ran for {seconds} s", self.name());
        // If nothing was found, omit the dictionary that libFuzzer recommends.
        for line in said.lines().filter(|line| !output.status.success() || line.starts_with("stat::")) {
            println!("{line}");
        }
        Ok(output.status.success())
    }
}

/// Returns the platform for which rustc compiles by default.
fn host() -> Result<String, String> {
    let output = Command::new("rustc").arg("-vV").output().map_err(|error| format!("cannot start rustc: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc reports no host".to_owned())
}
