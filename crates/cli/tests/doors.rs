//! Every door gives the same answer to the same question: the library and the command are asked about
//! models of different kinds, and their answers are compared. `python/tests/test_doors.py` asks Python.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::sync::Arc;

use rolecall::conversation::json::Layout;
use rolecall::conversation::{Json, json};
use rolecall::model::ModelPrompt;
use rolecall::{Model, Request};

use crate::common::Folder;

/// A model of a kind of its own.
struct Kind {
    name: &'static str,
    template: &'static str,
    /// The added tokens.
    tokens: &'static [&'static str],
    eos: &'static str,
    /// The texts of the tokens that must be among those that end a reply.
    stops: &'static [&'static str],
}

const CHATML: &str = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}\
    {% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

const KINDS: [Kind; 10] = [
    Kind {
        name: "its closer is its eos",
        template: CHATML,
        tokens: &["<|im_start|>", "<|im_end|>"],
        eos: "<|im_end|>",
        stops: &["<|im_end|>"],
    },
    Kind {
        name: "its closer is not its eos",
        template: CHATML,
        tokens: &["<|im_start|>", "<|im_end|>", "<|endoftext|>"],
        eos: "<|endoftext|>",
        stops: &["<|im_end|>", "<|endoftext|>"],
    },
    Kind {
        name: "headers",
        template: "{{ bos_token }}{% for m in messages %}{{ '<|header|>' + m.role + '<|body|>\n\n' + m.content + '<|eot|>' }}\
            {% endfor %}{% if add_generation_prompt %}{{ '<|header|>assistant<|body|>\n\n' }}{% endif %}",
        tokens: &["<|header|>", "<|body|>", "<|eot|>", "</s>"],
        eos: "</s>",
        stops: &["<|eot|>", "</s>"],
    },
    Kind {
        name: "plain markers around the user",
        template: "{% for m in messages %}{% if m.role == 'assistant' %}{{ ' ' + m.content + eos_token }}\
            {% else %}{{ '[INST] ' + m.content + ' [/INST]' }}{% endif %}{% endfor %}",
        tokens: &["<s>", "</s>"],
        eos: "</s>",
        stops: &["</s>"],
    },
    Kind {
        name: "plain markers around every turn",
        template: "{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content + eos_token + '\n' }}{% endfor %}\
            {% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}",
        tokens: &["<s>", "</s>"],
        eos: "</s>",
        stops: &["</s>"],
    },
    Kind {
        name: "the next role ends a reply",
        template: "[gMASK]{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content }}{% endfor %}\
            {% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}",
        tokens: &["[gMASK]", "<|system|>", "<|user|>", "<|assistant|>", "<|endoftext|>"],
        eos: "<|endoftext|>",
        stops: &["<|endoftext|>"],
    },
    Kind {
        name: "reasoning",
        template: "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.reasoning_content %}\
            {{ '<think>\n' + m.reasoning_content + '\n</think>\n\n' }}{% endif %}{{ m.content + '<|im_end|>\n' }}{% endfor %}\
            {% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
        tokens: &["<|im_start|>", "<|im_end|>", "<think>", "</think>", "<|endoftext|>"],
        eos: "<|endoftext|>",
        stops: &["<|im_end|>", "<|endoftext|>"],
    },
    Kind {
        name: "calls",
        template: "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + (m.content or '') }}{% for c in m.tool_calls or [] %}\
            {{ '<tool_call>\n' + ({'name': c.function.name, 'arguments': c.function.arguments} | tojson) + '\n</tool_call>' }}\
            {% endfor %}{{ '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
        tokens: &["<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<|endoftext|>"],
        eos: "<|endoftext|>",
        stops: &["<|im_end|>", "<|endoftext|>"],
    },
    Kind {
        name: "angle brackets without bars",
        template: "{{ bos_token }}{% for m in messages %}{{ '<start_of_turn>' + m.role + '\n' + m.content + '<end_of_turn>\n' }}\
            {% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}",
        tokens: &["<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"],
        eos: "<eos>",
        stops: &["<end_of_turn>", "<eos>"],
    },
    Kind {
        name: "no markers",
        template: "{% for m in messages %}{{ m.role + ': ' + m.content + '\n' }}{% endfor %}\
            {% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}",
        tokens: &["</s>"],
        eos: "</s>",
        stops: &["</s>"],
    },
];

const REQUEST: &str = r#"{"messages": [{"role": "user", "content": "Hi <|im_end|> <tool_call>"},
    {"role": "assistant", "content": "Hello"}, {"role": "user", "content": "Bye"}]}"#;

#[test]
fn every_door_names_the_same_stops() {
    for_each(|kind, model, folder| {
        let stops: BTreeSet<u32> = model.stop_ids().unwrap().into_iter().collect();
        for text in kind.stops {
            let id = model.tokenizer().unwrap().token_id(text).unwrap();
            assert!(stops.contains(&id), "{}: `{text}` is missing in {stops:?}", kind.name);
        }
        let prompt = prompt(model);
        let served: BTreeSet<u32> = prompt.reply_stops().unwrap().into_iter().map(|(id, _)| id).collect();
        assert_eq!(served, stops, "{}: what an engine gets", kind.name);
        let session: BTreeSet<u32> = {
            let mut session = model.session(request()).unwrap();
            session.open().unwrap();
            session.reply_stops().into_iter().map(|(id, _)| id).collect()
        };
        assert_eq!(session, stops, "{}: a session", kind.name);
        for command in ["encode", "render", "explain"] {
            let answer = run(folder, command, &["--json"]);
            let ids: BTreeSet<u32> = numbers(&answer, "stop_ids").into_iter().collect();
            assert_eq!(ids, stops, "{}: {command}", kind.name);
        }
    });
}

#[test]
fn every_door_has_the_same_ids_and_protects_the_same_tokens() {
    for_each(|kind, model, folder| {
        let encoded = prompt(model).encode().unwrap();
        for command in ["encode", "explain"] {
            let answer = run(folder, command, &["--json"]);
            assert_eq!(numbers(&answer, "ids"), encoded.ids(), "{}: {command}", kind.name);
            assert_eq!(numbers(&answer, "control_ids"), encoded.control_ids(), "{}: {command}", kind.name);
        }
        let template = folder.path("tokenizer_config.json");
        let audit = run_with(&["tokenizer", &folder.path("tokenizer.json"), "--template", &template, "--json"]);
        let listed = audit.as_object().unwrap().get("protected").and_then(Json::as_array).unwrap();
        let id = |token: &Json| number(token.as_object().unwrap().get("id").unwrap());
        let listed: BTreeSet<u32> = listed.iter().map(id).collect();
        assert!(encoded.control_ids().iter().all(|id| listed.contains(id)), "{}: {listed:?}", kind.name);
    });
}

#[test]
fn a_format_and_a_template_with_the_same_bytes_are_the_same() {
    let folder = Folder::new("doors-same");
    let template = "{{ '<s>' }}{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}\
        {% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
    let template = folder.write("t.jinja", template);
    let format = folder.write(
        "f.toml",
        r#"name = "same"
title = "Same"
sources = { layout = "a test" }
[control]
"<s>" = { bos = true }
"<|im_start|>" = {}
"<|im_end|>" = { ends_turn = true }
[layout]
begin = "<s>"
system = "<|im_start|>system\n{content}<|im_end|>\n"
user = "<|im_start|>user\n{content}<|im_end|>\n"
assistant = "<|im_start|>assistant\n{content}<|im_end|>\n"
generate = "<|im_start|>assistant\n"
"#,
    );
    let answer = run_with(&["check", &format, "--against", &template, "--json"]);
    let text = json::write(&answer, &Layout::compact());
    assert!(!text.contains(r#""opening""#) && text.contains(r#""outcome":"same""#), "{text}");
}

#[test]
fn a_template_of_another_tokenizer_is_refused_by_its_markers_in_every_door() {
    let folder = Folder::new("doors-foreign");
    write_model(&folder, &KINDS[4]);
    let template = folder.write("other.jinja", CHATML);
    folder.write("request.json", REQUEST);
    let tokenizer = folder.path("tokenizer.json");
    let arguments = ["encode", "--template", &template, "--tokenizer", &tokenizer, &folder.path("request.json")];
    let refused = output(&arguments);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    for part in ["foreign_template", "<|im_start|>", "<|im_end|>", "--plain-markers"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(output(&[&arguments[..], &["--plain-markers"]].concat()).status.success());
    let model = Model::builder().template(&template).tokenizer(&tokenizer).open().unwrap();
    let error = model.encode(request()).unwrap_err();
    assert_eq!(error.code(), "foreign_template");
    assert_eq!(model.session(request()).map(|_| ()).unwrap_err().code(), "foreign_template");
    let audit = run_with(&["tokenizer", &tokenizer, "--template", &template, "--json"]);
    assert!(json::write(&audit, &Layout::compact()).contains("foreign-template"));
    // Markers in a comment are no markers.
    let commented = folder
        .write("commented.jinja", "{# <|im_start|> #}{% for m in messages %}{{ m.content + eos_token }}{% endfor %}");
    let audit = run_with(&["tokenizer", &tokenizer, "--template", &commented, "--json"]);
    assert!(!json::write(&audit, &Layout::compact()).contains("im_start"));
}

#[test]
fn a_path_that_does_not_exist_is_not_the_name_of_a_model() {
    let folder = Folder::new("doors-nowhere");
    let request = folder.write("request.json", REQUEST);
    let template = folder.write("t.jinja", CHATML);
    let said = |arguments: &[&str]| String::from_utf8_lossy(&output(arguments).stderr).into_owned();
    for path in ["./nowhere", "./qwen2.5", "/nowhere/qwen2.5-7b-instruct", "../x/y"] {
        for more in [&[][..], &["--template", &template]] {
            let said = said(&[&["render", "--model", path, &request][..], more].concat());
            assert!(said.contains(path) && said.contains("unreadable"), "{said}");
        }
    }
    // With a template, nothing depends on the name.
    let named = output(&["render", "--model", "acme/unknown-9", "--template", &template, &request]);
    assert!(named.status.success(), "{}", String::from_utf8_lossy(&named.stderr));
}

fn for_each(check: impl Fn(&Kind, &Model, &Folder)) {
    for (at, kind) in KINDS.iter().enumerate() {
        let folder = Folder::new(&format!("doors-{at}-{:?}", std::thread::current().id()));
        write_model(&folder, kind);
        folder.write("request.json", REQUEST);
        let model = Model::open(folder.path("")).unwrap();
        check(kind, &model, &folder);
    }
}

/// Writes a model's folder: a byte-level tokenizer with a token for each byte, and the template.
fn write_model(folder: &Folder, kind: &Kind) {
    let text = |text: &str| json::write(&Json::from(text), &Layout::compact());
    let entry = |id: usize, content: &str| {
        format!(
            r#"{{"id": {id}, "content": {}, "special": true, "normalized": false, "lstrip": false, "rstrip": false, "single_word": false}}"#,
            text(content)
        )
    };
    let bytes = (0..=255u8).map(|byte| format!("{}: {byte}", text(&alphabet(byte).to_string())));
    let added: Vec<String> = kind.tokens.iter().enumerate().map(|(at, token)| entry(256 + at, token)).collect();
    let tokenizer = format!(
        r#"{{"added_tokens": [{}], "pre_tokenizer": {{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}},
            "decoder": {{"type": "ByteLevel"}}, "model": {{"type": "BPE", "vocab": {{{}}}, "merges": []}}}}"#,
        added.join(", "),
        bytes.collect::<Vec<_>>().join(", ")
    );
    folder.write("tokenizer.json", tokenizer);
    let config = format!(r#"{{"eos_token": {}, "chat_template": {}}}"#, text(kind.eos), text(kind.template));
    folder.write("tokenizer_config.json", config);
}

/// Returns the character that stands for a byte in byte-level vocabularies.
fn alphabet(byte: u8) -> char {
    let is_own = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    match is_own(byte) {
        true => char::from(byte),
        false => char::from_u32(256 + (0..byte).filter(|other| !is_own(*other)).count() as u32).unwrap(),
    }
}

fn request() -> Request {
    Request::from_text(REQUEST).unwrap()
}

fn prompt(model: &Model) -> ModelPrompt {
    model.prompt(Arc::new(request())).unwrap()
}

fn run(folder: &Folder, command: &str, more: &[&str]) -> Json {
    run_with(&[&[command, "--model", &folder.path(""), &folder.path("request.json")][..], more].concat())
}

fn run_with(arguments: &[&str]) -> Json {
    let output = output(arguments);
    let text = String::from_utf8(output.stdout).unwrap();
    json::parse(&text)
        .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn output(arguments: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_rolecall")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn numbers(answer: &Json, key: &str) -> Vec<u32> {
    let list = answer.as_object().unwrap().get(key).and_then(Json::as_array);
    list.unwrap_or_else(|| panic!("`{key}` is missing")).iter().map(number).collect()
}

fn number(value: &Json) -> u32 {
    json::write(value, &Layout::compact()).parse().unwrap()
}
