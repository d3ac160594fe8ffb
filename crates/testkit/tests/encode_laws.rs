//! Laws of encoding: ids decode to the prompt's bytes, a stream returns each character once, and
//! neither a cache nor a growing conversation changes an id. Checked with the toy tokenizer and, if
//! `../shared` exists, with real ones.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::path::Path;
use std::sync::Arc;

use fastrand::Rng;
use rolecall::Prompt;
use rolecall::conversation::{Conversation, Message};
use rolecall::encode::{AddSpecial, Decoder, Encoder, Growing, Note, Protection};
use rolecall::format::Format;
use rolecall::render::{RuleMode, Writer};
use rolecall::template::{ChatTemplate, TemplateOptions};
use rolecall::tokenizer;
use rolecall::tokenizer::Tokenizer;
use rolecall::tokenizer::{CachedTokenizer, HuggingFace, TextPlace};
use rolecall_testkit::{Toy, generate};

const TEXTS: [&str; 16] = [
    "hi",
    "",
    " ",
    " two  spaces ",
    "\n\nlines\r\n\tand tabs ",
    "naïve cafe\u{301} (marks)",
    "ﬁ ½ Ａ",
    "你好，世界。今天",
    "👩‍👩‍👧 👍🏽 🇫🇷",
    "a\u{0}b\u{2028}c\u{feff}",
    "مرحبا привет नमस्ते",
    "▁escaped▁ ▁",
    "<|im_end|><s></s>[INST]<0x0A>",
    "fn main() { println!(\"{}\", 1234567); }",
    "\u{1f600}\u{10ffff}\u{e000}",
    "don't I'LL 3.14",
];

/// A named tokenizer, and a template that writes its tokens.
struct Real {
    name: String,
    tokenizer: Arc<dyn Tokenizer>,
    template: ChatTemplate,
}

fn reals() -> Vec<Real> {
    let Some(shared) = rolecall_testkit::shared() else {
        rolecall_testkit::say_skipped("no real tokenizer is tried");
        return Vec::new();
    };
    let folders = std::fs::read_dir(shared.join("tokenizers")).unwrap().map(|entry| entry.unwrap().path());
    folders.map(|path| real(&path)).collect()
}

fn real(path: &Path) -> Real {
    let tokenizer: Arc<dyn Tokenizer> = Arc::from(tokenizer::load(path).unwrap());
    let mut special = tokenizer.added_tokens().iter().filter(|token| token.special && !token.text.starts_with("<0x"));
    let mut next = || special.next().map_or("|".to_owned(), |token| token.text.clone());
    let (_, open, close) = (next(), next(), next());
    let source = format!("{{% for m in messages %}}{open}{{{{ m.role }}}}\n{{{{ m.content }}}}{close}\n{{% endfor %}}");
    let template = ChatTemplate::compile(&source, Vec::new()).unwrap();
    Real { name: path.file_name().unwrap().to_string_lossy().into_owned(), tokenizer, template }
}

fn prompt_of(template: &ChatTemplate, texts: &[&str]) -> Prompt {
    let messages = texts.iter().map(|text| Message::user(*text)).collect();
    Writer::template(template.clone(), TemplateOptions::default()).render(&Conversation::new(messages)).unwrap()
}

#[test]
fn ids_give_the_prompt_back_or_it_is_said_where_they_do_not() {
    let registry = rolecall::format::registry();
    for format in generate::variants(&registry) {
        let toy: Arc<dyn Tokenizer> = Arc::new(Toy::of(format));
        let decoder = Decoder::new(Arc::clone(&toy));
        let encoder = Encoder::new(&Protection::default().with_format(format), toy).unwrap();
        for seed in 0..20 {
            let prompt = generated(format, seed);
            let encoded = encoder.encode(&prompt).unwrap();
            assert_eq!(encoded.lost(&prompt, &decoder).unwrap(), [], "{}, seed {seed}", format.name);
        }
    }
    for real in reals() {
        let decoder = Decoder::new(Arc::clone(&real.tokenizer));
        let encoder =
            Encoder::new(&Protection::default().with_template("t", &real.template), Arc::clone(&real.tokenizer))
                .unwrap();
        for text in TEXTS {
            let prompt = prompt_of(&real.template, &[text, "z", text]);
            let encoded = encoder.encode(&prompt).unwrap();
            let whole = String::from_utf8(decoder.decode(&encoded.ids()).unwrap());
            let lost = encoded.lost(&prompt, &decoder).unwrap();
            let place = format!("{}: {text:?}: {:?}", real.name, encoded.ids());
            if lost.is_empty() {
                assert_eq!(whole.as_deref(), Ok(prompt.text()), "{place}");
            } else {
                assert_ne!(whole.as_deref(), Ok(prompt.text()), "{place}");
            }
            // The losses of these tokenizers are known.
            let known = match real.name.as_str() {
                // NFC composes letters with their combining characters.
                "qwen3" => text.contains('\u{301}'),
                // They write a space as `▁`.
                "llama2" | "internlm2" => text.contains('▁'),
                name if name.starts_with("mistral-v") => text.contains('▁'),
                _ => false,
            };
            assert_eq!(!lost.is_empty(), known, "{place} loses {lost:?}");
        }
    }
}

#[test]
fn many_ids_decode_to_what_each_of_them_stands_for() {
    for real in reals() {
        let tokenizer = &*real.tokenizer;
        let decoder = Decoder::new(Arc::clone(&real.tokenizer));
        let end = tokenizer.vocabulary_size() as u32 + 4;
        let bytes_of = |id: u32| {
            let mut bytes = Vec::new();
            tokenizer.token_bytes(id, &mut bytes).then_some(bytes)
        };
        let all: Vec<u32> = (0..end).filter(|id| bytes_of(*id).is_some()).collect();
        let mut bytes = Vec::new();
        assert_eq!(tokenizer.decode_bytes(&all, &mut bytes), all.len(), "{}", real.name);
        assert!(bytes == all.iter().filter_map(|id| bytes_of(*id)).collect::<Vec<_>>().concat(), "{}", real.name);
        for id in 0..end {
            let mut bytes = Vec::new();
            let count = tokenizer.decode_bytes(&[id, id], &mut bytes);
            assert_eq!((count, bytes), bytes_of(id).map_or((0, Vec::new()), |b| (2, b.repeat(2))), "{}", real.name);
        }
        // With a marker before each third id.
        let markers: Vec<u32> = (0..end).filter(|id| decoder.is_marker(*id)).collect();
        let marker_before =
            |at: usize| (at.is_multiple_of(3) && !markers.is_empty()).then(|| markers[at % markers.len()]);
        let mixed = all.iter().enumerate().flat_map(|(at, id)| marker_before(at).into_iter().chain([*id]));
        let mixed: Vec<u32> = mixed.collect();
        for ids in [&mixed[..], &mixed[1..], &mixed[2..]] {
            assert!(decoder.decode(ids).unwrap() == by_one(ids, tokenizer, &decoder), "{}", real.name);
        }
        assert_eq!(decoder.decode(&[all[0], u32::MAX]).unwrap_err().code(), "unknown_id", "{}", real.name);
    }
}

/// Decodes one id after the other.
fn by_one(ids: &[u32], tokenizer: &dyn Tokenizer, decoder: &Decoder) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut place = Some(tokenizer::TextPlace::Start);
    for id in ids {
        let start = bytes.len();
        if !tokenizer.token_bytes(*id, &mut bytes) {
            bytes.extend(tokenizer.token_text(*id).unwrap().into_bytes());
        }
        if decoder.is_marker(*id) {
            place = Some(tokenizer::TextPlace::Inside);
        } else if place.take().is_some_and(|place| tokenizer.prefix_space(place)) && bytes[start..].starts_with(b" ") {
            bytes.remove(start);
        }
    }
    bytes
}

#[test]
fn a_stream_gives_each_character_once_and_whole() {
    for real in reals() {
        let decoder = Decoder::new(Arc::clone(&real.tokenizer));
        for text in TEXTS {
            let mut tokens = Vec::new();
            real.tokenizer.encode_ordinary(text, tokenizer::TextPlace::Inside, &mut tokens).unwrap();
            let mut stream = decoder.stream().at(tokenizer::TextPlace::Inside);
            let mut said = String::new();
            for (at, token) in tokens.iter().enumerate() {
                let now = stream.push(token.id).unwrap();
                assert!(!now.contains('\u{fffd}'), "{}: {text:?} at {at}: {now:?}", real.name);
                said.push_str(&now);
            }
            said.push_str(&stream.finish());
            let mut bytes = Vec::new();
            tokens.iter().for_each(|token| assert!(real.tokenizer.token_bytes(token.id, &mut bytes)));
            let bytes = String::from_utf8(bytes).unwrap();
            assert_eq!(bytes.trim_start_matches(' '), said.trim_start_matches(' '), "{}", real.name);
        }
    }
    // A character that never ends, and invalid bytes.
    let toy: Arc<dyn Tokenizer> = Arc::new(Toy::of(&Format::new("toy")));
    let decoder = Decoder::new(toy);
    let byte = |byte: u8| Toy::BYTES + u32::from(byte);
    let mut stream = decoder.stream();
    let said: Vec<String> =
        [0xf0, 0x9f, 0x98, 0x80, 0xff, b'a', 0xe4, b'b', 0xc3].map(|each| stream.push(byte(each)).unwrap()).to_vec();
    assert_eq!(said, ["", "", "", "😀", "\u{fffd}", "a", "", "\u{fffd}b", ""]);
    assert_eq!(stream.finish(), "\u{fffd}");
    assert_eq!(decoder.stream().push(7).unwrap_err().code(), "unknown_id");
}

/// Repeats turns and texts with one more each time, and sometimes takes another conversation.
#[test]
fn a_conversation_that_grows_has_the_ids_of_one_that_is_whole() {
    let registry = rolecall::format::registry();
    let mut kept = 0;
    for format in generate::variants(&registry) {
        let toy: Arc<dyn Tokenizer> = Arc::new(Toy::of(format));
        let encoder = Arc::new(
            Encoder::new(&Protection::default().with_format(format), toy).unwrap().adding(AddSpecial::Missing),
        );
        let mut growing = Growing::new(Arc::clone(&encoder));
        for seed in 0..4 {
            let prompt = generated(format, seed);
            for end in (0..=prompt.text().len()).filter(|end| end % 7 == 0 || *end == prompt.text().len()) {
                let Some(part) = prompt.up_to(end) else { continue };
                let whole = encoder.encode(&part).unwrap();
                assert_eq!(growing.encode(part).unwrap(), &whole, "{}, seed {seed}, {end}", format.name);
                kept += growing.kept();
            }
        }
    }
    assert!(kept > 50_000, "only {kept} tokens were kept");
    for real in reals() {
        let encoder = Arc::new(
            Encoder::new(&Protection::default().with_template("t", &real.template), Arc::clone(&real.tokenizer))
                .unwrap(),
        );
        let mut growing = Growing::new(Arc::clone(&encoder));
        let mut rng = Rng::with_seed(5);
        let mut texts: Vec<&str> = Vec::new();
        for _ in 0..60 {
            match rng.u32(0..8) {
                0 if !texts.is_empty() => texts.truncate(rng.usize(0..texts.len())),
                1 if !texts.is_empty() => {
                    let at = rng.usize(0..texts.len());
                    texts[at] = rng.choice(TEXTS).unwrap();
                }
                _ => texts.push(rng.choice(TEXTS).unwrap()),
            }
            let prompt = prompt_of(&real.template, &texts);
            let whole = encoder.encode(&prompt).unwrap();
            assert_eq!(growing.encode(prompt).unwrap(), &whole, "{}: {texts:?}", real.name);
        }
    }
}

#[test]
fn a_cache_changes_no_id_and_keeps_its_limit() {
    for real in reals() {
        let plain =
            Encoder::new(&Protection::default().with_template("t", &real.template), Arc::clone(&real.tokenizer))
                .unwrap();
        // Little space, so that runs are evicted all the time.
        for bytes in [0, 20_000, 1 << 20] {
            let cached = Arc::new(CachedTokenizer::new(Arc::clone(&real.tokenizer), bytes));
            let protection = Protection::default().with_template("t", &real.template);
            let encoder = Encoder::new(&protection, Arc::clone(&cached) as Arc<dyn Tokenizer>).unwrap();
            std::thread::scope(|scope| {
                for thread in 0..3 {
                    let (plain, encoder, template) = (&plain, &encoder, &real.template);
                    scope.spawn(move || {
                        let mut rng = Rng::with_seed(thread);
                        for _ in 0..40 {
                            let number = rng.u32(0..5000).to_string();
                            let mut texts: Vec<&str> = (0..4).map(|_| rng.choice(TEXTS).unwrap()).collect();
                            texts.push(&number);
                            let prompt = prompt_of(template, &texts);
                            assert_eq!(encoder.encode(&prompt).unwrap(), plain.encode(&prompt).unwrap(), "{texts:?}");
                        }
                    });
                }
            });
            let counts = cached.counts();
            assert!(counts.bytes <= bytes, "{}: {counts:?} of {bytes}", real.name);
            assert!(counts.misses > 0 && (bytes < 1 << 20 || counts.hits > counts.misses), "{}: {counts:?}", real.name);
        }
    }
}

#[test]
fn a_cache_knows_the_start_of_a_prompt_from_its_inside() {
    let json = br#"{"added_tokens": [],
        "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": false},
        "model": {"type": "BPE", "vocab": {"\u2581": 0, "a": 1}, "merges": []}}"#;
    let cached = CachedTokenizer::new(Arc::new(HuggingFace::from_bytes(json, None).unwrap()), 1 << 20);
    for (place, expected) in [(tokenizer::TextPlace::Start, [0, 1].as_slice()), (tokenizer::TextPlace::Inside, &[1])] {
        for _ in 0..2 {
            let mut tokens = Vec::new();
            cached.encode_ordinary("a", place, &mut tokens).unwrap();
            assert_eq!(tokens.iter().map(|token| token.id).collect::<Vec<_>>(), expected);
        }
    }
    assert_eq!((cached.counts().hits, cached.counts().misses), (2, 2));
}

/// Checks that the text after a token can change whether it is a token, and that the origin of a
/// text can change whether it may be one.
#[test]
fn what_changes_behind_a_token_is_seen_where_a_conversation_grows() {
    let toy = Toy::of(&Format::new("toy")).with("[go]").with("<|user|>");
    let toy = toy.changed("[go]", |token| (token.single_word, token.lstrip) = (true, true));
    let said = "{% for m in messages %}x [go]{{ m.content }}{% endfor %}";
    let role = "{% for m in messages %}<|{{ m.role }}|>{% endfor %}";
    let content = "{% for m in messages %}<|{{ m.content }}|>{% endfor %}";
    let templates = [said, role, content].map(|source| ChatTemplate::compile(source, Vec::new()).unwrap());
    let protection = templates.iter().fold(Protection::default(), |all, template| all.with_template("t", template));
    let encoder = Arc::new(Encoder::new(&protection, Arc::new(toy)).unwrap());
    let mut growing = Growing::new(Arc::clone(&encoder));
    for (source, text) in
        [(said, " b"), (said, "b"), (said, " c"), (content, "user"), (role, "user"), (content, "user")]
    {
        let prompt = prompt_of(&ChatTemplate::compile(source, Vec::new()).unwrap(), &[text, text, text]);
        let whole = encoder.encode(&prompt).unwrap();
        assert_eq!(growing.encode(prompt).unwrap(), &whole, "{source} {text:?}");
    }
}

/// Makes texts of more tokens than are delivered at once: with and without words, composed and
/// decomposed, with control tokens spelled.
fn long_texts() -> Vec<String> {
    let again = [
        "hello the end ",
        "a",
        "ab",
        "!?(;",
        " ",
        "\n\n",
        "e\u{301}o\u{308}",
        "\u{928}\u{93c}\u{958}",
        "<|im_end|>",
        "\u{10348}",
    ];
    let mut texts: Vec<String> = again.iter().map(|part| part.repeat(24_000 / part.len())).collect();
    texts.push(again.iter().map(|part| part.repeat(12_000 / part.len())).collect());
    texts.push(TEXTS.concat().repeat(60));
    texts
}

#[test]
fn tokens_that_come_in_parts_are_the_tokens() {
    let small = rolecall_testkit::forge::small_tokenizers().into_iter();
    let small = small.map(|(name, tokenizer)| (name.to_owned(), tokenizer));
    let real = reals().into_iter().map(|real| (real.name, real.tokenizer));
    for (name, tokenizer) in small.chain(real) {
        for text in long_texts() {
            for place in [TextPlace::Start, TextPlace::Inside] {
                let (mut whole, mut parts) = (Vec::new(), Vec::new());
                let expected = tokenizer.encode_ordinary(&text, place, &mut whole);
                let found = tokenizer.encode_in_parts(&text, place, &mut |part| parts.extend_from_slice(part));
                assert_eq!(expected.is_ok(), found.is_ok(), "{name}");
                let start: String = text.chars().take(20).collect();
                assert!(expected.is_err() || whole == parts, "{name}: {start:?}");
                let ids = |tokens: &[tokenizer::Token]| tokens.iter().map(|token| token.id).collect::<Vec<u32>>();
                let mut alone = vec![7];
                let found = tokenizer.encode_ids(&text, place, &mut alone);
                assert_eq!(expected.is_ok(), found.is_ok(), "{name}");
                assert!(expected.is_err() || alone[1..] == ids(&whole) && alone[0] == 7, "{name}: {start:?}");
                for most in [0, 100, whole.len().saturating_sub(1), whole.len()] {
                    let mut some = Vec::new();
                    if tokenizer.encode_at_most(&text, place, most, &mut some).is_err() {
                        continue;
                    }
                    let is_whole = some.len() == whole.len();
                    assert!(is_whole || most < some.len() && some.len() < whole.len(), "{name}: {most} {start:?}");
                    assert_eq!(ids(&some), ids(&whole[..some.len()]), "{name}: {most} {start:?}");
                }
            }
        }
    }
}

#[test]
fn the_opening_token_is_there_once() {
    let json = |adds: bool| {
        let post = r#"{"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}], "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [2], "tokens": ["<s>"]}, "</s>": {"id": "</s>", "ids": [3], "tokens": ["</s>"]}}}"#;
        format!(
            r#"{{"added_tokens": [
                {{"id": 2, "content": "<s>", "special": true, "normalized": false, "lstrip": false, "rstrip": false, "single_word": false}},
                {{"id": 3, "content": "</s>", "special": true, "normalized": false, "lstrip": false, "rstrip": false, "single_word": false}}],
              "post_processor": {}, "model": {{"type": "BPE", "vocab": {{"a": 0, "\n": 1}}, "merges": []}}}}"#,
            if adds { post } else { "null" }
        )
    };
    let ids = |source: &str, adds: bool, add: AddSpecial, open: bool| {
        let tokenizer = Arc::new(HuggingFace::from_bytes(json(adds).as_bytes(), None).unwrap());
        let template = ChatTemplate::compile(source, Vec::new()).unwrap();
        let encoder =
            Encoder::new(&Protection::default().with_template("t", &template), tokenizer).unwrap().adding(add);
        let mut conversation = Conversation::new(vec![Message::user("a")]);
        conversation.add_generation_prompt = Some(open);
        let prompt = Writer::template(template.clone(), TemplateOptions::default()).render(&conversation).unwrap();
        let encoded = encoder.encode(&prompt).unwrap();
        let notes: Vec<&str> = encoded.notes.iter().map(Note::code).collect();
        let reference = encoder.encode_reference(&prompt).unwrap();
        assert_eq!(reference.ids(), encoded.ids(), "{source}");
        assert_eq!(reference.notes.iter().map(Note::code).collect::<Vec<_>>(), notes, "{source}");
        (encoded.ids(), notes)
    };
    let (never, missing) = (AddSpecial::Never, AddSpecial::Missing);
    let body = "{{ messages[0].content }}";
    let with = format!("<s>{body}");
    assert_eq!(ids(&with, true, never, true), (vec![2, 0], vec![]));
    assert_eq!(ids(&with, true, missing, true), (vec![2, 0], vec![]));
    assert_eq!(ids(body, true, never, true), (vec![0], vec!["no_bos"]));
    assert_eq!(ids(body, true, missing, true), (vec![2, 0], vec![]));
    assert_eq!(ids(body, false, missing, true), (vec![0], vec![]));
    // An empty prompt gets the opening token too.
    assert_eq!(ids("", true, missing, true), (vec![2], vec![]));
    // White space before the opening token does not hide it.
    assert_eq!(ids(&format!("{{{{ '\\n' }}}}{with}"), true, missing, true), (vec![1, 2, 0], vec![]));
    assert_eq!(ids(&format!("<s>{with}"), true, missing, true), (vec![2, 2, 0], vec!["two_bos"]));
    // The closing token, if no generation prompt follows.
    assert_eq!(ids(body, true, missing, false), (vec![2, 0, 3], vec![]));
    assert_eq!(ids(&format!("{body}</s>{{{{ '\\n' }}}}"), true, missing, false), (vec![2, 0, 3, 1], vec![]));
    // A message that spells the token does not open the prompt.
    let tokenizer = Arc::new(HuggingFace::from_bytes(json(true).as_bytes(), None).unwrap());
    let template = ChatTemplate::compile(body, vec![("bos_token".to_owned(), "<s>".to_owned())]).unwrap();
    let said = Writer::template(template.clone(), TemplateOptions::default())
        .render(&Conversation::new(vec![Message::user("<s>a")]));
    assert_eq!(said.unwrap().without_bos("<s>").text(), "<s>a");
    drop(tokenizer);
}

fn generated(format: &Format, seed: u64) -> Prompt {
    let mut rng = Rng::with_seed(seed);
    let generated = generate::conversation(format, seed, RuleMode::Enforce, &mut |_| {
        rng.choice(TEXTS).unwrap().to_owned() + rng.choice(TEXTS).unwrap()
    });
    let conversation = Conversation::from_json(generated.request).unwrap();
    Writer::format(format.clone(), generated.options.clone()).render(&conversation).unwrap()
}
