//! The parser's options: the end of the prompt, tokens, policies and caps.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::sync::Arc;

use rolecall_conversation::{Tool, json};
use rolecall_format::{Format, load};
use rolecall_parse::{
    CallsInReasoning, Event, Ids, JsonPolicy, OutputParser, ParseOptions, ParsedCall, Reading, Reply, Stop,
    TextAfterCalls, UnknownNames, Why, read,
};

/// A family with reasoning, calls in tags and control tokens.
const THINKER: &str = r#"
part = "reply"
name = "thinker"
[sources]
layout = "made for these tests"
[control]
"<|im_start|>" = { id = 1 }
"<|im_end|>"   = { id = 2, ends_turn = true }
[layout]
assistant            = "<|im_start|>assistant\n[[<think>\n{reasoning}\n</think>\n\n]]{content}<|im_end|>\n"
assistant-with-calls = "<|im_start|>assistant\n[[<think>\n{reasoning}\n</think>\n\n]][[{content}\n]]{calls}<|im_end|>\n"
call                 = "<tool_call>\n{call:json(name, arguments)}\n</tool_call>"
call-separator       = "\n"
generate             = "<|im_start|>assistant\n"
"#;

const CALL: &str = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>";

fn thinker() -> Arc<Reply> {
    Arc::new(Reply::new(&format(THINKER)))
}

fn format(text: &str) -> Format {
    load(text).unwrap_or_else(|error| panic!("{error:?}"))
}

fn builtin(name: &str) -> Arc<Reply> {
    Arc::new(Reply::new(rolecall_format::builtin().get(name).unwrap()))
}

fn weather() -> Vec<Tool> {
    let tool = r#"{"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}"#;
    vec![Tool::from_json(json::parse(tool).unwrap()).unwrap()]
}

fn arguments(reading: &Reading) -> Vec<&str> {
    let each = reading.calls.iter().map(|call| match call {
        ParsedCall::Function { arguments, .. } => arguments.as_str(),
        ParsedCall::Code { code, .. } => code,
    });
    each.collect()
}

#[test]
fn the_tail_of_the_prompt_says_what_is_open() {
    let options = |tail: &str| ParseOptions { prompt_tail: tail.into(), ..ParseOptions::default() };
    let of = |tail: &str, output: &str| {
        let reading = read(&thinker(), options(tail), output, Stop::End);
        (reading.reasoning.unwrap_or_default(), reading.content)
    };
    let said = |reasoning: &str, content: &str| (reasoning.to_owned(), content.to_owned());
    assert_eq!(of("<|im_start|>assistant\n<think>\n", "Hm.\n</think>\n\nYes."), said("Hm.", "Yes."));
    assert_eq!(of("<|im_start|>assistant\n<think>\n\n</think>\n\n", "Yes."), said("", "Yes."));
    assert_eq!(of("<|im_start|>assistant\n", "<think>\nHm.\n</think>\n\nYes."), said("Hm.", "Yes."));
    assert_eq!(of("<|im_start|>assistant\nThe answer", " is 7."), said("", " is 7."));
    // The tail ends inside a marker. The part that the prompt wrote is not emitted.
    assert_eq!(of("<|im_start|>assistant\n<thi", "nk>\nHm.\n</think>\n\nYes."), said("Hm.", "Yes."));
    assert_eq!(of("<|im_start|>assistant\n<thi", "rd>"), said("", "rd>"));
    // The output is cut off in the reasoning.
    let cut = read(&thinker(), options("<|im_start|>assistant\n<think>\n"), "Hm, I", Stop::Length);
    assert_eq!((cut.reasoning.as_deref(), cut.content.as_str(), cut.stop), (Some("Hm, I"), "", Some(Stop::Length)));
}

#[test]
fn a_call_that_the_prompt_began_is_said_whole() {
    let tail = "<|im_start|>assistant\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"ci";
    let options = ParseOptions { prompt_tail: tail.into(), ..ParseOptions::default() };
    let reading = read(&thinker(), options, "ty\": \"Oslo\"}}\n</tool_call>", Stop::End);
    assert_eq!(arguments(&reading), ["{\"city\": \"Oslo\"}"]);
    assert_eq!(reading.malformed, []);
}

#[test]
fn a_control_token_is_a_mark_and_its_characters_are_not() {
    let tokens = ["<tool_call>", "</tool_call>", "<|im_end|>"].map(str::to_owned);
    let reply = Arc::new(Reply::with_tokens(&format(THINKER), &tokens));
    let read = |pieces: &[(&str, bool)]| {
        let mut reading = Reading::default();
        let mut parser = OutputParser::new(&reply, ParseOptions::default());
        for (piece, is_control) in pieces {
            parser.push_bytes(piece.as_bytes(), *is_control, &mut |event| reading.add(&event));
        }
        parser.finish(Stop::End, &mut |event| reading.add(&event));
        reading
    };
    let body = "\n{\"name\": \"f\", \"arguments\": {}}\n";
    let as_tokens = read(&[("<tool_call>", true), (body, false), ("</tool_call>", true), ("<|im_end|>", true)]);
    assert_eq!((arguments(&as_tokens), as_tokens.content.as_str()), (vec!["{}"], ""));
    let as_text = read(&[("<tool_call>", false), (body, false), ("</tool_call>", false), ("<|im_end|>", true)]);
    assert_eq!(as_text.calls, []);
    assert_eq!(as_text.content, format!("<tool_call>{body}</tool_call>"));
    // The token that closes a call does so even inside a string, where its characters do not.
    let inside = [("<tool_call>", true), ("{\"name\": \"f\", \"arguments\": {\"a\": \"</tool_call>", false)];
    let open = read(&[&inside[..], &[("</tool_call>", true)]].concat());
    assert_eq!(arguments(&open), ["{\"a\": \"</tool_call>"]);
    let codes: Vec<&str> = open.malformed.iter().map(|malformed| malformed.why.code()).collect();
    assert_eq!(codes, ["unfinished"]);
    // Text that only spells a control token is not a stray marker.
    assert_eq!(as_text.malformed, []);
    let whole = read(&[&inside[..], &[("\"}}", false), ("</tool_call>", true)]].concat());
    assert_eq!(arguments(&whole), ["{\"a\": \"</tool_call>\"}"]);
}

#[test]
fn characters_may_be_cut_anywhere_and_broken_ones_are_said() {
    let mut reading = Reading::default();
    let mut parser = OutputParser::new(&thinker(), ParseOptions::default());
    for byte in "né👍🏽".bytes() {
        parser.push_bytes(&[byte], false, &mut |event| reading.add(&event));
    }
    parser.push_bytes(&[0xff, b'x', 0xe2], false, &mut |event| reading.add(&event));
    parser.finish(Stop::End, &mut |event| reading.add(&event));
    assert_eq!(reading.content, "né👍🏽\u{fffd}x\u{fffd}");
    assert_eq!(reading.malformed.iter().map(|bad| &bad.why).collect::<Vec<_>>(), [&Why::NotUtf8, &Why::NotUtf8]);
    assert_eq!(reading.malformed[0].span, 11..14);
}

#[test]
fn calls_inside_reasoning_are_drafts_unless_asked_for() {
    let output = format!("<think>\nI try {CALL} now.\n</think>\n\nDone.");
    let reading = |calls_in_reasoning| {
        read(
            &thinker(),
            ParseOptions { calls_in_reasoning: Some(calls_in_reasoning), ..ParseOptions::default() },
            &output,
            Stop::End,
        )
    };
    let draft = reading(CallsInReasoning::Draft);
    assert_eq!((draft.calls.len(), draft.content.as_str()), (0, "Done."));
    assert_eq!(draft.reasoning, Some(format!("I try {CALL} now.")));
    let call = reading(CallsInReasoning::Call);
    assert_eq!((arguments(&call), call.reasoning.as_deref()), (vec!["{\"city\": \"Oslo\"}"], Some("I try ")));
}

#[test]
fn a_call_in_reasoning_that_is_never_closed_may_count() {
    let options = ParseOptions {
        calls_in_reasoning: Some(CallsInReasoning::Unclosed),
        prompt_tail: "<|im_start|>assistant\n<think>\n".into(),
        ..ParseOptions::default()
    };
    let of = |output: &str, stop| {
        let whole = read(&thinker(), options.clone(), output, stop);
        for size in [1, 2, 5, 30] {
            let mut reading = Reading::default();
            let mut parser = OutputParser::new(&thinker(), options.clone());
            for chunk in output.chars().collect::<Vec<_>>().chunks(size) {
                parser.push_text(&chunk.iter().collect::<String>(), &mut |event| reading.add(&event));
            }
            parser.finish(stop, &mut |event| reading.add(&event));
            assert_eq!(whole, reading, "in chunks of {size}: {output}");
        }
        (whole.reasoning.unwrap_or_default(), whole.content, whole.calls.len())
    };
    // If the reasoning is closed after it, it is a draft. If the turn ends first, it is a call.
    let draft = of(&format!("I try\n{CALL}\nno.\n</think>\n\nDone."), Stop::End);
    assert_eq!(draft, (format!("I try\n{CALL}\nno."), "Done.".into(), 0));
    assert_eq!(of(&format!("I try\n{CALL}<|im_end|>"), Stop::End), ("I try".into(), String::new(), 1));
    assert_eq!(of(&format!("I try\n{CALL}\n{CALL}"), Stop::End), ("I try".into(), String::new(), 2));
    // If the output is cut off, it is unknown what would have followed.
    assert_eq!(of(&format!("I try {CALL}"), Stop::Length).2, 0);
    assert_eq!(of("I try <tool_call>\n{\"name\": \"f", Stop::End).2, 0);
    // The model only mentions the marker, so nothing is held back for it.
    assert_eq!(of("a <tool_call> b\n</think>\n\nDone.", Stop::End), ("a <tool_call> b".into(), "Done.".into(), 0));
}

#[test]
fn no_name_is_unknown_beside_a_tool_that_is_a_text() {
    let output = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
    let calls = |tools: Vec<Tool>| {
        let options = ParseOptions { tools, unknown_names: UnknownNames::Text, ..ParseOptions::default() };
        read(&builtin("qwen2.5"), options, output, Stop::End).calls.len()
    };
    assert_eq!(calls(weather()), 0);
    let text = Tool::Text("now(): the time".into());
    assert_eq!(calls(vec![text.clone()]), 1);
    assert_eq!(calls(weather().into_iter().chain([text]).collect()), 1);
}

#[test]
fn unknown_names_pass_or_are_text() {
    let output = CALL.replace("get_weather", "get_wether");
    let of = |unknown_names| {
        let options = ParseOptions { tools: weather(), unknown_names, ..ParseOptions::default() };
        read(&thinker(), options, &output, Stop::End)
    };
    assert_eq!(of(UnknownNames::Pass).calls.len(), 1);
    let text = of(UnknownNames::Text);
    assert_eq!(text.calls, []);
    assert_eq!(text.content, output);
    assert_eq!(
        text.malformed[0].why,
        Why::UnknownName { name: "get_wether".into(), offered: vec!["get_weather".into()] }
    );
}

#[test]
fn text_behind_calls_is_content_and_can_be_reported() {
    let output = format!("{CALL}\nThere.");
    let of = |text_after_calls| {
        read(&thinker(), ParseOptions { text_after_calls, ..ParseOptions::default() }, &output, Stop::End)
    };
    let content = of(TextAfterCalls::Content);
    assert_eq!((content.content.trim(), content.malformed.len()), ("There.", 0));
    let reported = of(TextAfterCalls::Report);
    assert_eq!((reported.content.trim(), reported.malformed.len()), ("There.", 1));
}

#[test]
fn calls_beyond_the_most_are_text() {
    let output = format!("{CALL}\n{CALL}");
    let options = ParseOptions { max_calls: Some(1), ..ParseOptions::default() };
    let reading = read(&thinker(), options, &output, Stop::End);
    assert_eq!((reading.calls.len(), reading.content.trim()), (1, CALL));
}

#[test]
fn json_is_read_leniently_or_strictly() {
    let output = CALL.replace("Oslo", "Os\nlo");
    let of = |json| read(&thinker(), ParseOptions { json, ..ParseOptions::default() }, &output, Stop::End);
    assert_eq!(arguments(&of(JsonPolicy::Lenient)), ["{\"city\": \"Os\\nlo\"}"]);
    let strict = of(JsonPolicy::Strict);
    assert_eq!(arguments(&strict), ["{\"city\": \"Os\nlo\"}}\n"]);
    assert!(matches!(strict.malformed[0].why, Why::BadValue(_)));
}

#[test]
fn ids_are_made_of_the_callers_value() {
    let id_of = |ids| match &read(&thinker(), ParseOptions { ids, ..ParseOptions::default() }, CALL, Stop::End).calls[0]
    {
        ParsedCall::Function { id, .. } | ParsedCall::Code { id, .. } => id.clone(),
    };
    assert_eq!(id_of(Ids::Seeded(1)), id_of(Ids::Seeded(1)));
    assert_ne!(id_of(Ids::Seeded(1)), id_of(Ids::Seeded(2)));
    assert_eq!(id_of(Ids::Nine(1)).len(), 9);
}

#[test]
fn a_mark_that_the_model_speaks_of_closes_nothing() {
    let output = "<think>\nI write `</think>` at the end.\n</think>\n\nYes.";
    let reading = read(&thinker(), ParseOptions::default(), output, Stop::End);
    assert_eq!(reading.reasoning.as_deref(), Some("I write `</think>` at the end."));
    assert_eq!(reading.content, "Yes.");
}

#[test]
fn an_answer_in_json_is_no_call() {
    let reply = builtin("llama3.1");
    let options = ParseOptions { tools: weather(), ..ParseOptions::default() };
    for answer in [
        "{\"name\": \"Bob\", \"age\": 3}",
        "{\"city\": \"Oslo\"}",
        "{ }",
        "{\"na",
        "{\"name\": {\"first\": \"get_weather\"}}",
    ] {
        let reading = read(&reply, options.clone(), answer, Stop::End);
        assert_eq!((reading.content.as_str(), reading.calls.len()), (answer, 0));
        assert_eq!(reading.malformed, []);
    }
    let unknown = "{\"name\": \"get_weather_in\", \"parameters\": {}}";
    let reading = read(&reply, options.clone(), unknown, Stop::End);
    assert_eq!((reading.content.as_str(), reading.calls.len()), (unknown, 0));
    assert!(
        matches!(&reading.malformed[..], [rolecall_parse::Malformed { why: Why::UnknownName { name, .. }, .. }] if name == "get_weather_in")
    );
    let call = "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Oslo\"}}";
    let reading = read(&reply, options, &format!("Let me look. {call}<|eot_id|>"), Stop::End);
    assert_eq!((reading.content.as_str(), arguments(&reading)), ("Let me look. ", vec!["{\"city\": \"Oslo\"}"]));
}

#[test]
fn a_cap_ends_at_the_same_byte_in_every_chunking() {
    let long = "x".repeat(300);
    let outputs = [
        format!("<tool_call>\n{{\"name\": \"{long}\", \"arguments\": {{}}}}\n</tool_call>"),
        format!("<tool_call>\n{{\"arguments\": {{\"a\": \"{long}\"}}, \"name\": \"f\"}}\n</tool_call> and more"),
        format!("<tool_call>\n{{\"{long}\": 1, \"name\": \"f\"}}\n</tool_call>"),
        format!("{CALL}{}{CALL}", " ".repeat(5000)),
        format!("{}\n{CALL}", "\n".repeat(5000)),
    ];
    for output in outputs {
        let options = ParseOptions { cap: Some(100), ..ParseOptions::default() };
        let whole = read(&thinker(), options.clone(), &output, Stop::End);
        for size in [1, 2, 3, 7, 99, 100, 101] {
            let mut reading = Reading::default();
            let mut parser = OutputParser::new(&thinker(), options.clone());
            let characters: Vec<char> = output.chars().collect();
            for chunk in characters.chunks(size) {
                parser.push_text(&chunk.iter().collect::<String>(), &mut |event| reading.add(&event));
            }
            parser.finish(Stop::End, &mut |event| reading.add(&event));
            assert_eq!(whole, reading, "in chunks of {size}: {output}");
        }
    }
}

#[test]
fn nothing_is_kept_back_that_can_become_no_mark() {
    let mut parser = OutputParser::new(&thinker(), ParseOptions::default());
    let mut said = String::new();
    for chunk in ["Hi", " <tool", "box>", " <t", "ool_call>x"] {
        parser.push_text(chunk, &mut |event| {
            if let Event::Content(text) = event {
                said.push_str(text);
            }
        });
        let expected = match chunk {
            "Hi" => "Hi",
            " <tool" => "Hi ",
            "box>" => "Hi <toolbox>",
            " <t" => "Hi <toolbox> ",
            _ => "Hi <toolbox> <tool_call>x",
        };
        assert_eq!(said, expected);
    }
}
#[test]
fn a_schema_is_checked_where_asked_and_nothing_is_dropped() {
    let output = CALL.replace("\"Oslo\"", "7");
    let options = ParseOptions { tools: weather(), check_schema: true, ..ParseOptions::default() };
    let reading = read(&thinker(), options, &output, Stop::End);
    assert_eq!(arguments(&reading), ["{\"city\": 7}"]);
    assert!(matches!(reading.malformed[0].why, Why::Schema(_)));
}

#[test]
fn arguments_that_cannot_be_parsed_stay_in_their_call() {
    let format = format(
        "part = \"reply\"\nname = \"tags\"\n[layout]\nassistant = \"{content}{calls}\"\ngenerate = \"\"\n\
         call = \"<call>{name}\\n{arguments}</call>\"\nargument = \"<arg={key}>{value:json}</arg>\\n\"\n\
         argument-string = \"<arg={key}>{value}</arg>\\n\"",
    );
    let reply = Arc::new(Reply::new(&format));
    for (output, shown, content) in [
        ("<call>f\n<arg=a>1</arg>\n<arg=b>[1, 2", "{\"a\": 1", "<arg=b>[1, 2"),
        ("<call>f\n<arg=a>1</arg>\n<arg=be", "{\"a\": 1", "<arg=be"),
        ("<call>f\n<arg=a>1</arg>\noops</call> More.", "{\"a\": 1oops", " More."),
        ("<call>f\n<arg=a>1</arg>\n<arg=b", "{\"a\": 1", "<arg=b"),
    ] {
        let reading = read(&reply, ParseOptions::default(), output, Stop::Length);
        assert_eq!((arguments(&reading), reading.content.as_str()), (vec![shown], content), "{output}");
    }
    let long = format!("<call>f\n<arg=a>{}</arg></call>", "x".repeat(300));
    let reading = read(&reply, ParseOptions { cap: Some(100), ..ParseOptions::default() }, &long, Stop::End);
    let said = long.strip_prefix("<call>f\n").and_then(|rest| rest.strip_suffix("</call>")).unwrap_or_default();
    assert_eq!((arguments(&reading), reading.content.as_str()), (vec![said], ""));
}

#[test]
fn a_name_alone_is_no_call_yet() {
    let format = format(
        "part = \"reply\"\nname = \"tags\"\n[layout]\nassistant = \"{content}{calls}\"\ngenerate = \"\"\n\
         call = \"<call>{name}\\n{arguments}</call>\"\nargument = \"<arg={key}>{value:json}</arg>\\n\"",
    );
    let reply = Arc::new(Reply::new(&format));
    for (output, calls) in [
        ("Write <call> to begin.", 0),
        ("Write <call>to begin.", 0),
        ("<call>f</call>", 1),
        ("<call>f\n<arg=a>1</arg></call>", 1),
    ] {
        let reading = read(&reply, ParseOptions::default(), output, Stop::End);
        assert_eq!(reading.calls.len(), calls, "{reading:?}");
        assert_eq!(reading.content, if calls == 0 { output } else { "" });
    }
}

#[test]
fn a_list_of_calls_without_a_mark_is_told_by_a_tools_name() {
    let format = format(
        "part = \"reply\"\nname = \"bare\"\n[layout]\nassistant = \"A:\\n\\n{content}\"\nassistant-with-calls = \"A:\\n\\n{calls}\"\n\
         generate = \"A:\\n\\n\"\ncalls = \"[{calls}]\"\ncall = \"{name}({arguments})\"\ncall-separator = \", \"\n\
         argument = \"{key}={value:literal}\"\nargument-string = \"{key}={value}\"\nargument-separator = \", \"",
    );
    let reply = Arc::new(Reply::new(&format));
    let options = ParseOptions { tools: weather(), prompt_tail: "A:\n\n".into(), ..ParseOptions::default() };
    for (output, expected) in [
        ("[get_weather(city=\"New York\", days=3)]", vec!["{\"city\": \"New York\", \"days\": 3}"]),
        ("[get_weather(city='Oslo'), get_weather()]", vec!["{\"city\": \"Oslo\"}", "{}"]),
        ("[get_wether(city=Oslo)]", vec![]),
        ("[1, 2]", vec![]),
    ] {
        let whole = read(&reply, options.clone(), output, Stop::End);
        assert_eq!(arguments(&whole), expected, "{output}: {whole:?}");
        let mut reading = Reading::default();
        let mut parser = OutputParser::new(&reply, options.clone());
        for character in output.chars() {
            parser.push_text(character.encode_utf8(&mut [0; 4]), &mut |event| reading.add(&event));
        }
        parser.finish(Stop::End, &mut |event| reading.add(&event));
        assert_eq!(whole, reading, "{output}");
        if expected.is_empty() {
            assert_eq!(whole.content, output);
        }
    }
}

#[test]
fn a_backtick_before_another_mark_quotes_nothing() {
    let reading = read(&thinker(), ParseOptions::default(), "`<think></think>`b", Stop::End);
    assert_eq!((reading.content.as_str(), reading.reasoning.as_deref().unwrap_or_default()), ("``b", ""));
    // A control token closes reasoning even in backticks.
    let tokens = ["<think>", "</think>"].map(str::to_owned);
    let reply = Arc::new(Reply::with_tokens(&format(THINKER), &tokens));
    let mut reading = Reading::default();
    let mut parser = OutputParser::new(&reply, ParseOptions::default());
    for (piece, is_control) in [("<think>", true), ("a `", false), ("</think>", true), ("`b", false)] {
        parser.push_bytes(piece.as_bytes(), is_control, &mut |event| reading.add(&event));
    }
    parser.finish(Stop::End, &mut |event| reading.add(&event));
    assert_eq!((reading.content.as_str(), reading.reasoning.as_deref()), ("`b", Some("a `")));
}

#[test]
fn a_mark_that_closes_calls_does_so_once() {
    let source = rolecall_format::shared_calls().find(|(name, _)| *name == "id-and-json-between-marks").unwrap().1;
    let call = "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}<|tool_call_end|>";
    let close = "<|tool_calls_section_end|>";
    let output = format!("<|tool_calls_section_begin|>{call}{close}a{close}b");
    let reading = read(&Arc::new(Reply::new(&format(source))), ParseOptions::default(), &output, Stop::End);
    assert_eq!((reading.calls.len(), reading.content), (1, format!("a{close}b")));
}

#[test]
fn without_tools_an_object_is_a_call_only_where_nothing_was_said() {
    let call = "{\"name\": \"f\", \"parameters\": {}}";
    for (output, calls) in [(call.to_owned(), 1), (format!("See: {call}"), 0)] {
        let reading = read(&builtin("llama3.1"), ParseOptions::default(), &output, Stop::End);
        assert_eq!(reading.calls.len(), calls, "{output}");
        assert_eq!(reading.content, if calls == 0 { output.as_str() } else { "" });
    }
}

#[test]
fn a_turn_that_the_prompt_closed_is_gone_on_with() {
    let options =
        ParseOptions { prompt_tail: "<|im_start|>assistant\nYes.<|im_end|>".into(), ..ParseOptions::default() };
    let reading = read(&thinker(), options, "No.<|im_end|>", Stop::Length);
    assert_eq!((reading.content.as_str(), reading.stop, reading.malformed.len()), ("No.", Some(Stop::End), 0));
}

#[test]
fn text_behind_the_end_is_reported_and_not_part_of_the_answer() {
    let reading = read(&thinker(), ParseOptions::default(), "Hi.<|im_end|> \n more<|im_end|>\nand more", Stop::End);
    assert_eq!(reading.content, "Hi.");
    assert_eq!(reading.malformed, [rolecall_parse::Malformed { span: 16..39, why: Why::AfterEnd }]);
}
