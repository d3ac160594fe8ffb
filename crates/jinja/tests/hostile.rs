//! Renders hostile templates and checks that each ends as expected, in little time and memory. Each
//! attack runs in its own process, so that its memory can be measured.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::process::Command;

use crate::common::attacks::{attacks, measure, shown};
use rolecall_jinja::{Context, Environment, ErrorKind, Input, LimitKind, Limits, Template};

/// The most time and memory an attack may take, in milliseconds of CPU time and in megabytes. The
/// time is the guarantee for a release build; a debug build checks far more and gets much more.
const MOST_TIME: f64 = if cfg!(debug_assertions) { 5_000.0 } else { 100.0 };
const MOST_MEMORY: f64 = 64.0;

/// The environment variable with the number of the attack that a child process runs.
const NUMBER: &str = "ROLECALL_ATTACK";

#[test]
fn every_attack_ends_in_a_typed_error_in_little_time_and_memory() {
    let attacks = attacks();
    if let Some(number) = std::env::var(NUMBER).ok().and_then(|number| number.parse::<usize>().ok()) {
        return println!("\nmeasured {}", measure(&attacks[number].0));
    }
    for (number, (source, expected)) in attacks.iter().enumerate() {
        let test = "hostile::every_attack_ends_in_a_typed_error_in_little_time_and_memory";
        let shown = shown(source);
        let run = || {
            let process = Command::new(std::env::current_exe().unwrap())
                .args([test, "--exact", "--nocapture", "--test-threads=1"])
                .env(NUMBER, number.to_string())
                .output()
                .unwrap();
            let output = String::from_utf8_lossy(&process.stdout).into_owned();
            let measured = output.lines().find_map(|line| line.strip_prefix("measured ")).map(str::to_owned);
            measured
                .unwrap_or_else(|| panic!("{shown}: the process died\n{}", String::from_utf8_lossy(&process.stderr)))
        };
        let milliseconds_of = |measured: &str| measured.split(' ').next().and_then(|text| text.parse::<f64>().ok());
        // Any run is slow on a busy machine, so the fastest of up to five counts.
        let mut measured = run();
        for _ in 0..4 {
            if milliseconds_of(&measured).is_some_and(|milliseconds| milliseconds > MOST_TIME) {
                measured = run();
            }
        }
        let parts: Vec<&str> = measured.splitn(3, ' ').collect();
        let [milliseconds, megabytes, end] = parts[..] else { panic!("{shown}: {measured}") };
        assert!(expected.is_shown_as(end), "{shown}: {end}, not {expected:?}");
        assert!(milliseconds.parse::<f64>().unwrap() <= MOST_TIME, "{shown}: took {milliseconds} ms");
        assert!(megabytes.parse::<f64>().unwrap() <= MOST_MEMORY, "{shown}: took {megabytes} MB");
    }
}

#[test]
fn a_deadline_ends_a_rendering() {
    let calls = std::cell::Cell::new(0);
    let interrupted = || {
        calls.set(calls.get() + 1);
        calls.get() > 3
    };
    let environment = Environment { interrupted: Some(&interrupted), ..Environment::default() };
    let template = Template::compile(
        "{% for i in range(100000) %}{% for j in range(100) %}{% endfor %}{% endfor %}",
        &Limits::default(),
    );
    let error = template.unwrap().render(&Context::new(), &environment).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit(LimitKind::Deadline));
}

#[test]
fn a_caller_may_lower_and_raise_limits() {
    let mut limits = Limits::default();
    limits.output_bytes = 3;
    let environment = Environment { limits, ..Environment::default() };
    let render =
        |source: &str| Template::compile(source, &Limits::default()).unwrap().render(&Context::new(), &environment);
    assert_eq!(render("abc").unwrap().text(), "abc");
    assert_eq!(render("abcd").unwrap_err().kind(), ErrorKind::Limit(LimitKind::Output));
}

#[test]
fn deep_input_is_bounded_too() {
    let mut value = Input::list([]);
    for _ in 0..1000 {
        value = Input::list([value]);
    }
    let mut context = Context::new();
    context.set("v", &value);
    for source in ["{{ v }}", "{{ v|tojson }}", "{{ v == [v] }}", "{{ v|pprint }}"] {
        let error = Template::compile(source, &Limits::default())
            .unwrap()
            .render(&context, &Environment::default())
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit(LimitKind::Depth), "{source}");
    }
}
