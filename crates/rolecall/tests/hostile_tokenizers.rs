//! Hostile tokenizer files. Each must give a typed error or a tokenizer that works, within limits
//! of time and memory. Each attack runs in a separate process, so that its memory can be measured.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use crate::common::attacks::{attacks, measure, run};
use crate::common::files::{WholeFile, whole};
use crate::common::{measure_each, number_of_attack};

/// The limits of an attack: CPU time in milliseconds, and memory in megabytes above the size of the
/// file. Each megabyte of the file raises both limits.
const MOST_TIME: f64 = if cfg!(debug_assertions) { 20_000.0 } else { 1_000.0 };
const TIME_OF_A_MEGABYTE: f64 = if cfg!(debug_assertions) { 2_000.0 } else { 100.0 };
const MOST_MEMORY: f64 = 64.0;
const MEMORY_OF_A_MEGABYTE: f64 = 32.0;

#[test]
fn every_attack_ends_in_a_typed_error_or_works_within_bounds() {
    let attacks = attacks();
    if let Some(number) = number_of_attack() {
        return println!("\nmeasured {}", measure(&attacks[number]));
    }
    let names = attacks.iter().map(|attack| attack.name);
    let (all, mut wrong) =
        measure_each("hostile_tokenizers::every_attack_ends_in_a_typed_error_or_works_within_bounds", names);
    for (number, measured) in all {
        let (attack, name) = (&attacks[number], attacks[number].name);
        let parts: Vec<&str> = measured.splitn(4, ' ').collect();
        let [milliseconds, megabytes, size, end] = parts[..] else { panic!("{name}: {measured}") };
        let [milliseconds, megabytes, size] = [milliseconds, megabytes, size].map(|part| part.parse::<f64>().unwrap());
        if !attack.end.is_shown_as(end) {
            wrong.push(format!("{name}: expected {:?}, found {end}", attack.end));
        }
        if milliseconds > MOST_TIME + size * TIME_OF_A_MEGABYTE {
            wrong.push(format!("{name}: took {milliseconds} ms for {size} MB"));
        }
        if megabytes > MOST_MEMORY + size * MEMORY_OF_A_MEGABYTE {
            wrong.push(format!("{name}: took {megabytes} MB for {size} MB"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_file_cut_anywhere_is_a_typed_error_or_a_tokenizer() {
    for WholeFile { name, file, config, may_be_cut, .. } in whole() {
        assert_eq!(run(&file, config, "ab <s>"), "works", "{name}");
        for end in 0..file.len() {
            let found = run(&file[..end], config, "ab <s>\u{e9}");
            assert!(is_typed(&found), "{name} cut at {end}: {found}");
            assert!(may_be_cut || found != "works", "{name} cut at {end} works");
        }
    }
}

#[test]
fn a_file_with_another_byte_anywhere_is_a_typed_error_or_a_tokenizer() {
    for WholeFile { name, file, config, .. } in whole() {
        // The files have many similar bytes.
        for at in (0..file.len()).step_by(1 + file.len() / 500) {
            for byte in [0, b'"', b'9', 0xFF] {
                let mut changed = file.clone();
                changed[at] = byte;
                let found = run(&changed, config, "ab <s>\u{e9}");
                assert!(is_typed(&found), "{name} with {byte} at {at}: {found}");
            }
        }
    }
}

fn is_typed(found: &str) -> bool {
    found.starts_with("tokenizer_") || matches!(found, "works" | "not encoded")
}
