//! What it means that a leaf is not in the prompt.

use rolecall_conversation::REASONING;

use super::{DesignRule, LeafKind};

/// The reason of a key that is not one of a chat format's.
pub(super) const UNREAD_KEY: &str = "nothing reads this key of a message";

/// Keys of a message that rolecall itself reads.
const OF_LOSS: [&str; 3] = ["loss", "train", "weight"];

/// Keys of a schema that steer how a template writes a parameter.
const STEERING: [&str; 4] = ["type", "strict", "additionalProperties", "nullable"];

/// What a leaf belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Message {
        index: usize,
        is_result: bool,
        is_assistant: bool,
        /// Whether a user message follows.
        is_earlier: bool,
    },
    Tool,
    Document,
    Switch,
}

/// What became of a leaf that the prompt does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub kind: LeafKind,
    pub rule: Option<DesignRule>,
    pub why: &'static str,
}

impl Verdict {
    /// Reports whether the rest of the request says the same as the leaf.
    pub fn is_of_envelope(self) -> bool {
        matches!(self.rule, Some(DesignRule::Envelope | DesignRule::CallId | DesignRule::ResultName))
    }
}

/// Judges a leaf that is not in the prompt by its path and whether the run read it.
pub(super) fn judge(owner: Owner, path: &str, is_text: bool, is_seen: bool) -> Verdict {
    let read = Verdict { kind: LeafKind::Read, rule: None, why: "the run read it, and did not write it" };
    let lost = |why| Verdict { kind: LeafKind::LeftOut, rule: None, why };
    let by = |rule: DesignRule| Verdict { kind: LeafKind::DroppedByDesign, rule: Some(rule), why: rule.why() };
    let read_or = |rule| if is_seen { Verdict { rule: Some(rule), ..read } } else { by(rule) };
    let read_or_lost = |why| if is_seen { read } else { lost(why) };
    let top = &path[..path.bytes().position(|byte| matches!(byte, b'.' | b'[')).unwrap_or(path.len())];
    let Owner::Message { is_result, is_assistant, is_earlier, .. } = owner else {
        return match owner {
            Owner::Tool => of_tool(path, is_text, is_seen, read, lost, by),
            Owner::Document if !is_text => read_or_lost("the template does not write the document"),
            Owner::Document => lost("the template does not write the document"),
            _ => read_or_lost("the run does not read this switch"),
        };
    };
    match top {
        "role" => read_or(DesignRule::Envelope),
        "content" => of_content(path, is_seen, read, lost, by),
        top if REASONING.contains(&top) && is_assistant => of_reasoning(is_earlier),
        "tool_calls" | "function_call" => match after_index(path) {
            "type" | "index" => read_or(DesignRule::Envelope),
            "id" => read_or(DesignRule::CallId),
            rest if rest.contains("arguments") || rest.contains("input") => {
                lost("the template does not write the call's arguments")
            }
            _ => lost("the template does not write the call"),
        },
        "tool_call_id" if is_result => read_or(DesignRule::CallId),
        "id" => read_or(DesignRule::CallId),
        "name" if is_result => read_or(DesignRule::ResultName),
        "tools" | "functions" => of_tool(path, is_text, is_seen, read, lost, by),
        top if OF_LOSS.contains(&top) => read,
        _ => read_or_lost(UNREAD_KEY),
    }
}

/// Judges the reasoning of a message.
pub(super) fn of_reasoning(is_earlier: bool) -> Verdict {
    let rule = DesignRule::EarlierReasoning;
    let why = "the template does not write the reasoning of this kind of message";
    match is_earlier {
        true => Verdict { kind: LeafKind::DroppedByDesign, rule: Some(rule), why: rule.why() },
        false => Verdict { kind: LeafKind::LeftOut, rule: None, why },
    }
}

fn of_tool(
    path: &str,
    is_text: bool,
    is_seen: bool,
    read: Verdict,
    lost: impl Fn(&'static str) -> Verdict,
    by: impl Fn(DesignRule) -> Verdict,
) -> Verdict {
    let last = path.rsplit('.').next().unwrap_or(path);
    let is_steering = !is_text || STEERING.contains(&last) || last.starts_with("required[");
    match after_index(path) {
        "type" => by(DesignRule::Envelope),
        _ if is_seen && is_steering => read,
        _ => lost("the template does not write the tool"),
    }
}

fn of_content(
    path: &str,
    is_seen: bool,
    read: Verdict,
    lost: impl Fn(&'static str) -> Verdict,
    by: impl Fn(DesignRule) -> Verdict,
) -> Verdict {
    match after_index(path) {
        "content" => lost("the template does not write the content of this kind of message"),
        "text" | "" => lost("the template does not write this kind of part"),
        "type" | "cache_control.type" => {
            let rule = by(DesignRule::Envelope);
            if is_seen { Verdict { rule: rule.rule, ..read } } else { rule }
        }
        // Of other parts, a template writes a slot.
        _ => read,
    }
}

/// Returns the path after the first index, or the whole path if it has none.
fn after_index(path: &str) -> &str {
    match path.split_once(']') {
        Some((_, rest)) => rest.strip_prefix('.').unwrap_or(rest),
        None => path,
    }
}

/// Reports whether bytes that are missing at the start of an earlier reply are its reasoning: they
/// end with a closing tag.
pub(super) fn is_earlier_reasoning(owner: Owner, path: &str, missing: &str) -> bool {
    let ends_with_tag = || {
        let kept = missing.trim_end();
        kept.strip_suffix('>').and_then(|kept| kept.rsplit_once("</")).is_some_and(|(_, name)| {
            !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | ':' | '-' | '|'))
        })
    };
    matches!(owner, Owner::Message { is_earlier: true, is_assistant: true, .. })
        && path.starts_with("content")
        && ends_with_tag()
}
