use std::rc::Rc;

use rolecall_conversation::REASONING;
use rolecall_jinja as jinja;
use rolecall_jinja::{Path, PathStep};
use rolecall_text::common_prefix;

use super::BosUse;
use super::probe::{Probe, ProbedPrompt};
use super::sample::{TOOLS, USER};
use super::support::{ANSWER, Capability, RESULTS, Support, THOUGHT, callings};

/// A notable property of a template.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The kind of finding.
    pub kind: FindingKind,
    /// The position in the template, or `None` if the finding applies to the whole template.
    pub spot: Option<jinja::Spot>,
    /// A description of the finding.
    pub message: String,
}

impl Finding {
    /// Returns the sort key: the position, with findings without a position first.
    pub(super) fn order(&self) -> u32 {
        self.spot.map_or(0, |spot| spot.offset.saturating_add(1))
    }
}

/// A kind of finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FindingKind {
    /// The text of a message determines which branch the template takes.
    ContentGated,
    /// Earlier messages are written differently once the conversation continues.
    UnstableHistory,
    /// The template never opens the assistant's turn.
    NoGenerationPrompt,
    /// The template opens the assistant's turn even if no generation prompt is requested.
    UnguardedGenerationPrompt,
    /// The prompt contains the current time.
    DateInPrompt,
    /// Both the template and the tokenizer write the BOS token.
    DoubleBos,
    /// Neither the template nor the tokenizer writes the BOS token.
    NoBos,
}

impl FindingKind {
    /// Returns a stable, machine-readable name.
    pub fn code(self) -> &'static str {
        match self {
            FindingKind::ContentGated => "content-gated",
            FindingKind::UnstableHistory => "unstable-history",
            FindingKind::NoGenerationPrompt => "no-generation-prompt",
            FindingKind::UnguardedGenerationPrompt => "unguarded-generation-prompt",
            FindingKind::DateInPrompt => "date-in-prompt",
            FindingKind::DoubleBos => "double-bos",
            FindingKind::NoBos => "no-bos",
        }
    }

    /// Returns why the finding matters and what to do about it.
    pub fn help(self) -> &'static str {
        match self {
            FindingKind::ContentGated => {
                "the author of that text controls the branch: origins cannot prevent this, so check what the branch does"
            }
            FindingKind::UnstableHistory => {
                "an engine loses its cache of the earlier turns; in training, earlier turns differ from how they were served"
            }
            FindingKind::NoGenerationPrompt => {
                "the model may continue the user's turn: add a generation prompt, unless the template is for a base model"
            }
            FindingKind::UnguardedGenerationPrompt => {
                "a conversation that ends with an answer gets an open turn after it: write the prompt only if add_generation_prompt is true"
            }
            FindingKind::DateInPrompt => {
                "the same conversation gives a different prompt tomorrow: pass a fixed time if that matters"
            }
            FindingKind::DoubleBos => {
                "encode without the tokenizer's own special tokens, or remove it from the template"
            }
            FindingKind::NoBos => "encode with the tokenizer's own special tokens, or write it in the template",
        }
    }
}

pub(super) fn find(program: &jinja::Analysis, probe: &Probe<'_>, support: &[(Capability, Support)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    generation_prompt(probe, support, &mut findings);
    for call in program.calls.iter().filter(|call| call.name == "strftime_now") {
        let formats: Vec<String> = call.argument.iter().map(jinja::Constant::to_string).collect();
        let message = match formats.is_empty() {
            true => "the template asks for the time".to_owned(),
            false => format!("the template asks for the time as {}", formats.join(" or ")),
        };
        findings.push(Finding { kind: FindingKind::DateInPrompt, spot: Some(call.spot), message });
    }
    for asked in program.comparisons.iter().filter(|asked| is_content_gated(asked)) {
        let words = jinja::Comparison {
            paths: asked.paths.iter().filter(|path| is_words(path)).cloned().collect(),
            ..asked.clone()
        };
        let message = format!("the template branches on message text: {words}");
        findings.push(Finding { kind: FindingKind::ContentGated, spot: Some(asked.spot), message });
    }
    history(probe, &mut findings);
    findings.sort_by_key(Finding::order);
    findings
}

/// Reports whether the BOS token is written twice or never.
pub(super) fn bos(program: &jinja::Analysis, bos: BosUse, adds: bool) -> Option<Finding> {
    let (kind, message) = match (bos, adds) {
        (BosUse::Written, true) => {
            (FindingKind::DoubleBos, "the template writes the BOS token, and the tokenizer adds it too")
        }
        (BosUse::NotWritten, false) => {
            (FindingKind::NoBos, "neither the template nor the tokenizer writes a BOS token")
        }
        _ => return None,
    };
    let read = program.reads.iter().find(|read| read.path.variable == "bos_token");
    let printed = read.and_then(|read| read.uses.iter().find(|(how, _)| *how == jinja::Use::Printed));
    Some(Finding { kind, spot: printed.map(|(_, spot)| *spot), message: message.to_owned() })
}

fn generation_prompt(probe: &Probe<'_>, support: &[(Capability, Support)], findings: &mut Vec<Finding>) {
    if !support.contains(&(Capability::GenerationPrompt, Support::No)) {
        return;
    }
    let without = r#""add_generation_prompt": false"#;
    let (Ok(asked), Ok(answered)) = (probe.run(&[USER], without), probe.run(&[USER, ANSWER], without)) else { return };
    // The text between a question and an answer, and how much of it is also between an answer and a
    // question.
    let opening = answered.between(0).trim_end();
    let goes_on = probe.run(&[USER, ANSWER, USER], without);
    let next = goes_on.as_ref().map_or("", |goes_on| goes_on.between(1));
    let alike = common_prefix(opening, next);
    let opens = |end: &str| {
        let end = end.trim_end();
        !opening.is_empty() && end.len() > alike && (opening.starts_with(end) || end.starts_with(opening))
    };
    let (kind, message) = match (opens(asked.behind(0)), opens(answered.behind(1))) {
        // The question's own turn already ends with the opening of the answer.
        (true, false) => return,
        (true, true) => {
            let message = format!("the prompt always ends with the opening of an answer: {:?}", answered.behind(1));
            (FindingKind::UnguardedGenerationPrompt, message)
        }
        (false, _) => (
            FindingKind::NoGenerationPrompt,
            "add_generation_prompt changes nothing, and the prompt never opens an answer".to_owned(),
        ),
    };
    findings.push(Finding { kind, spot: None, message });
}

/// Reports whether the text of a message is compared, as opposed to its form or whether it is
/// empty.
fn is_content_gated(asked: &jinja::Comparison) -> bool {
    if !asked.paths.iter().any(is_words) {
        return false;
    }
    let has_words = asked.with.iter().any(|with| matches!(with, jinja::Constant::Text(text) if !text.is_empty()));
    let is_count = asked.through.iter().any(|name| name == "length" || name == "count");
    match &asked.test {
        jinja::Test::Method(_) => true,
        jinja::Test::Operator(_) => !is_count && (has_words || asked.with.is_empty()),
        jinja::Test::Is(name) => matches!(name.as_str(), "equalto" | "eq" | "==" | "ne" | "!=" | "in") && has_words,
        jinja::Test::True => false,
    }
}

/// Reports whether a path leads to free text: content, reasoning, a name, arguments, a document.
fn is_words(path: &Path) -> bool {
    let keys = path.steps.iter().map(|step| match step {
        PathStep::Item => "[]",
        PathStep::Key(key) => key,
    });
    let keys: Vec<&str> = keys.collect();
    match (path.variable.as_str(), keys.as_slice()) {
        ("messages", ["[]", "content", rest @ ..]) => matches!(rest, [] | ["[]", "text" | "content"]),
        ("messages", ["[]", key, ..]) if *key == "name" || REASONING.contains(key) => true,
        ("messages", ["[]", "tool_calls", rest @ ..]) => rest.contains(&"arguments"),
        ("documents", ["[]", _, ..]) => true,
        _ => false,
    }
}

/// Checks whether earlier messages are written unchanged when the conversation continues.
fn history(probe: &Probe<'_>, findings: &mut Vec<Finding>) {
    let callings = callings(1);
    let plain: Vec<&str> = vec![USER, ANSWER, USER];
    let thought: Vec<&str> = vec![USER, THOUGHT, USER];
    let called = callings.iter().map(|calling| vec![USER, calling, RESULTS[0], ANSWER, USER]);
    let called = called.into_iter().find(|messages| probe.run(messages, TOOLS).is_ok());
    let cases = [
        ("", Some((plain, ""))),
        ("with reasoning, ", Some((thought, ""))),
        ("with a tool call, ", called.map(|messages| (messages, TOOLS))),
    ];
    for (what, case) in cases {
        let Some((messages, rest)) = case else { continue };
        let comma = if rest.is_empty() { "" } else { ", " };
        let complete = format!(r#"{rest}{comma}"add_generation_prompt": false"#);
        let mut before: Option<(usize, Rc<ProbedPrompt>)> = None;
        for count in 2..=messages.len() {
            let Ok(now) = probe.run(&messages[..count], &complete) else { continue };
            if let Some((first, before)) = before.take()
                && !now.text.starts_with(&before.text)
            {
                let same = common_prefix(&before.text, &now.text);
                let spot = before.source_at(same).map(|at| probe.spot(at));
                let message = format!("{what}the first {first} messages are written differently once more follow");
                if !findings.iter().any(|known| known.kind == FindingKind::UnstableHistory && known.spot == spot) {
                    findings.push(Finding { kind: FindingKind::UnstableHistory, spot, message });
                }
                break;
            }
            before = Some((count, now));
        }
    }
}
