//! The operations of a turn: plan, append, open.

use std::sync::Arc;

use rolecall_conversation::{Message, Role};
use rolecall_openai::Request;
use rolecall_render::{Dropped, Prompt, left_out_of};

use super::label::push_tokens;
use super::line::Run;
use super::state::State;
use super::stock::Stock;
use super::{
    Author, Delta, Finish, Next, OnRewrite, Plan, Proof, Rewrite, SegmentPart, Session, SessionError, SessionNote,
};
use crate::Error;

impl Session {
    /// Shows what appending messages would change in the ids already sent.
    pub fn plan(&self, new: &[Message]) -> Result<Plan, Error> {
        self.plan_from(self.clone(), new)
    }

    /// Shows what appending messages would change if from now on another request's tools, documents
    /// and switches apply. The clock stays; the request's own messages are ignored.
    ///
    /// Where the speaker writes them before the conversation, this rewrites everything after them.
    pub fn plan_with(&self, request: Request, new: &[Message]) -> Result<Plan, Error> {
        let mut base = self.clone();
        // What was sent is compared as it was rendered then.
        if let Some(sent) = base.state.last_sent_mut() {
            let whole = self.reaching_back(Arc::clone(&sent.stock), 0)?;
            sent.stock = Arc::new(Stock { growth: None, ..Stock::clone(&whole) });
            sent.by.get_or_insert_with(|| Arc::clone(&self.setup));
        }
        base.setup = self.setup.model.setup_of(request, self.clock)?;
        self.plan_from(base, new)
    }

    fn plan_from(&self, mut base: Session, new: &[Message]) -> Result<Plan, Error> {
        let waiting = self.state.waiting()?;
        let new: Vec<Arc<Message>> = new.iter().cloned().map(Arc::new).collect();
        let mut pending = waiting.messages.clone();
        pending.extend(new.iter().cloned());
        if self.line.messages() + pending.len() == 0 {
            return Err(SessionError::NoMessages.into());
        }
        if let Some(said) = self.cut_calls_before(&pending) {
            base.line.replace_last_message(said);
        }
        let mut next = base.next(&pending)?;
        // The caller has already chosen to keep this.
        let is_kept = |found: &Rewrite| {
            let kept = waiting.next.as_ref().and_then(|next| next.kept.as_ref());
            kept.is_some_and(|kept| (kept.byte, &kept.before, &kept.after) == (found.byte, &found.before, &found.after))
        };
        if next.rewrite.as_ref().is_some_and(is_kept) {
            next.kept = next.rewrite.take();
        }
        let next = Arc::new(next);
        Ok(Plan { new, next, base, line: self.line.clone(), pending: waiting.messages.clone() })
    }

    /// Returns the last message with the calls that were cut off, if their results follow.
    fn cut_calls_before(&self, pending: &[Arc<Message>]) -> Option<Arc<Message>> {
        let reply = self.state.reply().filter(|_| pending.first().is_some_and(|next| *next.role() == Role::Tool));
        reply.and_then(|reply| reply.with_cut_calls.clone())
    }

    /// Appends the messages of a plan. They have no ids until [`open`](Self::open), because a later
    /// message may still change their text.
    ///
    /// The ids of the result close an unfinished reply, or replace what the template rewrites.
    pub fn append(&mut self, plan: Plan, on: OnRewrite) -> Result<Delta, Error> {
        if !self.is_planned(&plan, &self.state.waiting()?.messages) {
            return Err(SessionError::StalePlan.into());
        }
        match (&plan.next.rewrite, on) {
            (Some(rewrite), OnRewrite::Refuse) => {
                return Err(SessionError::Rewrites(Box::new(rewrite.clone())).into());
            }
            (Some(_), OnRewrite::Rewrite) => {
                let mut session = plan.base.clone();
                let delta = session.rewrite_to(plan)?;
                *self = session;
                return Ok(delta);
            }
            _ => {}
        }
        let mut session = plan.base;
        let mut delta = session.close_in(&plan.next)?;
        delta.proof = plan.next.proof.clone();
        if let Some(rewrite) = &plan.next.rewrite {
            let kept = SessionNote::Kept(Box::new(rewrite.clone()));
            session.record(delta.keep, std::slice::from_ref(&kept));
            delta.notes.push(kept);
        }
        session.add(plan.new)?;
        session.state.waiting_mut()?.next = Some(match (&plan.next.kept, &plan.next.rewrite) {
            (None, Some(rewrite)) => Arc::new(Next { kept: Some(rewrite.clone()), ..Next::clone(&plan.next) }),
            _ => plan.next,
        });
        *self = session;
        Ok(delta)
    }

    /// Reports whether a plan was made for the session as it is.
    fn is_planned(&self, plan: &Plan, pending: &[Arc<Message>]) -> bool {
        let is_same = |(one, other): (&Arc<Message>, &Arc<Message>)| Arc::ptr_eq(one, other);
        plan.line.is(&self.line) && plan.pending.len() == pending.len() && plan.pending.iter().zip(pending).all(is_same)
    }

    /// Opens the model's turn: returns the ids of everything pending and of the generation prompt.
    pub fn open(&mut self) -> Result<Delta, Error> {
        let waiting = self.state.waiting()?.clone();
        if self.next_index() == 0 {
            return Err(SessionError::NoMessages.into());
        }
        let next = match waiting.next {
            Some(next) => next,
            None => {
                let next = Arc::new(self.next(&waiting.messages)?);
                if let Some(rewrite) = &next.rewrite {
                    return Err(SessionError::Rewrites(Box::new(rewrite.clone())).into());
                }
                next
            }
        };
        let (closing, mut notes) = self.closing(&next)?;
        let reply = self.reply();
        let from = next.closed_from(reply, closing.is_some());
        let stock = &next.stock;
        let mut encoded = match self.state.last_sent() {
            None => self.setup.encoder.encode_at_most(&stock.prompt, self.most_ids)?,
            Some(_) => {
                let range = from.saturating_sub(stock.start)..stock.prompt.text().len();
                self.setup.encoder.encode_part_at_most(&stock.prompt, range, self.most_ids)?
            }
        };
        let mut after = 0;
        if let Some(reply) = reply {
            let place = next.reply.as_ref();
            notes.extend(place.and_then(|(opened, end)| reply.stop_note(*opened, end, stock, from, &self.setup)));
            let is_same = encoded.tokens.iter().map(|token| token.id).zip(&reply.after).all(|(id, after)| id == *after);
            match reply.after.len() {
                0 => {}
                ids if is_same && ids <= encoded.tokens.len() => after = ids,
                ids => notes.push(SessionNote::AfterStop { ids }),
            }
        }
        encoded.tokens.drain(..after);
        notes.extend(self.left_out(&waiting.messages, &stock.prompt, from.saturating_sub(stock.start)));
        let keep = self.line.len();
        let stock_start = encoded.tokens.first().map_or(stock.end(), |token| token.start + stock.start);
        let new = Run::with_capacity(encoded.tokens.len());
        let mut run = Run { stock: stock_start, messages: waiting.messages, ..new };
        push_tokens(&mut run, &stock.prompt, &encoded.tokens);
        // Nothing can fail from here on.
        if after > 0 {
            self.line.relabel_last(after, Author::Template, SegmentPart::Frame);
        }
        if let Some(closing) = closing {
            self.line.push(closing);
        }
        self.line.push(run);
        self.record(keep, &notes);
        self.state = State::opened(Arc::clone(stock));
        Ok(self.delta_since(keep, next.proof.clone(), notes))
    }

    /// Takes a reply and the messages that follow it, and opens the next turn, on a fork.
    ///
    /// The delta has everything that follows the reply's ids: what closes the reply, the messages,
    /// and the generation prompt.
    pub fn next_turn(&self, ids: &[u32], finish: Finish, new: &[Message], on: OnRewrite) -> Result<NextTurn, Error> {
        let mut next = self.clone();
        next.accept(ids, finish)?;
        let (keep, first) = (next.len(), next.line.messages());
        let plan = next.plan(new)?;
        let closed = next.append(plan, on)?;
        let mut opened = next.open()?;
        if closed.keep < keep {
            // The template's text was written anew from an earlier place.
            let notes = closed.notes.into_iter().chain(opened.notes).collect();
            let delta = next.delta_since(closed.keep, opened.proof, notes);
            return Ok(NextTurn { session: next, delta, first });
        }
        if !closed.ids.is_empty() || !closed.notes.is_empty() {
            let notes = closed.notes.into_iter().chain(opened.notes).collect();
            opened = next.delta_since(keep, opened.proof, notes);
        }
        Ok(NextTurn { session: next, delta: opened, first })
    }

    /// Returns the parts of pending messages of which the template writes nothing, except those that its maker
    /// leaves out on purpose.
    fn left_out(&self, pending: &[Arc<Message>], prompt: &Prompt, from: usize) -> Vec<SessionNote> {
        let (first, end) = (self.line.messages(), prompt.text().len());
        let missing = left_out_of(pending, first, prompt, from.min(end)..end);
        let note = |Dropped { place, .. }: Dropped| {
            let message = place.message.unwrap_or_default();
            let calls = message.checked_sub(first).and_then(|at| pending.get(at)).map_or(0, |at| at.calls().len());
            // The whole message.
            let whole = if calls > 0 { "tool_calls[0]" } else { "content" };
            let field = if place.field.is_empty() { whole.to_owned() } else { place.field.into_owned() };
            SessionNote::LeftOut { message, field, why: "the template writes nothing of it here" }
        };
        missing.into_iter().filter(|dropped| !dropped.by_design).map(note).collect()
    }

    /// Returns a delta of the ids after the first `keep` ones.
    pub(super) fn delta_since(&self, keep: usize, proof: Proof, notes: Vec<SessionNote>) -> Delta {
        // A run without ids may follow others that are new.
        let new: Vec<_> = self.line.back().take_while(|node| node.start() >= keep).collect();
        let mut ids = Vec::with_capacity(self.line.len().saturating_sub(keep));
        let mut segments = Vec::with_capacity(new.iter().map(|node| node.run.segments.len()).sum());
        for node in new.iter().rev() {
            ids.extend_from_slice(&node.run.ids);
            segments.extend(node.segments());
        }
        Delta { keep, ids, segments, proof, notes }
    }
}

/// What [`Session::next_turn`] returns.
#[derive(Clone)]
pub struct NextTurn {
    /// The session that goes on.
    pub session: Session,
    /// The ids that follow those of the reply.
    pub delta: Delta,
    /// The index of the first new message.
    pub first: usize,
}

impl Next {
    /// Returns the byte from which on nothing is sent, with a reply that was closed or not.
    fn closed_from(&self, reply: Option<&super::Reply>, closes: bool) -> usize {
        match (reply, closes) {
            (Some(reply), true) => {
                let closed = super::Reply { is_closed: true, ..reply.clone() };
                self.from(Some(&closed))
            }
            (reply, _) => self.from(reply),
        }
    }
}
