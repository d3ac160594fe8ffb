//! The work of analyzing a template grows in proportion to its source. The shapes of template text
//! tested here once took minutes, or were written to find more such shapes. Each is tested at half
//! of the source limit and at the full limit.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::time::{Duration, Instant};

use rolecall_fixture::{say_skipped, shared};
use rolecall_infer::{Limits, infer};
use rolecall_parse::Reply;
use rolecall_render::{ChatTemplate, ProbeBudget, TemplateOptions, analyze_template_within};

/// The text around a shape, so that the template writes an answer.
const TURN: &str = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}";
const END: &str = "</s>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";

/// The maximum size of a template's source in bytes.
const MOST_BYTES: usize = 1 << 18;

/// The first such shape found: 60,000 literals in one expression.
const FIRST: &str = "literals in one expression";

/// Far longer than any of the shapes takes, and far shorter than the former quadratic behavior
/// took.
const MOST_TIME: Duration = Duration::from_secs(20);

/// A shape of template text: its name, the text before, the repeated text by its number, and the
/// text after.
type Shape = (&'static str, String, Box<dyn Fn(usize) -> String>, String);

fn shapes() -> Vec<Shape> {
    let chat = || format!("{TURN}{END}");
    let shape = |name, before: &str, piece: Box<dyn Fn(usize) -> String>, behind: &str| {
        (name, before.to_owned(), piece, behind.to_owned())
    };
    let same = |piece: &'static str| -> Box<dyn Fn(usize) -> String> { Box::new(move |_| piece.to_owned()) };
    // The number of distinct names is limited.
    let named = |piece: fn(usize) -> String| -> Box<dyn Fn(usize) -> String> { Box::new(move |n| piece(n % 3900)) };
    vec![
        shape(FIRST, "{{ ", same("'a'~"), &format!("'a' }}}}{}", chat())),
        shape("literals between comments", "", same("a{##}"), &chat()),
        shape("literals in the assistant's turn", TURN, same("{{'a'}}"), END),
        shape("literals with characters of many bytes", "", same("é{{ 'é' }}"), &chat()),
        shape("blocks that capture", "", same("{% filter trim %}x{% endfilter %}"), &chat()),
        shape("generation blocks", "", same("{% generation %}x{% endgeneration %}"), &chat()),
        shape("variables", "", named(|n| format!("{{{{ a{n} }}}}")), &chat()),
        shape("variables that are set", "", named(|n| format!("{{% set a{n} = x %}}")), &chat()),
        shape("variables that are compared", "", named(|n| format!("{{% if a{n} %}}{{% endif %}}")), &chat()),
        shape("values of one switch", "", Box::new(|n| format!("{{% if s=='v{n}' %}}{{% endif %}}")), &chat()),
        shape(
            "macros",
            "",
            named(|n| format!("{{% macro m{n}(a) %}}{{{{ a }}}}{{% endmacro %}}{{{{ m{n}(b) }}}}")),
            &chat(),
        ),
        shape("nested blocks", "", Box::new(|_| "{% if a %}".repeat(60) + &"{% endif %}".repeat(60)), &chat()),
        shape(
            "branches that a message decides",
            TURN,
            Box::new(|n| format!("{{% if 'x{n}' in m.content %}}y{{% endif %}}")),
            END,
        ),
        shape(
            "branches of one condition",
            &format!("{TURN}{{% if a %}}"),
            Box::new(|n| format!("{{% elif m.role=='x{n}' %}}y")),
            &format!("{{% endif %}}{END}"),
        ),
        shape("loops over messages", "", same("{% for m in messages %}{{ m.content }}{% endfor %}"), &chat()),
        shape("loops over tools", "", same("{% for t in tools or [] %}{{ t|tojson }}{% endfor %}"), &chat()),
        shape(
            "a long text read by its characters",
            "{% set x %}",
            same("xy\n"),
            &format!("{{% endset %}}{{% for c in x[-9000:] %}}{{{{ c }}}}|{{% endfor %}}{}", chat()),
        ),
        shape(
            "a long opening of markers",
            &format!("{TURN}</s>{{% endfor %}}{{% if add_generation_prompt %}}"),
            same("<think>"),
            "  {% endif %}",
        ),
        shape(
            "a long opening of half markers",
            &format!("{TURN}</s>{{% endfor %}}{{% if add_generation_prompt %}}"),
            same("<"),
            "{% endif %}",
        ),
        shape("a list", "{{ [", same("a,"), &format!("a] }}}}{}", chat())),
    ]
}

/// Returns a shape of up to `bytes` bytes.
fn text((_, before, piece, behind): &Shape, bytes: usize) -> String {
    let mut text = before.clone();
    for number in 0.. {
        let next = piece(number);
        if text.len() + next.len() + behind.len() > bytes {
            break;
        }
        text.push_str(&next);
    }
    text + behind
}

#[test]
fn every_shape_stays_within_the_budget_and_in_time() {
    for shape in shapes() {
        let name = shape.0;
        // A debug build is slow. One shape suffices to show that a source of the maximum size does
        // not take minutes.
        let is_small = cfg!(debug_assertions) && name != FIRST;
        let most = if is_small { MOST_BYTES / 4 } else { MOST_BYTES };
        for bytes in [most / 2, most] {
            let source = text(&shape, bytes);
            assert!(source.len() > bytes * 9 / 10, "{name}: {} bytes", source.len());
            let start = Instant::now();
            let template = ChatTemplate::compile(&source, Vec::new()).unwrap_or_else(|error| panic!("{name}: {error}"));
            let budget = ProbeBudget::default();
            let analysis = analyze_template_within(&template, &TemplateOptions::default(), &budget);
            if let Err(error) = analysis {
                assert!(error.code().starts_with("limit-"), "{name}: {error}");
            }
            let inferred = infer(&template);
            assert!(inferred.report.steps <= Limits::default().steps, "{name}");
            let _ = Reply::new(&inferred.format);
            assert!(start.elapsed() < MOST_TIME, "{name} of {bytes} bytes took {:?}", start.elapsed());
        }
    }
}

/// Layouts of the longest turn that is considered, made of text that a layout's parser searches
/// for.
#[test]
fn a_turn_of_brackets_and_braces_is_inferred_and_read_in_time() {
    let call = |before: &str, behind: &str| {
        format!(
            "{TURN}{{% for c in m.tool_calls or [] %}}{before}{{{{ c.function.name }}}}{{{{ c.function.arguments|tojson }}}}{behind}\
             {{% endfor %}}{END}"
        )
    };
    let sources = [
        call(&"{ ".repeat(950), &"}".repeat(1900)),
        call(&format!("{{{{ '{}' }}}}", "{".repeat(1900)), &"} ".repeat(900)),
        call(&"{\"a\":".repeat(600), &"}".repeat(600)),
        call(&"<".repeat(1900), &">".repeat(1900)),
        call(&"- ".repeat(900), &"- ".repeat(900)),
        call(&"[A]".repeat(600), &"[/A]".repeat(450)),
        call(&"zorvex_map ".repeat(180), &"Plimtex ".repeat(200)),
    ];
    for source in sources {
        let start = Instant::now();
        let inferred = infer(&ChatTemplate::compile(&source, Vec::new()).unwrap());
        let _ = Reply::new(&inferred.format);
        assert!(start.elapsed() < MOST_TIME, "{}", &source[..200]);
    }
}

/// The reference templates, if present, each leave most of the budget unused.
#[test]
fn real_templates_take_a_part_of_the_budget() {
    let Some(folder) = shared() else {
        return say_skipped("no real template was checked against the budget");
    };
    let entries = std::fs::read_dir(folder.join("templates")).expect("references have templates");
    let mut count = 0;
    for entry in entries.filter_map(Result::ok) {
        let path = entry.path();
        if path.extension().is_none_or(|extension| extension != "jinja") {
            continue;
        }
        let Ok(template) = ChatTemplate::compile(&std::fs::read_to_string(&path).unwrap(), Vec::new()) else {
            continue;
        };
        let budget = ProbeBudget::default();
        let analysis = analyze_template_within(&template, &TemplateOptions::default(), &budget);
        assert!(analysis.is_ok(), "{}: {analysis:?}", path.display());
        let inferred = infer(&template).complete().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let most = budget.spent().max(inferred.report.steps);
        assert!(most < ProbeBudget::USUAL / 3, "{} takes {most} steps", path.display());
        count += 1;
    }
    assert!(count > 100, "only {count} templates");
}
