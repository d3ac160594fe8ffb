//! The changes of a report, one of each kind.

use std::collections::BTreeSet;

use rolecall::stability::{AddedMessage, ByteSource, Case, Report, StepChange};

use super::Sources;
use crate::paint::{Paint, Style};
use crate::visible;

/// Changes of the same kind: the same kind of message was added, and the same lines of the template
/// wrote the first byte that differs.
pub struct Group<'r> {
    case: &'r Case,
    first: StepChange<'r>,
    steps: usize,
    conversations: BTreeSet<&'r str>,
}

/// Returns the changes, all of them or one of each kind.
pub fn gather(report: &Report, all: bool) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for (case, found) in report.changes() {
        let same = |group: &&mut Group<'_>| !all && kind(&group.first) == kind(&found);
        match groups.iter_mut().find(same) {
            Some(group) => {
                group.steps += 1;
                group.conversations.insert(&case.name);
            }
            None => groups.push(Group { case, first: found, steps: 1, conversations: [case.name.as_str()].into() }),
        }
    }
    groups
}

fn kind<'f>(found: &StepChange<'f>) -> (bool, &'f AddedMessage, Option<u32>, Option<u32>, bool) {
    let change = found.change;
    let later = change.later.as_ref().and_then(line);
    (found.in_generation, &found.step.added, line(&change.earlier), later, change.later.is_none())
}

fn line(written: &ByteSource) -> Option<u32> {
    written.spot.map(|spot| spot.line)
}

impl Group<'_> {
    /// Appends the first change of the group, with the lines of the template.
    pub fn push(&self, out: &mut String, sources: Sources<'_>, paint: Paint) {
        let StepChange { step, in_generation, kept, change } = self.first;
        let added = format!("message {} ({})", step.messages, visible::escape(&step.added.to_string()));
        let heading = match in_generation {
            false => format!("adding {added} changes {}", belongs(&change.earlier)),
            true => format!("{added} does not begin with its generation prompt"),
        };
        let more = match (self.steps, self.conversations.len()) {
            (1, _) => String::new(),
            (steps, 1) => format!(" ({steps} steps)"),
            (steps, conversations) => format!(" ({steps} steps of {conversations} conversations)"),
        };
        let name = visible::escape(&self.case.name).into_owned();
        out.push_str(&format!(
            "{}: {heading}{more}
",
            paint.text(Style::Strong, &name)
        ));
        let offset = match change.byte == change.character {
            true => format!("byte {}", change.byte),
            false => format!("byte {} (character {})", change.byte, change.character),
        };
        out.push_str(&format!("  {offset} of {}\n", kept.bytes));
        self.push_side(out, "before", Some(&change.earlier), sources, paint);
        self.push_side(out, "now", change.later.as_ref(), sources, paint);
        let ids = kept.ids.map_or(String::new(), |ids| format!(", {} of {} ids", ids.of - ids.kept, ids.of));
        out.push_str(&format!("  lost    {} bytes{ids}\n", kept.lost_bytes()));
    }

    /// Appends what one of the prompts has from the byte on, and the line of the template.
    fn push_side(
        &self,
        out: &mut String,
        label: &str,
        written: Option<&ByteSource>,
        sources: Sources<'_>,
        paint: Paint,
    ) {
        let Some(written) = written else {
            out.push_str(&format!("  {label:<7} the end of the prompt\n"));
            return;
        };
        out.push_str(&format!("  {label:<7} {}\n", paint.text(Style::Format, &visible::escape(&written.text))));
        if let Some(spot) = written.spot {
            let line = self.source_line(spot.line, sources);
            let line = line.map_or_else(String::new, |line| format!(": {}", excerpt(&line, spot.column)));
            out.push_str(&format!("          line {}{}\n", spot.line, visible::escape(&line)));
        }
    }

    /// Returns a line of the template that renders the conversation, if it is known.
    fn source_line(&self, number: u32, sources: Sources<'_>) -> Option<String> {
        let has_tools = self.case.conversation.tools.is_some();
        let named = sources.templates?.choose(sources.name, has_tools).ok()?;
        let at = usize::try_from(number).ok()?.checked_sub(1)?;
        named.source.lines().nth(at).map(str::to_owned)
    }
}

/// The maximum length of a shown line in characters.
const WIDEST: usize = 80;

/// Returns the part of a line from a column on, or the whole line if it is short.
fn excerpt(line: &str, column: u32) -> String {
    let line = line.trim_end();
    let length = line.chars().count();
    if length <= WIDEST {
        return line.trim_start().to_owned();
    }
    let from = usize::try_from(column).unwrap_or(1).saturating_sub(1).min(length - 1);
    let shown: String = line.chars().skip(from).take(WIDEST).collect();
    let before = if from > 0 { "…" } else { "" };
    let behind = if from + WIDEST < length { "…" } else { "" };
    format!("{before}{}{behind}", shown.trim())
}

fn belongs(written: &ByteSource) -> String {
    written.message.map_or("text that belongs to no message".to_owned(), |message| format!("message {message}"))
}
