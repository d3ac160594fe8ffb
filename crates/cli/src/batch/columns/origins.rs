use std::ops::Range;

use rolecall::conversation::Conversation;
use rolecall::{Encoded, Origin, Prompt};

/// A run of ids that contain bytes of one origin, for trainers that make their own masks. An id
/// that straddles a boundary is in both runs.
#[derive(Debug, PartialEq, Eq)]
pub struct OriginRun<'a> {
    /// The range of ids, counted from 0.
    pub ids: Range<usize>,
    /// `control`, `format`, `message`, `tool`, `document` or `option`.
    pub kind: &'static str,
    /// The index of the message, tool or document, from 0.
    pub index: Option<usize>,
    /// The role of the message.
    pub role: Option<&'a str>,
    /// The field of the message, or the name of the option.
    pub field: Option<String>,
}

/// Returns the runs of all ids of a prompt.
pub fn origin_runs<'a>(prompt: &Prompt, encoded: &Encoded, conversation: &'a Conversation) -> Vec<OriginRun<'a>> {
    let tokens = &encoded.tokens;
    let mut runs: Vec<OriginRun<'a>> = Vec::new();
    let mut first = 0;
    // The origin of the current run, unless it is a control token. It is cheap to compare: adjacent
    // segments may have the same origin.
    let mut before: Option<Origin> = None;
    for segment in prompt.segments() {
        let (start, end) = (segment.start, segment.start + segment.text.len());
        while tokens.get(first).is_some_and(|token| token.end <= start) {
            first += 1;
        }
        let mut behind = first;
        while tokens.get(behind).is_some_and(|token| token.start < end) {
            behind += 1;
        }
        if first == behind {
            continue;
        }
        let is_own = prompt.template().is_some() && segment.origin == Origin::Format;
        // Which of a chat template's texts are control tokens, only the tokenizer knows.
        let kinds = tokens[first..behind].chunk_by(|a, b| !is_own || (!a.control && !b.control));
        let mut at = first;
        for part in kinds {
            let ids = at..at + part.len();
            at = ids.end;
            let is_control = is_control(&segment.origin) || (is_own && part[0].control);
            match runs.last_mut() {
                // Adjacent control tokens stay separate runs.
                Some(last) if before.as_ref() == Some(&segment.origin) && !is_control => {
                    last.ids.end = last.ids.end.max(ids.end);
                }
                _ if is_control => runs.push(OriginRun { ids, kind: "control", index: None, role: None, field: None }),
                _ => runs.push(run_of(&segment.origin, ids, conversation)),
            }
            before = Some(segment.origin.clone()).filter(|_| !is_control);
        }
    }
    runs
}

fn is_control(origin: &Origin) -> bool {
    matches!(origin, Origin::Control(_))
}

fn run_of<'a>(origin: &Origin, ids: Range<usize>, conversation: &'a Conversation) -> OriginRun<'a> {
    let run = |kind, index, field| OriginRun { ids: ids.clone(), kind, index, role: None, field };
    match origin {
        Origin::Control(_) => run("control", None, None),
        Origin::Format => run("format", None, None),
        Origin::Message { message, field } => {
            let role = conversation.messages.get(*message).map(|message| message.role().name());
            OriginRun { role, ..run("message", Some(*message), Some(field.to_string())) }
        }
        Origin::Tool { tool } => run("tool", Some(*tool), None),
        Origin::Document { document } => run("document", Some(*document), None),
        Origin::Option { name } => run("option", None, Some(name.clone())),
    }
}
