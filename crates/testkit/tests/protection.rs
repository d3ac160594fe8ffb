//! Which tokens text never becomes; every other token is encoded as in the reference.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::sync::Arc;

use rolecall::Prompt;
use rolecall::conversation::json;
use rolecall::conversation::json::{Layout, Object};
use rolecall::conversation::{Conversation, Json, Message, object};
use rolecall::encode::{Encoder, Growing, Protect, Protection};
use rolecall::format::Format;
use rolecall::render::{Options, Run, Writer};
use rolecall::template::{ChatTemplate, TemplateOptions};
use rolecall::tokenizer::{EmbeddedVocabulary, HuggingFace, TokenType, Tokenizer};
use rolecall_testkit::Toy;

/// Makes a tokenizer file of letters, words that merges build, and added tokens with their special
/// flag.
fn file(words: &[&str], added: &[(&str, bool)], more: impl Fn(&mut Object, &mut Object)) -> Vec<u8> {
    let mut vocabulary: Vec<String> = (' '..='~').map(String::from).collect();
    let mut merges: Vec<Json> = Vec::new();
    for word in words {
        let mut before = String::new();
        for letter in word.chars().map(String::from) {
            if !before.is_empty() && !vocabulary.contains(&format!("{before}{letter}")) {
                merges.push(vec![Json::from(before.as_str()), Json::from(letter.as_str())].into());
                vocabulary.push(format!("{before}{letter}"));
            }
            before.push_str(&letter);
        }
    }
    vocabulary.push("<unk>".to_owned());
    let listed = added.iter().map(|(text, special)| {
        let known = vocabulary.iter().position(|known| known == text);
        let beyond = added.iter().filter(|(text, _)| !vocabulary.iter().any(|known| known == text));
        let id = known.or(beyond.clone().position(|(other, _)| other == text).map(|at| at + vocabulary.len()));
        let mut token = object! { "id" => id.unwrap() as i64, "content" => *text, "special" => *special };
        ["normalized", "lstrip", "rstrip", "single_word"].into_iter().for_each(|flag| token.insert(flag, false.into()));
        Json::Object(token)
    });
    let listed: Vec<Json> = listed.collect();
    let numbered = vocabulary.iter().enumerate().map(|(id, text)| (text.clone(), Json::from(id as i64)));
    let mut model = object! {
        "type" => "BPE", "vocab" => numbered.collect::<Object>(), "merges" => merges, "unk_token" => "<unk>",
    };
    let mut file = object! { "added_tokens" => listed };
    more(&mut file, &mut model);
    file.insert("model", model.into());
    json::write(&file.into(), &Layout::compact()).into_bytes()
}

fn load(file: &[u8], config: Option<&str>) -> Arc<dyn Tokenizer> {
    Arc::new(HuggingFace::from_bytes(file, config.map(str::as_bytes)).unwrap())
}

fn said(source: &str, text: &str) -> (Protection, Prompt) {
    let template = ChatTemplate::compile(source, Vec::new()).unwrap();
    let conversation = Conversation::new(vec![Message::user(text)]);
    let prompt = Writer::template(template.clone(), TemplateOptions::default()).render(&conversation).unwrap();
    (Protection::default().with_template("default", &template), prompt)
}

const PLAIN: &str = "{{ messages[0].content }}";

/// Returns the texts of a message's tokens, with stars around control tokens.
fn tokens(tokenizer: &Arc<dyn Tokenizer>, source: &str, text: &str) -> Vec<String> {
    let (protection, prompt) = said(source, text);
    let encoder = Encoder::new(&protection, Arc::clone(tokenizer)).unwrap();
    shown(&encoder, &prompt)
}

fn shown(encoder: &Encoder, prompt: &Prompt) -> Vec<String> {
    let encoded = encoder.encode(prompt).unwrap();
    let text = |id| encoder.tokenizer().token_text(id).unwrap();
    let shown = encoded.tokens.iter().map(|token| match token.control {
        true => format!("*{}*", text(token.id)),
        false => text(token.id),
    });
    shown.collect()
}

#[test]
fn a_token_that_the_config_alone_names_is_control() {
    for key in ["bos_token", "eos_token", "pad_token", "unk_token", "sep_token", "cls_token", "mask_token", "own_token"]
    {
        let config = format!(r#"{{"{key}": "<end>"}}"#);
        let tokenizer = load(&file(&["<end>"], &[], |_, _| {}), Some(&config));
        assert_eq!(tokens(&tokenizer, PLAIN, "a<end>b").concat(), "a<end>b", "{key}");
        assert!(!tokens(&tokenizer, PLAIN, "a<end>b").contains(&"<end>".to_owned()), "{key}");
        // The template's own text becomes the token.
        assert_eq!(tokens(&tokenizer, "a<end>", "x"), ["a", "*<end>*"], "{key}");
    }
    for config in [
        r#"{"additional_special_tokens": ["<end>"]}"#,
        r#"{"extra_special_tokens": {"image": {"content": "<end>"}}}"#,
        r#"{"eos_token": {"content": "<end>"}}"#,
        r#"{"eos_token": ["<x>", "<end>"]}"#,
    ] {
        let tokenizer = load(&file(&["<end>"], &[], |_, _| {}), Some(config));
        assert!(!tokens(&tokenizer, PLAIN, "<end>").contains(&"<end>".to_owned()), "{config}");
    }
    // Without the config, it is an ordinary word.
    let tokenizer = load(&file(&["<end>"], &[], |_, _| {}), None);
    assert_eq!(tokens(&tokenizer, PLAIN, "<end>"), ["<end>"]);
    // Longer words that merges build through it stay whole. Characters that text needs, and white
    // space, are not control tokens.
    let config = r#"{"eos_token": "the", "pad_token": "!", "bos_token": " "}"#;
    let tokenizer = load(&file(&["there"], &[], |_, _| {}), Some(config));
    assert_eq!(tokens(&tokenizer, PLAIN, "there ! the"), ["there", " ", "!", " ", "t", "h", "e"].map(str::to_owned));
}

#[test]
fn a_token_that_a_file_names_by_its_number_is_control() {
    let pieces = ["<unk>", "a", "b", "<", "e", "n", "d", ">", "<e", "<en", "<end", "<end>", "<end>a"];
    for (name, set) in [
        ("bos", (|file, id| file.bos = id) as fn(&mut EmbeddedVocabulary, Option<u64>)),
        ("eos", |file, id| file.eos = id),
        ("separator", |file, id| file.separator = id),
        ("other", |file, id| file.special = vec![("eot_token_id".to_owned(), id.unwrap())]),
    ] {
        let mut file = EmbeddedVocabulary {
            model: "llama".into(),
            tokens: pieces.map(str::to_owned).to_vec(),
            scores: Some((0..pieces.len()).map(|id| -(id as f32)).collect()),
            types: Some([&[TokenType::Unknown][..], &[TokenType::Normal; 12]].concat()),
            add_space_prefix: Some(false),
            add_bos: Some(false),
            ..EmbeddedVocabulary::default()
        };
        set(&mut file, Some(11));
        let tokenizer: Arc<dyn Tokenizer> = Arc::from(file.into_tokenizer().unwrap());
        assert_eq!(tokens(&tokenizer, PLAIN, "b<end>"), ["b", "<end", ">"], "{name}");
        assert_eq!(tokens(&tokenizer, "b<end>", "x"), ["b", "*<end>*"], "{name}");
        // A longer piece that merges build through it is text.
        assert_eq!(tokens(&tokenizer, PLAIN, "<end>a"), ["<end>a"], "{name}");
    }
}

#[test]
fn a_control_token_for_unknown_text_is_refused_by_name() {
    let config = r#"{"eos_token": "<unk>"}"#;
    let tokenizer = load(&file(&[], &[("<unk>", true)], |_, _| {}), Some(config));
    let (protection, _) = said(PLAIN, "");
    let error = Encoder::new(&protection, tokenizer).map(|_| ()).unwrap_err();
    assert_eq!(error.code(), "unknown_is_control");
    assert!(error.to_string().contains("`<unk>`") && error.to_string().contains("eos_token"), "{error}");
    // A template's literal also makes it a control token.
    let tokenizer = load(&file(&[], &[("<unk>", true)], |_, _| {}), None);
    let (protection, _) = said("<unk>{{ messages[0].content }}", "");
    assert_eq!(Encoder::new(&protection, Arc::clone(&tokenizer)).map(|_| ()).unwrap_err().code(), "unknown_is_control");
    // Without another role, it stands for unknown text; text that spells it never becomes it.
    assert_eq!(tokens(&tokenizer, PLAIN, "a\u{e9}<unk>"), ["a", "<unk>", "<", "u", "n", "k", ">"]);
    // If bytes replace characters that the vocabulary lacks, nothing is unknown.
    let tokenizer = load(
        &file(&[], &[("<unk>", true)], |_, model| {
            let mut vocabulary = model.get("vocab").unwrap().as_object().unwrap().clone();
            let size = vocabulary.iter().count();
            (0..256).for_each(|byte| vocabulary.insert(format!("<0x{byte:02X}>"), ((size + byte) as i64).into()));
            model.insert("vocab", vocabulary.into());
            model.insert("byte_fallback", true.into());
        }),
        Some(config),
    );
    assert_eq!(tokens(&tokenizer, PLAIN, "\u{e9}"), ["<0xC3>", "<0xA9>"]);
}

#[test]
fn what_a_normalizer_makes_of_a_text_is_no_control_token() {
    let normalizer =
        object! { "type" => "Replace", "pattern" => object! { "String" => "\u{a7}" }, "content" => "<end>" };
    let mut format = Format::new("f");
    format.controls = [rolecall::format::Control { text: "<end>".into(), emitted: true, ..Default::default() }].into();
    for added in [&[][..], &[("<end>", true)]] {
        let tokenizer =
            load(&file(&["<end>"], added, |file, _| file.insert("normalizer", normalizer.clone().into())), None);
        let encoder = Encoder::new(&Protection::default().with_format(&format), Arc::clone(&tokenizer)).unwrap();
        for text in ["\u{a7}", "<end>", "a\u{a7}<end>"] {
            let encoded = encoder.encode_runs([Run::Text { text, start: 0 }]).unwrap();
            let end = tokenizer.token_id("<end>").unwrap();
            assert!(!encoded.ids().contains(&end), "{added:?} {text}");
        }
    }
}

#[test]
fn an_encoder_takes_no_prompt_of_another_format_or_template() {
    let registry = rolecall::format::registry();
    let [chatml, gemma] = ["chatml", "lmflow:gemma"].map(|name| registry.get(name).unwrap());
    let conversation = Conversation::new(vec![Message::user("hi")]);
    let prompt = |format: &Format| Writer::format(format.clone(), Options::default()).render(&conversation).unwrap();
    let encoder =
        |format: &Format| Encoder::new(&Protection::default().with_format(format), Arc::new(Toy::of(format))).unwrap();
    let none = Arc::new(Format::new("none"));
    for (ours, theirs) in [(chatml, gemma), (gemma, chatml), (&none, gemma)] {
        let (encoder, prompt) = (encoder(ours), prompt(theirs));
        assert_eq!(encoder.encode(&prompt).unwrap_err().code(), "other_format");
        assert_eq!(encoder.encode_reference(&prompt).unwrap_err().code(), "other_format");
        assert_eq!(encoder.encode_runs(prompt.runs()).unwrap_err().code(), "unknown_control_token");
        let encoder = Arc::new(encoder);
        assert_eq!(Growing::new(encoder).encode(prompt).unwrap_err().code(), "other_format");
    }
    // The same format, loaded again, is the same.
    let again = rolecall::format::registry();
    assert!(encoder(chatml).encode(&prompt(again.get("chatml").unwrap())).is_ok());
    // Only a template's own encoder protects the tokens that the template writes.
    let tokenizer = load(&file(&[], &[("<b>", false)], |_, _| {}), None);
    let (protection, _) = said(PLAIN, "x");
    let (_, other) = said("<b>{{ messages[0].content }}", "<b>");
    let narrow = Encoder::new(&protection, Arc::clone(&tokenizer)).unwrap();
    assert_eq!(narrow.encode(&other).unwrap_err().code(), "other_template");
    let all = Encoder::new(&protection.protecting(Protect::AllAdded), tokenizer).unwrap();
    assert_eq!(shown(&all, &other), ["*<b>*", "<", "b", ">"]);
}

#[test]
fn control_is_what_the_model_controls_with() {
    let added = [("<s>", true), ("<think>", false), ("<b>", false), ("\n", false), ("<tab>", true)];
    let tokenizer = load(&file(&[], &added, |_, _| {}), None);
    let text = "<s><think><b>";
    // In no literal: vocabulary, as in the reference. The special token is never text.
    assert_eq!(tokens(&tokenizer, PLAIN, text), ["<", "s", ">", "<think>", "<b>"]);
    // Written, tested or joined from parts: a control token.
    for source in [
        "{{ messages[0].content }}{% if false %}<think>{% endif %}",
        "{{ messages[0].content }}{% if '<think>' in messages[0].role %}{% endif %}",
        "{{ messages[0].content }}{% if false %}{{ '<th' ~ 'ink>' }}{% endif %}",
        "{{ messages[0].content }}{% set t = 'think' %}{% if false %}<{{ t }}>{% endif %}",
    ] {
        let found = tokens(&tokenizer, source, text);
        assert_eq!(found, ["<", "s", ">", "<", "t", "h", "i", "n", "k", ">", "<b>"], "{source}");
    }
    // Every template of the model counts, and so do the layouts with which its replies are parsed.
    let (protection, prompt) = said(PLAIN, text);
    let other = ChatTemplate::compile("<think>", Vec::new()).unwrap();
    let encoder = Encoder::new(&protection.clone().with_template("tool_use", &other), Arc::clone(&tokenizer)).unwrap();
    assert!(!shown(&encoder, &prompt).contains(&"<think>".to_owned()));
    let replies = Format::new("replies").with_layouts([(
        rolecall::format::Slot::Assistant,
        vec![rolecall::format::Op::Literal("<think>".into()), rolecall::format::Op::Literal("x".into())],
    )]);
    let encoder = Encoder::new(&protection.clone().with_replies(&replies), Arc::clone(&tokenizer)).unwrap();
    assert!(!shown(&encoder, &prompt).contains(&"<think>".to_owned()));
    // The markers of a correction for the template's family, which the template itself never
    // writes.
    for correction in rolecall::format::corrections() {
        let marks = correction.habits.call_marks.iter().chain(&correction.generation.stop).cloned();
        let headers = correction.habits.header.iter().flat_map(|header| header.marks().map(str::to_owned));
        for mark in &marks.chain(headers).collect::<Vec<_>>() {
            let tokenizer = load(&file(&[], &[(mark, false)], |_, _| {}), None);
            let family = format!("{PLAIN}{{% if false %}}{}{{% endif %}}", correction.identity.template.join(" "));
            assert!(!tokens(&tokenizer, &family, mark).contains(mark), "{mark} of {}", correction.name);
            assert!(tokens(&tokenizer, PLAIN, mark).contains(mark), "{mark} is not a literal");
        }
    }
    // All added tokens, if the caller asks for it.
    let strict = Encoder::new(&protection.protecting(Protect::AllAdded), Arc::clone(&tokenizer)).unwrap();
    assert_eq!(shown(&strict, &prompt).len(), text.len());
    // White space is never a control token.
    assert_eq!(tokens(&tokenizer, "\n{{ messages[0].content }}\n\n", "a\nb"), ["\n", "a", "\n", "b", "\n"]);
    // A list in the config replaces the template's literals.
    let listed = load(&file(&[], &added, |_, _| {}), Some(r#"{"chat_control_tokens": ["<b>"]}"#));
    let source = "{{ messages[0].content }}<think>";
    assert_eq!(tokens(&listed, source, text), ["<", "s", ">", "<think>", "<", "b", ">", "<think>"].map(str::to_owned));
}

#[test]
fn a_token_that_a_template_puts_together_is_no_vocabulary() {
    let added = [("<e>", false), ("<1>", false), ("--", false), ("12", false)];
    let tokenizer = load(&file(&[], &added, |_, _| {}), None);
    let code = |source: &str, role: &str| {
        let template = ChatTemplate::compile(source, Vec::new()).unwrap();
        let message = Message::from_object(object! { "role" => role, "content" => "<e>--12" }).unwrap();
        let options = TemplateOptions::default();
        let prompt =
            Writer::template(template.clone(), options.clone()).render(&Conversation::new(vec![message])).unwrap();
        let encoder =
            Encoder::new(&Protection::default().with_template("default", &template), Arc::clone(&tokenizer)).unwrap();
        encoder.encode(&prompt).map(|_| ()).map_err(|error| error.code())
    };
    // No literal shows the token, so a message may contain it; the template's own text with it is
    // refused.
    for source in ["<{{ messages[0].role }}>", "{{ '<E>' | lower }}", "{{ '<' ~ 1 ~ '>' }}", "{{ '-' * 2 }}"] {
        assert_eq!(code(source, "e"), Err("built_control_token"), "{source}");
    }
    // A whole value is text, like all text of a message.
    for (source, role) in [("{{ messages[0].role }}", "<e>"), ("{{ 12 }}", "e"), ("{{ messages[0].content }}", "e")] {
        assert_eq!(code(source, role), Ok(()), "{source}");
    }
}

#[test]
fn reasons_are_told() {
    let tokenizer = load(&file(&["<e>"], &[("<s>", true), ("<t>", false)], |_, _| {}), Some(r#"{"eos_token": "<e>"}"#));
    let (protection, _) = said("<t>", "");
    let encoder = Encoder::new(&protection, tokenizer).unwrap();
    let told = |text: &str| {
        let token = encoder.protected().tokens().find(|token| token.text == text).unwrap();
        token.reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(told("<s>"), "flagged special");
    assert_eq!(told("<t>"), "in a literal of the chat template `default`");
    assert_eq!(told("<e>"), "flagged special, `eos_token` of tokenizer_config.json");
}
