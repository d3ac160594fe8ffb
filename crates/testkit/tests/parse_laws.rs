//! Laws that hold for every reply, of every built-in format and every layout that is inferred from
//! a real template.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by a panic, in its helpers too")]

use rolecall::Stop;
use rolecall::conversation::object;
use rolecall::parse::{ParseOptions, read};
use rolecall_testkit::FolderTemplates;
use rolecall_testkit::outputs::{self, Effort, Said, Subject, USUAL};

/// The number of replies, with the subjects taken in turn. `conform --outputs N` makes any number.
const REPLIES: usize = 3_000;

fn check(subjects: &[Subject]) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let summary = outputs::run(subjects, REPLIES, 0, threads, Effort { all_pairs: 40, ..USUAL });
    let failures: Vec<String> = summary.failures.iter().take(10).map(ToString::to_string).collect();
    assert!(summary.is_clean(), "{summary}\n{}", failures.join("\n\n"));
    assert!(summary.read_back * 8 > REPLIES, "too few replies were parsed back: {summary}");
    assert!(summary.limited * 8 > REPLIES, "too few replies were parsed at the limits: {summary}");
    assert!(summary.not_written.is_empty(), "{summary}");
}

#[test]
fn every_format_reads_what_it_writes_however_it_is_cut_or_damaged() {
    let subjects = outputs::built_in();
    assert!(subjects.len() > 20, "formats with calls or reasoning, and shared call layouts");
    check(&subjects);
}

#[test]
fn every_inferred_layout_reads_what_it_writes_however_it_is_cut_or_damaged() {
    let Some(shared) = rolecall_testkit::shared() else {
        return rolecall_testkit::say_skipped("no layout is inferred from a real template");
    };
    check(&outputs::inferred(&FolderTemplates::read(&shared.join("templates")).unwrap()));
}

/// Checks real caps and lengths around their multiples: the parser never hangs and never loses
/// text.
#[test]
fn a_call_in_reasoning_of_any_length_around_the_cap_is_read_to_its_end() {
    let subjects: Vec<Subject> = outputs::built_in().into_iter().filter(|subject| subject.places.reasoning).collect();
    assert!(!subjects.is_empty(), "formats with reasoning");
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let summary = outputs::run(&subjects, REPLIES, 1 << 32, threads, USUAL);
    let failures: Vec<String> = summary.failures.iter().take(10).map(ToString::to_string).collect();
    assert!(summary.is_clean(), "{summary}\n{}", failures.join("\n\n"));
}

/// Checks that an answer of only white space is content, if the turn ends after it.
#[test]
fn an_answer_of_white_space_comes_out() {
    for subject in outputs::built_in().iter().filter(|subject| subject.places.content) {
        let message = object! { "role" => "assistant", "content" => "Yes." };
        let written = subject.write(&Said { message, tools: Vec::new() }).unwrap();
        let text = written.text();
        let before = &text[..text.find("Yes.").unwrap()];
        for blank in [" ", "\n", " \n\t ", "\n\n\n"] {
            let prompt_tail = format!("{}{before}", written.prompt_tail);
            let options = ParseOptions { prompt_tail, ..ParseOptions::default() };
            let reading = read(&subject.reply, options, blank, Stop::End);
            let wanted = if subject.format.habits.trims { "" } else { blank };
            assert_eq!(reading.content, wanted, "{}", subject.label);
        }
    }
}

/// Checks that the laws detect a broken parser.
#[test]
fn a_reader_that_breaks_a_law_is_found() {
    // A parser with another format's layouts parses none of this format's calls.
    let mut subjects = outputs::built_in();
    let other = subjects.iter().position(|subject| subject.label == "calls/key-and-value-tags").unwrap();
    let other = std::sync::Arc::clone(&subjects[other].reply);
    subjects.retain(|subject| subject.label == "calls/json-in-tags");
    subjects[0].reply = other;
    let summary = outputs::run(&subjects, 200, 0, 1, USUAL);
    assert!(!summary.is_clean(), "{summary}");
}
