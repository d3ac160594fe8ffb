use std::collections::BTreeMap;
use std::fmt::Write;

/// What came of one vector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As expected.
    Passed,
    /// Not as expected.
    Failed {
        /// What was expected.
        expected: String,
        /// What came out.
        found: String,
    },
    /// A model's output was not read as expected.
    Misread {
        /// What was expected.
        expected: String,
        /// What was read.
        found: String,
        /// The output.
        output: String,
    },
    /// Not run, and why.
    Skipped(&'static str),
    /// The reference crashes by accident or answers nothing, which is listed in COMPATIBILITY.md; what is done instead
    /// was done without a fault.
    Excused(&'static str),
}

impl Verdict {
    /// Compares what was expected with what came out.
    pub fn compare(expected: &str, found: &str) -> Verdict {
        match expected == found {
            true => Verdict::Passed,
            false => Verdict::Failed { expected: expected.to_owned(), found: found.to_owned() },
        }
    }

    /// The first verdict that is not a pass.
    pub fn and(self, next: impl FnOnce() -> Verdict) -> Verdict {
        match self {
            Verdict::Passed => next(),
            other => other,
        }
    }
}

#[derive(Default)]
struct Count {
    passed: usize,
    failed: usize,
    skipped: usize,
    excused: usize,
    reasons: BTreeMap<(&'static str, &'static str), usize>,
}

/// Verdicts counted by system, template and operation.
#[derive(Default)]
pub struct Report {
    groups: BTreeMap<String, Count>,
    /// Ids, and what is wrong with them.
    failures: Vec<(String, String)>,
}

impl Report {
    /// No verdicts.
    pub fn new() -> Report {
        Report::default()
    }

    /// Counts a verdict.
    pub fn add(&mut self, group: &str, id: &str, verdict: Verdict) {
        let count = self.groups.entry(group.to_owned()).or_default();
        match verdict {
            Verdict::Passed => count.passed += 1,
            Verdict::Failed { expected, found } => {
                count.failed += 1;
                self.failures.push((id.to_owned(), difference(&expected, &found)));
            }
            Verdict::Misread { expected, found, output } => {
                count.failed += 1;
                let text = format!("  expected: {expected}\n  found:    {found}\n  output:   {output:?}\n");
                self.failures.push((id.to_owned(), text));
            }
            Verdict::Skipped(reason) => {
                count.skipped += 1;
                *count.reasons.entry(("skipped", reason)).or_default() += 1;
            }
            Verdict::Excused(reason) => {
                count.excused += 1;
                *count.reasons.entry(("excused", reason)).or_default() += 1;
            }
        }
    }

    /// How many passed, failed and were skipped.
    pub fn totals(&self) -> (usize, usize, usize) {
        let sum = |pick: fn(&Count) -> usize| self.groups.values().map(pick).sum();
        (sum(|count| count.passed), sum(|count| count.failed), sum(|count| count.skipped))
    }

    /// The counts by group, the first failures, and the closing line.
    pub fn print(&self, failures: usize) -> String {
        let mut text = String::new();
        for (group, count) in &self.groups {
            let _ = writeln!(
                text,
                "{:>6} passed {:>5} failed {:>6} skipped  {group}",
                count.passed, count.failed, count.skipped
            );
            for ((what, reason), number) in &count.reasons {
                let _ = writeln!(text, "{:>42}{number} {what}: {reason}", "");
            }
        }
        for (id, why) in self.failures.iter().take(failures) {
            let _ = write!(text, "\nFAILED {id}\n{why}");
        }
        if self.failures.len() > failures {
            let _ =
                writeln!(text, "\n.. and {} more failures (--failures N shows more)", self.failures.len() - failures);
        }
        let (passed, failed, skipped) = self.totals();
        let excused: usize = self.groups.values().map(|count| count.excused).sum();
        let _ = write!(text, "\n{passed} passed, {failed} failed, {skipped} skipped");
        let _ = match excused {
            0 => writeln!(text),
            _ => writeln!(text, ", {excused} excused for the reasons above (COMPATIBILITY.md)"),
        };
        text
    }
}

/// Two texts around their first difference, white space visible.
fn difference(expected: &str, found: &str) -> String {
    let same = expected.chars().zip(found.chars()).take_while(|(a, b)| a == b).count();
    let from = same.saturating_sub(40);
    let cut = |text: &str| {
        let part: String = text.chars().skip(from).take(160).collect();
        part.replace('\n', "⏎").replace('\t', "→").replace(' ', "·")
    };
    format!("  first difference at character {same}\n  expected: {}\n  found:    {}\n", cut(expected), cut(found))
}
