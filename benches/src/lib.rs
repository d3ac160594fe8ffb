//! In: closures. Out: how long each takes beside the others, in one run.
//! Between: warm-up, rounds in turn so that a drifting machine hits all alike, the median of each.
//! Start reading at [`race`].

use std::hint::black_box;
use std::time::{Duration, Instant};

/// One contestant: a name, and its work so many times, which says how long the timed part took in all.
pub struct Runner<'a> {
    /// What is measured.
    pub name: &'static str,
    run: Box<dyn FnMut(usize) -> Duration + 'a>,
}

impl<'a> Runner<'a> {
    /// Work that is timed whole.
    pub fn new<T: 'a>(name: &'static str, mut work: impl FnMut() -> T + 'a) -> Runner<'a> {
        Runner::with_input(name, || (), move |()| work())
    }

    /// Work that is done elsewhere so many times, which says itself how long it took.
    pub fn elsewhere(name: &'static str, run: impl FnMut(usize) -> Duration + 'a) -> Runner<'a> {
        Runner { name, run: Box::new(run) }
    }

    /// Work on an input that is made outside the measured time, as is the end of its result.
    pub fn with_input<I, T: 'a>(
        name: &'static str,
        mut prepare: impl FnMut() -> I + 'a,
        mut work: impl FnMut(I) -> T + 'a,
    ) -> Runner<'a> {
        // The last results live until the next ones are there, so that the allocator does not hand their memory back to
        // the system and fetch it anew, which would be measured instead of the work.
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
        Runner { name, run: Box::new(run) }
    }
}

/// How long the runs between two looks at the clock take together: long beside the clock's own cost, short enough that
/// inputs and results stay in the cache.
const BATCH: Duration = Duration::from_micros(200);
const ROUNDS: usize = 301;

/// The median time of each runner, all run in turn.
pub fn race(mut runners: Vec<Runner<'_>>) -> Vec<(&'static str, Duration)> {
    let batches: Vec<usize> = runners
        .iter_mut()
        .map(|runner| {
            let once = (0..20).map(|_| (runner.run)(1)).min().unwrap_or_default().max(Duration::from_nanos(20));
            (BATCH.as_nanos() / once.as_nanos()).clamp(1, 500) as usize
        })
        .collect();
    let mut times = vec![Vec::with_capacity(ROUNDS); runners.len()];
    for _ in 0..ROUNDS {
        for ((runner, batch), times) in runners.iter_mut().zip(&batches).zip(&mut times) {
            times.push((runner.run)(*batch).as_nanos() as f64 / *batch as f64);
        }
    }
    let medians = runners.iter().zip(&mut times).map(|(runner, times)| {
        times.sort_by(f64::total_cmp);
        (runner.name, Duration::from_nanos(times[times.len() / 2] as u64))
    });
    medians.collect()
}
