//! Compares the template engine with minijinja 3 and Python's jinja2: the same template, the same
//! parsed JSON, equal output.
//!
//!     cargo bench -p rolecall-benches --bench jinja [-- FOLDER]
//!
//! FOLDER contains the chat templates; the default is ../shared/templates next to the project. For
//! a missing template, a similar one written for this benchmark is used, and the output says so.

use std::path::PathBuf;
use std::time::Duration;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use rolecall::conversation::Conversation;
use rolecall::render::Writer;
use rolecall::template::{ChatTemplate, Forms, TemplateOptions};
use rolecall_benches::{Python, Runner, race};
use rolecall_conversation::json::{self, Json};
use rolecall_jinja::{Context, DateTime, Environment, Limits, Template};

#[path = "../../crates/jinja/tests/common/json_inputs.rs"]
mod json_inputs;

use json_inputs::JsonInputs;

/// A template of a family, and the contents of its conversations.
struct Case {
    name: &'static str,
    file: &'static str,
    /// The template to use if the file is missing.
    own: &'static str,
    has_tools: bool,
    has_reasoning: bool,
}

const CASES: [Case; 3] = [
    Case {
        name: "ChatML",
        file: "axolotl--chatml.jinja",
        own: include_str!("templates/plain.jinja"),
        has_tools: false,
        has_reasoning: false,
    },
    Case {
        name: "Llama 3.1, tools",
        file: "vllm--tool_chat_template_llama3.1_json.jinja",
        own: include_str!("templates/tools.jinja"),
        has_tools: true,
        has_reasoning: false,
    },
    Case {
        name: "Qwen3, tools, reasoning",
        file: "trl--qwen3.jinja",
        own: include_str!("templates/reasoning.jinja"),
        has_tools: true,
        has_reasoning: true,
    },
];

const NOW: DateTime = DateTime { year: 2026, month: 11, day: 21, hour: 12, minute: 34, second: 56, microsecond: 0 };

fn main() {
    let folder = std::env::args()
        .skip(1)
        .find(|arg| !arg.starts_with("--"))
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/templates")), PathBuf::from);
    let mut cases = Vec::new();
    for case in &CASES {
        let found = std::fs::read_to_string(folder.join(case.file));
        if found.is_err() {
            println!("{}: no {} in {}; using a template of our own", case.name, case.file, folder.display());
        }
        cases.push((case, found.unwrap_or_else(|_| case.own.to_owned())));
    }
    match Jinja2::start(&cases[0].1, &cases[0].0.conversation(3)) {
        Some(python) => println!("Python: {}\n", python.versions),
        None => println!("no python3 with jinja2 found: its columns are left out\n"),
    }
    println!(
        "{:<24} {:>8} {:>7} {:>7} {:>10} {:>10} {:>9} {:>9} {:>10}   {:>8} {:>7} {:>8}",
        "rendering, µs",
        "messages",
        "bytes",
        "pieces",
        "minijinja",
        "its value",
        "rolecall",
        "prompt",
        "jinja2",
        "× faster",
        "× value",
        "× jinja2"
    );
    for (case, source) in &cases {
        for messages in [3, 200] {
            measure_rendering(case, source, messages);
        }
    }
    println!(
        "\n{:<24} {:>8} {:>10} {:>9} {:>10}   {:>8} {:>8}",
        "compiling, µs", "bytes", "minijinja", "rolecall", "jinja2", "× faster", "× jinja2"
    );
    for (case, source) in &cases {
        measure_compiling(case, source);
    }
    println!("\nµs per message, out of  {:>8} {:>8} {:>8} {:>8}", 200, 400, 800, 1600);
    for (case, source) in &cases {
        measure_growth(case, source);
    }
    println!(
        "\nmedians; × faster: minijinja from the parsed JSON / rolecall from the parsed JSON; its value: minijinja from a value"
    );
    println!("converted in advance; prompt: rolecall from a checked conversation to a prompt with its origins");
}

fn measure_rendering(case: &Case, source: &str, messages: usize) {
    let text = case.conversation(messages);
    let ours = Ours::new(source, &text);
    let theirs: serde_json::Value = serde_json::from_str(&text).expect("valid JSON");
    let mut peer = minijinja::Environment::new();
    configure(&mut peer);
    peer.add_template("t", source).expect("a valid template");
    let peer_template = peer.get_template("t").expect("it was added");
    let converted = minijinja::Value::from(Serde(&theirs));
    let (template, conversation, options) = prompt_parts(source, &text);
    let mut python = Jinja2::start(source, &text);

    let output = ours.render();
    let is_equal =
        |name: &str, found: &str| assert_eq!(found, output.text(), "{}: {name} renders a different text", case.name);
    is_equal("minijinja", &peer_template.render(&converted).expect("it renders"));
    let writer = Writer::template(template.clone(), options.clone());
    is_equal("a prompt", writer.render(&conversation).expect("it renders").text());
    if let Some(python) = &python {
        is_equal("jinja2", &python.text);
    }
    let mut runners = vec![
        Runner::new("minijinja", || peer_template.render(minijinja::Value::from(Serde(&theirs)))),
        Runner::new("its value", || peer_template.render(&converted)),
        Runner::new("rolecall", || ours.render()),
        Runner::new("prompt", || writer.render(&conversation)),
    ];
    runners.extend(python.as_mut().map(|python| Runner::elsewhere("jinja2", |times| python.run("render", times))));
    let micros = in_micros(race(runners));
    println!(
        "{:<24} {messages:>8} {:>7} {:>7} {:>10.2} {:>10.2} {:>9.2} {:>9.2} {:>10}   {:>8.2} {:>7.2} {:>8}",
        case.name,
        output.text().len(),
        output.pieces().count(),
        micros[0],
        micros[1],
        micros[2],
        micros[3],
        shown(micros.get(4).copied()),
        micros[0] / micros[2],
        micros[1] / micros[2],
        shown(micros.get(4).map(|python| python / micros[2])),
    );
}

fn measure_compiling(case: &Case, source: &str) {
    let by_peer = || {
        let mut peer = minijinja::Environment::new();
        configure(&mut peer);
        peer.add_template("t", source).expect("a valid template");
    };
    let mut python = Jinja2::start(source, &case.conversation(3));
    let mut runners = vec![
        Runner::new("minijinja", by_peer),
        Runner::new("rolecall", || Template::compile(source, &Limits::default()).map(drop)),
    ];
    runners.extend(python.as_mut().map(|python| Runner::elsewhere("jinja2", |times| python.run("compile", times))));
    let micros = in_micros(race(runners));
    println!(
        "{:<24} {:>8} {:>10.2} {:>9.2} {:>10}   {:>8.2} {:>8}",
        case.name,
        source.len(),
        micros[0],
        micros[1],
        shown(micros.get(2).copied()),
        micros[0] / micros[1],
        shown(micros.get(2).map(|python| python / micros[1])),
    );
}

fn measure_growth(case: &Case, source: &str) {
    let sizes = [200, 400, 800, 1600];
    let all: Vec<Ours> = sizes.iter().map(|size| Ours::new(source, &case.conversation(*size))).collect();
    let micros = in_micros(race(all.iter().map(|ours| Runner::new("rolecall", || ours.render())).collect()));
    let each: Vec<String> =
        micros.iter().zip(sizes).map(|(micros, size)| format!("{:>8.4}", micros / f64::from(size as u32))).collect();
    println!("{:<23} {}", case.name, each.join(" "));
}

fn in_micros(times: Vec<(&'static str, Duration)>) -> Vec<f64> {
    times.into_iter().map(|(_, time)| time.as_nanos() as f64 / 1000.0).collect()
}

fn shown(number: Option<f64>) -> String {
    number.map_or("-".to_owned(), |number| format!("{number:.1}"))
}

/// The engine's input: the template and parsed JSON.
struct Ours {
    template: Template,
    variables: Json,
}

impl Ours {
    fn new(source: &str, variables: &str) -> Ours {
        Ours {
            template: Template::compile(source, &Limits::default()).expect("a valid template"),
            variables: json::parse(variables).expect("valid JSON"),
        }
    }

    fn render(&self) -> rolecall_jinja::Output {
        let mut context = Context::reading(&JsonInputs);
        for (key, value) in self.variables.as_object().into_iter().flat_map(|variables| variables.iter()) {
            context.set(key, value);
        }
        let environment = Environment { clock: Some(&NOW), ..Environment::default() };
        self.template.render(&context, &environment).expect("it renders")
    }
}

/// Makes the input for rendering a conversation to a prompt.
fn prompt_parts(source: &str, variables: &str) -> (ChatTemplate, Conversation, TemplateOptions) {
    let mut variables = json::parse(variables).expect("valid JSON").as_object().cloned().unwrap_or_default();
    let token = |name: &str, value: Option<Json>| {
        (name.to_owned(), value.as_ref().and_then(Json::as_str).unwrap_or_default().to_owned())
    };
    let tokens = ["bos_token", "eos_token"].map(|name| token(name, variables.remove(name)));
    let template = ChatTemplate::compile(source, tokens.into()).expect("a valid template");
    let conversation = Conversation::from_json(Json::Object(variables)).expect("a conversation");
    (template, conversation, TemplateOptions { now: Some(NOW), forms: Forms::AsGiven, ..TemplateOptions::default() })
}

/// The reference engine, which renders and compiles one template on request and reports the time
/// taken.
struct Jinja2 {
    python: Python,
    text: String,
    versions: String,
}

impl Jinja2 {
    /// Returns `None` if there is no Python with jinja2.
    fn start(source: &str, variables: &str) -> Option<Jinja2> {
        let template = serde_json::to_string(source).ok()?;
        let job = format!("{{\"template\": {template}, \"variables\": {variables}}}");
        let (python, ready) = Python::start(include_str!("jinja.py"), &job)?;
        let word = |name: &str| ready.get(name).and_then(|word| word.as_str()).unwrap_or_default().to_owned();
        Some(Jinja2 { text: word("text"), versions: word("versions"), python })
    }

    fn run(&mut self, what: &str, times: usize) -> Duration {
        self.python.time(&format!("{what} {times}"))
    }
}

fn configure(peer: &mut minijinja::Environment<'_>) {
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().expect("a valid syntax");
    peer.set_syntax(syntax);
    peer.set_unknown_method_callback(|_, value, method, args| {
        // The methods of Python that the templates call.
        let text = value.as_str().unwrap_or_default();
        let arg = args.first().and_then(|arg| arg.as_str());
        match (method, arg) {
            ("strip", None) => Ok(text.trim().into()),
            ("strip", Some(chars)) => Ok(text.trim_matches(|c| chars.contains(c)).into()),
            ("lstrip", Some(chars)) => Ok(text.trim_start_matches(|c| chars.contains(c)).into()),
            ("rstrip", Some(chars)) => Ok(text.trim_end_matches(|c| chars.contains(c)).into()),
            ("startswith", Some(part)) => Ok(text.starts_with(part).into()),
            ("endswith", Some(part)) => Ok(text.ends_with(part).into()),
            ("split", Some(part)) => Ok(text.split(part).map(minijinja::Value::from).collect::<Vec<_>>().into()),
            _ => Err(minijinja::ErrorKind::UnknownMethod.into()),
        }
    });
    peer.add_function("raise_exception", |message: String| -> Result<String, minijinja::Error> {
        Err(minijinja::Error::new(minijinja::ErrorKind::InvalidOperation, message))
    });
    peer.add_function("strftime_now", |_: String| "21 Nov 2026");
    peer.add_filter("tojson", |value: minijinja::Value, options: minijinja::value::Kwargs| {
        let indent: Option<usize> = options.get("indent")?;
        Ok::<_, minijinja::Error>(python_json(&value, indent))
    });
}

/// Writes JSON as Python does.
fn python_json(value: &minijinja::Value, indent: Option<usize>) -> String {
    let mut out = Vec::with_capacity(256);
    let done = match indent {
        None => {
            serde::Serialize::serialize(value, &mut serde_json::Serializer::with_formatter(&mut out, PythonSpacing))
        }
        Some(width) => {
            let indent = " ".repeat(width);
            let formatter = serde_json::ser::PrettyFormatter::with_indent(indent.as_bytes());
            serde::Serialize::serialize(value, &mut serde_json::Serializer::with_formatter(&mut out, formatter))
        }
    };
    done.ok().and_then(|()| String::from_utf8(out).ok()).unwrap_or_default()
}

/// Writes spaces after commas and colons.
struct PythonSpacing;

impl serde_json::ser::Formatter for PythonSpacing {
    fn begin_array_value<W: ?Sized + std::io::Write>(&mut self, out: &mut W, is_first: bool) -> std::io::Result<()> {
        if is_first { Ok(()) } else { out.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + std::io::Write>(&mut self, out: &mut W, is_first: bool) -> std::io::Result<()> {
        if is_first { Ok(()) } else { out.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + std::io::Write>(&mut self, out: &mut W) -> std::io::Result<()> {
        out.write_all(b": ")
    }
}

impl Case {
    /// Makes a conversation of `count` messages of about fifty words, some not ASCII, as JSON.
    fn conversation(&self, count: usize) -> String {
        let words =
            "the quick brown fox jumps over the lazy dog while söme naïve readers wonder what 数字 mean here and "
                .repeat(3);
        let mut messages = Vec::new();
        messages.push(format!(r#"{{"role": "system", "content": "You are a careful assistant. {words}"}}"#));
        let mut turn = 0;
        while messages.len() < count {
            turn += 1;
            messages.push(format!(r#"{{"role": "user", "content": "Question {turn}: {words}?"}}"#));
            if messages.len() >= count {
                break;
            }
            let reasoning = if self.has_reasoning {
                format!(r#", "reasoning_content": "Think {turn}: {words}""#)
            } else {
                String::new()
            };
            if self.has_tools && turn % 3 == 0 && messages.len() + 2 < count {
                messages.push(format!(
                r#"{{"role": "assistant", "content": "", "tool_calls": [{{"id": "c{turn}", "type": "function", "function": {{"name": "get_weather", "arguments": {{"city": "Köln {turn}", "unit": "celsius"}}}}}}]{reasoning}}}"#
            ));
                messages.push(format!(r#"{{"role": "tool", "content": "{{\"temp\": {turn}}}"}}"#));
                continue;
            }
            messages.push(format!(r#"{{"role": "assistant", "content": "Answer {turn}: {words}."{reasoning}}}"#));
        }
        let tool = |name: &str| {
            format!(
                r#"{{"type": "function", "function": {{"name": "{name}", "description": "Get the current weather for a city & more.", "parameters": {{"type": "object", "properties": {{"city": {{"type": "string", "description": "City name"}}, "unit": {{"type": "string", "enum": ["celsius", "fahrenheit"]}}}}, "required": ["city"]}}}}}}"#
            )
        };
        let tools = if self.has_tools {
            format!("[{}, {}, {}]", tool("get_weather"), tool("get_time"), tool("search"))
        } else {
            "null".to_owned()
        };
        let list = messages.join(", ");
        format!(
            r#"{{"messages": [{list}], "tools": {tools}, "documents": null, "add_generation_prompt": true, "bos_token": "<|begin_of_text|>", "eos_token": "</s>"}}"#
        )
    }
}
