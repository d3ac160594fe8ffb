//! Hostile model output. The parser must finish within limits of time and memory and lose no text.
//! Each attack runs in a separate process, so that its memory can be measured.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::sync::Arc;

use crate::common::{cpu_time, measure_each, number_of_attack, peak_kilobytes};
use rolecall::format::{load, shared_calls};
use rolecall::parse::{CallsInReasoning, OutputParser, ParseOptions, Reply};
use rolecall::{Event, Stop};

/// The limits of an attack: CPU time in nanoseconds per byte, and memory in megabytes.
const NANOSECONDS_OF_A_BYTE: f64 = if cfg!(debug_assertions) { 20_000.0 } else { 400.0 };
const MEGABYTES: f64 = 24.0;

/// The factor by which attacks are smaller in unoptimized builds.
const SMALLER: usize = if cfg!(debug_assertions) { 100 } else { 1 };

/// An output that is never in memory as a whole. It is given as pieces with their repetitions.
struct Attack {
    name: &'static str,
    /// The name of a layout in `formats/calls`.
    layout: &'static str,
    /// The text at the start, the repeated text, the total bytes of the repeated text, and the text
    /// at the end.
    start: &'static str,
    again: &'static [u8],
    bytes: usize,
    end: &'static str,
    /// The minimum fraction of the input that must come out.
    least: f64,
    /// The tail of the prompt.
    prompt_tail: &'static str,
}

const HUGE: usize = 100 << 20;
const LARGE: usize = 10 << 20;

const TAGS: &str = "json-in-tags";
const BARE: &str = "json-object";
const XML: &str = "function-and-parameter-tags";
const MARKS: &str = "json-between-marks";
const PAIRS: &str = "key-and-value-tags";
const PYTHON: &str = "python-list-between-marks";
const MARKED: &str = "marked-dict-between-marks";
const IDS: &str = "id-and-json-between-marks";
const HEADERS: &str = "header-and-json";
const FENCE: &str = "code-in-fence";
const THINKER: &str = "reasoning with calls";

// Calls that are open at some place, and what closes them.
const CALL: &str = "<tool_call>\n{\"name\": \"f\", \"arguments\": ";
const IN_OBJECT: &str = "<tool_call>\n{\"name\": \"f\", \"arguments\": {";
const IN_VALUE: &str = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": ";
const IN_STRING: &str = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": \"";
const STRING_END: &str = "\"}}\n</tool_call>";
const VALUE_END: &str = "}}\n</tool_call>";
const WHOLE_CALL: &str = "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>";
const IN_PARAMETER: &str = "<tool_call>\n<function=f>\n<parameter=x>\n";
const PARAMETER_END: &str = "\n</parameter>\n</function>\n</tool_call>";
const IN_PYTHON: &str = "<|tool_call_start|>[f(x=";

/// Layouts that are not in `formats/calls`.
const OWN: [(&str, &str); 2] = [
    (
        THINKER,
        "part = \"reply\"\nname = \"thinker\"\n[layout]\n\
         assistant = \"[[<think>\\n{reasoning}\\n</think>\\n\\n]]{content}{calls}\"\n\
         call = \"<tool_call>\\n<function={name}>\\n{arguments}</function>\\n</tool_call>\"\n\
         argument = \"<parameter={key}>\\n{value:json}\\n</parameter>\\n\"\n\
         argument-string = \"<parameter={key}>\\n{value}\\n</parameter>\\n\"\ngenerate = \"\"\n",
    ),
    (
        FENCE,
        "part = \"reply\"\nname = \"fence\"\n[layout]\nassistant = \"{content}{calls}\"\n\
         call-interpreter = \"<code>\\n```python\\n{code}\\n```</code>\"\ngenerate = \"\"\n",
    ),
];

/// The time limit of any run.
const MOST: std::time::Duration = std::time::Duration::from_secs(180);

/// Returns an attack of ten megabytes, of which nine tenths must come out.
fn attack(
    name: &'static str,
    layout: &'static str,
    (start, again, end): (&'static str, &'static [u8], &'static str),
) -> Attack {
    Attack { name, layout, start, again, bytes: LARGE / SMALLER, end, least: 0.9, prompt_tail: "" }
}

impl Attack {
    /// Sets the bytes of the repeated text.
    fn of(self, bytes: usize) -> Attack {
        Attack { bytes: bytes / SMALLER, ..self }
    }

    /// Sets the minimum fraction of the input that must come out.
    fn least(self, least: f64) -> Attack {
        Attack { least, ..self }
    }
}

// Long: a table with one row for each attack.
fn attacks() -> Vec<Attack> {
    let mut attacks = vec![
        attack("100 MB of prose", TAGS, ("", b"All work and no play. ", "")).of(HUGE).least(1.0),
        attack("100 MB of an argument", TAGS, (IN_STRING, b"All work & no play\\n", STRING_END)).of(HUGE).least(0.99),
        attack("a million open braces", TAGS, ("", b"{", "")).least(1.0),
        attack("a million open braces where a call may begin", BARE, ("", b"{", "")).least(1.0),
        attack("a million open braces in arguments", TAGS, (CALL, b"{", "")),
        attack("a million open objects in arguments", TAGS, (CALL, b"{\"a\":", "")),
        attack("a million open lists in arguments", TAGS, (IN_VALUE, b"[", "")),
        attack("a million open lists before a call's name", TAGS, ("<tool_call>\n{\"x\": ", b"[", "")),
        attack("a million open lists in Python", PYTHON, (IN_PYTHON, b"[", "")),
        attack("a million open lists in a value", XML, (IN_PARAMETER, b"[", "")),
        attack("a million open dicts with markers", MARKED, ("<|tool_call>call:f{x:", b"{y:", "")),
        attack("the marker of a call, a million times", TAGS, ("", b"<tool_call>", "")),
        attack("the end marker of a call, a million times", TAGS, ("", b"</tool_call>", "")),
        attack("half a marker, a million times", TAGS, ("", b"<tool_cal", "")).least(1.0),
        attack("the first character of a marker, a million times", TAGS, ("", b"<", "")).least(1.0),
        attack("the start of a call, a million times", TAGS, ("", b"<tool_call>\n{\"name\": \"f\", ", "")),
        attack(
            "whole calls",
            TAGS,
            ("", b"<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>\n", ""),
        )
        .least(0.1),
        attack(
            "whole calls in tags",
            XML,
            ("", b"<tool_call>\n<function=f>\n<parameter=x>\ny\n</parameter>\n</function>\n</tool_call>\n", ""),
        )
        .least(0.1),
        attack("control tokens, a million times", MARKS, ("", b"<|action_start|>", "")),
        attack("two alternating control tokens", MARKS, ("", b"<|action_start|><|plugin|>", "")),
        attack("control tokens of a call's end", MARKS, ("", b"<|action_end|>", "")),
        attack("endless headers", HEADERS, ("", b"<|start|>assistant<|channel|>analysis<|message|>", "")).least(0.0),
        attack("a turn's end, a million times", HEADERS, ("<|channel|>final<|message|>", b"<|return|>", "")).least(0.0),
        attack("bytes that are not UTF-8", TAGS, ("", b"\xff", "")).of(LARGE / 10).least(1.0),
        attack("the first half of a character, a million times", TAGS, ("", b"\xe2\x82", "")).of(LARGE / 10).least(1.0),
        attack("invalid UTF-8 in arguments", TAGS, (IN_STRING, b"\x80", STRING_END)).of(LARGE / 10),
        attack("NUL", TAGS, ("", b"\0", "")).least(1.0),
        attack("NUL in arguments", TAGS, (IN_STRING, b"\0", STRING_END)),
        attack("NUL in a value", XML, (IN_PARAMETER, b"\0", PARAMETER_END)),
        attack("a call that never ends", TAGS, (IN_STRING, b"abc ", "")).least(0.99),
        attack("keys that never end", TAGS, (IN_OBJECT, b"\"x\": 1, ", "")).least(0.99),
        attack(
            "parameters that never end",
            XML,
            ("<tool_call>\n<function=f>\n", b"<parameter=x>\ny\n</parameter>\n", ""),
        )
        .least(0.1),
        attack("a value that never ends", XML, (IN_PARAMETER, b"abc ", "")).least(0.99),
        attack("a value whose end marker is never complete", XML, (IN_PARAMETER, b"\n</parameter", "")).least(0.99),
        attack(
            "a value between keys that never ends",
            PAIRS,
            ("<tool_call>f\n<arg_key>x</arg_key>\n<arg_value>", b"abc ", ""),
        )
        .least(0.99),
        attack("a string between markers that never ends", MARKED, ("<|tool_call>call:f{x:<|\"|>", b"abc ", ""))
            .least(0.99),
        attack("a Python string that never ends", PYTHON, ("<|tool_call_start|>[f(x='", b"abc ", "")).least(0.99),
        attack(
            "white space inside a call",
            TAGS,
            ("<tool_call>\n{\"name\": \"f\",", b" \n", "\"arguments\": {}}\n</tool_call>"),
        )
        .least(0.0),
        attack("white space inside arguments", TAGS, (IN_OBJECT, b" \n", VALUE_END)).least(0.0),
        attack("white space before a call", TAGS, ("", b" \n", WHOLE_CALL)),
        attack("white space after a call", TAGS, (WHOLE_CALL, b" \n", "x")),
        attack("line breaks before a marker", TAGS, ("a", b"\n", "<tool_call>")),
        attack("a number of 10 MB", TAGS, (IN_VALUE, b"9", VALUE_END)).least(0.99),
        attack("a number of 10 MB as a value", XML, (IN_PARAMETER, b"9", PARAMETER_END)),
        attack("a number of 10 MB in Python", PYTHON, (IN_PYTHON, b"9", ")]<|tool_call_end|>")),
        attack("a name of 10 MB", TAGS, ("<tool_call>\n{\"name\": \"", b"n", "\", \"arguments\": {}}\n</tool_call>")),
        attack("a name of 10 MB in a tag", XML, ("<tool_call>\n<function=", b"n", ">\n</function>\n</tool_call>")),
        attack("a name of 10 MB before a parenthesis", PYTHON, ("<|tool_call_start|>[", b"n", "()]<|tool_call_end|>")),
        attack("a name of 10 MB between markers", MARKED, ("<|tool_call>call:", b"n", "{}<tool_call|>")),
        attack(
            "an id of 10 MB",
            IDS,
            (
                "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:",
                b"1",
                "<|tool_call_argument_begin|>{}<|tool_call_end|>",
            ),
        ),
        attack(
            "a key of 10 MB",
            TAGS,
            ("<tool_call>\n{\"name\": \"f\", \"arguments\": {\"", b"k", "\": 1}}\n</tool_call>"),
        ),
        // Other keys of the object are not part of a call. If they are no longer than the cap,
        // they are left out.
        attack(
            "a key of 10 MB next to the name",
            TAGS,
            ("<tool_call>\n{\"", b"k", "\": 1, \"name\": \"f\"}\n</tool_call>"),
        )
        .least(0.0),
        attack(
            "a key of 10 MB in a tag",
            XML,
            ("<tool_call>\n<function=f>\n<parameter=", b"k", ">\n1\n</parameter>\n</function>\n</tool_call>"),
        ),
        attack(
            "arguments of 10 MB before the name",
            TAGS,
            ("<tool_call>\n{\"arguments\": {\"x\": \"", b"abc ", "\"}, \"name\": \"f\"}\n</tool_call>"),
        ),
        attack("backslashes", TAGS, (IN_STRING, b"\\\\", STRING_END)),
        attack("unpaired surrogates", TAGS, (IN_STRING, b"\\ud83d", STRING_END)).least(0.0),
        attack("backslashes in Python", PYTHON, ("<|tool_call_start|>[f(x='", b"\\\\", "')]<|tool_call_end|>"))
            .least(0.4),
        attack("quotes", BARE, ("", b"\"", "")).least(1.0),
        attack("alternating characters", BARE, ("", b"{\"[<|'`", "")).least(1.0),
        attack("alternating markers of two calls", XML, ("", b"<tool_call>\n<function=", "")),
    ];
    let whole = "<tool_call>\n<function=f>\n<parameter=x>\ny\n</parameter>\n</function>\n</tool_call>\n";
    attacks.extend([
        attack(
            "a call in reasoning that never ends",
            THINKER,
            ("<think>\nab<tool_call>\n<function=f>\n<parameter=x>\n", b"abc ", ""),
        )
        .least(0.99),
        attack("calls in reasoning", THINKER, ("<think>\n", whole.as_bytes(), "")).least(0.1),
        attack("calls in reasoning that is closed", THINKER, ("<think>\n", whole.as_bytes(), "</think>x")).least(0.1),
        attack("the marker of a call in reasoning, a million times", THINKER, ("<think>\n", b"<tool_call>", "")),
        attack(
            "reasoning that is closed inside a call, a million times",
            THINKER,
            ("<think>\n", b"<tool_call>\n<function=f>\n<parameter=x>\n</think>\n\n<think>\n", ""),
        )
        .least(0.1),
        attack("white space after a fence", FENCE, ("<code>\n```python\nx = 1\n```", b"\n", "")).least(0.0),
        attack("fences in code", FENCE, ("<code>\n```python\nx = 1\n", b"```\n", "")),
    ]);
    for attack in &mut attacks {
        if attack.layout == HEADERS {
            attack.prompt_tail = "<|start|>assistant";
        }
    }
    attacks
}

/// The totals of a run.
#[derive(Default)]
struct Sum {
    fed: usize,
    out: usize,
    calls: usize,
    open: usize,
    stops: usize,
}

impl Sum {
    fn add(&mut self, event: &Event<'_>) {
        match event {
            Event::Content(text)
            | Event::Reasoning(text)
            | Event::Arguments { text, .. }
            | Event::Code { text, .. } => {
                self.out += text.len();
            }
            Event::CallStarted { name, id, .. } => {
                self.out += name.len().max(id.len());
                (self.calls, self.open) = (self.calls + 1, self.open + 1);
            }
            Event::CodeStarted { .. } => (self.calls, self.open) = (self.calls + 1, self.open + 1),
            Event::CallFinished { .. } => self.open -= 1,
            Event::Stop(_) => self.stops += 1,
            Event::Malformed(malformed) => {
                assert!(format!("{malformed:?}").len() < 1 << 12, "a report must not contain a whole output")
            }
            _ => panic!("unknown event: {event:?}"),
        }
    }
}

/// Parses an attack in pieces of about `piece` bytes.
fn run(attack: &Attack, piece: usize) -> Sum {
    let (_, source) = shared_calls().chain(OWN).find(|(name, _)| *name == attack.layout).unwrap();
    let reply = Arc::new(Reply::new(&load(source).unwrap()));
    let is_own = OWN.iter().any(|(name, _)| *name == attack.layout);
    let options = ParseOptions {
        prompt_tail: attack.prompt_tail.to_owned(),
        calls_in_reasoning: is_own.then_some(CallsInReasoning::Unclosed),
        // Small attacks must reach the cap too.
        cap: (is_own && SMALLER > 1).then_some((1 << 20) / SMALLER),
        ..ParseOptions::default()
    };
    let mut parser = OutputParser::new(&reply, options);
    let mut sum = Sum::default();
    parser.push_text(attack.start, &mut |event| sum.add(&event));
    let again = attack.again.repeat(piece.div_ceil(attack.again.len()));
    let text = std::str::from_utf8(&again).ok();
    for _ in 0..attack.bytes / again.len() {
        sum.fed += again.len();
        match text {
            Some(text) => parser.push_text(text, &mut |event| sum.add(&event)),
            None => parser.push_bytes(&again, false, &mut |event| sum.add(&event)),
        }
    }
    parser.push_text(attack.end, &mut |event| sum.add(&event));
    parser.finish(Stop::Length, &mut |event| sum.add(&event));
    sum
}

/// Parses an attack in token-sized and in large pieces, and returns the measurements.
fn measure(attack: &Attack) -> String {
    let (start, before) = (peak_kilobytes(), cpu_time());
    let small = run(attack, 4);
    let nanoseconds = (cpu_time() - before).as_secs_f64() * 1e9 / attack.bytes as f64;
    let before = cpu_time();
    let large = run(attack, 1 << 16);
    let in_large = (cpu_time() - before).as_secs_f64() * 1e9 / attack.bytes as f64;
    let megabytes = peak_kilobytes().saturating_sub(start) as f64 / 1024.0;
    let part = |sum: &Sum| sum.out as f64 / sum.fed as f64;
    let is_closed = [&small, &large].into_iter().all(|sum| (sum.open, sum.stops) == (0, 1));
    format!("{nanoseconds:.1} {in_large:.1} {megabytes:.1} {:.4} {is_closed}", part(&small).min(part(&large)))
}

#[test]
fn every_attack_comes_out_within_bounds() {
    let attacks = attacks();
    if let Some(number) = number_of_attack() {
        // A hanging run must fail, not block the test forever.
        std::thread::spawn(|| {
            std::thread::sleep(MOST);
            eprintln!("no end after {MOST:?}");
            std::process::exit(1);
        });
        return println!("\nmeasured {}", measure(&attacks[number]));
    }
    let names = attacks.iter().map(|attack| attack.name);
    let (all, mut wrong) = measure_each("hostile_outputs::every_attack_comes_out_within_bounds", names);
    for (number, measured) in all {
        let (attack, name) = (&attacks[number], attacks[number].name);
        let parts: Vec<&str> = measured.split(' ').collect();
        let [small, large, megabytes, part, is_closed] = parts[..] else { panic!("{name}: {measured}") };
        let [small, large, megabytes, part] = [small, large, megabytes, part].map(|part| part.parse::<f64>().unwrap());
        println!("{name:<50} {small:>8.1} {large:>8.1} ns/byte {megabytes:>6.1} MB {part:>7.4} {is_closed}");
        if is_closed != "true" {
            wrong.push(format!("{name}: a call is left open, or there is not exactly one stop event"));
        }
        if part < attack.least {
            wrong.push(format!("{name}: expected at least {} of the input to come out, found {part}", attack.least));
        }
        if small.max(large) > NANOSECONDS_OF_A_BYTE {
            wrong.push(format!("{name}: took {small} and {large} ns per byte"));
        }
        if megabytes > MEGABYTES {
            wrong.push(format!("{name}: took {megabytes} MB"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
