//! Draws the result of a step for people.

use std::fmt::Write;

use rolecall::answer;
use rolecall::conversation::json;
use rolecall::encode::Decoder;
use rolecall::session::{Delta, Difference, Proof, Segment, SessionNote};

use super::Done;
use super::play::PlayedStep;
use super::written::push_ids;
use crate::paint::{Paint, Style};
use crate::visible;

/// Returns the lines of a step.
pub fn draw_played(played: &PlayedStep<'_>, decoder: &Decoder, paint: Paint) -> String {
    let mut out = head(played, paint);
    match &played.outcome {
        Ok(done) => push_done(&mut out, done, decoder, paint),
        Err(refusal) => {
            let source = played.source();
            let end = out.trim_end().len();
            out.truncate(end);
            out.push('\n');
            for line in played.diagnostic(refusal, &source).draw(paint).lines() {
                let _ = writeln!(out, "     {line}");
            }
        }
    }
    out
}

fn push_done(out: &mut String, done: &Done, decoder: &Decoder, paint: Paint) {
    match done {
        Done::Began { messages } => {
            let _ = writeln!(out, "{messages} {}", if *messages == 1 { "message" } else { "messages" });
        }
        Done::Planned { rewrite: None } => out.push_str("stable\n"),
        Done::Planned { rewrite: Some(rewrite) } => {
            let _ = writeln!(out, "{}", visible::escape(&rewrite.to_string()));
        }
        Done::Changed(delta) => push_delta(out, delta, decoder, paint),
        Done::Truncated(cut) => {
            let removed = match cut.dropped.len() {
                0 => "nothing to remove, ".to_owned(),
                1 => format!("without message {}, ", cut.dropped.start),
                _ => format!("without messages {} to {}, ", cut.dropped.start, cut.dropped.end - 1),
            };
            out.push_str(&removed);
            push_delta(out, &cut.delta, decoder, paint);
        }
        Done::Saved(saved) => {
            let _ = writeln!(out, "{} bytes; `--json` prints them, and `--save FILE` writes a file", saved.len());
        }
        Done::Restored { messages, total, is_open } => {
            let open = if *is_open { ", awaiting a reply" } else { "" };
            let _ = writeln!(out, "{messages} messages, {total} ids{open}");
        }
        Done::Compared(difference) => push_difference(out, difference),
        Done::Accepted { reply, keep, ids, segments } => {
            let end = if reply.is_unfinished { "unfinished" } else { answer::finish_reason(&reply.reading) };
            let _ = writeln!(out, "{keep} + {} = {} ids, {end}", ids.len(), keep + ids.len());
            Ids { ids, first: *keep, segments }.push(out, decoder, paint);
            let said = json::write(&reply.said.as_object().clone().into(), &json::Layout::default());
            let _ = writeln!(out, "     message  {}", visible::escape(&said));
            push_notes(out, &reply.notes, paint);
        }
        Done::Named { name, total } => {
            let _ = writeln!(out, "{}, {total} ids", visible::escape(name));
        }
    }
}

fn push_delta(out: &mut String, delta: &Delta, decoder: &Decoder, paint: Paint) {
    let proof = match &delta.proof {
        Proof::First => "first rendering".to_owned(),
        Proof::Closing => "nothing rendered".to_owned(),
        Proof::Growth { start } => format!("rendered from byte {start}"),
        Proof::Whole { why: Some(why) } => format!("rendered as a whole: {why}"),
        _ => "rendered as a whole".to_owned(),
    };
    let (keep, new, total) = (delta.keep, delta.ids.len(), delta.total());
    let share = (keep * 100).checked_div(total).unwrap_or(0);
    let _ = writeln!(out, "{keep} + {new} = {total} ids, {share}% reused, {}", visible::escape(&proof));
    let ids = Ids { ids: &delta.ids, first: delta.keep, segments: &delta.segments };
    ids.push(out, decoder, paint);
    push_notes(out, &delta.notes, paint);
}

fn push_difference(out: &mut String, difference: &Difference) {
    let text = if difference.has_stock_text() { "the stock text" } else { "not the stock text" };
    let ids = if difference.has_stock_ids { "its ids" } else { "other ids" };
    let _ = writeln!(out, "{text}, {ids}");
    for gap in &difference.gaps {
        let message = gap.message.map(|message| format!(", message {message}")).unwrap_or_default();
        let _ = writeln!(out, "     {} at id {}{message}: {} ids for {}", gap.code(), gap.id, gap.ids, gap.stock_ids);
        let _ = writeln!(out, "       session  {:?}", visible::escape(&gap.session));
        let _ = writeln!(out, "       stock    {:?}", visible::escape(&gap.stock));
    }
}

/// `   3  open     `, with the name of a session that is not the first one.
fn head(played: &PlayedStep<'_>, paint: Paint) -> String {
    let operation = played.operation.unwrap_or("?");
    let mut out = format!("{:>3}  ", played.step);
    paint.push(&mut out, Style::Strong, operation);
    out.push_str(&" ".repeat(12_usize.saturating_sub(operation.len())));
    if played.session != "main" {
        let _ = write!(out, "[{}] ", visible::escape(&played.session));
    }
    out
}

/// New ids, and who wrote them.
struct Ids<'a> {
    ids: &'a [u32],
    first: usize,
    segments: &'a [Segment],
}

impl Ids<'_> {
    fn push(&self, out: &mut String, decoder: &Decoder, paint: Paint) {
        if self.ids.is_empty() {
            return;
        }
        out.push_str("     ids      ");
        let listed: Vec<String> = self.ids.iter().map(u32::to_string).collect();
        out.push_str(&listed.join(" "));
        out.push_str("\n     text     ");
        push_ids(out, paint, decoder, self.ids, self.first, self.segments);
        out.push('\n');
    }
}

fn push_notes(out: &mut String, notes: &[SessionNote], paint: Paint) {
    for note in notes {
        out.push_str("     ");
        paint.push(out, Style::Warning, &format!("note[{}]", note.code()));
        let _ = writeln!(out, ": {}", visible::escape(&note.to_string()));
    }
}
