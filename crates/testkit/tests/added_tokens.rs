//! Added tokens are found in a template's own text as in the reference, whatever their flags and
//! the normalizer.
#![expect(clippy::panic, reason = "a test fails by a panic, in its helpers too")]

use std::sync::Arc;

use rolecall::conversation::{Conversation, Message};
use rolecall::encode::{Encoder, Protection};
use rolecall::render::Writer;
use rolecall::template::{ChatTemplate, TemplateOptions};
use rolecall::tokenizer::{HuggingFace, Tokenizer};

/// Normalizers that change a text and the tokens in it.
const NORMALIZERS: [&str; 5] = [
    "null",
    r#"{"type": "Lowercase"}"#,
    r#"{"type": "NFKC"}"#,
    r#"{"type": "Replace", "pattern": {"String": "_"}, "content": " "}"#,
    r#"{"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "_"}, {"type": "Replace", "pattern": {"String": " "}, "content": "_"}]}"#,
];

/// The ways in which templates write the token: bare, between words, next to white space and
/// others, and in a normalized spelling.
const TEMPLATES: [&str; 8] = [
    "<a>{{ m.content }}<b>",
    "x<a> {{ m.content }} <b>y",
    "<a> \n<b>{{ m.content }}<a><a>",
    "<A>{{ m.content }}<B>",
    "\u{ff1c}a\u{ff1e}{{ m.content }}<b>",
    "_<a>_{{ m.content }}_<b>_",
    "<a>c{{ m.content }}<b>c",
    "<a{{ m.content }}b>",
];

const CONTENTS: [&str; 5] = ["hi", " hi ", "\n", "", "a_b"];

#[test]
fn flags_and_normalizers_do_as_in_the_reference() {
    let (mut compared, mut differ) = (0, Vec::new());
    for normalizer in NORMALIZERS {
        for flags in 0..64_u32 {
            // Neighbours are judged by the text before normalization: see COMPATIBILITY.md.
            let looks_beside = [flags & 0b1 != 0 && flags & 0b1110 != 0, flags & 0b10000 != 0 && flags & 0b101000 != 0];
            if normalizer.contains("Replace") && looks_beside.contains(&true) {
                continue;
            }
            // So is a space that the normalizer puts before a text.
            if normalizer.contains("Prepend") && flags & 0b10001 != 0 {
                continue;
            }
            let tokenizer = tokenizer(normalizer, flags);
            for source in TEMPLATES {
                let source = format!("{{% for m in messages %}}{source}{{% endfor %}}");
                let template = ChatTemplate::compile(&source, Vec::new()).expect("it is Jinja");
                let protection = Protection::default().with_template("t", &template);
                let tokenizer = Arc::clone(&tokenizer) as Arc<dyn Tokenizer>;
                let encoder = Encoder::new(&protection, tokenizer).unwrap_or_else(|error| panic!("{error}"));
                for content in CONTENTS {
                    let conversation = Conversation::new(vec![Message::user(content), Message::user("z")]);
                    let prompt = Writer::template(template.clone(), TemplateOptions::default()).render(&conversation);
                    let prompt = prompt.unwrap_or_else(|error| panic!("{error}"));
                    let safe = encoder.encode(&prompt).unwrap_or_else(|error| panic!("{error}"));
                    let reference = encoder.encode_reference(&prompt).unwrap_or_else(|error| panic!("{error}"));
                    let place = format!("{normalizer} {flags:06b} {source} {content:?}");
                    if safe.ids() != reference.ids() {
                        differ.push(format!("{place}: {:?}, reference {:?}", safe.ids(), reference.ids()));
                    }
                    compared += 1;
                }
            }
        }
    }
    assert_eq!(compared, 8 * 5 * (3 * 64 + 23 + 16));
    assert!(differ.is_empty(), "{} differ:\n{}", differ.len(), differ[..differ.len().min(40)].join("\n"));
}

/// Makes a tokenizer in which every letter is a token, with two added tokens whose flags are these
/// bits.
fn tokenizer(normalizer: &str, flags: u32) -> Arc<HuggingFace> {
    let bit = |at: u32| flags & 1 << at != 0;
    let added = |id: u32, text: &str, [normalized, lstrip, rstrip, single_word]: [bool; 4]| {
        format!(
            r#"{{"id": {id}, "content": "{text}", "special": {}, "normalized": {normalized}, "lstrip": {lstrip}, "rstrip": {rstrip}, "single_word": {single_word}}}"#,
            id == 20
        )
    };
    let letters = "<>abcghixyzABn_ \n\u{ff1c}\u{ff1e}\u{2581}";
    let vocab: Vec<String> = letters
        .chars()
        .enumerate()
        .map(|(id, letter)| {
            format!(
                "{}: {id}",
                rolecall::conversation::json::write(
                    &letter.to_string().as_str().into(),
                    &rolecall::conversation::json::Layout::default()
                )
            )
        })
        .collect();
    let json = format!(
        r#"{{"added_tokens": [{}, {}], "normalizer": {normalizer}, "pre_tokenizer": null,
            "model": {{"type": "BPE", "vocab": {{{}}}, "merges": []}}}}"#,
        added(20, "<a>", [bit(0), bit(1), bit(2), bit(3)]),
        added(21, "<b>", [bit(4), bit(5), false, bit(3)]),
        vocab.join(", ")
    );
    Arc::new(HuggingFace::from_bytes(json.as_bytes(), None).unwrap_or_else(|error| panic!("{error}\n{json}")))
}
