//! What a hostile template may try: each ends in an error of a kind of its own, in little memory. This file is a process of
//! its own, so that its memory can be measured.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::fs;

use rolecall_jinja::{Context, DateTime, Environment, Error, ErrorKind, Input, LimitKind, Limits, Template};

/// How it ends: in a limit, in any other error, or well.
#[derive(Debug, PartialEq)]
enum End {
    Limit(LimitKind),
    /// Memory or time, whichever is used up first.
    Budget,
    Error(ErrorKind),
    Text,
}

fn run(source: &str) -> End {
    let name = Input::from("x");
    let mut context = Context::new();
    context.set("a", &name);
    let now = DateTime { year: 2026, month: 11, day: 21, hour: 12, minute: 34, second: 56, microsecond: 0 };
    let environment = Environment { clock: Some(&now), ..Environment::default() };
    let rendered =
        Template::compile(source, &Limits::default()).and_then(|template| template.render(&context, &environment));
    match rendered.map_err(|error: Error| error.kind()) {
        Ok(_) => End::Text,
        Err(ErrorKind::Limit(limit)) => End::Limit(limit),
        Err(kind) => End::Error(kind),
    }
}

#[test]
fn every_attack_ends_in_a_typed_error_and_little_memory() {
    let start = peak_kilobytes();
    use ErrorKind::{Syntax, Type, Undefined};
    use LimitKind::{Depth, Instructions, Integer, Loop, Memory, Nesting, Recursion, Source};
    let nested = |open: &str, close: &str, times: usize| format!("{}1{}", open.repeat(times), close.repeat(times));
    let doubled = |body: &str| {
        format!(
            "{{% set a = ['x'] %}}{{% set b = ['x'] %}}{}{body}",
            "{% set a = [a, a] %}{% set b = [b, b] %}".repeat(60)
        )
    };
    let grown = |init: &str, step: &str| {
        format!(
            "{{% set ns = namespace(v={init}) %}}{{% for i in range(100000) %}}{{% set ns.v = {step} %}}{{% endfor %}}"
        )
    };
    let attacks: Vec<(String, End)> = vec![
        // Strings that double.
        (grown("'a'", "ns.v + ns.v"), End::Budget),
        (grown("'a'", "ns.v ~ ns.v"), End::Budget),
        (grown("'a'", "[ns.v, ns.v]|join"), End::Budget),
        (grown("'a'", "ns.v.replace('a', 'aa')"), End::Budget),
        (grown("'a'", "'%s%s' % (ns.v, ns.v)"), End::Budget),
        (grown("'a'", "'{0}{0}'.format(ns.v)"), End::Budget),
        (grown("'\"'", "ns.v|tojson"), End::Budget),
        (grown("'&'", "ns.v|forceescape"), End::Budget),
        (grown("'é'", "ns.v|urlencode"), End::Budget),
        (grown("[1]", "ns.v + ns.v"), End::Budget),
        (grown("''", "ns.v ~ 'abc'"), End::Budget),
        (grown("[]", "ns.v + [i]"), End::Budget),
        // Sizes that a template names.
        ("{{ 'a' * 10**9 }}".into(), End::Limit(Memory)),
        ("{{ [1] * 10**9 }}".into(), End::Limit(Instructions)),
        ("{{ '%1000000000d' % 1 }}".into(), End::Limit(Memory)),
        ("{{ '%.1000000000f' % 1 }}".into(), End::Limit(Memory)),
        ("{{ '%*s' % (10**9, 'a') }}".into(), End::Limit(Memory)),
        ("{{ '{:1000000000}'.format(1) }}".into(), End::Limit(Memory)),
        ("{{ 'a'.center(10**9) }}{{ 'a'.zfill(10**9) }}".into(), End::Limit(Memory)),
        ("{{ 'a'|center(10**9) }}".into(), End::Limit(Memory)),
        ("{{ '\\t'.expandtabs(10**9) }}".into(), End::Limit(Memory)),
        ("{{ 'a'|indent(10**9, true) }}".into(), End::Limit(Memory)),
        ("{{ [1]|tojson(indent=10**9) }}".into(), End::Limit(Memory)),
        ("{{ [1]|batch(10**9, 1)|list }}".into(), End::Limit(Instructions)),
        ("{{ (['a' * 1000] * 10000)|join('b' * 10000) }}".into(), End::Limit(Memory)),
        ("{{ range(10**9) }}".into(), End::Limit(Loop)),
        ("{{ 10**(10**10) }}".into(), End::Limit(Integer)),
        ("{{ 10 ** 5000 }}".into(), End::Limit(Integer)),
        // Time.
        ("{% for i in range(90000) %}{% for j in range(90000) %}{% endfor %}{% endfor %}".into(), End::Limit(Instructions)),
        ("{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}".into(), End::Limit(Instructions)),
        ("{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{% set x = s.find('b') %}{% endfor %}".into(), End::Limit(Instructions)),
        ("{% set l = range(100000)|list %}{% for i in l %}{% if -1 in l %}{% endif %}{% endfor %}".into(), End::Limit(Instructions)),
        ("{{ (['a' * 10000] * 10000)|sort|length }}".into(), End::Limit(Instructions)),
        (doubled("{{ a == b }}"), End::Limit(Instructions)),
        (doubled("{{ a < b }}"), End::Limit(Instructions)),
        (doubled("{{ a|tojson }}"), End::Budget),
        (doubled("{{ a }}"), End::Budget),
        // Depth.
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}".into(), End::Limit(Recursion)),
        ("{% macro f() %}{% call g() %}{% endcall %}{% endmacro %}{% macro g() %}{{ f() }}{{ caller }}{% endmacro %}{{ f() }}".into(), End::Limit(Recursion)),
        ("{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}".into(), End::Limit(Recursion)),
        (grown("[]", "[ns.v]"), End::Limit(Depth)),
        (grown("{}", "{'a': ns.v}"), End::Limit(Depth)),
        (grown("[1]", "ns.v|map('string')"), End::Limit(Depth)),
        (grown("1", "cycler(ns.v)"), End::Limit(Depth)),
        ("{% set ns = namespace() %}{% set ns.x = [ns] %}{{ ns }}".into(), End::Limit(Depth)),
        ("{% set ns = namespace() %}{% for i in [1] %}{% set ns.l = loop %}{{ loop.changed(loop) }}{% endfor %}".into(), End::Text),
        // The source itself.
        (format!("{{{{ {} }}}}", nested("(", ")", 200_000)), End::Limit(Nesting)),
        (format!("{{{{ {} }}}}", nested("[", "]", 200_000)), End::Limit(Nesting)),
        (format!("{{{{ {} }}}}", nested("-", "", 200_000)), End::Limit(Nesting)),
        (format!("{{{{ {} }}}}", nested("not ", "", 200_000)), End::Limit(Nesting)),
        (format!("{{{{ a{} }}}}", ".b".repeat(200_000)), End::Limit(Nesting)),
        (format!("{{{{ a{} }}}}", "|upper".repeat(100_000)), End::Limit(Nesting)),
        (format!("{{{{ 1{} }}}}", " if 1 else 1".repeat(50_000)), End::Limit(Nesting)),
        ("{% if 1 %}".repeat(20_000), End::Limit(Nesting)),
        (format!("{{{{ 1{} }}}}", "+1".repeat(200_000)), End::Text),
        (format!("{{{{ 1{} }}}}", "<1".repeat(100_000)), End::Text),
        (format!("{{{{ {} }}}}", (0..50_000).map(|n| format!("a{n}")).collect::<Vec<_>>().join("+")), End::Limit(Source)),
        ("a".repeat(2_000_000), End::Limit(Source)),
        (format!("{{{{ {} }}}}", "9".repeat(100_000)), End::Limit(Integer)),
        ("{#".repeat(100_000), End::Error(Syntax)),
        ("{% raw %}".to_owned() + &"{% endra".repeat(100_000), End::Error(Syntax)),
        // Many small things.
        ("{% for i in range(100000) %}{% for j in range(10) %}a{% endfor %}{% endfor %}".into(), End::Text),
        ("{% for i in range(100000) %}{% for j in range(100) %}{% set n = namespace(a=1) %}{% endfor %}{% endfor %}".into(), End::Budget),
        (format!("{{{{ '{{0{}}}'.format(1) }}}}", ".a".repeat(100_000)), End::Error(Undefined)),
        ("{{ {[1]: 2} }}".into(), End::Error(Type)),
    ];
    for (source, expected) in &attacks {
        let shown: String = source.chars().take(150).collect();
        let end = run(source);
        let is_budget = matches!(end, End::Limit(Memory | Instructions));
        assert!(end == *expected || (is_budget && *expected == End::Budget), "{shown}: {end:?}, not {expected:?}");
    }
    let used = peak_kilobytes().saturating_sub(start);
    println!("{} attacks, {} MB above the start", attacks.len(), used / 1024);
    assert!(used <= 64 * 1024, "used {used} kB");
}

/// The most memory that this process has had, where the system says it.
fn peak_kilobytes() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    line.and_then(|line| line.split_whitespace().nth(1)).and_then(|number| number.parse().ok()).unwrap_or(0)
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
