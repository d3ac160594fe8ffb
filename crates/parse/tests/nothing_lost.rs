//! A call that breaks off or is unparseable loses no text, and emits none of it twice.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::sync::Arc;

use rolecall_format::{load, shared_calls};
use rolecall_parse::{Event, OutputParser, ParseOptions, ParsedCall, Reading, Reply, Stop};

/// Parses an output that is cut off after its last character, both whole and character by
/// character.
fn read(layout: &str, output: &str) -> Reading {
    let (_, source) = shared_calls().find(|(name, _)| *name == layout).unwrap();
    let reply = Arc::new(Reply::new(&load(source).unwrap()));
    let one = |pieces: &[&str]| {
        let mut reading = Reading::default();
        let mut parser = OutputParser::new(&reply, ParseOptions::default());
        for piece in pieces {
            parser.push_text(piece, &mut |event: Event<'_>| reading.add(&event));
        }
        parser.finish(Stop::Length, &mut |event: Event<'_>| reading.add(&event));
        reading
    };
    let characters: Vec<&str> = output.split("").filter(|piece| !piece.is_empty()).collect();
    let whole = one(&[output]);
    assert_eq!(whole, one(&characters), "{output}");
    whole
}

fn arguments(reading: &Reading) -> Vec<&str> {
    let each = reading.calls.iter().map(|call| match call {
        ParsedCall::Function { arguments, .. } => arguments.as_str(),
        ParsedCall::Code { code, .. } => code.as_str(),
    });
    each.collect()
}

#[test]
fn a_call_that_ends_before_its_name_is_content() {
    for output in [
        "<tool_call>\n{\"arguments\": {\"x\": 1}",
        "<tool_call>\n{\"arguments\": {\"x\": 1}, \"name\": ",
        "<tool_call>\n{\"arguments\": {\"x\": 1}, \"name\": \"get_w",
    ] {
        let reading = read("json-in-tags", output);
        assert_eq!((reading.content.as_str(), reading.calls.len()), (output, 0));
    }
}

#[test]
fn of_two_arguments_the_first_one_counts() {
    let reading = read(
        "json-in-tags",
        "<tool_call>\n{\"name\": \"f\", \"arguments\": \"{}\", \"arguments\": {\"x\": 1}}\n</tool_call>",
    );
    assert_eq!(arguments(&reading), ["{}"]);
}

#[test]
fn a_typed_value_that_is_cut_off_is_content() {
    let reading = read(
        "function-and-parameter-tags",
        "<tool_call>\n<function=f>\n<parameter=x>\ny\n</parameter>\n<parameter=list>\n[1, \"ab",
    );
    assert_eq!(arguments(&reading), ["{\"x\": \"y\""]);
    assert_eq!(reading.content.trim(), "<parameter=list>\n[1, \"ab");
}

#[test]
fn a_key_whose_value_is_none_is_content() {
    let reading = read("python-list-between-marks", "<|tool_call_start|>[f(a=1, key=Bad()]<|tool_call_end|>");
    assert_eq!(arguments(&reading), ["{\"a\": 1"]);
    assert!(reading.content.contains("key=Bad()"), "{reading:?}");
}

#[test]
fn a_number_that_is_none_stays_in_its_call() {
    let reading = read("marked-dict-between-marks", "<|tool_call>call:f{a:1.5x7}<tool_call|>");
    assert_eq!((arguments(&reading), reading.content.as_str()), (vec!["{\"a\": 1.5x7}"], ""));
}

#[test]
fn a_closing_mark_that_is_another_is_content() {
    let reading = read("json-in-tags", "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_cell>");
    assert_eq!((arguments(&reading), reading.content.trim()), (vec!["{}"], "</tool_cell>"));
}

#[test]
fn brackets_that_a_cut_leaves_over_say_nothing() {
    let reading = read("python-list-between-marks", "<|tool_call_start|>[f(a=1, ");
    assert_eq!((arguments(&reading), reading.content.as_str()), (vec!["{\"a\": 1"], ""));
}

#[test]
fn what_the_prompt_began_of_an_argument_is_not_said_again() {
    let format = load(
        "part = \"reply\"\nname = \"tags\"\n[layout]\nassistant = \"A:{content}{calls}\"\ngenerate = \"A:\"\n\
         call = \"<call>{name}\\n{arguments}</call>\"\nargument = \"<arg={key}>{value:json}</arg>\\n\"",
    )
    .unwrap();
    let reply = Arc::new(Reply::new(&format));
    let read_behind = |tail: &str, output: &str| {
        let options = ParseOptions { prompt_tail: tail.into(), ..ParseOptions::default() };
        rolecall_parse::read(&reply, options, output, Stop::Length).content
    };
    assert_eq!(read_behind("A:<call>f\n<arg=a>[1, ", "2, 3"), "2, 3");
    assert_eq!(read_behind("A:<call>f\n<arg=a>[1, ", "2]</arg>\n<arg=b>[3"), "<arg=b>[3");
}

#[test]
fn white_space_beside_a_call_is_dropped_up_to_a_length_and_comes_out_beyond_it() {
    let call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>";
    for count in [1, 4095, 4096, 4097, 4098, 9000] {
        let blank = " ".repeat(count);
        for (output, calls) in [(format!("{blank}{call}"), 1), (format!("{call}{blank}{call}"), 2)] {
            let reading = read("json-in-tags", &output);
            assert_eq!(reading.calls.len(), calls, "{count}");
            assert!(reading.content == if count > 4096 { blank.as_str() } else { "" }, "{count}");
        }
        // Text after the white space releases it at any length.
        for output in [format!("{blank}x"), format!("{call}{blank}x")] {
            assert!(read("json-in-tags", &output).content == format!("{blank}x"), "{count}");
        }
    }
}

#[test]
fn wide_white_space_beside_a_call_is_white_space() {
    let call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>";
    for blank in ["\u{3000}", "\u{2028} \u{a0}", "\n\u{85}"] {
        let reading = read("json-in-tags", &format!("{call}{blank}{call}{blank}"));
        assert_eq!((reading.calls.len(), reading.content.as_str()), (2, ""));
        assert_eq!(read("json-in-tags", &format!("{call}{blank}x")).content, format!("{blank}x"));
    }
}

#[test]
fn a_second_name_of_a_call_is_none() {
    for output in [
        "<tool_call>\n{\"name\": \"f\", \"arguments\": {}, \"function\": \"g\"}\n</tool_call>",
        "<tool_call>\n{\"function\": \"f\", \"arguments\": {}, \"name\": \"g\"}\n</tool_call>",
        "<tool_call>\n{\"function\": 5, \"name\": \"f\", \"arguments\": {}}\n</tool_call>",
    ] {
        let reading = read("json-in-tags", output);
        let ParsedCall::Function { name, .. } = &reading.calls[0] else { panic!("{reading:?}") };
        assert_eq!(name, "f", "{output}");
    }
}
