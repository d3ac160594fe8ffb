//! Small tokenizers made from bytes: few letters, merges that meet in many ways, and any pattern.

use std::fmt::Write as _;

use rolecall_fixture::write_sentencepiece;
use serde_json::{Value, json};

use crate::Bytes;

/// The letters that a tokenizer chooses from: some share their first bytes, or their last.
const LETTERS: &[&str] = &[
    "a",
    "b",
    "c",
    " ",
    "\n",
    "1",
    "2",
    "'",
    "é",
    "è",
    "ß",
    "中",
    "丮",
    "文",
    "人",
    "😀",
    "😁",
    "e\u{301}",
    "\u{301}",
    "\u{2581}",
    "\t",
    "\u{3000}",
    "A",
    "-",
    "'s",
    "\r\n",
    "  ",
    "が",
    "か\u{3099}",
];

/// The longest token in bytes.
const LONGEST: usize = 80;

/// A tokenizer as a file.
pub struct RandomTokenizer {
    pub file: Vec<u8>,
    pub letters: Vec<&'static str>,
    pub drops_text: bool,
    /// Whether the reference may take quadratic time, or worse, to split a text.
    pub is_slow: bool,
}

/// Makes a tokenizer.
pub fn random_tokenizer(bytes: &mut Bytes<'_>) -> RandomTokenizer {
    let letters: Vec<&str> = (0..2 + bytes.below(8)).map(|_| bytes.pick(LETTERS)).collect();
    let (mut drops_text, mut is_slow) = (false, false);
    let file = match bytes.below(8) {
        0 => sentencepiece(bytes, &letters),
        1 | 2 => of_characters(bytes, &letters),
        _ => of_bytes(bytes, &letters, &mut drops_text, &mut is_slow),
    };
    RandomTokenizer { file, letters, drops_text, is_slow }
}

/// Tokens by their texts, and merges of which each makes one of them.
struct Vocabulary {
    tokens: Vec<String>,
    merges: Vec<(String, String)>,
}

impl Vocabulary {
    /// Merges some of the tokens, of which only the first `letters` may not be longer.
    fn learn(&mut self, bytes: &mut Bytes<'_>, first: usize) {
        for _ in 0..bytes.below(100) {
            let mut pick = || {
                let count = self.tokens.len() - first;
                // Half of them are recent.
                let back = if bytes.below(2) == 0 { bytes.below(count.min(8)) } else { bytes.below(count) };
                self.tokens[self.tokens.len() - 1 - back].clone()
            };
            let (left, right) = (pick(), pick());
            let product = format!("{left}{right}");
            if product.len() > LONGEST || self.merges.iter().any(|known| *known == (left.clone(), right.clone())) {
                continue;
            }
            self.push(product);
            self.merges.push((left, right));
        }
    }

    fn push(&mut self, token: String) {
        if !self.tokens.contains(&token) {
            self.tokens.push(token);
        }
    }

    fn file(self, flags: Value, normalizer: Value, pre_tokenizer: Value, added: &[(usize, String, bool)]) -> Vec<u8> {
        let vocab: serde_json::Map<_, _> = (0..).zip(self.tokens).map(|(id, text)| (text, Value::from(id))).collect();
        let mut model = json!({"type": "BPE", "vocab": vocab, "merges": self.merges});
        if let (Value::Object(model), Value::Object(flags)) = (&mut model, flags) {
            model.extend(flags);
        }
        let added: Vec<Value> = added
            .iter()
            .map(|(id, content, normalized)| {
                json!({"id": id, "content": content, "special": !normalized, "normalized": normalized,
                       "lstrip": false, "rstrip": false, "single_word": false})
            })
            .collect();
        let file =
            json!({"added_tokens": added, "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "model": model});
        file.to_string().into_bytes()
    }
}

fn of_bytes(bytes: &mut Bytes<'_>, letters: &[&str], drops_text: &mut bool, is_slow: &mut bool) -> Vec<u8> {
    let spelled = |text: &str| text.bytes().map(byte_character).collect::<String>();
    let used: Vec<String> = letters.concat().bytes().map(|byte| byte_character(byte).to_string()).collect();
    let mut tokens: Vec<String> = (0..=255).map(|byte| byte_character(byte).to_string()).collect();
    // The bytes that occur come last, where merges begin.
    tokens.retain(|token| !used.contains(token));
    let first = tokens.len();
    let mut vocabulary = Vocabulary { tokens, merges: Vec::new() };
    used.into_iter().for_each(|token| vocabulary.push(token));
    vocabulary.learn(bytes, first);
    let ignore_merges = bytes.below(3) == 0;
    if ignore_merges {
        // Words that no merge makes.
        for _ in 0..bytes.below(6) {
            let word: String = (0..1 + bytes.below(8)).map(|_| bytes.pick(letters)).collect();
            vocabulary.push(spelled(&word));
        }
    }
    let mut added = Vec::new();
    for _ in 0..bytes.below(4) {
        let at = first + bytes.below(vocabulary.tokens.len() - first);
        let text = text_of_bytes(&vocabulary.tokens[at]);
        let is_new = added.iter().all(|(id, known, _)| *id != at && Some(known) != text.as_ref());
        if let Some(text) = text.filter(|text| is_new && spelled(text) == *text) {
            // Only such a token has the same text among the added ones.
            added.push((at, text, bytes.below(4) == 0));
        }
    }
    let beyond: String = (0..bytes.below(4)).map(|_| bytes.pick(letters)).collect();
    if !beyond.is_empty() && !vocabulary.tokens.contains(&beyond) {
        added.push((vocabulary.tokens.len(), beyond, bytes.below(4) == 0));
    }
    let mut parts = Vec::new();
    for _ in 0..bytes.below(4) {
        let pattern = pattern(bytes);
        *is_slow |= !WHOLE.contains(&pattern.as_str());
        let is_dropping = bytes.below(8) == 0;
        *drops_text |= is_dropping;
        let behavior = if is_dropping { "Removed" } else { "Isolated" };
        parts
            .push(json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": is_dropping}));
    }
    if bytes.below(8) == 0 {
        parts.push(json!({"type": "Digits", "individual_digits": bytes.below(2) == 0}));
    }
    let use_regex = parts.is_empty() || bytes.below(4) == 0;
    parts.push(json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": use_regex}));
    let normalizer = if bytes.below(3) == 0 { json!({"type": "NFC"}) } else { Value::Null };
    let pre_tokenizer = json!({"type": "Sequence", "pretokenizers": parts});
    vocabulary.file(json!({"ignore_merges": ignore_merges}), normalizer, pre_tokenizer, &added)
}

fn of_characters(bytes: &mut Bytes<'_>, letters: &[&str]) -> Vec<u8> {
    let mut vocabulary = Vocabulary { tokens: vec!["<unk>".to_owned()], merges: Vec::new() };
    let has_bytes = bytes.below(2) == 0;
    if has_bytes {
        (0..=255).for_each(|byte| vocabulary.push(format!("<0x{byte:02X}>")));
    }
    let first = vocabulary.tokens.len();
    vocabulary.push("\u{2581}".to_owned());
    for letter in letters.concat().chars() {
        // Others are unknown.
        if bytes.below(4) > 0 {
            vocabulary.push(letter.to_string());
        }
    }
    vocabulary.learn(bytes, first);
    let mut added = vec![(0, "<unk>".to_owned(), false)];
    for _ in 0..bytes.below(3) {
        let at = first + bytes.below(vocabulary.tokens.len() - first);
        if added.iter().all(|(id, ..)| *id != at) {
            added.push((at, vocabulary.tokens[at].clone(), bytes.below(4) == 0));
        }
    }
    let scheme = ["first", "always", "never"][bytes.below(3)];
    let split = bytes.below(2) == 0;
    let metaspace = json!({"type": "Metaspace", "replacement": "\u{2581}", "prepend_scheme": scheme, "split": split});
    let replace = json!({"type": "Replace", "pattern": {"String": " "}, "content": "\u{2581}"});
    let prepend = json!({"type": "Prepend", "prepend": "\u{2581}"});
    let (normalizer, pre_tokenizer) = match bytes.below(5) {
        0 => (Value::Null, metaspace),
        1 => (json!({"type": "NFC"}), metaspace),
        2 => (replace, Value::Null),
        3 => (json!({"type": "Sequence", "normalizers": [prepend, replace]}), Value::Null),
        _ => (Value::Null, Value::Null),
    };
    let fused = bytes.below(2) == 0;
    let flags = json!({"byte_fallback": has_bytes, "fuse_unk": fused, "unk_token": "<unk>", "ignore_merges": bytes.below(6) == 0});
    vocabulary.file(flags, normalizer, pre_tokenizer, &added)
}

fn sentencepiece(bytes: &mut Bytes<'_>, letters: &[&str]) -> Vec<u8> {
    const NORMAL: u8 = 1;
    let mut pieces = vec![("<unk>".to_owned(), 0.0, 2), ("<s>".to_owned(), 0.0, 3)];
    pieces.extend((0..=255).map(|byte| (format!("<0x{byte:02X}>"), 0.0, 6)));
    let mut vocabulary = Vocabulary { tokens: vec!["\u{2581}".to_owned()], merges: Vec::new() };
    letters.concat().replace(' ', "\u{2581}").chars().for_each(|letter| vocabulary.push(letter.to_string()));
    vocabulary.learn(bytes, 0);
    for token in vocabulary.tokens {
        let kind = if bytes.below(16) == 0 { 4 } else { NORMAL };
        pieces.push((token, -(bytes.below(32) as f32), kind));
    }
    let prefix = bytes.below(2) as u8;
    write_sentencepiece(&pieces, &[0x18, 2, 0x98, 0x02, 1], &[0x18, prefix, 0x20, 0])
}

const ATOMS: &[&str] = &[
    r"\p{L}",
    r"\s",
    r"\p{N}",
    r"\p{M}",
    "a",
    "b",
    "[ab]",
    "[^a]",
    r"[^\s\p{L}]",
    "中",
    "[一-龥]",
    r"[\r\n]",
    " ",
    r"\S",
    r"[^\r\n\p{L}\p{N}]",
    "é",
    "(?:ab|a)",
    r"[\p{L}\p{M}]",
    "(?i:'s|'t)",
    r"[^\s\p{L}\p{N}]",
    r"\n",
    "(?:中|文)",
    "c",
    r"\P{L}",
];
const COUNTS: &[&str] = &["", "", "", "+", "+", "*", "?", "{1,3}", "+?", "++", "?+", "*?", "{2,}", "??"];
const AHEAD: &[&str] = &["", "", "", r"(?!\S)", "(?=a)", "(?!b)", r"(?=\s)", r"(?!\p{L})", "(?=中)"];
const WHOLE: &[&str] = &[
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"\p{N}{1,3}",
    r"[一-龥぀-ゟ゠-ヿ]+",
    r"\s+(?!\S)|\s+",
    r"a+b|a",
    r"\s+x|\S",
];

fn pattern(bytes: &mut Bytes<'_>) -> String {
    if bytes.below(4) == 0 {
        return bytes.pick(WHOLE).to_owned();
    }
    let mut pattern = String::new();
    for at in 0..1 + bytes.below(5) {
        if at > 0 {
            pattern.push('|');
        }
        for _ in 0..1 + bytes.below(3) {
            let _ = write!(pattern, "{}{}", bytes.pick(ATOMS), bytes.pick(COUNTS));
        }
        pattern.push_str(bytes.pick(AHEAD));
    }
    pattern
}

/// Returns the character for a byte in byte-level vocabularies.
fn byte_character(byte: u8) -> char {
    let printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    match printable(byte) {
        true => char::from(byte),
        false => char::from_u32(256 + (0..byte).filter(|&byte| !printable(byte)).count() as u32).unwrap_or_default(),
    }
}

/// Returns the text that a token of bytes stands for, if it is whole characters.
fn text_of_bytes(token: &str) -> Option<String> {
    let byte = |c| (0..=255u8).find(|&byte| byte_character(byte) == c);
    String::from_utf8(token.chars().map(byte).collect::<Option<_>>()?).ok()
}
