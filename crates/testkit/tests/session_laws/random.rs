//! Random scripts: nothing panics, ids only grow, and what was proved gives the same ids as
//! rendering everything. `rolecall/fuzz` plays the same scripts.

use fastrand::Rng;
use rolecall_testkit::sessions::{Played, Subject, Vocabulary, play};

use super::{own, templates, vocabulary};

fn run(subjects: &[Subject], scripts: usize, seed: u64) -> Played {
    let mut rng = Rng::with_seed(seed);
    let mut played = Played::default();
    for subject in subjects {
        for _ in 0..scripts {
            let length = rng.usize(..120);
            let script: Vec<u8> = std::iter::repeat_with(|| rng.u8(..)).take(length).collect();
            match try_play(subject, &script) {
                Some(other) => played.join(other),
                None => panic!("{}: {:?}", subject.name, shrink(subject, script)),
            }
        }
    }
    println!("{} subjects, {scripts} scripts each: {played:#?}", subjects.len());
    played
}

fn try_play(subject: &Subject, script: &[u8]) -> Option<Played> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| play(subject, script))).ok()
}

/// Removes what a failure does not need.
fn shrink(subject: &Subject, mut script: Vec<u8>) -> Vec<u8> {
    let fails = |script: &[u8]| try_play(subject, script).is_none();
    while let Some(shorter) = script.split_last().map(|(_, rest)| rest.to_vec()).filter(|rest| fails(rest)) {
        script = shorter;
    }
    for length in [4, 3, 2, 1] {
        let mut at = 0;
        while at + length <= script.len() {
            let mut shorter = script.clone();
            shorter.drain(at..at + length);
            match fails(&shorter) {
                true => script = shorter,
                false => at += 1,
            }
        }
    }
    script
}

#[test]
fn random_scripts_keep_the_laws_with_templates_of_our_own() {
    let mut subjects = own::subjects(&Vocabulary::small());
    subjects.extend(own::subjects(&Vocabulary::Bytes));
    let played = run(&subjects, 100, 1);
    for name in
        ["ok open", "ok accept", "ok close", "ok truncate", "ok rewrite", "ok stable", "awaits_reply", "not_open"]
    {
        assert!(played.count(name) > 20, "{name}: {played:#?}");
    }
}

#[test]
fn random_scripts_keep_the_laws_with_every_format() {
    let played = run(&Subject::of_registry(&Vocabulary::Bytes).0, 8, 2);
    assert!(played.count("ok open") > 300, "{played:#?}");
}

#[test]
fn random_scripts_keep_the_laws_with_every_template() {
    let played = run(&templates(&vocabulary()), 8, 3);
    assert!(played.count("ok open") > 20, "{played:#?}");
}
