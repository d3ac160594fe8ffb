//! The rounds of a request whose calls run here: reply, calls, the reply to their results.

use std::sync::Arc;

use rolecall::Stop;
use rolecall::conversation::{Content, Message};
use rolecall::grammar::ToolChoice;

use crate::observe::RequestLog;
use crate::reply::ignored_grammar;
use crate::reply::replies::Replies;
use crate::reply::usage::Usage;
use crate::reply::writer::Frames;
use crate::request::chat_request::{ChatRequest, Past};
use crate::store::Owner;
use crate::turn::context::{self, Bound};
use crate::turn::exchange::{Exchange, Order, begin, cancelled, find};
use crate::turn::hosted_calls::NextRound;
use crate::turn::{KnownPast, Turn, beginnings};
use crate::work::{AT_ONCE, sized};
use crate::{Fault, FaultCode, Gateway};

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
        let used = self.usage.reply.saturating_add(reply.count());
        if !hosted.take(&reply.said.reading, reply.is_cut(), used) {
            return Ok(false);
        }
        if hosted.is_spent() {
            // The model ended the reply, and the limit ends the answer.
            reply.said.reading.stop = Some(Stop::Length);
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
        // The results of calls that ran here.
        let ran: Vec<usize> = match &next {
            NextRound::Approved(results) => results.iter().map(|(at, _)| *at).collect(),
            NextRound::Replied(_, messages) => (0..messages.len()).collect(),
        };
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
        wanted.sampling.max_tokens = hosted.most_ids.map(|most| most.saturating_sub(used));
        let mut most = MOST_CUT;
        let mut turn = loop {
            match make_turn(gateway, *owner, wanted, &permit.seen).await {
                // What the calls have done is done, so that the model reads as much of the results as there is room for.
                Err(fault) if fault.code == FaultCode::ContextLengthExceeded && most >= LEAST_CUT => {
                    for at in &ran {
                        wanted.messages.get_mut(*at).into_iter().for_each(|message| cut(message, most));
                    }
                    most /= 4;
                }
                made => break made?,
            }
        };
        self.notes = std::mem::take(&mut turn.notes);
        self.usage.prompt += turn.ids.len() as u64;
        self.usage.kept += turn.kept as u64;
        let ChatRequest { served, sampling, logprobs, .. } = &*wanted;
        let order = Order { served, sampling, logprobs: *logprobs, choices: 1, is_alone: true };
        self.replies = Replies::from(gateway.closing.or(begin(&order, turn)).await??);
        Ok(())
    }
}

/// Makes the prompt of a reply to results, and limits the reply to the room that is left.
async fn make_turn(
    gateway: &Gateway,
    owner: Owner,
    wanted: &mut ChatRequest,
    seen: &RequestLog,
) -> Result<Turn, Fault> {
    let (names, chain) = beginnings(wanted);
    let (found, covered) = find(gateway, owner, wanted, &names).await?;
    let bound = Bound::of(&wanted.served, &gateway.limits);
    let (asked, seen) = (wanted.clone(), seen.clone());
    let turn = sized(AT_ONCE + 1, move || Turn::make(&asked, KnownPast { found, covered, chain }, bound, &seen));
    let turn = turn.await?;
    let served = Arc::clone(&wanted.served);
    context::fit(&served.model, &served.engine, turn.ids.len(), "input", &mut wanted.sampling).await?;
    Ok(turn)
}

/// The most and the fewest bytes to which a result is cut for which there is no room. Each time, it is a quarter, which leaves
/// room for the reply, too.
const MOST_CUT: usize = 16 << 10;
const LEAST_CUT: usize = 64;

/// Cuts the result of a call, and says so.
fn cut(message: &mut Message, most: usize) {
    let text = match message.content() {
        Content::Text(text) if text.len() > most => text,
        _ => return,
    };
    let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    let start = text.get(..end).unwrap_or_default();
    let note = "the rest was cut: the model's context has no room for it";
    let mut shorter = message.as_object().clone();
    shorter.insert("content", format!("{start}\n[{note}]").into());
    if let Ok(shorter) = Message::from_object(shorter) {
        *message = shorter;
    }
}
