//! Draws a rollout turn by turn.

use std::fmt::Write;
use std::sync::Arc;

use rolecall::conversation::{Message, Role};
use rolecall::encode::Decoder;
use rolecall::loss::note_text;
use rolecall::session::{Author, Break, Rollout, Segment};

use super::written::{push_run, style};
use crate::paint::{Paint, Style};
use crate::visible;

/// Returns the rollout: a heading for each message, a line for each run of ids with its author, part,
/// ids and weight, and what broke between them.
pub fn draw_rollout(rollout: &Rollout, decoder: &Decoder, paint: Paint) -> String {
    let mut out = String::new();
    let widths = Widths::of(rollout);
    let mut breaks = rollout.breaks.iter().peekable();
    let mut turn = None;
    for (at, segment) in rollout.segments.iter().enumerate() {
        while let Some(found) = breaks.next_if(|found| found.id <= segment.ids.start) {
            push_break(&mut out, found, paint);
        }
        let owner = RunOwner::of(rollout, at);
        if turn != Some(owner) {
            turn = Some(owner);
            push_heading(&mut out, owner, &rollout.messages, paint);
        }
        widths.push(&mut out, segment, paint);
        push_run(&mut out, paint, decoder, &rollout.ids[segment.ids.clone()], style(segment.author));
        out.push('\n');
    }
    breaks.for_each(|found| push_break(&mut out, found, paint));
    push_summary(&mut out, rollout, paint);
    out
}

/// What a run of ids stands under.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RunOwner {
    Message(usize),
    /// Text before the messages, such as tools.
    Opening,
    /// What opens a turn of the model that is still awaited.
    GenerationPrompt,
}

impl RunOwner {
    /// Returns the owner of a segment. What opens a reply belongs to the reply.
    fn of(rollout: &Rollout, at: usize) -> RunOwner {
        if let Some(message) = rollout.segments[at].message {
            return RunOwner::Message(message);
        }
        let next = rollout.segments[at..].iter().find_map(|segment| segment.message);
        let is_reply =
            |index: &usize| rollout.messages.get(*index).is_some_and(|message| *message.role() == Role::Assistant);
        match next {
            None => RunOwner::GenerationPrompt,
            Some(_) if at == 0 => RunOwner::Opening,
            Some(next) if is_reply(&next) => RunOwner::Message(next),
            Some(_) => RunOwner::Opening,
        }
    }
}

/// `2 assistant`
fn push_heading(out: &mut String, owner: RunOwner, messages: &[Arc<Message>], paint: Paint) {
    let index = match owner {
        RunOwner::Message(index) => index,
        RunOwner::Opening | RunOwner::GenerationPrompt => {
            let name = if owner == RunOwner::Opening { "opening" } else { "generation prompt" };
            paint.push(out, Style::Strong, name);
            return out.push('\n');
        }
    };
    let said = messages.get(index);
    let style = match said.map(|message| message.role()) {
        Some(Role::System) => Style::System,
        Some(Role::User) => Style::User,
        Some(Role::Assistant) => Style::Assistant,
        Some(Role::Tool) => Style::Tool,
        _ => Style::Strong,
    };
    let role = said.map_or("?", |message| message.role_as_spelled());
    paint.push(out, style, &format!("{index} {}", visible::escape(role)));
    out.push('\n');
}

/// The widths of the columns before the text.
struct Widths {
    author: usize,
    part: usize,
    ids: usize,
    weight: usize,
}

impl Widths {
    fn of(rollout: &Rollout) -> Widths {
        let least = Widths { author: 0, part: 0, ids: 0, weight: 0 };
        rollout.segments.iter().fold(least, |widest, segment| Widths {
            author: widest.author.max(segment.author.name().len()),
            part: widest.part.max(segment.part.name().len()),
            ids: widest.ids.max(span(segment).len()),
            weight: widest.weight.max(segment.weight.to_string().len()),
        })
    }

    fn push(&self, out: &mut String, segment: &Segment, paint: Paint) {
        out.push_str("  ");
        let (author, part) = (segment.author.name(), segment.part.name());
        paint.push(out, style(segment.author), &format!("{author:<width$}", width = self.author));
        let _ = write!(out, "  {part:<width$}", width = self.part);
        let _ = write!(out, "  {:>width$}  ", span(segment), width = self.ids);
        let weight = format!("{:>width$}", segment.weight, width = self.weight);
        paint.push(out, if segment.weight > 0.0 { Style::Strong } else { Style::Mark }, &weight);
        out.push_str("  ");
    }
}

/// `9..12`
fn span(segment: &Segment) -> String {
    format!("{}..{}", segment.ids.start, segment.ids.end)
}

fn push_break(out: &mut String, found: &Break, paint: Paint) {
    out.push_str("  ");
    paint.push(out, Style::Warning, &format!("note[{}]", found.code()));
    let _ = writeln!(out, " at id {}: {}", found.id, visible::escape(&found.message()));
}

/// The number of ids by author, and of those with loss.
fn push_summary(out: &mut String, rollout: &Rollout, paint: Paint) {
    let of = |author: Author| -> usize {
        rollout.segments.iter().filter(|segment| segment.author == author).map(|segment| segment.ids.len()).sum()
    };
    let learned = rollout.weights.iter().filter(|weight| **weight > 0.0).count();
    let total: f32 = rollout.weights.iter().sum();
    let authors = [Author::Template, Author::Caller, Author::Sampled, Author::Closing];
    let authors: Vec<String> = authors
        .into_iter()
        .map(|author| (author, of(author)))
        .filter(|(_, count)| *count > 0)
        .map(|(author, count)| format!("{} {count}", author.name()))
        .collect();
    out.push('\n');
    let _ = writeln!(out, "{} ids: {}", rollout.ids.len(), authors.join(", "));
    let _ = writeln!(out, "{learned} with loss, of weight {total}");
    for note in &rollout.notes {
        paint.push(out, Style::Warning, &format!("note[{}]", rolecall::loss::note_code(note)));
        let _ = writeln!(out, ": {}", visible::escape(&note_text(note)));
    }
}
