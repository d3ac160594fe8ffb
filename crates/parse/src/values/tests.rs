//! Laws of every reader: any cut gives the same, what comes out whole is JSON, nothing panics.

use fastrand::Rng;
use rolecall_conversation::json;

use super::*;
use crate::JsonPolicy;

/// What a reader makes of a text in one piece, in single characters or in random pieces: what it gave, how much it used, how it ended.
type Outcome = (String, usize, State);

fn read(reader: &ValueReader, pieces: &[&str]) -> Outcome {
    let mut reader = reader.clone();
    let mut out = String::new();
    let mut used = 0;
    for piece in pieces {
        let step = reader.push(piece, &mut out);
        used += step.used;
        match step.state {
            State::More => assert_eq!(step.used, piece.len()),
            state => return (out, used, state),
        }
    }
    let state = reader.end(&mut out);
    (out, used, state)
}

/// Cuts a text at random between characters; sometimes a piece is empty.
fn cut<'t>(text: &'t str, rng: &mut Rng) -> Vec<&'t str> {
    let mut borders: Vec<usize> = (0..rng.usize(0..12)).map(|_| rng.usize(0..=text.len())).collect();
    borders.retain(|border| text.is_char_boundary(*border));
    borders.extend([0, text.len()]);
    borders.sort_unstable();
    borders.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect()
}

/// Reads a text whole and cut in many ways; all must agree.
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

/// JSON text with every kind of value, spelled in every way.
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
    let mut rng = Rng::with_seed(1);
    for policy in [JsonPolicy::Lenient, JsonPolicy::Strict] {
        for _ in 0..3_000 {
            let text = json_text(&mut rng, 4);
            let behind = ["", "}", ", x", "</call>", " \n"][rng.usize(0..5)];
            let outcome = read_every_way(&ValueReader::json(policy), &format!("{text}{behind}"), &mut rng);
            assert_eq!(outcome, (text.clone(), text.len(), State::Done), "{text}{behind}");
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
            Ok(_) => assert_eq!(state, State::Done, "{text}"),
            // A value may end before the fault; a half of a pair of surrogates is JSON that no value can be made of.
            Err(error) if state == State::Done => {
                assert!(json::parse(&text[..used]).is_ok() || error.message.contains("surrogates"), "{text}");
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
    assert_eq!((out.as_str(), used, state), (r#"{"a\nb": "x\t\u0000\r\u001fé"}"#, text.len(), State::Done));
    let (out, used, state) = read_every_way(&ValueReader::json(JsonPolicy::Strict), text, &mut rng);
    assert_eq!((out.as_str(), used), ("{\"a", 3));
    let why = "expected a control character to be escaped, found '\\n'";
    assert_eq!(state, State::Bad(Why::BadValue(why.into())));
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
        assert_eq!((found, state == State::Done), (used, is_done), "{text}");
        assert_eq!(out, text[..used].trim_start(), "{text}");
    }
}

#[test]
fn hostile_json_is_bounded() {
    for open in ["[", "{\"a\":", "[{\"a\":"] {
        let text = open.repeat(1_000_000);
        let (_, used, state) = read(&ValueReader::json(JsonPolicy::Lenient), &[&text]);
        assert_eq!(state, State::Bad(Why::TooDeep));
        assert!(used <= (nest::MAX_DEPTH + 1) * open.len());
    }
    let deep = format!("{}{}", "[".repeat(nest::MAX_DEPTH), "]".repeat(nest::MAX_DEPTH));
    assert_eq!(read(&ValueReader::json(JsonPolicy::Strict), &[&deep]), (deep.clone(), deep.len(), State::Done));
    let long = format!("\"{}\"", "\0\n\\\"x".repeat(2_000_000));
    let (out, used, state) = read(&ValueReader::json(JsonPolicy::Lenient), &[&long]);
    assert_eq!((used, state), (long.len(), State::Done));
    assert_eq!(out.len(), 2 + 2_000_000 * r#"\u0000\n\"x"#.len());
}

#[test]
fn text_becomes_a_string_in_any_pieces() {
    let mut rng = Rng::with_seed(5);
    for _ in 0..500 {
        let characters = ["\"", "\\", "\n", "\0", "\u{7f}", "é", "😀", "plain text of some length", "<", "]]>"];
        let text: String = (0..rng.usize(0..8)).map(|_| characters[rng.usize(0..characters.len())]).collect();
        let (out, used, state) = read_every_way(&ValueReader::text(), &text, &mut rng);
        assert_eq!((used, state), (text.len(), State::Done));
        assert_eq!(json::parse(&out).unwrap(), json::Json::String(text));
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
        ("unknown", "[]", "[]"),
        ("unknown", "", r#""""#),
        ("unknown", "1 2", r#""1 2""#),
    ];
    for (key, raw, value) in cases {
        assert_eq!(typed(raw, Schema::new(&document).property(key)), value, "{key}: {raw}");
    }
}
