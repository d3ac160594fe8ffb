//! Tokenizer files in other forms than the maker's: the same vocabulary as ranks, as a tekken file
//! or inside a GGUF file gives the same ids.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, json, object};
use rolecall::gguf::Gguf;
use rolecall::tokenizer;
use rolecall::tokenizer::{FileKind, HuggingFace, TextPlace, Token, Tokenizer};
use rolecall_testkit::write_gguf;

const TEXTS: &[&str] = &[
    "",
    "Hello, world!",
    "don't  WON'T \u{17f}hould've we'LL I'M",
    "a\n\n\nb \t \r\n  c   \n",
    "1234567 3.14159 ١٢٣ ⅷ ²",
    "你好，世界！ こんにちは 안녕하세요 привет",
    "e\u{301} é नमस्ते ก็",
    "👍🏽👩\u{200d}👩\u{200d}👧 \u{fe0f}",
    "\u{0}\u{1}\u{7f}\u{a0}\u{3000}\u{feff}\u{e000}\u{10ffff}",
    "<|im_start|>system\n<|im_end|><|eot_id|><s></s>[INST]<0x0A> <|begin_of_text|>",
    "    def f(x):\n        return {'a': [x, \"b\"]}  # note\n",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa bababababab =====---->>>>",
];

fn ordinary(tokenizer: &dyn Tokenizer, text: &str, place: TextPlace) -> Vec<Token> {
    let mut tokens = Vec::new();
    tokenizer.encode_ordinary(text, place, &mut tokens).unwrap();
    tokens
}

fn reference(tokenizer: &dyn Tokenizer, text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    tokenizer.encode_reference(text, TextPlace::Start, &mut tokens).unwrap();
    tokens
}

/// Checks that both give the same tokens for every text.
fn assert_same(name: &str, one: &dyn Tokenizer, other: &dyn Tokenizer, texts: &[String]) {
    for text in texts {
        assert_eq!(reference(one, text), reference(other, text), "{name}: {text:?} as the reference");
        for place in [TextPlace::Start, TextPlace::Inside] {
            assert_eq!(ordinary(one, text, place), ordinary(other, text, place), "{name}: {text:?}");
        }
    }
}

/// Returns the prompts of the id vectors of a tokenizer, and the hard texts.
fn texts(shared: &Path, name: &str) -> Vec<String> {
    let rows = fs::read_to_string(shared.join("golden/ids.jsonl")).unwrap();
    let mut texts: Vec<String> = TEXTS.iter().map(|text| (*text).to_owned()).collect();
    for row in rows.lines().filter(|row| row.contains(name)) {
        let row = parse(row);
        let prompt = row.get("expected").and_then(Json::as_object).and_then(|row| row.get("prompt"));
        texts.extend(prompt.and_then(Json::as_str).map(str::to_owned));
    }
    texts
}

fn parse(text: &str) -> Object {
    match json::parse(text) {
        Ok(Json::Object(object)) => object,
        other => panic!("{other:?}"),
    }
}

/// The parts of a `tokenizer.json` of byte-level BPE.
struct Parts {
    /// The tokens by id, as the file spells them.
    tokens: BTreeMap<i64, String>,
    merges: Vec<Json>,
    added: Vec<Object>,
}

impl Parts {
    fn of(folder: &Path) -> Parts {
        let file = parse(&fs::read_to_string(folder.join("tokenizer.json")).unwrap());
        let model = file.get("model").and_then(Json::as_object).unwrap();
        let vocabulary = model.get("vocab").and_then(Json::as_object).unwrap();
        let merges = model.get("merges").and_then(Json::as_array).unwrap().iter().map(|merge| match merge {
            Json::Array(halves) => {
                let halves: Vec<&str> = halves.iter().filter_map(Json::as_str).collect();
                Json::from(halves.join(" "))
            }
            text => text.clone(),
        });
        Parts {
            tokens: vocabulary.iter().map(|(token, id)| (number(id), token.to_owned())).collect(),
            merges: merges.collect(),
            added: file.get("added_tokens").and_then(Json::as_array).unwrap().iter().map(as_object).collect(),
        }
    }

    /// Returns the file of ranks from which the vocabulary was made.
    fn ranks(&self) -> String {
        self.tokens.iter().map(|(id, token)| format!("{} {id}\n", base64(&bytes_of(token)))).collect()
    }

    /// Returns the vocabulary as the metadata of a GGUF file, with padding tokens after the last
    /// one.
    fn gguf(&self, pre: &str, size: usize) -> Vec<u8> {
        let mut tokens: Vec<Json> = (0..size).map(|id| Json::from(format!("[PAD{id}]"))).collect();
        let mut types = vec![Json::from(5); size];
        let mut put = |id: i64, text: &str, kind: i64| {
            tokens[usize::try_from(id).unwrap()] = Json::from(text);
            types[usize::try_from(id).unwrap()] = Json::from(kind);
        };
        self.tokens.iter().for_each(|(id, token)| put(*id, token, 1));
        for token in &self.added {
            let special = token.get("special") == Some(&Json::Bool(true));
            put(number(token.get("id").unwrap()), text(token, "content"), if special { 3 } else { 4 });
        }
        write_gguf(&object! {
            "general.architecture" => "test",
            "tokenizer.ggml.model" => "gpt2",
            "tokenizer.ggml.pre" => pre,
            "tokenizer.ggml.tokens" => tokens,
            "tokenizer.ggml.token_type" => types,
            "tokenizer.ggml.merges" => self.merges.clone(),
            "tokenizer.ggml.bos_token_id" => 1,
            "tokenizer.ggml.add_bos_token" => false,
        })
    }
}

fn as_object(value: &Json) -> Object {
    value.as_object().cloned().unwrap()
}

fn text<'a>(object: &'a Object, key: &str) -> &'a str {
    object.get(key).and_then(Json::as_str).unwrap()
}

fn number(value: &Json) -> i64 {
    match value {
        Json::Number(number) => number.as_i64().unwrap(),
        other => panic!("{other:?}"),
    }
}

/// Returns the characters of byte-level vocabularies in the order of GPT-2's code.
fn alphabet() -> Vec<char> {
    let mut others = 0x100;
    let character = |byte: u8| match byte {
        0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF => char::from(byte),
        _ => {
            others += 1;
            char::from_u32(others - 1).unwrap()
        }
    };
    (0..=255).map(character).collect()
}

fn bytes_of(token: &str) -> Vec<u8> {
    let alphabet = alphabet();
    token.chars().map(|c| u8::try_from(alphabet.iter().position(|known| *known == c).unwrap()).unwrap()).collect()
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().chain([0, 0].iter()).take(3).fold(0u32, |bits, byte| bits << 8 | u32::from(*byte));
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place) & 63) as usize];
            out.push(if place <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    out
}

fn shared() -> Option<PathBuf> {
    let shared = rolecall_testkit::shared();
    if shared.is_none() {
        rolecall_testkit::say_skipped("no other kind of file is compared with a real tokenizer");
    }
    shared
}

fn of_gguf(bytes: &[u8]) -> Result<Box<dyn Tokenizer>, tokenizer::Error> {
    Gguf::read(Cursor::new(bytes)).unwrap().vocabulary().unwrap().unwrap().into_tokenizer()
}

#[test]
fn ranks_give_the_ids_of_the_tokenizer_that_they_are() {
    let Some(shared) = shared() else { return };
    let folder = shared.join("tokenizers/llama3");
    let original = tokenizer::load(&folder).unwrap();
    let ranks = Parts::of(&folder).ranks();
    let config = fs::read(folder.join("tokenizer_config.json")).unwrap();
    let with_config = HuggingFace::from_tiktoken(ranks.as_bytes(), Some(&config[..])).unwrap();
    let texts = texts(&shared, "llama3");
    assert_same("ranks", &*original, &with_config, &texts);
    assert_eq!(with_config.added_tokens(), original.added_tokens());
    assert_eq!(with_config.vocabulary_size(), original.vocabulary_size());
    // Without a config, the control tokens are the published ones for these ranks.
    let alone = HuggingFace::from_tiktoken(ranks.as_bytes(), None).unwrap();
    for text in &texts {
        assert_eq!(ordinary(&alone, text, TextPlace::Start), ordinary(&*original, text, TextPlace::Start), "{text:?}");
    }
    assert_eq!(alone.token_id("<|eot_id|>"), Some(128_009));
}

#[test]
fn a_tekken_file_gives_ids_behind_its_control_tokens() {
    let Some(shared) = shared() else { return };
    let folder = shared.join("tokenizers/llama3");
    let original = tokenizer::load(&folder).unwrap();
    let parts = Parts::of(&folder);
    let vocabulary = parts.tokens.iter().map(|(rank, token)| {
        let bytes = base64(&bytes_of(token));
        Json::Object(object! { "rank" => *rank, "token_bytes" => bytes, "token_str" => Json::Null })
    });
    let pattern = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
    let file = object! {
        "config" => object! {
            "pattern" => pattern, "num_vocab_tokens" => parts.tokens.len() as i64,
            "default_vocab_size" => parts.tokens.len() as i64 + 30, "default_num_special_tokens" => 30, "version" => "v3",
        },
        "vocab" => vocabulary.collect::<Vec<_>>(),
    };
    let tekken = json::write(&Json::Object(file), &json::Layout::default());
    let tekken = HuggingFace::from_tekken(tekken.as_bytes(), None).unwrap();
    for text in texts(&shared, "llama3") {
        let shifted =
            ordinary(&*original, &text, TextPlace::Start).into_iter().map(|token| Token { id: token.id + 30, ..token });
        assert_eq!(ordinary(&tekken, &text, TextPlace::Start), shifted.collect::<Vec<_>>(), "{text:?}");
    }
    assert_eq!((tekken.token_id("[INST]"), tekken.token_id("<SPECIAL_29>")), (Some(3), Some(29)));
    assert_eq!(reference(&tekken, "</s>")[0].id, 2);
}

#[test]
fn a_gguf_file_gives_the_ids_of_the_byte_level_vocabulary_in_it() {
    let Some(shared) = shared() else { return };
    for (name, pre, size) in
        [("qwen3", "qwen2", 151_936), ("deepseek-v3", "deepseek-v3", 129_280), ("llama3", "llama-bpe", 128_256)]
    {
        let folder = shared.join("tokenizers").join(name);
        let original = tokenizer::load(&folder).unwrap();
        let embedded = of_gguf(&Parts::of(&folder).gguf(pre, size)).unwrap();
        assert_same(name, &*original, &*embedded, &texts(&shared, name));
        assert_eq!(embedded.adds_bos(), None);
    }
}

#[test]
fn a_gguf_file_gives_the_ids_of_the_pieces_in_it() {
    let Some(shared) = shared() else { return };
    for name in ["internlm2", "mistral-v3"] {
        let folder = shared.join("tokenizers").join(name);
        let original = tokenizer::load(&folder).unwrap();
        let model = fs::read(folder.join("tokenizer.model")).unwrap();
        let (mut tokens, mut scores, mut types) = (Vec::new(), Vec::new(), Vec::new());
        for (text, score, kind) in pieces(&model) {
            let id = u32::try_from(tokens.len()).unwrap();
            // A config may rename a piece.
            let text = original.token_text(id).unwrap_or(text);
            let is_added = original.added_tokens().iter().any(|token| token.id == id);
            tokens.push(Json::from(text));
            scores.push(json::parse(&format!("{score:?}")).unwrap());
            types.push(Json::from(if kind == 1 && is_added { 3 } else { kind }));
        }
        let file = write_gguf(&object! {
            "tokenizer.ggml.model" => "llama",
            "tokenizer.ggml.tokens" => tokens,
            "tokenizer.ggml.scores" => scores,
            "tokenizer.ggml.token_type" => types,
            "tokenizer.ggml.bos_token_id" => 1,
            "tokenizer.ggml.add_space_prefix" => name == "mistral-v3",
        });
        let embedded = of_gguf(&file).unwrap();
        for text in texts(&shared, name) {
            for place in [TextPlace::Start, TextPlace::Inside] {
                assert_eq!(ordinary(&*original, &text, place), ordinary(&*embedded, &text, place), "{name}: {text:?}");
            }
        }
        assert_eq!(embedded.adds_bos(), Some(1));
    }
}

/// Returns the text, score and type of each piece of a sentencepiece model.
fn pieces(model: &[u8]) -> Vec<(String, f32, i64)> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while let Some(0x0A) = model.get(at) {
        at += 1;
        let (end, mut inside) = {
            let length = varint(model, &mut at);
            (at + length, at)
        };
        let (mut text, mut score, mut kind) = (String::new(), 0.0, 1);
        while inside < end {
            inside += 1;
            match model[inside - 1] {
                0x0A => {
                    let length = varint(model, &mut inside);
                    text = String::from_utf8(model[inside..inside + length].to_vec()).unwrap();
                    inside += length;
                }
                0x15 => {
                    score = f32::from_le_bytes(model[inside..inside + 4].try_into().unwrap());
                    inside += 4;
                }
                0x18 => kind = varint(model, &mut inside) as i64,
                other => panic!("field {other}"),
            }
        }
        pieces.push((text, score, kind));
        at = end;
    }
    pieces
}

fn varint(bytes: &[u8], at: &mut usize) -> usize {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        *at += 1;
        value |= usize::from(bytes[*at - 1] & 0x7F) << shift;
        if bytes[*at - 1] < 0x80 {
            break;
        }
    }
    value
}

/// Makes ranks of all bytes and some words, for files that no maker ships.
fn small_ranks(words: &[&str]) -> String {
    let bytes = (0..=255u8).map(|byte| format!("{} {byte}\n", base64(&[byte])));
    let words = words.iter().zip(256..).map(|(word, rank)| format!("{} {rank}\n", base64(word.as_bytes())));
    bytes.chain(words).collect()
}

#[test]
fn ranks_take_their_pattern_and_their_control_tokens_from_the_config() {
    let ranks = small_ranks(&["he", "ll", "hell", "hello", " h"]);
    let error = HuggingFace::from_tiktoken(ranks.as_bytes(), None).map(|_| ()).unwrap_err();
    assert_eq!(error.code(), "tokenizer_no_pattern");
    assert!(error.help().contains("pat_str"));
    let config = r#"{"pat_str": "\\s?\\p{L}+|.", "bos_token": "<s>", "add_bos_token": true,
        "added_tokens_decoder": {"300": {"content": "<s>", "special": true}, "270": {"content": "<think>", "special": false}}}"#;
    let tokenizer = HuggingFace::from_tiktoken(ranks.as_bytes(), Some(config.as_bytes())).unwrap();
    let ids = |tokens: Vec<Token>| tokens.into_iter().map(|token| token.id).collect::<Vec<_>>();
    // `hell` merges before `ll` can merge with the rest; ` h` would have to merge before the words
    // are split.
    assert_eq!(ids(ordinary(&tokenizer, "hello hello", TextPlace::Start)), [259, 32, 259]);
    assert_eq!(ids(reference(&tokenizer, "<s>hello<think>")), [300, 259, 270]);
    assert_eq!(ids(ordinary(&tokenizer, "<s>", TextPlace::Start)), [60, 115, 62]);
    assert_eq!(tokenizer.adds_bos(), Some(300));
}

#[test]
fn each_kind_of_file_is_known_by_its_content() {
    let folder = std::env::temp_dir().join(format!("rolecall-kinds-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let kind_of = |name: &str, bytes: &[u8]| {
        fs::write(folder.join(name), bytes).unwrap();
        tokenizer::load_file(&folder.join(name)).map(|(file, _)| file.kind)
    };
    let config = r#"{"pat_str": "."}"#;
    fs::write(folder.join("tokenizer_config.json"), config).unwrap();
    assert_eq!(kind_of("a", small_ranks(&[]).as_bytes()).unwrap(), FileKind::Tiktoken);
    let model = br#"{"model": {"type": "BPE", "vocab": {"token_bytes": 0}, "merges": []}}"#;
    assert_eq!(kind_of("b", model).unwrap(), FileKind::TokenizerJson);
    let error = kind_of("c", b"just text").unwrap_err();
    assert_eq!(error.code(), "tokenizer_not_recognized");
    // A folder's only file of a kind is its tokenizer. Of two files, neither is.
    let alone = folder.join("alone");
    fs::create_dir_all(&alone).unwrap();
    assert_eq!(tokenizer::load(&alone).map(|_| ()).unwrap_err().code(), "tokenizer_missing");
    fs::write(alone.join("tokenizer_config.json"), config).unwrap();
    fs::write(alone.join("x.tiktoken"), small_ranks(&[])).unwrap();
    assert_eq!(tokenizer::load_file(&alone).unwrap().0.path, alone.join("x.tiktoken"));
    fs::write(alone.join("y.tiktoken"), small_ranks(&[])).unwrap();
    assert_eq!(tokenizer::load(&alone).map(|_| ()).unwrap_err().code(), "tokenizer_ambiguous");
    fs::remove_dir_all(&folder).unwrap();
}

/// Makes the metadata of a small GGUF file with these changes; null removes a key.
fn small_gguf(changes: Object) -> Vec<u8> {
    let words = ["he", "ll", "hell", "hello", "<s>", "<tool>", "[PAD]"];
    let alphabet = alphabet().into_iter().map(|c| Json::from(c.to_string()));
    let tokens: Vec<Json> = alphabet.chain(words.map(Json::from)).collect();
    let types: Vec<Json> = (0..tokens.len()).map(|id| Json::from([1, 3, 4, 5][id.saturating_sub(259)])).collect();
    let merges = ["h e", "l l", "he ll", "hell o"].map(Json::from);
    let mut metadata = object! {
        "tokenizer.ggml.model" => "gpt2",
        "tokenizer.ggml.pre" => "gpt-2",
        "tokenizer.ggml.tokens" => tokens,
        "tokenizer.ggml.token_type" => types,
        "tokenizer.ggml.merges" => merges.to_vec(),
    };
    for (key, value) in changes.iter() {
        metadata.insert(key, value.clone());
    }
    let kept = metadata.iter().filter(|(_, value)| !value.is_null());
    write_gguf(&kept.map(|(key, value)| (key.to_owned(), value.clone())).collect())
}

#[test]
fn what_a_gguf_file_says_of_its_tokens_is_done() {
    let tokenizer = of_gguf(&small_gguf(object! {
        "tokenizer.ggml.bos_token_id" => 260, "tokenizer.ggml.add_bos_token" => true,
    }))
    .unwrap();
    let ids = |tokens: Vec<Token>| tokens.into_iter().map(|token| token.id).collect::<Vec<_>>();
    assert_eq!(ids(reference(&*tokenizer, "<s>hello<tool>")), [260, 259, 261]);
    assert_eq!(ids(ordinary(&*tokenizer, "hello[PAD]", TextPlace::Start))[0], 259);
    assert_eq!((tokenizer.adds_bos(), tokenizer.token_text(262)), (Some(260), None));
    let flags: Vec<bool> = tokenizer.added_tokens().iter().map(|token| token.special).collect();
    assert_eq!(flags, [true, false]);
}

#[test]
fn a_gguf_file_may_lack_the_bytes_that_hardly_occur() {
    let without = |byte: char| {
        let types = (0..263).map(|id| match alphabet().get(id) {
            Some(character) if *character == byte => Json::from(5),
            _ => Json::from([1, 3, 4, 5][id.saturating_sub(259)]),
        });
        of_gguf(&small_gguf(object! { "tokenizer.ggml.token_type" => types.collect::<Vec<_>>() }))
    };
    // The character of byte 4. Text loses it, as it does in the reference.
    let tokenizer = without('\u{104}').unwrap();
    assert_eq!(ordinary(&*tokenizer, "hello\u{4}he", TextPlace::Start).len(), 2);
    let error = without('a').map(|_| ()).unwrap_err().to_string();
    assert_eq!(error, "malformed `tokenizer.ggml.tokens`: no token for byte 0x61");
}

#[test]
fn a_gguf_file_without_merges_is_read_by_its_ids_where_these_are_ranks() {
    let changes = object! { "tokenizer.ggml.pre" => "kimi-k2", "tokenizer.ggml.merges" => Json::Null };
    let tokenizer = of_gguf(&small_gguf(changes)).unwrap();
    let ids: Vec<u32> = ordinary(&*tokenizer, "hellohe", TextPlace::Start).iter().map(|token| token.id).collect();
    assert_eq!(ids, [259, 256]);
}

#[test]
fn the_type_of_a_piece_says_which_is_unknown_before_an_id_does() {
    let metadata = object! {
        "tokenizer.ggml.model" => "llama",
        "tokenizer.ggml.tokens" => vec![Json::from("<unk>"), Json::from("a")],
        "tokenizer.ggml.token_type" => vec![Json::from(2), Json::from(1)],
        "tokenizer.ggml.scores" => json::parse("[0.0, -1.0]").unwrap(),
        "tokenizer.ggml.unknown_token_id" => 1,
        "tokenizer.ggml.add_space_prefix" => false,
    };
    let tokenizer = of_gguf(&write_gguf(&metadata)).unwrap();
    let ids: Vec<u32> = ordinary(&*tokenizer, "ab", TextPlace::Start).iter().map(|token| token.id).collect();
    assert_eq!(ids, [1, 0]);
}

#[test]
fn what_a_gguf_file_says_and_cannot_be_names_its_key() {
    let error = |changes: Object| of_gguf(&small_gguf(changes)).map(|_| ()).unwrap_err().to_string();
    let cases = [
        (object! { "tokenizer.ggml.pre" => "my-own" }, "unsupported `tokenizer.ggml.pre`: my-own"),
        (
            object! { "tokenizer.ggml.pre" => Json::Null },
            "malformed `tokenizer.ggml.pre`: expected the name of the pattern that splits text into words, found none",
        ),
        (object! { "tokenizer.ggml.model" => "rwkv" }, "unsupported `tokenizer.ggml.model`: rwkv"),
        (
            object! { "tokenizer.ggml.merges" => Json::Null },
            "malformed `tokenizer.ggml.merges`: expected a list of merges, found none",
        ),
        (
            object! { "tokenizer.ggml.merges" => vec![Json::from("h e"), Json::from("x")] },
            "malformed `tokenizer.ggml.merges[1]`: expected two tokens separated by a space, found `x`",
        ),
        (
            object! { "tokenizer.ggml.bos_token_id" => 5000, "tokenizer.ggml.add_bos_token" => true },
            "malformed `tokenizer.ggml.bos_token_id`: expected an id below the number of tokens, 263, found 5000",
        ),
        (
            object! { "tokenizer.ggml.add_bos_token" => true },
            "malformed `tokenizer.ggml.bos_token_id`: expected the id of the token to add, found none",
        ),
        (
            object! { "tokenizer.ggml.token_type" => vec![Json::from(1)] },
            "malformed `tokenizer.ggml.token_type`: expected 263 values, one for each token, found 1",
        ),
        (
            object! { "tokenizer.ggml.model" => "llama" },
            "malformed `tokenizer.ggml.scores`: expected a list of scores, found none",
        ),
    ];
    for (changes, expected) in cases {
        assert_eq!(error(changes), expected);
    }
}
