//! Templates that were written to deceive: they write the same text for some time, and then another
//! one. Growing such a prompt gives the whole one's end, or nothing.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use rolecall::conversation::{Conversation, json};
use rolecall::stability::Speaker;
use rolecall::template::{ChatTemplate, DateTime, TemplateOptions};
use rolecall_testkit::growth::{Tally, check_growth};

const NOON: DateTime = DateTime { year: 2026, month: 11, day: 30, hour: 12, minute: 0, second: 0, microsecond: 0 };

/// What must be possible for the last turn of a conversation.
#[derive(Clone, Copy, PartialEq)]
enum Must {
    /// It must be rendered alone in some cases.
    Grow,
    /// It need not.
    MayRefuse,
}
use Must::{Grow, MayRefuse};

/// The rest of a template after what deceives.
const LOOP: &str = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}\
    {% if add_generation_prompt %}<assistant>{% endif %}";

/// A template is followed by [`LOOP`] if it ends with `+`.
const DECEIVERS: &[(&str, Must, &str)] = &[
    ("nothing", Grow, r#"+"#),
    (
        "every third pass",
        Grow,
        r#"{% for m in messages %}{% if loop.index0 % 3 == 2 %}THIRD{% endif %}<{{ m.role }}>{{ m.content }}{% endfor %}"#,
    ),
    (
        "a counter in a namespace",
        Grow,
        r#"{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% if ns.n % 3 == 0 %}THIRD{% endif %}{{ m.content }}{{ ns.n }}{% endfor %}{{ ns.n }}"#,
    ),
    (
        "a counter that is written first",
        MayRefuse,
        r#"{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n % 3 }}+"#,
    ),
    ("the length, rarely", MayRefuse, r#"{% if messages|length % 3 == 0 %}THREE{% endif %}+"#),
    ("the length, late", MayRefuse, r#"{% if messages|length > 7 %}LONG{% endif %}+"#),
    ("the count", MayRefuse, r#"{% if messages|count > 5 %}LONG{% endif %}+"#),
    (
        "the length in a variable",
        MayRefuse,
        r#"{% set n = messages|length %}{% for m in messages %}{{ m.content }}{% if loop.index == n %}LAST{% endif %}{% endfor %}"#,
    ),
    (
        "the length in a test of each pass",
        MayRefuse,
        r#"{% for m in messages %}{% if messages|length > 6 and loop.first %}LONG{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "the length in a pass",
        MayRefuse,
        r#"{% for m in messages %}{{ m.content }}{% if loop.index == messages|length %}END{% endif %}{% endfor %}"#,
    ),
    ("the last message", MayRefuse, r#"{% if messages[-1].content == 'Thanks' %}POLITE{% endif %}+"#),
    ("the last message, always printed", MayRefuse, r#"{{ messages[-1].content }}+"#),
    ("the last filter", MayRefuse, r#"{{ (messages|last).role }}+"#),
    ("the first filter", Grow, r#"{{ (messages|first).content }}+"#),
    ("the first message", Grow, r#"{% if messages[0].content|length > 10 %}LONG{% endif %}+"#),
    ("the second message", MayRefuse, r#"{% if messages[1] is defined %}{{ messages[1].content }}{% endif %}+"#),
    ("a far message", MayRefuse, r#"{% if messages[5] is defined %}SIX{% endif %}+"#),
    ("a far message by a filter", MayRefuse, r#"{% if messages[4:5] %}FIVE{% endif %}+"#),
    (
        "all but the last",
        MayRefuse,
        r#"{% for m in messages[:-1] %}{{ m.content }}{% endfor %}{{ messages[-1].content }}"#,
    ),
    ("the first three", Grow, r#"{% for m in messages[:3] %}{{ m.content }}{% endfor %}+"#),
    ("every second", MayRefuse, r#"{% for m in messages[::2] %}{{ m.content }}{% endfor %}"#),
    ("from the second on", Grow, r#"{% for m in messages[1:] %}{{ loop.index0 }}{{ m.content }}{% endfor %}"#),
    (
        "from the second on, in a variable",
        Grow,
        r#"{% set rest = messages[1:] %}{% for m in rest %}{{ m.content }}{{ (loop.previtem or m).role }}{% endfor %}"#,
    ),
    (
        "from the third on, twice sliced",
        Grow,
        r#"{% set rest = messages[1:][1:] %}{% for m in rest %}{{ loop.index }}{{ m.content }}{% endfor %}"#,
    ),
    (
        "the variable itself",
        Grow,
        r#"{% set messages = messages[1:] if messages[0].role == 'system' else messages %}+"#,
    ),
    (
        "revindex",
        MayRefuse,
        r#"{% for m in messages %}{{ m.content }}{% if loop.revindex == 3 %}THIRD TO LAST{% endif %}{% endfor %}"#,
    ),
    (
        "revindex0 in the first pass",
        MayRefuse,
        r#"{% for m in messages %}{% if loop.first and loop.revindex0 > 4 %}LONG{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "loop.length",
        MayRefuse,
        r#"{% for m in messages %}{% if loop.length > 5 %}!{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    ("loop.last", Grow, r#"{% for m in messages %}{{ m.content }}{% if loop.last %}LAST{% endif %}{% endfor %}"#),
    ("not loop.last", Grow, r#"{% for m in messages %}{{ m.content }}{% if not loop.last %}, {% endif %}{% endfor %}"#),
    (
        "loop.nextitem",
        Grow,
        r#"{% for m in messages %}{{ m.content }}{% if loop.nextitem is defined and loop.nextitem.role == 'user' %}U{% endif %}{% endfor %}"#,
    ),
    (
        "two items ahead",
        Grow,
        r#"{% for m in messages %}{{ m.content }}{% if messages[loop.index0 + 2] is defined %}+2{% endif %}{% endfor %}"#,
    ),
    (
        "five items ahead",
        MayRefuse,
        r#"{% for m in messages %}{{ m.content }}{% if messages[loop.index0 + 5] is defined %}+5{% endif %}{% endfor %}"#,
    ),
    (
        "the previous item",
        Grow,
        r#"{% for m in messages %}{% if loop.previtem is defined and loop.previtem.role == m.role %}AGAIN{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "loop.changed",
        MayRefuse,
        r#"{% for m in messages %}{% if loop.changed(m.role) %}<{{ m.role }}>{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    ("loop.cycle", Grow, r#"{% for m in messages %}{{ loop.cycle('a', 'b', 'c') }}{{ m.content }}{% endfor %}"#),
    (
        "a cycler",
        MayRefuse,
        r#"{% set c = cycler('a', 'b', 'c') %}{% for m in messages %}{{ c.next() }}{{ m.content }}{% endfor %}"#,
    ),
    ("a joiner", MayRefuse, r#"{% set j = joiner(', ') %}{% for m in messages %}{{ j() }}{{ m.content }}{% endfor %}"#),
    (
        "a nested loop over all",
        MayRefuse,
        r#"{% for m in messages %}{{ m.content }}{% for n in messages %}{{ n.role[0] }}{% endfor %}{% endfor %}"#,
    ),
    (
        "a nested loop in the first pass",
        MayRefuse,
        r#"{% for m in messages %}{% if loop.first %}{% for n in messages %}{{ n.role[0] }}{% endfor %}{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "a nested loop that breaks",
        Grow,
        r#"{% for m in messages %}{% for n in messages %}{{ n.role[0] }}{% break %}{% endfor %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "a nested loop over the rest",
        MayRefuse,
        r#"{% for m in messages %}{% for n in messages[loop.index:] %}{{ n.role[0] }}{% endfor %}{{ m.content }}{% endfor %}"#,
    ),
    ("tojson", MayRefuse, r#"{% if messages|tojson|length > 400 %}LONG{% endif %}+"#),
    (
        "selectattr",
        MayRefuse,
        r#"{% if messages|selectattr('role', 'equalto', 'user')|list|length > 2 %}MANY{% endif %}+"#,
    ),
    (
        "selectattr, lazily",
        MayRefuse,
        r#"{% set users = messages|selectattr('role', 'equalto', 'user') %}{% for m in messages %}{{ m.content }}{% endfor %}{{ users|list|length }}"#,
    ),
    (
        "rejectattr as the loop",
        MayRefuse,
        r#"{% for m in messages|rejectattr('role', 'equalto', 'system') %}{{ m.content }}{{ loop.index }}{% endfor %}"#,
    ),
    ("map and join", MayRefuse, r#"{{ messages|map(attribute='role')|join(',') }}+"#),
    ("groupby", MayRefuse, r#"{% for g in messages|groupby('role') %}{{ g.grouper }}{{ g.list|length }}{% endfor %}+"#),
    ("sort", MayRefuse, r#"{% for m in messages|sort(attribute='role') %}{{ m.content }}{% endfor %}"#),
    ("unique", MayRefuse, r#"{{ messages|map(attribute='role')|unique|list|length }}+"#),
    (
        "batch",
        MayRefuse,
        r#"{% for b in messages|batch(2) %}{{ b|length }}{% for m in b %}{{ m.content }}{% endfor %}{% endfor %}"#,
    ),
    ("slice filter", MayRefuse, r#"{% for b in messages|slice(2) %}{{ b|length }}{% endfor %}+"#),
    ("reverse", MayRefuse, r#"{% for m in messages|reverse %}{{ m.content }}{% endfor %}"#),
    (
        "a backward scan",
        MayRefuse,
        r#"{% set ns = namespace(at=-1) %}{% for m in messages[::-1] %}{% if ns.at < 0 and m.role == 'user' %}{% set ns.at = messages|length - 1 - loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}{{ m.content }}{% if loop.index0 == ns.at %}LAST USER{% endif %}{% endfor %}"#,
    ),
    (
        "a macro that reads the length",
        MayRefuse,
        r#"{% macro f() %}{{ messages|length }}{% endmacro %}{% for m in messages %}{% if loop.first %}{{ f() }}{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "a macro that reads the length at the end",
        Grow,
        r#"{% macro f() %}{{ messages|length }}{% endmacro %}{% for m in messages %}{{ m.content }}{% endfor %}{{ f() }}"#,
    ),
    ("an alias", MayRefuse, r#"{% set x = messages %}{{ x|length }}+"#),
    ("an alias in a list", MayRefuse, r#"{% set x = [messages] %}{{ x[0]|length }}+"#),
    (
        "an alias in a dict, later",
        Grow,
        r#"{% set x = {'all': messages} %}{% for m in messages %}{{ m.content }}{% endfor %}{{ x.all|length }}"#,
    ),
    ("an alias in a namespace", MayRefuse, r#"{% set ns = namespace(all=messages) %}{{ ns.all|length }}+"#),
    (
        "the loop as an argument",
        Grow,
        r#"{% macro f(l) %}{% if l.last %}LAST{% endif %}{{ l.index }}{% endmacro %}{% for m in messages %}{{ m.content }}{{ f(loop) }}{% endfor %}"#,
    ),
    (
        "the loop's length as an argument",
        MayRefuse,
        r#"{% macro f(l) %}{{ l.length }}{% endmacro %}{% for m in messages %}{{ m.content }}{{ f(loop) }}{% endfor %}"#,
    ),
    (
        "the loop in a namespace",
        Grow,
        r#"{% set ns = namespace(l=none) %}{% for m in messages %}{% set ns.l = loop %}{{ m.content }}{% endfor %}{{ ns.l.length if ns.l else 0 }}"#,
    ),
    ("equality", MayRefuse, r#"{{ messages == messages }}+"#),
    ("equality with a list", MayRefuse, r#"{% if messages == [messages[0]] %}ONE{% endif %}+"#),
    ("in", MayRefuse, r#"{{ 'x' in messages }}+"#),
    ("the first message in all", MayRefuse, r#"{{ messages[0] in messages }}+"#),
    ("printing all", MayRefuse, r#"{{ messages }}"#),
    ("printing all at the end", Grow, r#"{% for m in messages %}{{ m.content }}{% endfor %}{{ messages }}"#),
    ("truth", Grow, r#"{% if messages %}SOME{% endif %}+"#),
    ("not", Grow, r#"{% if not messages %}NONE{% endif %}+"#),
    ("and or", Grow, r#"{% set x = messages and 1 or 2 %}{{ x }}+"#),
    (
        "is sequence",
        Grow,
        r#"{% if messages is sequence and messages is iterable and messages is defined %}LIST{% endif %}+"#,
    ),
    ("a test", Grow, r#"{% for m in messages if m.role != 'system' %}{{ m.content }}{% endfor %}"#),
    (
        "a test and loop.index",
        Grow,
        r#"{% for m in messages if m.role != 'system' %}{{ loop.index }}{{ m.content }}{% endfor %}"#,
    ),
    (
        "a test and loop.length",
        MayRefuse,
        r#"{% for m in messages if m.role == 'user' %}{{ loop.length }}{{ m.content }}{% endfor %}"#,
    ),
    (
        "a test and loop.last",
        Grow,
        r#"{% for m in messages if m.role == 'user' %}{{ m.content }}{{ loop.last }}{% endfor %}"#,
    ),
    (
        "a test and loop.previtem",
        Grow,
        r#"{% for m in messages if m.role == 'user' %}{{ m.content }}{{ (loop.previtem or m).content }}{% endfor %}"#,
    ),
    (
        "a test and loop.nextitem",
        Grow,
        r#"{% for m in messages if m.role == 'user' %}{{ m.content }}{{ (loop.nextitem or m).content }}{% endfor %}"#,
    ),
    ("else", Grow, r#"{% for m in messages %}{{ m.content }}{% else %}NONE{% endfor %}"#),
    (
        "else of a test",
        Grow,
        r#"{% for m in messages if m.role == 'tool' %}{{ m.content }}{% else %}NO TOOL{% endfor %}"#,
    ),
    ("else of a scan", MayRefuse, r#"{% for m in messages if m.role == 'tool' %}{% else %}NO TOOL{% endfor %}+"#),
    (
        "break",
        Grow,
        r#"{% for m in messages %}{{ m.content }}{% if m.content == 'Thanks' %}{% break %}{% endif %}{% endfor %}"#,
    ),
    (
        "continue",
        Grow,
        r#"{% for m in messages %}{% if m.role == 'system' %}{% continue %}{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "a scan that breaks",
        MayRefuse,
        r#"{% set ns = namespace(x='') %}{% for m in messages %}{% if m.role == 'tool' %}{% set ns.x = 'TOOLS' %}{% break %}{% endif %}{% endfor %}{{ ns.x }}+"#,
    ),
    (
        "a scan for the system message",
        Grow,
        r#"{% set ns = namespace(s='none') %}{% for m in messages %}{% if m.role == 'system' %}{% set ns.s = m.content %}{% endif %}{% endfor %}{{ ns.s }}+"#,
    ),
    (
        "a scan for the last user",
        MayRefuse,
        r#"{% set ns = namespace(at=0) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.at = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}{% if loop.index0 == ns.at %}LAST USER{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    ("a scan that writes", MayRefuse, r#"{% for m in messages %}{{ m.role[0] }}{% endfor %}+"#),
    (
        "a scan for tools, of two",
        Grow,
        r#"{% set ns = namespace(t=false, s='') %}{% for m in messages %}{% if m.role == 'tool' %}{% set ns.t = true %}{% endif %}{% endfor %}{% for m in messages %}{% if m.role == 'system' %}{% set ns.s = m.content %}{% endif %}{% endfor %}{{ ns.t }}{{ ns.s }}+"#,
    ),
    (
        "a scan that counts to three",
        Grow,
        r#"{% set ns = namespace(n=0) %}{% for m in messages %}{% if ns.n < 3 %}{% set ns.n = ns.n + 1 %}{% endif %}{% endfor %}{{ ns.n }}+"#,
    ),
    (
        "a scan, and the last message",
        Grow,
        r#"{% set ns = namespace(s='') %}{% for m in messages %}{% if m.role == 'system' %}{% set ns.s = m.content %}{% endif %}{% endfor %}{% if messages[-1].role == 'tool' %}TOOL{% endif %}+"#,
    ),
    (
        "a scan whose loop is read later",
        MayRefuse,
        r#"{% macro g() %}{{ ns.l.index }}{% endmacro %}{% set ns = namespace(l=none) %}{% for m in messages %}{% set ns.l = loop %}{% endfor %}{{ ns.l.index0 % 3 }}+"#,
    ),
    (
        "a scan's variable in a list",
        MayRefuse,
        r#"{% set ns = namespace(all=[]) %}{% for m in messages %}{% set ns.all = ns.all + [m] %}{% endfor %}{% for m in ns.all %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "a list that grows",
        Grow,
        r#"{% set ns = namespace(all=[]) %}{% for m in messages %}{% set ns.all = ns.all + [m.role] %}{{ m.content }}{% endfor %}{{ ns.all|join }}"#,
    ),
    (
        "a text that grows",
        Grow,
        r#"{% set ns = namespace(all='') %}{% for m in messages %}{% set ns.all = ns.all ~ m.content|upper ~ '|' %}{{ m.role }}{% endfor %}{{ ns.all }}"#,
    ),
    (
        "namespaces in the loop",
        Grow,
        r#"{% for m in messages %}{% set ns = namespace(x=loop.index) %}{% set ns.y = ns %}{{ ns.x }}{{ m.content }}{% endfor %}"#,
    ),
    (
        "two names for a namespace",
        Grow,
        r#"{% set a = namespace(n=0) %}{% set b = a %}{% for m in messages %}{% set a.n = a.n + 1 %}{{ b.n }}{{ a == b }}{{ m.content }}{% endfor %}"#,
    ),
    (
        "two names for a list",
        Grow,
        r#"{% set a = [1, [2]] %}{% set b = a %}{% set c = [1, [2]] %}{% for m in messages %}{{ a is sameas b }}{{ a is sameas c }}{{ m.content }}{% endfor %}"#,
    ),
    (
        "values of all kinds",
        Grow,
        r#"{% set v = [1, 2.5, -0.0, none, true, 10**30, 'it', {'k': (1, 2)}, range(3), undefined_name] %}{% for m in messages %}{{ v[:9] }}{{ v[9] is defined }}{{ v[8][1] }}{{ m.content }}{% endfor %}"#,
    ),
    (
        "text of a message",
        Grow,
        r#"{% set s = messages[0].content|trim %}{% set t = s ~ '!' %}{% for m in messages %}{{ s[1:] }}{{ t|upper }}{{ t }}{{ m.content }}{% endfor %}{{ t }}"#,
    ),
    (
        "text of the previous message",
        Grow,
        r#"{% set ns = namespace(p='') %}{% for m in messages %}{{ ns.p }}{% set ns.p = m.role ~ m.content %}{% endfor %}{{ ns.p }}"#,
    ),
    (
        "a message kept",
        MayRefuse,
        r#"{% set ns = namespace(u=none) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.u = m %}{% endif %}{{ ns.u.content if ns.u else '' }}|{{ m.content }}{% endfor %}"#,
    ),
    (
        "a long text kept",
        Grow,
        r#"{% set ns = namespace(u='') %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.u = m.content * 40 %}{% endif %}{{ ns.u[:3] }}{% endfor %}"#,
    ),
    (
        "a captured block",
        Grow,
        r#"{% for m in messages %}{% set c %}<{{ m.role }}>{{ m.content }}{% endset %}{{ c|trim }}{% endfor %}"#,
    ),
    (
        "a capture around the loop",
        MayRefuse,
        r#"{% set c %}{% for m in messages %}{{ m.content }}{% endfor %}{% endset %}{{ c|length % 3 }}{{ c }}"#,
    ),
    ("a capture before the loop", Grow, r#"{% set c %}{{ messages[0].content }}{% endset %}{{ c }}+"#),
    (
        "a filter block around the loop",
        MayRefuse,
        r#"{% filter upper %}{% for m in messages %}{{ m.content }}{% endfor %}{% endfilter %}"#,
    ),
    (
        "a loop in a macro",
        MayRefuse,
        r#"{% macro all(l) %}{% for m in l %}{{ m.content }}{{ loop.last }}{% endfor %}{% endmacro %}{{ all(messages) }}"#,
    ),
    (
        "a loop in a call block",
        MayRefuse,
        r#"{% macro w() %}[{{ caller() }}]{% endmacro %}{% call w() %}{% for m in messages %}{{ m.content }}{% endfor %}{% endcall %}"#,
    ),
    (
        "a loop in an if",
        Grow,
        r#"{% if messages[0].role == 'system' %}{% for m in messages %}S{{ m.content }}{% endfor %}{% else %}{% for m in messages %}U{{ m.content }}{% endfor %}{% endif %}"#,
    ),
    (
        "a recursive loop",
        MayRefuse,
        r#"{% for m in messages recursive %}{{ m.content }}{% if loop.first and loop.depth < 2 %}{{ loop(messages[:2]) }}{% endif %}{% endfor %}"#,
    ),
    (
        "generation blocks",
        Grow,
        r#"{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}"#,
    ),
    (
        "generation blocks in a macro",
        Grow,
        r#"{% macro w(m) %}<{{ m.role }}>{% generation %}{{ m.content }}{% endgeneration %}{% endmacro %}{% for m in messages %}{{ w(m) }}{% endfor %}"#,
    ),
    ("the generation prompt first", MayRefuse, r#"{% if add_generation_prompt %}OPEN{% endif %}+"#),
    (
        "the generation prompt set",
        MayRefuse,
        r#"{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}+"#,
    ),
    (
        "the generation prompt in each pass",
        MayRefuse,
        r#"{% for m in messages %}{{ m.content }}{{ '+' if add_generation_prompt else '-' }}{% endfor %}"#,
    ),
    (
        "the generation prompt after a scan",
        MayRefuse,
        r#"{% set ns = namespace(s='') %}{% for m in messages %}{% if m.role == 'system' or add_generation_prompt %}{% set ns.s = 'S' %}{% endif %}{% endfor %}{{ ns.s }}+"#,
    ),
    (
        "the generation prompt between scans",
        MayRefuse,
        r#"{% set ns = namespace(s='', t='') %}{% for m in messages %}{% set ns.s = 'S' %}{% endfor %}{% if add_generation_prompt %}{% set ns.t = 'T' %}{% endif %}{% for m in messages %}{% set ns.s = 'S' %}{% endfor %}{{ ns.t }}+"#,
    ),
    (
        "the generation prompt in the last pass",
        Grow,
        r#"{% for m in messages %}{{ m.content }}{% if loop.last and add_generation_prompt %}OPEN{% endif %}{% endfor %}"#,
    ),
    ("the hour", Grow, r#"{{ strftime_now('%H:%M') }}+"#),
    (
        "the number of calls",
        Grow,
        r#"{% set ns = namespace(n=0) %}{% for m in messages %}{% for c in m.tool_calls or [] %}{% set ns.n = ns.n + 1 %}{{ ns.n }}{{ c.function.name }}{{ loop.last }}{% endfor %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "a variable set in an inner loop",
        Grow,
        r#"{% set x = 1 %}{% for m in messages %}{% set x = x + loop.index %}{{ x }}{% if m.tool_calls %}{% for c in m.tool_calls %}{% set x = loop.index %}{{ x }}{% endfor %}{% endif %}{{ x }}{{ m.content }}{% endfor %}{{ x }}"#,
    ),
    (
        "a variable set in a branch",
        Grow,
        r#"{% for m in messages %}{% if m.role == 'user' %}{% set y = m.content %}{% endif %}{{ y is defined }}{{ y }}{% endfor %}{{ y is defined }}"#,
    ),
    (
        "a with block",
        Grow,
        r#"{% with last = 'x' %}{% for m in messages %}{{ last }}{{ m.content }}{% endfor %}{% endwith %}"#,
    ),
    (
        "a macro with a default",
        Grow,
        r#"{% set d = messages[0].role %}{% macro f(x, y=d) %}{{ x }}{{ y }}{{ d }}{% endmacro %}{% for m in messages %}{{ f(m.content) }}{% endfor %}"#,
    ),
    (
        "a macro in the loop",
        Grow,
        r#"{% for m in messages %}{% macro f() %}{{ loop.index }}{{ m.content }}{% endmacro %}{{ f() }}{% endfor %}"#,
    ),
    (
        "a macro that outlives its loop",
        MayRefuse,
        r#"{% set ns = namespace(f=none) %}{% for m in messages %}{% macro f() %}{{ m.role }}{% endmacro %}{% if loop.first %}{% set ns.f = f %}{% endif %}{{ ns.f() }}{{ m.content }}{% endfor %}"#,
    ),
    (
        "an undefined variable",
        Grow,
        r#"{% set u = nothing %}{% for m in messages %}{{ u is defined }}{{ u|default('d') }}{{ m.nothing|default('e') }}{{ m.content }}{% endfor %}"#,
    ),
    (
        "refusing late",
        Grow,
        r#"{% for m in messages %}{% if loop.index0 > 5 and m.role == 'user' %}{{ raise_exception('no') }}{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "refusing by the last role",
        Grow,
        r#"{% for m in messages %}{{ m.content }}{% endfor %}{% if messages[-1].role == 'tool' %}{{ raise_exception('no') }}{% endif %}"#,
    ),
    (
        "alternation",
        Grow,
        r#"{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}ODD{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "the length of the rest",
        MayRefuse,
        r#"{% set rest = messages[2:] %}{% if rest|length > 4 %}LONG{% endif %}{% for m in rest %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "items by index of a range",
        MayRefuse,
        r#"{% for i in range(messages|length) %}{{ messages[i].content }}{% endfor %}"#,
    ),
    (
        "items by index, while defined",
        MayRefuse,
        r#"{% for i in range(50) %}{% if messages[i] is defined %}{{ messages[i].content }}{% endif %}{% endfor %}"#,
    ),
    ("an attribute of the list", Grow, r#"{{ messages.foo is defined }}{{ messages['length'] is defined }}+"#),
    ("pop of a copy", MayRefuse, r#"{% set l = messages|list %}{% for m in l %}{{ m.content }}{% endfor %}"#),
    (
        "sum of lists",
        MayRefuse,
        r#"{% for m in [{'role': 'x', 'content': 'first'}] + messages %}{{ m.content }}{% endfor %}"#,
    ),
    ("multiplied", MayRefuse, r#"{{ (messages * 2)|length }}+"#),
    ("min and max", MayRefuse, r#"{{ (messages|map(attribute='content')|map('string')|max)[:1] }}+"#),
    (
        "random access from the end",
        MayRefuse,
        r#"{% for m in messages %}{{ m.content }}{% if messages[-2] is defined and messages[-2] == m %}PENULTIMATE{% endif %}{% endfor %}"#,
    ),
    ("unpacking", MayRefuse, r#"{% set a = messages[0] %}{% for k, v in a|items %}{{ k }}{{ v }}{% endfor %}+"#),
    ("a string of the list", MayRefuse, r#"{{ (messages|string)|length % 3 }}+"#),
    ("a chained comparison", MayRefuse, r#"{% if 2 < messages|length < 6 %}SOME{% endif %}+"#),
    ("is the length even", MayRefuse, r#"{% if messages|length is even %}EVEN{% endif %}+"#),
    ("the length as a name", MayRefuse, r#"{{ ['a', 'b', 'c'][messages|length % 3] }}+"#),
    (
        "do",
        Grow,
        r#"{% set ns = namespace(n=0) %}{% do ns.__class__ %}{% for m in messages %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "the escape filter",
        Grow,
        r#"{% set s = messages[0].content|e %}{% for m in messages %}{{ s ~ m.content }}{% endfor %}"#,
    ),
    (
        "the last user: after it",
        Grow,
        r#"{% set ns = namespace(at=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.at = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}{% if loop.index0 > ns.at %}AFTER{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "the last user: not before it",
        Grow,
        r#"{% set ns = namespace(at=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.at = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}{% if loop.index0 >= ns.at %}AFTER{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "the last user: before it",
        Grow,
        r#"{% set ns = namespace(at=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.at = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}{% if loop.index0 < ns.at %}BEFORE{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "the last user: not after it",
        Grow,
        r#"{% set ns = namespace(at=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.at = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}{% if loop.index0 <= ns.at %}BEFORE{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "the last user: from the left",
        Grow,
        r#"{% set ns = namespace(at=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.at = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}{% if ns.at > loop.index0 %}BEFORE{% endif %}{% if ns.at <= loop.index0 %}AFTER{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "the last user: at it",
        Grow,
        r#"{% set ns = namespace(at=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.at = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}{% if loop.index0 == ns.at %}AT{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "the last user: not at it",
        Grow,
        r#"{% set ns = namespace(at=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.at = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}{% if loop.index0 != ns.at %}NOT{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "the last user: only replies",
        Grow,
        r#"{% set ns = namespace(at=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.at = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}{% if m.role == 'assistant' and loop.index0 > ns.at %}AFTER{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "the last user: as a value",
        Grow,
        r#"{% set ns = namespace(at=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.at = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}{% set after = loop.index0 > ns.at %}{{ after }}{{ m.content }}{% endfor %}"#,
    ),
    (
        "the last user: with a number",
        Grow,
        r#"{% set ns = namespace(at=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.at = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}{% if ns.at > 3 %}LATE{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "the last user: with a number, rarely",
        MayRefuse,
        r#"{% set ns = namespace(at=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.at = loop.index0 %}{% endif %}{% endfor %}{% if ns.at > 6 %}LATE{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "the last user: its parity",
        MayRefuse,
        r#"{% set ns = namespace(at=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.at = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}{% if ns.at % 2 == 0 %}EVEN{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "the last user: its distance",
        MayRefuse,
        r#"{% set ns = namespace(at=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.at = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}{% if ns.at - loop.index0 > 2 %}FAR{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "the last user: printed",
        MayRefuse,
        r#"{% set ns = namespace(at=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.at = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}{{ ns.at }}{{ m.content }}{% endfor %}"#,
    ),
    (
        "the last user: its truth",
        MayRefuse,
        r#"{% set ns = namespace(at=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.at = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}{% if ns.at %}SOME{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "the last user: between",
        MayRefuse,
        r#"{% set ns = namespace(at=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.at = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}{% if 0 < ns.at < loop.index0 + 2 %}SOON{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "the last user: in a list",
        MayRefuse,
        r#"{% set ns = namespace(at=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.at = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}{% if loop.index0 in [ns.at, 1] %}AT{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "the last user: copied",
        MayRefuse,
        r#"{% set ns = namespace(at=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.at = loop.index0 %}{% endif %}{% endfor %}{% set at = ns.at %}{% for m in messages %}{% if loop.index0 > at %}AFTER{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "the last user: copied to a namespace",
        MayRefuse,
        r#"{% set ns = namespace(at=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.at = loop.index0 %}{% endif %}{% endfor %}{% set other = namespace(at=ns.at) %}{% for m in messages %}{% if loop.index0 > other.at %}AFTER{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "the last user: changed later",
        Grow,
        r#"{% set ns = namespace(at=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.at = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}{% if loop.index0 > ns.at %}AFTER{% endif %}{% if loop.index0 == 2 %}{% set ns.at = 0 %}{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "the last user: counted on",
        MayRefuse,
        r#"{% set ns = namespace(at=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.at = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}{% set ns.at = ns.at + 1 %}{% if ns.at % 3 == 0 %}THIRD{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "the last user: in a macro",
        Grow,
        r#"{% set ns = namespace(at=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.at = loop.index0 %}{% endif %}{% endfor %}{% macro f(i) %}{% if i > ns.at %}AFTER{% endif %}{% endmacro %}{% for m in messages %}{{ f(loop.index0) }}{{ m.content }}{% endfor %}"#,
    ),
    (
        "the last user: in a generation block",
        Grow,
        r#"{% set ns = namespace(at=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.at = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}{% generation %}{% if loop.index0 > ns.at %}AFTER{% endif %}{% endgeneration %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "the last user: by two loops",
        Grow,
        r#"{% set ns = namespace(at=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.at = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}{% if loop.index0 > ns.at %}{% set ns.x = 1 %}{% endif %}{% endfor %}{% for m in messages %}{% if loop.index0 > ns.at %}AFTER{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "the last user: read by another scan",
        MayRefuse,
        r#"{% set ns = namespace(at=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.at = loop.index0 %}{% endif %}{% endfor %}{% set o = namespace(n=0) %}{% for m in messages %}{% if loop.index0 > ns.at %}{% set o.n = o.n + 1 %}{% endif %}{% endfor %}{% for m in messages %}{% if o.n > 1 %}MANY{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "the last user: compared with the length",
        MayRefuse,
        r#"{% set ns = namespace(at=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.at = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}{% if messages|length > ns.at + 2 %}OLD{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "the last user: with text after the loop",
        Grow,
        r#"{% set ns = namespace(at=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.at = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}{% if loop.index0 > ns.at %}AFTER{% endif %}{{ m.content }}{% endfor %}{{ ns.at }}"#,
    ),
    (
        "the last user: with a default",
        MayRefuse,
        r#"{% set ns = namespace(at=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.at = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}{% if loop.index0 > ns.at|default(0) %}AFTER{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "the last user: with another type",
        MayRefuse,
        r#"{% set ns = namespace(at=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.at = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}{% if ns.at == 'x' or ns.at == 2.0 or 1.5 < ns.at %}ODD{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "the last user: none at first",
        MayRefuse,
        r#"{% set ns = namespace(at=none) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.at = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}{% if ns.at is not none and loop.index0 > ns.at %}AFTER{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "a backward scan: for the last user",
        Grow,
        r#"{% set ns = namespace(at=messages|length - 1, on=true) %}{% for m in messages[::-1] %}{% set index = (messages|length - 1) - loop.index0 %}{% if ns.on and m.role == 'user' %}{% set ns.on = false %}{% set ns.at = index %}{% endif %}{% endfor %}{% for m in messages %}{% if loop.index0 > ns.at %}AFTER{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "a backward scan: in the other order",
        MayRefuse,
        r#"{% set ns = namespace(at=messages|length - 1, on=true) %}{% for m in messages[::-1] %}{% set index = (messages|length - 1) - loop.index0 %}{% if m.role == 'user' and ns.on %}{% set ns.on = false %}{% set ns.at = index %}{% endif %}{% endfor %}{% for m in messages %}{% if loop.index0 > ns.at %}AFTER{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "a backward scan: that counts on",
        MayRefuse,
        r#"{% set ns = namespace(at=messages|length - 1, on=true) %}{% for m in messages[::-1] %}{% set index = (messages|length - 1) - loop.index0 %}{% if ns.on and m.role == 'user' %}{% set ns.on = false %}{% set ns.at = index %}{% endif %}{% set ns.n = (ns.n or 0) + 1 %}{% endfor %}{% for m in messages %}{% if loop.index0 > ns.at %}AFTER{% endif %}{{ m.content }}{% endfor %}{{ ns.n }}"#,
    ),
    (
        "a backward scan: that writes on",
        MayRefuse,
        r#"{% set ns = namespace(at=messages|length - 1, on=true) %}{% for m in messages[::-1] %}{% set index = (messages|length - 1) - loop.index0 %}{% if ns.on and m.role == 'user' %}{% set ns.on = false %}{% set ns.at = index %}{% endif %}{% if not ns.on %}.{% endif %}{% endfor %}{% for m in messages %}{% if loop.index0 > ns.at %}AFTER{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "a backward scan: that wakes up",
        MayRefuse,
        r#"{% set ns = namespace(at=messages|length - 1, on=true) %}{% for m in messages[::-1] %}{% set index = (messages|length - 1) - loop.index0 %}{% if ns.on and m.role == 'user' %}{% set ns.on = false %}{% set ns.at = index %}{% endif %}{% if not ns.on and loop.index0 == 6 %}{% set ns.at = 1 %}{% endif %}{% endfor %}{% for m in messages %}{% if loop.index0 > ns.at %}AFTER{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "a backward scan: that wakes up at a tool",
        MayRefuse,
        r#"{% set ns = namespace(at=messages|length - 1, on=true) %}{% for m in messages[::-1] %}{% if ns.on and m.role == 'user' %}{% set ns.on = false %}{% set ns.at = 2 %}{% endif %}{% if m.tool_calls %}{% set ns.at = 0 %}{% endif %}{% endfor %}{% for m in messages %}{% if loop.index0 > ns.at %}AFTER{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "a backward scan: that ends with loop.last",
        MayRefuse,
        r#"{% set ns = namespace(at=messages|length - 1, on=true) %}{% for m in messages[::-1] %}{% if ns.on and m.role == 'user' %}{% set ns.on = false %}{% endif %}{% if loop.last %}{% set ns.at = 0 %}{% endif %}{% endfor %}{% for m in messages %}{% if loop.index0 > ns.at %}AFTER{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "a backward scan: with an else",
        Grow,
        r#"{% set ns = namespace(at=messages|length - 1, on=true) %}{% for m in messages[::-1] %}{% if ns.on and m.role == 'user' %}{% set ns.on = false %}{% set ns.at = messages|length - 1 - loop.index0 %}{% endif %}{% else %}NONE{% endfor %}{% for m in messages %}{% if loop.index0 > ns.at %}AFTER{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "a backward scan: that raises an error",
        MayRefuse,
        r#"{% set ns = namespace(at=messages|length - 1, on=true) %}{% for m in messages[::-1] %}{% set index = (messages|length - 1) - loop.index0 %}{% if ns.on and m.role == 'user' %}{% set ns.on = false %}{% set ns.at = index %}{% endif %}{% if m.content < 5 %}{% endif %}{% endfor %}{% for m in messages %}{% if loop.index0 > ns.at %}AFTER{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "a backward scan: that adds texts",
        MayRefuse,
        r#"{% set ns = namespace(at=messages|length - 1, on=true) %}{% for m in messages[::-1] %}{% set index = m.content + 1 %}{% if ns.on and m.role == 'user' %}{% set ns.on = false %}{% endif %}{% endfor %}{% for m in messages %}{% if loop.index0 > ns.at %}AFTER{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "a backward scan: whose loop is kept",
        MayRefuse,
        r#"{% set ns = namespace(at=0, on=true, l=none) %}{% for m in messages[::-1] %}{% if ns.on and m.role == 'user' %}{% set ns.on = false %}{% set ns.l = loop %}{% endif %}{% endfor %}{{ ns.l.index }}{% for m in messages %}{% if loop.index0 > ns.at %}AFTER{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "a backward scan: whose variable is kept",
        MayRefuse,
        r#"{% set ns = namespace(at=0, on=true) %}{% macro f() %}{{ index }}{% endmacro %}{% for m in messages[::-1] %}{% set index = loop.index0 %}{% if ns.on and m.role == 'user' %}{% set ns.on = false %}{% endif %}{% endfor %}{{ f() }}{% for m in messages %}{% if loop.index0 > ns.at %}AFTER{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "a backward scan: over every second",
        MayRefuse,
        r#"{% set ns = namespace(at=0, on=true) %}{% for m in messages[::-2] %}{% if ns.on and m.role == 'user' %}{% set ns.on = false %}{% set ns.at = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}{% if loop.index0 > ns.at %}AFTER{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "a backward scan: without the last",
        MayRefuse,
        r#"{% set ns = namespace(at=0, on=true) %}{% for m in messages[:-1][::-1] %}{% if ns.on and m.role == 'user' %}{% set ns.on = false %}{% set ns.at = messages|length - 2 - loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}{% if loop.index0 > ns.at %}AFTER{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "a backward scan: in a filter",
        MayRefuse,
        r#"{% set ns = namespace(at=0, on=true) %}{% for m in messages|reverse %}{% if ns.on and m.role == 'user' %}{% set ns.on = false %}{% set ns.at = messages|length - 1 - loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}{% if loop.index0 > ns.at %}AFTER{% endif %}{{ m.content }}{% endfor %}"#,
    ),
    (
        "a backward scan: that breaks",
        Grow,
        r#"{% set ns = namespace(at=0) %}{% for m in messages[::-1] %}{% if m.role == 'user' %}{% set ns.at = messages|length - 1 - loop.index0 %}{% break %}{% endif %}{% endfor %}{% for m in messages %}{% if loop.index0 > ns.at %}AFTER{% endif %}{{ m.content }}{% endfor %}"#,
    ),
];

fn conversations() -> Vec<Conversation> {
    let texts = [
        r#"{"messages": [{"role": "system", "content": "Be <b>kind</b>."}, {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Hello"}, {"role": "user", "content": "Thanks"},
            {"role": "assistant", "content": "Sure"}, {"role": "user", "content": "Thanks"},
            {"role": "user", "content": "Really"}, {"role": "assistant", "content": "Yes"},
            {"role": "user", "content": "Bye"}, {"role": "assistant", "content": "Thanks"}]}"#,
        r#"{"messages": [{"role": "user", "content": "A long first question, with many words in it"},
            {"role": "assistant", "content": "", "tool_calls": [
                {"type": "function", "id": "a", "function": {"name": "f", "arguments": {"x": [1, 2]}}},
                {"type": "function", "id": "b", "function": {"name": "g", "arguments": {}}}]},
            {"role": "tool", "tool_call_id": "a", "content": "1"}, {"role": "tool", "tool_call_id": "b", "content": "2"},
            {"role": "assistant", "content": "Thanks", "reasoning_content": "hm"}, {"role": "user", "content": "Thanks"},
            {"role": "assistant", "content": "x"}, {"role": "system", "content": "late"}, {"role": "user", "content": "?"}],
            "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]}"#,
        r#"{"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}, {"role": "user", "content": "c"},
            {"role": "assistant", "content": "a"}, {"role": "user", "content": "a"}, {"role": "user", "content": "a"}]}"#,
    ];
    texts.iter().map(|text| Conversation::from_json(json::parse(text).unwrap()).unwrap()).collect()
}

#[test]
fn a_template_that_deceives_is_grown_correctly_or_not_at_all() {
    let options = TemplateOptions { now: Some(NOON), ..TemplateOptions::default() };
    let conversations = conversations();
    let mut total = Tally::default();
    let mut stiff = Vec::new();
    for (name, must, source) in DECEIVERS {
        let source = match source.strip_suffix('+') {
            Some(start) => format!("{start}{LOOP}"),
            None => (*source).to_owned(),
        };
        let template = ChatTemplate::compile(&source, Vec::new()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut tally = Tally::default();
        for (at, conversation) in conversations.iter().enumerate() {
            let speaker = Speaker::Template(&template, &options);
            check_growth(&format!("{name}, conversation {at}"), speaker, conversation, &mut tally);
        }
        if *must == Grow && tally.shorter == 0 {
            stiff.push(name);
        }
        println!("{name}: {} grown, {} from a later byte, {:?}", tally.grown, tally.shorter, tally.reasons);
        total.grown += tally.grown;
        total.shorter += tally.shorter;
    }
    println!("{} templates: {} grown, {} from a later byte", DECEIVERS.len(), total.grown, total.shorter);
    assert!(stiff.is_empty(), "never grown: {stiff:?}");
}
