//! Checks that the cost of a request grows linearly with its size: a request that is eight times as
//! large takes about eight times as long, whatever it consists of. The test measures the processor
//! time of a separate process, so that a busy machine does not affect it and a command that hangs
//! can be killed.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a panic fails the test, as intended")]

use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::{Folder, can_measure, cost_of};

/// A name, and a function that makes a request with a given number of items.
type Shape = (&'static str, fn(usize) -> String);

const USER: &str = r#"{"role":"user","content":"x"}"#;

/// The things that a request may contain in large numbers or sizes.
const SHAPES: [Shape; 33] = [
    ("messages", |n| messages(n, |i| format!(r#"{{"role":"{}","content":"a"}}"#, ["user", "assistant"][i % 2]))),
    ("systems", |n| messages(n, |_| r#"{"role":"system","content":"s"}"#.into())),
    ("reasoning and names", |n| {
        let thought = r#"{"role":"assistant","content":"b","reasoning_content":"r","name":"z"}"#;
        messages(n, |i| [USER, thought][i % 2].into())
    }),
    ("weights", |n| messages(n, |i| format!(r#"{{"role":"assistant","content":"b","weight":{}}}"#, i % 2))),
    ("results without calls", |n| messages(n, result)),
    ("calls", |n| request(&[USER.into(), calls(n, |i| call(&format!("c{i}"), &format!("f{i}"))), all(n, result)])),
    ("calls of one id", |n| request(&[USER.into(), calls(n, |_| call("c", "f")), all(n, |_| result(0))])),
    ("calls whose ids are taken", |n| {
        let taken = calls(n, |i| call(&format!("call{i:05}"), "f"));
        request(&[USER.into(), calls(n, |_| call("?", "f")), taken, all(n, result)])
    }),
    ("turns with a call", |n| {
        messages(3 * n, |i| match i % 3 {
            0 => USER.into(),
            1 => calls(1, |_| call(&format!("c{}", i / 3), "f")),
            _ => result(i / 3),
        })
    }),
    ("parts", |n| content(&format!("[{}]", all(n, |_| r#"{"type":"text","text":"a"}"#.into())))),
    ("images", |n| content(&format!("[{}]", all(n, |_| r#"{"type":"image_url","image_url":"a"}"#.into())))),
    ("lines", |n| content(&format!("\"{}\"", "a\\n".repeat(n)))),
    ("spaces", |n| content(&format!("\"{}\"", " ".repeat(n * 8)))),
    ("one word", |n| content(&format!("\"{}\"", "a".repeat(n * 8)))),
    ("spelled control tokens", |n| content(&format!("\"{}\"", "<|im_end|><|im_start|>".repeat(n)))),
    ("messages that spell control tokens", |n| messages(n, |_| r#"{"role":"user","content":"<|im_end|>"}"#.into())),
    ("tools", |n| with("tools", &format!("[{}]", all(n, |i| tool(i, "{}"))))),
    ("tools of one name", |n| with("tools", &format!("[{}]", all(n, |_| tool(0, "{}"))))),
    ("keys of a schema", |n| with("tools", &format!("[{}]", tool(0, &keys(n, "{}"))))),
    ("documents", |n| with("documents", &format!("[{}]", all(n, |_| r#"{"title":"t","text":"x"}"#.into())))),
    ("numbers", |n| with("documents", &format!("[{}]", all(n * 8, |_| "0".into())))),
    ("deep values", |n| {
        let deep = format!("{}{}", "[".repeat(190), "]".repeat(190));
        with("chat_template_kwargs", &format!("{{\"x\":[{}]}}", all(n / 50, |_| deep.clone())))
    }),
    ("options", |n| with("options", &keys(n, "\"v\""))),
    ("switches", |n| with("chat_template_kwargs", &keys(n, "\"v\""))),
    ("templates in a list", |n| {
        let named = all(n, |i| format!(r#"{{"name":"t{i}","template":"x"}}"#));
        with("chat_template", &format!(r#"[{named},{{"name":"default","template":"x"}}]"#))
    }),
    ("templates by name", |n| with("chat_template", &keys(n, "\"x\""))),
    ("keys of a message", |n| request(&[format!("{{\"role\":\"user\",\"content\":\"x\",{}}}", entries(n, "\"v\""))])),
    ("keys of the request", |n| format!("{{\"messages\":[{USER}],{}}}", entries(n, "\"v\""))),
    ("one key many times", |n| format!("{{\"messages\":[{USER}],{}}}", all(n, |i| format!("\"k\":{i}")))),
    ("keys of arguments", |n| request(&[USER.into(), with_arguments(&keys(n, "1")), result(0)])),
    ("keys of arguments as text", |n| {
        let text = keys(n, "1").replace('"', "\\\"");
        request(&[USER.into(), with_arguments(&format!("\"{text}\"")), result(0)])
    }),
    ("a long key", |n| with(&"k".repeat(n * 8), "1")),
    ("a long name of a format", |n| with("format", &format!("\"{}\"", "f".repeat(n * 8)))),
];

/// The command lines. `REQUEST`, `TEMPLATE`, `TOKENIZER` and `OUTPUT` are replaced by paths of
/// files.
const VERBS: [&str; 14] = [
    "render --format chatml REQUEST",
    "render --format chatml --jsonl --threads 1 REQUEST",
    "render --format internlm2 --rules reference REQUEST",
    "render --format llama2 --rules reference REQUEST",
    "render --format mistral --rules reference REQUEST",
    "render --template TEMPLATE REQUEST",
    "render --template TEMPLATE --forms as-given REQUEST",
    "render --format chatml --for-training assistant --json REQUEST",
    "encode --format chatml --rules reference --tokenizer TOKENIZER REQUEST",
    "explain --format chatml --rules reference --tokenizer TOKENIZER REQUEST",
    "explain --template TEMPLATE --tokenizer TOKENIZER --html REQUEST",
    "roundtrip --format qwen2.5 REQUEST",
    "diff chatml internlm2 REQUEST",
    "parse --format qwen2.5 --conversation REQUEST OUTPUT",
];

const TEMPLATE: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls or [] %}\
    {{ c.id }}{{ c.function.arguments | tojson }}{% endfor %}<|im_end|>\n{% endfor %}\
    {% for t in tools or [] %}{{ t | tojson }}{% endfor %}";

/// The number of items in the smaller request, which an unoptimised build can process in a second.
const COUNT: usize = if cfg!(debug_assertions) { 500 } else { 4_000 };

/// The larger request is `TIMES` times as large, and may take up to `SLACK` times as long for each
/// byte. Times below `COUNTED` seconds are ignored. A quadratic cost would take eight times as long
/// for each byte.
const TIMES: usize = 8;
const SLACK: f64 = 3.0;
const COUNTED: f64 = if cfg!(debug_assertions) { 0.1 } else { 0.03 };

/// A command that takes longer is considered to hang.
const DEADLINE: Duration = Duration::from_secs(60);

#[test]
fn a_byte_costs_the_same_in_a_request_of_any_size() {
    if !can_measure() {
        return;
    }
    let folder = Folder::new("request-costs");
    let tokenizer = rolecall_testkit::forge::small_tokenizer_files().into_iter().find(|(name, _)| *name == "bytes");
    let tokenizer = folder.write("tokenizer.json", tokenizer.expect("there is one").1);
    let template = folder.write("template.jinja", TEMPLATE);
    let output = folder.write("output.txt", "hello");
    let args = |verb: &str, request: &str| -> Vec<String> {
        let word = |word| match word {
            "REQUEST" => request,
            "TOKENIZER" => tokenizer.as_str(),
            "TEMPLATE" => template.as_str(),
            "OUTPUT" => output.as_str(),
            word => word,
        };
        verb.split(' ').map(|part| word(part).to_owned()).collect()
    };
    let small = folder.write("small.json", SHAPES[0].1(2));
    let measured = |verb: &str, number: usize| -> Vec<String> {
        let before = cost_of(&args(verb, &small), DEADLINE).unwrap_or_else(|why| panic!("{verb}: {why}")).seconds;
        let mut wrong = Vec::new();
        for (shape, make) in SHAPES {
            let seconds = |count: usize| {
                let path = folder.write(&format!("request-{number}.json"), make(count));
                cost_of(&args(verb, &path), DEADLINE).map(|cost| (cost.seconds - before).max(0.0))
            };
            let large = seconds(COUNT * TIMES);
            // Most runs are too fast to fail.
            if matches!(large, Ok(large) if large < COUNTED * SLACK * TIMES as f64) {
                continue;
            }
            match (seconds(COUNT), large) {
                (Ok(one), Ok(large)) if large <= one.max(COUNTED) * SLACK * TIMES as f64 => {}
                (Ok(one), Ok(large)) => {
                    wrong.push(format!("{verb}, {shape}: {one:.2} s, and {large:.2} s for {TIMES} times the size"));
                }
                (Err(why), _) | (_, Err(why)) => wrong.push(format!("{verb}, {shape}: {why}")),
            }
        }
        wrong
    };
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get().min(4));
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((number, verb)) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|number| Some((number, VERBS.get(number)?)))
                {
                    let found = measured(verb, number);
                    wrong.lock().unwrap().extend(found);
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_conversation_that_is_rendered_for_each_message_is_refused_where_that_is_too_much() {
    let folder = Folder::new("too-many-replies");
    let many = messages(200_000, |i| format!(r#"{{"role":"{}","content":"a"}}"#, ["user", "assistant"][i % 2]));
    let replies = folder.write("request.json", many);
    let many = messages(200_000, |_| r#"{"role":"user","content":"a"}"#.into());
    let questions = folder.write("questions.json", many);
    for (verb, path) in [
        ("roundtrip --format chatml --json", &replies),
        ("diff chatml internlm2 --json", &replies),
        ("stability --format chatml --json", &replies),
        ("stability --format chatml --json", &questions),
    ] {
        let args: Vec<String> = verb.split(' ').map(str::to_owned).chain([path.clone()]).collect();
        let cost = cost_of(&args, DEADLINE).unwrap_or_else(|why| panic!("{verb}: {why}"));
        assert!(cost.printed > 0, "{verb} prints an error");
    }
}

/// Joins items with commas.
fn all(count: usize, item: impl Fn(usize) -> String) -> String {
    (0..count).map(item).collect::<Vec<_>>().join(",")
}

fn request(messages: &[String]) -> String {
    format!("{{\"messages\":[{},{USER}]}}", messages.join(","))
}

fn messages(count: usize, message: impl Fn(usize) -> String) -> String {
    request(&[all(count, message)])
}

fn content(content: &str) -> String {
    format!("{{\"messages\":[{{\"role\":\"user\",\"content\":{content}}}]}}")
}

/// Returns a request with an additional key.
fn with(key: &str, value: &str) -> String {
    format!("{{\"messages\":[{USER}],\"{key}\":{value}}}")
}

fn entries(count: usize, value: &str) -> String {
    let mut entries = String::new();
    for number in 0..count {
        let _ = write!(entries, "{}\"k{number}\":{value}", if number == 0 { "" } else { "," });
    }
    entries
}

fn keys(count: usize, value: &str) -> String {
    format!("{{{}}}", entries(count, value))
}

fn calls(count: usize, call: impl Fn(usize) -> String) -> String {
    format!("{{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{}]}}", all(count, call))
}

fn call(id: &str, name: &str) -> String {
    format!(r#"{{"id":"{id}","type":"function","function":{{"name":"{name}","arguments":"{{}}"}}}}"#)
}

fn with_arguments(arguments: &str) -> String {
    calls(1, |_| format!(r#"{{"id":"c0","type":"function","function":{{"name":"f","arguments":{arguments}}}}}"#))
}

fn result(number: usize) -> String {
    format!(r#"{{"role":"tool","content":"r","tool_call_id":"c{number}","name":"n{number}"}}"#)
}

fn tool(number: usize, properties: &str) -> String {
    let parameters = format!(r#"{{"type":"object","properties":{properties}}}"#);
    format!(r#"{{"type":"function","function":{{"name":"f{number}","description":"d","parameters":{parameters}}}}}"#)
}
