//! Any bytes as what a model writes, by any format that has calls: nothing may panic, events are in order, and the same bytes in other
//! pieces give the same events.
//!
//! The input is a byte that picks the format, one for how the output is cut and whether it comes as bytes of tokens, and the output.

#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use rolecall_format::{Registry, Slot, load, shared_calls};
use rolecall_parse::{Event, OutputParser, ParseOptions, Reply, Stop};

static REPLIES: LazyLock<Vec<Arc<Reply>>> = LazyLock::new(|| {
    let registry = Registry::builtin();
    let built_in = registry.iter().filter(|format| format.layout(Slot::Call).is_some()).map(Reply::new);
    let shared = shared_calls().map(|(_, source)| Reply::new(&load(source).expect("it comes with the library")));
    built_in.chain(shared).map(Arc::new).collect()
});

fuzz_target!(|input: &[u8]| {
    let [format, cut, output @ ..] = input else { return };
    let reply = &REPLIES[usize::from(*format) % REPLIES.len()];
    let step = usize::from(cut & 0x7f) % 17 + 1;
    let text = String::from_utf8_lossy(output);
    let feed = |pieces: Vec<&[u8]>| {
        read(reply, |parser, on| {
            for piece in pieces {
                match std::str::from_utf8(piece) {
                    Ok(piece) if cut & 0x80 == 0 => parser.push_text(piece, &mut |event| on(event)),
                    _ => parser.push_bytes(piece, false, &mut |event| on(event)),
                }
            }
        })
    };
    let (whole, pieces) = match cut & 0x80 {
        0 => (feed(vec![text.as_bytes()]), feed(characters(&text, step))),
        _ => (feed(vec![output]), feed(output.chunks(step).collect())),
    };
    assert_eq!(whole, pieces, "any split gives the same events");
});

/// A text in pieces of so many characters.
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

/// The events, deltas joined: what each is, and its text.
fn read(reply: &Arc<Reply>, feed: impl FnOnce(&mut OutputParser, &mut dyn FnMut(Event<'_>))) -> Vec<(String, String)> {
    let mut seen: Vec<(String, String)> = Vec::new();
    let (mut calls, mut open, mut stops) = (0, None, 0);
    let mut on = |event: Event<'_>| {
        let (kind, text) = match event {
            Event::Content(text) => ("content".to_owned(), text),
            Event::Reasoning(text) => ("reasoning".to_owned(), text),
            Event::Arguments { index, text } | Event::Code { index, text } => {
                assert_eq!(open, Some(index), "a call that is open goes on");
                (format!("{index}"), text)
            }
            ref other => {
                match other {
                    Event::CallStarted { index, .. } | Event::CodeStarted { index, .. } => {
                        assert_eq!((*index, open), (calls, None), "calls come one after the other");
                        open = Some(*index);
                        calls += 1;
                    }
                    Event::CallFinished { index, .. } => {
                        assert_eq!(open.take(), Some(*index), "a call that is open ends")
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
    let mut parser = OutputParser::new(reply, ParseOptions::default());
    feed(&mut parser, &mut on);
    parser.finish(Stop::Length, &mut on);
    assert_eq!((open, stops), (None, 1), "all calls end, and there is one stop");
    seen
}
