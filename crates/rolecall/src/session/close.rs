//! Ending replies that the model did not finish.

use std::ops::Range;
use std::sync::Arc;

use rolecall_conversation::Message;
use rolecall_render::growth::ReplyEnd;
use rolecall_tokenizer::TextPlace;

use super::line::Run;
use super::stock::{Next, Stock};
use super::{Author, Delta, Proof, Reply, SegmentPart, Session, SessionNote};
use crate::Error;

impl Session {
    /// Ends an unfinished reply: writes what closes open reasoning, and then the token with which
    /// the template ends the turn. These ids carry no loss. A call that was cut off is not
    /// completed. Without an unfinished reply, nothing happens.
    pub fn close(&mut self) -> Result<Delta, Error> {
        if !self.needs_closing() {
            return Ok(self.delta_since(self.len(), Proof::Closing, Vec::new()));
        }
        let next = match self.state.next() {
            Some(next) => Arc::clone(next),
            None => Arc::new(self.alone()?),
        };
        self.close_in(&next)
    }

    fn needs_closing(&self) -> bool {
        self.reply().is_some_and(|reply| reply.is_unfinished && !reply.is_closed)
    }

    /// Renders the conversation up to the last reply, or opened again where a template refuses to
    /// end with a reply.
    fn alone(&self) -> Result<Next, Error> {
        let reply = self.reply().map_or(0, |reply| reply.message);
        let stock = self.render(&[], false).or_else(|_| self.render(&[], true))?;
        let opened = self.state.stock().map_or(0, |stock| stock.end()).max(stock.start);
        let end = stock.reply_end(reply, opened, self.setup.reply_rule());
        let reply = Some((Some(opened), end));
        Ok(Next { stock: Arc::new(stock), base: opened, reply, rewrite: None, kept: None, proof: Proof::Closing })
    }

    /// Closes an unfinished reply as a rendering does.
    pub(super) fn close_in(&mut self, next: &Next) -> Result<Delta, Error> {
        let keep = self.len();
        let (closing, notes) = self.closing(next)?;
        if let Some(closing) = closing {
            self.line.push(closing);
            self.state.change_reply(|reply| reply.is_closed = true);
            self.record(keep, &notes);
        }
        Ok(self.delta_since(keep, Proof::Closing, notes))
    }

    /// Returns the ids that close an unfinished reply.
    pub(super) fn closing(&self, next: &Next) -> Result<(Option<Run>, Vec<SessionNote>), Error> {
        if !self.needs_closing() {
            return Ok((None, Vec::new()));
        }
        let Some(reply) = self.reply() else { return Ok((None, Vec::new())) };
        let message = Some(reply.message);
        let stop = next.reply.as_ref().filter(|(_, end)| end.is_own).and_then(|(_, end)| end.stop.clone());
        let ends_later = match next.proof {
            Proof::Closing => self.ends_before_question(),
            _ => next.reply.as_ref().is_some_and(|(_, end)| self.ends_later(reply, end, &next.stock)),
        };
        let stock = &next.stock;
        let at = stop.as_ref().map_or(stock.end(), |stop| stop.start);
        let mut run = Run { stock: at, ..Run::default() };
        if reply.in_reasoning
            && let Some(marker) = &self.setup.reasoning_end
        {
            self.push_marker(&mut run, marker, message, SegmentPart::Frame)?;
        }
        match (stop, &self.setup.final_stop) {
            _ if ends_later => {}
            (Some(stop), _) => {
                let range = stop.start - stock.start..stop.end - stock.start;
                let tokens = self.setup.encoder.encode_part(&stock.prompt, range)?.tokens;
                let tokens = tokens.iter().map(|token| (token.id, token.start..token.end));
                push_closing(&mut run, stock.prompt.text(), tokens, message, SegmentPart::Stop);
            }
            (None, Some(stop)) => self.push_marker(&mut run, stop, message, SegmentPart::Stop)?,
            (None, None) => {}
        }
        let notes = vec![SessionNote::Closed { ids: run.ids.len() }];
        Ok((Some(run), notes))
    }

    /// Reports whether the template ends a reply that something follows in a way in which the model never ends it.
    fn ends_later(&self, reply: &Reply, end: &ReplyEnd, stock: &Stock) -> bool {
        if end.stop.is_some() {
            return false;
        }
        let own = stock.text_from(end.body).get(..end.own.saturating_sub(end.body)).unwrap_or_default().trim();
        // It may close reasoning that is still open, and not the turn.
        let is_open = |marker: &String| reply.in_reasoning && own.ends_with(marker.trim());
        !own.is_empty() && !self.setup.reasoning_end.as_ref().is_some_and(is_open)
    }

    /// Reports whether what a prompt writes between the last reply and a question ends the reply.
    fn ends_before_question(&self) -> bool {
        let (Some(reply), Ok(stock)) = (self.reply(), self.render(&[Arc::new(Message::user(""))], true)) else {
            return false;
        };
        let opened = self.state.stock().map_or(0, |stock| stock.end()).max(stock.start);
        self.ends_later(reply, &stock.reply_end(reply.message, opened, self.setup.reply_rule()), &stock)
    }

    /// Adds a marker: as its own token if it has one, otherwise as text.
    fn push_marker(&self, run: &mut Run, marker: &str, message: Option<usize>, part: SegmentPart) -> Result<(), Error> {
        let tokenizer = self.setup.encoder.tokenizer();
        if let Some(id) = tokenizer.token_id(marker) {
            run.push(id, marker.as_bytes(), Author::Closing, message, part, 0.0);
            return Ok(());
        }
        let mut tokens = Vec::new();
        tokenizer.encode_ordinary(marker, TextPlace::Inside, &mut tokens).map_err(rolecall_encode::Error::from)?;
        let tokens = tokens.iter().map(|token| (token.id, token.range()));
        push_closing(run, marker, tokens, message, part);
        Ok(())
    }
}

/// Adds ids that close a reply. Tokens that each hold a part of a character all span it: the first
/// one gets its text.
fn push_closing(
    run: &mut Run,
    text: &str,
    tokens: impl Iterator<Item = (u32, Range<usize>)>,
    message: Option<usize>,
    part: SegmentPart,
) {
    let mut at = 0;
    for (id, span) in tokens {
        let bytes = text.as_bytes().get(span.start.max(at)..span.end).unwrap_or_default();
        run.push(id, bytes, Author::Closing, message, part, 0.0);
        at = at.max(span.end);
    }
}
