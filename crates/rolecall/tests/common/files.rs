//! Small valid files of each kind, from which attacks and mutations start.

use rolecall::tokenizer::FileKind;

/// A valid file.
pub struct WholeFile {
    pub kind: FileKind,
    pub name: &'static str,
    /// The names under which a folder's tokenizer is found, one of each form.
    pub file_names: &'static [&'static str],
    pub file: Vec<u8>,
    /// The config that belongs to it.
    pub config: Option<&'static [u8]>,
    /// Whether a part of the file, cut between two lines or two fields, is a smaller valid file.
    pub may_be_cut: bool,
}

/// Returns a byte-level BPE `tokenizer.json`. `changes` replaces fields.
pub fn tokenizer_json(changes: &[(&str, &str)]) -> Vec<u8> {
    let usual = [
        (
            "added_tokens",
            r#"[{"id": 7, "content": "<s>", "special": true, "normalized": false, "lstrip": false, "rstrip": false, "single_word": false}]"#,
        ),
        ("normalizer", r#"{"type": "NFC"}"#),
        (
            "pre_tokenizer",
            r#"{"type": "Split", "pattern": {"Regex": "\\s?\\p{L}+|\\S"}, "behavior": "Isolated", "invert": false}"#,
        ),
        ("post_processor", "null"),
        (
            "model",
            r#"{"type": "BPE", "unk_token": "?", "vocab": {"?": 0, "a": 1, "b": 2, "ab": 3, " ": 4, "<": 5, "abab": 6}, "merges": ["a b", "ab ab"]}"#,
        ),
    ];
    let fields: Vec<String> = usual
        .iter()
        .map(|(name, text)| {
            let changed = changes.iter().find(|(changed, _)| changed == name);
            format!("\"{name}\": {}", changed.map_or(*text, |(_, text)| text))
        })
        .collect();
    format!("{{{}}}", fields.join(", ")).into_bytes()
}

/// Returns a `tokenizer.json` with another model.
pub fn with_model(model: &str) -> Vec<u8> {
    tokenizer_json(&[("model", model), ("added_tokens", "[]")])
}

/// Returns a protobuf field that holds bytes.
pub fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend(bytes);
    out
}

/// Returns a piece of a sentencepiece model.
pub fn piece(text: &[u8], score: f32, kind: u8) -> Vec<u8> {
    let mut out = field(1, text);
    out.push(0x15);
    out.extend(score.to_le_bytes());
    out.extend([0x18, kind]);
    field(1, &out)
}

/// Returns a sentencepiece model of a few pieces.
pub fn sentencepiece(more: &[u8], trainer: &[u8], normalizer: &[u8]) -> Vec<u8> {
    let mut out = piece(b"<unk>", 0.0, 2);
    for (text, score, kind) in [
        ("<s>", 0.0, 3),
        ("[T]", 0.0, 4),
        ("a", -5.0, 1),
        ("b", -5.0, 1),
        ("ab", -2.0, 5),
        ("aba", -3.0, 1),
        ("\u{2581}", -4.0, 1),
    ] {
        out.extend(piece(text.as_bytes(), score, kind));
    }
    out.extend(more);
    out.extend(field(2, trainer));
    out.extend(field(3, normalizer));
    out
}

pub fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().chain(&[0, 0]).take(3).fold(0u32, |bits, byte| bits << 8 | u32::from(*byte));
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place) & 63) as usize];
            out.push(if place <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    out
}

/// Returns ranks of all bytes and some words.
pub fn ranks(more: &str) -> Vec<u8> {
    let mut out: String = (0..=255u8).map(|byte| format!("{} {byte}\n", base64(&[byte]))).collect();
    for (word, rank) in ["ab", "abab", " a"].iter().zip(256..) {
        out.push_str(&format!("{} {rank}\n", base64(word.as_bytes())));
    }
    out.push_str(more);
    out.into_bytes()
}

pub const RANKS_CONFIG: &str =
    r#"{"pat_str": "\\s?\\p{L}+|\\S|\\s+", "added_tokens_decoder": {"300": {"content": "<s>", "special": true}}}"#;

/// Returns a tekken file with this config and these tokens after the bytes.
pub fn tekken(config: &str, more: &str) -> Vec<u8> {
    let tokens: Vec<String> = (0..=255u8)
        .map(|byte| format!(r#"{{"rank": {byte}, "token_bytes": "{}", "token_str": null}}"#, base64(&[byte])))
        .collect();
    format!(r#"{{"config": {config}, "vocab": [{}{more}]}}"#, tokens.join(", ")).into_bytes()
}

pub const TEKKEN_CONFIG: &str =
    r#"{"pattern": "\\s?\\p{L}+|\\S|\\s+", "default_vocab_size": 281, "default_num_special_tokens": 25}"#;

/// A key of GGUF metadata: its name, the number of its type, its bytes.
pub type Key = (&'static str, u32, Vec<u8>);

pub fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

pub fn list(kind: u32, count: u64, items: &[Vec<u8>]) -> Vec<u8> {
    [kind.to_le_bytes().to_vec(), count.to_le_bytes().to_vec(), items.concat()].concat()
}

pub fn texts(items: &[&str]) -> Vec<u8> {
    list(8, items.len() as u64, &items.iter().map(|item| text(item)).collect::<Vec<_>>())
}

pub fn numbers(items: &[u32]) -> Vec<u8> {
    list(5, items.len() as u64, &items.iter().map(|item| item.to_le_bytes().to_vec()).collect::<Vec<_>>())
}

pub fn floats(items: &[f32]) -> Vec<u8> {
    list(6, items.len() as u64, &items.iter().map(|item| item.to_le_bytes().to_vec()).collect::<Vec<_>>())
}

/// Returns a GGUF file. `changes` replaces keys.
pub fn gguf(usual: Vec<Key>, changes: Vec<Key>) -> Vec<u8> {
    let mut keys = usual;
    for change in changes {
        match keys.iter_mut().find(|key| key.0 == change.0) {
            Some(key) => *key = change,
            None => keys.push(change),
        }
    }
    let mut out = b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0".to_vec();
    out.extend((keys.len() as u64).to_le_bytes());
    for (name, kind, value) in keys {
        out.extend(text(name));
        out.extend(kind.to_le_bytes());
        out.extend(value);
    }
    out
}

/// Returns the keys of a vocabulary of pieces.
pub fn pieces() -> Vec<Key> {
    vec![
        ("tokenizer.ggml.model", 8, text("llama")),
        ("tokenizer.ggml.tokens", 9, texts(&["<unk>", "<s>", "a", "b", "ab", "\u{2581}"])),
        ("tokenizer.ggml.scores", 9, floats(&[0.0, 0.0, -3.0, -3.0, -1.0, -2.0])),
        ("tokenizer.ggml.token_type", 9, numbers(&[2, 3, 1, 1, 1, 1])),
        ("tokenizer.ggml.bos_token_id", 4, 1u32.to_le_bytes().to_vec()),
    ]
}

/// Returns the keys of a byte-level vocabulary.
pub fn byte_level() -> Vec<Key> {
    let printable = |byte: u32| matches!(byte, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF);
    let others = (0..256).filter(|byte| !printable(*byte)).count() as u32;
    let letters = (0..256).filter(|byte| printable(*byte)).chain(0x100..0x100 + others);
    let letters: Vec<String> = letters.filter_map(char::from_u32).map(String::from).collect();
    let mut tokens: Vec<&str> = letters.iter().map(String::as_str).collect();
    tokens.extend(["ab", "abab", "<s>"]);
    let mut types = vec![1; tokens.len()];
    types[258] = 3;
    vec![
        ("tokenizer.ggml.model", 8, text("gpt2")),
        ("tokenizer.ggml.pre", 8, text("gpt-2")),
        ("tokenizer.ggml.tokens", 9, texts(&tokens)),
        ("tokenizer.ggml.token_type", 9, numbers(&types)),
        ("tokenizer.ggml.merges", 9, texts(&["a b", "ab ab"])),
    ]
}

/// Returns valid files of each kind. The tests of kinds and of hostile files run over them.
pub fn whole() -> Vec<WholeFile> {
    let json = |name, model: &str| WholeFile {
        kind: FileKind::TokenizerJson,
        name,
        file_names: &["tokenizer.json"],
        file: with_model(model),
        config: None,
        may_be_cut: false,
    };
    let sentencepiece = |name, algorithm, config| WholeFile {
        kind: FileKind::SentencePiece,
        name,
        file_names: &["tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "tokenizer.model.v3"],
        file: sentencepiece(&[], &[0x18, algorithm], &[]),
        config,
        may_be_cut: true,
    };
    let gguf = |name, keys| WholeFile {
        kind: FileKind::Gguf,
        name,
        file_names: &["model.gguf"],
        file: gguf(keys, Vec::new()),
        config: None,
        may_be_cut: false,
    };
    vec![
        WholeFile {
            file: tokenizer_json(&[]),
            config: Some(br#"{"add_bos_token": true, "bos_token": "<s>", "legacy": false}"#),
            ..json("tokenizer.json", "{}")
        },
        json(
            "unigram",
            r#"{"type": "Unigram", "unk_id": 0, "vocab": [["?", 0.0], ["a", -2.0], ["b", -2.5], ["ab", -1.0]], "byte_fallback": false}"#,
        ),
        json(
            "WordPiece",
            r###"{"type": "WordPiece", "unk_token": "?", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": {"?": 0, "a": 1, "##b": 2, "ab": 3}}"###,
        ),
        sentencepiece("sentencepiece BPE", 2, Some(br#"{"legacy": false}"#)),
        sentencepiece("sentencepiece unigram", 1, None),
        WholeFile {
            kind: FileKind::Tiktoken,
            name: "tiktoken",
            file_names: &["tiktoken.model", "x.tiktoken"],
            file: ranks(""),
            config: Some(RANKS_CONFIG.as_bytes()),
            may_be_cut: true,
        },
        WholeFile {
            kind: FileKind::Tekken,
            name: "tekken",
            file_names: &["tekken.json", "tekken_240718.json"],
            file: tekken(TEKKEN_CONFIG, ""),
            config: None,
            may_be_cut: false,
        },
        gguf("GGUF pieces", pieces()),
        gguf("GGUF byte level", byte_level()),
    ]
}
