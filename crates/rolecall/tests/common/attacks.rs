//! Attacks by hostile tokenizer files, and how each must end.

use rolecall::tokenizer::{Error, TextPlace, load_bytes};

use super::files::*;
use super::{cpu_time, peak_kilobytes};

/// How an attack ends: with an error when loading, with an error when encoding, or with success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    NotLoaded(&'static str),
    NotEncoded,
    Works,
    /// Either of the previous two. A limit of the regex engine decides.
    WorksOrNot,
}

impl End {
    /// Reports whether an attack ended as expected.
    pub fn is_shown_as(self, found: &str) -> bool {
        match self {
            End::NotLoaded(code) => found == code,
            End::NotEncoded => found == "not encoded",
            End::Works => found == "works",
            End::WorksOrNot => matches!(found, "works" | "not encoded"),
        }
    }
}

pub struct Attack {
    pub name: &'static str,
    pub file: Box<dyn Fn() -> Vec<u8>>,
    pub config: Option<&'static str>,
    pub text: fn() -> String,
    pub end: End,
}

/// Loads a file and encodes a text with it, as ordinary text and as the reference does.
pub fn run(file: &[u8], config: Option<&[u8]>, text: &str) -> String {
    let loaded = load_bytes(file, config);
    let tokenizer = match loaded {
        Ok((_, tokenizer)) => tokenizer,
        Err(error) => {
            assert!(error.to_string().len() < 1 << 20, "an error message must not contain a whole file");
            return error.code().to_owned();
        }
    };
    let mut result: Result<(), Error> = Ok(());
    for place in [TextPlace::Start, TextPlace::Inside] {
        let mut tokens = Vec::new();
        result = result.and(tokenizer.encode_ordinary(text, place, &mut tokens));
        result = result.and(tokenizer.encode_reference(text, place, &mut tokens));
        for token in &tokens {
            assert!(text.get(token.range()).is_some(), "{token:?} in {text:?}");
        }
    }
    if result.is_ok() { "works".to_owned() } else { "not encoded".to_owned() }
}

/// Runs an attack and returns its CPU time in milliseconds, its memory in megabytes above the
/// start, and how it ended.
pub fn measure(attack: &Attack) -> String {
    let (file, text) = ((attack.file)(), (attack.text)());
    let (start, before) = (peak_kilobytes(), cpu_time());
    let end = run(&file, attack.config.map(str::as_bytes), &text);
    let milliseconds = (cpu_time() - before).as_secs_f64() * 1e3;
    let megabytes = peak_kilobytes().saturating_sub(start) as f64 / 1024.0;
    format!("{milliseconds:.1} {megabytes:.1} {:.1} {end}", file.len() as f64 / f64::from(1 << 20))
}

const MALFORMED: End = End::NotLoaded("tokenizer_malformed");
const UNSUPPORTED: End = End::NotLoaded("tokenizer_unsupported");
const TRUNCATED: End = End::NotLoaded("tokenizer_truncated");
const NOT_RECOGNIZED: End = End::NotLoaded("tokenizer_not_recognized");

fn short() -> String {
    "ab <s> a\u{301}b \u{4f60}\u{0}  ab\n".repeat(20)
}

fn long() -> String {
    "a".repeat(20_000)
}

fn attack(name: &'static str, end: End, file: impl Fn() -> Vec<u8> + 'static) -> Attack {
    Attack { name, file: Box::new(file), config: None, text: short, end }
}

fn json(name: &'static str, end: End, part: &'static str, value: impl Fn() -> String + 'static) -> Attack {
    attack(name, end, move || tokenizer_json(&[(part, &value())]))
}

fn on_long(attack: Attack) -> Attack {
    Attack { text: long, ..attack }
}

fn beside(attack: Attack, config: &'static str) -> Attack {
    Attack { config: Some(config), ..attack }
}

/// Returns a sequence that repeats one part.
fn chain(key: &str, part: &str, count: usize) -> String {
    format!(r#"{{"type": "Sequence", "{key}": [{}]}}"#, vec![part; count].join(", "))
}

fn split(pattern: &str) -> String {
    let pattern = pattern.replace('\\', "\\\\").replace('"', "\\\"");
    format!(r#"{{"type": "Split", "pattern": {{"Regex": "{pattern}"}}, "behavior": "Isolated", "invert": false}}"#)
}

pub fn attacks() -> Vec<Attack> {
    let mut attacks = of_tokenizer_json();
    attacks.extend(of_parts());
    attacks.extend(of_sentencepiece());
    attacks.extend(of_ranks());
    attacks.extend(of_gguf());
    attacks
}

fn of_tokenizer_json() -> Vec<Attack> {
    let model = |rest: &'static str| move || format!(r#"{{"type": "BPE", {rest}}}"#);
    let added = |id: &str, text: &str| {
        format!(
            r#"{{"id": {id}, "content": "{text}", "special": true, "normalized": false, "lstrip": false, "rstrip": false, "single_word": false}}"#
        )
    };
    vec![
        json("huge id", MALFORMED, "model", model(r#""vocab": {"a": 4294967295}, "merges": []"#)),
        json("id of 2^40", MALFORMED, "model", model(r#""vocab": {"a": 1099511627776}, "merges": []"#)),
        json("negative id", MALFORMED, "model", model(r#""vocab": {"a": -1}, "merges": []"#)),
        json("id as a string", MALFORMED, "model", model(r#""vocab": {"a": "1"}, "merges": []"#)),
        json("duplicate ids", MALFORMED, "model", model(r#""vocab": {"a": 1, "b": 1}, "merges": []"#)),
        json("merges of unknown tokens", MALFORMED, "model", model(r#""vocab": {"a": 0, "b": 1}, "merges": ["a b"]"#)),
        json("merges of three tokens", MALFORMED, "model", model(r#""vocab": {"a": 0}, "merges": [["a", "a", "a"]]"#)),
        json(
            "a merge into itself",
            End::NotLoaded("tokenizer_malformed"),
            "model",
            model(
                r##""continuing_subword_prefix": "#", "vocab": {"?": 0, "a": 1, "#": 2}, "unk_token": "?", "merges": ["a #"]"##,
            ),
        ),
        json("an empty token", MALFORMED, "model", model(r#""vocab": {"": 0, "a": 1}, "merges": []"#)),
        json("a model of another kind", UNSUPPORTED, "model", || r#"{"type": "Magic"}"#.into()),
        json("a model that is a list", MALFORMED, "model", || "[1, 2]".into()),
        json("added tokens that are not a list", MALFORMED, "added_tokens", || r#"{"a": 1}"#.into()),
        json("an added token of 2^40", MALFORMED, "added_tokens", move || format!("[{}]", added("1099511627776", "x"))),
        json("an added token of u32::MAX", MALFORMED, "added_tokens", move || {
            format!("[{}]", added("4294967295", "x"))
        }),
        json("an empty added token", MALFORMED, "added_tokens", move || format!("[{}]", added("7", ""))),
        json("two added tokens with one id", MALFORMED, "added_tokens", move || {
            format!("[{}, {}]", added("7", "x"), added("7", "y"))
        }),
        json("added tokens that contain each other", End::Works, "added_tokens", move || {
            let tokens: Vec<String> =
                (1..200).map(|length| added(&(length + 6).to_string(), &"#".repeat(length))).collect();
            format!("[{}]", tokens.join(", "))
        }),
        json("a hundred thousand added tokens", End::Works, "added_tokens", move || {
            let tokens: Vec<String> = (7..100_007).map(|id| added(&id.to_string(), &format!("<token {id}>"))).collect();
            format!("[{}]", tokens.join(", "))
        }),
        json("an id around a prompt that is not a token's", MALFORMED, "post_processor", || {
            r#"{"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x"}}, {"Sequence": {"id": "A"}}], "special_tokens": {"x": {"ids": [4000000000]}}}"#.into()
        }),
        json("a post-processor of wrong types", End::Works, "post_processor", || {
            r#"{"type": "TemplateProcessing", "single": {"a": [[]]}, "special_tokens": 5}"#.into()
        }),
        json("a post-processor nested in itself", NOT_RECOGNIZED, "post_processor", || {
            r#"{"type": "Sequence", "processors": ["#.repeat(100_000)
        }),
        attack("nested lists", TRUNCATED, || {
            "{\"model\": ".bytes().chain(std::iter::repeat_n(b'[', 1 << 20)).collect()
        }),
        attack("nested objects in a normalizer", NOT_RECOGNIZED, || {
            tokenizer_json(&[("normalizer", &r#"{"a": "#.repeat(1 << 18))])
        }),
        attack("NUL", NOT_RECOGNIZED, || b"{\0}".to_vec()),
        attack("invalid UTF-8", End::NotLoaded("tokenizer_not_recognized"), || b"{\"model\": \"\xff\xfe\"}".to_vec()),
        attack("half a file", TRUNCATED, || tokenizer_json(&[])[..400].to_vec()),
        attack("a vocabulary of a million", End::Works, || {
            let tokens: Vec<String> = (0..1_000_000).map(|id| format!("\"t{id}\": {id}")).collect();
            with_model(&format!(r#"{{"type": "BPE", "vocab": {{{}}}, "merges": []}}"#, tokens.join(", ")))
        }),
        beside(
            attack("a config of wrong types", MALFORMED, || tokenizer_json(&[])),
            r#"{"added_tokens_decoder": [1]}"#,
        ),
        beside(
            attack("a config with an invalid id", MALFORMED, || tokenizer_json(&[])),
            r#"{"added_tokens_decoder": {"-1": {"content": "x"}}}"#,
        ),
        beside(
            attack("a config with another id", MALFORMED, || tokenizer_json(&[])),
            r#"{"added_tokens_decoder": {"3000000000": {"content": "x"}}}"#,
        ),
    ]
}

fn of_parts() -> Vec<Attack> {
    let word_piece = |most: &'static str| {
        move || {
            with_model(&format!(
                r###"{{"type": "WordPiece", "unk_token": "?", "continuing_subword_prefix": "##", "max_input_chars_per_word": {most}, "vocab": {{"?": 0, "a": 1, "##a": 2}}}}"###
            ))
        }
    };
    let charsmap = |bytes: &[u8]| format!(r#"{{"type": "Precompiled", "precompiled_charsmap": "{}"}}"#, base64(bytes));
    vec![
        on_long(json("a replacement that doubles, forty times", UNSUPPORTED, "normalizer", || {
            chain("normalizers", r#"{"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}"#, 40)
        })),
        on_long(json("a long replacement", UNSUPPORTED, "normalizer", || {
            format!(r#"{{"type": "Replace", "pattern": {{"String": "a"}}, "content": "{}"}}"#, "b".repeat(1 << 20))
        })),
        on_long(json("a replacement of the empty string", End::WorksOrNot, "normalizer", || {
            r#"{"type": "Replace", "pattern": {"Regex": ""}, "content": "xyz"}"#.into()
        })),
        json("a prefix, a thousand times", UNSUPPORTED, "normalizer", || {
            chain("normalizers", r#"{"type": "Prepend", "prepend": "ab"}"#, 1000)
        }),
        json("byte-level normalizers, forty times", UNSUPPORTED, "normalizer", || {
            chain("normalizers", r#"{"type": "ByteLevel"}"#, 40)
        }),
        json("byte-level pre-tokenizers, forty times", UNSUPPORTED, "pre_tokenizer", || {
            chain(
                "pretokenizers",
                r#"{"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": false}"#,
                40,
            )
        }),
        json("ten thousand splits", UNSUPPORTED, "pre_tokenizer", || {
            chain("pretokenizers", r#"{"type": "Whitespace"}"#, 10_000)
        }),
        json("two charsmaps", UNSUPPORTED, "normalizer", move || {
            chain("normalizers", &charsmap(&[4, 0, 0, 0, 0, 0, 0, 0]), 2)
        }),
        json("a charsmap that claims a gigabyte", MALFORMED, "normalizer", move || {
            charsmap(&[0xFF, 0xFF, 0xFF, 0x3F, 0, 0, 0, 0])
        }),
        json("a charsmap that is not base64", MALFORMED, "normalizer", || {
            r#"{"type": "Precompiled", "precompiled_charsmap": "@@@@"}"#.into()
        }),
        json("a missing charsmap", MALFORMED, "normalizer", || r#"{"type": "Precompiled"}"#.into()),
        json("a normalizer of another kind", MALFORMED, "normalizer", || r#"{"type": "Magic"}"#.into()),
        on_long(json("a pattern that backtracks", End::WorksOrNot, "pre_tokenizer", || split(r"(a*)*\1b"))),
        on_long(json("a pattern with lookahead and backreference", End::WorksOrNot, "pre_tokenizer", || {
            split(r"(?=(a+)+$)(?!b)(a|aa)+\1$")
        })),
        on_long(json("an empty pattern", End::WorksOrNot, "pre_tokenizer", || split(""))),
        on_long(json("an empty string to split at", End::WorksOrNot, "pre_tokenizer", || {
            r#"{"type": "Split", "pattern": {"String": ""}, "behavior": "Removed", "invert": true}"#.into()
        })),
        json("nested repetitions", UNSUPPORTED, "pre_tokenizer", || split("(((a{1000}){1000}){1000}){1000}")),
        json("repeated lookaheads", UNSUPPORTED, "pre_tokenizer", || split("((((?=a)){1000}){1000}){1000}")),
        json("a pattern of a megabyte", UNSUPPORTED, "pre_tokenizer", || split(&"a|".repeat(1 << 19))),
        json("a pattern of a hundred megabytes", UNSUPPORTED, "pre_tokenizer", || split(&"ab?".repeat(35 << 20))),
        json("a pattern that replaces, of a megabyte", UNSUPPORTED, "normalizer", || {
            format!(r#"{{"type": "Replace", "pattern": {{"Regex": "{}"}}, "content": ""}}"#, "a|".repeat(1 << 19))
        }),
        json("nested groups", MALFORMED, "pre_tokenizer", || {
            split(&format!("{}a{}", "(".repeat(5000), ")".repeat(5000)))
        }),
        json("an invalid pattern", MALFORMED, "pre_tokenizer", || split("[a")),
        json("a length of zero", MALFORMED, "pre_tokenizer", || r#"{"type": "FixedLength", "length": 0}"#.into()),
        json("an unlimited length", End::Works, "pre_tokenizer", || {
            r#"{"type": "FixedLength", "length": 18446744073709551615}"#.into()
        }),
        on_long(attack("words of unlimited length", UNSUPPORTED, word_piece("18446744073709551615"))),
        on_long(attack("words of a negative length", MALFORMED, word_piece("-1"))),
        attack("an unknown piece out of range", MALFORMED, || {
            with_model(r#"{"type": "Unigram", "unk_id": 4000000000, "vocab": [["a", 0.0]]}"#)
        }),
        attack("a score that overflows", MALFORMED, || {
            with_model(r#"{"type": "Unigram", "unk_id": 0, "vocab": [["a", 1e999]]}"#)
        }),
        attack("an empty piece", MALFORMED, || with_model(r#"{"type": "Unigram", "unk_id": 0, "vocab": [["", 0.0]]}"#)),
        attack("a piece of a megabyte", UNSUPPORTED, || {
            with_model(&format!(r#"{{"type": "Unigram", "unk_id": 0, "vocab": [["{}", 0.0]]}}"#, "a".repeat(1 << 20)))
        }),
        on_long(attack("pieces of all lengths", End::Works, || {
            let pieces: Vec<String> = (1..256).map(|length| format!(r#"["{}", -1.5]"#, "a".repeat(length))).collect();
            with_model(&format!(r#"{{"type": "Unigram", "unk_id": 0, "vocab": [{}]}}"#, pieces.join(", ")))
        })),
        on_long(attack("merges of one letter", End::Works, || {
            let tokens: Vec<String> = (1..300).map(|length| format!(r#""{}": {length}"#, "a".repeat(length))).collect();
            let merges: Vec<String> = (1..299).map(|length| format!(r#"["a", "{}"]"#, "a".repeat(length))).collect();
            with_model(&format!(
                r#"{{"type": "BPE", "vocab": {{{}}}, "merges": [{}]}}"#,
                tokens.join(", "),
                merges.join(", ")
            ))
        })),
    ]
}

fn of_sentencepiece() -> Vec<Attack> {
    let bpe: &[u8] = &[0x18, 2];
    let with = |more: fn() -> Vec<u8>| move || sentencepiece(&more(), &[0x18, 2], &[]);
    vec![
        attack("a model with a piece twice", MALFORMED, with(|| piece(b"a", 0.0, 1))),
        attack("a model with an empty piece", MALFORMED, with(|| piece(b"", 0.0, 1))),
        attack("a model with a piece that is not UTF-8", MALFORMED, with(|| piece(b"\xff", 0.0, 1))),
        attack("a model with a score of NaN", MALFORMED, with(|| piece(b"x", f32::NAN, 1))),
        attack("a model with an infinite score", MALFORMED, with(|| piece(b"x", f32::INFINITY, 1))),
        attack("a model with a piece of another type", MALFORMED, with(|| piece(b"x", 0.0, 99))),
        attack("a model with two unknown pieces", MALFORMED, with(|| piece(b"x", 0.0, 2))),
        attack("a model with a byte and no fallback", MALFORMED, with(|| piece(b"<0x41>", 0.0, 6))),
        attack("a model that claims a gigabyte", TRUNCATED, || {
            [&sentencepiece(&[], &[0x18, 2], &[])[..], &[0x0A, 0x80, 0x80, 0x80, 0x80, 0x04]].concat()
        }),
        attack("a model that claims 2^63 bytes", TRUNCATED, || {
            [&sentencepiece(&[], &[0x18, 2], &[])[..], &[0x0A, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F]]
                .concat()
        }),
        attack("a model with an unterminated varint", NOT_RECOGNIZED, || {
            [&sentencepiece(&[], &[0x18, 2], &[])[..], &[0x0A], &[0xFF; 20]].concat()
        }),
        attack("a model with groups", NOT_RECOGNIZED, || {
            [&sentencepiece(&[], &[0x18, 2], &[])[..], &[0x0B; 100]].concat()
        }),
        attack("a model of words", UNSUPPORTED, || sentencepiece(&[], &[0x18, 3], &[])),
        attack("a model of type 2^40", UNSUPPORTED, || {
            sentencepiece(&[], &[0x18, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20], &[])
        }),
        attack("a model whose type is text", MALFORMED, || sentencepiece(&[], &[0x1A, 1, 65], &[])),
        attack("a model with a charsmap that claims a gigabyte", MALFORMED, || {
            sentencepiece(&[], &[0x18, 2], &field(2, &[0xFF, 0xFF, 0xFF, 0x3F, 0, 0, 0, 0]))
        }),
        attack("a model with a charsmap that leaves its table", MALFORMED, || {
            sentencepiece(&[], &[0x18, 2], &field(2, &[4, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0x7F, 0]))
        }),
        attack("half a model", TRUNCATED, move || {
            let file = sentencepiece(&[], bpe, &[]);
            file[..file.len() / 2].to_vec()
        }),
        on_long(attack("a model with pieces of all lengths", End::Works, || {
            let more: Vec<u8> = (2..1000).flat_map(|length| piece("a".repeat(length).as_bytes(), -1.0, 1)).collect();
            sentencepiece(&more, &[0x18, 2], &[])
        })),
        on_long(attack("a model with unused pieces of all lengths", End::Works, || {
            let more: Vec<u8> = (2..1000).flat_map(|length| piece("a".repeat(length).as_bytes(), -1.0, 5)).collect();
            sentencepiece(&more, &[0x18, 2], &[])
        })),
        on_long(attack("a model with user-defined pieces of all lengths", End::Works, || {
            let more: Vec<u8> = (2..400).flat_map(|length| piece("a".repeat(length).as_bytes(), -1.0, 4)).collect();
            sentencepiece(&more, &[0x18, 1], &[])
        })),
    ]
}

fn of_ranks() -> Vec<Attack> {
    let with = |more: &'static str| move || ranks(more);
    let tiktoken = |attack: Attack| beside(attack, RANKS_CONFIG);
    let tekken_with = |config: &'static str| move || tekken(config, "");
    vec![
        tiktoken(attack("ranks with a rank of 2^40", MALFORMED, with("eHg= 1099511627776\n"))),
        tiktoken(attack("ranks with a rank of u32::MAX", MALFORMED, with("eHg= 4294967295\n"))),
        tiktoken(attack("ranks with a negative rank", MALFORMED, with("eHg= -1\n"))),
        tiktoken(attack("ranks with a token twice", MALFORMED, with("YWI= 400\n"))),
        tiktoken(attack("ranks with a rank twice", MALFORMED, with("eHg= 257\n"))),
        tiktoken(attack("ranks with an empty token", MALFORMED, with(" 400\n"))),
        tiktoken(attack("ranks with invalid base64", MALFORMED, with("e!g= 400\n"))),
        tiktoken(attack("ranks with NUL", MALFORMED, with("eHg= 400\0\n"))),
        tiktoken(attack("truncated ranks", TRUNCATED, with("eHg"))),
        tiktoken(attack("ranks that are not text", NOT_RECOGNIZED, || [&ranks("")[..], b"\xff\xff"].concat())),
        tiktoken(attack("ranks with a token of a megabyte", UNSUPPORTED, || {
            ranks(&format!("{} 400\n", base64(&vec![b'a'; 1 << 20])))
        })),
        tiktoken(attack("ranks with a thousand long tokens", UNSUPPORTED, || {
            let more: String =
                (1000..3000).map(|length| format!("{} {length}\n", base64(&vec![b'a'; length]))).collect();
            ranks(&more)
        })),
        beside(attack("ranks without a pattern", End::NotLoaded("tokenizer_no_pattern"), || ranks("")), "{}"),
        beside(attack("ranks with an invalid pattern", MALFORMED, || ranks("")), r#"{"pat_str": "(a"}"#),
        beside(
            attack("ranks with nested repetitions", UNSUPPORTED, || ranks("")),
            r#"{"pat_str": "((((?=a){1000}){1000}){1000})"}"#,
        ),
        beside(
            attack("ranks with a control token that is a byte", MALFORMED, || ranks("")),
            r#"{"pat_str": ".", "added_tokens_decoder": {"500": {"content": "a"}}}"#,
        ),
        beside(
            attack("ranks with a control token of 2^40", MALFORMED, || ranks("")),
            r#"{"pat_str": ".", "added_tokens_decoder": {"1099511627776": {"content": "x"}}}"#,
        ),
        beside(
            attack("ranks with a control token of u32::MAX", MALFORMED, || ranks("")),
            r#"{"pat_str": ".", "added_tokens_decoder": {"4294967295": {"content": "x"}}}"#,
        ),
        attack(
            "tekken that claims a billion",
            MALFORMED,
            tekken_with(r#"{"pattern": ".", "default_vocab_size": 1000000000, "default_num_special_tokens": 25}"#),
        ),
        attack(
            "tekken that claims 2^63",
            MALFORMED,
            tekken_with(
                r#"{"pattern": ".", "default_vocab_size": 9223372036854775808, "default_num_special_tokens": 25}"#,
            ),
        ),
        attack(
            "tekken with 2^40 control tokens",
            MALFORMED,
            tekken_with(r#"{"pattern": ".", "default_vocab_size": 281, "default_num_special_tokens": 1099511627776}"#),
        ),
        attack(
            "tekken with fewer tokens than control tokens",
            MALFORMED,
            tekken_with(r#"{"pattern": ".", "default_vocab_size": 5, "default_num_special_tokens": 25}"#),
        ),
        attack(
            "tekken with negative sizes",
            MALFORMED,
            tekken_with(r#"{"pattern": ".", "default_vocab_size": -1, "default_num_special_tokens": 25}"#),
        ),
        attack(
            "tekken without a pattern",
            MALFORMED,
            tekken_with(r#"{"default_vocab_size": 281, "default_num_special_tokens": 25}"#),
        ),
        attack(
            "tekken with a pattern that backtracks",
            End::WorksOrNot,
            tekken_with(r#"{"pattern": "(a*)*\\1b|.", "default_vocab_size": 281, "default_num_special_tokens": 25}"#),
        ),
        attack("tekken with invalid base64", MALFORMED, || {
            tekken(TEKKEN_CONFIG, r#", {"rank": 256, "token_bytes": "?", "token_str": null}"#).replace_size(282)
        }),
        attack("tekken with a rank out of its place", MALFORMED, || {
            tekken(TEKKEN_CONFIG, r#", {"rank": 300, "token_bytes": "eHg=", "token_str": null}"#).replace_size(282)
        }),
        attack("truncated tekken", TRUNCATED, || {
            let file = tekken(TEKKEN_CONFIG, "");
            file[..file.len() - 10].to_vec()
        }),
    ]
}

/// Replaces the size that a tekken file claims.
trait ReplaceSize {
    fn replace_size(self, size: usize) -> Vec<u8>;
}

impl ReplaceSize for Vec<u8> {
    fn replace_size(self, size: usize) -> Vec<u8> {
        let text = String::from_utf8(self).unwrap_or_default();
        text.replace("\"default_vocab_size\": 281", &format!("\"default_vocab_size\": {size}")).into_bytes()
    }
}

// Long: a table with one row for each attack.
fn of_gguf() -> Vec<Attack> {
    let pieces_with = |key: fn() -> Key| move || gguf(pieces(), vec![key()]);
    let bytes_with = |key: fn() -> Key| move || gguf(byte_level(), vec![key()]);
    vec![
        attack("GGUF with 2^40 tokens", MALFORMED, pieces_with(|| ("tokenizer.ggml.tokens", 9, list(8, 1 << 40, &[])))),
        attack(
            "GGUF with a token of a gigabyte",
            MALFORMED,
            pieces_with(|| ("tokenizer.ggml.tokens", 9, list(8, 1, &[(1u64 << 30).to_le_bytes().to_vec()]))),
        ),
        attack("GGUF with millions of tokens", MALFORMED, || {
            gguf(pieces(), vec![("tokenizer.ggml.tokens", 9, list(8, 3 << 20, &[vec![0; 24 << 20]]))])
        }),
        attack("GGUF with a hundred megabytes of text", MALFORMED, || {
            let text = [&(10u64 << 20).to_le_bytes()[..], &vec![b'a'; 10 << 20]].concat();
            gguf(pieces(), vec![("tokenizer.ggml.tokens", 9, list(8, 10, &vec![text; 10]))])
        }),
        attack(
            "GGUF with tokens that are numbers",
            MALFORMED,
            pieces_with(|| ("tokenizer.ggml.tokens", 9, numbers(&[1, 2]))),
        ),
        attack(
            "GGUF with tokens that are one string",
            MALFORMED,
            pieces_with(|| ("tokenizer.ggml.tokens", 8, text("a"))),
        ),
        attack(
            "GGUF with tokens that are lists",
            MALFORMED,
            pieces_with(|| ("tokenizer.ggml.tokens", 9, list(9, 1, &[texts(&["a"])]))),
        ),
        attack("GGUF without tokens", MALFORMED, pieces_with(|| ("tokenizer.ggml.tokens", 9, texts(&[])))),
        attack(
            "GGUF with a token twice",
            MALFORMED,
            pieces_with(|| ("tokenizer.ggml.tokens", 9, texts(&["<unk>", "<s>", "a", "a", "ab", "c"]))),
        ),
        attack(
            "GGUF with a token that is not UTF-8",
            MALFORMED,
            pieces_with(|| ("tokenizer.ggml.tokens", 9, list(8, 1, &[[&1u64.to_le_bytes()[..], b"\xff"].concat()]))),
        ),
        attack("GGUF with too few scores", MALFORMED, pieces_with(|| ("tokenizer.ggml.scores", 9, floats(&[0.0])))),
        attack(
            "GGUF with a score of NaN",
            MALFORMED,
            pieces_with(|| ("tokenizer.ggml.scores", 9, floats(&[0.0, f32::NAN, 0.0, 0.0, 0.0, 0.0]))),
        ),
        attack(
            "GGUF with scores that are strings",
            MALFORMED,
            pieces_with(|| ("tokenizer.ggml.scores", 9, texts(&["0"]))),
        ),
        attack(
            "GGUF without an unknown piece",
            MALFORMED,
            pieces_with(|| ("tokenizer.ggml.token_type", 9, numbers(&[1, 3, 1, 1, 1, 1]))),
        ),
        attack(
            "GGUF with unknown token types",
            MALFORMED,
            pieces_with(|| ("tokenizer.ggml.token_type", 9, numbers(&[99, 3, 1, 1, 1, 1]))),
        ),
        attack(
            "GGUF with an opening token out of range",
            MALFORMED,
            pieces_with(|| ("tokenizer.ggml.bos_token_id", 10, (1u64 << 40).to_le_bytes().to_vec())),
        ),
        attack(
            "GGUF with a negative opening token",
            MALFORMED,
            pieces_with(|| ("tokenizer.ggml.bos_token_id", 5, (-1i32).to_le_bytes().to_vec())),
        ),
        attack(
            "GGUF with an opening token that is a string",
            MALFORMED,
            pieces_with(|| ("tokenizer.ggml.bos_token_id", 8, text("1"))),
        ),
        attack(
            "GGUF with flags that are numbers",
            MALFORMED,
            pieces_with(|| ("tokenizer.ggml.add_bos_token", 4, vec![1, 0, 0, 0])),
        ),
        attack(
            "GGUF with a damaged charsmap",
            MALFORMED,
            pieces_with(|| ("tokenizer.ggml.precompiled_charsmap", 9, list(0, 5, &[vec![255; 5]]))),
        ),
        attack(
            "GGUF with a model of another kind",
            UNSUPPORTED,
            pieces_with(|| ("tokenizer.ggml.model", 8, text("magic"))),
        ),
        attack("GGUF with another pattern", UNSUPPORTED, bytes_with(|| ("tokenizer.ggml.pre", 8, text("magic")))),
        attack(
            "GGUF with merges of unknown tokens",
            MALFORMED,
            bytes_with(|| ("tokenizer.ggml.merges", 9, texts(&["x y"]))),
        ),
        attack("GGUF with merges of one token", MALFORMED, bytes_with(|| ("tokenizer.ggml.merges", 9, texts(&["xy"])))),
        attack(
            "GGUF with merges into a control token",
            MALFORMED,
            bytes_with(|| ("tokenizer.ggml.merges", 9, texts(&["< s", "<s >"]))),
        ),
        attack("GGUF with millions of merges", MALFORMED, || {
            gguf(byte_level(), vec![("tokenizer.ggml.merges", 9, list(8, 5 << 20, &[vec![0; 40 << 20]]))])
        }),
        attack(
            "GGUF with half of its bytes",
            MALFORMED,
            bytes_with(|| ("tokenizer.ggml.tokens", 9, texts(&["a", "b", "<s>"]))),
        ),
        attack("GGUF with empty tokens", MALFORMED, bytes_with(|| ("tokenizer.ggml.tokens", 9, texts(&[""; 259])))),
        attack("GGUF with only the magic number", TRUNCATED, || b"GGUF".to_vec()),
    ]
}
