//! Small tokenizers and templates of our own, one for each known way in which a text has become a
//! token, so that a fresh clone tries them all.

use std::sync::Arc;

use rolecall::conversation::json;
use rolecall::conversation::json::{Layout, Object};
use rolecall::conversation::{Json, object};
use rolecall::tokenizer::{EmbeddedVocabulary, HuggingFace, TokenType, Tokenizer};

/// The control tokens of every small tokenizer. `file` flags every second one as special.
const TOKENS: [&str; 14] = [
    "<|im_start|>",
    "<|im_end|>",
    "<s>",
    "</s>",
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<|user|>",
    "<|assistant|>",
    "[INST]",
    "[/INST]",
    "<\u{ff5c}Frage\u{ff5c}>",
    "<|end\u{2581}of|>",
];

/// Templates with their names: the usual one; one that makes tokens of roles; one that cuts
/// reasoning off; one that prints tools and calls; one that trims; one that leaves a message to
/// complete its tokens; one with wide characters.
pub fn small_templates() -> Vec<(&'static str, &'static str)> {
    vec![
        (
            "turns",
            "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}\
             {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
        ),
        (
            "roles",
            "{% for m in messages %}{{ '<|' + m.role + '|>' }}{{ m.content | trim }}</s>{% endfor %}\
             {% if add_generation_prompt %}<|assistant|>{% endif %}",
        ),
        (
            "reasoning",
            "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' and '</think>' in m.content %}\
             <think>{{ m.content.split('</think>')[0].split('<think>')[-1] }}</think>{{ m.content.split('</think>')[-1] }}\
             {% elif m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{{ m.content }}\
             {% else %}{{ m.content }}{% endif %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
        ),
        (
            "calls",
            "{{ bos_token }}{% if tools %}<|im_start|>system\n{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}<|im_end|>\n{% endif %}\
             {% for d in documents or [] %}<|im_start|>document\n{{ d.title }}: {{ d.text }}<|im_end|>\n{% endfor %}\
             {% for m in messages %}<|im_start|>{{ m.role }}{% if m.name %} {{ m.name }}{% endif %}\n{{ m.content or '' }}\
             {% for c in m.tool_calls or [] %}<tool_call>{{ {'name': c.function.name, 'arguments': c.function.arguments} | tojson }}</tool_call>{% endfor %}\
             {% if m.tool_call_id %}{{ m.tool_call_id }}{% endif %}<|im_end|>\n{% endfor %}{{ mode or '' }}\
             {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
        ),
        (
            "instructions",
            "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]{% else %} {{ m.content | trim }}{{ eos_token }}{% endif %}{% endfor %}",
        ),
        (
            "halves",
            "{% for m in messages %}<|im_{{ m.content }}|><|im_end{{ m.content }}>[{{ m.content }}INST]{{ m.content }}>{% endfor %}",
        ),
        (
            "wide",
            "{% for m in messages %}{% if m.role == 'user' %}<\u{ff5c}Frage\u{ff5c}>{{ m.content }}{% else %}{{ m.content }}<|end\u{2581}of|>{% endif %}{% endfor %}",
        ),
    ]
}

/// Returns the tokenizers with their names. All have the same control tokens.
pub fn small_tokenizers() -> Vec<(&'static str, Arc<dyn Tokenizer>)> {
    let bytes = || file(&byte_level(), Json::Null, of("ByteLevel", BYTE_LEVEL), &|_| {});
    let by_config = br#"{"eos_token": "<|im_end|>", "bos_token": "<s>", "unk_token": "</s>"}"#;
    let listed = br#"{"chat_control_tokens": ["<|im_end|>", "<think>"]}"#;
    let beside = [
        // Its opening and closing tokens are ordinary vocabulary entries that only the config
        // names.
        ("named", without(bytes(), &["<|im_end|>", "<s>", "</s>"]), Some(&by_config[..])),
        ("listed", bytes(), Some(&listed[..])),
        ("vocabulary", adding(bytes()), None),
        ("replacing", file(&byte_level(), replacing(), of("ByteLevel", BYTE_LEVEL), &|_| {}), None),
    ];
    let read = |(name, bytes, config): (&'static str, Vec<u8>, Option<&[u8]>)| {
        let tokenizer = HuggingFace::from_bytes(&bytes, config).unwrap_or_else(|error| panic!("{name}: {error}"));
        (name, Arc::new(tokenizer) as Arc<dyn Tokenizer>)
    };
    let beside = beside.into_iter().map(|(name, file, config)| (name, written(&file), config));
    let files = small_tokenizer_files().into_iter().map(|(name, file)| (name, file, None)).chain(beside);
    files.map(read).chain([("embedded", embedded())]).collect()
}

/// Returns the tokenizers that need only one file, as the bytes of a `tokenizer.json` each.
pub fn small_tokenizer_files() -> Vec<(&'static str, Vec<u8>)> {
    let taking = |token: &mut Object| {
        for side in ["lstrip", "rstrip"] {
            token.insert(side, true.into());
        }
    };
    let normalized = |token: &mut Object| token.insert("normalized", true.into());
    let files = [
        ("bytes", file(&byte_level(), Json::Null, of("ByteLevel", BYTE_LEVEL), &|_| {})),
        ("bytes-nfc", file(&byte_level(), of("NFC", &[]), of("ByteLevel", BYTE_LEVEL), &normalized)),
        ("white-space", file(&byte_level(), Json::Null, of("ByteLevel", BYTE_LEVEL), &taking)),
        ("folded", file(&fallback(), folding(), Json::Null, &normalized)),
        ("folded-raw", file(&fallback(), folding(), Json::Null, &|_| {})),
        ("prefix", opening(file(&fallback(), Json::Null, metaspace("first"), &|_| {}))),
        ("pieces", file(&unigram(), of("NFKC", &[]), metaspace("always"), &|_| {})),
        ("words", file(&word_pieces(), of("BertNormalizer", BERT), of("BertPreTokenizer", &[]), &|_| {})),
    ];
    files.into_iter().map(|(name, file)| (name, written(&file))).collect()
}

fn written(file: &Json) -> Vec<u8> {
    json::write(file, &Layout::compact()).into_bytes()
}

/// Removes added tokens from a file. They stay in its vocabulary.
fn without(file: Json, tokens: &[&str]) -> Json {
    let Json::Object(mut file) = file else { return file };
    let added = file.get("added_tokens").and_then(Json::as_array).unwrap_or_default();
    let text = |token: &Json| token.as_object().and_then(|token| token.get("content")?.as_str().map(str::to_owned));
    let kept = added.iter().filter(|token| !tokens.contains(&text(token).unwrap_or_default().as_str()));
    let kept: Vec<Json> = kept.cloned().collect();
    file.insert("added_tokens", kept.into());
    file.into()
}

/// Adds tokens that are ordinary text: tags, words, a run of one character, and one that takes
/// white space.
fn adding(file: Json) -> Json {
    let Json::Object(mut file) = file else { return file };
    let words = ["<b>", "</b>", "<table>", "the-one", "----", "<hr>", "word"];
    let size = file
        .get("model")
        .and_then(|model| model.as_object()?.get("vocab")?.as_object().map(|vocab| vocab.iter().count()));
    let mut added = file.get("added_tokens").and_then(Json::as_array).unwrap_or_default().to_vec();
    for (number, text) in words.into_iter().enumerate() {
        let mut token =
            object! { "id" => (size.unwrap_or_default() + number) as i64, "content" => text, "special" => false };
        for flag in ["normalized", "lstrip", "rstrip", "single_word"] {
            let is_set = matches!((text, flag), ("<hr>", "lstrip" | "rstrip") | ("word", "single_word"));
            token.insert(flag, is_set.into());
        }
        added.push(token.into());
    }
    file.insert("added_tokens", added.into());
    file.into()
}

/// A normalizer that turns a sign into a control token.
fn replacing() -> Json {
    object! { "type" => "Replace", "pattern" => object! { "String" => "\u{a7}" }, "content" => "<|im_end|>" }.into()
}

/// A vocabulary as in a GGUF file, whose opening and closing tokens are ordinary entries named by
/// id.
fn embedded() -> Arc<dyn Tokenizer> {
    let (learned, _) = merges(&["<|im_end|>", "<|im_start|>", "</s>", "\u{2581}the", "hello"]);
    let letters = ('!'..='~').chain(['\u{2581}', '\n']).map(String::from);
    let mut tokens = vec!["<unk>".to_owned()];
    tokens.extend((0..=u8::MAX).map(|byte| format!("<0x{byte:02X}>")));
    for piece in letters.chain(learned) {
        if !tokens.contains(&piece) {
            tokens.push(piece);
        }
    }
    let id = |text: &str| tokens.iter().position(|token| token == text).map(|id| id as u64);
    let types = (0..tokens.len()).map(|id| match id {
        0 => TokenType::Unknown,
        1..=256 => TokenType::Byte,
        _ => TokenType::Normal,
    });
    let vocabulary = EmbeddedVocabulary {
        model: "llama".into(),
        scores: Some((0..tokens.len()).map(|id| -(id as f32)).collect()),
        types: Some(types.collect()),
        bos: id("<|im_start|>"),
        eos: id("<|im_end|>"),
        special: vec![("eot_token_id".to_owned(), id("</s>").unwrap_or_default())],
        unknown: Some(0),
        add_bos: Some(false),
        add_space_prefix: Some(false),
        tokens,
        ..EmbeddedVocabulary::default()
    };
    Arc::from(vocabulary.into_tokenizer().unwrap_or_else(|error| panic!("embedded: {error}")))
}

const BYTE_LEVEL: &[(&str, bool)] = &[("add_prefix_space", false), ("trim_offsets", false), ("use_regex", true)];
const BERT: &[(&str, bool)] =
    &[("clean_text", true), ("handle_chinese_chars", true), ("strip_accents", true), ("lowercase", true)];

fn of(kind: &str, flags: &[(&str, bool)]) -> Json {
    let mut part = object! { "type" => kind };
    flags.iter().for_each(|(name, flag)| part.insert(*name, (*flag).into()));
    part.into()
}

fn folding() -> Json {
    let steps = ["NFKC", "Lowercase", "StripAccents"].map(|kind| of(kind, &[]));
    object! { "type" => "Sequence", "normalizers" => steps.to_vec() }.into()
}

fn metaspace(scheme: &str) -> Json {
    object! { "type" => "Metaspace", "replacement" => "\u{2581}", "prepend_scheme" => scheme, "split" => false }.into()
}

/// A file of a model whose vocabulary begins with the control tokens.
fn file(model: &Object, normalizer: Json, pre_tokenizer: Json, change: &dyn Fn(&mut Object)) -> Json {
    let tokens = TOKENS.iter().enumerate().map(|(id, text)| {
        let mut token = object! { "id" => id as i64, "content" => *text, "special" => id % 2 == 0 };
        ["normalized", "lstrip", "rstrip", "single_word"].into_iter().for_each(|flag| token.insert(flag, false.into()));
        change(&mut token);
        Json::Object(token)
    });
    let tokens: Vec<Json> = tokens.collect();
    let model = model.clone();
    object! {
        "added_tokens" => tokens, "normalizer" => normalizer, "pre_tokenizer" => pre_tokenizer, "model" => model,
    }
    .into()
}

/// Makes the tokenizer of a file put `<s>` before every text.
fn opening(file: Json) -> Json {
    let special = object! { "SpecialToken" => object! { "id" => "<s>", "type_id" => 0 } };
    let text = object! { "Sequence" => object! { "id" => "A", "type_id" => 0 } };
    let token = object! { "id" => "<s>", "ids" => vec![Json::from(2)], "tokens" => vec![Json::from("<s>")] };
    let around = object! {
        "type" => "TemplateProcessing", "single" => vec![Json::from(special), Json::from(text)],
        "pair" => Vec::<Json>::new(), "special_tokens" => object! { "<s>" => token },
    };
    let Json::Object(mut file) = file else { return file };
    file.insert("post_processor", around.into());
    file.into()
}

/// Returns a vocabulary of the control tokens, then these pieces in order without duplicates.
fn vocabulary(pieces: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut vocabulary: Vec<String> = TOKENS.map(str::to_owned).to_vec();
    for piece in pieces {
        if !vocabulary.contains(&piece) {
            vocabulary.push(piece);
        }
    }
    vocabulary
}

fn numbered(vocabulary: &[String]) -> Json {
    vocabulary.iter().enumerate().map(|(id, piece)| (piece.clone(), Json::from(id as i64))).collect::<Object>().into()
}

/// Returns the merges that build each token character by character, as if the model had learned it.
fn merges(tokens: &[&str]) -> (Vec<String>, Vec<Json>) {
    let (mut pieces, mut merges) = (Vec::new(), Vec::new());
    for token in tokens {
        let mut before = String::new();
        for c in token.chars() {
            if !before.is_empty() {
                let merge = Json::from(vec![Json::from(before.as_str()), Json::from(c.to_string())]);
                if !merges.contains(&merge) {
                    merges.push(merge);
                }
            }
            before.push(c);
            pieces.push(before.clone());
        }
    }
    (pieces, merges)
}

/// Byte pairs that merge to line breaks, words and control tokens.
fn byte_level() -> Object {
    let (learned, merges) = merges(&["<|im_start|>", "<|im_end|>", "<s>", "\u{10a}\u{10a}", "\u{120}the", "hello"]);
    // Printable bytes map to themselves, the others to the characters from U+0100 on.
    let mut hidden = 0x100;
    let bytes = (0u32..256).filter_map(|byte| {
        let is_seen = matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
        let letter = if is_seen { byte } else { hidden };
        hidden += u32::from(!is_seen);
        char::from_u32(letter).map(String::from)
    });
    let vocabulary = vocabulary(bytes.chain(learned));
    object! { "type" => "BPE", "vocab" => numbered(&vocabulary), "merges" => merges, "ignore_merges" => true }
}

/// Character pairs, with byte tokens for everything that no piece spells.
fn fallback() -> Object {
    let (learned, merges) = merges(&["<|im_end|>", "</s>", "<think>", "\u{2581}the", "[inst]", "\n\n"]);
    let bytes = (0..=u8::MAX).map(|byte| format!("<0x{byte:02X}>"));
    let letters = ('!'..='~').chain(['\u{2581}', '\n']).map(String::from);
    let vocabulary = vocabulary(["<unk>".to_owned()].into_iter().chain(bytes).chain(letters).chain(learned));
    object! {
        "type" => "BPE", "vocab" => numbered(&vocabulary), "merges" => merges, "unk_token" => "<unk>", "fuse_unk" => true,
        "byte_fallback" => true,
    }
}

/// A unigram model in which the control tokens have the highest score.
fn unigram() -> Object {
    let bytes = (0..=u8::MAX).map(|byte| format!("<0x{byte:02X}>"));
    let letters = ('!'..='~').chain(['\u{2581}', '\n']).map(String::from);
    let words = ["\u{2581}the", "hello", "im", "end"].map(str::to_owned);
    let vocabulary = vocabulary(["<unk>".to_owned()].into_iter().chain(bytes).chain(letters).chain(words));
    let pieces = vocabulary.iter().enumerate().map(|(id, piece)| {
        let score = if id < TOKENS.len() { 0.0 } else { -2.0 - piece.len() as f64 / 64.0 };
        let score = rolecall::conversation::json::Number::from_spelling(&format!("{score:.3}")).expect("a JSON number");
        Json::from(vec![Json::from(piece.as_str()), Json::Number(score)])
    });
    let pieces: Vec<Json> = pieces.collect();
    object! { "type" => "Unigram", "unk_id" => TOKENS.len() as i64, "vocab" => pieces, "byte_fallback" => true }
}

/// Greedy longest pieces of each word. Punctuation characters are words of their own.
fn word_pieces() -> Object {
    let letters = ('!'..='~').filter(|c| !c.is_uppercase()).flat_map(|c| [c.to_string(), format!("##{c}")]);
    let words = ["[UNK]", "the", "hello", "im", "end", "##s"].map(str::to_owned);
    let vocabulary = vocabulary(words.into_iter().chain(letters));
    object! {
        "type" => "WordPiece", "vocab" => numbered(&vocabulary), "unk_token" => "[UNK]", "continuing_subword_prefix" => "##",
        "max_input_chars_per_word" => 100,
    }
}
