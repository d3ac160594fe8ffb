//! Renders real templates beside minijinja 3, in one run, from the same JSON text; prints medians and ratios.
//!
//!     cargo run --release -p rolecall-jinja --example race
//!
//! It reads templates from ../shared/templates beside the project, and stops if there are none.

use std::hint::black_box;
use std::time::{Duration, Instant};

use minijinja::syntax::SyntaxConfig;
use rolecall_conversation::json::{self, Json};
use rolecall_jinja::{Context, DateTime, Environment, Limits, Template};

#[path = "../tests/common/mod.rs"]
mod common;

const TEMPLATES: [(&str, &str); 3] = [
    ("chatml", "axolotl--chatml.jinja"),
    ("llama 3.1, tools", "vllm--tool_chat_template_llama3.1_json.jinja"),
    ("qwen 3, tools, reasoning", "trl--qwen3.jinja"),
];

fn main() {
    let Some(folder) = common::shared("templates") else { return };
    println!(
        "{:<26} {:>8} {:>7} {:>10} {:>10} {:>9} {:>9} {:>9} {:>8}",
        "template", "messages", "bytes", "minijinja", "its value", "rolecall", "x faster", "x value", "pieces"
    );
    for (name, file) in TEMPLATES {
        let source = std::fs::read_to_string(folder.join(file)).unwrap_or_default();
        for messages in [3, 200] {
            measure(name, &source, messages);
        }
        measure_compiling(name, &source);
    }
}

fn measure(name: &str, source: &str, messages: usize) {
    let text = conversation(name, messages);
    let ours = json::parse(&text).unwrap_or(Json::Null);
    let template = Template::compile(source, &Limits::default()).expect("a real template compiles");
    let now = DateTime { year: 2026, month: 11, day: 21, hour: 12, minute: 34, second: 56, microsecond: 0 };
    let environment = Environment { clock: Some(&now), ..Environment::default() };
    let render = || {
        let mut context = Context::reading(&common::JsonInputs);
        if let Json::Object(variables) = &ours {
            for (key, value) in variables.iter() {
                context.set(key, value);
            }
        }
        template.render(&context, &environment)
    };
    let theirs: serde_json::Value = serde_json::from_str(&text).expect("valid JSON");
    let mut peer = minijinja::Environment::new();
    configure(&mut peer);
    peer.add_template("t", source).expect("a real template compiles");
    let peer_template = peer.get_template("t").expect("it was added");
    let value = minijinja::Value::from(minijinja::value::Serde(&theirs));
    let output = render().expect("it renders");
    let expected = peer_template.render(&value).expect("it renders");
    assert_eq!(output.text(), expected, "{name}: both render the same text");
    let times = race(&mut [
        &mut || drop(black_box(peer_template.render(minijinja::Value::from(minijinja::value::Serde(&theirs))))),
        &mut || drop(black_box(peer_template.render(&value))),
        &mut || drop(black_box(render())),
    ]);
    println!(
        "{name:<26} {messages:>8} {:>7} {:>10.2} {:>10.2} {:>9.2} {:>9.2} {:>9.2} {:>8}",
        output.text().len(),
        times[0],
        times[1],
        times[2],
        times[0] / times[2],
        times[1] / times[2],
        output.pieces().count()
    );
}

fn measure_compiling(name: &str, source: &str) {
    let times = race(&mut [
        &mut || {
            let mut peer = minijinja::Environment::new();
            configure(&mut peer);
            drop(black_box(peer.add_template("t", source)));
        },
        &mut || drop(black_box(Template::compile(source, &Limits::default()))),
    ]);
    println!(
        "{name:<26}  compile {:>7} {:>10.2} {:>10} {:>9.2} {:>9.2}",
        source.len(),
        times[0],
        "",
        times[1],
        times[0] / times[1]
    );
}

fn configure(peer: &mut minijinja::Environment<'_>) {
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().expect("a valid syntax");
    peer.set_syntax(syntax);
    peer.set_unknown_method_callback(|_, value, method, args| {
        // What the templates call of Python's methods.
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

/// JSON as Python writes it.
fn python_json(value: &minijinja::Value, indent: Option<usize>) -> String {
    let mut out = Vec::with_capacity(256);
    let done = match indent {
        None => serde::Serialize::serialize(value, &mut serde_json::Serializer::with_formatter(&mut out, Python)),
        Some(width) => {
            let indent = " ".repeat(width);
            let formatter = serde_json::ser::PrettyFormatter::with_indent(indent.as_bytes());
            serde::Serialize::serialize(value, &mut serde_json::Serializer::with_formatter(&mut out, formatter))
        }
    };
    done.ok().and_then(|()| String::from_utf8(out).ok()).unwrap_or_default()
}

/// Blanks behind commas and colons.
struct Python;

impl serde_json::ser::Formatter for Python {
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

/// Medians in µs, all run in turn.
fn race(runners: &mut [&mut dyn FnMut()]) -> Vec<f64> {
    let batches: Vec<u32> = runners
        .iter_mut()
        .map(|run| {
            let once = (0..20).map(|_| time(*run, 1)).min().unwrap_or_default().max(Duration::from_nanos(50));
            (Duration::from_micros(300).as_nanos() / once.as_nanos()).clamp(1, 500) as u32
        })
        .collect();
    let mut times = vec![Vec::new(); runners.len()];
    for _ in 0..201 {
        for ((run, batch), times) in runners.iter_mut().zip(&batches).zip(&mut times) {
            times.push(time(*run, *batch).as_nanos() as f64 / f64::from(*batch) / 1000.0);
        }
    }
    times
        .iter_mut()
        .map(|times| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        })
        .collect()
}

fn time(run: &mut dyn FnMut(), times: u32) -> Duration {
    let start = Instant::now();
    for _ in 0..times {
        run();
    }
    start.elapsed()
}

/// A conversation of so many messages of about fifty words, some not ASCII, as JSON.
fn conversation(name: &str, count: usize) -> String {
    let with_tools = name.contains("tools");
    let with_reasoning = name.contains("reasoning");
    let words = "the quick brown fox jumps over the lazy dog while söme naïve readers wonder what 数字 mean here and "
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
        let reasoning =
            if with_reasoning { format!(r#", "reasoning_content": "Think {turn}: {words}""#) } else { String::new() };
        if with_tools && turn % 3 == 0 && messages.len() + 2 < count {
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
    let tools = if with_tools {
        format!("[{}, {}, {}]", tool("get_weather"), tool("get_time"), tool("search"))
    } else {
        "null".to_owned()
    };
    let list = messages.join(", ");
    format!(
        r#"{{"messages": [{list}], "tools": {tools}, "documents": null, "add_generation_prompt": true, "bos_token": "<|begin_of_text|>", "eos_token": "</s>"}}"#
    )
}
