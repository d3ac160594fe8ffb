//! The analysis of a hostile template ends too, within the limits.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use rolecall_jinja::{ErrorKind, LimitKind, Limits, Template};

fn end_of(source: &str, limits: &Limits) -> Option<ErrorKind> {
    let template = Template::compile(source, &Limits::default()).unwrap();
    template.analyze(limits).err().map(|error| error.kind())
}

#[test]
fn hostile_templates_are_analyzed_or_refused() {
    // As little room as threads have.
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(analyze_hostile_templates).unwrap();
    thread.join().unwrap();
}

fn analyze_hostile_templates() {
    let names = |of: &dyn Fn(usize) -> String, count: usize| (0..count).map(of).collect::<String>();
    let small = [
        "{% set x = [x, x] %}".repeat(2000),
        "{% set x = {'a': x, 'b': x, 'c': [x]} %}".repeat(2000),
        format!("{{{{ a{} }}}}", ".b".repeat(100)),
        names(&|n| format!("{{% macro m{n}(a) %}}{{{{ m{}(a.k{n}) }}}}{{% endmacro %}}", n + 1), 500) + "{{ m0(x) }}",
        "{% for i in x recursive %}{{ loop([i, i.a, loop(i.b)]) }}{% endfor %}".repeat(100),
        "{% set ns = namespace() %}".to_owned() + &"{% set ns.x = [ns, ns.x, y.z] %}".repeat(1000),
        "{% if a %}{% set b = c %}{% endif %}".repeat(2000),
        "{% if a %}".repeat(40)
            + "{{ "
            + &"(".repeat(40)
            + "a"
            + &"|upper)".repeat(40)
            + " }}"
            + &"{% endif %}".repeat(40),
        "{% for b in a %}".repeat(140) + "{{ b }}" + &"{% endfor %}".repeat(140),
        ("{% set x = ".to_owned() + &"dict(a=".repeat(70) + "x" + &")".repeat(70) + " %}").repeat(35),
        "{% set x = dict(x, a=x, b=x, c=x, d=x, e=x, f=x) %}".repeat(300),
        names(
            &|n| {
                format!(
                    "{{% macro m{n}(a) %}}{{{{ m{}({{'k': a, 'l': [a, a.x{n}]}}) }}}}{{% endmacro %}}",
                    (n + 1) % 40
                )
            },
            40,
        ),
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}".into(),
    ];
    for source in &small {
        assert_eq!(end_of(source, &Limits::default()), None, "{}", &source[..source.len().min(100)]);
    }
    let large = names(&|n| format!("{{% set a{n} = [x, y] %}}"), 4000) + &"{% if a %}{% endif %}".repeat(4000);
    assert_eq!(end_of(&large, &Limits::default()), Some(ErrorKind::Limit(LimitKind::Instructions)));
}
