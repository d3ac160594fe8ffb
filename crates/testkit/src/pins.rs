//! Exact counts of the vectors of each golden file that pass, are pending or are excused, so that
//! no regression goes unnoticed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use toml::de::{DeTable, DeValue};

/// The outcome of a vector that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// It was compared and is as expected.
    Passed,
    /// Its operation is not implemented yet.
    Pending,
    /// The expected answer does not apply to us, for a named reason.
    Excused,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Passed => "passed",
            Kind::Pending => "pending",
            Kind::Excused => "excused",
        })
    }
}

/// Counts by kind and name: passed and pending vectors by `SYSTEM · OPERATION`, excused ones by
/// their reason.
type Counts = BTreeMap<(Kind, String), usize>;

/// The pinned counts, by the name of the golden file.
///
/// ```toml
/// [passed."lmdeploy.jsonl"]
/// "lmdeploy · get_prompt" = 272
///
/// [pending."stability.jsonl"]
/// "stability · stability" = 892
///
/// [excused."lmdeploy.jsonl"]
/// "messages2prompt returns nothing for a list" = 132
/// ```
#[derive(Debug, Default)]
pub struct Pins(BTreeMap<String, Counts>);

impl Pins {
    /// Parses the text of a pins file.
    pub fn read(source: &str) -> Result<Pins, String> {
        let table = DeTable::parse(source).map_err(|error| error.to_string())?.into_inner();
        let mut pins = Pins::default();
        for (kind, files) in &table {
            let known = match kind.get_ref().as_ref() {
                "passed" => Kind::Passed,
                "pending" => Kind::Pending,
                "excused" => Kind::Excused,
                other => return Err(format!("expected `passed`, `pending` or `excused`, found `{other}`")),
            };
            for (file, counts) in entries(files.get_ref(), kind.get_ref())? {
                for (name, count) in entries(counts, &file)? {
                    let DeValue::Integer(number) = count else {
                        return Err(format!("expected a number for `{name}` of {file}"));
                    };
                    let number =
                        number.as_str().parse().map_err(|_| format!("expected a count for `{name}` of {file}"))?;
                    pins.0.entry(file.clone()).or_default().insert((known, name), number);
                }
            }
        }
        Ok(pins)
    }

    /// Returns the differences between the found and the pinned counts. An improvement is a
    /// difference too: the pin must follow it, or the next regression would go unnoticed.
    pub(crate) fn differences(&self, found: &BTreeMap<String, Counts>) -> Vec<(String, String)> {
        let mut differences = Vec::new();
        let none = Counts::new();
        let files: BTreeSet<&String> = self.0.keys().chain(found.keys()).collect();
        for file in files {
            let pinned = self.0.get(file).unwrap_or(&none);
            let Some(found) = found.get(file) else {
                differences.push((file.clone(), "the pins name this file, but it was not run".to_owned()));
                continue;
            };
            let names: BTreeSet<&(Kind, String)> = pinned.keys().chain(found.keys()).collect();
            for name in names {
                let [pinned, found] = [pinned, found].map(|counts| counts.get(name).copied().unwrap_or_default());
                let (kind, name) = name;
                if *kind == Kind::Passed && found != pinned {
                    let why = match found < pinned {
                        true => "some vectors fail or are no longer compared".to_owned(),
                        false => format!("raise the pin to {found}"),
                    };
                    differences.push((format!("{file}: {name}"), format!("{found} passed, {pinned} pinned: {why}")));
                } else if found > pinned {
                    let why = format!(
                        "{found} {kind}, {pinned} pinned: some vectors that were compared before no longer are"
                    );
                    differences.push((format!("{file}: {name}"), why));
                } else if found < pinned {
                    let why = format!("{found} {kind}, {pinned} pinned: lower the pin to {found}");
                    differences.push((format!("{file}: {name}"), why));
                }
            }
        }
        differences
    }
}

fn entries<'a>(value: &'a DeValue<'_>, name: &str) -> Result<Vec<(String, &'a DeValue<'a>)>, String> {
    match value {
        DeValue::Table(table) => {
            Ok(table.iter().map(|(key, value)| (key.get_ref().to_string(), value.get_ref())).collect())
        }
        _ => Err(format!("expected a table for `{name}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::Pins;
    use crate::{Report, Verdict};

    const PINS: &str = "[passed.\"a.jsonl\"]\n\"s · op\" = 3\n[pending.\"a.jsonl\"]\n\"s · op\" = 2\n[excused.\"a.jsonl\"]\n\"it crashes\" = 1\n";

    /// Makes a report of one file with this many verdicts of each kind.
    fn report(passed: usize, pending: usize, excused: usize) -> Report {
        let mut report = Report::new();
        report.begin_file("a.jsonl");
        for _ in 0..passed {
            report.add("s", "m", "op", "id", Verdict::Passed);
        }
        for _ in 0..pending {
            report.add("s", "", "op", "id", Verdict::Pending("waits"));
        }
        for _ in 0..excused {
            report.add("s", "m", "other", "id", Verdict::Excused("it crashes"));
        }
        report.hold_against(&Pins::read(PINS).unwrap());
        report
    }

    #[test]
    fn exact_counts_pass() {
        assert_eq!(report(3, 2, 1).totals(), (3, 0, 2));
    }

    #[test]
    fn more_than_pinned_fails() {
        assert_eq!(report(3, 3, 1).totals().1, 1);
        assert_eq!(report(3, 2, 2).totals().1, 1);
    }

    #[test]
    fn fewer_than_pinned_fails_until_the_pin_is_lowered() {
        let report = report(3, 1, 0);
        assert_eq!(report.totals().1, 2);
        assert!(report.print(5).contains("lower the pin to 1"), "{}", report.print(5));
    }

    #[test]
    fn another_number_that_passes_fails() {
        let (fewer, more) = (report(2, 2, 1), report(4, 2, 1));
        assert_eq!((fewer.totals().1, more.totals().1), (1, 1));
        assert!(fewer.print(5).contains("no longer compared") && more.print(5).contains("raise the pin to 4"));
    }

    #[test]
    fn a_reason_that_no_pin_names_fails() {
        let mut report = report(3, 2, 1);
        report.add("s", "m", "op", "id", Verdict::Excused("another reason"));
        report.hold_against(&Pins::read(PINS).unwrap());
        assert_eq!(report.totals().1, 1);
    }

    #[test]
    fn a_pinned_file_that_was_not_run_fails() {
        let mut report = Report::new();
        report.hold_against(&Pins::read(PINS).unwrap());
        assert_eq!(report.totals().1, 1);
    }

    #[test]
    fn a_pins_file_of_another_shape_is_refused() {
        for text in ["[skipped]\n", "[pending]\na = 1\n", "[pending.a]\nb = \"c\"\n", "["] {
            assert!(Pins::read(text).is_err(), "{text}");
        }
    }
}
