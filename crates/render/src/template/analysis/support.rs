use rolecall_conversation::json::{self, Layout, Object};
use rolecall_conversation::{Json, REASONING, object};

use super::probe::{Outcome, Probe, ProbedPrompt};
use super::sample::{DOCUMENTS, PARTS, PLAIN, TOOLS, USER};
use crate::Origin;

/// A feature that a template may support.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Capability {
    /// A system message.
    System,
    /// Tools that the conversation offers.
    Tools,
    /// A tool call by the assistant.
    ToolCalls,
    /// Several calls in one message.
    ParallelToolCalls,
    /// A tool result.
    ToolResults,
    /// The assistant's reasoning before its answer.
    Reasoning,
    /// Documents to answer from.
    Documents,
    /// A generation prompt.
    GenerationPrompt,
    /// Content as a list of parts.
    ContentParts,
    /// An image among the parts.
    Images,
}

/// Whether a template supports a capability.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Support {
    /// The content appears in the prompt.
    Yes,
    /// The content is left out, or is printed as a Python list.
    No,
    /// The template refuses it, with this message.
    Refused(String),
    /// The template fails, with this error.
    Fails(String),
    /// Not even a plain conversation can be rendered.
    Unknown,
}

impl Capability {
    /// All capabilities.
    pub const ALL: [Capability; 10] = [
        Capability::System,
        Capability::Tools,
        Capability::ToolCalls,
        Capability::ParallelToolCalls,
        Capability::ToolResults,
        Capability::Reasoning,
        Capability::Documents,
        Capability::GenerationPrompt,
        Capability::ContentParts,
        Capability::Images,
    ];

    /// Returns a machine-readable name, such as `parallel_tool_calls`.
    pub fn name(self) -> &'static str {
        match self {
            Capability::System => "system",
            Capability::Tools => "tools",
            Capability::ToolCalls => "tool_calls",
            Capability::ParallelToolCalls => "parallel_tool_calls",
            Capability::ToolResults => "tool_results",
            Capability::Reasoning => "reasoning",
            Capability::Documents => "documents",
            Capability::GenerationPrompt => "generation_prompt",
            Capability::ContentParts => "content_parts",
            Capability::Images => "images",
        }
    }
}

const SYSTEM: &str = r#"{"role": "system", "content": "Be brief."}"#;
pub(super) const ANSWER: &str = r#"{"role": "assistant", "content": "Left."}"#;
pub(super) const THOUGHT: &str =
    r#"{"role": "assistant", "content": "Left.", "reasoning_content": "The map says so."}"#;
const IMAGES: [&str; 2] = [
    r#"{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "Which way?"}]}"#,
    r#"{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "a.png"}}, {"type": "text", "text": "Which way?"}]}"#,
];
/// Tool results in the order of the calls. The ids have nine letters and digits, which some
/// templates require.
pub(super) const RESULTS: [&str; 2] = [
    r#"{"role": "tool", "tool_call_id": "lookup001", "name": "look_up", "content": "north"}"#,
    r#"{"role": "tool", "tool_call_id": "lookup002", "name": "look_up", "content": "south"}"#,
];

/// Returns assistant messages with `count` calls, in the forms that templates expect: the arguments
/// as a mapping or as a string, and the content empty, null or a text.
pub(super) fn callings(count: usize) -> Vec<String> {
    let forms = ARGUMENTS.iter().flat_map(|arguments| CONTENTS.map(|content| calling(count, content, arguments)));
    forms.collect()
}

/// The contents for a message that makes calls.
pub(super) const CONTENTS: [&str; 3] = ["\"\"", "null", "\"I look.\""];

/// The same arguments as a mapping and as a string.
pub(super) const ARGUMENTS: [&str; 2] = [r#"{"place": "Oslo"}"#, r#""{\"place\": \"Oslo\"}""#];

pub(super) fn calling(count: usize, content: &str, arguments: &str) -> String {
    let calls = (1..=count).map(|number| {
        format!(
            r#"{{"id": "lookup00{number}", "type": "function", "function": {{"name": "look_up", "arguments": {arguments}}}}}"#
        )
    });
    let calls: Vec<String> = calls.collect();
    format!(r#"{{"role": "assistant", "content": {content}, "tool_calls": [{}]}}"#, calls.join(", "))
}

pub(super) fn find(probe: &Probe<'_>) -> Vec<(Capability, Support)> {
    Capability::ALL.map(|capability| (capability, test(capability, probe))).into()
}

fn test(capability: Capability, probe: &Probe<'_>) -> Support {
    if PLAIN.iter().all(|(message, rest)| probe.run(&[message], rest).is_err()) {
        return Support::Unknown;
    }
    match capability {
        Capability::System => taken(probe, &[&[SYSTEM, USER]], "", |probed| prints(probed, 0, "content")),
        Capability::Tools => taken(probe, &[&[USER], &[SYSTEM, USER]], TOOLS, prints_tool),
        Capability::ToolCalls => called(probe, 1, |probed| prints(probed, 1, "tool_calls[0]")),
        Capability::ParallelToolCalls => {
            called(probe, 2, |probed| prints(probed, 1, "tool_calls[0]") && prints(probed, 1, "tool_calls[1]"))
        }
        Capability::ToolResults => called(probe, 1, |probed| prints(probed, 2, "content")),
        Capability::Reasoning => reasoning(probe),
        Capability::Documents => taken(probe, &[&[USER]], DOCUMENTS, prints_document),
        Capability::GenerationPrompt => generation_prompt(probe),
        Capability::ContentParts => judge(probe.run(&[PARTS], ""), prints_parts),
        Capability::Images => {
            let own = probe.run(&[PARTS], "").map(|plain| plain.own_text()).unwrap_or_default();
            best(IMAGES.map(|message| {
                judge(probe.run(&[message], ""), |probed| prints_parts(probed) && probed.own_text() != own)
            }))
        }
    }
}

/// Returns the best result of several conversations, each also tried with its contents as lists of
/// parts.
fn taken(probe: &Probe<'_>, tries: &[&[&str]], rest: &str, is_there: impl Fn(&ProbedPrompt) -> bool) -> Support {
    let plain = tries.iter().map(|messages| judge(probe.run(messages, rest), &is_there));
    let parts = tries.iter().map(|messages| {
        let messages: Vec<String> = messages.iter().map(|message| in_parts(message)).collect();
        let messages: Vec<&str> = messages.iter().map(String::as_str).collect();
        judge(probe.run(&messages, rest), &is_there)
    });
    best(plain.chain(parts))
}

/// Returns the best result of all forms of a message with `count` calls, followed by their results.
fn called(probe: &Probe<'_>, count: usize, is_there: impl Fn(&ProbedPrompt) -> bool) -> Support {
    let callings = callings(count);
    let conversations = callings.iter().map(|calling| {
        let mut messages = vec![USER, calling.as_str()];
        messages.extend(&RESULTS[..count]);
        messages
    });
    let conversations: Vec<Vec<&str>> = conversations.collect();
    let tries: Vec<&[&str]> = conversations.iter().map(Vec::as_slice).collect();
    taken(probe, &tries, TOOLS, is_there)
}

/// Tests reasoning in the last answer and in a message with a call, with and without the switches
/// that usually enable it.
fn reasoning(probe: &Probe<'_>) -> Support {
    let is_there = |probed: &ProbedPrompt| REASONING.iter().any(|field| prints(probed, 1, field));
    let thinking = calling(1, "\"\"", ARGUMENTS[0])
        .replace("\"tool_calls\"", "\"reasoning_content\": \"The map says so.\", \"tool_calls\"");
    let switches = object! { "enable_thinking" => true, "thinking" => true, "preserve_thinking" => true };
    let none = Object::new();
    best([&none, &switches].into_iter().flat_map(|switches| {
        [
            judge(probe.run_with(&[USER, THOUGHT], "", switches), is_there),
            judge(probe.run_with(&[USER, &thinking, RESULTS[0]], TOOLS, switches), is_there),
        ]
    }))
}

fn generation_prompt(probe: &Probe<'_>) -> Support {
    let tries = PLAIN.iter().filter_map(|(message, rest)| {
        let comma = if rest.is_empty() { "" } else { ", " };
        let with = probe.run(&[message], rest).ok()?;
        let without = probe.run(&[message], &format!(r#"{rest}{comma}"add_generation_prompt": false"#));
        Some(judge(without, |without| without.text != with.text))
    });
    best(tries)
}

/// Converts a message's text content to a list with one text part.
fn in_parts(message: &str) -> String {
    let Ok(Json::Object(mut message)) = json::parse(message) else { return message.to_owned() };
    if let Some(text @ Json::String(_)) = message.get("content").cloned() {
        let part = Json::Object(object! { "type" => "text", "text" => text });
        message.insert("content", Json::Array(vec![part]));
    }
    json::write(&Json::Object(message), &Layout::default())
}

/// Returns the best result of several tries, or else the first one.
fn best(tries: impl IntoIterator<Item = Support>) -> Support {
    let mut first = None;
    for support in tries {
        match support {
            Support::Yes => return Support::Yes,
            other => first = first.or(Some(other)),
        }
    }
    first.unwrap_or(Support::Unknown)
}

fn judge(outcome: Outcome, is_there: impl Fn(&ProbedPrompt) -> bool) -> Support {
    match outcome {
        Ok(probed) if is_there(&probed) => Support::Yes,
        Ok(_) => Support::No,
        Err(refused) if refused.is_own => Support::Refused(refused.words),
        Err(refused) => Support::Fails(refused.words),
    }
}

fn prints(probed: &ProbedPrompt, message: usize, start: &str) -> bool {
    probed.prints(
        |origin| matches!(origin, Origin::Message { message: of, field } if *of == message && field.starts_with(start)),
    )
}

fn prints_tool(probed: &ProbedPrompt) -> bool {
    probed.text_of(|origin| matches!(origin, Origin::Tool { .. })).contains("look_up")
}

fn prints_document(probed: &ProbedPrompt) -> bool {
    probed.text_of(|origin| matches!(origin, Origin::Document { .. })).contains("Left is north.")
}

/// Reports whether the prompt contains the text of the parts, without their JSON structure.
fn prints_parts(probed: &ProbedPrompt) -> bool {
    let content =
        |origin: &Origin| matches!(origin, Origin::Message { message: 0, field } if field.starts_with("content"));
    probed.text_of(content).trim() == "Which way?"
}
