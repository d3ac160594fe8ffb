//! Small things at the edges. For each of them, a planted bug once passed all tests
//! (`cargo xtask mutants`).

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::sync::Arc;

use rolecall::Origin;
use rolecall::conversation::{Conversation, Json, Message, json};
use rolecall::encode::{AddSpecial, Encoder, Growing, Protection};
use rolecall::format::{Format, load, write_reply};
use rolecall::render::{Error as RenderError, Options, Writer};
use rolecall::template::{Capability, ChatTemplate, Support, TemplateOptions, analyze_template};
use rolecall::tokenizer::HuggingFace;
use rolecall_testkit::Toy;

const TINY: &str = r#"
name  = "tiny"
title = "Tiny"

[sources]
layout = "made for this test"

[control]
"<|im|>" = {}
"</s>"   = { ends_turn = true }

[layout]
system    = "<|im|>system\n{content}</s>\n"
user      = "<|im|>user\n{content}</s>\n"
assistant = "<|im|>assistant\n{content}</s>\n"
tool      = "<|im|>tool\n{content}</s>\n"
generate  = "<|im|>assistant\n"
"#;

fn tiny(from: &str, to: &str) -> Format {
    let text = TINY.replace(from, to);
    load(&text).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

#[test]
fn a_part_is_that_of_its_own_message_wherever_it_is_written() {
    let parts = r#"[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]"#;
    let conversation = |system: &str| {
        let text = format!(
            r#"{{"messages": [{{"role": "system", "content": {system}}}, {{"role": "user", "content": {parts}}}, {{"role": "assistant", "content": "c"}}]}}"#
        );
        Conversation::from_json(json::parse(&text).unwrap()).unwrap()
    };
    let messages = |format: &Format, conversation: &Conversation| {
        let prompt = Writer::format(format.clone(), Options::default()).render(conversation).unwrap();
        let written =
            prompt.segments().filter_map(|segment| Some((segment.text.to_owned(), segment.origin.message()?)));
        written.collect::<Vec<_>>()
    };
    // Several messages in one turn, and a system message inside the user's turn.
    let answered = "part-text = \"<{content}>\"\ngenerate  = \"<|im|>assistant\\n\"\n[rules]\nturns = \"answered\"";
    let answered = tiny("generate  = \"<|im|>assistant\\n\"", answered);
    let expected = [("S", 0), ("a", 1), ("b", 1), ("c", 2)].map(|(text, message)| (text.to_owned(), message));
    assert_eq!(messages(&answered, &conversation("\"S\"")), expected);
    let folded =
        TINY.replace("user      = ", "part-text = \"<{content}>\"\nfolded = \"[[{system}\\n]]{content}\"\nuser = ");
    let folded = folded.replace("user\\n{content}", "user\\n{folded}").replace("system    =", "# ")
        + "[rules]\nsystem = \"fold\"\n";
    let folded = load(&folded).unwrap_or_else(|error| panic!("{folded}\n{error}"));
    let expected = [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("c", 2)].map(|(text, message)| (text.to_owned(), message));
    assert_eq!(messages(&folded, &conversation(parts)), expected);
}

fn message(text: &str) -> Message {
    let Json::Object(object) = json::parse(text).unwrap() else { panic!("not an object: {text}") };
    Message::from_object(object).unwrap()
}

#[test]
fn a_tools_result_follows_a_call_or_a_field_that_stands_for_one() {
    let rules = "[fields]\nmetadata = \"what is called\"\n\n[rules]\ntool = \"after-call\"\n\n[layout]\n";
    let format = tiny("[layout]\n", rules);
    let refusal = |assistant: &str| {
        let messages = [r#"{"role": "user", "content": "Hi"}"#, assistant, r#"{"role": "tool", "content": "1"}"#];
        let conversation = Conversation::new(messages.into_iter().map(message).collect());
        match Writer::format(format.clone(), Options::default()).render(&conversation) {
            Ok(_) => None,
            Err(RenderError::Rule { message, rule, .. }) => Some((message, rule)),
            Err(other) => Some((usize::MAX, other.code())),
        }
    };
    assert_eq!(refusal(r#"{"role": "assistant", "content": "a"}"#), Some((2, "tool")));
    assert_eq!(refusal(r#"{"role": "assistant", "content": "a", "metadata": ""}"#), Some((2, "tool")));
    assert_ne!(refusal(r#"{"role": "assistant", "content": "a", "metadata": "get"}"#), Some((2, "tool")));
}

#[test]
fn folded_text_needs_both_of_its_parts() {
    let folding = |folded: &str| {
        let text = TINY
            .replace("system    = \"<|im|>system\\n{content}</s>\\n\"\n", &format!("folded = \"{folded}\"\n"))
            .replace("user\\n{content}", "user\\n{folded}")
            .replace("[layout]", "[rules]\nsystem = \"fold\"\n\n[layout]");
        load(&text).err().map(|error| error.to_string())
    };
    assert_eq!(folding("[[{system}\\n\\n]]{content}"), None);
    for folded in ["{content}", "[[{system}\\n\\n]]"] {
        assert!(folding(folded).is_some_and(|error| error.contains("needs both")), "{folded}");
    }
}

#[test]
fn an_option_without_values_is_written_without_them() {
    let options = "[options]\ndate = { default = \"now\", help = \"the date\" }\nway = { default = \"a\", values = [\"a\", \"b\"], help = \"the way\" }\n\n[layout]\n";
    let format = load(&TINY.replace("[layout]\n", options).replace("system\\n", "system {date}\\n")).unwrap();
    let written = write_reply(&format);
    assert!(written.contains("date = { default = \"now\", help = \"the date\" }"), "{written}");
    assert!(written.contains("way = { default = \"a\", values = [\"a\", \"b\"], help = \"the way\" }"), "{written}");
}

#[test]
fn the_tokens_around_a_text_cover_none_of_it() {
    let file = r#"{"added_tokens": [
        {"id": 1, "content": "<s>", "special": true, "normalized": false, "lstrip": false, "rstrip": false, "single_word": false},
        {"id": 2, "content": "</s>", "special": true, "normalized": false, "lstrip": false, "rstrip": false, "single_word": false}],
      "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}], "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}, "</s>": {"id": "</s>", "ids": [2], "tokens": ["</s>"]}}},
      "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}"#;
    let tokenizer = Arc::new(HuggingFace::from_bytes(file.as_bytes(), None).unwrap());
    let template = ChatTemplate::compile("{{ messages[0].content }}", Vec::new()).unwrap();
    let protection = Protection::default().with_template("default", &template);
    let encoder = Encoder::new(&protection, tokenizer).unwrap().adding(AddSpecial::Missing);
    let mut conversation = Conversation::new(vec![Message::user("aa")]);
    conversation.add_generation_prompt = Some(false);
    let prompt = Writer::template(template.clone(), TemplateOptions::default()).render(&conversation).unwrap();
    let encoded = encoder.encode(&prompt).unwrap();
    let spans: Vec<(u32, usize, usize)> =
        encoded.tokens.iter().map(|token| (token.id, token.start, token.end)).collect();
    assert_eq!(spans, [(1, 0, 0), (0, 0, 1), (0, 1, 2), (2, 2, 2)]);
}

#[test]
fn reasoning_that_a_template_reads_by_another_name_keeps_its_own() {
    let template = ChatTemplate::compile("{{ messages[0].reasoning_content }}|", Vec::new()).unwrap();
    let message = message(r#"{"role": "assistant", "content": "a", "reasoning": "why"}"#);
    let mut conversation = Conversation::new(vec![message]);
    conversation.add_generation_prompt = Some(false);
    let prompt = Writer::template(template.clone(), TemplateOptions::default()).render(&conversation).unwrap();
    assert_eq!(prompt.text(), "why|");
    assert_eq!(prompt.origin_at(0), Some(Origin::Message { message: 0, field: "reasoning".into() }));
}

#[test]
fn mistakes_of_a_file_are_joined_and_nothing_stands_before_the_first() {
    let error = load(&TINY.replace("title", "titel").replace("user ", "usr ")).unwrap_err();
    assert!(error.diagnostics.len() > 1);
    let messages: Vec<&str> = error.diagnostics.iter().map(|mistake| mistake.message.as_str()).collect();
    assert_eq!(error.to_string(), messages.join("; "));
}

#[test]
fn indentation_has_an_end() {
    let tools = r#"tools = "<|im|>tools\n{functions:json(indent=4)}</s>\n""#;
    let calls = r#"call = "{name}({arguments:json(indent=4)})""#;
    let source = TINY.replace("tool      =", &format!("{tools}\n{calls}\ntool      ="));
    let source = source.replace("im|>assistant\\n{content}</s>", "im|>assistant\\n{content}<call>{calls}</s>");
    let format = load(&source).unwrap_or_else(|error| panic!("{source}\n{error}"));
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let deep = nested(180);
    let render_json = |text: &str| {
        Writer::format(format.clone(), Options::default())
            .render(&Conversation::from_json(json::parse(text).unwrap()).unwrap())
    };
    let with_tools = |count: usize| {
        let tool = format!(r#"{{"type":"function","function":{{"name":"f","parameters":{{"x":{deep}}}}}}}"#);
        let tools = vec![tool; count].join(",");
        render_json(&format!(r#"{{"messages":[{{"role":"user","content":"x"}}],"tools":[{tools}]}}"#))
    };
    let with_calls = |count: usize, as_text: bool| {
        let arguments = format!(r#"{{"x":{deep}}}"#);
        let arguments = if as_text { format!("\"{}\"", arguments.replace('"', "\\\"")) } else { arguments };
        let call = format!(r#"{{"type":"function","function":{{"name":"f","arguments":{arguments}}}}}"#);
        let calls = vec![call; count].join(",");
        let user = r#"{"role":"user","content":"x"}"#;
        render_json(&format!(r#"{{"messages":[{user},{{"role":"assistant","content":"","tool_calls":[{calls}]}}]}}"#))
    };
    assert!(with_tools(100).unwrap().text().len() > 10 << 20);
    let error = with_tools(200).unwrap_err();
    assert_eq!(error.code(), "too_much_indentation");
    assert!(error.place().is_some_and(|place| place.field.starts_with("tools[1")), "{error}");
    for as_text in [true, false] {
        assert!(with_calls(100, as_text).unwrap().text().len() > 10 << 20);
        let error = with_calls(200, as_text).unwrap_err();
        assert_eq!(error.code(), "too_much_indentation");
        assert!(error.to_string().starts_with("message 1, tool_calls[1"), "{error}");
    }
}

#[test]
fn what_is_cut_off_was_not_generated() {
    let source = "u{% generation %}abcdef{% endgeneration %}z{% generation %}gh{% endgeneration %}";
    let template = ChatTemplate::compile(source, Vec::new()).unwrap();
    let conversation = Conversation::new(vec![Message::user("x")]);
    let prompt = Writer::template(template.clone(), TemplateOptions::default()).render(&conversation).unwrap();
    assert_eq!(prompt.generated, [1..7, 8..10]);
    for (end, left) in [(10, vec![(1, 7), (8, 10)]), (8, vec![(1, 7)]), (4, vec![(1, 4)]), (1, vec![])] {
        let cut = prompt.up_to(end).unwrap();
        let generated: Vec<_> = cut.generated.iter().map(|span| (span.start, span.end)).collect();
        assert_eq!(generated, left, "{end}");
    }
}

#[test]
fn a_rule_against_system_messages_and_a_layout_for_them_contradict_each_other() {
    let error = load(&TINY.replace("[layout]", "[rules]\nsystem = \"none\"\n\n[layout]")).unwrap_err();
    assert!(error.to_string().contains("contradict each other"), "{error}");
}

#[test]
fn what_has_no_place_is_refused_wherever_it_stands() {
    let calls = r#"call = "{name}({arguments:json})""#;
    let source = TINY.replace("im|>assistant\\n{content}</s>", "im|>assistant\\n{content}<call>{calls}</s>");
    let source =
        source.replace("tool      =", &format!("{calls}\ntool-group = \"<|im|>tools\\n{{results}}</s>\"\ntool      ="));
    let format = load(&source).unwrap_or_else(|error| panic!("{source}\n{error}"));
    let asked = |last: &str| {
        let user = message(r#"{"role": "user", "content": "x"}"#);
        let call = message(
            r#"{"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {}}}]}"#,
        );
        let conversation = Conversation::new(vec![user, call, message(last)]);
        Writer::format(format.clone(), Options::default())
            .render(&conversation)
            .map_err(|error| (error.code(), error.place().unwrap().field))
    };
    assert!(asked(r#"{"role": "tool", "content": "y"}"#).is_ok());
    let image = r#"{"role": "tool", "content": [{"type": "image_url", "image_url": {"url": "z"}}]}"#;
    assert_eq!(asked(image).unwrap_err(), ("no_place", "content[0]".into()));
    let code = r#"{"role": "assistant", "content": "", "tool_calls": [{"type": "code_interpreter", "code_interpreter": {"input": "1"}}]}"#;
    let conversation = Conversation::new(vec![message(r#"{"role": "user", "content": "x"}"#), message(code)]);
    let error = Writer::format(format.clone(), Options::default()).render(&conversation).unwrap_err();
    assert_eq!((error.code(), error.place().unwrap().field), ("no_place", "tool_calls[0]".into()));
}

#[test]
fn an_option_that_takes_any_text_says_so() {
    let error = |known: Vec<String>| RenderError::BadOption { name: "n".into(), value: "1".into(), known }.help();
    assert_eq!(error(Vec::new()), "pass a string");
    assert_eq!(error(vec!["a".into(), "b".into()]), "use one of `a`, `b`");
}

#[test]
fn a_template_that_prints_the_first_call_alone_takes_no_parallel_calls() {
    let support = |calls: &str| {
        let source = format!("{{% for m in messages %}}{{{{ m.role }}}}:{{{{ m.content }}}}{calls}\n{{% endfor %}}");
        let template = ChatTemplate::compile(&source, Vec::new()).unwrap();
        let analysis = analyze_template(&template, &TemplateOptions::default()).unwrap();
        let of =
            |wanted| analysis.support.iter().find(|(known, _)| *known == wanted).map(|(_, support)| support.clone());
        (of(Capability::ToolCalls).unwrap(), of(Capability::ParallelToolCalls).unwrap())
    };
    let each = "{% for c in m.tool_calls or [] %}{{ c.function.name }}{{ c.function.arguments }}{% endfor %}";
    let first =
        "{% if m.tool_calls %}{{ m.tool_calls[0].function.name }}{{ m.tool_calls[0].function.arguments }}{% endif %}";
    assert_eq!(support(each), (Support::Yes, Support::Yes));
    assert_eq!(support(first), (Support::Yes, Support::No));
}

#[test]
fn a_switch_of_words_has_no_default_that_is_a_flag() {
    let source = "{{ messages[0].content }}{% if effort == 'high' %}!{% endif %}{% if effort %}.{% endif %}{% if loud is true %}?{% endif %}";
    let template = ChatTemplate::compile(source, Vec::new()).unwrap();
    let analysis = analyze_template(&template, &TemplateOptions::default()).unwrap();
    let found: Vec<_> =
        analysis.switches.iter().map(|switch| (switch.name.as_str(), switch.default.is_some())).collect();
    assert_eq!(found, [("effort", false), ("loud", true)]);
}

#[test]
fn a_switch_that_is_assigned_its_own_value_is_the_caller_s() {
    let names = |start: &str| {
        let source = format!("{start}{{{{ messages[0].content }}}}{{% if loud %}}!{{% endif %}}");
        let template = ChatTemplate::compile(&source, Vec::new()).unwrap();
        let analysis = analyze_template(&template, &TemplateOptions::default()).unwrap();
        analysis.switches.into_iter().map(|switch| switch.name).collect::<Vec<_>>()
    };
    assert_eq!(names("{% set loud = loud | default(true) %}"), ["loud"]);
    assert_eq!(names("{% set loud = loud if loud is defined else true %}"), ["loud"]);
    assert_eq!(names("{% set loud = true %}"), [""; 0]);
    assert_eq!(names("{% set loud = quiet is not defined %}"), ["quiet"]);
}

#[test]
fn runs_that_are_put_together_have_the_spans_of_their_texts() {
    let format = tiny("", "");
    let tokenizer = Arc::new(Toy::of(&format));
    let encoder = Encoder::new(&Protection::default().with_format(&format), tokenizer).unwrap();
    let prompt = Writer::format(format.clone(), Options::default())
        .render(&Conversation::new(vec![Message::user("é")]))
        .unwrap();
    let (encoded, again) = (encoder.encode(&prompt).unwrap(), encoder.encode_runs(prompt.runs()).unwrap());
    assert_eq!(again.tokens, encoded.tokens);
    let first = &encoded.tokens[0];
    assert_eq!((&prompt.text()[first.start..first.end], first.control), ("<|im|>", true));
    assert_eq!(Growing::new(Arc::new(encoder)).kept(), 0);
}

#[test]
fn the_first_user_message_alone_is_written_as_the_first() {
    let source = TINY.replace("[layout]", "[rules]\nturns = \"answered\"\n\n[layout]");
    let source = source.replace("user      =", "user-first = \"<|im|>first\\n{content}</s>\\n\"\nuser      =");
    let format = load(&source).unwrap_or_else(|error| panic!("{source}\n{error}"));
    let turns = [Message::user("a"), Message::assistant("b"), Message::user("c"), Message::assistant("d")];
    let prompt = Writer::format(format.clone(), Options::default()).render(&Conversation::new(turns.to_vec())).unwrap();
    assert!(
        prompt.text().starts_with("<|im|>first\na</s>\n<|im|>assistant\nb</s>\n<|im|>user\nc</s>\n"),
        "{}",
        prompt.text()
    );
}
