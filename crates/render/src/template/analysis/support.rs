use super::probe::{Probe, Probed};
use crate::Origin;

/// What a template may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Capability {
    /// A system message.
    System,
    /// Tools that are offered.
    Tools,
    /// A call of a tool by the assistant.
    ToolCalls,
    /// Several calls in one message.
    ParallelToolCalls,
    /// What a tool answered.
    ToolResults,
    /// What the assistant thought before it answered.
    Reasoning,
    /// Documents to answer from.
    Documents,
    /// An end of the prompt that opens the assistant's turn.
    GenerationPrompt,
    /// Content as a list of parts.
    ContentParts,
    /// An image among the parts.
    Images,
}

/// Whether a template takes something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Support {
    /// It is in the prompt.
    Yes,
    /// It is left out, or printed as Python shows a list.
    No,
    /// The template refuses it, with these words.
    Refused(String),
    /// Not even a plain conversation comes through.
    Unknown,
}

impl Capability {
    /// All of them.
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

    /// A name for programs: `parallel_tool_calls`.
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

pub(super) const USER: &str = r#"{"role": "user", "content": "Which way?"}"#;
const SYSTEM: &str = r#"{"role": "system", "content": "Be brief."}"#;
pub(super) const ANSWER: &str = r#"{"role": "assistant", "content": "Left."}"#;
pub(super) const THOUGHT: &str =
    r#"{"role": "assistant", "content": "Left.", "reasoning_content": "The map says so."}"#;
pub(super) const TOOLS: &str = r#""tools": [{"type": "function", "function": {"name": "look_up", "description": "Looks up a place.",
    "parameters": {"type": "object", "properties": {"place": {"type": "string", "description": "Its name."}}, "required": ["place"]}}}]"#;
const DOCUMENTS: &str =
    r#""documents": [{"title": "Map", "text": "Left is north.", "doc_id": 1, "data": {"text": "Left is north."}}]"#;
const PARTS: &str = r#"{"role": "user", "content": [{"type": "text", "text": "Which way?"}]}"#;
const IMAGES: [&str; 2] = [
    r#"{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "Which way?"}]}"#,
    r#"{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "a.png"}}, {"type": "text", "text": "Which way?"}]}"#,
];
/// Results in the order of the calls; nine letters and digits, which is what some templates insist on.
pub(super) const RESULTS: [&str; 2] = [
    r#"{"role": "tool", "tool_call_id": "lookup001", "name": "look_up", "content": "north"}"#,
    r#"{"role": "tool", "tool_call_id": "lookup002", "name": "look_up", "content": "south"}"#,
];

/// Assistant messages with so many calls, in the forms that templates want: the arguments as a mapping or as a string, the
/// content empty, null, or a text.
pub(super) fn callings(count: usize) -> Vec<String> {
    let forms = ARGUMENTS
        .iter()
        .flat_map(|arguments| ["\"\"", "null", "\"I look.\""].map(|content| calling(count, content, arguments)));
    forms.collect()
}

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
    let plain = probe.run(&[USER], "");
    let Ok(plain) = plain else {
        // Some templates only take what others have as an extra.
        return match capability {
            Capability::Tools => judge(probe.run(&[USER], TOOLS), prints_tool),
            Capability::Documents => judge(probe.run(&[USER], DOCUMENTS), prints_document),
            Capability::ContentParts => judge(probe.run(&[PARTS], ""), prints_parts),
            _ => Support::Unknown,
        };
    };
    match capability {
        Capability::System => judge(probe.run(&[SYSTEM, USER], ""), |probed| prints(probed, 0, "content")),
        Capability::Tools => {
            best([[USER].as_slice(), &[SYSTEM, USER]].map(|messages| judge(probe.run(messages, TOOLS), prints_tool)))
        }
        Capability::ToolCalls => best(callings(1).iter().map(|calling| {
            judge(probe.run(&[USER, calling, RESULTS[0]], TOOLS), |probed| prints(probed, 1, "tool_calls[0]"))
        })),
        Capability::ParallelToolCalls => best(callings(2).iter().map(|calling| {
            judge(probe.run(&[USER, calling, RESULTS[0], RESULTS[1]], TOOLS), |probed| {
                prints(probed, 1, "tool_calls[0]") && prints(probed, 1, "tool_calls[1]")
            })
        })),
        Capability::ToolResults => best(callings(1).iter().map(|calling| {
            judge(probe.run(&[USER, calling, RESULTS[0]], TOOLS), |probed| prints(probed, 2, "content"))
        })),
        Capability::Reasoning => judge(probe.run(&[USER, THOUGHT], ""), |probed| {
            ["reasoning_content", "thinking", "reasoning"].iter().any(|field| prints(probed, 1, field))
        }),
        Capability::Documents => judge(probe.run(&[USER], DOCUMENTS), prints_document),
        Capability::GenerationPrompt => {
            let without = probe.run(&[USER], r#""add_generation_prompt": false"#);
            judge(without, |without| without.text != plain.text)
        }
        Capability::ContentParts => judge(probe.run(&[PARTS], ""), prints_parts),
        Capability::Images => {
            let own = plain.own_text();
            best(IMAGES.map(|message| {
                judge(probe.run(&[message], ""), |probed| prints_parts(probed) && probed.own_text() != own)
            }))
        }
    }
}

/// The best of several tries, else what the first one said.
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

fn judge(outcome: Result<Probed, String>, is_there: impl Fn(&Probed) -> bool) -> Support {
    match outcome {
        Ok(probed) if is_there(&probed) => Support::Yes,
        Ok(_) => Support::No,
        Err(words) => Support::Refused(words),
    }
}

fn prints(probed: &Probed, message: usize, start: &str) -> bool {
    probed.prints(
        |origin| matches!(origin, Origin::Message { message: of, field } if *of == message && field.starts_with(start)),
    )
}

fn prints_tool(probed: &Probed) -> bool {
    probed.text_of(|origin| matches!(origin, Origin::Tool { .. })).contains("look_up")
}

fn prints_document(probed: &Probed) -> bool {
    probed.text_of(|origin| matches!(origin, Origin::Document { .. })).contains("Left is north.")
}

/// The text of a part and nothing of how parts are written.
fn prints_parts(probed: &Probed) -> bool {
    let content =
        |origin: &Origin| matches!(origin, Origin::Message { message: 0, field } if field.starts_with("content"));
    probed.text_of(content).trim() == "Which way?"
}
