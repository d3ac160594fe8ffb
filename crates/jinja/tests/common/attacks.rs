//! The hostile templates, with the expected outcome of each.

use super::usage::{cpu_time, peak_kilobytes, slowness};
use rolecall_jinja::{Context, DateTime, Environment, Error, ErrorKind, Input, LimitKind, Limits, Template};

/// The outcome of an attack: a limit, another error, or success.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum End {
    Limit(LimitKind),
    /// Memory or time, whichever runs out first.
    Budget,
    Error(ErrorKind),
    Text,
}

impl End {
    /// Reports whether the outcome found is the expected one.
    pub fn is_shown_as(self, found: &str) -> bool {
        let is_budget = matches!(found, "Limit(Memory)" | "Limit(Instructions)" | "Limit(Output)");
        // Debug builds allow fewer steps, so steps may run out before memory does.
        let any_budget = self == End::Budget || (cfg!(debug_assertions) && matches!(self, End::Limit(_) | End::Text));
        found == format!("{self:?}") || (any_budget && is_budget)
    }
}

/// A template and its expected outcome.
pub type Attack = (String, End);

/// Compiles and renders a template with the variables that the attacks use.
pub fn run(source: &str) -> End {
    let name = Input::from("x");
    let messages = Input::list((0..100).map(|_| Input::from("message")));
    let text = Input::from(&*"a b\n".repeat(50_000));
    let mut context = Context::new();
    context.set("a", &name).set("messages", &messages).set("text", &text);
    let now = DateTime { year: 2026, month: 11, day: 21, hour: 12, minute: 34, second: 56, microsecond: 0 };
    let mut limits = Limits::default();
    if cfg!(debug_assertions) {
        // Debug builds take twenty times as long, with the same outcome.
        limits.instructions /= 10;
    }
    let environment = Environment { limits, clock: Some(&now), ..Environment::default() };
    let rendered =
        Template::compile(source, &Limits::default()).and_then(|template| template.render(&context, &environment));
    match rendered.map_err(|error: Error| error.kind()) {
        Ok(_) => End::Text,
        Err(ErrorKind::Limit(limit)) => End::Limit(limit),
        Err(kind) => End::Error(kind),
    }
}

/// Runs an attack and reports the CPU time in milliseconds (normalized to an idle machine), the
/// memory above the start in megabytes, and the outcome.
pub fn measure(source: &str) -> String {
    let (start, before) = (peak_kilobytes(), cpu_time());
    let end = run(source);
    let milliseconds = (cpu_time() - before).as_secs_f64() * 1e3;
    let megabytes = peak_kilobytes().saturating_sub(start) as f64 / 1024.0;
    let milliseconds = milliseconds / slowness();
    format!("{milliseconds:.1} {megabytes:.1} {end:?}")
}

/// Abbreviates a template for messages.
pub fn shown(source: &str) -> String {
    let characters: Vec<char> = source.chars().collect();
    let (head, tail) = (characters.len().min(110), characters.len().saturating_sub(60).max(110));
    let part = |range: std::ops::Range<usize>| characters.get(range).unwrap_or(&[]).iter().collect::<String>();
    let shown = format!("{} .. {}", part(0..head), part(tail..characters.len()));
    shown
        .replace("{% for i in range(100000) %}{% for j in range(100000) %}", "")
        .replace("{% endfor %}{% endfor %}", "")
}

/// Repeats a body until a budget runs out.
fn repeated(setup: &str, body: &str) -> Attack {
    let source = format!(
        "{setup}{{% for i in range(100000) %}}{{% for j in range(100000) %}}{body}{{% endfor %}}{{% endfor %}}"
    );
    (source, End::Budget)
}

/// Evaluates an expression until a budget runs out, without keeping its values.
fn computed(setup: &str, expression: &str) -> Attack {
    repeated(setup, &format!("{{% set x = {expression} %}}"))
}

/// Returns all two-letter names that start with a capital letter, separated by commas.
fn short_names() -> String {
    let letters = || ('A'..='Z').chain('a'..='z');
    let names = ('A'..='Z').flat_map(|first| letters().map(move |second| format!("{first}{second}")));
    names.collect::<Vec<_>>().join(",")
}

// Long: a table with one row for each attack.
pub fn attacks() -> Vec<Attack> {
    use ErrorKind::{Syntax, Type, Undefined, Unsupported};
    use LimitKind::{Depth, Digits, Instructions, Integer, Memory, Nesting, Range, Recursion, Source};
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
    let mut attacks: Vec<Attack> = vec![
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
        // Sizes given in the template.
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
        ("{{ [1]|tojson(indent=10**9) }}".into(), End::Budget),
        ("{{ [1]|batch(10**9, 1)|list }}".into(), End::Limit(Instructions)),
        ("{{ (['a' * 1000] * 10000)|join('b' * 10000) }}".into(), End::Budget),
        ("{{ range(10**9) }}".into(), End::Limit(Range)),
        ("{{ 10**(10**10) }}".into(), End::Limit(Integer)),
        ("{{ 10 ** 5000 }}".into(), End::Limit(Digits)),
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
        (format!("{{{{ {} }}}}", nested("(", ")", 100_000)), End::Limit(Nesting)),
        (format!("{{{{ {} }}}}", nested("[", "]", 100_000)), End::Limit(Nesting)),
        (format!("{{{{ {} }}}}", nested("-", "", 200_000)), End::Limit(Nesting)),
        (format!("{{{{ {} }}}}", nested("not ", "", 60_000)), End::Limit(Nesting)),
        (format!("{{{{ a{} }}}}", ".b".repeat(100_000)), End::Limit(Nesting)),
        (format!("{{{{ a{} }}}}", "|upper".repeat(40_000)), End::Limit(Nesting)),
        (format!("{{{{ 1{} }}}}", " if 1 else 1".repeat(20_000)), End::Limit(Nesting)),
        ("{% if 1 %}".repeat(20_000), End::Limit(Nesting)),
        (format!("{{{{ 1{} }}}}", "+1".repeat(120_000)), End::Text),
        (format!("{{{{ 1{} }}}}", "<1".repeat(100_000)), End::Text),
        (format!("{{{{ {} }}}}", (0..50_000).map(|n| format!("a{n}")).collect::<Vec<_>>().join("+")), End::Limit(Source)),
        ("a".repeat(2_000_000), End::Limit(Source)),
        (format!("{{{{ {} }}}}", "9".repeat(100_000)), End::Limit(Digits)),
        ("{#".repeat(100_000), End::Error(Syntax)),
        ("{% raw %}".to_owned() + &"{% endra".repeat(30_000), End::Error(Syntax)),
        // Many small values.
        ("{% for i in range(100000) %}{% for j in range(3) %}a{% endfor %}{% endfor %}".into(), End::Text),
        ("{% for i in range(100000) %}{% for j in range(100) %}{% set n = namespace(a=1) %}{% endfor %}{% endfor %}".into(), End::Budget),
        (format!("{{{{ '{{0{}}}'.format(1) }}}}", ".a".repeat(100_000)), End::Error(Undefined)),
        ("{{ {[1]: 2} }}".into(), End::Error(Type)),
    ];
    let long = "{% set s = 'ab \\n' * 200000 %}";
    let many = "{% set l = range(50000)|list %}";
    let spread = "{% set s = ('ab' * 20000).replace('b', a) %}";
    // Repeated work on large values.
    for expression in [
        "s.isalpha()",
        "s.isspace()",
        "s.islower()",
        "s.istitle()",
        "s.isidentifier()",
        "s is lower",
        "s is upper",
        "s.startswith(s)",
        "s.endswith(s)",
        "s.startswith('b', -1)",
        "s.removeprefix('ab')",
        "s.removesuffix('\\n')",
        "s.zfill(1)",
        "s.expandtabs()",
        "s.upper()",
        "s.title()",
        "s|title",
        "s.swapcase()",
        "s.casefold()",
        "s.capitalize()",
        "s.find('zz')",
        "s.rfind('zz')",
        "'a'.find(s)",
        "'a'.replace(s, '')",
        "'a'.count(s)",
        "'a'.split(s)",
        "'a'.partition(s)",
        "s.count('b')",
        "s.count('')",
        "s.replace('b', 'c')",
        "s.replace('', '')",
        "s.split()",
        "s.rsplit()",
        "s.split('b')",
        "s.split('b', 1)",
        "s.splitlines()",
        "s.strip(s)",
        "s.lstrip('ab \\n')",
        "s.partition('zz')",
        "s.translate({98: 'c'})",
        "s|wordcount",
        "s|wordwrap(5)",
        "s|wordwrap(100000)",
        "s|indent(1)",
        "s|truncate(9)",
        "s|center(900000)",
        "s|striptags",
        "s|urlencode",
        "s|e",
        "s|tojson",
        "s|tojson(ensure_ascii=true)",
        "[s]|string",
        "s|list",
        "s|reverse",
        "s|first",
        "s|last",
        "s|length",
        "s[1:]",
        "s[::-1]",
        "s[::2]",
        "s[5000]",
        "s == s ~ ''",
        "s < s ~ ''",
        "'zz' in s",
        "s ~ s",
        "s + s",
        "'%s' % s",
        "'%5s' % s",
        "'{}'.format(s)",
        "'{:>9}'.format(s)",
        "s % ()",
        "s.format()",
        "s|float",
        "{s: 1}",
        "{}[s] is defined",
        "{}[s]",
        "s|attr(s)",
        "s.join(['', ''])",
        "['', '', '']|join(s)",
        "s|trim(s)",
        "s|unique|list",
        "s|sort",
        "strftime_now(s)",
        "strftime_now('%c' * 1000)",
        "s|select('in', s)|list",
        "s|map('upper')|list",
    ] {
        attacks.push(computed(long, expression));
    }
    for expression in [
        "s.upper()",
        "s.title()",
        "s|e",
        "s|tojson",
        "[s]|string",
        "s|urlencode",
        "s[1:]",
        "s ~ 'a'",
        "s.replace('a', 'b')",
        "s.strip('a')",
        "s|list",
        "s.split('a')",
        "s|indent",
        "s|wordwrap",
        "s == s ~ ''",
        "s|safe",
    ] {
        attacks.push(computed(spread, expression));
    }
    for expression in [
        "l|sort",
        "l|sort(reverse=true)",
        "l|unique|list",
        "l|map('string')|list",
        "l|map('string')|sort",
        "l|groupby('real')",
        "l|sum",
        "l|max",
        "l|batch(3)|list",
        "l|slice(9)|list",
        "l|reverse|list",
        "l|tojson",
        "l|string",
        "l|join",
        "l|first",
        "l|last",
        "l + l",
        "l * 2",
        "l[1:]",
        "l[::-1]",
        "l[::2]",
        "-1 in l",
        "l.count(1)",
        "l == l + []",
        "l < l + []",
        "dict.fromkeys(l)",
        "dict(l|batch(2))",
        "l|select('odd')|list",
        "l|reject('in', l)|list",
        "l|map('default')|first",
        "dict.fromkeys(l)|dictsort",
        "dict.fromkeys(l)|items|list",
        "dict.fromkeys(l)|tojson(sort_keys=true)",
        "dict.fromkeys(l).values()|list",
        "l|tojson(indent=1)",
        "l|tojson(separators=('a' * 1000, 'b'))",
        "l|tojson(indent='a' * 100)",
        "l|join('a' * 200)",
        "l|list|unique|sort|join|length",
        "l|map('list')",
        "[l, l]|map('unique')|map('list')|list",
        "[[l]]|tojson",
        "'%s' % [l]",
        "cycler(*l)",
        "namespace(dict.fromkeys(l))",
        "l|map(attribute='real')|list",
        "l|min(attribute='real')",
        "l is eq(l + [])",
    ] {
        attacks.push(computed(many, expression));
    }
    let lists = "{% set l = [[1, 2, 'a'] * 20] * 2000 %}";
    for expression in [
        "l|sort",
        "l|groupby(0)",
        "l|sum(start=[])|length",
        "l|map('join')|list",
        "l in [l + []]",
        "l|map('string')|unique|list",
    ] {
        attacks.push(computed(lists, expression));
    }
    let numbers = "{% set n = 7 ** 20000 %}{% set m = n + 1 %}{% set l = [n] * 50000 %}{% set d = '9' * 4000 %}{% set b = 'f' * 16000 %}";
    for expression in [
        "7 ** 20000",
        "n * 3",
        "n // 3",
        "n % m",
        "n + 1",
        "m - n",
        "n == m",
        "n < m",
        "-1 in l",
        "m in l",
        "l|unique|list",
        "l|sort|length",
        "l|sum",
        "d|int",
        "b|int(0, 16)",
        "b|int(0, 36)",
        "'%x' % n",
        "'{:b}'.format(n)",
        "'{:x}'.format(n)",
        "(d|int)|string",
        "'{:,}'.format(d|int)",
        "{n: 1}",
        "n|abs",
        "-n",
        "n|round(-1)",
        "n|float if 0 else n / m",
        "1.5|round(300)",
        "'%.60000f' % 1.5",
        "'%.100000f' % 1.5",
        "'{:.100000f}'.format(1.5)",
        "'{:099999,}'.format(1)",
        "1e308|string",
        "2.5 ** 3.5",
        "n.bit_count()",
        "n is odd",
        "n is divisibleby 3",
    ] {
        attacks.push(computed(numbers, expression));
    }
    // Retained values: nothing may use more memory than it is charged for.
    for item in [
        "range(1)",
        "range",
        "i.real",
        "'a'.upper",
        "{}.items()",
        "[1]|map('string')",
        "cycler(1)",
        "joiner()",
        "7 ** 20000 + i",
        "{}['k' ~ i]",
        "namespace()",
        "'a' ~ i",
        "(i,)",
        "{'a': i}",
        "loop",
        "i|string|list",
        "[i]|reverse",
        "('a' * 9000)|map('upper')",
        "{}[text]",
        "1.5",
        "text[i:]",
    ] {
        let tail =
            "{% for k in range(5) %}{% set ns.l = [ns.l, ns.l[1:]] if ns.l|length > 9 else ns.l + ns.l %}{% endfor %}";
        let kept = format!(
            "{{% set ns = namespace(l=[]) %}}{{% for i in range(1000) %}}{{% set ns.l = [{}] + ns.l %}}{{% endfor %}}{{% if 0 %}}{tail}{{% endif %}}{{% for i in range(100) %}}{{% set ns.x = [ns.x, ns.l|list] %}}{{% endfor %}}",
            vec![item; 200].join(", ")
        );
        attacks.push((kept, End::Budget));
        let computed = format!(
            "{{% set ns = namespace(l=[], d=0) %}}{{% for i in range(100000) %}}{{% set ns.l = [{}, ns.l if ns.d < 150 else 0] %}}{{% set ns.d = ns.d + 1 if ns.d < 150 else 0 %}}{{% if ns.d == 0 %}}{{% set ns.k = (ns.k or []) + [ns.l] %}}{{% endif %}}{{% endfor %}}",
            vec![item; 20].join(", ")
        );
        attacks.push((computed, End::Budget));
    }
    // Operations that need memory only for auxiliary lists.
    for (setup, expression) in [
        ("{% set s = '\\n' * 10000000 %}", "s|indent"),
        ("{% set s = '\\n' * 10000000 %}", "s|wordwrap"),
        ("{% set s = '\\n' * 10000000 %}", "s.splitlines()"),
        ("{% set s = 'a ' * 5000000 %}", "s.split()"),
        ("{% set s = 'a ' * 5000000 %}", "s.rsplit()"),
        ("{% set s = 'a ' * 5000000 %}", "s|wordwrap"),
        ("{% set s = '<>' * 5000000 %}", "s|striptags"),
        ("{% set s = 'a' * 10000000 %}", "s[::2]"),
        ("{% set s = 'a' * 10000000 %}", "s[::-2]"),
        ("{% set s = '9' * 10000000 %}", "s|float"),
        ("{% set s = '9' * 10000000 %}", "'%s%s' % (s, s)"),
        ("{% set s = 'É' * 5000000 %}", "s.title()"),
        ("{% set s = 'É' * 5000000 %}", "s.upper()"),
        ("{% set s = 'É' * 5000000 %}", "s.swapcase()"),
        ("{% set s = 'É' * 5000000 %}", "s|capitalize"),
        ("{% set s = 'É' * 5000000 %}", "s|urlencode"),
        ("{% set s = 'É' * 5000000 %}", "s|tojson(ensure_ascii=true)"),
        ("{% set s = 'É' * 5000000 %}", "[s]|string"),
        ("{% set s = [1] * 700000 %}", "s|sort"),
        ("{% set s = [1] * 700000 %}", "s|groupby(0)"),
        ("{% set s = [1] * 700000 %}", "s|unique|list"),
        ("{% set s = [1] * 700000 %}", "s|reverse|list"),
        ("{% set s = [1] * 700000 %}", "s|map('default')|list"),
        ("{% set s = [1] * 700000 %}", "s|batch(1)|list"),
        ("{% set s = [1] * 700000 %}", "s|slice(2)|list"),
        ("{% set s = [1] * 700000 %}", "s + [1]"),
        ("{% set s = [1] * 700000 %}", "s|tojson"),
        ("{% set s = [1] * 700000 %}", "s|string"),
        ("{% set s = [1] * 700000 %}", "dict.fromkeys(s)"),
    ] {
        attacks.push(computed(setup, expression));
    }
    attacks.extend([
        // All combined: values, output, and the loop passes that wrote it.
        (
            "{% set s = 'a' * 23000000 %}{% for a in messages %}{% for b in messages %}{% for c in messages %}{% for d in messages %}aaaaaaaaaaaaaaaaaaaaaaaa{% endfor %}{% endfor %}{% endfor %}{% endfor %}".into(),
            End::Budget,
        ),
        repeated("", "{% generation %}{% endgeneration %}"),
        repeated("{% set s = 'x' * 400000 %}", "{{ s }}"),
        repeated("", "{% for m in messages %}x{% endfor %}"),
        repeated("{% macro f() %}{% macro g() %}{% endmacro %}{% endmacro %}", "{{ f() }}"),
        repeated("", "{% set x %}{% set y %}a{{ i }}{% endset %}{{ y }}{% endset %}"),
        repeated("", "{% for x in [1] if loop.last %}{{ loop.last }}{% endfor %}"),
        repeated("{% set l = range(1000)|list %}", "{% for x in l if x < 0 or x > 998 %}{{ loop.last }}{% endfor %}"),
        repeated("", "{% for x in [1, 2, 3] recursive %}{{ loop.depth }}{% endfor %}"),
        repeated("{% macro f() %}{{ caller(1) }}{% endmacro %}", "{% call(x) f() %}{% endcall %}"),
        repeated(&format!("{{% set s = '{}' %}}", "a".repeat(100_000)), &format!("{{% if s == '{}' %}}{{% endif %}}", "a".repeat(100_000))),
        // A loop that hides the nesting depth of its items.
        ("{% set ns = namespace(l=[1]) %}{% for i in range(100000) %}{% for x in [1, ns.l]|map('default', 0) %}{% if loop.first %}{% set ns.l = [loop] %}{% endif %}{% endfor %}{% endfor %}".into(), End::Limit(Depth)),
        ("{% set ns = namespace(l=[1]) %}{% for i in range(100000) %}{% for x in [1, ns.l] if true %}{% if loop.first %}{% set ns.l = [loop] %}{% endif %}{{ loop.last }}{% endfor %}{% endfor %}".into(), End::Limit(Depth)),
        ("{{ ('9' * 10000000)|int }}".into(), End::Limit(Digits)),
        // Large sources.
        (format!("{{% macro f({}) %}}{{% endmacro %}}", (0..1_001).map(|n| format!("a{n}")).collect::<Vec<_>>().join(",")), End::Limit(Source)),
        ((0..20_000).map(|n| format!("{{{{ a{n} }}}}")).collect(), End::Limit(Source)),
        ((0..4_000).map(|n| format!("{{% set a{n} = 1 %}}")).collect(), End::Text),
        ((0..4_000).map(|n| format!("{{% set a{n} = 1 %}}")).collect::<String>() + &"{{ a3999 }}".repeat(15_000), End::Text),
        ((0..4_000).map(|n| format!("{{{{ a{n} }}}}")).collect::<String>() + &"{{ a3999 }}".repeat(15_000), End::Text),
        ((0..400).map(|n| format!("{{% if a{n} %}}{{% set b{n} = 1 %}}{{% endif %}}")).collect::<String>().repeat(14), End::Text),
        (format!("{{% macro f({}) %}}{{% endmacro %}}", (0..1_000).map(|n| format!("a{n}")).collect::<Vec<_>>().join(", ")).repeat(40), End::Text),
        (
            format!(
                "{{% macro f({0}) %}}{{% endmacro %}}{{% for i in range(1000) %}}{{{{ f({0}) }}}}{{% endfor %}}",
                (0..1_000).map(|n| format!("a{n}=1")).collect::<Vec<_>>().join(", ")
            ),
            End::Budget,
        ),
        ((0..4_000).map(|n| format!("{{% block a{n} %}}{{% endblock %}}")).collect(), End::Text),
        ((0..4_000).map(|n| format!("{{% macro a{n}() %}}{{% endmacro %}}")).collect(), End::Text),
        ((0..140).map(|n| format!("{{% with b{n} = 1 %}}")).collect::<String>() + &"{{ c }}".repeat(20_000) + &"{% endwith %}".repeat(140), End::Text),
        ((0..140).map(|n| format!("{{% for b{n} in [1] %}}")).collect::<String>() + &"{{ loop.index }}".repeat(10_000) + &"{% endfor %}".repeat(140), End::Text),
        (format!("{{%for {} in x%}}{{%endfor%}}", short_names()).repeat(49), End::Error(Unsupported)),
        (format!("{{{{ [{}] }}}}", "1,".repeat(100_000)), End::Text),
        (format!("{{{{ {{{}}} }}}}", "1:1,".repeat(50_000)), End::Text),
        (format!("{{{{ a{} }}}}", " ~ a".repeat(50_000)), End::Text),
        (format!("{{{{ a{} }}}}", " or a".repeat(40_000)), End::Text),
        ("{{ a }}".repeat(30_000), End::Text),
        ("{% if a %}{% elif a %}{% endif %}".repeat(7_000), End::Text),
        (format!("{{% if a %}}{}{{% endif %}}", "{% elif a %}".repeat(20_000)), End::Text),
        (format!("{{{{ f({}) }}}}", "a,".repeat(100_000)), End::Error(Undefined)),
        (format!("{{{{ '{}' }}}}", "\\x41".repeat(60_000)), End::Text),
        ("{# #}".repeat(50_000), End::Text),
        ("\n   {%- set a = 1 -%}   \n".repeat(9_000), End::Text),
    ]);
    attacks
}
