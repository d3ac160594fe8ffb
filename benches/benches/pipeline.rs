//! Compares the whole pipeline, JSON to ids, with that of a Rust server without rolecall
//! (minijinja, then the `tokenizers` crate), and measures an earlier conversation with one more
//! message.
//!
//!     cargo bench -p rolecall-benches --bench pipeline [-- FOLDER]
//!
//! FOLDER contains a tokenizer.json that has `<|im_start|>` and `<|im_end|>`; the default is
//! ../shared/tokenizers/qwen3 next to the project.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use rolecall::Prompt;
use rolecall::conversation::{Conversation, Json, json};
use rolecall::encode::{Encoder, Growing, Protection};
use rolecall::render::Writer;
use rolecall::template::{ChatTemplate, TemplateOptions};
use rolecall::tokenizer;
use rolecall::tokenizer::CachedTokenizer;
use rolecall_benches::{Runner, in_turns, race};

/// ChatML, written for this benchmark.
const TEMPLATE: &str = include_str!("templates/plain.jinja");

fn main() {
    let folder = std::env::args().skip(1).find(|arg| !arg.starts_with("--")).map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/tokenizers/qwen3")),
        PathBuf::from,
    );
    let Ok(file) = std::fs::read(folder.join("tokenizer.json")) else {
        println!("no tokenizer.json in {}: nothing to measure", folder.display());
        return;
    };
    let mut peer = tokenizers::Tokenizer::from_bytes(&file).expect("the peer loads it");
    peer.with_post_processor(None::<tokenizers::PostProcessorWrapper>);
    println!(
        "{:<9} {:>7} {:>6}  {:>9} {:>9} {:>9} {:>8}   {:>9} {:>9} {:>8} {:>8}",
        "messages",
        "bytes",
        "ids",
        "peer",
        "rolecall",
        "× faster",
        "encode",
        "cached",
        "growing",
        "% cached",
        "% grown"
    );
    for messages in [3, 200] {
        measure(&folder, &peer, messages);
    }
    println!(
        "\ntimes in µs, medians; peer: minijinja and `tokenizers` from a parsed JSON value to ids; rolecall: the same, each id"
    );
    println!(
        "with its span; encode: only the encoding. cached: ids of a prompt of which all but the last message were encoded"
    );
    println!(
        "before, with a cache in the tokenizer; growing: the same with a conversation that keeps its ids; %: of encode"
    );
}

fn measure(folder: &std::path::Path, peer: &tokenizers::Tokenizer, messages: usize) {
    let text = conversation(messages, 0);
    let value: serde_json::Value = serde_json::from_str(&text).expect("valid JSON");
    let mut environment = minijinja::Environment::new();
    environment
        .set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().expect("a valid syntax"));
    environment.add_template("t", TEMPLATE).expect("a valid template");
    let compiled = environment.get_template("t").expect("it was added");
    let by_peer = || {
        let prompt = compiled.render(minijinja::Value::from(Serde(&value))).expect("it renders");
        peer.encode(prompt, false).expect("it encodes").get_ids().to_vec()
    };

    let template = ChatTemplate::compile(TEMPLATE, Vec::new()).expect("a valid template");
    let tokenizer: Arc<dyn tokenizer::Tokenizer> = Arc::from(tokenizer::load(folder).expect("it loads"));
    let protection = Protection::default().with_template("default", &template);
    let encoder = Arc::new(Encoder::new(&protection, Arc::clone(&tokenizer)).expect("it fits"));
    let writer = Writer::template(template, TemplateOptions::default());
    let render = |text: &str| -> Prompt {
        let conversation = Conversation::from_json(json::parse(text).expect("valid JSON")).expect("a conversation");
        writer.render(&conversation).expect("it renders")
    };
    let parsed: Json = json::parse(&text).expect("valid JSON");
    let by_us = |value: Json| {
        let conversation = Conversation::from_json(value).expect("a conversation");
        let prompt = writer.render(&conversation).expect("it renders");
        encoder.encode(&prompt).expect("it encodes")
    };
    let prompt = render(&text);
    let ids = encoder.encode(&prompt).expect("it encodes").ids();
    assert_eq!(by_peer(), ids, "the ids differ");

    let before = render(&conversation(messages - 1, 0));
    let turn = Cell::new(0);
    let next = || {
        turn.set(turn.get() + 1);
        render(&conversation(messages, turn.get()))
    };
    let cached = Encoder::new(&protection, Arc::new(CachedTokenizer::new(tokenizer, 64 << 20))).expect("it fits");
    cached.encode(&before).expect("it encodes");
    let grown = || {
        let mut growing = Growing::new(Arc::clone(&encoder));
        growing.encode(before.clone()).expect("it encodes");
        (growing, next())
    };
    let times = race(vec![
        Runner::new("peer", by_peer),
        Runner::with_input("rolecall", || parsed.clone(), by_us),
        Runner::new("encode", || encoder.encode(&prompt).expect("it encodes")),
        Runner::with_input("cached", next, |prompt| cached.encode(&prompt).expect("it encodes")),
        Runner::with_input("growing", grown, |(mut growing, prompt)| {
            growing.encode(prompt).expect("it encodes");
            growing
        }),
    ]);
    let micros: Vec<f64> = times.iter().map(|(_, time)| time.as_nanos() as f64 / 1000.0).collect();
    println!(
        "{messages:<9} {:>7} {:>6}  {:>9.1} {:>9.1} {:>9.1} {:>8.1}   {:>9.1} {:>9.1} {:>8.1} {:>8.1}",
        prompt.text().len(),
        ids.len(),
        micros[0],
        micros[1],
        micros[0] / micros[1],
        micros[2],
        micros[3],
        micros[4],
        micros[3] / micros[2] * 100.0,
        micros[4] / micros[2] * 100.0,
    );
}

/// Makes messages of about fifty words each, all different, some not ASCII. The last one contains a
/// number that makes it new.
fn conversation(messages: usize, last: usize) -> String {
    let mut random = fastrand::Rng::with_seed(7);
    in_turns(messages, |turn| {
        let words: Vec<String> = (0..50).map(|_| word(&mut random)).collect();
        let number = if turn + 1 == messages { format!("{last} ") } else { String::new() };
        format!("{number}{}.", words.join(" "))
    })
}

/// Makes a word of syllables, as in many languages; some words are Chinese or have accents, a tenth
/// are numbers.
fn word(random: &mut fastrand::Rng) -> String {
    const SYLLABLES: [&str; 20] = [
        "the", "con", "ver", "sa", "tion", "of", "to", "ken", "model", "in", "re", "as", "ter", "al", "ing", "er", "y",
        "un", "play", "ed",
    ];
    match random.u32(0..40) {
        0..4 => random.u32(0..100_000).to_string(),
        4..7 => (0..random.usize(2..6)).map(|_| char::from_u32(random.u32(0x4e00..0x5e00)).unwrap_or('的')).collect(),
        7..9 => "naïve—café".to_owned(),
        _ => (0..random.usize(1..4)).map(|_| SYLLABLES[random.usize(..SYLLABLES.len())]).collect(),
    }
}
