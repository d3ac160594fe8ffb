//! Replacing ids that a template writes anew.

use std::sync::Arc;

use super::label::push_tokens;
use super::line::Run;
use super::stock::{Next, Stock};
use super::{Delta, Plan, Proof, Session, SessionNote};
use crate::Error;

impl Session {
    /// Writes the conversation anew from the place that a template rewrites. The new messages stay
    /// pending.
    pub(super) fn rewrite_to(&mut self, plan: Plan) -> Result<Delta, Error> {
        let mut pending = self.pending.clone();
        pending.extend(plan.new.iter().cloned());
        let byte = plan.next.rewrite.as_ref().map_or(0, |rewrite| rewrite.byte);
        let (keep, from) = self.boundary_before(byte);
        let mut stock = Arc::clone(&plan.next.stock);
        let mut until = plan.next.from(self.reply.as_deref());
        // What is sent then cannot be rendered again without the pending messages.
        if stock.start > 0 {
            let whole = self.whole(&pending)?;
            stock = Arc::new(whole);
        }
        if let Some((_, end)) = &plan.next.reply {
            // The reply is now the template's own text, closed as the template closes it.
            until = end.stop.as_ref().map_or(end.body, |stop| if end.is_own { stop.end } else { stop.start });
        }
        until = until.max(from);
        let encoded = match from {
            // The tokenizer may add a token before everything.
            0 => {
                let mut prompt = stock.prompt.up_to(until).unwrap_or_else(|| stock.prompt.clone());
                prompt.open = true;
                self.setup.encoder.encode(&prompt)?
            }
            from => self.setup.encoder.encode_part(&stock.prompt, from - stock.start..until - stock.start)?,
        };
        let (mut line, messages) = self.line.cut(keep);
        let mut run = Run { stock: from, messages, ..Run::default() };
        push_tokens(&mut run, &stock.prompt, &encoded.tokens);
        line.push(run);
        let sent = stock.prompt.up_to(until - stock.start).unwrap_or_else(|| stock.prompt.clone());
        let sent = Stock { prompt: sent, growth: None, count: line.messages(), whole: None, start: stock.start };
        let proof = Proof::Whole { why: None };
        let next = Next { stock, base: until, reply: None, rewrite: None, proof: proof.clone() };
        let note = SessionNote::Rewritten { branch: self.branches.len(), ids: self.line.len() - keep };
        self.notes = self.notes.up_to(keep);
        self.notes.push(keep, note.clone());
        self.branches.push(std::mem::replace(&mut self.line, line));
        self.reply = None;
        self.sent = Some(Arc::new(sent));
        self.add(plan.new);
        self.next = Some(Arc::new(next));
        Ok(self.delta_since(keep, proof, vec![note]))
    }

    /// Renders the whole conversation with the pending messages.
    pub(super) fn whole(&self, pending: &[Arc<rolecall_conversation::Message>]) -> Result<Stock, Error> {
        let mut messages = self.line.all_messages();
        messages.extend(pending.iter().cloned());
        let count = messages.len();
        let conversation = self.conversation(messages.iter().map(|message| (**message).clone()).collect(), true);
        let (prompt, growth) = self.setup.render(&conversation)?;
        Ok(Stock { start: 0, prompt, growth, count, whole: None })
    }

    /// Returns the last place before a byte of the stock prompt at which ids can be replaced, as
    /// the number of ids before it and the byte: the start of a run, or a control token in a run
    /// that was not sampled.
    fn boundary_before(&self, byte: usize) -> (usize, usize) {
        let Some(node) = self.line.back().find(|node| node.run.stock <= byte) else { return (0, 0) };
        let run = &node.run;
        let within = byte - run.stock;
        let whole = run.ends.partition_point(|end| *end as usize <= within);
        let is_marker = |at: usize| run.ids.get(at).is_some_and(|id| self.setup.decoder.is_marker(*id));
        let is_boundary = |at: &usize| is_marker(*at) || at.checked_sub(1).is_some_and(is_marker);
        let at = (1..=whole).rev().find(|at| run.reply.is_none() && is_boundary(at)).unwrap_or(0);
        let bytes = at.checked_sub(1).map_or(0, |last| run.ends[last] as usize);
        (node.start() + at, run.stock + bytes)
    }
}
