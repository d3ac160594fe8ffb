//! The stock rendering of a session's conversation, and how it compares with what was sent.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rolecall_conversation::{Conversation, Message, Role};
use rolecall_render::growth::{Growth, Longer, NotGrown, ReplyEnd, ReplyRule, reply_end};
use rolecall_render::{Origin, Prompt};
use rolecall_text::common_prefix;

use super::reply::Reply;
use super::{Proof, Rewrite, Session};
use crate::Error;

/// A stock rendering, or its end.
#[derive(Clone, Debug)]
pub(super) struct Stock {
    /// The byte of the whole prompt at which `prompt` begins.
    pub start: usize,
    pub prompt: Prompt,
    pub growth: Option<Growth>,
    /// The number of messages.
    pub count: usize,
    /// Why it was rendered as a whole, if it was.
    pub whole: Option<NotGrown>,
}

/// The rendering of a longer conversation, compared with what was sent.
#[derive(Clone, Debug)]
pub(super) struct Next {
    pub stock: Arc<Stock>,
    /// The byte of the whole prompt up to which it is sent, if no reply was accepted since.
    pub base: usize,
    /// Where the last reply begins, if that is known, and where it ends.
    pub reply: Option<(Option<usize>, ReplyEnd)>,
    pub rewrite: Option<Rewrite>,
    /// A rewrite that the caller chose to keep before.
    pub kept: Option<Rewrite>,
    pub proof: Proof,
}

impl Next {
    /// Returns the byte of the whole prompt from which on it is not sent yet.
    pub fn from(&self, reply: Option<&Reply>) -> usize {
        match (reply, &self.reply) {
            (Some(reply), Some((opened, end))) => reply.sent_until(end, &self.stock, *opened),
            _ => self.base,
        }
    }
}

impl Stock {
    /// Returns the end of the whole prompt.
    pub fn end(&self) -> usize {
        self.start + self.prompt.text().len()
    }

    /// Returns the text from a byte of the whole prompt on.
    pub fn text_from(&self, byte: usize) -> &str {
        byte.checked_sub(self.start).and_then(|at| self.prompt.text().get(at..)).unwrap_or_default()
    }

    /// Returns the part after which only the template's own text follows: the generation prompt.
    pub fn tail(&self) -> &str {
        self.prompt.text().get(self.prompt.said_until()..).unwrap_or_default()
    }

    /// Finds the end of a message's reply. Positions are those of the whole prompt.
    pub fn reply_end(&self, message: usize, from: usize, rule: ReplyRule<'_>) -> ReplyEnd {
        let end = reply_end(&self.prompt, message, from.saturating_sub(self.start), rule);
        ReplyEnd {
            body: end.body + self.start,
            own: end.own + self.start,
            stop: end.stop.map(|stop| stop.start + self.start..stop.end + self.start),
            is_own: end.is_own,
            end: end.end + self.start,
        }
    }

    /// Returns the byte of the whole prompt up to which it writes a text of the model, if it ends the
    /// reply with no token of its own. `opened` is where the reply begins, if that is known.
    pub fn said_until(&self, end: &ReplyEnd, opened: Option<usize>, text: &[u8]) -> usize {
        match opened.filter(|opened| self.text_from(*opened).as_bytes().starts_with(text)) {
            Some(opened) => (opened + text.len()).max(end.own),
            None => {
                let space = &text[text.trim_ascii_end().len()..];
                let has_space = self.text_from(end.own).as_bytes().starts_with(space);
                end.own + if has_space { space.len() } else { 0 }
            }
        }
    }

    /// Reports whether anything from a byte of the whole prompt on belongs to a message.
    fn has_message(&self, message: usize, from: usize) -> bool {
        let from = from.saturating_sub(self.start);
        let turns = self.prompt.turns();
        let has_turn =
            (0..turns.len()).any(|at| turns[at].message == Some(message) && self.prompt.turn_span(at).end > from);
        let length = self.prompt.text().len();
        has_turn
            || self
                .prompt
                .segments_in(from.min(length)..length)
                .any(|segment| segment.origin.message() == Some(message))
    }

    /// Returns the byte of the whole prompt at which the generation prompt begins.
    fn opening_start(&self) -> usize {
        let last = self.prompt.turns().last().filter(|turn| turn.message.is_none());
        self.start + last.map_or(self.prompt.text().len() - self.tail().len(), |turn| turn.start)
    }

    /// Returns where the text of a message's reply may begin, from a byte of the whole prompt on:
    /// between the start of its turn and the first text of the message that no header prints.
    pub fn opening_span(&self, message: usize, byte: usize, rule: ReplyRule<'_>) -> Option<Range<usize>> {
        let from = byte.saturating_sub(self.start);
        let length = self.prompt.text().len();
        let mut own = self
            .prompt
            .segments_in(from.min(length)..length)
            .filter(|segment| segment.origin.message() == Some(message));
        let is_header =
            |origin: &Origin| matches!(origin, Origin::Message { field, .. } if field == "role" || field == "name");
        let first = own.next();
        let turn = self.prompt.turns().iter().find(|turn| turn.message == Some(message) && turn.start >= from);
        let start = self.start
            + turn.map(|turn| turn.start).into_iter().chain(first.as_ref().map(|first| first.start)).min()?;
        let text = first.into_iter().chain(own).find(|segment| !is_header(&segment.origin));
        let end = text.map_or_else(
            || {
                let end = self.reply_end(message, start, rule);
                end.stop.filter(|_| end.is_own).map_or(end.own, |stop| stop.start)
            },
            |text| text.start + self.start,
        );
        Some(start..end.max(start))
    }

    /// Returns the byte of the whole prompt at which a message's own text begins.
    pub fn message_start(&self, message: usize) -> Option<usize> {
        self.prompt.message_start(message).map(|at| at + self.start)
    }
}

impl Session {
    /// Renders the conversation of all messages up to the last `pending` ones, and those.
    pub(super) fn render(&self, pending: &[Arc<Message>], generates: bool) -> Result<Stock, Error> {
        let count = self.line.messages() + pending.len();
        let mut why = None;
        if let Some(growth) = self.state.stock().and_then(|sent| sent.growth.as_ref()) {
            let before = self.line.messages();
            // A chain of calls is often rendered again from its start.
            let is_chain = pending.iter().all(|message| *message.role() == Role::Tool);
            let first = self.needs_from.load(Ordering::Relaxed);
            let mut reach = Reach {
                has_head: self.setup.needs_head.load(Ordering::Relaxed),
                tail: if is_chain { before.saturating_sub(first).max(TAIL) } else { TAIL },
            };
            while why.is_none() {
                match self.grow(growth, pending, generates, reach) {
                    Ok(stock) => {
                        let first = if reach.tail > TAIL { before.saturating_sub(reach.tail) } else { usize::MAX };
                        self.needs_from.store(first, Ordering::Relaxed);
                        return Ok(stock);
                    }
                    Err(NotGrown::Needs { message }) if !reach.has_head && message < self.head.len() => {
                        reach.has_head = true;
                        self.setup.needs_head.store(true, Ordering::Relaxed);
                    }
                    // It may search them one after another.
                    Err(NotGrown::Needs { message }) if reach.tail < before => {
                        reach.tail = before.saturating_sub(message).max(reach.tail * FURTHER);
                    }
                    Err(reason) => why = Some(reason),
                }
            }
        }
        let mut messages = self.line.all_messages();
        messages.extend(pending.iter().cloned());
        let conversation = self.conversation_of(&messages, generates);
        let (prompt, growth) = self.setup.render(&conversation)?;
        let whole = Some(why.unwrap_or(NotGrown::Unsupported("nothing")));
        Ok(Stock { start: 0, prompt, growth, count, whole })
    }

    fn grow(
        &self,
        growth: &Growth,
        pending: &[Arc<Message>],
        generates: bool,
        reach: Reach,
    ) -> Result<Stock, NotGrown> {
        let count = self.line.messages() + pending.len();
        let mut tail = self.line.last_messages(reach.tail);
        tail.extend(pending.iter().map(Arc::as_ref));
        let head: Vec<&Message> = self.head.iter().filter(|_| reach.has_head).map(Arc::as_ref).collect();
        let frame = self.setup.frame(generates);
        let longer = Longer { frame, count, head: &head, tail: &tail };
        let grown = self.setup.grow(growth, &longer)?;
        Ok(Stock { start: grown.start, prompt: grown.prompt, growth: grown.growth, count, whole: None })
    }

    /// Returns the conversation of the session with these shared messages.
    pub(super) fn conversation_of(&self, messages: &[Arc<Message>], generates: bool) -> Conversation {
        self.conversation(messages.iter().map(|message| Message::clone(message)).collect(), generates)
    }

    /// Returns a conversation of the session with these messages.
    pub(super) fn conversation(&self, messages: Vec<Message>, generates: bool) -> Conversation {
        Conversation { messages, add_generation_prompt: Some(generates), ..self.setup.request.conversation.clone() }
    }

    /// Renders the conversation with the pending messages and compares it with what was sent.
    pub(super) fn next(&self, pending: &[Arc<Message>]) -> Result<Next, Error> {
        let stock = Arc::new(self.render(pending, true)?);
        let proof = match &stock.whole {
            None => Proof::Growth { start: stock.start },
            Some(_) if self.state.last_sent().is_none() => Proof::First,
            Some(why) => Proof::Whole { why: Some(why.clone()) },
        };
        let Some(sent) = self.state.stock().cloned() else {
            return Ok(Next { stock, base: 0, reply: None, rewrite: None, kept: None, proof });
        };
        let earlier = self.reaching_back(sent, stock.start)?;
        let base = earlier.start.max(stock.start);
        let same = base + common_prefix(earlier.text_from(base), stock.text_from(base));
        let Some(reply) = self.state.reply() else {
            // Everything up to the end of the last rendering was sent.
            let rewrite = (same < earlier.end()).then(|| self.rewrite(&earlier, &stock, same));
            return Ok(Next { base: earlier.end().min(stock.end()), stock, reply: None, rewrite, kept: None, proof });
        };
        if same < earlier.end() {
            let from = stock.message_start(reply.message).unwrap_or(same).max(stock.start);
            let end = stock.reply_end(reply.message, from, self.setup.reply_rule());
            let rewrite = Some(self.rewrite(&earlier, &stock, same));
            return Ok(Next { base: from, stock, reply: Some((None, end)), rewrite, kept: None, proof });
        }
        let opened = earlier.end();
        let end = stock.reply_end(reply.message, opened, self.setup.reply_rule());
        // A template may also take back the token that stops the reply.
        let is_stopped = reply.is_closed || (reply.stop.is_some() && reply.same_until(&stock, opened).is_none());
        let is_open_again = end.stop.is_none() && is_stopped;
        if is_open_again && !stock.has_message(reply.message, opened) {
            // The template leaves the reply out, and its opening now opens another one.
            let rewrite = Some(self.rewrite(&earlier, &stock, opened));
            return Ok(Next { base: stock.opening_start(), stock, reply: None, rewrite, kept: None, proof });
        }
        let rewrite = match reply.is_written(&stock, opened, &end) && !is_open_again {
            true => None,
            false => self.rewritten_reply(reply, &stock, opened)?,
        };
        Ok(Next { base: opened, stock, reply: Some((Some(opened), end)), rewrite, kept: None, proof })
    }

    /// Returns the earlier rendering from a byte on.
    pub(super) fn reaching_back(&self, earlier: Arc<Stock>, start: usize) -> Result<Arc<Stock>, Error> {
        if earlier.start <= start {
            return Ok(earlier);
        }
        let messages = self.line.all_messages();
        let messages = &messages[..earlier.count.min(messages.len())];
        let (prompt, growth) = self.setup.render(&self.conversation_of(messages, true))?;
        Ok(Arc::new(Stock { start: 0, prompt, growth, count: earlier.count, whole: None }))
    }

    /// Determines whether a reply that the model spelled in its own way is written in the same way
    /// with and without the messages that follow it.
    fn rewritten_reply(&self, reply: &Reply, stock: &Arc<Stock>, opened: usize) -> Result<Option<Rewrite>, Error> {
        // A template may refuse a conversation that ends with the reply.
        let Ok(fresh) = self.render(&[], false) else { return Ok(None) };
        let end = fresh.reply_end(reply.message, opened, self.setup.reply_rule());
        let end = end.stop.filter(|_| end.is_own).map_or(end.body, |stop| stop.end);
        let before = fresh.text_from(opened).get(..end.saturating_sub(opened)).unwrap_or_default();
        let after = stock.text_from(opened);
        if after.starts_with(before) {
            return Ok(None);
        }
        let same = opened + common_prefix(before, after);
        Ok(Some(self.rewrite(&fresh, stock, same)))
    }

    fn rewrite(&self, earlier: &Stock, later: &Stock, byte: usize) -> Rewrite {
        let origin = earlier.prompt.origin_at(byte.saturating_sub(earlier.start));
        let message = origin.and_then(|origin| origin.message()).or_else(|| {
            let at = byte.saturating_sub(earlier.start);
            earlier.prompt.turns().iter().rfind(|turn| turn.start <= at).and_then(|turn| turn.message)
        });
        let messages = self.line.all_messages();
        let messages = &messages[..earlier.count.min(messages.len())];
        let conversation = self.conversation_of(messages, earlier.prompt.open);
        Rewrite {
            byte,
            message,
            line: self.setup.spot_at(&conversation, byte),
            ids: self.line.len() - self.line.ids_before_stock(byte).min(self.line.len()),
            before: start_of(earlier.text_from(byte)),
            after: start_of(later.text_from(byte)),
        }
    }
}

/// The messages that are at hand for a rendering, besides the new ones.
#[derive(Clone, Copy)]
struct Reach {
    /// Whether the session's first messages are.
    has_head: bool,
    /// The number of messages before the new ones.
    tail: usize,
}

/// The number of messages before the new ones that a rendering may look back to.
const TAIL: usize = 4;

/// How much further it may look back if that is not enough.
const FURTHER: usize = 4;

/// Returns the first characters of a text.
fn start_of(text: &str) -> String {
    text.chars().take(24).collect()
}
