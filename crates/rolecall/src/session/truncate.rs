//! Removing the oldest turns of a session.

use std::ops::Range;
use std::sync::Arc;

use rolecall_conversation::{Message, Role};
use rolecall_text::common_items;

use super::align::{SentPart, pieces};
use super::line::Node;
use super::{Author, Delta, Finish, OnRewrite, Proof, Segment, Session, SessionError, SessionNote};
use crate::Error;

/// How much of a session stays.
///
/// A turn begins at a user's message, or at the first message after the system messages, and ends
/// before the next turn, so calls and their results stay together. System messages at the start,
/// tools and documents always stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// This many turns at the end, including one whose messages have no ids yet.
    Turns(usize),
    /// As many turns at the end as have at most this many ids, but at least one.
    Ids(usize),
}

/// What truncation removed from a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Cut {
    /// The indexes of the messages that were removed, as they were before.
    pub dropped: Range<usize>,
    /// The number of ids before.
    pub before: usize,
    /// The number of ids after.
    pub after: usize,
    /// How many ids stay, and the ids that follow them.
    pub delta: Delta,
}

impl Session {
    /// Removes the oldest turns.
    ///
    /// The ids that the model sampled in the turns that stay are kept. Only what the template and
    /// the caller wrote around them is rendered and encoded again. Where the template would now
    /// write a reply in another way, a note says so. The replaced ids stay readable as a
    /// [branch](Self::branches).
    pub fn truncate(&mut self, rule: Keep) -> Result<Cut, Error> {
        self.state.waiting()?;
        let messages = self.messages();
        let turns = Turns::of(&messages);
        let first = match rule {
            Keep::Turns(count) => turns.first_of_last(count),
            Keep::Ids(most) if self.len() > most => return self.truncate_to(most, &turns),
            Keep::Ids(_) => turns.head,
        };
        let session = self.without_turns(turns.head, first)?;
        Ok(self.replace_by(session, turns.head..first))
    }

    /// Removes as many turns as needed for a number of ids.
    fn truncate_to(&mut self, most: usize, turns: &Turns) -> Result<Cut, Error> {
        let mut least = self.len();
        for first in turns.starts.iter().skip(1) {
            // What is left has about as many ids as it has now.
            if turns.starts.last() != Some(first) && self.len() - self.first_id(*first) > most {
                continue;
            }
            let session = self.without_turns(turns.head, *first)?;
            least = session.len();
            if least <= most {
                return Ok(self.replace_by(session, turns.head..*first));
            }
        }
        Err(SessionError::TooLong { least, most }.into())
    }

    /// Returns the index of the first id of a message, or the number of ids if it has none.
    fn first_id(&self, message: usize) -> usize {
        let segments = self.line.back().flat_map(|node| node.segments().collect::<Vec<_>>());
        let own = segments.filter(|segment| segment.message.is_some_and(|index| index >= message));
        own.map(|segment| segment.ids.start).min().unwrap_or(self.len())
    }

    /// Returns the session without the messages from `head` up to `first`: the rest is opened and
    /// accepted again, with the same sampled ids.
    fn without_turns(&self, head: usize, first: usize) -> Result<Session, Error> {
        if first == head {
            return Ok(self.clone());
        }
        let mut session = Session::empty(Arc::clone(&self.setup));
        let nodes = self.line.nodes();
        let is_imported = |node: &&Arc<Node>| {
            node.run.reply.is_some() && node.run.segments.iter().any(|segment| segment.author == Author::Caller)
        };
        let imported = nodes.iter().rposition(is_imported).map_or(0, |last| last + 1);
        let mut index = 0;
        let mut waiting: Vec<Message> = Vec::new();
        let mut is_kept = |count: usize| {
            let range = index..index + count;
            index += count;
            range.map(|at| at < head || at >= first).collect::<Vec<_>>()
        };
        let mut before: Vec<Arc<Message>> = Vec::new();
        for node in &nodes[..imported] {
            let kept = node.run.messages.iter().zip(is_kept(node.run.messages.len()));
            before.extend(kept.filter(|(_, kept)| *kept).map(|(message, _)| Arc::clone(message)));
        }
        if !before.is_empty() {
            session = session.imported(&before, self.seams)?;
        }
        for (at, node) in nodes.iter().enumerate().skip(imported) {
            let kept = node.run.messages.iter().zip(is_kept(node.run.messages.len()));
            let kept: Vec<&Arc<Message>> = kept.filter(|(_, kept)| *kept).map(|(message, _)| message).collect();
            match (node.run.reply, kept.as_slice()) {
                (Some(_), [said]) => {
                    session.say(&std::mem::take(&mut waiting))?;
                    session.open()?;
                    session.accept(&node.run.ids, finish_of(nodes.get(at + 1)))?;
                    session.restate(said);
                }
                (_, kept) => waiting.extend(kept.iter().map(|message| (***message).clone())),
            }
        }
        if let Some(own) = self.reply() {
            session.state.change_reply(|reply| reply.is_unfinished = own.is_unfinished);
            if own.is_closed {
                session.close()?;
            }
        }
        let pending = self.state.pending();
        let kept = pending.iter().zip(is_kept(pending.len()));
        waiting.extend(kept.filter(|(_, kept)| *kept).map(|(message, _)| (**message).clone()));
        session.say(&waiting)?;
        Ok(session)
    }

    /// Appends messages, whatever a template rewrites.
    fn say(&mut self, messages: &[Message]) -> Result<(), Error> {
        if messages.is_empty() {
            return Ok(());
        }
        if self.is_empty() {
            return Ok(self.add(messages.iter().cloned().map(Arc::new))?);
        }
        let plan = self.plan(messages)?;
        self.append(plan, OnRewrite::Keep)?;
        Ok(())
    }

    /// Gives the last reply the message that was read from it before.
    fn restate(&mut self, said: &Arc<Message>) {
        self.line.replace_last_message(Arc::clone(said));
        self.state.change_reply(|reply| reply.said = Arc::clone(said));
    }

    /// Replaces the session by a truncated one.
    fn replace_by(&mut self, mut session: Session, dropped: Range<usize>) -> Cut {
        let before = self.len();
        if dropped.is_empty() {
            let delta = self.delta_since(before, Proof::Closing, Vec::new());
            return Cut { dropped, before, after: before, delta };
        }
        let (old, new) = (self.line.ids(), session.line.ids());
        let keep = common_items(&old, &new);
        let branch = self.branches.len();
        let truncated = SessionNote::Truncated { branch, messages: dropped.len(), ids: before };
        let mut notes = vec![truncated.clone()];
        notes.extend(session.notes.all().into_iter().map(|(_, note)| note.clone()).filter(is_about_kept));
        let known: Vec<usize> = notes.iter().filter_map(SessionNote::kept_message).collect();
        let differing = session.differing_replies().into_iter().filter(|message| !known.contains(message));
        notes.extend(differing.map(|message| SessionNote::Differs { message }));
        session.notes.push(keep, truncated);
        session.branches.clone_from(&self.branches);
        session.branches.push(std::mem::take(&mut self.line));
        let segments = session.line.segments().into_iter().filter(|segment| segment.ids.end > keep);
        let segments =
            segments.map(|segment| Segment { ids: segment.ids.start.max(keep)..segment.ids.end, ..segment }).collect();
        let delta = Delta {
            keep,
            ids: new.get(keep..).unwrap_or_default().to_vec(),
            segments,
            proof: Proof::Whole { why: None },
            notes,
        };
        *self = session;
        Cut { dropped, before, after: self.len(), delta }
    }

    /// Returns the replies that the stock rendering writes in another way. A template may refuse
    /// the conversation as it is now; then nothing is known.
    fn differing_replies(&self) -> Vec<usize> {
        let Ok(stock) = self.stock() else { return Vec::new() };
        let nodes = self.line.nodes();
        let (ours, theirs) = (self.line.bytes(), stock.prompt.text().as_bytes());
        let pieces = pieces(&nodes, &stock, self.setup.reply_rule(), SentPart::Unknown);
        let differing = pieces.into_iter().filter(|piece| ours[piece.session.clone()] != theirs[piece.stock.clone()]);
        differing.filter_map(|piece| piece.reply).collect()
    }
}

/// Returns how the engine ended a reply, by the run that follows it.
fn finish_of(next: Option<&&Arc<Node>>) -> Finish {
    let closes = |node: &&Arc<Node>| node.run.segments.iter().any(|segment| segment.author == Author::Closing);
    if next.is_some_and(closes) { Finish::Length } else { Finish::Stop }
}

fn is_about_kept(note: &SessionNote) -> bool {
    matches!(note, SessionNote::Kept(_))
}

impl SessionNote {
    /// Returns the message whose kept text the note is about.
    fn kept_message(&self) -> Option<usize> {
        match self {
            SessionNote::Kept(rewrite) => rewrite.message,
            _ => None,
        }
    }
}

/// Where the turns of a conversation begin.
struct Turns {
    /// The number of system messages at the start.
    head: usize,
    starts: Vec<usize>,
    count: usize,
}

impl Turns {
    fn of(messages: &[Arc<Message>]) -> Turns {
        let head = messages.iter().take_while(|message| *message.role() == Role::System).count();
        let is_start = |at: &usize| *at == head || *messages[*at].role() == Role::User;
        Turns { head, starts: (head..messages.len()).filter(is_start).collect(), count: messages.len() }
    }

    /// Returns the first message of the last turns.
    fn first_of_last(&self, count: usize) -> usize {
        match self.starts.len().checked_sub(count) {
            None | Some(0) => self.head,
            Some(dropped) => self.starts.get(dropped).copied().unwrap_or(self.count),
        }
    }
}
