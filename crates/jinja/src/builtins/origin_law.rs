//! Every builtin keeps the origin of the letters that it passes on. The letters of each input occur nowhere else, so
//! a letter itself tells where it comes from, and each row is compared with that. What a builtin with a bug would
//! claim instead must be caught in every row.

use super::containers::{CYCLER, DICT, FLOAT, INT, LIST, LOOP, TUPLE};
use super::functions::FUNCTIONS;
use super::methods::Method;
use super::strings::METHODS;
use crate::{Context, Environment, Input, Limits, Origin, Output, Tag, Template};
use Passes::{Kept, Nothing, Other};

/// What a builtin passes on of its subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passes {
    /// Letters as they are: each has its offset.
    Kept,
    /// Letters in another form, of which only the input is known.
    Other,
    /// Numbers, booleans, or an error.
    Nothing,
}

/// Greek letters in their order, each once.
const A: &str = " αβγ δεζ\nηθι κλμ ";

/// Cyrillic letters, and a bracket that is also there as an entity.
const B: &str = "абв где > &gt;";

/// Armenian letters, which only the templates write.
const OWN: &str = "բգդ";

/// A builtin by its type and name, what it passes on, and an expression with it.
type Row = (&'static str, Passes, &'static str);

const ROWS: &[Row] = &[
    ("|length", Nothing, "a|length"),
    ("|count", Nothing, "a|count"),
    ("|default", Kept, "u|default(a)"),
    ("|d", Kept, "a|d('բ')"),
    ("|join", Kept, "[a, b, a]|join('բ')"),
    ("|list", Kept, "(a|list)[3]"),
    ("|first", Kept, "a[3:]|first"),
    ("|last", Kept, "a[:-3]|last"),
    ("|reverse", Other, "a|reverse"),
    ("|sort", Kept, "a|sort|join"),
    ("|min", Kept, "[b, a]|min"),
    ("|max", Kept, "[b, a]|max"),
    ("|sum", Kept, "[[a], [b]]|sum(start=[])|join('բ')"),
    ("|attr", Nothing, "a|attr('x')"),
    ("|random", Nothing, "[a]|random"),
    ("|trim", Kept, "a|trim"),
    ("|upper", Other, "a|upper"),
    ("|lower", Kept, "a|lower"),
    ("|string", Kept, "a|string"),
    ("|replace", Kept, "a|replace('γ', 'բ')"),
    ("|replace", Other, "a|replace('δε', b)"),
    ("|title", Other, "a|title"),
    ("|capitalize", Other, "a[1:]|capitalize"),
    ("|indent", Kept, "a|indent(3, true)"),
    ("|format", Kept, "'%s բ %s'|format(a, b)"),
    ("|center", Kept, "a|center(80)"),
    ("|truncate", Kept, "a|truncate(9, true, 'բ')"),
    ("|wordcount", Nothing, "a|wordcount"),
    ("|tojson", Other, "[a, b, 'բ']|tojson"),
    ("|map", Kept, "[a, b]|map('trim')|join"),
    ("|map", Kept, "[{'k': a}, {'k': b}]|map(attribute='k')|join"),
    ("|select", Kept, "[a, b]|select|join"),
    ("|reject", Kept, "[a, b]|reject('none')|join"),
    ("|selectattr", Kept, "([{'k': a}]|selectattr('k')|list)[0].k"),
    ("|rejectattr", Kept, "([{'k': a}]|rejectattr('x')|list)[0].k"),
    ("|items", Kept, "({'k': a}|items|list)[0][1]"),
    ("|batch", Kept, "a|batch(4)|map('join')|join('բ')"),
    ("|slice", Kept, "a|slice(3)|map('join')|join('բ')"),
    ("|unique", Kept, "[a, b, a]|unique|join"),
    ("|int", Nothing, "a|int"),
    ("|float", Nothing, "a|float"),
    ("|abs", Nothing, "-1|abs"),
    ("|round", Nothing, "1.5|round"),
    ("|filesizeformat", Nothing, "1000|filesizeformat"),
    ("|groupby", Kept, "([{'k': a, 'v': b}]|groupby('k'))[0][0]"),
    ("|groupby", Kept, "([{'k': a, 'v': b}]|groupby('k'))[0][1][0].v"),
    ("|dictsort", Kept, "({'k': a}|dictsort)[0][1]"),
    ("|e", Kept, "(a ~ '<' ~ b)|e"),
    ("|escape", Kept, "(a ~ '<' ~ b)|escape"),
    ("|forceescape", Kept, "(a ~ '<' ~ b)|forceescape"),
    ("|safe", Kept, "a|safe"),
    ("|striptags", Kept, "('<b>' ~ a[1:4] ~ '</b>' ~ b[:3])|striptags"),
    ("|striptags", Other, "b|striptags"),
    ("|xmlattr", Kept, "{'k': a[1:4]}|xmlattr"),
    ("|wordwrap", Kept, "a|wordwrap(4)"),
    ("|urlencode", Other, "a|urlencode"),
    ("|urlize", Nothing, "a|urlize"),
    ("|pprint", Other, "a|pprint"),
    ("str.strip", Kept, "a.strip()"),
    ("str.lstrip", Kept, "a.lstrip()"),
    ("str.rstrip", Kept, "a.rstrip(' μ')"),
    ("str.split", Kept, "a.split()|join('բ')"),
    ("str.split", Kept, "a.split('γ')[1]"),
    ("str.startswith", Nothing, "a.startswith(b)"),
    ("str.endswith", Nothing, "a.endswith(b)"),
    ("str.replace", Kept, "a.replace('γ', 'բգ')"),
    ("str.replace", Other, "a.replace('κ', b)"),
    ("str.format", Kept, "'{}բ{:>30}'.format(a, b)"),
    ("str.format_map", Kept, "'{k}բ'.format_map({'k': a})"),
    ("str.join", Kept, "b.join([a, 'բ', a])"),
    ("str.upper", Other, "a.upper()"),
    ("str.lower", Kept, "a.lower()"),
    ("str.title", Other, "a.title()"),
    ("str.capitalize", Other, "a[1:].capitalize()"),
    ("str.find", Nothing, "a.find(b)"),
    ("str.rfind", Nothing, "a.rfind(b)"),
    ("str.index", Nothing, "a.index('γ')"),
    ("str.rindex", Nothing, "a.rindex('γ')"),
    ("str.count", Nothing, "a.count('γ')"),
    ("str.rsplit", Kept, "a.rsplit(' ', 2)|join('բ')"),
    ("str.splitlines", Kept, "a.splitlines()|join('բ')"),
    ("str.partition", Kept, "a.partition('γ')|join('բ')"),
    ("str.rpartition", Kept, "a.rpartition('γ')|join('բ')"),
    ("str.removeprefix", Kept, "a.removeprefix(' αβ')"),
    ("str.removesuffix", Kept, "a.removesuffix('μ ')"),
    ("str.center", Kept, "a.center(40)"),
    ("str.ljust", Kept, "a.ljust(40)"),
    ("str.rjust", Kept, "a.rjust(40)"),
    ("str.zfill", Kept, "a.zfill(40)"),
    ("str.expandtabs", Kept, "(a ~ '\\t' ~ b).expandtabs(4)"),
    ("str.swapcase", Other, "a.swapcase()"),
    ("str.casefold", Kept, "a.casefold()"),
    ("str.isalnum", Nothing, "a.isalnum()"),
    ("str.isalpha", Nothing, "a.isalpha()"),
    ("str.isascii", Nothing, "a.isascii()"),
    ("str.isdecimal", Nothing, "a.isdecimal()"),
    ("str.isdigit", Nothing, "a.isdigit()"),
    ("str.isidentifier", Nothing, "a.isidentifier()"),
    ("str.islower", Nothing, "a.islower()"),
    ("str.isnumeric", Nothing, "a.isnumeric()"),
    ("str.isprintable", Nothing, "a.isprintable()"),
    ("str.isspace", Nothing, "a.isspace()"),
    ("str.istitle", Nothing, "a.istitle()"),
    ("str.isupper", Nothing, "a.isupper()"),
    ("str.maketrans", Nothing, "a.maketrans({'x': 1})|length"),
    ("str.translate", Kept, "a.translate({947: 'բ'})"),
    ("str.translate", Other, "a.translate({947: 955})"),
    ("str.encode", Nothing, "a.encode()|length"),
    ("dict.items", Kept, "({'k': a}.items()|list)[0][1]"),
    ("dict.get", Kept, "{'k': a}.get('k') ~ {}.get('k', b)"),
    ("dict.keys", Kept, "{a: 1}.keys()|join"),
    ("dict.values", Kept, "{'k': a, 'l': b}.values()|join('բ')"),
    ("dict.copy", Kept, "{'k': a}.copy().k"),
    ("dict.fromkeys", Kept, "dict.fromkeys(['k'], a).k"),
    ("list.copy", Kept, "[a, b].copy()|join"),
    ("list.count", Nothing, "[a].count(a)"),
    ("list.index", Nothing, "[a].index(a)"),
    ("tuple.count", Nothing, "(a,).count(a)"),
    ("tuple.index", Nothing, "(a,).index(a)"),
    ("int.bit_length", Nothing, "(1).bit_length()"),
    ("int.bit_count", Nothing, "(1).bit_count()"),
    ("int.conjugate", Nothing, "(1).conjugate()"),
    ("float.is_integer", Nothing, "(1.5).is_integer()"),
    ("float.conjugate", Nothing, "(1.5).conjugate()"),
    ("loop.cycle", Kept, "loop.cycle(a, b)"),
    ("loop.changed", Nothing, "loop.changed(a)"),
    ("cycler.next", Kept, "cycler(a, b).next()"),
    ("cycler.reset", Nothing, "cycler(a, b).reset()"),
    ("range()", Nothing, "range(3)|list"),
    ("dict()", Kept, "dict(k=a).k"),
    ("lipsum()", Nothing, "lipsum()"),
    ("cycler()", Kept, "cycler(a, b).current"),
    ("joiner()", Nothing, "joiner(a)|string|length"),
    ("namespace()", Kept, "namespace(k=a).k"),
    ("raise_exception()", Nothing, "raise_exception(a)"),
    ("strftime_now()", Nothing, "strftime_now('%Y')"),
    // The language itself.
    ("+", Kept, "a + 'բ' + b"),
    ("~", Kept, "a ~ 'բ' ~ 1 ~ b"),
    ("*", Other, "a * 2"),
    ("%", Kept, "'%sբ%30s' % (a, b)"),
    ("[]", Kept, "a[3] ~ a[-4]"),
    ("[:]", Kept, "a[2:9] ~ a[:-3] ~ (a ~ b)[12:20]"),
    ("[::]", Kept, "a[::2]"),
    ("[::]", Other, "a[::-1]"),
    ("list", Other, "[a, b]"),
    ("dict", Other, "{'k': a, b: 'բ'}"),
    ("if", Kept, "a if a else b"),
    ("or", Kept, "(a and b) ~ ('' or a)"),
];

/// Returns the names of all builtins that templates can call.
fn names() -> Vec<String> {
    let filters = super::FILTERS.into_iter().flatten().map(|(name, _)| format!("|{name}"));
    let types: [(&str, &[Method]); 8] = [
        ("str", METHODS),
        ("dict", DICT),
        ("list", LIST),
        ("tuple", TUPLE),
        ("int", INT),
        ("float", FLOAT),
        ("loop", LOOP),
        ("cycler", CYCLER),
    ];
    let methods = types.into_iter().flat_map(|(of, methods)| {
        methods.iter().filter(|method| !method.is_unsafe()).map(move |method| format!("{of}.{}", method.name))
    });
    let functions = FUNCTIONS.into_iter().map(|(name, _)| format!("{name}()"));
    filters.chain(methods).chain(functions).collect()
}

#[test]
fn every_builtin_has_a_row() {
    let missing: Vec<String> =
        names().into_iter().filter(|name| ROWS.iter().all(|(known, _, _)| known != name)).collect();
    assert!(missing.is_empty(), "say in ROWS what these pass on: {missing:?}");
}

#[test]
fn every_builtin_keeps_the_origin_of_each_letter() {
    let mut wrong = Vec::new();
    for (name, passes, expression) in ROWS {
        // As it is, and through text that is made again.
        for body in [
            format!("{{{{ {expression} }}}}"),
            format!("{{% set x %}}[{{{{ {expression} }}}}]{{% endset %}}{{{{ x }}}}"),
            format!(
                "{{% macro m(a, b) %}}{{% for i in [1] %}}{{{{ {expression} }}}}{{% endfor %}}{{% endmacro %}}{{{{ m(a, b) }}}}"
            ),
        ] {
            let source = format!("{{% for i in [1] %}}{body}{{% endfor %}}");
            if let Err(why) = check(&source, *passes) {
                wrong.push(format!("{name}, {expression}: {why}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// A piece of an output as the law sees it.
#[derive(Clone, Copy, Debug)]
struct Claim<'o> {
    text: &'o str,
    /// The input, or `None` if the template or the engine wrote it.
    tag: Option<Tag>,
    offset: Option<usize>,
}

/// A bug of a builtin.
#[derive(Clone, Copy, Debug)]
enum Bug {
    LosesTheInput,
    LosesTheOffset,
    IsOffByOne,
    NamesAnotherInput,
    ClaimsTheTemplate,
}

const BUGS: [Bug; 5] =
    [Bug::LosesTheInput, Bug::LosesTheOffset, Bug::IsOffByOne, Bug::NamesAnotherInput, Bug::ClaimsTheTemplate];

impl Bug {
    /// Returns a claim as a builtin with the bug makes it, or `None` if the bug does not change it.
    fn plant<'o>(self, claim: Claim<'o>, [a, b]: [Tag; 2], passes: Passes) -> Option<Claim<'o>> {
        let has =
            |letters: &str| claim.text.contains(|letter: char| !letter.is_whitespace() && letters.contains(letter));
        let offset = claim.offset;
        match (self, claim.tag) {
            (Bug::LosesTheInput, Some(_)) => Some(Claim { tag: None, offset: None, ..claim }),
            (Bug::LosesTheOffset, Some(_)) if passes == Kept && offset.is_some() && (has(A) || has(B)) => {
                Some(Claim { offset: None, ..claim })
            }
            (Bug::IsOffByOne, Some(_)) => Some(Claim { offset: Some(offset? + 1), ..claim }),
            (Bug::NamesAnotherInput, Some(tag)) => Some(Claim { tag: Some(if tag == a { b } else { a }), ..claim }),
            (Bug::ClaimsTheTemplate, None) if has(OWN) => Some(Claim { tag: Some(a), ..claim }),
            _ => None,
        }
    }
}

fn check(source: &str, passes: Passes) -> Result<(), String> {
    let (a, b) = (Input::from(A), Input::from(B));
    let mut context = Context::new();
    context.set("a", &a).set("b", &b);
    let template = Template::compile(source, &Limits::default()).map_err(|error| error.to_string())?;
    let rendered = template.render(&context, &Environment::default());
    let output = match (rendered, passes) {
        (Err(_), Nothing) => return Ok(()),
        (rendered, _) => rendered.map_err(|error| error.to_string())?,
    };
    let tags = [Tag::of(&a), Tag::of(&b)];
    let claims: Vec<Claim<'_>> = claims(&output).collect();
    match (passes, check_letters(&claims, tags, passes)?) {
        (Nothing, 0) => return Ok(()),
        (Nothing, _) => return Err(format!("letters are passed on: {:?}", output.text())),
        (_, 0) => return Err(format!("no letter is passed on: {:?}", output.text())),
        _ => {}
    }
    for bug in BUGS {
        for (at, claim) in claims.iter().enumerate() {
            let Some(planted) = bug.plant(*claim, tags, passes) else { continue };
            // White space and escapes tell nothing of where they come from.
            if !decoded(claim.text).chars().flat_map(char::to_lowercase).any(is_own) {
                continue;
            }
            let mut claims = claims.clone();
            claims[at] = planted;
            if check_letters(&claims, tags, passes).is_ok() {
                return Err(format!("{bug:?} is not caught in {claim:?}"));
            }
        }
    }
    Ok(())
}

fn claims(output: &Output) -> impl Iterator<Item = Claim<'_>> {
    output.pieces().map(|piece| match piece.origin {
        Origin::Input { tag, offset } => Claim { text: piece.text, tag: Some(tag), offset: offset.get() },
        Origin::Literal { .. } | Origin::Engine => Claim { text: piece.text, tag: None, offset: None },
    })
}

fn is_own(letter: char) -> bool {
    (!letter.is_ascii() || letter == '>') && [A, B, OWN].iter().any(|text| text.contains(letter))
}

/// Compares the origin of each letter with the input that has it, and returns how many letters of inputs there are.
fn check_letters(claims: &[Claim<'_>], [a, b]: [Tag; 2], passes: Passes) -> Result<usize, String> {
    let letters = [(A, Some(a)), (B, Some(b)), (OWN, None)];
    let mut found = 0;
    for claim in claims {
        if let (Some(tag), Some(at)) = (claim.tag, claim.offset) {
            let whole = letters.iter().find(|(_, own)| *own == Some(tag)).map_or("", |(text, _)| text);
            if whole.get(at..at + claim.text.len()) != Some(claim.text) {
                return Err(format!("{claim:?} is not at that place"));
            }
        }
        for letter in decoded(claim.text).chars().flat_map(char::to_lowercase).filter(|letter| is_own(*letter)) {
            let Some((_, own)) = letters.iter().find(|(text, _)| text.contains(letter)) else { continue };
            if *own != claim.tag {
                return Err(format!("{letter} comes from {own:?}, not from that of {claim:?}"));
            }
            if own.is_some() {
                found += 1;
                if passes == Kept && claim.offset.is_none() {
                    return Err(format!("{letter} of {claim:?} has no offset"));
                }
            }
        }
    }
    Ok(found)
}

/// Decodes `%CE%B1` and `\u03b1`.
fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text);
    while let Some(next) = rest.chars().next() {
        let hex = |at: usize, length: usize| {
            rest.get(at..at + length).and_then(|digits| u32::from_str_radix(digits, 16).ok())
        };
        let (value, length) = match next {
            '%' => (hex(1, 2).map(|byte| vec![byte as u8]), 3),
            '\\' if rest.starts_with("\\u") => {
                (hex(2, 4).and_then(char::from_u32).map(|letter| letter.to_string().into_bytes()), 6)
            }
            _ => (None, 0),
        };
        match value {
            Some(value) => {
                bytes.extend(value);
                rest = &rest[length..];
            }
            None => {
                bytes.extend(next.to_string().as_bytes());
                rest = &rest[next.len_utf8()..];
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
