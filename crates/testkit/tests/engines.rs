//! Compares our own engine with the reference crate: ids, spans and errors of random texts, for
//! tokenizers made here and for real ones.
//!
//!     ROLECALL_FUZZ_SECONDS=3600 ROLECALL_FUZZ_SEED=7 cargo test --release -p rolecall-testkit engines::
//!
//! This command runs for the given time over all of them in turn. Without the variable, each gets a
//! few dozen texts.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::collections::HashMap;
use std::env;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use fastrand::Rng;
use rolecall::tokenizer::{Engine, HuggingFace, SentencePiece, TextPlace, Tokenizer};
use rolecall_fixture::write_sentencepiece;
use rolecall_testkit::texts;

/// A tokenizer in both engines.
struct Pair {
    name: String,
    own: Box<dyn Tokenizer>,
    reference: Box<dyn Tokenizer>,
    added: Vec<String>,
    /// The bytes of its longest texts.
    longest: usize,
}

#[test]
fn tokenizers_made_here_encode_as_the_reference_crate() {
    let mut pairs: Vec<Pair> =
        small_tokenizers().into_iter().map(|(name, json)| Pair::new(&name, json.as_bytes(), None)).collect();
    for prefix in [true, false] {
        pairs.push(Pair::of_model(&format!("sentencepiece, prefix {prefix}"), &small_model(prefix), None));
    }
    // Both engines leave this pattern to the same crate, which looks at the rest of a word for each of its
    // letters.
    let lazy = pairs.iter_mut().find(|pair| pair.name == "lazy").expect("it is among the small ones");
    lazy.longest = 5_000;
    compare(&pairs, 60);
}

#[test]
fn real_tokenizers_encode_as_the_reference_crate() {
    let Some(shared) = rolecall_testkit::shared() else {
        rolecall_testkit::say_skipped("the engines of real tokenizers are not compared");
        return;
    };
    let mut pairs = Vec::new();
    for folder in std::fs::read_dir(shared.join("tokenizers")).unwrap() {
        let folder = folder.unwrap().path();
        let config = std::fs::read(folder.join("tokenizer_config.json")).ok();
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        if let Ok(model) = std::fs::read(folder.join("tokenizer.model")) {
            pairs.push(Pair::of_model(&name, &model, config.as_deref()));
        }
        let Ok(json) = std::fs::read(folder.join("tokenizer.json")) else { continue };
        if config.is_some() {
            pairs.push(Pair::new(&name, &json, config.as_deref()));
        }
        pairs.push(Pair::new(&format!("{name} without its config"), &json, None));
    }
    assert!(!pairs.is_empty());
    compare(&pairs, 100);
}

impl Pair {
    fn new(name: &str, json: &[u8], config: Option<&[u8]>) -> Self {
        let load = || HuggingFace::from_bytes(json, config).unwrap_or_else(|error| panic!("{name}: {error}"));
        let (own, reference) = (load(), load().with_reference_engine().unwrap());
        assert_eq!(own.engine(), Engine::Native, "{name}");
        assert!(matches!(reference.engine(), Engine::Crate { .. }), "{name}");
        Self::of(name, Box::new(own), Box::new(reference))
    }

    fn of_model(name: &str, model: &[u8], config: Option<&[u8]>) -> Self {
        let load = || SentencePiece::from_bytes(model, config).unwrap_or_else(|error| panic!("{name}: {error}"));
        Self::of(name, Box::new(load()), Box::new(load().with_reference_engine()))
    }

    fn of(name: &str, own: Box<dyn Tokenizer>, reference: Box<dyn Tokenizer>) -> Self {
        let mut added: Vec<String> = own.added_tokens().iter().map(|token| token.text.clone()).collect();
        added.extend(["  ", "    ", "\n\n", "——", "<unk>", "<0x41>"].map(str::to_owned));
        Self { name: name.to_owned(), own, reference, added, longest: 50_000 }
    }

    fn compare(&self, text: &str, seed: u64) {
        for place in [TextPlace::Start, TextPlace::Inside] {
            let (mut own, mut reference) = (Vec::new(), Vec::new());
            let results = (
                self.own.encode_ordinary(text, place, &mut own),
                self.reference.encode_ordinary(text, place, &mut reference),
            );
            let codes = (results.0.err().map(|e| e.to_string()), results.1.err().map(|e| e.to_string()));
            assert_eq!(codes.0, codes.1, "{}, ordinary, {place:?}, seed {seed}: {text:?}", self.name);
            self.expect(&own, &reference, text, &format!("ordinary, {place:?}, seed {seed}"));
            let mut ids = Vec::new();
            let failed = self.own.encode_ids(text, place, &mut ids).err().map(|error| error.to_string());
            assert_eq!(failed, codes.0, "{}, ids, {place:?}, seed {seed}: {text:?}", self.name);
            let expected: Vec<u32> = reference.iter().map(|token| token.id).collect();
            self.expect(&ids, &expected, text, &format!("ids, {place:?}, seed {seed}"));
            let (mut own, mut reference) = (Vec::new(), Vec::new());
            self.own.encode_reference(text, place, &mut own).unwrap();
            self.reference.encode_reference(text, place, &mut reference).unwrap();
            self.expect(&own, &reference, text, &format!("as the reference, {place:?}, seed {seed}"));
        }
    }

    /// Checks that a text encoded in parts has the tokens of the whole: one word, longer than those
    /// that are cached.
    fn compare_parts(&self, text: &str) {
        for place in [TextPlace::Start, TextPlace::Inside] {
            let (mut parts, mut whole) = (Vec::new(), Vec::new());
            self.own.encode_in_parts(text, place, &mut |part| parts.extend_from_slice(part)).unwrap();
            self.own.encode_ordinary(text, place, &mut whole).unwrap();
            self.expect(&parts, &whole, text, &format!("in parts, {place:?}"));
        }
    }

    fn expect<T: PartialEq + std::fmt::Debug>(&self, own: &[T], reference: &[T], text: &str, what: &str) {
        if own == reference {
            return;
        }
        let at = own.iter().zip(reference).take_while(|(a, b)| a == b).count();
        let show = |tokens: &[T]| format!("{:?}", tokens.iter().skip(at).take(4).collect::<Vec<_>>());
        let text: String = text.chars().take(2000).collect();
        panic!("{}, {what}: token {at}: own {} reference {} in {text:?}", self.name, show(own), show(reference));
    }
}

/// Compares each pair in turn on random texts, for this many rounds or for the time set in the
/// environment.
fn compare(pairs: &[Pair], rounds: u64) {
    let number = |name: &str| env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let until = number("ROLECALL_FUZZ_SECONDS").map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let first = number("ROLECALL_FUZZ_SEED").unwrap_or(0) << 32;
    let (mut texts, mut bytes) = (0u64, 0);
    for seed in first.. {
        if until.map_or(seed - first >= rounds, |until| Instant::now() >= until) {
            break;
        }
        for pair in pairs {
            let mut rng = Rng::with_seed(seed);
            let text = match seed % 50 {
                49 => texts::long_word(&mut rng, pair.longest * 2 / 5),
                48 => texts::mixed(&mut rng, &pair.added, 2_000),
                _ => texts::mixed(&mut rng, &pair.added, 12),
            };
            pair.compare(&text, seed);
            texts += 1;
            bytes += text.len();
        }
    }
    for pair in pairs {
        pair.compare_parts(&texts::long_word(&mut Rng::with_seed(first), pair.longest));
        ["", "e\u{301}", "\u{e9}\u{301}", "A\u{30a}\u{212b}", "x\u{344}", "\u{1100}\u{1161}\u{11a8}"]
            .iter()
            .for_each(|text| pair.compare(text, 0));
    }
    println!("{texts} texts of {bytes} bytes through {} tokenizers: all equal", pairs.len());
}

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const CASELESS: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const POSSESSIVE: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s*[\r\n]+|\s+(?!\S)|\s+";
const CASED: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const HAN: &str = r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const PUNCTUATED: &str = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+";

/// Makes a file for each thing that our engine does in its own way.
fn small_tokenizers() -> Vec<(String, String)> {
    let text = training_text();
    let bytes: String = text.bytes().map(byte_character).collect();
    let byte_start: Vec<char> = (0..=255).map(byte_character).collect();
    let on_bytes = learn(&bytes, &byte_start, |c| c == byte_character(b' '), 700);
    let spaced = text.replace(' ', "\u{2581}");
    let characters: Vec<char> =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,'<>|_:/-\u{2581}你好世界éñ\n"
            .chars()
            .collect();
    let on_characters = learn(&spaced, &characters, |_| false, 500);

    let split = |pattern: &str| {
        format!(
            r#"{{"type": "Split", "pattern": {{"Regex": {}}}, "behavior": "Isolated", "invert": false}}"#,
            quoted(pattern)
        )
    };
    let level = r#"{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}"#;
    let sequence = |parts: &[&str]| format!(r#"{{"type": "Sequence", "pretokenizers": [{}]}}"#, parts.join(", "));
    let mut files = Vec::new();
    let patterns = [("gpt2", GPT2), ("caseless", CASELESS), ("possessive", POSSESSIVE), ("cased", CASED), ("han", HAN)];
    for (name, pattern) in patterns {
        for normalizer in ["null", r#"{"type": "NFC"}"#] {
            for flags in ["", r#""ignore_merges": true, "#] {
                let file = on_bytes.file(normalizer, &sequence(&[&split(pattern), level]), flags);
                files.push((format!("{name} {normalizer} {flags}"), file));
            }
        }
    }
    let with_regex = level.replace("\"use_regex\": false", "\"use_regex\": true");
    let removed = split(CASELESS).replace("Isolated", "Removed").replace("\"invert\": false", "\"invert\": true");
    let words_only =
        split(r"\p{L}+|\p{N}").replace("Isolated", "Removed").replace("\"invert\": false", "\"invert\": true");
    let several = [split(r"\p{N}{1,3}"), split("[一-龥぀-ゟ゠-ヿ]+"), split(PUNCTUATED)];
    let digits = |alone| format!(r#"{{"type": "Digits", "individual_digits": {alone}}}"#);
    let parts = [
        ("byte level with its pattern", vec![with_regex.clone()]),
        ("several", several.iter().cloned().chain([level.to_owned()]).collect()),
        ("digits alone", vec![digits(true), with_regex.clone()]),
        ("digits", vec![digits(false), with_regex.clone()]),
        ("removed", vec![removed, level.to_owned()]),
        ("words only", vec![words_only, level.to_owned()]),
        ("lazy", vec![split(r"\s+?|\S\S+?(?=\s)|(?:ab|a)+(?!b)|[^\s]{1,5}"), level.to_owned()]),
    ];
    for (name, parts) in parts {
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        files.push((
            name.to_owned(),
            on_bytes.file(r#"{"type": "Sequence", "normalizers": []}"#, &sequence(&parts), ""),
        ));
    }
    let fallback = r#""byte_fallback": true, "fuse_unk": true, "unk_token": "<unk>", "#;
    for scheme in ["first", "always", "never"] {
        for split in [true, false] {
            let metaspace = format!(
                r#"{{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "{scheme}", "split": {split}}}"#
            );
            let name = format!("metaspace, {scheme}, {split}");
            files.push((name.clone(), on_characters.file("null", &metaspace, fallback)));
            let unknown = r#""unk_token": "<unk>", "#;
            files.push((format!("{name}, unknown"), on_characters.file("null", &metaspace, unknown)));
            if !split {
                let fused = r#""unk_token": "<unk>", "fuse_unk": true, "#;
                files.push((format!("{name}, fused"), on_characters.file(r#"{"type": "NFC"}"#, &metaspace, fused)));
            }
        }
    }
    let replace = r#"{"type": "Replace", "pattern": {"String": " "}, "content": "▁"}"#;
    let prepended =
        format!(r#"{{"type": "Sequence", "normalizers": [{{"type": "Prepend", "prepend": "▁"}}, {replace}]}}"#);
    files.push(("prepended".to_owned(), on_characters.file(&prepended, "null", fallback)));
    let no_effect = split(" ").replace("Regex", "String").replace("Isolated", "MergedWithPrevious");
    files.push(("replaced".to_owned(), on_characters.file(replace, &no_effect, fallback)));
    files
}

/// Makes a sentencepiece model with byte fallback: pieces of which some share a score, user-defined
/// ones, a NUL.
fn small_model(prefix: bool) -> Vec<u8> {
    const NORMAL: u8 = 1;
    let spaced = training_text().replace(' ', "\u{2581}");
    let characters: Vec<char> =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLM0123456789.,'<>|_:/-\u{2581}你好世界éñ\n\t".chars().collect();
    let learned = learn(&spaced, &characters, |_| false, 400);
    let mut pieces = vec![("<unk>".to_owned(), 0.0, 2), ("<s>".to_owned(), 0.0, 3)];
    pieces.extend((0..=255).map(|byte| (format!("<0x{byte:02X}>"), 0.0, 6)));
    pieces.extend(["[TOOL]", "。。", "<|end|>", "\n\n\n"].map(|text| (text.to_owned(), 0.0, 4)));
    pieces.push(("\0".to_owned(), -1.0, NORMAL));
    for (at, text) in learned.vocab.iter().rev().enumerate() {
        if text.len() <= 100 && !pieces.iter().any(|(known, ..)| known == text) {
            // The longer pieces were learned last and come first here; several share one score.
            pieces.push((text.clone(), -((learned.vocab.len() - at) as f32 / 3.0).floor(), NORMAL));
        }
    }
    // Trainer: BPE, byte fallback. Normalizer: the prefix; extra spaces are kept.
    write_sentencepiece(&pieces, &[0x18, 2, 0x98, 0x02, 1], &[0x18, u8::from(prefix), 0x20, 0])
}

/// A vocabulary and its merges.
struct Learned {
    vocab: Vec<String>,
    merges: Vec<(String, String)>,
}

impl Learned {
    /// Makes a `tokenizer.json` with control tokens that merges could spell, tokens that are text,
    /// and others.
    fn file(&self, normalizer: &str, pre_tokenizer: &str, flags: &str) -> String {
        let mut vocab: Vec<String> = self.vocab.clone();
        if flags.contains("unk") {
            vocab.push("<unk>".to_owned());
            if flags.contains("byte_fallback") {
                vocab.extend((0..=255).map(|byte| format!("<0x{byte:02X}>")));
            }
        }
        let spelled = vocab.iter().position(|token| token == "<s>").map(|id| (id, "<s>"));
        let next = vocab.len();
        let beyond = [(next, "<|end|>"), (next + 1, "    "), (next + 2, "<tool>"), (next + 3, "你你你")];
        let mut added = String::new();
        for (id, text) in spelled.into_iter().chain(beyond) {
            let comma = if added.is_empty() { "" } else { ", " };
            let special = text.starts_with("<|") || text == "<s>";
            write!(
                added,
                r#"{comma}{{"id": {id}, "content": {}, "special": {special}, "normalized": false, "lstrip": false, "rstrip": false, "single_word": false}}"#,
                quoted(text)
            )
            .unwrap();
        }
        let entries: Vec<String> =
            vocab.iter().enumerate().map(|(id, text)| format!("{}: {id}", quoted(text))).collect();
        let merges: Vec<String> =
            self.merges.iter().map(|(left, right)| format!("[{}, {}]", quoted(left), quoted(right))).collect();
        format!(
            r#"{{"added_tokens": [{added}], "normalizer": {normalizer}, "pre_tokenizer": {pre_tokenizer}, "model": {{"type": "BPE", {flags}"vocab": {{{}}}, "merges": [{}]}}}}"#,
            entries.join(", "),
            merges.join(", ")
        )
    }
}

/// Learns merges in the plain way: repeatedly the most frequent pair, and finally those of `<s>`.
fn learn(text: &str, start: &[char], ends_word: impl Fn(char) -> bool, count: usize) -> Learned {
    let mut vocab: Vec<String> = start.iter().map(char::to_string).collect();
    let mut merges = Vec::new();
    let known: Vec<char> = start.to_vec();
    let mut symbols: Vec<String> = Vec::new();
    for c in text.chars().filter(|c| known.contains(c)) {
        if ends_word(c) {
            symbols.push(String::new());
        }
        symbols.push(c.to_string());
    }
    for _ in 0..count {
        let mut counts: HashMap<(&str, &str), usize> = HashMap::new();
        for pair in symbols.windows(2).filter(|pair| !pair[0].is_empty() && !pair[1].is_empty()) {
            *counts.entry((&pair[0], &pair[1])).or_default() += 1;
        }
        let Some((&(left, right), _)) = counts.iter().max_by_key(|&(pair, &count)| (count, pair)) else { break };
        let (left, right) = (left.to_owned(), right.to_owned());
        let joined = format!("{left}{right}");
        let mut merged = Vec::with_capacity(symbols.len());
        let mut at = 0;
        while at < symbols.len() {
            let is_pair = symbols[at] == left && symbols.get(at + 1) == Some(&right);
            merged.push(if is_pair { joined.clone() } else { symbols[at].clone() });
            at += if is_pair { 2 } else { 1 };
        }
        symbols = merged;
        merges.push((left, right));
        if !vocab.contains(&joined) {
            vocab.push(joined);
        }
    }
    for (left, right) in [("<", "s"), ("<s", ">"), ("s", ">"), ("<", "s>")] {
        merges.push((left.to_owned(), right.to_owned()));
        let joined = format!("{left}{right}");
        if !vocab.contains(&joined) {
            vocab.push(joined);
        }
    }
    Learned { vocab, merges }
}

fn training_text() -> String {
    let mut rng = Rng::with_seed(1);
    let mut text = String::new();
    while text.len() < 12_000 {
        text.push_str(&texts::mixed(&mut rng, &[], 20));
    }
    text
}

/// Returns the character for a byte in byte-level vocabularies.
fn byte_character(byte: u8) -> char {
    let printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    match printable(byte) {
        true => char::from(byte),
        false => char::from_u32(256 + (0..byte).filter(|&byte| !printable(byte)).count() as u32).unwrap(),
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\0'..' ' => write!(out, "\\u{:04x}", u32::from(c)).unwrap(),
            _ => out.push(c),
        }
    }
    out + "\""
}
