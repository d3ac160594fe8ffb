use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::laws::{Broken, Checked, Effort, check};
use super::subject::Subject;
use super::watch::Watch;
use crate::batches::Batches;

/// The maximum number of stored failures.
const KEPT: usize = 200;

/// The results of many outputs.
#[derive(Debug, Default)]
pub struct Summary {
    /// Outputs that were parsed as the messages they were written from.
    pub read_back: usize,
    /// Outputs with hostile texts.
    pub hostile: usize,
    /// Damaged outputs.
    pub damaged: usize,
    /// Outputs that were parsed with small caps and other policies.
    pub limited: usize,
    /// Outputs that no format promises to parse.
    pub not_promised: usize,
    /// Messages that their format refused to write, by reason.
    pub not_written: BTreeMap<String, usize>,
    /// Outputs that break a law, by law and format.
    pub broken: BTreeMap<(&'static str, String), usize>,
    /// The stored failures.
    pub failures: Vec<Failure>,
}

/// An output that breaks a law.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The label of the format.
    pub subject: String,
    /// The seed.
    pub seed: u64,
    /// The broken law.
    pub broken: Broken,
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { subject, seed, broken } = self;
        writeln!(out, "BROKEN {}: {subject}\n  {:?}\n  {}", broken.law, broken.output, broken.what)?;
        write!(out, "  reproduce with: {}", again(subject, *seed))
    }
}

/// Returns the command that checks an output again.
fn again(subject: &str, seed: u64) -> String {
    format!("conform --outputs 1 --seed {seed} --only '{subject}'")
}

/// Turns a panic of the parser into a broken law.
fn panicked(panic: Box<dyn std::any::Any + Send>) -> Broken {
    let what = panic.downcast::<String>().map_or_else(
        |other| other.downcast::<&str>().map_or_else(|_| "the parser panics".to_owned(), |what| (*what).to_owned()),
        |what| *what,
    );
    Broken { law: "nothing panics", output: String::new(), what }
}

/// Checks `count` outputs on `threads` threads, taking the subjects in turn.
pub fn run(subjects: &[Subject], count: usize, seed: u64, threads: usize, effort: Effort) -> Summary {
    let batches = Batches::new(count);
    let total = Mutex::new(Summary::default());
    let watch = Watch::default();
    let work = || {
        let mut summary = Summary::default();
        while let Some(batch) = batches.take() {
            for number in batch {
                let subject = &subjects[number % subjects.len()];
                let seed = seed.wrapping_add(number as u64);
                let work = || check(subject, seed, effort);
                let checked = watch.during(|| again(&subject.label, seed), work);
                summary.add(subject, seed, checked.unwrap_or_else(|panic| Err(panicked(panic))));
            }
        }
        // If a thread panicked, the run has failed anyway.
        total.lock().unwrap_or_else(PoisonError::into_inner).merge(summary);
    };
    if !subjects.is_empty() {
        thread::scope(|scope| {
            let workers: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            scope.spawn(|| watch.run());
            work();
            for worker in workers {
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            }
            watch.end();
        });
    }
    let mut summary = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    summary.failures.sort_by_key(|failure| failure.seed);
    summary
}

impl Summary {
    /// Returns the number of outputs that were checked.
    pub fn outputs(&self) -> usize {
        self.read_back
            + self.hostile
            + self.damaged
            + self.limited
            + self.not_promised
            + self.broken.values().sum::<usize>()
    }

    /// Reports whether at least one output was checked and no law was broken.
    pub fn is_clean(&self) -> bool {
        self.broken.is_empty() && self.outputs() > 0
    }

    fn add(&mut self, subject: &Subject, seed: u64, checked: Result<Checked, Broken>) {
        match checked {
            Ok(Checked::ReadBack) => self.read_back += 1,
            Ok(Checked::Hostile) => self.hostile += 1,
            Ok(Checked::Damaged) => self.damaged += 1,
            Ok(Checked::Limited) => self.limited += 1,
            Ok(Checked::NotPromised) => self.not_promised += 1,
            Ok(Checked::NotWritten(why)) => {
                *self.not_written.entry(format!("{}: {why}", subject.label)).or_default() += 1
            }
            Err(broken) => {
                *self.broken.entry((broken.law, subject.label.clone())).or_default() += 1;
                if self.failures.len() < KEPT {
                    self.failures.push(Failure { subject: subject.label.clone(), seed, broken });
                }
            }
        }
    }

    fn merge(&mut self, other: Summary) {
        self.read_back += other.read_back;
        self.hostile += other.hostile;
        self.damaged += other.damaged;
        self.limited += other.limited;
        self.not_promised += other.not_promised;
        for (why, count) in other.not_written {
            *self.not_written.entry(why).or_default() += count;
        }
        for (which, count) in other.broken {
            *self.broken.entry(which).or_default() += count;
        }
        self.failures.extend(other.failures);
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "{} outputs: {} read back, {} not promised, {} with hostile texts, {} damaged, {} at the limits",
            self.outputs(),
            self.read_back,
            self.not_promised,
            self.hostile,
            self.damaged,
            self.limited
        )?;
        if self.outputs() == 0 {
            writeln!(out, "  FAILED: no output was parsed, so nothing was compared")?;
        }
        for (why, count) in &self.not_written {
            writeln!(out, "  {count} not written: {why}")?;
        }
        for ((law, label), count) in &self.broken {
            writeln!(out, "  {count} BROKEN {law}: {label}")?;
        }
        Ok(())
    }
}
