use std::collections::BTreeMap;
use std::fmt::Write;

use crate::pins::{Kind, Pins};

/// The outcome of one vector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The output is as expected.
    Passed,
    /// The output is not as expected.
    Failed {
        /// The expected output.
        expected: String,
        /// The actual output.
        found: String,
    },
    /// A model's output was not parsed as expected.
    Misread {
        /// The expected reading.
        expected: String,
        /// The actual reading.
        found: String,
        /// The output.
        output: String,
    },
    /// The operation is not implemented yet, with the missing feature. The pins limit how many rows
    /// may be pending.
    Pending(&'static str),
    /// The reference crashes by accident or returns nothing, as listed in COMPATIBILITY.md. Our own
    /// behaviour was checked instead and passed.
    Excused(&'static str),
}

impl Verdict {
    /// Returns the verdict on a vector that cannot be run: a failure, since nothing was compared.
    pub fn cannot_run(why: impl Into<String>) -> Verdict {
        Verdict::Failed { expected: "a vector that can be run".into(), found: why.into() }
    }

    /// Compares an expected with an actual output.
    pub fn compare(expected: &str, found: &str) -> Verdict {
        match expected == found {
            true => Verdict::Passed,
            false => Verdict::Failed { expected: expected.to_owned(), found: found.to_owned() },
        }
    }

    /// Returns the first verdict that is not a pass.
    pub fn and(self, next: impl FnOnce() -> Verdict) -> Verdict {
        match self {
            Verdict::Passed => next(),
            other => other,
        }
    }
}

/// The counts of a group of vectors.
#[derive(Default)]
struct Count {
    passed: usize,
    failed: usize,
    pending: usize,
    excused: usize,
    reasons: BTreeMap<(Kind, &'static str), usize>,
}

/// Verdicts counted by system, template and operation, with the reasons for every vector that was
/// not compared.
#[derive(Default)]
pub struct Report {
    groups: BTreeMap<String, Count>,
    /// The file whose vectors are being counted.
    file: String,
    /// By file, kind and name: passed and pending vectors by their operation, excused ones by their
    /// reason.
    counted: BTreeMap<String, BTreeMap<(Kind, String), usize>>,
    /// The ids of failing vectors and what is wrong with them.
    failures: Vec<(String, String)>,
}

impl Report {
    /// Creates an empty report.
    pub fn new() -> Report {
        Report::default()
    }

    /// Attributes all further verdicts to a file, given by its name without folders.
    pub fn begin_file(&mut self, name: &str) {
        name.clone_into(&mut self.file);
        self.counted.entry(name.to_owned()).or_default();
    }

    /// Counts the verdict on a vector of a system's operation. `model` is its template, format or
    /// family.
    pub fn add(&mut self, system: &str, model: &str, op: &str, id: &str, verdict: Verdict) {
        let group = if model.is_empty() { format!("{system} · {op}") } else { format!("{system} · {model} · {op}") };
        let count = self.groups.entry(group).or_default();
        let counted = self.counted.entry(self.file.clone()).or_default();
        match verdict {
            Verdict::Passed => {
                count.passed += 1;
                *counted.entry((Kind::Passed, format!("{system} · {op}"))).or_default() += 1;
            }
            Verdict::Failed { expected, found } => {
                count.failed += 1;
                self.failures.push((id.to_owned(), difference(&expected, &found)));
            }
            Verdict::Misread { expected, found, output } => {
                count.failed += 1;
                let text = format!("  expected: {expected}\n  found:    {found}\n  output:   {output:?}\n");
                self.failures.push((id.to_owned(), text));
            }
            Verdict::Pending(reason) => {
                count.pending += 1;
                *count.reasons.entry((Kind::Pending, reason)).or_default() += 1;
                *counted.entry((Kind::Pending, format!("{system} · {op}"))).or_default() += 1;
            }
            Verdict::Excused(reason) => {
                count.excused += 1;
                *count.reasons.entry((Kind::Excused, reason)).or_default() += 1;
                *counted.entry((Kind::Excused, reason.to_owned())).or_default() += 1;
            }
        }
    }

    /// Adds the counts of another report.
    pub fn merge(&mut self, other: Report) {
        for (group, count) in other.groups {
            let sum = self.groups.entry(group).or_default();
            sum.passed += count.passed;
            sum.failed += count.failed;
            sum.pending += count.pending;
            sum.excused += count.excused;
            for (reason, rows) in count.reasons {
                *sum.reasons.entry(reason).or_default() += rows;
            }
        }
        for (file, counted) in other.counted {
            let sum = self.counted.entry(file).or_default();
            for (kind, rows) in counted {
                *sum.entry(kind).or_default() += rows;
            }
        }
        self.failures.extend(other.failures);
    }

    /// Adds a failure for each count that differs from the pinned one.
    pub fn hold_against(&mut self, pins: &Pins) {
        for (id, why) in pins.differences(&self.counted) {
            self.groups.entry("pins".to_owned()).or_default().failed += 1;
            self.failures.push((id, format!("  {why}\n")));
        }
    }

    /// Returns how many vectors passed, failed and are pending.
    pub fn totals(&self) -> (usize, usize, usize) {
        let sum = |pick: fn(&Count) -> usize| self.groups.values().map(pick).sum();
        (sum(|count| count.passed), sum(|count| count.failed), sum(|count| count.pending))
    }

    /// Returns the counts by group, the first failures, and the closing line, which calls pending
    /// vectors skipped.
    pub fn print(&self, failures: usize) -> String {
        let mut text = String::new();
        for (group, count) in &self.groups {
            let _ = writeln!(
                text,
                "{:>6} passed {:>5} failed {:>6} skipped  {group}",
                count.passed, count.failed, count.pending
            );
            for ((kind, reason), number) in &count.reasons {
                let _ = writeln!(text, "{:>42}{number} {kind}: {reason}", "");
            }
        }
        self.print_counted(&mut text);
        for (id, why) in self.failures.iter().take(failures) {
            let _ = write!(text, "\nFAILED {id}\n{why}");
        }
        if self.failures.len() > failures {
            let _ =
                writeln!(text, "\n... and {} more failures (--failures N shows more)", self.failures.len() - failures);
        }
        let (passed, failed, pending) = self.totals();
        let excused: usize = self.groups.values().map(|count| count.excused).sum();
        let _ = write!(text, "\n{passed} passed, {failed} failed, {pending} skipped");
        let _ = match excused {
            0 => writeln!(text),
            _ => writeln!(text, ", {excused} excused for the reasons above (COMPATIBILITY.md)"),
        };
        text
    }

    /// Prints the counts of each file, as the pins have them.
    fn print_counted(&self, text: &mut String) {
        for (file, counts) in self.counted.iter().filter(|(_, counts)| !counts.is_empty()) {
            let _ = writeln!(text, "\n{file}");
            for ((kind, name), number) in counts {
                let _ = writeln!(text, "{number:>8} {kind}: {name}");
            }
        }
    }
}

/// Shows two texts around their first difference, with white space made visible.
fn difference(expected: &str, found: &str) -> String {
    let same = expected.chars().zip(found.chars()).take_while(|(a, b)| a == b).count();
    let from = same.saturating_sub(40);
    let cut = |text: &str| {
        let part: String = text.chars().skip(from).take(160).collect();
        part.replace('\n', "⏎").replace('\t', "→").replace(' ', "·")
    };
    format!("  first difference at character {same}\n  expected: {}\n  found:    {}\n", cut(expected), cut(found))
}
