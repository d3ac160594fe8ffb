//! Templates that try to mislead or to run forever: nothing panics, and nothing is guessed.
#![expect(clippy::panic, reason = "a test fails by a panic, in its helpers too")]

use std::time::{Duration, Instant};

use rolecall_format::Slot;
use rolecall_infer::{InferredFormat, Limits, Outcome, TurnPart, infer, infer_within};
use rolecall_render::ChatTemplate;

fn compiled(source: &str) -> ChatTemplate {
    match ChatTemplate::compile(source, Vec::new()) {
        Ok(template) => template,
        Err(error) => panic!("{error}"),
    }
}

fn inferred(source: &str) -> InferredFormat {
    let start = Instant::now();
    let inferred = infer(&compiled(source));
    assert!(start.elapsed() < Duration::from_secs(20), "{source}");
    inferred
}

#[test]
fn what_the_template_writes_itself_is_no_value() {
    // The words of the probes, which anyone can read in this crate.
    let inferred = inferred(
        "{% for m in messages %}{% if m.role == 'assistant' %}<a>Wuzoka limbar. zorvex_map {\"zelq\": \"Plimtex\"} Jyxo pemtil.\
         {{ m.content }}</a>{% else %}<u>{{ m.content }}</u>{% endif %}{% endfor %}",
    );
    assert_eq!(inferred.format.layout(Slot::Call), None);
    let assistant = inferred.format.layout(Slot::Assistant).map(|layout| layout.ops().len());
    assert_eq!(assistant, Some(3));
    assert_eq!(inferred.report.outcome(TurnPart::Reasoning), Some(&Outcome::Absent));
}

#[test]
fn a_template_that_looks_at_what_is_said_is_not_trusted() {
    // The template writes calls one way for the words of the first probes, and another way for all
    // others.
    let inferred = inferred(
        "{% for m in messages %}{% if m.role == 'assistant' %}<a>{{ m.content }}{% for c in m.tool_calls or [] %}\
         {% if 'Plimtex' in c.function.arguments | tojson or 'Frizu' in c.function.arguments | tojson %}\
         <c>{{ c.function | tojson }}</c>{% else %}nothing to see{% endif %}{% endfor %}</a>{% else %}<u>{{ m.content }}</u>{% endif %}{% endfor %}",
    );
    assert_eq!(inferred.format.layout(Slot::Call), None);
    assert!(!matches!(inferred.report.outcome(TurnPart::Calls), Some(Outcome::Verified { .. })));
}

#[test]
fn endless_and_huge_ones_end() {
    let cases = [
        "{% for a in range(99999) %}{% for b in range(99999) %}{{ a }}{% endfor %}{% endfor %}",
        "{% for m in messages %}{{ m.content }}{{ 'x' * 200000 }}{% endfor %}",
        "{% for m in messages %}{% for a in range(9000) %}{% set b = a %}{% endfor %}<{{ m.role }}>{{ m.content }}{% endfor %}",
        "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}",
        "{% for m in messages %}{{ m.content * 500 }}{% endfor %}",
        "{% for m in messages %}{{ m }}{% endfor %}",
        "{{ messages | tojson }}",
        "{% for m in messages %}{{ m.content | reverse }}{% endfor %}",
        "{% for m in messages %}{{ m.content | upper }}{% endfor %}",
        "{% for m in messages | reverse %}{{ m.content }}{% endfor %}",
        "{{ messages[-1].content }}",
        "",
        "{{ raise_exception('never') }}",
        "{% for m in messages %}{% for c in m.content %}{{ c }}<{% endfor %}{% endfor %}",
        "{% for m in messages %}{{ m.content }}{{ m.content }}{{ m.tool_calls }}{% endfor %}",
        "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.id }}{{ c.function.name }}{{ c.function.name }}{% endfor %}{{ m.content }}{% endfor %}",
    ];
    for source in cases {
        let inferred = inferred(source);
        assert!(inferred.report.steps <= Limits::default().steps, "{source}");
    }
}

/// If the budget does not suffice to probe a template completely, nothing is inferred. Otherwise,
/// missing parts would look as if the template did not write them.
#[test]
fn a_budget_is_shared_and_nothing_is_inferred_without_enough_of_it() {
    let source = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls or [] %}<c>{{ c.function | tojson }}</c>{% endfor %}</s>{% endfor %}";
    let within = |steps| infer_within(&compiled(source), Limits { steps, ..Limits::default() });
    let whole = infer(&compiled(source));
    let needed = whole.report.steps;
    assert!(needed > 1000 && whole.report.error.is_none(), "{needed}");
    // Slightly more than the steps taken is enough, because the engine takes its steps in batches
    // of some thousand.
    assert_eq!(within(needed + 5000), whole);
    for steps in (0..=needed).step_by(needed as usize / 40).chain([needed]) {
        let inferred = within(steps);
        assert_eq!(inferred.format.layout(Slot::Assistant), None, "{steps} steps of {needed}");
        assert_eq!(inferred.report.parts.len(), TurnPart::ALL.len());
        let is_missing =
            |(_, outcome): &(TurnPart, Outcome)| matches!(outcome, Outcome::Missing(why) if why.contains("steps"));
        assert!(inferred.report.parts.iter().all(is_missing), "{:?}", inferred.report);
        assert_eq!(inferred.report.steps, steps);
        assert!(matches!(inferred.complete(), Err(error) if error.code() == "limit-probes"));
    }
}

#[test]
fn an_answer_that_hits_a_limit_is_an_error_and_a_refusal_is_none() {
    let looping = "{% for i in range(99999) %}{% endfor %}{% for m in messages %}{{ m.content }}{% endfor %}";
    assert!(matches!(infer(&compiled(looping)).complete(), Err(error) if error.code() == "limit-instructions"));
    let refusing = infer(&compiled("{{ raise_exception('never') }}")).complete();
    assert!(matches!(refusing, Ok(inferred) if inferred.format.layout(Slot::Assistant).is_none()));
}

#[test]
fn the_same_template_gives_the_same_layouts() {
    let source = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls or [] %}<c>{{ c.function | tojson }}</c>{% endfor %}</s>{% endfor %}";
    assert_eq!(infer(&compiled(source)), infer(&compiled(source)));
}
