use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::thread;

const HELP: &str = "\
Runs each libFuzzer target for a while, with the stable compiler.

    cargo xtask fuzz [OPTION ..]

    --seconds N    how long each target runs                           [60]
    --target NAME  run only this target; NAME is CRATE/TARGET
    --crate NAME   run only the targets of this crate
    --except NAME  leave out the targets of this crate
    --seed N       the seed of libFuzzer's random numbers             [20261122]
    --jobs N       how many targets run at once             [one for each core]

A target is a binary in crates/CRATE/fuzz. It is built with coverage counters, debug assertions and
overflow checks. The corpus is in target/fuzz/corpus and grows from run to run. An input that fails is
written to target/fuzz/failures, and its path is printed. Building libFuzzer needs a C++ compiler. The
exit code is 0 if no target finds anything.
";

/// The flags that report covered code to libFuzzer. `cargo fuzz` passes the same ones; only its
/// sanitizers need a nightly compiler.
const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 -Cdebug-assertions -Coverflow-checks";

/// Runs each fuzz target for some time.
pub fn run(arguments: &[String]) -> Result<ExitCode, String> {
    let (mut seconds, mut seed, mut only) = ("60".to_owned(), "20261122".to_owned(), None);
    let (mut of, mut except) = (None, None);
    let mut jobs = thread::available_parallelism().map_or(1, usize::from);
    let mut arguments = arguments.iter();
    while let Some(name) = arguments.next() {
        let mut value = || arguments.next().cloned().ok_or_else(|| format!("{name} needs a value"));
        match name.as_str() {
            "--help" | "-h" => {
                print!("{HELP}");
                return Ok(ExitCode::SUCCESS);
            }
            "--seconds" => seconds = value()?,
            "--seed" => seed = value()?,
            "--target" => only = Some(value()?),
            "--crate" => of = Some(value()?),
            "--except" => except = Some(value()?),
            "--jobs" => jobs = value()?.parse().map_err(|error| format!("--jobs: {error}"))?,
            other => return Err(format!("unknown option {other}; --help lists the options")),
        }
    }
    let all = targets(&crate::root())?;
    let is_chosen = |target: &&Target| {
        only.as_ref().is_none_or(|only| *only == target.name())
            && of.as_ref().is_none_or(|of| *of == target.of)
            && except.as_ref() != Some(&target.of)
    };
    let chosen: Vec<&Target> = all.iter().filter(is_chosen).collect();
    if chosen.is_empty() {
        let names: Vec<String> = all.iter().map(Target::name).collect();
        return Err(format!("unknown target; the targets are {}", names.join(", ")));
    }
    let host = host()?;
    for target in &chosen {
        target.build(&host)?;
    }
    let failed = run_all(&chosen, jobs.max(1), |target| target.run(&host, &seconds, &seed))?;
    match failed.is_empty() {
        true => println!("\n{} fuzz targets ran {seconds} s each and found nothing", chosen.len()),
        false => println!("\nfuzz targets that FAILED: {}", failed.join(", ")),
    }
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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
}

/// Returns all targets listed in the manifests of the `fuzz` folders.
fn targets(root: &Path) -> Result<Vec<Target>, String> {
    let mut targets = Vec::new();
    let entries = fs::read_dir(root.join("crates")).map_err(|error| format!("crates: {error}"))?;
    for folder in entries.filter_map(Result::ok).map(|entry| entry.path()) {
        let Ok(manifest) = fs::read_to_string(folder.join("fuzz/Cargo.toml")) else { continue };
        for binary in manifest.split("[[bin]]").skip(1) {
            let name = binary.lines().find_map(|line| line.strip_prefix("name = \"")).unwrap_or_default();
            let of = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            targets.push(Target { of, binary: name.trim_end_matches('"').to_owned(), folder: folder.join("fuzz") });
        }
    }
    targets.sort_by_key(Target::name);
    Ok(targets)
}

impl Target {
    fn name(&self) -> String {
        format!("{}/{}", self.of, self.binary)
    }

    fn build(&self, host: &str) -> Result<(), String> {
        println!("{}: building", self.name());
        let status = crate::cargo()
            .args(["build", "--release", "--locked", "--quiet", "--bin", &self.binary])
            // With `--target`, the flags apply to the target and not to build scripts.
            .args(["--target", host, "--manifest-path"])
            .arg(self.folder.join("Cargo.toml"))
            .env("CARGO_TARGET_DIR", crate::root().join("target/fuzz/build"))
            .env("RUSTFLAGS", COVERAGE)
            .status()
            .map_err(|error| format!("cannot start cargo: {error}"))?;
        if status.success() { Ok(()) } else { Err(format!("{} does not build", self.name())) }
    }

    /// Runs the target and reports whether it found nothing.
    fn run(&self, host: &str, seconds: &str, seed: &str) -> Result<bool, String> {
        let kept = crate::root().join("target/fuzz");
        let (corpus, failures) = (kept.join("corpus").join(self.name()), kept.join("failures").join(self.name()));
        for folder in [&corpus, &failures] {
            fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        let mut command = Command::new(kept.join("build").join(host).join("release").join(&self.binary));
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
