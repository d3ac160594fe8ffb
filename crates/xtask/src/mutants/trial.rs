use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::workspace::{Test, Workspace};

/// The result of a mutation.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// This test failed.
    Killed(String),
    /// This test did not end.
    TimedOut(String),
    /// No test failed, but the command for survivors did.
    ByCommand,
    /// Every test passed.
    Survived,
    /// No test reaches the site.
    Unreached,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Killed(by) => write!(f, "killed by {by}"),
            Verdict::TimedOut(by) => write!(f, "hangs in {by}"),
            Verdict::ByCommand => f.write_str("caught by the command alone"),
            Verdict::Survived => f.write_str("SURVIVED"),
            Verdict::Unreached => f.write_str("SURVIVED, no test runs this place"),
        }
    }
}

impl Verdict {
    pub fn read(text: &str) -> Result<Verdict, String> {
        Ok(match text {
            "SURVIVED" => Verdict::Survived,
            "SURVIVED, no test runs this place" => Verdict::Unreached,
            "caught by the command alone" => Verdict::ByCommand,
            _ => match (text.strip_prefix("killed by "), text.strip_prefix("hangs in ")) {
                (Some(by), _) => Verdict::Killed(by.to_owned()),
                (_, Some(by)) => Verdict::TimedOut(by.to_owned()),
                _ => return Err(format!("expected a verdict, found {text:?}")),
            },
        })
    }
}

impl Test {
    fn told(&self) -> String {
        let name = self.binary.file_name().unwrap_or_default().to_string_lossy();
        format!("{} {}", name.rsplit_once('-').map_or(&*name, |(name, _)| name), self.name)
    }

    pub fn write_all(tests: &[Test], folder: &Path) -> Result<(), String> {
        let line = |test: &Test| {
            let reached: Vec<String> = test.reached.iter().map(u32::to_string).collect();
            let took = test.took.as_millis();
            format!("{}\t{}\t{took}\t{}\n", test.binary.display(), test.name, reached.join(","))
        };
        let path = folder.join("tests");
        fs::write(&path, tests.iter().map(line).collect::<String>())
            .map_err(|error| format!("{}: {error}", path.display()))
    }

    pub fn read_all(folder: &Path) -> Result<Vec<Test>, String> {
        let path = folder.join("tests");
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        text.lines()
            .map(|line| {
                let fields: Vec<&str> = line.split('\t').collect();
                let [binary, name, took, reached] = fields[..] else { return Err(format!("not a test: {line:?}")) };
                Ok(Test {
                    binary: binary.into(),
                    name: name.to_owned(),
                    took: Duration::from_millis(super::number(took)?),
                    reached: reached.split(',').filter_map(|id| id.parse().ok()).collect(),
                })
            })
            .collect()
    }

    fn command(&self, tree: &Path) -> Command {
        // No test needs more memory than this, but a mutation may request all there is.
        let script = "ulimit -v 8000000; exec nice -n 10 \"$0\" \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(&self.binary).args(["--exact", &self.name, "--test-threads=1"]);
        command.current_dir(self.folder(tree)).env_remove("UPDATE").env("CARGO_MANIFEST_DIR", self.folder(tree));
        command
    }

    /// Returns the working directory. Tests find their files by absolute paths, so any folder of
    /// the copy works.
    fn folder(&self, tree: &Path) -> PathBuf {
        tree.join("crates/testkit")
    }
}

/// Runs every test alone without a mutation. Failing tests are named and left out; the others are
/// returned, quickest first.
pub fn trace(folder: &Path, tree: &Path, binaries: &[PathBuf], jobs: usize) -> Result<Vec<Test>, String> {
    let mut names = Vec::new();
    for binary in binaries {
        let output = Command::new(binary)
            .args(["--list", "--format", "terse"])
            .current_dir(tree)
            .output()
            .map_err(|error| format!("{}: {error}", binary.display()))?;
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            if let Some(name) = line.strip_suffix(": test") {
                names.push((binary.clone(), name.to_owned()));
            }
        }
    }
    eprintln!("running {} tests, each alone", names.len());
    let (next, done) = (AtomicUsize::new(0), Mutex::new((Vec::new(), Vec::new())));
    thread::scope(|scope| {
        for job in 0..jobs.max(1) {
            let (next, done, names) = (&next, &done, &names);
            scope.spawn(move || {
                let record = folder.join(format!("trace-{job}"));
                while let Some((binary, name)) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let _ = fs::remove_file(&record);
                    let mut test = Test {
                        binary: binary.clone(),
                        name: name.clone(),
                        took: Duration::ZERO,
                        reached: BTreeSet::new(),
                    };
                    let mut run = || {
                        let start = Instant::now();
                        let mut command = test.command(tree);
                        command.env("ROLECALL_MUTANT_TRACE", &record);
                        let ended = run_for(command, Duration::from_secs(900));
                        test.took = start.elapsed();
                        ended
                    };
                    let ended = match run() {
                        TrialEnd::Passed => TrialEnd::Passed,
                        _ => run(),
                    };
                    let text = fs::read_to_string(&record).unwrap_or_default();
                    test.reached = text.lines().filter_map(|id| id.parse().ok()).collect();
                    let Ok(mut done) = done.lock() else { return };
                    match ended {
                        TrialEnd::Passed => done.0.push(test),
                        _ => done.1.push(test.told()),
                    }
                }
            });
        }
    });
    let (mut tests, failed) = done.into_inner().map_err(|_| "a thread panicked".to_owned())?;
    tests.sort_by_key(|test| test.took);
    let all: Duration = tests.iter().map(|test| test.took).sum();
    eprintln!("{} tests pass in {} s", tests.len(), all.as_secs());
    for name in &failed {
        eprintln!("left out because it fails in the copy: {name}");
    }
    Ok(tests)
}

impl Workspace {
    /// Runs the tests that reach a mutation's site until one fails. A test that cannot be run is an
    /// error, because it proves nothing.
    pub fn try_one(&self, id: u32, then: Option<&str>) -> Result<Verdict, String> {
        let mut is_reached = false;
        for test in self.tests.iter().filter(|test| test.reached.contains(&id)) {
            is_reached = true;
            let run = || {
                let mut command = test.command(&self.tree);
                command.env("ROLECALL_MUTANT", id.to_string());
                run_for(command, Duration::from_secs(20) + 8 * test.took)
            };
            match run() {
                TrialEnd::Passed => {}
                TrialEnd::TooLong => return Ok(Verdict::TimedOut(test.told())),
                // A test with a time or memory limit may fail on a busy machine: a failure that
                // does not repeat proves nothing.
                TrialEnd::Failed if matches!(run(), TrialEnd::Passed) => {}
                TrialEnd::Failed => return Ok(Verdict::Killed(test.told())),
                TrialEnd::NotRun(why) => return Err(format!("{}: {why}", test.told())),
            }
        }
        if let Some(then) = then {
            let mut command = Command::new("sh");
            command.args(["-c", &format!("ulimit -v 8000000; {then}")]);
            command.current_dir(&self.tree).env("ROLECALL_MUTANT", id.to_string());
            match run_for(command, Duration::from_secs(3600)) {
                TrialEnd::Passed => {}
                TrialEnd::Failed | TrialEnd::TooLong => return Ok(Verdict::ByCommand),
                TrialEnd::NotRun(why) => return Err(format!("`{then}`: {why}")),
            }
        }
        Ok(if is_reached { Verdict::Survived } else { Verdict::Unreached })
    }
}

enum TrialEnd {
    Passed,
    Failed,
    TooLong,
    /// The command could not be run, for this reason.
    NotRun(String),
}

/// The exit codes of a shell for a command that cannot be run, and for one that does not exist.
const NOT_RUN: [i32; 2] = [126, 127];

/// Runs a command in its own process group and kills the whole group when the time is over.
fn run_for(mut command: Command, most: Duration) -> TrialEnd {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return TrialEnd::NotRun(error.to_string()),
    };
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return TrialEnd::Passed,
            Ok(Some(status)) if status.code().is_some_and(|code| NOT_RUN.contains(&code)) => {
                return TrialEnd::NotRun(format!("cannot be run ({status})"));
            }
            Ok(Some(_)) => return TrialEnd::Failed,
            Err(error) => return TrialEnd::NotRun(error.to_string()),
            Ok(None) if start.elapsed() > most => {
                let group = format!("-{}", child.id());
                let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
                let _ = child.kill();
                let _ = child.wait();
                return TrialEnd::TooLong;
            }
            Ok(None) => {
                thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(50));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(script: &str, most: Duration) -> TrialEnd {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run_for(command, most)
    }

    #[test]
    fn what_cannot_be_run_has_caught_nothing() {
        let most = Duration::from_secs(60);
        assert!(matches!(ended("true", most), TrialEnd::Passed));
        assert!(matches!(ended("exit 101", most), TrialEnd::Failed));
        assert!(matches!(ended("kill -SEGV $$", most), TrialEnd::Failed));
        assert!(matches!(ended("sleep 100", Duration::from_millis(20)), TrialEnd::TooLong));
        assert!(matches!(ended("exec /no/such/test", most), TrialEnd::NotRun(_)));
        assert!(matches!(run_for(Command::new("/no/such/test"), most), TrialEnd::NotRun(_)));
    }
}
