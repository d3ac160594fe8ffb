//! The rounds of a request whose calls run here: reply, calls, the reply to their results.

use std::sync::Arc;

use rolecall::grammar::ToolChoice;

use crate::Fault;
use crate::reply::ignored_grammar;
use crate::reply::replies::Replies;
use crate::reply::usage::Usage;
use crate::reply::writer::Frames;
use crate::request::chat_request::{ChatRequest, Past};
use crate::turn::context::{self, Bound};
use crate::turn::exchange::{Exchange, Order, begin, cancelled, find};
use crate::turn::hosted_calls::NextRound;
use crate::turn::{KnownPast, Turn, beginnings};
use crate::work::{AT_ONCE, sized};

impl Exchange {
    /// Goes on after a reply with calls that run here: runs them, and begins the reply to their results. Returns false
    /// if the answer is there.
    pub(super) async fn go_on(&mut self, out: &mut Frames) -> Result<bool, Fault> {
        let Exchange { hosted: Some(hosted), wanted: Some(wanted), writer, run, .. } = self else { return Ok(false) };
        if hosted.is_running() {
            let ran = tokio::select! {
                biased;
                () = run.cancelled() => {
                    hosted.stop();
                    return Err(cancelled());
                }
                ran = hosted.ran() => ran?,
            };
            writer.ran(&ran, out);
            return Ok(true);
        }
        if let Some(kind) = hosted.start_next(&wanted.served.model) {
            writer.runs(kind, out);
            return Ok(true);
        }
        if let Some(next) = hosted.take_results() {
            self.begin_round(next).await?;
            return Ok(true);
        }
        let [reply] = &mut self.replies.all[..] else { return Ok(false) };
        if hosted.ends_answer() {
            return Ok(false);
        }
        // What the engine was not allowed to write is not run.
        ignored_grammar::check(wanted, &self.notes, &reply.said, reply.is_cut())?;
        if !hosted.take(&reply.said.reading, reply.is_cut()) {
            return Ok(false);
        }
        if !hosted.ends_answer() {
            // The turn is kept, so that the next one goes on from it.
            let mut usage = Usage::default();
            reply.add_to(&mut usage);
            self.usage.add(&usage);
            let round = ChatRequest { names: vec![hosted.name.clone()], is_stored: false, ..wanted.clone() };
            reply.keep(&self.gateway, self.owner, &round, None).await?;
        }
        Ok(true)
    }

    /// Begins the reply to the results of calls.
    async fn begin_round(&mut self, next: NextRound) -> Result<(), Fault> {
        let Exchange { gateway, owner, wanted: Some(wanted), permit, hosted: Some(hosted), .. } = self else {
            return Ok(());
        };
        let used = self.usage.reply;
        match next {
            NextRound::Approved(results) => {
                for (at, result) in results {
                    if let Some(place) = wanted.messages.get_mut(at) {
                        *place = result;
                    }
                }
            }
            NextRound::Replied(name, messages) => {
                wanted.messages = messages;
                wanted.past = Past::Known(name);
                // A choice that forced the first call would force calls for ever.
                wanted.calls.choice = match wanted.calls.choice {
                    ToolChoice::None => ToolChoice::None,
                    _ => ToolChoice::Auto,
                };
            }
        }
        wanted.sampling.max_tokens = hosted.most_ids.map(|most| most.saturating_sub(used).max(1));
        let (names, chain) = beginnings(wanted);
        let (found, covered) = find(gateway, *owner, wanted, &names).await?;
        let bound = Bound::of(&wanted.served, &gateway.limits);
        let (asked, seen) = (wanted.clone(), permit.seen.clone());
        let turn = sized(AT_ONCE + 1, move || Turn::make(&asked, KnownPast { found, covered, chain }, bound, &seen));
        let mut turn = turn.await?;
        self.notes = std::mem::take(&mut turn.notes);
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
