use std::ops::Range;

use rolecall::conversation::Conversation;
use rolecall::{Encoded, Origin, Prompt};

/// Ids that hold a byte of one origin, for a trainer that makes masks of its own. An id that straddles a border is in two.
#[derive(Debug, PartialEq, Eq)]
pub struct OriginRun<'a> {
    /// Which ids, counted from 0.
    pub ids: Range<usize>,
    /// `control`, `format`, `message`, `tool`, `document` or `option`.
    pub kind: &'static str,
    /// Which message, tool or document, from 0.
    pub index: Option<usize>,
    /// Whose message.
    pub role: Option<&'a str>,
    /// What of the message, or the option's name.
    pub field: Option<String>,
}

/// The runs of all ids that are there.
pub fn origin_runs<'a>(prompt: &Prompt, encoded: &Encoded, conversation: &'a Conversation) -> Vec<OriginRun<'a>> {
    let tokens = &encoded.tokens;
    let mut runs: Vec<OriginRun<'a>> = Vec::new();
    let mut first = 0;
    // What a run is of, as cheap to compare as it can be: segments of one origin may stand side by side.
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
        match runs.last_mut() {
            // Two control tokens side by side are two.
            Some(last) if before.as_ref() == Some(&segment.origin) && !is_control(&segment.origin) => {
                last.ids.end = last.ids.end.max(behind);
            }
            _ => runs.push(run_of(&segment.origin, first..behind, conversation)),
        }
        before = Some(segment.origin);
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
