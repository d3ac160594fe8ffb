//! Ids that a model writes are parsed with tokenizers that spell its control tokens in any way, at
//! any cap.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by a panic, in its helpers too")]

use std::sync::Arc;

use rolecall::conversation::{Conversation, Message};
use rolecall::encode::Decoder;
use rolecall::format::Format;
use rolecall::parse::{CallsInReasoning, IdParser, OutputParser, ParseOptions, Reply, Why};
use rolecall::render::{Options, Writer};
use rolecall::tokenizer::Tokenizer;
use rolecall::tokenizer::{TextPlace, load_file};
use rolecall::{Reading, Stop};
use rolecall_testkit::Toy;

/// Parses ids after a prompt of a format, with control tokens in this format's spelling.
fn read(format: &Format, tokenizer: &Arc<dyn Tokenizer>, ids: &[u32], options: ParseOptions) -> Reading {
    let decoder = Arc::new(Decoder::new(Arc::clone(tokenizer)));
    let prompt = Writer::format(format.clone(), Options::default())
        .render(&Conversation::new(vec![Message::user("Hi")]))
        .unwrap();
    let options = ParseOptions { prompt_tail: prompt.text().to_owned(), ..options };
    let reply = Arc::new(Reply::with_tokens(format, &decoder.markers()));
    let mut parser = IdParser::new(OutputParser::new(&reply, options), decoder);
    let mut reading = Reading::default();
    for id in ids {
        parser.push(*id, &mut |event| reading.add(&event)).unwrap();
    }
    parser.finish(Stop::End, &mut |event| reading.add(&event));
    reading
}

/// Returns the ids of a call, with the control tokens in a format's own spelling.
fn ids_of_a_call(format: &Format, usual: &Format, tokenizer: &dyn Tokenizer) -> Vec<u32> {
    let output = "Hi.<|action_start|><|plugin|>\n{\"name\": \"f\", \"parameters\": {\"x\": 1}}<|action_end|><|im_end|>";
    let spelled = usual
        .controls
        .iter()
        .zip(format.controls.iter())
        .fold(output.to_owned(), |text, (from, to)| text.replace(&from.text, &to.text));
    let mut tokens = Vec::new();
    tokenizer.encode_reference(&spelled, TextPlace::Inside, &mut tokens).unwrap();
    tokens.iter().map(|token| token.id).collect()
}

#[test]
fn a_control_tokens_id_is_read_whatever_its_spelling() {
    let registry = rolecall::format::registry();
    let mut count = 0;
    // The calls of the output are between control tokens.
    let has_marks = |format: &Format| format.controls.iter().any(|control| control.text == "<|action_start|>");
    for usual in registry.iter().filter(|format| !format.spellings().is_empty() && has_marks(format)) {
        let others = usual.spellings().into_iter().map(|name| usual.spelled(name));
        let spellings: Vec<Format> = std::iter::once(Format::clone(usual)).chain(others).collect();
        let toys = spellings.iter().map(|known| (Arc::new(Toy::of(known)) as Arc<dyn Tokenizer>, known));
        let mut tokenizers: Vec<_> = toys.collect();
        match rolecall_testkit::shared().map(|shared| shared.join("tokenizers").join(&usual.name)) {
            Some(folder) if folder.is_dir() => tokenizers.push((Arc::from(load_file(&folder).unwrap().1), usual)),
            Some(_) => {}
            None => rolecall_testkit::say_skipped("no ids of a real tokenizer are parsed in another spelling"),
        }
        for (tokenizer, known) in &tokenizers {
            let ids = ids_of_a_call(known, usual, &**tokenizer);
            for asked in &spellings {
                let reading = read(asked, tokenizer, &ids, ParseOptions::default());
                assert_eq!((reading.content.as_str(), reading.calls.len()), ("Hi.", 1), "{reading:?}");
                assert_eq!(reading.malformed, []);
                count += 1;
            }
        }
    }
    assert!(count >= 4, "formats with several spellings");
}

#[test]
fn no_cap_makes_ids_panic_or_get_lost() {
    let registry = rolecall::format::registry();
    for format in registry.iter() {
        let tokenizer: Arc<dyn Tokenizer> = Arc::new(Toy::of(format));
        let output: String =
            format.controls.iter().map(|control| format!("{} <think>\n{{\"name\": ", control.text)).collect();
        let mut tokens = Vec::new();
        tokenizer.encode_reference(&output, TextPlace::Inside, &mut tokens).unwrap();
        let ids: Vec<u32> = tokens.iter().map(|token| token.id).collect();
        for cap in (0..=64).chain([output.len().saturating_sub(1), output.len(), output.len() + 1]) {
            let calls_in_reasoning = Some(CallsInReasoning::Unclosed);
            let options = ParseOptions { cap: Some(cap), calls_in_reasoning, ..ParseOptions::default() };
            let reading = read(format, &tokenizer, &ids, options);
            let said = reading.content.len() + reading.reasoning.map_or(0, |text| text.len());
            let is_late = reading.malformed.iter().any(|malformed| malformed.why == Why::AfterEnd);
            assert!(said > 0 || is_late || !reading.calls.is_empty() || output.trim().is_empty(), "{}", format.name);
        }
    }
}
