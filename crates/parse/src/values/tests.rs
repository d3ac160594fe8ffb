//! Tests of all readers: any cut gives the same result, complete output is valid JSON, and nothing
//! panics.

use fastrand::Rng;
use rolecall_conversation::{Json, json};

use super::*;

/// The result of reading a text: the output, the number of bytes used, and the final state.
type Outcome = (String, usize, ReaderState);

fn read(reader: &ValueReader, pieces: &[&str]) -> Outcome {
    let mut reader = reader.clone();
    let mut out = String::new();
    let mut used = 0;
    for piece in pieces {
        let step = reader.push(piece, &mut out);
        used += step.used;
        match step.state {
            ReaderState::More => assert_eq!(step.used, piece.len()),
            state => return (out, used, state),
        }
    }
    let state = reader.end(&mut out);
    (out, used, state)
}

/// Cuts a text at random between characters. Some pieces may be empty.
fn cut<'t>(text: &'t str, rng: &mut Rng) -> Vec<&'t str> {
    let mut borders: Vec<usize> = (0..rng.usize(0..12)).map(|_| rng.usize(0..=text.len())).collect();
    borders.retain(|border| text.is_char_boundary(*border));
    borders.extend([0, text.len()]);
    borders.sort_unstable();
    borders.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect()
}

/// Reads a text whole and cut in many ways, and asserts that the results agree.
fn read_every_way(reader: &ValueReader, text: &str, rng: &mut Rng) -> Outcome {
    let whole = read(reader, &[text]);
    let singles: Vec<&str> = text.char_indices().map(|(at, c)| &text[at..at + c.len_utf8()]).collect();
    assert_eq!(read(reader, &singles), whole, "{text:?} by characters");
    for _ in 0..6 {
        let pieces = cut(text, rng);
        assert_eq!(read(reader, &pieces), whole, "{pieces:?}");
    }
    whole
}

/// Returns random JSON text with all kinds of values in varied spellings.
fn json_text(rng: &mut Rng, depth: usize) -> String {
    let space = |rng: &mut Rng| [" ", "", "", "\n", " \t\r\n"][rng.usize(0..5)];
    match rng.usize(0..if depth == 0 { 6 } else { 8 }) {
        0 => ["true", "false", "null"][rng.usize(0..3)].to_owned(),
        1 | 2 => {
            ["0", "-0", "12", "1.50", "-1e5", "2E+07", "0.1e-2", "12345678901234567890123"][rng.usize(0..8)].to_owned()
        }
        3..=5 => json_string(rng),
        6 => {
            let items: Vec<String> = (0..rng.usize(0..4))
                .map(|_| format!("{}{}{}", space(rng), json_text(rng, depth - 1), space(rng)))
                .collect();
            format!("[{}{}]", space(rng), items.join(","))
        }
        _ => {
            let entries: Vec<String> = (0..rng.usize(0..4))
                .map(|_| {
                    let key = json_string(rng);
                    format!(
                        "{}{key}{}:{}{}{}",
                        space(rng),
                        space(rng),
                        space(rng),
                        json_text(rng, depth - 1),
                        space(rng)
                    )
                })
                .collect();
            format!("{{{}{}}}", space(rng), entries.join(","))
        }
    }
}

fn json_string(rng: &mut Rng) -> String {
    const PARTS: [&str; 16] = [
        "a",
        "Oslo",
        "</tool_call>",
        "{",
        "}]",
        "'",
        "\\\"",
        "\\\\",
        "\\n",
        "\\u00e9",
        "\\ud83d\\ude00",
        "é",
        "😀",
        "\\/",
        " ",
        "a long run of plain characters, longer than sixteen",
    ];
    let parts: Vec<&str> = (0..rng.usize(0..5)).map(|_| PARTS[rng.usize(0..PARTS.len())]).collect();
    format!("\"{}\"", parts.concat())
}

#[test]
fn json_comes_out_as_it_is_spelled_and_ends_where_it_ends() {
    assert_json_is_kept(&mut Rng::with_seed(1), ValueReader::json);
}

/// Checks that a reader returns JSON as it is spelled and stops at its end.
fn assert_json_is_kept(rng: &mut Rng, reader: impl Fn(JsonPolicy) -> ValueReader) {
    for policy in [JsonPolicy::Lenient, JsonPolicy::Strict] {
        for _ in 0..3_000 {
            let text = json_text(rng, 4);
            let behind = ["", "}", ", x", "</call>", " \n"][rng.usize(0..5)];
            let outcome = read_every_way(&reader(policy), &format!("{text}{behind}"), rng);
            assert_eq!(outcome, (text.clone(), text.len(), ReaderState::Done), "{text}{behind}");
            assert!(json::parse(&text).is_ok(), "{text}");
        }
    }
}

#[test]
fn json_that_is_damaged_is_refused_where_the_reader_of_whole_texts_refuses_it() {
    let mut rng = Rng::with_seed(2);
    for _ in 0..20_000 {
        let text = format!("[{}]", json_text(&mut rng, 3));
        let mut characters: Vec<char> = text.chars().collect();
        let at = rng.usize(0..characters.len());
        match rng.usize(0..3) {
            0 => drop(characters.remove(at)),
            1 => characters.insert(at, ['"', '\\', ',', '}', 'x', '0', '\u{1}', '.'][rng.usize(0..8)]),
            _ => characters[at] = ['"', '\\', ',', ']', ':', 'e', '\n', '-'][rng.usize(0..8)],
        }
        let text: String = characters.into_iter().collect();
        let (out, used, state) = read_every_way(&ValueReader::json(JsonPolicy::Strict), &text, &mut rng);
        let start = text.len() - text.trim_start().len();
        assert_eq!(out, text[start..used.max(start)], "{text}");
        match json::parse(&text) {
            Ok(_) => assert_eq!(state, ReaderState::Done, "{text}"),
            // A value may end before the mistake. An unpaired surrogate is valid JSON, but no value
            // can hold it.
            Err(error) if state == ReaderState::Done => {
                assert!(json::parse(&text[..used]).is_ok() || error.message.contains("surrogate"), "{text}");
            }
            Err(_) => {}
        }
    }
}

#[test]
fn raw_control_characters_are_escaped_or_refused_by_the_policy() {
    let text = "{\"a\nb\": \"x\t\0\r\u{1f}é\"}";
    let mut rng = Rng::with_seed(3);
    let (out, used, state) = read_every_way(&ValueReader::json(JsonPolicy::Lenient), text, &mut rng);
    assert_eq!((out.as_str(), used, state), (r#"{"a\nb": "x\t\u0000\r\u001fé"}"#, text.len(), ReaderState::Done));
    let (out, used, state) = read_every_way(&ValueReader::json(JsonPolicy::Strict), text, &mut rng);
    assert_eq!((out.as_str(), used), ("{\"a", 3));
    let why = "expected a control character to be escaped, found '\\n'";
    assert_eq!(state, ReaderState::Bad(Why::BadValue(why.into())));
}

#[test]
fn numbers_end_with_what_is_no_part_of_them() {
    let cases = [
        ("12", 2, true),
        ("12,", 2, true),
        ("-0.5e-3}", 7, true),
        ("0", 1, true),
        ("01", 1, false),
        ("-", 1, false),
        ("-x", 1, false),
        ("1.", 2, false),
        ("1.x", 2, false),
        ("1e+", 3, false),
        (" 7 ", 2, true),
        ("", 0, false),
        ("  ", 2, false),
        ("[1", 2, false),
        ("nul", 3, false),
        ("\"x", 2, false),
    ];
    let mut rng = Rng::with_seed(4);
    for (text, used, is_done) in cases {
        let (out, found, state) = read_every_way(&ValueReader::json(JsonPolicy::Strict), text, &mut rng);
        assert_eq!((found, state == ReaderState::Done), (used, is_done), "{text}");
        assert_eq!(out, text[..used].trim_start(), "{text}");
    }
}

#[test]
fn hostile_json_is_bounded() {
    for open in ["[", "{\"a\":", "[{\"a\":"] {
        let text = open.repeat(1_000_000);
        let (_, used, state) = read(&ValueReader::json(JsonPolicy::Lenient), &[&text]);
        assert_eq!(state, ReaderState::Bad(Why::TooDeep));
        assert!(used <= (nest::MAX_DEPTH + 1) * open.len());
    }
    let deep = format!("{}{}", "[".repeat(nest::MAX_DEPTH), "]".repeat(nest::MAX_DEPTH));
    assert_eq!(read(&ValueReader::json(JsonPolicy::Strict), &[&deep]), (deep.clone(), deep.len(), ReaderState::Done));
    let long = format!("\"{}\"", "\0\n\\\"x".repeat(2_000_000));
    let (out, used, state) = read(&ValueReader::json(JsonPolicy::Lenient), &[&long]);
    assert_eq!((used, state), (long.len(), ReaderState::Done));
    assert_eq!(out.len(), 2 + 2_000_000 * r#"\u0000\n\"x"#.len());
}

#[test]
fn text_becomes_a_string_in_any_pieces() {
    let mut rng = Rng::with_seed(5);
    for _ in 0..500 {
        let characters = ["\"", "\\", "\n", "\0", "\u{7f}", "é", "😀", "plain text of some length", "<", "]]>"];
        let text: String = (0..rng.usize(0..8)).map(|_| characters[rng.usize(0..characters.len())]).collect();
        let mut out = String::new();
        let mut value = TextValue::default();
        cut(&text, &mut rng).into_iter().for_each(|piece| value.push(piece, &mut out));
        value.end(&mut out);
        assert_eq!(json::parse(&out).unwrap(), Json::String(text));
    }
}

#[test]
fn a_cdata_section_is_its_text() {
    for (text, inside) in [
        ("plain", "plain"),
        ("<![CDATA[a < b]]>", "a < b"),
        ("\n<![CDATA[ x ]]>\n", " x "),
        ("<![CDATA[]]>", ""),
        ("<![CDATA[a]]]]><![CDATA[>b]]>", "a]]>b"),
        ("<![CDATA[a]]>b", "<![CDATA[a]]>b"),
        ("<![CDATA[", "<![CDATA["),
        ("<![CDATA[]]", "<![CDATA[]]"),
    ] {
        assert_eq!(uncdata(text), inside);
    }
}

#[test]
fn a_raw_text_is_typed_by_its_schema() {
    let document = json::parse(
        r##"{"properties": {
            "string": {"type": "string"}, "integer": {"type": "integer"}, "number": {"type": "number"}, "flag": {"type": "boolean"},
            "list": {"type": "array"}, "object": {"type": "object"}, "nothing": {"type": "null"}, "maybe": {"type": ["string", "null"]},
            "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]}, "level": {"enum": ["1", "2", 3]},
            "referred": {"$ref": "#/$defs/name"}, "any": {}, "loop": {"$ref": "#/properties/loop"},
            "both": {"allOf": [{"type": ["string", "integer"]}, {"type": ["integer", "null"]}]}, "one": {"const": 1},
            "words": {"items": {"type": "string"}}, "nullable": {"type": "string", "nullable": true}
        }, "$defs": {"name": {"type": "string"}}}"##,
    )
    .unwrap();
    let cases = [
        ("string", "123", r#""123""#),
        ("string", "null", r#""null""#),
        ("string", " a\n\"b\" ", r#"" a\n\"b\" ""#),
        ("string", "{\"a\": 1}", r#""{\"a\": 1}""#),
        ("integer", "123", "123"),
        ("integer", " 123\n", "123"),
        ("integer", "3.0", "3.0"),
        ("integer", "2.5", "2.5"),
        ("integer", "007", r#""007""#),
        ("integer", "many", r#""many""#),
        ("integer", "true", r#""true""#),
        ("integer", "null", "null"),
        ("number", "1e5", "1e5"),
        ("number", "12", "12"),
        ("flag", "true", "true"),
        ("flag", "yes", r#""yes""#),
        ("list", "[1,  2]", "[1,  2]"),
        ("list", "[1, 2", r#""[1, 2""#),
        ("list", "{}", r#""{}""#),
        ("object", "{\"b\":1.0,\"a\":null}", "{\"b\":1.0,\"a\":null}"),
        ("nothing", "null", "null"),
        ("maybe", "null", "null"),
        ("maybe", "5", r#""5""#),
        ("either", "5", "5"),
        ("either", "five", r#""five""#),
        ("level", "1", r#""1""#),
        ("level", "3", "3"),
        ("referred", "5", r#""5""#),
        ("any", "5", "5"),
        ("any", "\"5\"", r#""\"5\"""#),
        ("loop", "5", "5"),
        ("both", "5", "5"),
        ("both", "x", r#""x""#),
        ("one", "1", "1"),
        ("words", "[\"a\"]", "[\"a\"]"),
        ("nullable", "null", "null"),
        ("integer", "1_000", "1000"),
        ("integer", "None", "null"),
        ("number", "+.5", "0.5"),
        ("flag", "True", "true"),
        ("flag", "False ", "false"),
        ("flag", "TRUE", r#""TRUE""#),
        ("list", "('a', None)", "[\"a\", null]"),
        ("object", "{'k': [1,  True]}", r#"{"k": [1,  true]}"#),
        ("object", "{'k': [1, f()]}", r#""{'k': [1, f()]}""#),
        ("maybe", "None", "null"),
        ("either", "1_000", r#""1_000""#),
        ("unknown", "True", "true"),
        ("unknown", "None", "null"),
        ("unknown", "{'k': 'v'}", r#"{"k": "v"}"#),
        ("unknown", "'v'", r#""'v'""#),
        ("unknown", "(1, 2)", r#""(1, 2)""#),
        ("unknown", "[]", "[]"),
        ("unknown", "", r#""""#),
        ("unknown", "1 2", r#""1 2""#),
    ];
    for (key, raw, value) in cases {
        let schema = Schema::new(&document).property(key);
        let TypedValue { json, is_misfit } = typed(raw, types_of(raw, schema));
        assert_eq!(json, value, "{key}: {raw}");
        let takes_strings = schema.is_none_or(|schema| schema.types() & Types::STRING == Types::STRING);
        assert!(
            takes_strings || schema.is_some_and(|schema| schema.lists_text(raw)) || is_misfit == json.starts_with('"')
        );
        assert!(!is_misfit || !takes_strings, "{key}: {raw}");
    }
}

/// Reports whether Python considers two values equal. Numbers are compared regardless of their
/// spelling.
fn same(one: &Json, other: &Json) -> bool {
    match (one, other) {
        (Json::Number(one), Json::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (Json::Array(one), Json::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Json::Object(one), Json::Object(other)) => {
            let mut pairs = one.iter().zip(other.iter());
            one.len() == other.len() && pairs.all(|(one, other)| one.0 == other.0 && same(one.1, other.1))
        }
        _ => one == other,
    }
}

/// The fixture contains Python's own results for many valid and damaged texts.
#[test]
fn python_is_read_as_python_reads_it() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/values/python.jsonl");
    let cases = std::fs::read_to_string(path).unwrap();
    let mut rng = Rng::with_seed(6);
    for line in cases.lines() {
        let case = json::parse(line).unwrap();
        let field = |name| case.as_object().unwrap().get(name);
        let Some(text) = field("text").and_then(Json::as_str) else { continue };
        let (reader, text, behind) = match field("kind").and_then(Json::as_str) {
            Some("value") => (ValueReader::literal(JsonPolicy::Strict, usize::MAX), text.to_owned(), 0),
            _ => (ValueReader::python_arguments(JsonPolicy::Strict, usize::MAX), format!("{text})"), 1),
        };
        let (out, used, state) = read_every_way(&reader, &text, &mut rng);
        let found = (state == ReaderState::Done && used + behind == text.len()).then(|| json::parse(&out).unwrap());
        let is_same = match (&found, field("value")) {
            (Some(found), Some(wanted)) => same(found, wanted),
            (found, wanted) => found.is_none() && wanted.is_none(),
        };
        assert!(is_same, "{text:?}: {out} {state:?}");
    }
}

#[test]
fn arguments_are_written_as_python_writes_json() {
    let cases = [
        ("city='Oslo', n=3, deep={'a': [None, True]})", r#"{"city": "Oslo", "n": 3, "deep": {"a": [null, true]}}"#),
        ("a=1,b=[1,2,],c={'k':'v',},)", r#"{"a": 1, "b": [1, 2], "c": {"k": "v"}}"#),
        (")", "{}"),
        ("  )", "{}"),
        ("**{'a-b': 1}, **{}, **{'class': 2, }, c=3)", r#"{"a-b": 1, "class": 2, "c": 3}"#),
        (
            "a=(1), b=(1,), c=(), d=((1, (2)), ((3))), e=('x' 'y'))",
            r#"{"a": 1, "b": [1], "c": [], "d": [[1, 2], 3], "e": "xy"}"#,
        ),
        ("a={1: 2, None: 3, 1.50: 4, -1: 5})", r#"{"a": {"1": 2, "null": 3, "1.50": 4, "-1": 5}}"#),
        ("a=true, b=null, class='x', a-b=\"\\/\")", r#"{"a": true, "b": null, "class": "x", "a-b": "\\/"}"#),
        ("a='l1\nl2')", r#"{"a": "l1\nl2"}"#),
        (r"a='x'  r'\y' u'z'  , b=('x' R'y' , 1), c=3)", r#"{"a": "x\\yz", "b": ["xy", 1], "c": 3}"#),
    ];
    let mut rng = Rng::with_seed(7);
    for (text, json) in cases {
        let reader = ValueReader::python_arguments(JsonPolicy::Lenient, 1_000);
        let outcome = read_every_way(&reader, &format!("{text}</call>"), &mut rng);
        assert_eq!(outcome, (json.to_owned(), text.len() - 1, ReaderState::Done), "{text}");
    }
}

#[test]
fn what_is_no_literal_is_refused_with_its_reason() {
    let cases = [
        ("a=f(1))", 3, "expected a literal, found `f(`"),
        ("a=foo)", 3, "expected a literal, found `fo`"),
        ("'Oslo')", 0, "expected a keyword argument, found `'`"),
        ("1)", 1, "expected `=` after an argument's name, found `)`"),
        ("a=1 b=2)", 5, "expected a number or an operator, found `=`"),
        ("a={1, 2})", 4, "expected `:` after the key, found `,`"),
        ("a={(1, 2): 3})", 3, "expected a string or a number as a key, found `(`"),
        ("a=[1)", 4, "expected `,` or `]`, found `)`"),
        ("a=2j)", 4, "expected a number, found `2j`"),
        ("a=b'x')", 2, "expected a literal, found `b`"),
        ("a='\\N{DASH}')", 4, "expected an escape other than `\\N`, found `N`"),
        ("a='\\x4z')", 6, "expected a hexadecimal digit of a character code, found `z`"),
        ("*a)", 1, "expected `**`, found `a`"),
        ("**[])", 2, "expected a dict after `**`, found `[`"),
        ("a==1)", 2, "expected a literal, found `=`"),
        ("a=1 # no)", 4, "expected a number or an operator, found `#`"),
    ];
    let mut rng = Rng::with_seed(8);
    for (text, used, why) in cases {
        let reader = ValueReader::python_arguments(JsonPolicy::Lenient, 1_000);
        let (_, found, state) = read_every_way(&reader, text, &mut rng);
        assert_eq!((found, state), (used, ReaderState::Bad(Why::BadValue(why.into()))), "{text}");
    }
}

#[test]
fn a_literal_that_is_json_is_kept_as_it_is_spelled() {
    let mut rng = Rng::with_seed(9);
    assert_json_is_kept(&mut rng, |policy| ValueReader::literal(policy, usize::MAX));
    for (text, json) in [("{'k': [1, None]}", r#"{"k": [1, null]}"#), ("True", "true"), ("'it\\'s'", r#""it's""#)] {
        let reader = ValueReader::literal(JsonPolicy::Strict, usize::MAX);
        assert_eq!(read_every_way(&reader, text, &mut rng), (json.to_owned(), text.len(), ReaderState::Done));
    }
}

#[test]
fn values_with_marks_are_read() {
    let cases = [
        (
            r#"{city:<|"|>Oslo<|"|>,days:3,meta:{k:[1,2.5,null,{z:<|"|>ü<|"|>}]}}"#,
            r#"{"city": "Oslo", "days": 3, "meta": {"k": [1, 2.5, null, {"z": "ü"}]}}"#,
        ),
        ("{}", "{}"),
        (r#"{a:<|"|><|"|>,b:[],c:{}}"#, r#"{"a": "", "b": [], "c": {}}"#),
        (r#"{a:<|"|>x <|"| y<<|"|>, b:True}"#, r#"{"a": "x <|\"| y<", "b": true}"#),
        ("{a b.c-d,é:<|\"|>{}:,\"\n<|\"|>}", r#"{"a b.c-d,é": "{}:,\"\n"}"#),
        (r#"{a:"x",'b':'y',<|"|>c:d<|"|>:-1e5}"#, r#"{"a": "x", "b": "y", "c:d": -1e5}"#),
        (r#"[<|"|>a<|"|>,<|"|>b<|"|>]"#, r#"["a", "b"]"#),
    ];
    let mut rng = Rng::with_seed(10);
    for (text, json) in cases {
        let reader = ValueReader::marked("<|\"|>", JsonPolicy::Strict, 1_000);
        let outcome = read_every_way(&reader, &format!("{text}<tool_call|>"), &mut rng);
        assert_eq!(outcome, (json.to_owned(), text.len(), ReaderState::Done), "{text}");
    }
    for (text, used) in [("{a}", 2), ("{a:b}", 3), ("{a:<|x", 5), ("{:1}", 1), ("{a:1;}", 4), ("{a:,b:2}", 3)] {
        let reader = ValueReader::marked("<|\"|>", JsonPolicy::Strict, 1_000);
        let (_, found, state) = read_every_way(&reader, text, &mut rng);
        assert!(matches!(state, ReaderState::Bad(_)) && found == used, "{text}: {found} {state:?}");
    }
}

/// A marker whose start recurs within it must be found where a search of the whole text finds it.
#[test]
fn a_mark_is_found_wherever_it_is() {
    let mut rng = Rng::with_seed(11);
    for mark in ["aab", "aaa", "abab", "é<é", "x", "<|\"|>"] {
        let characters: Vec<char> = mark.chars().chain(['a', 'b', '"']).collect();
        for _ in 0..300 {
            let text: String = (0..rng.usize(0..12)).map(|_| characters[rng.usize(0..characters.len())]).collect();
            let whole = format!("{mark}{text}{mark}");
            let inside = &whole[mark.len()..];
            let end = inside.find(mark).unwrap();
            let reader = ValueReader::marked(mark, JsonPolicy::Strict, usize::MAX);
            let (out, used, state) = read_every_way(&reader, &whole, &mut rng);
            assert_eq!((used, state), (mark.len() + end + mark.len(), ReaderState::Done), "{whole}");
            assert_eq!(json::parse(&out).unwrap(), Json::String(inside[..end].to_owned()), "{whole}");
        }
    }
}

#[test]
fn json_in_a_string_is_unwrapped_as_it_comes() {
    let mut rng = Rng::with_seed(12);
    for _ in 0..2_000 {
        let text = json_text(&mut rng, 3);
        let mut wrapped = String::new();
        json::write_string(&mut wrapped, &text, rng.bool());
        for policy in [JsonPolicy::Lenient, JsonPolicy::Strict] {
            let (out, used, state) =
                read_every_way(&ValueReader::json_string(policy), &format!("{wrapped}, x"), &mut rng);
            assert_eq!((out.as_str(), used, state), (text.trim_start(), wrapped.len(), ReaderState::Done), "{wrapped}");
        }
    }
    let strict = [
        (r#""{\"a\":\"\\ud83d\\n\"} ""#, Some(r#"{"a":"\ud83d\n"}"#)),
        (r#""\"\ud83dx\ud83d\ud83d\ude00\"""#, Some(r#""\ud83dx\ud83d😀""#)),
        (r#""\ud83d""#, None),
        (r#""{} x""#, None),
        (r#""{""#, None),
        (r#""""#, None),
        (r#""[\q]""#, None),
        ("\"[\n]\"", None),
        ("{}", None),
    ];
    let lenient = [(r#""""#, Some("{}")), ("{\"a\": 1}", Some("{\"a\": 1}")), ("\"[\n]\"", Some("[\n]"))];
    for (policy, cases) in [(JsonPolicy::Strict, &strict[..]), (JsonPolicy::Lenient, &lenient[..])] {
        for (text, wanted) in cases {
            let (out, used, state) = read_every_way(&ValueReader::json_string(policy), text, &mut rng);
            let found = (state == ReaderState::Done && used == text.len()).then_some(out.as_str());
            assert_eq!(found, *wanted, "{text}: {out} {used} {state:?}");
        }
    }
}

#[test]
fn hostile_literals_are_bounded() {
    let long = "x".repeat(10_000_000);
    let readers = [
        ValueReader::python_arguments(JsonPolicy::Lenient, 10_000),
        ValueReader::literal(JsonPolicy::Lenient, 10_000),
        ValueReader::marked("<|\"|>", JsonPolicy::Lenient, 10_000),
    ];
    let bad = [
        ("a=".to_owned() + &"[".repeat(1_000_000), Why::TooDeep),
        ("a=".to_owned() + &"(".repeat(1_000_000), Why::TooDeep),
        ("a=".to_owned() + &"{'a':".repeat(1_000_000), Why::TooDeep),
        (long.clone(), Why::TooLong),
        ("a=".to_owned() + &"1".repeat(1_000_000), Why::TooLong),
        ("a=('".to_owned() + &long, Why::TooLong),
    ];
    for (text, wanted) in bad {
        let (_, _, state) = read(&readers[0], &[&text]);
        assert_eq!(state, ReaderState::Bad(wanted), "{}", &text[..20]);
    }
    let deep = format!("{}{}", "[".repeat(nest::MAX_DEPTH), "]".repeat(nest::MAX_DEPTH));
    assert_eq!(read(&readers[1], &[&deep]), (deep.clone(), deep.len(), ReaderState::Done));
    assert_eq!(read(&readers[1], &[&format!("[{deep}]")]).2, ReaderState::Bad(Why::TooDeep));
    for text in ["[1,".to_owned() + &" ".repeat(1_000_000), "['a'".to_owned() + &" ".repeat(1_000_000)] {
        assert_eq!(read(&readers[1], &[&text]).2, ReaderState::Bad(Why::TooLong));
    }
    for reader in &readers[1..] {
        let text = format!("'{long}\0'");
        let (out, used, state) = read(reader, &[&text]);
        assert_eq!((out.len(), used, state), (long.len() + 8, text.len(), ReaderState::Done));
    }
    // Quotes that may close a triple-quoted string, and prefixes of markers, must not be searched
    // repeatedly.
    for (reader, open, inside, close) in [
        (&readers[1], "'''", "''x", "'''"),
        (&readers[1], "[", "(1, ),", "]"),
        (&readers[1], "[", "((1), ),", "]"),
        (&readers[2], "<|\"|>", "<|\"|<|\"|", "<|\"|>"),
    ] {
        let text = format!("{open}{}{close}", inside.repeat(300_000));
        let (_, used, state) = read(reader, &[&text]);
        assert_eq!((used, state), (text.len(), ReaderState::Done));
    }
}

/// However noise is cut, the result is the same, and completed output is valid JSON.
#[test]
fn noise_is_read_alike_in_any_pieces() {
    const PARTS: [&str; 44] = [
        "{", "}", "[", "]", "(", ")", ",", ":", "=", "'", "\"", "'''", "\\", "\\u", "d83d", "\\ud83d", "0", "12", "-",
        "+", ".", "e5", "_", "True", "none", "null", "r", "u", "a", "é", "😀", "<|", "|>", "<|\"|>", " ", "\n", "\0",
        "\u{c}", "**", "*", "\\x", "\\N", "x=", "'a'",
    ];
    let mut rng = Rng::with_seed(13);
    let readers = [JsonPolicy::Lenient, JsonPolicy::Strict].map(|policy| {
        [
            ValueReader::json(policy),
            ValueReader::json_string(policy),
            ValueReader::python_arguments(policy, 6),
            ValueReader::literal(policy, 64),
            ValueReader::literal(policy, 6),
            ValueReader::marked("<|\"|>", policy, 64),
        ]
    });
    for _ in 0..10_000 {
        let text: String = (0..rng.usize(0..14)).map(|_| PARTS[rng.usize(0..PARTS.len())]).collect();
        for reader in readers.iter().flatten() {
            let (out, used, state) = read_every_way(reader, &text, &mut rng);
            assert!(used <= text.len());
            if state == ReaderState::Done {
                let whole = read(&ValueReader::json(JsonPolicy::Strict), &[&out]);
                assert_eq!(whole, (out.clone(), out.len(), ReaderState::Done), "{text:?}");
            }
        }
    }
}
