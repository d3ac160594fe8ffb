//! Measurements that need a process of their own: for its memory, for its number of threads, or
//! because they may not end.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use crate::model::{Model, Ranks};
use crate::peers::Library;
use crate::{hostile, long, memory};

/// The settings that keep the libraries on one thread.
const ONE_THREAD: [(&str, &str); 3] =
    [("FASTOKENS_BPE_THREADS", "1"), ("RAYON_NUM_THREADS", "1"), ("TOKENIZERS_PARALLELISM", "false")];
/// The first argument of a child process.
const CHILD: &str = "child";

/// The number of threads of a child process.
#[derive(Clone, Copy)]
pub enum Threads {
    One,
    All,
}

/// A measurement of one library with one tokenizer.
pub struct Task {
    measure: String,
    pub library: Library,
    pub model: Model,
    /// What the measurement needs to know besides.
    pub detail: String,
}

impl Task {
    /// Reads the arguments of a child process. Returns `None` if this is not a child process.
    pub fn read(arguments: &[String]) -> Option<Task> {
        let [child, measure, library, detail, name, file, ranks @ ..] = arguments else { return None };
        if child != CHILD {
            return None;
        }
        let ranks = match ranks {
            [file, pattern, first, nfc] => Some(Ranks {
                file: PathBuf::from(file),
                pattern: pattern.clone(),
                first: first.parse().ok()?,
                nfc: nfc == "true",
            }),
            _ => None,
        };
        let model = Model { name: name.clone(), file: PathBuf::from(file), ranks };
        Some(Task { measure: measure.clone(), library: Library::named(library)?, model, detail: detail.clone() })
    }

    pub fn run(self) -> Result<(), String> {
        match &*self.measure {
            memory::NAME => memory::run(&self),
            long::NAME => long::run(&self),
            hostile::NAME => hostile::run(&self),
            other => Err(format!("unknown measurement {other}")),
        }
    }
}

/// Runs a measurement in a child process, and returns the numbers that it printed. A measurement that
/// takes too long is stopped; the numbers that it printed before remain.
pub fn run(
    measure: &str,
    library: Library,
    model: &Model,
    detail: &str,
    threads: Threads,
    limit: Duration,
) -> Vec<f64> {
    let Ok(program) = std::env::current_exe() else { return Vec::new() };
    let mut command = match threads {
        // rolecall uses the processors that it may use.
        Threads::One => {
            let mut command = Command::new("taskset");
            command.args(["-c", "0"]).arg(program);
            command
        }
        Threads::All => Command::new(program),
    };
    command.args([CHILD, measure, library.name(), detail, &model.name]).arg(&model.file);
    if let Some(ranks) = &model.ranks {
        command.arg(&ranks.file).args([&ranks.pattern, &ranks.first.to_string(), &ranks.nfc.to_string()]);
    }
    if let Threads::All = threads {
        for (name, _) in ONE_THREAD {
            command.env_remove(name);
        }
    }
    let Ok(mut child) = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn() else { return Vec::new() };
    let start = Instant::now();
    while matches!(child.try_wait(), Ok(None)) {
        if start.elapsed() > limit {
            let _ = child.kill();
            let _ = child.wait();
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut output = String::new();
    if let Some(mut pipe) = child.stdout.take() {
        let _ = pipe.read_to_string(&mut output);
    }
    output.split_whitespace().filter_map(|number| number.parse().ok()).collect()
}

/// Reports whether the settings for one thread hold in this process.
pub fn is_single_threaded() -> bool {
    ONE_THREAD.iter().all(|(name, value)| std::env::var(name).is_ok_and(|found| found == *value))
}

/// Runs this program again, with the settings for one thread.
pub fn run_single_threaded(arguments: &[String]) -> ExitCode {
    let program = std::env::current_exe();
    let status = program.and_then(|program| Command::new(program).args(arguments).envs(ONE_THREAD).status());
    match status {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
