//! The parser reads every output to its end, whatever the cap. It never hangs or panics, every
//! chunking gives the same events, and no text is lost.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rolecall_conversation::{Tool, json};
use rolecall_format::load;
use rolecall_parse::{
    CallsInReasoning, Event, OutputParser, ParseOptions, ParsedCall, Reading, Reply, Stop, UnknownNames,
};

/// Builds a family whose reasoning may hold calls in this layout.
fn thinker(calls: &str) -> Arc<Reply> {
    thinker_of(calls, &[])
}

/// Builds the same family for the ids of a tokenizer with these tokens.
fn thinker_of(calls: &str, tokens: &[String]) -> Arc<Reply> {
    let source = format!(
        "part = \"reply\"\nname = \"thinker\"\n[control]\n\"<|im_start|>\" = {{ id = 1 }}\n\
         \"<|im_end|>\" = {{ id = 2, ends_turn = true }}\n[layout]\n\
         assistant = \"<|im_start|>assistant\\n[[<think>\\n{{reasoning}}\\n</think>\\n\\n]][[{{content}}\\n]]{{calls}}<|im_end|>\\n\"\n\
         generate = \"<|im_start|>assistant\\n\"\n{calls}"
    );
    let format = load(&source).unwrap_or_else(|error| panic!("{error:?}\n{source}"));
    Arc::new(Reply::with_tokens(&format, tokens))
}

const JSON: &str = "call = \"<tool_call>\\n{call:json(name, arguments)}\\n</tool_call>\"\ncall-separator = \"\\n\"";
const TAGS: &str = "call = \"<tool_call>\\n<function={name}>\\n{arguments}</function>\\n</tool_call>\"\n\
    argument = \"<parameter={key}>\\n{value:json}\\n</parameter>\\n\"\n\
    argument-string = \"<parameter={key}>\\n{value}\\n</parameter>\\n\"";

const JSON_CALL: &str = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": \"é\"}}\n</tool_call>";
const TAGS_CALL: &str = "<tool_call>\n<function=f>\n<parameter=x>\nyé\n</parameter>\n</function>\n</tool_call>";

/// Fails instead of hanging.
fn within(seconds: u64, work: impl FnOnce() + Send + 'static) {
    let (done, end) = mpsc::channel();
    let worker = thread::spawn(move || {
        work();
        done.send(()).unwrap();
    });
    match end.recv_timeout(Duration::from_secs(seconds)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("no result after {seconds} s"),
        // Pass on a panic of the worker.
        _ => worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}

fn read<'t>(reply: &Arc<Reply>, options: &ParseOptions, pieces: impl Iterator<Item = &'t str>, stop: Stop) -> Reading {
    let mut reading = Reading::default();
    let mut parser = OutputParser::new(reply, options.clone());
    for piece in pieces {
        parser.push_text(piece, &mut |event: Event<'_>| reading.add(&event));
    }
    parser.finish(stop, &mut |event: Event<'_>| reading.add(&event));
    reading
}

fn characters(text: &str, count: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = rest.char_indices().nth(count).map_or(rest.len(), |(at, _)| at);
        let (piece, others) = rest.split_at(end);
        rest = others;
        (!piece.is_empty()).then_some(piece)
    })
}

fn unclosed(cap: Option<usize>) -> ParseOptions {
    ParseOptions { calls_in_reasoning: Some(CallsInReasoning::Unclosed), cap, ..ParseOptions::default() }
}

/// Returns all emitted text, without markers.
fn said(reading: &Reading) -> String {
    format!("{}{}", reading.reasoning.as_deref().unwrap_or_default(), reading.content)
}

/// Returns a text without white space, which may belong to a marker next to it.
fn visible(text: &str) -> String {
    text.split_whitespace().collect()
}

#[test]
fn a_call_in_reasoning_that_is_longer_than_the_cap_is_text() {
    within(120, || {
        let reply = thinker(TAGS);
        let start = "ab<tool_call>\n<function=f>\n<parameter=x>\n";
        let end = "\n</parameter>\n</function>\n</tool_call>";
        for (length, cap) in
            [(1 << 20, None), ((1 << 20) + 100, None), (300, Some(100)), (300, Some(300)), (300, Some(0))]
        {
            let value = "A".repeat(length);
            for (output, stop) in [
                (format!("<think>\n{start}{value}{end}"), Stop::End),
                (format!("<think>\n{start}{value}{end}\n</think>\n\nDone."), Stop::End),
                (format!("<think>\n{start}{value}"), Stop::Length),
            ] {
                let reading = read(&reply, &unclosed(cap), std::iter::once(output.as_str()), stop);
                assert_eq!(reading.calls, [], "cap {cap:?}");
                let text = output.replacen("<think>\n", "", 1).replacen("\n</think>\n\n", "", 1);
                assert!(said(&reading) == text, "cap {cap:?}: {} bytes of {}", said(&reading).len(), text.len());
                assert_eq!(reading.content.contains("Done."), output.contains("Done."));
            }
        }
    });
}

#[test]
fn every_cap_reads_every_output_to_its_end() {
    within(300, || {
        for (reply, call) in [(thinker(JSON), JSON_CALL), (thinker(TAGS), TAGS_CALL)] {
            let twice = format!("{call}\n{call}");
            let outputs = [
                format!("<think>\nI try {call} no.\n</think>\n\nDone."),
                format!("<think>\nI try {call}<|im_end|>"),
                format!("<think>\nI try {twice}"),
                format!("<think>\nI try {}", &call[..call.len() - 20]),
                format!("<think>\n{}\n</think>\n\n{twice}", &call[..call.len() / 2]),
                format!("Hi.\n{twice}"),
                // Line breaks get longer when they are escaped.
                format!(
                    "<tool_call>\n{{\"name\": \"f\", \"arguments\": {{}}, \"{}\": \"x\"}}\n</tool_call>",
                    "- \n\u{1f44d}\n".repeat(8)
                ),
            ];
            for output in &outputs {
                for cap in (0..=64).chain([output.len() - 1, output.len(), output.len() + 1].map(usize::from)) {
                    for calls_in_reasoning in
                        [CallsInReasoning::Unclosed, CallsInReasoning::Draft, CallsInReasoning::Call]
                    {
                        for unknown_names in [UnknownNames::Pass, UnknownNames::Text] {
                            let calls_in_reasoning = Some(calls_in_reasoning);
                            let options = ParseOptions {
                                calls_in_reasoning,
                                unknown_names,
                                cap: Some(cap),
                                ..ParseOptions::default()
                            };
                            let whole = read(&reply, &options, std::iter::once(output.as_str()), Stop::End);
                            for size in [1, 2, 3, 7] {
                                let cut = read(&reply, &options, characters(output, size), Stop::End);
                                assert_eq!(whole, cut, "{output}\nin chunks of {size}, cap {cap}");
                            }
                            if whole.calls.is_empty() {
                                // If a call breaks off, a marker inside it is part of its text.
                                let marks = ["<think>", "</think>", "<|im_end|>"];
                                let bare =
                                    |text: &str| marks.iter().fold(visible(text), |text, mark| text.replace(mark, ""));
                                assert_eq!(bare(&said(&whole)), bare(output), "cap {cap}");
                            }
                        }
                    }
                }
            }
        }
    });
}

/// A call that fits in the cap counts. Only the cap turns it into text.
#[test]
fn a_call_in_reasoning_counts_up_to_the_cap() {
    let reply = thinker(TAGS);
    let output = format!("<think>\nI try {TAGS_CALL}");
    for cap in 0..2 * TAGS_CALL.len() {
        let reading = read(&reply, &unclosed(Some(cap)), std::iter::once(output.as_str()), Stop::End);
        assert_eq!(reading.calls.len(), usize::from(cap >= TAGS_CALL.len()), "cap {cap}");
    }
}

#[test]
fn text_of_a_call_that_never_ends_is_read_as_reasoning() {
    let reply = thinker(TAGS);
    let output = "<think>\nI try <tool_call>\n<function=f>\n<parameter=x>\nno.\n</think>\n\nDone.";
    let whole = read(&reply, &unclosed(None), std::iter::once(output), Stop::End);
    assert_eq!(whole.content, "Done.");
    assert_eq!(whole.reasoning.as_deref(), Some("I try <tool_call>\n<function=f>\n<parameter=x>\nno."));
}

#[test]
fn drafts_that_are_given_up_are_not_read_again_and_again() {
    within(120, || {
        // These would take hours if each draft were read up to the cap again.
        for calls in [JSON, TAGS] {
            let reply = thinker(calls);
            for piece in [
                "</think><think><tool_call>",
                "<tool_call> x ",
                "</think><think><tool_call>\n<function=f>\n<parameter=x>\n",
                "</think><think><tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": \"",
                "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call></think><think>",
            ] {
                let output = format!("<think>\n{}", piece.repeat((1 << 20) / piece.len()));
                let reading = read(&reply, &unclosed(Some(1 << 18)), std::iter::once(output.as_str()), Stop::Length);
                assert!(!said(&reading).is_empty(), "{piece}");
            }
        }
    });
}

#[test]
fn a_call_in_reasoning_may_hold_control_tokens() {
    let tokens = ["<tool_call>", "</tool_call>", "<|im_end|>", "<think>", "</think>", "<|x|>"].map(str::to_owned);
    for (calls, parts) in [
        (JSON, ["<tool_call>", "\n{\"name\": \"f\", \"arguments\": {\"x\": \"a", "<|x|>", "b\"}}\n", "</tool_call>"]),
        (
            TAGS,
            [
                "<tool_call>",
                "\n<function=f>\n<parameter=x>\na",
                "<|x|>",
                "b\n</parameter>\n</function>\n",
                "</tool_call>",
            ],
        ),
    ] {
        let reply = thinker_of(calls, &tokens);
        let options = unclosed(None);
        let mut parser = OutputParser::new(&reply, options);
        let mut reading = Reading::default();
        for part in ["<think>", "\nHm."].iter().chain(&parts) {
            let is_control = tokens.iter().any(|token| token == part);
            parser.push_bytes(part.as_bytes(), is_control, &mut |event: Event<'_>| reading.add(&event));
        }
        parser.finish(Stop::End, &mut |event: Event<'_>| reading.add(&event));
        assert_eq!(reading.calls.len(), 1, "{reading:?}");
        assert_eq!(reading.malformed, [], "{reading:?}");
        let ParsedCall::Function { arguments, whole: true, .. } = &reading.calls[0] else { panic!("{reading:?}") };
        assert_eq!(arguments, "{\"x\": \"a<|x|>b\"}");
    }
}

#[test]
fn arguments_longer_than_the_cap_are_not_compared_with_a_schema() {
    let tool = r#"{"name": "f", "parameters": {"type": "object", "properties": {"x": {"type": "string"}}}}"#;
    let tools = vec![Tool::from_json(json::parse(tool).unwrap()).unwrap()];
    let output = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": \"long enough\"}}\n</tool_call>";
    for cap in 0..64 {
        let options =
            ParseOptions { tools: tools.clone(), check_schema: true, cap: Some(cap), ..ParseOptions::default() };
        let whole = read(&thinker(JSON), &options, std::iter::once(output), Stop::End);
        for size in 1..20 {
            assert_eq!(whole, read(&thinker(JSON), &options, characters(output, size), Stop::End), "cap {cap}");
        }
    }
    // Arguments as long as the cap are checked.
    let number = "1234567890".repeat(20);
    let (wrong, length) = (output.replace("\"long enough\"", &number), number.len() + "{\"x\": }".len());
    for (cap, compared) in [(length - 1, 0), (length, 1), (length + 1, 1)] {
        let options =
            ParseOptions { tools: tools.clone(), check_schema: true, cap: Some(cap), ..ParseOptions::default() };
        let reading = read(&thinker(JSON), &options, std::iter::once(wrong.as_str()), Stop::End);
        assert_eq!(reading.malformed.len(), compared, "{cap}: {reading:?}");
    }
}

#[test]
fn white_space_behind_a_quote_or_a_fence_counts_the_same_in_every_chunking() {
    let python = "call = \"<call>[{name}({arguments})]</call>\"\nargument = \"{key}={value:literal}\"\n\
        argument-string = \"{key}='{value}'\"\nargument-separator = \", \"";
    let reply = thinker(python);
    for spaces in [0, 1, 200, 240, 250, 251, 252, 253, 254, 255, 256, 257, 258, 300, 1000] {
        let output = format!("<call>[f(a='x'{}, b='y')]{}</call>", " ".repeat(spaces), " ".repeat(spaces));
        let whole = read(&reply, &ParseOptions::default(), std::iter::once(output.as_str()), Stop::End);
        for size in [1, 3, 50, 255, 256, 257] {
            let cut = read(&reply, &ParseOptions::default(), characters(&output, size), Stop::End);
            assert_eq!(whole, cut, "{spaces} spaces in chunks of {size}");
        }
    }
}

#[test]
fn a_call_in_reasoning_that_breaks_off_stays_reasoning() {
    let output = "<think>\nI try <tool_call>\nno.\n</think>\n\nDone.";
    for calls_in_reasoning in [CallsInReasoning::Call, CallsInReasoning::Draft, CallsInReasoning::Unclosed] {
        let options = ParseOptions { calls_in_reasoning: Some(calls_in_reasoning), ..ParseOptions::default() };
        let reading = read(&thinker(JSON), &options, std::iter::once(output), Stop::End);
        let reasoning = reading.reasoning.as_deref().unwrap_or_default();
        assert_eq!((visible(reasoning).as_str(), reading.content.as_str()), ("Itry<tool_call>no.", "Done."));
    }
}

#[test]
fn a_call_in_reasoning_that_the_prompt_began_is_read_from_ids() {
    let tokens = ["<tool_call>", "</tool_call>", "<|im_end|>", "<think>", "</think>"].map(str::to_owned);
    let prompt_tail = "<|im_start|>assistant\n<think>\nHm.<tool_call>\n".to_owned();
    let mut parser = OutputParser::new(&thinker_of(JSON, &tokens), ParseOptions { prompt_tail, ..unclosed(None) });
    let mut reading = Reading::default();
    for part in ["{\"name\": \"f\", \"arguments\": {}}\n", "</tool_call>", "<|im_end|>"] {
        let is_control = tokens.iter().any(|token| token == part);
        parser.push_bytes(part.as_bytes(), is_control, &mut |event: Event<'_>| reading.add(&event));
    }
    parser.finish(Stop::End, &mut |event: Event<'_>| reading.add(&event));
    assert_eq!((reading.calls.len(), reading.malformed.len()), (1, 0), "{reading:?}");
}
