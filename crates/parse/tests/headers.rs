//! Replies of messages with headers: whatever a header or a text contains, and whatever the cap,
//! every chunking gives the same events, and no word is lost without a report.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::sync::Arc;

use rolecall_format::load;
use rolecall_parse::{OutputParser, ParseOptions, ParsedCall, Reading, Reply, Stop};

const FAMILY: &str = r#"
part = "reply"
name = "post"
[control]
"<|post|>" = {}
"<|over|>" = { ends_turn = true }
[layout]
assistant = "<|post|>model<|lane|>reply<|text|>{content}<|over|>"
generate = "<|post|>model"
[reading]
header = { start = "<|post|>", author = "model", recipient = "@", channel = "<|lane|>", content-type = "<|kind|>", body = "<|text|>", ends = ["<|sent|>", "<|over|>"], reasoning = ["notes"], functions = "tools.", code = ["shell"] }
"#;

/// The parts of the outputs: markers, words of headers, and texts.
const PARTS: [&str; 16] = [
    "<|post|>",
    "<|lane|>",
    "<|kind|>",
    "<|text|>",
    "<|sent|>",
    "<|over|>",
    "model",
    "notes",
    "reply",
    " @tools.f",
    " @shell",
    " json",
    "{\"x\": [1, \"é\"]}",
    "{",
    " <|",
    "word ",
];

fn family() -> Arc<Reply> {
    let source = FAMILY.replace("part = \"reply\"", "part = \"reply\"\nplain-marks = [\"<|lane|>\", \"<|text|>\"]");
    Arc::new(Reply::new(&load(&source).unwrap_or_else(|error| panic!("{error}"))))
}

fn read<'t>(reply: &Arc<Reply>, options: &ParseOptions, pieces: impl Iterator<Item = &'t str>, stop: Stop) -> Reading {
    let mut reading = Reading::default();
    let mut parser = OutputParser::new(reply, options.clone());
    for piece in pieces {
        parser.push_text(piece, &mut |event| reading.add(&event));
    }
    parser.finish(stop, &mut |event| reading.add(&event));
    reading
}

#[test]
fn every_chunking_and_every_cap_reads_to_the_end_alike() {
    let reply = family();
    let mut random = 1u64;
    let mut next = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % below
    };
    for _ in 0..4_000 {
        let count = 1 + next(12);
        let output: String = (0..count).map(|_| PARTS[next(PARTS.len())]).collect();
        let prompt_tail = ["", "<|post|>model", "<|post|>model<|lane|>notes<|text|>"][next(3)].to_owned();
        let cap = [None, Some(0), Some(1), Some(9), Some(30)][next(5)];
        let stop = [Stop::End, Stop::Length][next(2)];
        let options = ParseOptions { prompt_tail, cap, ..ParseOptions::default() };
        let whole = read(&reply, &options, [output.as_str()].into_iter(), stop);
        let size = 1 + next(7);
        let ends: Vec<usize> = output.char_indices().map(|(at, _)| at).chain([output.len()]).collect();
        let pieces = ends.windows(2).map(|pair| &output[pair[0]..pair[1]]);
        assert_eq!(read(&reply, &options, pieces, stop), whole, "{output:?} {options:?}");
        let cuts: Vec<usize> = ends.iter().copied().step_by(size).chain([output.len()]).collect();
        let pieces = cuts.windows(2).map(|pair| &output[pair[0]..pair[1]]);
        assert_eq!(read(&reply, &options, pieces, stop), whole, "{output:?} in pieces of {size}, {options:?}");
        let mut kept = format!("{}{}", whole.content, whole.reasoning.clone().unwrap_or_default());
        for call in &whole.calls {
            let (ParsedCall::Function { arguments: text, .. } | ParsedCall::Code { code: text, .. }) = call;
            kept.push_str(text);
        }
        let is_kept = kept.matches("word").count() == output.matches("word").count();
        assert!(is_kept || !whole.malformed.is_empty() || cap.is_some(), "{output:?} {whole:?}");
    }
}

#[test]
fn a_long_header_is_given_up_at_the_same_byte() {
    let reply = family();
    let output = format!("<|lane|>{}<|text|>x<|over|>", "a".repeat(10_000));
    let whole = read(&reply, &ParseOptions::default(), [output.as_str()].into_iter(), Stop::End);
    let bytes = (0..output.len()).map(|at| &output[at..=at]);
    assert_eq!(read(&reply, &ParseOptions::default(), bytes, Stop::End), whole);
    assert!(whole.content.ends_with("<|text|>x"), "{:?}", whole.malformed);
    assert_eq!(whole.malformed.len(), 2);
}
