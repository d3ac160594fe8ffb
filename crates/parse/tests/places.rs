//! The place of a text is where it is in the output.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::sync::Arc;

use rolecall_format::{builtin, load, shared_calls};
use rolecall_parse::{Event, OutputParser, ParseOptions, Reply, Stop, TextAfterCalls};

/// Beginnings of calls, markers and text that is repeated, of which outputs are put together.
const PARTS: &[&str] = &[
    "<think>",
    "</think>",
    "<think>\n",
    "\n</think>\n\n",
    "`</think>`",
    "<|im_end|>",
    "<|im_start|>assistant\n",
    "<tool_call>",
    "</tool_call>",
    "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>",
    "<tool_call>\n{\"name\": ",
    "{\"name\": \"f\", \"arguments\": {",
    "<function=f>\n<parameter=x>\n1\n</parameter>\n</function>",
    "<function=f>",
    "<parameter=x>\n[1, \"a",
    "[f(a=1, key=Bad()]",
    "<|tool_call_start|>[f(a=1",
    "<|tool_call>call:f{a:1.5x7}",
    "<|channel|>final<|message|>",
    "<|channel|>commentary to=functions.f<|message|>{}<|call|>",
    "<|start|>assistant",
    "```python\n1\n```",
    "[TOOL_CALLS]",
    "\n",
    "\n\n",
    " ",
    "<",
    "<t",
    "a",
    "b\n",
    "h\u{e9}\u{1f44d}",
];

/// Checks each place, and returns the number of texts.
fn check(reply: &Arc<Reply>, options: &ParseOptions, output: &[u8], size: usize, stop: Stop) -> usize {
    let text = String::from_utf8_lossy(output);
    let mut parser = OutputParser::new(reply, options.clone()).with_places();
    let (mut place, mut end, mut texts) = (None, 0, 0);
    let mut take = |event: Event<'_>| match event {
        Event::Place(next) => {
            assert!(place.is_none() && next.start >= end, "{next:?} after {end} in {text:?}");
            end = next.end;
            place = Some(next.start as usize..next.end as usize);
        }
        Event::Content(said) | Event::Reasoning(said) => {
            let place = place.take().unwrap();
            assert_eq!(text.get(place.clone()), Some(said), "{place:?} of {text:?}");
            texts += 1;
        }
        _ => assert!(place.is_none()),
    };
    for piece in output.chunks(size) {
        parser.push_bytes(piece, false, &mut take);
    }
    parser.finish(stop, &mut take);
    texts
}

#[test]
fn a_text_is_at_its_place() {
    let registry = builtin();
    let mut replies: Vec<Arc<Reply>> = registry.iter().map(|format| Arc::new(Reply::new(format))).collect();
    replies.extend(shared_calls().map(|(_, source)| Arc::new(Reply::new(&load(source).unwrap()))));
    let (mut state, mut texts) = (1_u64, 0);
    let mut next = |most: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % most
    };
    for reply in &replies {
        for _ in 0..150 {
            let mut output = Vec::new();
            for _ in 0..=next(7) {
                output.extend_from_slice(PARTS[next(PARTS.len())].as_bytes());
                if next(12) == 0 {
                    output.extend_from_slice([b"\xff" as &[u8], b"\xe2", b"\xf0\x9f"][next(3)]);
                }
            }
            let stop = [Stop::End, Stop::Length][next(2)];
            let text_after_calls = [TextAfterCalls::Report, ParseOptions::default().text_after_calls][next(2)];
            let options = ParseOptions { text_after_calls, ..ParseOptions::default() };
            for size in [1, 2, 3, usize::MAX] {
                texts += check(reply, &options, &output, size, stop);
            }
        }
    }
    assert!(texts > 10_000, "{texts}");
}
