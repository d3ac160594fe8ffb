//! Checks that each piece of a long text is, byte for byte, the part of an input or literal that
//! its origin states.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::collections::HashMap;

use crate::common::JsonInputs;
use rolecall_conversation::json::{Json, Object};
use rolecall_jinja::{Context, Environment, Limits, Origin, Output, Tag, Template};

/// The operations applied to a long text `a`, and to one in the template, `{{ l }}`.
const TEMPLATES: [&str; 26] = [
    "{{ a }}",
    "{{ a[45:] }}{{ a[:-45] }}{{ a[200:260] }}{{ a[-41:-1] }}",
    "{% for c in a %}{{ c }}|{% endfor %}",
    "{% for c in a %}{{ c }}{% endfor %}",
    "{% for w in a.split(' ') %}[{{ w }}]{% endfor %}",
    "{% for w in a.split() %}{{ w }}{% if not loop.last %} {% endif %}{% endfor %}",
    "{% for w in a.rsplit(' ', 9) %}[{{ w }}]{% endfor %}",
    "{% for l in a.splitlines(true) %}{{ l }}{% endfor %}",
    "{{ a.split('mark')[1] }}{{ a.split('mark')[-1] }}",
    "{{ a.partition('mark')[2] }}{{ a.rpartition('mark')[0] }}",
    "{{ a.replace('mark', '-') }}{{ a | replace('o', '0') }}{{ a.replace('e', '') }}",
    "{{ a.strip() }}{{ a | trim }}{{ a.lstrip() }}{{ a.rstrip('. \n') }}",
    "{{ a.removeprefix('  The') }}{{ a.removesuffix('.\n ') }}",
    "{{ a ~ a[50:60] ~ 'long literal of the template, more than forty bytes of it' ~ a[60:] }}",
    "{{ (a ~ '+' ~ a)[300:900] }}",
    "{{ [a[40:80], a[80:120]] | join(' and ') }}",
    "{{ (a ~ a).split('mark')[3] }}",
    "{{ a | indent(4) }}{{ a | wordwrap(30) }}{{ a | truncate(100) }}{{ a | e }}",
    "{% set x %}{{ a }}{{ a[70:] }}{% endset %}{{ x }}{{ x[90:] }}{{ x.split('mark')[2] }}",
    "{% macro m(t) %}<{{ t[44:] }}>{% endmacro %}{{ m(a) }}{{ m(a)[50:] }}",
    "{{ a | batch(50) | first | join }}{{ a[::-1] }}{{ a[::2] }}{{ a | reverse }}",
    "{{ '%s and %s' % (a, a[50:]) }}{{ '{} {}'.format(a[60:], a) }}",
    "{{ {'k': a, 'l': [a[55:]]} | tojson }}{{ [a] }}{{ a.upper() }}{{ a.title() }}",
    "{% set l = 'A literal that is longer than forty bytes, with many words in it.' %}{{ l }}{{ l[41:] }}{{ l.split('many')[1] }}\
     {% for c in l %}{{ c }}|{% endfor %}{{ l.replace('words', a) }}{{ (l ~ l)[60:80] }}",
    "{% set d %}Text between tags that is longer than forty bytes, é日本, and more of it.{% endset %}{{ d }}{{ d[41:] }}\
     {{ d.split('é')[1] }}{{ d | trim }}{{ d | replace('more', 'less') }}",
    "{{ m.content[41:] }}{{ m.content.split('mark')[1].strip() }}{{ m['content'] | trim }}{% for k, v in m.items() %}{{ k }}{{ v[43:] }}{% endfor %}",
];

fn text() -> String {
    let words: String = (0..60).map(|n| format!("word{n} été 日本 mark <o> & \"q\" ")).collect();
    format!("  The text {words}\nsecond line with more than forty bytes in it\n\nthe end.\n ")
}

#[test]
fn every_known_offset_of_a_long_text_is_right() {
    let a = Json::from(text());
    let content = Json::from(text());
    let mut object = Object::new();
    object.insert("content", content);
    let m = Json::Object(object);
    let mut texts: HashMap<Tag, &str> = HashMap::new();
    texts.insert(Tag::of(&a), a.as_str().unwrap());
    let inner = m.as_object().unwrap().get("content").unwrap();
    texts.insert(Tag::of(inner), inner.as_str().unwrap());
    texts.insert(Tag(Tag::of(inner).0 + 1), "content");
    let (mut far, mut unknown) = (0, 0);
    for source in TEMPLATES {
        let template =
            Template::compile(source, &Limits::default()).unwrap_or_else(|error| panic!("{source}: {error}"));
        let mut context = Context::reading(&JsonInputs);
        context.set("a", &a);
        context.set("m", &m);
        let output = template.render(&context, &Environment::default());
        let output = output.unwrap_or_else(|error| panic!("{source}: {error}"));
        let joined: String = output.pieces().map(|piece| piece.text).collect();
        assert_eq!(joined, output.text(), "{source}");
        let (known, not) = check(&output, &texts, source);
        far += known;
        unknown += not;
    }
    // Most offsets are far from the start, and known offsets are not lost.
    assert!(far > 3000, "only {far} pieces start after byte 40");
    assert!(unknown < far, "{unknown} pieces have an unknown offset, {far} a known one");
}

/// Returns how many pieces start after byte 40 of their text, and how many have an unknown offset.
fn check(output: &Output, texts: &HashMap<Tag, &str>, source: &str) -> (usize, usize) {
    let (mut far, mut unknown) = (0, 0);
    for piece in output.pieces() {
        let (whole, offset) = match piece.origin {
            Origin::Input { tag, offset } => (texts.get(&tag).copied(), offset),
            Origin::Literal { id, offset } => (output.literal(id).map(|literal| literal.text), offset),
            Origin::Engine => continue,
        };
        let whole = whole.unwrap_or_else(|| panic!("{source}: {piece:?} has an unknown origin"));
        match offset.get() {
            Some(at) => {
                assert_eq!(whole.get(at..at + piece.text.len()), Some(piece.text), "{source}: {piece:?}");
                far += usize::from(at > 40);
            }
            None => unknown += 1,
        }
    }
    (far, unknown)
}

#[test]
fn pieces_that_go_on_where_the_last_one_ends_are_one() {
    let a = Json::from(text());
    let mut context = Context::reading(&JsonInputs);
    context.set("a", &a);
    let pieces = |source: &str| {
        let template = Template::compile(source, &Limits::default()).unwrap();
        let output = template.render(&context, &Environment::default()).unwrap();
        assert_eq!(output.text(), a.as_str().unwrap(), "{source}");
        output.pieces().count()
    };
    // However the text was cut, its pieces are merged into one again, even far after byte 40.
    assert_eq!(pieces("{{ a[:50] }}{{ a[50:300] }}{{ a[300:] }}"), 1);
    assert_eq!(pieces("{% set x = a[:41] ~ a[41:] %}{{ x }}"), 1);
}

#[test]
fn a_literal_knows_its_place_in_the_source() {
    let source = "é\n  {{ 'b' }}{#\n#} c\n{{ \"d\ne\" }}";
    let template = Template::compile(source, &Limits::default()).unwrap();
    let output = template.render(&Context::new(), &Environment::default()).unwrap();
    let places = output.pieces().map(|piece| {
        let Origin::Literal { id, .. } = piece.origin else { panic!("{piece:?}") };
        let (literal, other) = (output.literal(id).unwrap(), template.literal(id).unwrap());
        assert_eq!(literal, other);
        let (place, spot) = (literal.place(), template.spot(literal.offset));
        assert_eq!((place.line, place.column, place.offset), (spot.line, spot.column, literal.offset));
        (literal.text.to_owned(), literal.is_data, place.line, place.column, literal.offset)
    });
    let found: Vec<_> = places.collect();
    let expected =
        [("é\n  ", true, 1, 1, 0), ("b", false, 2, 6, 8), (" c\n", true, 3, 3, 19), ("d\ne", false, 4, 4, 25)];
    let expected =
        expected.map(|(text, is_data, line, column, offset)| (text.to_owned(), is_data, line, column, offset));
    assert_eq!(found, expected);
}

#[test]
fn steps_are_told_of_what_ends_well_and_of_what_does_not() {
    let steps = |source: &str, instructions: u64| {
        let mut limits = Limits::default();
        limits.instructions = instructions;
        let environment = Environment { limits, ..Environment::default() };
        let template = Template::compile(source, &Limits::default()).unwrap();
        template.render(&Context::new(), &environment).map(|output| output.steps()).map_err(|error| error.steps())
    };
    let one = steps("{% for i in range(100) %}x{% endfor %}", 1_000_000).unwrap();
    let two = steps("{% for i in range(200) %}x{% endfor %}", 1_000_000).unwrap();
    let three = steps("{% for i in range(300) %}x{% endfor %}", 1_000_000).unwrap();
    assert!(one > 100 && two > one, "{one} {two}");
    assert_eq!(three - two, two - one);
    // The steps taken do not exceed the limit, and equal it if the limit was hit.
    assert_eq!(steps("{% for i in range(300) %}x{% endfor %}", two), Err(two));
    assert_eq!(steps("{% for i in range(200) %}x{% endfor %}", two), Ok(two));
    assert_eq!(
        steps("{% for i in range(200) %}x{% endfor %}{{ raise_exception('x') }}", 1_000_000).map_err(|s| s > two),
        Err(true)
    );
    // Processed bytes count, too.
    assert!(steps("{{ 'x' * 160000 }}", 1_000_000).unwrap() > 10_000);
}

#[test]
fn generation_spans_count_characters_wherever_they_stand() {
    let source = "é{% generation %}日本{% endgeneration %}ü{% macro m() %}{% generation %}ab{% endgeneration %}{% endmacro %}{{ m() }}{{ m() }}\
        {% generation %}c{% generation %}d{% endgeneration %}{% endgeneration %}";
    let template = Template::compile(source, &Limits::default()).unwrap();
    let output = template.render(&Context::new(), &Environment::default()).unwrap();
    assert_eq!(output.text(), "é日本üababcd");
    assert_eq!(output.generation_spans(), [1..3, 4..6, 6..8, 9..10, 8..10]);
}
