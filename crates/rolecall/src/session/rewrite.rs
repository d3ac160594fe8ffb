//! Replacing ids that a template writes anew.

use std::sync::Arc;

use rolecall_text::common_items;

use super::label::push_tokens;
use super::line::Run;
use super::state::{SentPrompt, State, Waiting};
use super::stock::{Next, Stock};
use super::{Delta, Plan, Proof, Session, SessionNote};
use crate::Error;

impl Session {
    /// Writes the conversation anew from the place that a template rewrites. The new messages stay
    /// pending.
    pub(super) fn rewrite_to(&mut self, plan: Plan) -> Result<Delta, Error> {
        let mut pending = self.state.pending().to_vec();
        pending.extend(plan.new.iter().cloned());
        let mut stock = Arc::clone(&plan.next.stock);
        let mut until = plan.next.from(self.reply());
        // What is sent then cannot be rendered again without the pending messages.
        if stock.start > 0 {
            let whole = self.whole(&pending)?;
            stock = Arc::new(whole);
        }
        if let Some((_, end)) = &plan.next.reply {
            // The reply is now the template's own text, closed as the template closes it.
            until = end.stop.as_ref().map_or(end.body, |stop| if end.is_own { stop.end } else { stop.start });
        }
        let (keep, from) = self.boundary_in(stock.prompt.text());
        until = until.max(from);
        let encoded = match from {
            // The tokenizer may add a token before everything.
            0 => {
                let mut prompt = stock.prompt.up_to(until).unwrap_or_else(|| stock.prompt.clone());
                prompt.open = true;
                self.setup.encoder.encode_at_most(&prompt, self.most_ids)?
            }
            from => {
                let range = from - stock.start..until - stock.start;
                self.setup.encoder.encode_part_at_most(&stock.prompt, range, self.most_ids)?
            }
        };
        let (mut line, messages) = self.line.cut(keep);
        let mut run = Run { stock: from, messages, ..Run::default() };
        push_tokens(&mut run, &stock.prompt, &encoded.tokens);
        line.push(run);
        let sent = stock.prompt.up_to(until - stock.start).unwrap_or_else(|| stock.prompt.clone());
        let sent = Stock { prompt: sent, growth: None, count: line.messages(), whole: None, start: stock.start };
        let proof = Proof::Whole { why: None };
        let next = Next { stock, base: until, reply: None, rewrite: None, kept: None, proof: proof.clone() };
        let note = SessionNote::Rewritten { branch: self.branches.len(), ids: self.line.len() - keep };
        self.notes = self.notes.up_to(keep);
        self.notes.push(keep, note.clone());
        self.branches.push(std::mem::replace(&mut self.line, line));
        // The reply is the template's own text now.
        let waiting = Waiting { messages: self.state.pending().to_vec(), next: None };
        self.state = State::Idle { sent: Some(SentPrompt { stock: Arc::new(sent), by: None }), waiting };
        self.add(plan.new)?;
        self.state.waiting_mut()?.next = Some(Arc::new(next));
        Ok(self.delta_since(keep, proof, vec![note]))
    }

    /// Renders the whole conversation with the pending messages.
    pub(super) fn whole(&self, pending: &[Arc<rolecall_conversation::Message>]) -> Result<Stock, Error> {
        let mut messages = self.line.all_messages();
        messages.extend(pending.iter().cloned());
        let count = messages.len();
        let conversation = self.conversation_of(&messages, true);
        let (prompt, growth) = self.setup.render(&conversation)?;
        Ok(Stock { start: 0, prompt, growth, count, whole: None })
    }

    /// Returns the last place up to which the session's text is the beginning of a text and at which
    /// ids can be replaced, as the number of ids before it and the byte. This is the end of a run,
    /// or a control token in a run that was not sampled.
    ///
    /// The texts themselves are compared, since what was kept before may have shifted positions.
    fn boundary_in(&self, text: &str) -> (usize, usize) {
        let (mut ids, mut byte) = (0, 0);
        for node in self.line.nodes() {
            let run = &node.run;
            let rest = text.as_bytes().get(byte..).unwrap_or_default();
            if rest.starts_with(&run.bytes) && text.is_char_boundary(byte + run.bytes.len()) {
                (ids, byte) = (node.start() + run.ids.len(), byte + run.bytes.len());
                continue;
            }
            if run.reply.is_none() {
                let same = common_items(&run.bytes, rest);
                let whole = run.ends.partition_point(|end| *end as usize <= same);
                let is_marker = |at: usize| run.ids.get(at).is_some_and(|id| self.setup.decoder.is_marker(*id));
                let is_boundary = |at: &usize| is_marker(*at) || is_marker(*at - 1);
                let end = |at: usize| byte + run.ends[at - 1] as usize;
                let at = (1..=whole).rev().find(|at| is_boundary(at) && text.is_char_boundary(end(*at)));
                (ids, byte) = at.map_or((ids, byte), |at| (node.start() + at, end(at)));
            }
            break;
        }
        (ids, byte)
    }
}
