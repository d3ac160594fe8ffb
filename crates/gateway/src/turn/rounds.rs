//! The rounds of a request whose code runs here: reply, code, the reply to its result.

use std::sync::Arc;

use rolecall::conversation::Message;
use rolecall::grammar::ToolChoice;

use crate::Fault;
use crate::reply::replies::Replies;
use crate::reply::usage::Usage;
use crate::reply::writer::Frames;
use crate::request::chat_request::{ChatRequest, Past};
use crate::turn::context::{self, Bound};
use crate::turn::exchange::{Exchange, Order, begin, cancelled, find};
use crate::turn::{KnownPast, Turn, beginnings};
use crate::work::{AT_ONCE, sized};

impl Exchange {
    /// Goes on after a reply that calls code, if it runs here: runs it, and begins the reply to its results. Returns
    /// false if the answer is there.
    pub(super) async fn go_on(&mut self, out: &mut Frames) -> Result<bool, Fault> {
        let Exchange { code: Some(code), wanted: Some(wanted), writer, run, .. } = self else { return Ok(false) };
        if code.is_running() {
            let ran = tokio::select! {
                biased;
                () = run.cancelled() => {
                    code.stop();
                    return Err(cancelled());
                }
                ran = code.ran() => ran?,
            };
            writer.ran(&ran, out);
            return Ok(true);
        }
        if code.start_next(&wanted.served.model) {
            writer.runs(out);
            return Ok(true);
        }
        if let Some((name, results)) = code.take_results() {
            self.begin_round(name, results).await?;
            return Ok(true);
        }
        let [reply] = &mut self.replies.all[..] else { return Ok(false) };
        if reply.is_cut() || !code.take(&reply.said.reading) {
            return Ok(false);
        }
        // The turn is kept, so that the next one goes on from it.
        let mut usage = Usage::default();
        reply.add_to(&mut usage);
        self.usage.add(&usage);
        let round = ChatRequest { names: vec![code.name.clone()], is_stored: false, ..wanted.clone() };
        reply.keep(&self.gateway, self.owner, &round, None).await?;
        Ok(true)
    }

    /// Begins the reply to the results of code.
    async fn begin_round(&mut self, name: String, messages: Vec<Message>) -> Result<(), Fault> {
        let Exchange { gateway, owner, wanted: Some(wanted), permit, code: Some(code), .. } = self else {
            return Ok(());
        };
        let used = self.usage.reply;
        wanted.messages = messages;
        wanted.past = Past::Known(name);
        // A choice that forced the first call would force calls for ever.
        wanted.calls.choice = match wanted.calls.choice {
            ToolChoice::None => ToolChoice::None,
            _ => ToolChoice::Auto,
        };
        wanted.sampling.max_tokens = code.most_ids.map(|most| most.saturating_sub(used).max(1));
        let (found, covered) = find(gateway, *owner, wanted, &[]).await?;
        let chain = beginnings(wanted).1;
        let bound = Bound::of(&wanted.served, &gateway.limits);
        let (asked, seen) = (wanted.clone(), permit.seen.clone());
        let turn = sized(AT_ONCE + 1, move || Turn::make(&asked, KnownPast { found, covered, chain }, bound, &seen));
        let turn = turn.await?;
        let (served, count) = (Arc::clone(&wanted.served), turn.ids.len());
        context::fit(&served.model, &served.engine, count, "input", &mut wanted.sampling).await?;
        self.usage.prompt += count as u64;
        self.usage.kept += turn.kept as u64;
        let ChatRequest { served, sampling, logprobs, .. } = &*wanted;
        let order = Order { served, sampling, logprobs: *logprobs, choices: 1, is_alone: true };
        self.replies = Replies::from(gateway.closing.or(begin(&order, turn)).await??);
        Ok(())
    }
}
