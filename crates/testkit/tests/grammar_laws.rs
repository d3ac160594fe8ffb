//! A grammar accepts what its format writes and rejects it with a mistake, for every format and
//! every shared call layout.

use rolecall::format::{load, shared_calls};
use rolecall_testkit::grammars::trial;
use rolecall_testkit::matches;
use rolecall_testkit::outputs::{Subject, built_in};

const SEEDS: u64 = 12;

#[test]
fn what_is_rendered_is_taken_and_what_is_damaged_is_not() {
    let mut subjects = built_in();
    for (name, file) in shared_calls() {
        let format = load(file).unwrap_or_else(|error| panic!("{name}: {error}"));
        subjects.extend(Subject::new(format!("calls/{name}"), format));
    }
    let (mut taken, mut refused) = (0, 0);
    let mut wrong = Vec::new();
    for subject in &subjects {
        let before = taken;
        for seed in 0..SEEDS {
            let trial = match trial(subject, seed, &[]) {
                Ok(Some(trial)) => trial,
                Ok(None) => continue,
                Err(error) => {
                    wrong.push(error);
                    continue;
                }
            };
            taken += 1;
            if !trial.accepts.iter().any(|text| matches(&trial.grammar, text)) {
                wrong.push(format!("{}: {:?} rejects {:?}", trial.label, trial.options.choice, trial.accepts));
            }
            for (what, text) in &trial.refuses {
                refused += 1;
                if matches(&trial.grammar, text) {
                    wrong.push(format!("{}: {:?} accepts ({what}) {text:?}", trial.label, trial.options.choice));
                }
            }
        }
        assert!(taken > before, "{}: no trial was made", subject.label);
    }
    assert!(taken > 300 && refused > 1000, "{taken} and {refused} are too few");
    assert!(
        wrong.is_empty(),
        "{} of {taken} + {refused} are wrong:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(20)].join("\n")
    );
}
