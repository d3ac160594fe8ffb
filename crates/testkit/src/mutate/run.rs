use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::thread;

use fastrand::Rng;

use super::change::changed;
use super::laws::{LawOutcome, READS, Violation, check};
use super::tree::Tree;
use crate::batches::Batches;

/// The number of verified templates for each that may be misread. About one in 40,000 is.
const FOR_EACH_MISREAD: usize = 10_000;

/// The maximum number of stored failures.
const KEPT: usize = 200;

/// A template that is changed.
pub struct Origin {
    label: String,
    tree: Tree,
    tokens: Vec<(String, String)>,
}

/// The results of many changed templates.
#[derive(Debug, Default)]
pub struct Summary {
    /// Templates that do not compile.
    pub refused: usize,
    /// Templates of which nothing verified could be compared.
    pub unverified: usize,
    /// Templates with a part that parses what they write.
    pub verified: usize,
    /// Templates that break a law, by law.
    pub broken: BTreeMap<&'static str, usize>,
    /// The stored failures.
    pub failures: Vec<Failure>,
}

/// A template that breaks a law.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The label of the template that was changed.
    pub label: String,
    /// The seed.
    pub seed: u64,
    /// The changed template.
    pub source: String,
    /// The broken law.
    pub broken: Violation,
}

impl Origin {
    /// Creates the origin, if the blocks of the source are balanced.
    pub fn new(label: &str, source: &str, tokens: &[(String, String)]) -> Option<Origin> {
        Some(Origin { label: label.to_owned(), tree: Tree::read(source)?, tokens: tokens.to_vec() })
    }

    /// Returns its label.
    pub fn label(&self) -> &str {
        &self.label
    }
}

/// Checks `count` templates on `threads` threads, changing the origins in turn.
pub fn run(origins: &[Origin], count: usize, seed: u64, threads: usize) -> Summary {
    let batches = Batches::new(count);
    let total = Mutex::new(Summary::default());
    let work = || {
        let mut summary = Summary::default();
        while let Some(batch) = batches.take() {
            for number in batch {
                summary.add(&origins[number % origins.len()], seed.wrapping_add(number as u64));
            }
        }
        total.lock().unwrap_or_else(PoisonError::into_inner).merge(summary);
    };
    if !origins.is_empty() {
        thread::scope(|scope| {
            let workers: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            work();
            for worker in workers {
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            }
        });
    }
    let mut summary = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    summary.failures.sort_by_key(|failure| failure.seed);
    summary
}

impl Summary {
    /// Returns the number of templates that were tried.
    pub fn templates(&self) -> usize {
        self.refused + self.unverified + self.verified + self.broken.values().sum::<usize>()
    }

    /// Reports whether a verified part was compared and no law was broken. A few verified layouts may not parse
    /// what their template writes: inference renders a few conversations, and a changed template may write
    /// others differently.
    pub fn is_clean(&self) -> bool {
        let misread = self.broken.get(READS).copied().unwrap_or_default();
        let others = self.broken.values().sum::<usize>() - misread;
        others == 0 && self.verified > 0 && misread <= self.verified.div_ceil(FOR_EACH_MISREAD)
    }

    fn add(&mut self, origin: &Origin, seed: u64) {
        // Scramble the seed, so that neighbouring seeds give unlike templates.
        let mut rng = Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let source = changed(&origin.tree, &mut rng).write();
        match check(&source, &origin.tokens, rng.u64(..)) {
            Ok(LawOutcome::Refused) => self.refused += 1,
            Ok(LawOutcome::Unverified) => self.unverified += 1,
            Ok(LawOutcome::Verified(_)) => self.verified += 1,
            Err(broken) => {
                *self.broken.entry(broken.law).or_default() += 1;
                if self.failures.len() < KEPT {
                    self.failures.push(Failure { label: origin.label.clone(), seed, source, broken });
                }
            }
        }
    }

    fn merge(&mut self, other: Summary) {
        self.refused += other.refused;
        self.unverified += other.unverified;
        self.verified += other.verified;
        for (law, count) in other.broken {
            *self.broken.entry(law).or_default() += count;
        }
        self.failures.extend(other.failures);
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { label, seed, source, broken } = self;
        writeln!(out, "BROKEN {}: {label}\n  {}\n--- template\n{source}\n---", broken.law, broken.what)?;
        write!(out, "  reproduce with: conform --infer 1 --seed {seed} --only '{label}'")
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (law, count) in &self.broken {
            writeln!(out, "  {count} BROKEN {law}")?;
        }
        if self.verified == 0 {
            writeln!(out, "  FAILED: no layout is verified, so nothing was compared")?;
        }
        writeln!(
            out,
            "{} changed templates: {} verified and parsed, {} not verified, {} refused, {} broken",
            self.templates(),
            self.verified,
            self.unverified,
            self.refused,
            self.broken.values().sum::<usize>()
        )
    }
}
