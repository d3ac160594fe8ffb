//! How the assistant's layouts print calls, for formats that only describe replies.
#![expect(clippy::panic, reason = "a test fails by a panic, in its helpers too")]

use rolecall::conversation::{Conversation, Json, Message, json};
use rolecall::format::{Format, load};
use rolecall::render::{Options, Writer};
use rolecall::{Origin, Prompt};

/// Makes a format of these layouts and an assistant layout of only content and calls.
fn format(layouts: &str) -> Format {
    let file = format!(
        "part = \"reply\"\nname = \"test\"\n[layout]\nassistant = \"{{content}}[[|{{calls}}]]\"\ngenerate = \"\"\n{layouts}"
    );
    load(&file).unwrap_or_else(|error| panic!("{file}\n{error}"))
}

fn prompt(format: &Format, message: &str) -> Prompt {
    let Ok(Json::Object(message)) = json::parse(message) else { panic!("{message}") };
    let message = Message::from_object(message).expect("a message");
    Writer::format(format.clone(), Options::default())
        .render(&Conversation::new(vec![message]))
        .unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the text that a format with these layouts prints for calls of `f` with these arguments.
fn printed(layouts: &str, arguments: &[&str]) -> String {
    let calls = arguments.iter().enumerate().map(|(at, arguments)| {
        format!(r#"{{"id": "c{at}", "type": "function", "function": {{"name": "f", "arguments": {arguments}}}}}"#)
    });
    let calls = calls.collect::<Vec<_>>().join(", ");
    prompt(&format(layouts), &format!(r#"{{"role": "assistant", "tool_calls": [{calls}]}}"#))
        .text()
        .trim_start_matches('|')
        .to_owned()
}

const ARGUMENTS: &str = r#"{"city": "it's", "days": 1e16, "on": true, "tags": ["x", null], "deep": {}}"#;

#[test]
fn arguments_are_written_one_by_one() {
    let tags = "call = \"<f={name}>\\n{arguments}</f>\"\nargument = \"<p={key}>{value:CODEC}</p>\\n\"\nargument-string = \"<v={key}>{value}</v>\\n\"";
    let cases = [
        (
            "json",
            "<f=f>\n<v=city>it's</v>\n<p=days>1e16</p>\n<p=on>true</p>\n<p=tags>[\"x\", null]</p>\n<p=deep>{}</p>\n</f>",
        ),
        (
            "mixed",
            "<f=f>\n<v=city>it's</v>\n<p=days>1e+16</p>\n<p=on>True</p>\n<p=tags>[\"x\", null]</p>\n<p=deep>{}</p>\n</f>",
        ),
        (
            "literal",
            "<f=f>\n<v=city>it's</v>\n<p=days>1e+16</p>\n<p=on>True</p>\n<p=tags>['x', None]</p>\n<p=deep>{}</p>\n</f>",
        ),
    ];
    for (codec, text) in cases {
        assert_eq!(printed(&tags.replace("CODEC", codec), &[ARGUMENTS]), text);
        // JSON text gives the same.
        let quoted = json::write(&ARGUMENTS.into(), &json::Layout::default());
        assert_eq!(printed(&tags.replace("CODEC", codec), &[&quoted]), text);
    }
}

#[test]
fn what_stands_between_and_around_calls_is_written_once() {
    let layouts = "calls = \"<[{calls}]>\"\ncall = \"{name}({arguments})\"\ncall-separator = \", \"\nargument = \"{key}={value:python}\"\nargument-separator = \", \"";
    assert_eq!(
        printed(layouts, &[ARGUMENTS, "{}"]),
        "<[f(city=\"it's\", days=1e+16, on=True, tags=['x', None], deep={}), f()]>"
    );
    assert_eq!(printed(layouts, &[]), "");
}

#[test]
fn whole_arguments_have_their_syntaxes() {
    let cases = [
        ("{arguments:json}", r#"{"b": [1, {"c": "é"}], "a": 2}"#),
        ("{arguments:json(compact, sorted, ascii)}", r#"{"a":2,"b":[1,{"c":"\u00e9"}]}"#),
        ("{arguments:json-string}", r#""{\"b\": [1, {\"c\": \"é\"}], \"a\": 2}""#),
        ("{arguments:python}", "b=[1, {'c': 'é'}], a=2"),
        ("{arguments:marked(~)}", "{a:2,b:[1,{c:~é~}]}"),
        (
            "{arguments:json(indent=1, level=1)}",
            "{\n  \"b\": [\n   1,\n   {\n    \"c\": \"é\"\n   }\n  ],\n  \"a\": 2\n }",
        ),
    ];
    for (hole, text) in cases {
        assert_eq!(printed(&format!("call = '{hole}'"), &[r#"{"b": [1, {"c": "é"}], "a": 2}"#]), text, "{hole}");
    }
}

#[test]
fn a_section_is_written_where_the_text_needs_it() {
    let layouts = "call = '{arguments}'\nargument = '<{key}>{value:cdata}</{key}>'";
    assert_eq!(
        printed(layouts, &[r#"{"a": "x", "b": "1 < 2", "c": null}"#]),
        "<a>x</a><b><![CDATA[1 < 2]]></b><c>None</c>"
    );
}

#[test]
fn a_group_of_listed_arguments_is_there_when_there_are_any() {
    let layouts = "call = '{name}[[: {arguments}]]'\nargument = '{key}={value:json};'";
    assert_eq!(printed(layouts, &[r#"{"a": 1}"#]), "f: a=1;");
    assert_eq!(printed(layouts, &["{}"]), "f");
}

#[test]
fn every_piece_says_where_it_came_from() {
    let file = "part = 'reply'\nname = 'test'\n[control]\n'<|\"|>' = {}\n'<c>' = {}\n[layout]\ngenerate = ''\nassistant = '{content}{calls}'\ncalls = '<c>{calls}'\ncall = '{name}: {arguments:marked(<|\"|>)} {arguments}'\nargument = '{key}={value:json}'";
    let format = load(file).expect("the format loads");
    assert!(format.controls.iter().all(|control| control.emitted));
    let prompt = prompt(
        &format,
        r#"{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {"k": "v"}}}]}"#,
    );
    let found: Vec<(String, &str)> = prompt
        .segments()
        .map(|segment| {
            let origin = match segment.origin {
                Origin::Control(_) => "control".to_owned(),
                Origin::Format => "format".to_owned(),
                Origin::Message { field, .. } => field.into_owned(),
                other => format!("{other:?}"),
            };
            (origin, segment.text)
        })
        .collect();
    let expected = [
        ("control", "<c>"),
        ("tool_calls[0].function.name", "f"),
        ("format", ": "),
        ("tool_calls[0].function.arguments", "{k:"),
        ("control", "<|\"|>"),
        ("tool_calls[0].function.arguments", "v"),
        ("control", "<|\"|>"),
        ("tool_calls[0].function.arguments", "}"),
        ("format", " "),
        ("tool_calls[0].function.arguments", "k"),
        ("format", "="),
        ("tool_calls[0].function.arguments.k", "\"v\""),
    ];
    assert_eq!(found, expected.map(|(origin, text)| (origin.to_owned(), text)));
}

#[test]
fn foreign_ids_become_the_familys_own_with_their_results() {
    let conversation = r#"[
        {"role": "assistant", "tool_calls": [{"id": "call_abc-123456789", "function": {"name": "f"}}, {"id": "functions.g:1", "function": {"name": "g"}}]},
        {"role": "tool", "tool_call_id": "functions.g:1", "content": "1"},
        {"role": "tool", "tool_call_id": "call_abc-123456789", "content": "2"},
        {"role": "assistant", "tool_calls": [{"id": "call_abc-123456789", "function": {"name": "f"}}, {"function": {"name": "g"}}, {"id": "functions.g:0", "function": {"name": "f"}}]},
        {"role": "tool", "tool_call_id": "call_abc-123456789", "content": "3"},
        {"role": "tool", "tool_call_id": "abcdefgh9", "content": "4"}
    ]"#;
    let Ok(Json::Array(messages)) = json::parse(conversation) else { panic!("JSON") };
    let messages = messages.into_iter().map(|message| match message {
        Json::Object(message) => Message::from_object(message).unwrap_or_else(|error| panic!("{error}")),
        other => panic!("{other:?}"),
    });
    let conversation = Conversation::new(messages.collect());
    let cases = [
        (
            "any",
            "#call_abc-123456789,functions.g:1,|functions.g:1=1|call_abc-123456789=2|#call_abc-123456789,,functions.g:0,|call_abc-123456789=3|abcdefgh9=4|",
        ),
        (
            "functions.{name}:{index}",
            "#functions.f:0,functions.g:1,|functions.g:1=1|functions.f:0=2|#functions.f:2,functions.g:3,functions.f:4,|functions.f:2=3|abcdefgh9=4|",
        ),
        (
            "nine-characters",
            "#123456789,nctionsg1,|nctionsg1=1|123456789=2|#call00002,call00003,nctionsg0,|call00002=3|abcdefgh9=4|",
        ),
    ];
    for (rule, text) in cases {
        let file = format!(
            "part = 'reply'\nname = 'test'\n[rules]\ncall-ids = '{rule}'\n[layout]\nassistant = '{{content}}[[#{{calls}}|]]'\ncall = '[[{{id}}]],'\ntool = '{{id}}={{content}}|'\ngenerate = ''"
        );
        let format = load(&file).unwrap_or_else(|error| panic!("{error}"));
        let prompt = Writer::format(format.clone(), Options::default())
            .render(&conversation)
            .unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(prompt.text(), text, "{rule}");
    }
}

#[test]
fn layouts_that_would_lose_something_are_refused() {
    let cases = [
        ("call = '{arguments}'", "there is no layout for one argument"),
        ("call = '{arguments:json}'\nargument = '{key}={value:json}'", "`argument` is never used"),
        ("call = '{arguments}'\nargument = '{key}'", "`argument` has no `{value}`"),
        ("calls = 'x'\ncall = '{name}'", "`calls` has no `{calls}`"),
        ("calls = '{calls}'", "there is no layout for a call"),
        ("call = '{arguments}'\nargument = '{key}{value:json}'", "nothing separates two values"),
        ("call = '{arguments:mixed}'", "does not take this codec"),
        ("call = '{name}{arguments:json(tall)}'", "is not a codec"),
    ];
    for (layouts, message) in cases {
        let file = format!(
            "part = 'reply'\nname = 'test'\n[layout]\nassistant = '{{content}}|{{calls}}'\ngenerate = ''\n{layouts}"
        );
        let error = load(&file).expect_err(layouts).to_string();
        assert!(error.contains(message), "{layouts}\n{error}");
    }
}
