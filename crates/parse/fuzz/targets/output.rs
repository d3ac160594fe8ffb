//! Parses arbitrary bytes as model output, by any format that has calls. Nothing may panic, events
//! must be in order, and the same bytes in other chunks must give the same events.
//!
//! The first byte of the input picks the format. The second sets the chunks, and whether the output
//! comes as text or as token bytes. Two bytes set the cap, and one sets the policies. The rest is
//! the output. In token bytes, each byte 0xFF begins or ends a control token.

#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use rolecall_conversation::{Json, Tool, object};
use rolecall_format::{Slot, builtin, load, shared_calls};
use rolecall_parse::{
    CallsInReasoning, Event, JsonPolicy, OutputParser, ParseOptions, Reply, Stop, TextAfterCalls, UnknownNames,
};

/// Layouts with calls inside reasoning.
const THINKERS: [&str; 2] = [
    "part = \"reply\"\nname = \"a\"\n[layout]\nassistant = \"[[<think>\\n{reasoning}\\n</think>\\n\\n]]{content}{calls}\"\n\
     call = \"<tool_call>\\n{call:json(name, arguments)}\\n</tool_call>\"\ngenerate = \"\"\n",
    "part = \"reply\"\nname = \"b\"\n[layout]\nassistant = \"[[<think>\\n{reasoning}\\n</think>\\n\\n]]{content}{calls}\"\n\
     call = \"<tool_call>\\n<function={name}>\\n{arguments}</function>\\n</tool_call>\"\n\
     argument = \"<parameter={key}>\\n{value:json}\\n</parameter>\\n\"\n\
     argument-string = \"<parameter={key}>\\n{value}\\n</parameter>\\n\"\ngenerate = \"\"\n",
];

static REPLIES: LazyLock<Vec<Arc<Reply>>> = LazyLock::new(|| {
    let registry = builtin();
    let built_in = registry.iter().filter(|format| format.layout(Slot::Call).is_some()).map(|format| Reply::new(format));
    let shared = shared_calls().map(|(_, source)| Reply::new(&load(source).expect("a shared layout loads")));
    let thinkers = THINKERS.iter().map(|source| Reply::new(&load(source).expect("a test layout loads")));
    built_in.chain(shared).chain(thinkers).map(Arc::new).collect()
});

static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    let tool = object! { "name" => "f", "parameters" => object! { "type" => "object" } };
    Tool::from_json(Json::Object(tool)).into_iter().collect()
});

fuzz_target!(|input: &[u8]| {
    let [format, cut, cap, around, policies, output @ ..] = input else { return };
    let reply = &REPLIES[usize::from(*format) % REPLIES.len()];
    let step = usize::from(cut & 0x7f) % 17 + 1;
    let options = options(*cap, *around, *policies, output.len());
    let stop = if policies & 0x80 == 0 { Stop::Length } else { Stop::End };
    let feed = |pieces: Vec<(&[u8], bool)>| {
        read(reply, &options, stop, |parser, on| {
            for (piece, is_control) in pieces {
                match std::str::from_utf8(piece) {
                    Ok(piece) if cut & 0x80 == 0 => parser.push_text(piece, &mut |event| on(event)),
                    _ => parser.push_bytes(piece, is_control, &mut |event| on(event)),
                }
            }
        })
    };
    let text = String::from_utf8_lossy(output);
    let (whole, pieces) = match cut & 0x80 {
        0 => (
            feed(vec![(text.as_bytes(), false)]),
            feed(characters(&text, step).into_iter().map(|piece| (piece, false)).collect()),
        ),
        _ => {
            let tokens = output.split(|byte| *byte == 0xff).enumerate().map(|(at, token)| (token, at % 2 == 1));
            let cut = tokens.clone().flat_map(|(token, is_control)| {
                // A control token always comes whole.
                let step = if is_control { token.len().max(1) } else { step };
                token.chunks(step).map(move |piece| (piece, is_control))
            });
            (feed(tokens.collect()), feed(cut.collect()))
        }
    };
    assert_eq!(whole, pieces, "every chunking gives the same events");
});

/// Returns options with small caps, caps near a fraction of the output's length, and every policy.
fn options(cap: u8, around: u8, policies: u8, length: usize) -> ParseOptions {
    let calls = [None, Some(CallsInReasoning::Draft), Some(CallsInReasoning::Call), Some(CallsInReasoning::Unclosed)];
    ParseOptions {
        cap: match cap {
            0..=64 => Some(usize::from(cap)),
            65..=240 => Some((length / (usize::from(cap) % 8 + 1) + usize::from(around) % 16).saturating_sub(8)),
            _ => None,
        },
        calls_in_reasoning: calls[usize::from(policies & 3)],
        unknown_names: if policies & 4 == 0 { UnknownNames::Pass } else { UnknownNames::Text },
        text_after_calls: if policies & 8 == 0 { TextAfterCalls::Content } else { TextAfterCalls::Report },
        json: if policies & 16 == 0 { JsonPolicy::Lenient } else { JsonPolicy::Strict },
        max_calls: (policies & 32 != 0).then_some(1),
        tools: if policies & 64 == 0 { Vec::new() } else { TOOLS.clone() },
        ..ParseOptions::default()
    }
}

/// Splits a text into pieces of `count` characters.
fn characters(text: &str, count: usize) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.char_indices().nth(count).map_or(rest.len(), |(at, _)| at);
        let (piece, others) = rest.split_at(end);
        pieces.push(piece.as_bytes());
        rest = others;
    }
    pieces
}

/// Returns the kind and text of each event, with deltas joined.
fn read(
    reply: &Arc<Reply>,
    options: &ParseOptions,
    stop: Stop,
    feed: impl FnOnce(&mut OutputParser, &mut dyn FnMut(Event<'_>)),
) -> Vec<(String, String)> {
    let mut seen: Vec<(String, String)> = Vec::new();
    let (mut calls, mut open, mut stops) = (0, None, 0);
    let mut on = |event: Event<'_>| {
        let (kind, text) = match event {
            Event::Content(text) => ("content".to_owned(), text),
            Event::Reasoning(text) => ("reasoning".to_owned(), text),
            Event::Arguments { index, text } | Event::Code { index, text } => {
                assert_eq!(open, Some(index), "a delta belongs to the open call");
                (format!("{index}"), text)
            }
            ref other => {
                match other {
                    Event::CallStarted { index, .. } | Event::CodeStarted { index, .. } => {
                        assert_eq!((*index, open), (calls, None), "calls follow one another");
                        open = Some(*index);
                        calls += 1;
                    }
                    Event::CallFinished { index, .. } => {
                        assert_eq!(open.take(), Some(*index), "the open call finishes")
                    }
                    Event::Stop(_) => stops += 1,
                    _ => {}
                }
                return seen.push((format!("{other:?}"), String::new()));
            }
        };
        match seen.last_mut() {
            Some((known, so_far)) if *known == kind => so_far.push_str(text),
            _ if text.is_empty() => {}
            _ => seen.push((kind, text.to_owned())),
        }
    };
    let mut parser = OutputParser::new(reply, options.clone());
    feed(&mut parser, &mut on);
    parser.finish(stop, &mut on);
    assert_eq!((open, stops), (None, 1), "every call finishes, and there is one stop");
    seen
}
