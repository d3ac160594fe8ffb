//! Compares the running times of closures in one process: warm-up, interleaved rounds so that a
//! drifting machine affects all alike, and the median of each.
//!
//! Start reading at [`race`].

mod python;

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub use python::Python;

/// A contestant: a name, and a function that runs its work a given number of times and returns the
/// total time of the timed part.
pub struct Runner<'a> {
    /// The name of the contestant.
    pub name: &'static str,
    run: Box<dyn FnMut(usize) -> Duration + 'a>,
    is_elsewhere: bool,
}

impl<'a> Runner<'a> {
    /// Creates a contestant whose whole work is timed.
    pub fn new<T: 'a>(name: &'static str, mut work: impl FnMut() -> T + 'a) -> Runner<'a> {
        Runner::with_input(name, || (), move |()| work())
    }

    /// Creates a contestant that runs elsewhere and measures its own time.
    pub fn elsewhere(name: &'static str, run: impl FnMut(usize) -> Duration + 'a) -> Runner<'a> {
        Runner { name, run: Box::new(run), is_elsewhere: true }
    }

    /// Creates a contestant whose input is made, and whose result is dropped, outside the timed
    /// part.
    pub fn with_input<I, T: 'a>(
        name: &'static str,
        mut prepare: impl FnMut() -> I + 'a,
        mut work: impl FnMut(I) -> T + 'a,
    ) -> Runner<'a> {
        // Keep the last results until the next ones exist. Otherwise the allocator would return
        // their memory to the system and request it again, within the timed part.
        let mut kept = Vec::new();
        let run = move |times: usize| {
            let inputs: Vec<I> = (0..times).map(|_| prepare()).collect();
            let mut results = Vec::with_capacity(times);
            let start = Instant::now();
            for input in inputs {
                results.push(black_box(work(black_box(input))));
            }
            let taken = start.elapsed();
            drop(std::mem::replace(&mut kept, results));
            taken
        };
        Runner { name, run: Box::new(run), is_elsewhere: false }
    }
}

/// Returns the folder with templates and tokenizers: the first argument, or the one beside the
/// repository.
pub fn folder() -> PathBuf {
    let beside = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared"));
    std::env::args().skip(1).find(|arg| !arg.starts_with("--")).map_or_else(beside, PathBuf::from)
}

/// Returns the tokenizer with which conversations are encoded. If it is missing, this is said.
pub fn tokenizer_in(folder: &Path) -> Option<PathBuf> {
    let tokenizer = folder.join("tokenizers/qwen3");
    let is_there = tokenizer.join("tokenizer.json").is_file();
    if !is_there {
        println!("no tokenizer.json in {}: nothing to measure", tokenizer.display());
    }
    is_there.then_some(tokenizer)
}

/// The total time of the runs between two clock readings: long compared with reading the clock, and
/// short enough that inputs and results stay in the cache.
const BATCH: Duration = Duration::from_micros(200);
const ROUNDS: usize = 301;

/// Returns the median time of each runner, with interleaved rounds.
pub fn race(mut runners: Vec<Runner<'_>>) -> Vec<(&'static str, Duration)> {
    let batches: Vec<usize> = runners
        .iter_mut()
        .map(|runner| {
            let once = (0..20).map(|_| (runner.run)(1)).min().unwrap_or_default().max(Duration::from_nanos(20));
            (BATCH.as_nanos() / once.as_nanos()).clamp(1, 500) as usize
        })
        .collect();
    let has_elsewhere = runners.iter().any(|runner| runner.is_elsewhere);
    let mut times = vec![Vec::with_capacity(ROUNDS); runners.len()];
    for _ in 0..ROUNDS {
        for ((runner, batch), times) in runners.iter_mut().zip(&batches).zip(&mut times) {
            // A contestant in another process pushes the code and data of the others out of the
            // caches. One run that is not counted brings them back.
            if has_elsewhere && !runner.is_elsewhere {
                (runner.run)(1);
            }
            times.push((runner.run)(*batch).as_nanos() as f64 / *batch as f64);
        }
    }
    let medians = runners.iter().zip(&mut times).map(|(runner, times)| {
        times.sort_by(f64::total_cmp);
        (runner.name, Duration::from_nanos(times[times.len() / 2] as u64))
    });
    medians.collect()
}

/// Returns a request as JSON: a system message, then user and assistant in turn. `content` makes
/// the content of a message from its index; it needs no escaping.
pub fn in_turns(messages: usize, mut content: impl FnMut(usize) -> String) -> String {
    let turns: Vec<String> = (0..messages)
        .map(|turn| {
            let role = match turn {
                0 => "system",
                turn if turn % 2 == 1 => "user",
                _ => "assistant",
            };
            format!(r#"{{"role": "{role}", "content": "{}"}}"#, content(turn))
        })
        .collect();
    // An even number of messages ends with the user, so the model writes next.
    format!(r#"{{"messages": [{}], "add_generation_prompt": true}}"#, turns.join(", "))
}
