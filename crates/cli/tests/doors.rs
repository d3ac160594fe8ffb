//! The command gives the library's answers about models of different kinds, which `fixtures/doors` has.
//! `gateway/tests/doors.rs` asks by HTTP, and `python/tests/test_doors.py` asks Python.

use std::ffi::OsStr;
use std::fmt::Debug;
use std::path::Path;
use std::process::{Command, Stdio};

use rolecall::conversation::json::{Layout, Object};
use rolecall::conversation::{Json, json};
use rolecall::{Model, Request};
use rolecall_testkit::doors::{ANALYSIS, DoorCase, DoorReply, lines, part, reading, sorted};

use crate::common::Folder;

const CHATML: &str = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}\
    {% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

const REQUEST: &str = r#"{"messages": [{"role": "user", "content": "Hi <|im_end|> <tool_call>"},
    {"role": "assistant", "content": "Hello"}, {"role": "user", "content": "Bye"}]}"#;

/// The verbs that show a prompt.
const OF_PROMPTS: [&str; 3] = ["render", "encode", "explain"];

#[test]
fn every_verb_names_the_same_stops() {
    for_each(|case, folder| {
        for verb in OF_PROMPTS {
            case.same(verb, "stops", &sorted(numbers(&ask(folder, verb, &["request-0.json"]), "stop_ids")));
        }
    });
}

#[test]
fn the_audit_lists_the_protected_tokens() {
    for_each(|case, folder| {
        let config = folder.path("tokenizer_config.json");
        let audit = run(&["tokenizer", &folder.path("tokenizer.json"), "--template", &config, "--json"]);
        let listed = items(&audit, "protected").iter().map(|token| number(field(token, "id").unwrap()));
        case.same("tokenizer", "protected", &sorted(listed));
    });
}

#[test]
fn every_verb_has_the_same_prompts_and_ids() {
    for_each(|case, folder| {
        let requests: Vec<String> = (0..case.requests().len()).map(|at| format!("request-{at}.json")).collect();
        for verb in ["encode", "explain"] {
            let asked = requests.iter().map(|request| part(&ask(folder, verb, &[request]), &PROMPT));
            case.same(verb, "prompts", &lines(asked));
        }
        let rows = json_lines(&output(&["encode", "--model", &folder.path(""), "--jsonl", &folder.path("all.jsonl")]));
        case.same("encode --jsonl", "prompts", &lines(rows.iter().map(|row| part(row, &PROMPT))));
        for (at, request) in requests.iter().enumerate() {
            let library = json::parse(case.fixture.needed("prompts").lines().nth(at).unwrap()).unwrap();
            let rendered = ask(folder, "render", &[request]);
            assert_eq!(field(&rendered, "prompt"), field(&library, "prompt"), "{}: render {request}", case.name());
            let script = format!("{}\n{{\"open\": true}}\n", case.requests()[at]);
            let script = folder.write("script.jsonl", script);
            let steps = json_lines(&output(&["session", "--model", &folder.path(""), "--json", &script]));
            assert_eq!(field(&steps[1], "ids"), field(&library, "ids"), "{}: session {request}", case.name());
        }
    });
}

#[test]
fn every_verb_accounts_for_the_request_alike() {
    for_each(|case, folder| {
        let library: Vec<Json> =
            case.fixture.needed("accounts").lines().map(|line| json::parse(line).unwrap()).collect();
        let jsonl = |verb| {
            let rows = output(&[verb, "--model", &folder.path(""), "--jsonl", &folder.path("all.jsonl")]);
            json_lines(&rows)
        };
        let (rendered, encoded) = (jsonl("render"), jsonl("encode"));
        for (at, library) in library.iter().enumerate() {
            // An account of which nothing is to be told is not printed.
            let has_forms = |library: &Json| field(library, "forms").is_some();
            let told = Some(library).filter(|library| !items(library, "leaves").is_empty() || has_forms(library));
            let place = |door: &str| format!("{}: {door} of request {at}", case.name());
            for verb in OF_PROMPTS {
                let answer = ask(folder, verb, &[&format!("request-{at}.json")]);
                assert_eq!(field(&answer, "account"), told, "{}", place(verb));
            }
            assert_eq!(field(&rendered[at], "account"), told, "{}", place("render --jsonl"));
            assert_eq!(field(&encoded[at], "account"), told, "{}", place("encode --jsonl"));
        }
    });
}

#[test]
fn the_layouts_that_are_printed_are_those_that_parse() {
    for_each(|case, folder| {
        let printed = output(&["template", "--layout", "--model", &folder.path("")]);
        let printed = String::from_utf8(printed.stdout).unwrap();
        // The first line names the file.
        case.same("template --layout", "layouts", printed.split_once('\n').unwrap().1);
        let analysis = run(&["template", "--json", "--model", &folder.path("")]);
        case.same("template --json", "analysis", &lines([part(&items(&analysis, "templates")[0], &ANALYSIS)]));
    });
}

#[test]
fn every_verb_that_parses_follows_the_policies() {
    for_each(|case, folder| {
        let model = Model::open(folder.path("")).unwrap();
        let request = Request::from_text(case.requests()[0]).unwrap();
        let session = model.session(request).unwrap();
        let replies = case.replies();
        let each = |ask: &dyn Fn(&DoorReply) -> Json| lines(replies.iter().map(|reply| reading(&ask(reply))));
        let parse = |reply: &DoorReply, output: &str, more: &[&str]| {
            let mut arguments = vec!["parse".to_owned(), "--json".to_owned(), "--model".to_owned(), folder.path("")];
            arguments.extend(["--conversation".to_owned(), folder.path("request-0.json")]);
            arguments.extend(flags(reply));
            arguments.extend(reply.finish_reason.iter().flat_map(|why| ["--finish".to_owned(), why.clone()]));
            arguments.extend(more.iter().map(|&flag| flag.to_owned()));
            arguments.push(folder.write("output.txt", output));
            run(&arguments)
        };
        case.same("parse", "readings", &each(&|reply| parse(reply, &reply.output, &[])));
        let by_ids = |reply: &DoorReply| {
            let ids = session.encode_sampled(&reply.output).unwrap();
            parse(reply, &format!("{ids:?}"), &["--ids"])
        };
        case.same("parse --ids", "readings", &each(&by_ids));
        let line = |reply: &DoorReply| {
            let mut line = object(case.requests()[0]);
            line.insert("output", reply.output.as_str().into());
            reply.finish_reason.iter().for_each(|why| line.insert("finish_reason", why.as_str().into()));
            reply.policies.iter().for_each(|(name, word)| line.insert(name.as_str(), word.as_str().into()));
            Json::Object(line)
        };
        let asked = folder.write("replies.jsonl", lines(replies.iter().map(line)) + "\n");
        let rows = json_lines(&output(&["parse", "--jsonl", "--model", &folder.path(""), &asked]));
        case.same("parse --jsonl", "readings", &lines(rows.iter().map(reading)));
        let in_session = |reply: &DoorReply| {
            let mut accept = Object::new();
            accept.insert("accept", json::parse(&format!(r#"{{"text": {}}}"#, quoted(&reply.output))).unwrap());
            reply.finish_reason.iter().for_each(|why| accept.insert("finish", why.as_str().into()));
            let script = format!("{}\n{{\"open\": true}}\n{}\n", case.requests()[0], lines([Json::Object(accept)]));
            let script = folder.write("script.jsonl", script);
            let mut arguments = vec!["session".to_owned(), "--json".to_owned(), "--model".to_owned(), folder.path("")];
            arguments.extend(flags(reply));
            arguments.push(script);
            json_lines(&output(&arguments)).pop().unwrap()
        };
        case.same("session", "readings", &each(&in_session));
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
    let answer = run(&["check", &format, "--against", &template, "--json"]);
    let text = json::write(&answer, &Layout::compact());
    assert!(!text.contains(r#""opening""#) && text.contains(r#""outcome":"same""#), "{text}");
}

#[test]
fn a_template_of_another_tokenizer_is_refused_by_its_markers_in_every_door() {
    let folder = Folder::new("doors-foreign");
    case_of("plain-markers-around-every-turn").write_model(Path::new(&folder.path("")));
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
    let request = Request::from_text(REQUEST).unwrap();
    let model = Model::builder().template(&template).tokenizer(&tokenizer).open().unwrap();
    let error = model.encode(request.clone()).unwrap_err();
    assert_eq!(error.code(), "foreign_template");
    assert_eq!(model.session(request).map(|_| ()).unwrap_err().code(), "foreign_template");
    let audit = run(&["tokenizer", &tokenizer, "--template", &template, "--json"]);
    assert!(json::write(&audit, &Layout::compact()).contains("foreign-template"));
    // Markers in a comment are no markers.
    let commented = folder
        .write("commented.jinja", "{# <|im_start|> #}{% for m in messages %}{{ m.content + eos_token }}{% endfor %}");
    let audit = run(&["tokenizer", &tokenizer, "--template", &commented, "--json"]);
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

/// The keys of a prompt that are compared.
const PROMPT: [&str; 3] = ["prompt", "ids", "control_ids"];

/// Runs a check for each model, whose folder also has the requests: each in `request-N.json`, and all in
/// `all.jsonl`.
fn for_each(check: impl Fn(&DoorCase, &Folder)) {
    DoorCase::check_all(|case| {
        let folder = Folder::new(&format!("doors-{}-{:?}", case.name(), std::thread::current().id()));
        case.write_model(Path::new(&folder.path("")));
        for (at, request) in case.requests().iter().enumerate() {
            folder.write(&format!("request-{at}.json"), request);
        }
        folder.write("all.jsonl", case.requests().join("\n") + "\n");
        check(&case, &folder);
    });
}

fn case_of(name: &str) -> DoorCase {
    DoorCase::all().into_iter().find(|case| case.name() == name).unwrap()
}

/// Returns the flags of the policies of a reply.
fn flags(reply: &DoorReply) -> Vec<String> {
    reply.policies.iter().flat_map(|(name, word)| [format!("--{}", name.replace('_', "-")), word.clone()]).collect()
}

/// Asks about files of the model's folder.
fn ask(folder: &Folder, verb: &str, files: &[&str]) -> Json {
    let mut arguments = vec![verb.to_owned(), "--json".to_owned(), "--model".to_owned(), folder.path("")];
    arguments.extend(files.iter().map(|file| folder.path(file)));
    run(&arguments)
}

fn run(arguments: &[impl AsRef<OsStr> + Debug]) -> Json {
    let output = output(arguments);
    let text = String::from_utf8(output.stdout).unwrap();
    json::parse(&text)
        .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn output(arguments: &[impl AsRef<OsStr>]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_rolecall")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn json_lines(output: &std::process::Output) -> Vec<Json> {
    let text = String::from_utf8_lossy(&output.stdout);
    let rows: Vec<Json> = text.lines().map(|line| json::parse(line).unwrap()).collect();
    assert!(!rows.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    rows
}

fn field<'a>(answer: &'a Json, key: &str) -> Option<&'a Json> {
    answer.as_object().unwrap_or_else(|| panic!("{answer:?}")).get(key)
}

fn items<'a>(answer: &'a Json, key: &str) -> &'a [Json] {
    field(answer, key).and_then(Json::as_array).unwrap_or_else(|| panic!("`{key}` is missing in {answer:?}"))
}

fn object(text: &str) -> Object {
    json::parse(text).unwrap().as_object().unwrap().clone()
}

fn quoted(text: &str) -> String {
    json::write(&text.into(), &Layout::compact())
}

fn numbers(answer: &Json, key: &str) -> Vec<u32> {
    items(answer, key).iter().map(number).collect()
}

fn number(value: &Json) -> u32 {
    json::write(value, &Layout::compact()).parse().unwrap()
}
