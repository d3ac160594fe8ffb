//! Checks that the analysis of hostile templates stays within the limits.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use rolecall_jinja::{ErrorKind, LimitKind, Limits, Template, Use};

fn end_of(source: &str, limits: &Limits) -> Option<ErrorKind> {
    let template = Template::compile(source, &Limits::default()).unwrap();
    template.analyze(limits).err().map(|error| error.kind())
}

#[test]
fn hostile_templates_are_analyzed_or_refused() {
    // The default stack size of a thread.
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
    // For many variables and branches, the work is proportional to their number. Exponential growth
    // ends at the limit.
    let large = names(&|n| format!("{{% set a{n} = [x, y] %}}"), 4000) + &"{% if a %}{% endif %}".repeat(4000);
    assert_eq!(end_of(&large, &Limits::default()), None);
    let growing = "{% set x = [x, x] %}".repeat(12_000);
    assert_eq!(end_of(&growing, &Limits::default()), Some(ErrorKind::Limit(LimitKind::Instructions)));
}

/// Returns the number of values examined for a template that repeats a piece.
fn steps_of(piece: &dyn Fn(usize) -> String, count: usize) -> u64 {
    let source: String = (0..count).map(piece).collect();
    let analysis = Template::compile(&source, &Limits::default()).unwrap().analyze(&Limits::default());
    analysis.unwrap_or_else(|error| panic!("{error}: {}", piece(0))).steps
}

#[test]
fn the_work_grows_as_the_template_does() {
    let pieces: [&dyn Fn(usize) -> String; 8] = [
        &|n| format!("{{% set a{n} = x %}}"),
        &|n| format!("{{{{ a{n} }}}}"),
        &|n| format!("{{% if a{n} == 'v{n}' %}}{{% set b{n} = a{n} %}}{{% endif %}}"),
        &|n| format!("{{% set b = b{n} %}}{{% if a %}}{{% set c = b %}}{{% else %}}{{% set d = c %}}{{% endif %}}"),
        &|n| format!("{{% macro m{n}(a) %}}{{{{ a }}}}{{% endmacro %}}{{{{ m{n}(b) }}}}"),
        &|n| format!("{{% if 'x{n}' in messages[0].content %}}y{{% endif %}}"),
        &|n| format!("{{% for x in y %}}{{% set z{n} = x %}}{{{{ range(1) }}}}{{% endfor %}}"),
        &|_| "{{ 'a' ~ 'b' }}c".to_owned(),
    ];
    for piece in pieces {
        let (one, two) = (steps_of(piece, 900), steps_of(piece, 1800));
        assert!(two <= one * 9 / 4, "{}: {one} for 900, {two} for 1800", piece(0));
    }
}

#[test]
fn a_branch_sees_what_was_set_before_it_and_not_what_the_other_set() {
    let reads = |source: &str| {
        let analysis = Template::compile(source, &Limits::default()).unwrap().analyze(&Limits::default()).unwrap();
        let printed = analysis.reads.into_iter().filter(|read| read.uses.iter().any(|(how, _)| *how == Use::Printed));
        printed.map(|read| read.path.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(reads("{% set a = x %}{% if t %}{% set a = y %}{% else %}{{ a }}{% endif %}"), ["x"]);
    assert_eq!(reads("{% set a = x %}{% if t %}{% set a = y %}{% endif %}{{ a }}"), ["x", "y"]);
    assert_eq!(reads("{% if t %}{% set a = y %}{% else %}{% set a = z %}{% endif %}{{ a }}"), ["y", "z"]);
    assert_eq!(
        reads("{% if t %}{% set a = y %}{% elif u %}{% else %}{% set a = z %}{% endif %}{{ a }}"),
        ["a", "y", "z"]
    );
    assert_eq!(reads("{% set a = x %}{% if t %}{% if u %}{% set a = y %}{% endif %}{{ a }}{% endif %}"), ["x", "y"]);
    // A macro sees the outermost names as they come to be, those that a branch sets too, and no
    // other part's.
    assert_eq!(reads("{% macro m() %}{{ a }}{% endmacro %}{% if t %}{% set a = x %}{% endif %}{{ m() }}"), ["a", "x"]);
    assert_eq!(
        reads(
            "{% macro m() %}{{ a }}{% endmacro %}{% for i in l %}{% if t %}{% set a = x %}{% endif %}{{ m() }}{% endfor %}"
        ),
        ["a"]
    );
}
