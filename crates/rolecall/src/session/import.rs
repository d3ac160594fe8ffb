//! Sessions of conversations that already have replies.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use rolecall_conversation::{Message, Role};
use rolecall_encode::EncodedToken;
use rolecall_openai::Request;
use rolecall_render::growth::{ReplyRule, reply_end_of};
use rolecall_render::{ModelText, Prompt};

use super::label::push_tokens;
use super::line::{Line, Run};
use super::state::State;
use super::stock::Stock;
use super::{Author, SegmentPart, Session, SessionError};
use crate::model::setup::Setup;
use crate::{Error, Model};

/// Where a conversation that already has replies is divided before it is encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Seams {
    /// Prompts and replies are encoded separately, as an engine sees them.
    #[default]
    Live,
    /// The conversation is encoded as a whole, as trainers do. Where text merges across the border
    /// of a prompt and a reply, the ids differ from those that an engine would have processed.
    Whole,
}

impl Model {
    /// Begins a session with a conversation that already has replies. Everything up to the last
    /// reply gets ids; the messages after it are pending.
    ///
    /// Nobody sampled these replies here, so their ids have the author
    /// [`Caller`](super::Author::Caller). In a [rollout](Session::rollout) they have the
    /// weight of an assistant's message. The text is that of the stock rendering. A reply of which
    /// it cannot be determined where it begins counts as text around the replies.
    ///
    /// ```
    /// use rolecall::loss::LossPolicy;
    /// use rolecall::session::Seams;
    /// use rolecall::template::ModelTemplates;
    /// use rolecall::tokenizer::HuggingFace;
    /// use rolecall::{Model, Request};
    /// let json = br#"{"added_tokens": [], "model": {"type": "BPE",
    ///     "vocab": {"a": 0, "b": 1, "|": 2, ">": 3}, "merges": []}}"#;
    /// let source = "{% for m in messages %}>{{ m.content }}|{% endfor %}{% if add_generation_prompt %}>{% endif %}";
    /// let mut templates = ModelTemplates::from_json(&source.into())?;
    /// templates.set_token("eos_token", "|".into());
    /// let tokenizer = std::sync::Arc::new(HuggingFace::from_bytes(json, None)?);
    /// let model = Model::builder().templates(templates).loaded_tokenizer(tokenizer).open()?;
    /// let request = Request::from_text(r#"{"messages": [
    ///     {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}"#)?;
    /// let session = model.import_session(request, Seams::Live)?;
    /// let rollout = session.rollout(&LossPolicy::assistant())?;
    /// assert_eq!(rollout.ids, [3, 0, 2, 3, 1, 2]);
    /// assert_eq!(rollout.weights, [0.0, 0.0, 0.0, 0.0, 1.0, 1.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn import_session(&self, mut request: Request, seams: Seams) -> Result<Session, Error> {
        if request.conversation.continue_final_message {
            return Err(SessionError::Continues.into());
        }
        let messages = std::mem::take(&mut request.conversation.messages);
        let setup = self.setup_of(request, None)?;
        let messages: Vec<Arc<Message>> = messages.into_iter().map(Arc::new).collect();
        Session::empty(setup).imported(&messages, seams)
    }
}

impl Session {
    /// Returns an empty session.
    pub(super) fn empty(setup: Arc<Setup>) -> Session {
        Session {
            clock: setup.time(),
            setup,
            line: Line::default(),
            head: Arc::from([]),
            state: State::default(),
            needs_from: Arc::new(AtomicUsize::new(usize::MAX)),
            branches: Vec::new(),
            notes: super::Notes::default(),
            seams: Seams::Live,
            call_seed: 0,
            most_ids: usize::MAX,
        }
    }

    /// Returns the empty session with messages. Those up to the last reply have ids.
    pub(super) fn imported(mut self, messages: &[Arc<Message>], seams: Seams) -> Result<Session, Error> {
        self.seams = seams;
        let Some(last) = messages.iter().rposition(|message| *message.role() == Role::Assistant) else {
            self.add(messages.iter().cloned())?;
            return Ok(self);
        };
        let generates = last + 1 < messages.len();
        let all = messages.iter().map(|message| (**message).clone()).collect();
        let conversation = self.conversation(all, generates);
        let (prompt, _) = self.setup.render(&conversation)?;
        let replies = self.setup.replies(&prompt, &conversation)?;
        let stock = Stock { start: 0, prompt, growth: None, count: messages.len(), whole: None };
        let mut parts = Parts::new(messages, &replies, last);
        let end = parts.end(&stock, self.setup.reply_rule());
        let whole = (seams == Seams::Whole).then(|| self.setup.encoder.encode(&stock.prompt)).transpose()?;
        let mut at = 0;
        while at < end {
            let (range, reply) = parts.next(at, end);
            let tokens = match &whole {
                Some(encoded) => touching(&encoded.tokens, &range, reply.is_some(), range.end == end),
                None => self.encode_piece(&stock.prompt, range.clone())?,
            };
            let mut run = Run { stock: range.start, ..Run::default() };
            push_tokens(&mut run, &stock.prompt, &tokens);
            parts.add_messages(&mut run, reply);
            if let Some(reply) = reply {
                run.reply = reply.message;
                label_reply(&mut run, reply, &tokens);
            }
            at = range.end;
            self.line.push(run);
        }
        let until = stock_end(&self.line, end, stock.end());
        let sent = stock.prompt.up_to(until).unwrap_or_else(|| stock.prompt.clone());
        self.state = State::sent(Arc::new(Stock { prompt: sent, count: last + 1, ..stock }));
        let (sent, pending) = messages.split_at(last + 1);
        self.head = sent.iter().take(super::HEAD).cloned().collect();
        self.add(pending.iter().cloned())?;
        Ok(self)
    }

    /// Encodes a part of a prompt separately. The first one is encoded as the start of a prompt.
    fn encode_piece(&self, prompt: &Prompt, range: Range<usize>) -> Result<Vec<EncodedToken>, Error> {
        let start = (range.start == 0).then(|| prompt.up_to(range.end)).flatten();
        Ok(match start {
            Some(mut start) => {
                start.open = true;
                self.setup.encoder.encode(&start)?.tokens
            }
            None => self.setup.encoder.encode_part(prompt, range)?.tokens,
        })
    }
}

/// The parts of a conversation's prompt: replies and what stands between them.
struct Parts<'a> {
    messages: &'a [Arc<Message>],
    replies: Vec<&'a ModelText>,
    /// The last message that gets ids.
    last: usize,
    /// The number of messages that were given to runs.
    added: usize,
}

impl<'a> Parts<'a> {
    fn new(messages: &'a [Arc<Message>], replies: &'a [ModelText], last: usize) -> Parts<'a> {
        let is_reply = |reply: &&ModelText| reply.message.is_some_and(|message| message <= last);
        let replies = replies.iter().filter(is_reply).filter(|reply| !reply.range.is_empty());
        Parts { messages, replies: replies.collect(), last, added: 0 }
    }

    /// Returns the end of the last reply. If the prompt leaves it out, this is the end of the one
    /// before it.
    fn end(&self, stock: &Stock, rule: ReplyRule<'_>) -> usize {
        let before = || self.replies.last().map_or(0, |reply| reply.range.end);
        reply_end_of(&stock.prompt, self.last, rule).map_or_else(before, |end| end.end)
    }

    /// Returns the next part, and the reply if it is one.
    fn next(&mut self, at: usize, end: usize) -> (Range<usize>, Option<&'a ModelText>) {
        let next = self.replies.iter().find(|reply| reply.range.end > at && reply.range.start < end).copied();
        match next {
            Some(reply) if reply.range.start <= at => (at..reply.range.end.min(end), Some(reply)),
            Some(reply) => (at..reply.range.start, None),
            None => (at..end, None),
        }
    }

    /// Gives a run the messages that end in it.
    fn add_messages(&mut self, run: &mut Run, reply: Option<&ModelText>) {
        let until = match reply.and_then(|reply| reply.message) {
            Some(message) => message + 1,
            None => {
                let next = self.replies.iter().find(|reply| reply.range.start > run.stock);
                next.and_then(|next| next.message).unwrap_or(self.last + 1)
            }
        };
        if until > self.added {
            run.messages = self.messages[self.added..until].to_vec();
            self.added = until;
        }
    }
}

/// Returns the tokens of a part. A token that a reply shares with other text belongs to the reply.
fn touching(tokens: &[EncodedToken], range: &Range<usize>, is_reply: bool, is_last: bool) -> Vec<EncodedToken> {
    let is_in = |token: &&EncodedToken| match is_reply {
        true => token.end > range.start && token.start < range.end,
        false => token.start >= range.start && (token.end <= range.end || (is_last && token.start < range.end)),
    };
    tokens.iter().filter(is_in).cloned().collect()
}

/// Marks everything in a run as a reply that the caller wrote.
fn label_reply(run: &mut Run, reply: &ModelText, tokens: &[EncodedToken]) {
    let stop = reply.stop.as_ref().map(|stop| tokens.partition_point(|token| token.end <= stop.start));
    let stop = stop.unwrap_or(tokens.len());
    let mut segments = Vec::with_capacity(run.segments.len() + 1);
    for mut segment in std::mem::take(&mut run.segments) {
        (segment.author, segment.message) = (Author::Caller, reply.message);
        if segment.ids.start < stop {
            let mut body = segment.clone();
            body.ids.end = body.ids.end.min(stop);
            segments.push(body);
        }
        if segment.ids.end > stop {
            segment.ids.start = segment.ids.start.max(stop);
            segment.part = SegmentPart::Stop;
            segments.push(segment);
        }
    }
    run.segments = segments;
}

/// Returns the byte of the stock prompt up to which a line reaches.
fn stock_end(line: &Line, end: usize, most: usize) -> usize {
    let last = line.back().next().map_or(0, |node| node.run.stock + node.run.bytes.len());
    last.max(end).min(most)
}
