//! The ids of a session as a sample for a trainer.

use std::ops::Range;
use std::sync::Arc;

use rolecall_conversation::{Message, Role};
use rolecall_render::{FinalStop, LossNote, LossPolicy, LossTurns, ReplyPart};

use super::line::{Node, Run};
use super::{Author, Segment, SegmentPart, Session, SessionError, SessionNote};
use crate::Error;
use crate::model::loss::check_weights;

/// A session as a sample for a trainer: its ids, what each weighs, and who wrote it.
#[derive(Clone, Debug, PartialEq)]
pub struct Rollout {
    /// The ids, unchanged.
    pub ids: Vec<u32>,
    /// The loss weight of each id.
    pub weights: Vec<f32>,
    /// Who wrote the ids. Each segment has the weight of all its ids.
    pub segments: Vec<Segment>,
    /// The messages whose ids these are.
    pub messages: Vec<Arc<Message>>,
    /// Where the session left the stock rendering, in order of the ids.
    pub breaks: Vec<Break>,
    /// What a trainer should know about the loss.
    pub notes: Vec<LossNote>,
}

/// A place where a session left the stock rendering of its conversation, or where a reply did not
/// end as it should.
#[derive(Clone, Debug, PartialEq)]
pub struct Break {
    /// The index of the first id that it is about. At the end of the session, it is the number of
    /// ids.
    pub id: usize,
    /// What happened.
    pub note: SessionNote,
}

impl Break {
    /// Returns a stable code for what happened.
    pub fn code(&self) -> &'static str {
        self.note.code()
    }

    /// Returns a description of what happened.
    pub fn message(&self) -> String {
        self.note.to_string()
    }
}

impl Session {
    /// Returns the ids with the loss weights of a policy, who wrote them, and where the session
    /// left the stock rendering.
    ///
    /// The ids that the model sampled have the weight of an assistant's message, divided into
    /// reasoning, content, calls and the token that stops the model. An assistant's message that
    /// the caller wrote has that weight if its own `weight`, `loss` or `train` asks for it, or if
    /// the conversation was [imported](crate::Model::import_session). Messages of the policy's
    /// `roles` have theirs. What the template or the session wrote, and what the model wrote after
    /// its stop token, has the weight 0; only [`LossTurns::All`] includes it.
    ///
    /// Nothing is rendered or encoded. [`difference`](Session::difference) compares the session
    /// with the stock rendering.
    ///
    /// ```
    /// use rolecall::loss::LossPolicy;
    /// use rolecall::session::Finish;
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
    /// let request = Request::from_text(r#"{"messages": [{"role": "user", "content": "a"}]}"#)?;
    /// let mut session = model.session(request)?;
    /// session.open()?; // >a|>
    /// session.accept(&[1, 1, 2], Finish::Stop)?; // bb|
    /// let rollout = session.rollout(&LossPolicy::assistant())?;
    /// assert_eq!(rollout.ids, [3, 0, 2, 3, 1, 1, 2]);
    /// assert_eq!(rollout.weights, [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn rollout(&self, policy: &LossPolicy) -> Result<Rollout, Error> {
        if policy.tagged {
            return Err(SessionError::Tagged.into());
        }
        let messages = self.line.all_messages();
        check_weights(policy, messages.iter().map(Arc::as_ref))?;
        let ids = self.ids();
        let nodes = self.line.nodes();
        let mut weighed = RunWeights {
            policy,
            messages: &messages,
            last: last_reply(&nodes, &messages),
            stop_ids: &self.setup.stop_ids,
            weights: vec![0.0; ids.len()],
        };
        let mut notes = Vec::new();
        match policy.turns {
            LossTurns::All => weighed.add_all(&nodes),
            _ => nodes.iter().for_each(|node| weighed.add_run(node)),
        }
        for node in &nodes {
            weighed.add_roles(node);
        }
        for node in nodes.iter().filter(|node| !node.run.ids.is_empty()) {
            let Some(message) = node.run.reply else { continue };
            let is_last = weighed.last == Some(message);
            match stop_of(&node.run) {
                Some(stop) => weighed.check_stop(node, stop, message)?,
                None if policy.final_stop == FinalStop::Refuse && is_last => {
                    return Err(rolecall_render::Error::NoFinalStop { message }.into());
                }
                None if policy.final_stop == FinalStop::Ignore && is_last => {}
                None => notes.push(LossNote::NoStop { message, is_last }),
            }
        }
        let weights = weighed.weights;
        if !policy.allow_empty && weights.iter().all(|weight| *weight == 0.0) {
            return Err(rolecall_render::Error::NoLoss.into());
        }
        let segments = with_weights(self.segments(), &weights);
        let breaks = self.breaks();
        Ok(Rollout { ids, weights, segments, messages, breaks, notes })
    }

    /// Returns where the session left the stock rendering, in order of the ids.
    pub fn breaks(&self) -> Vec<Break> {
        let notes = self.notes.all().into_iter();
        let mut breaks: Vec<Break> = notes.map(|(id, note)| Break { id, note: note.clone() }).collect();
        breaks.sort_by_key(|found| found.id);
        breaks
    }

    /// Returns the text of some of the ids. It need not be valid UTF-8.
    pub fn bytes_of(&self, ids: Range<usize>) -> Vec<u8> {
        // A caller's range may be the wrong way around, which is no text.
        let ids = ids.start..ids.end.max(ids.start);
        let touching = |node: &&Arc<Node>| node.start() < ids.end;
        let nodes = self.line.back().skip_while(|node| node.start() >= ids.end.max(1)).filter(touching);
        let nodes: Vec<&Arc<Node>> = nodes.take_while(|node| node.start() + node.run.ids.len() > ids.start).collect();
        let mut bytes = Vec::new();
        for node in nodes.into_iter().rev() {
            let run = &node.run;
            let at = |id: usize| id.saturating_sub(node.start()).min(run.ids.len());
            let byte = |id: usize| id.checked_sub(1).map_or(0, |last| run.ends[last] as usize);
            bytes.extend_from_slice(&run.bytes[byte(at(ids.start))..byte(at(ids.end))]);
        }
        bytes
    }
}

struct RunWeights<'a> {
    policy: &'a LossPolicy,
    messages: &'a [Arc<Message>],
    /// The message of the last reply.
    last: Option<usize>,
    stop_ids: &'a [u32],
    weights: Vec<f32>,
}

impl RunWeights<'_> {
    fn add(&mut self, ids: Range<usize>, weight: f32) {
        for known in &mut self.weights[ids] {
            *known = known.max(weight);
        }
    }

    fn message(&self, index: Option<usize>) -> Option<&Message> {
        index.and_then(|index| self.messages.get(index)).map(Arc::as_ref)
    }

    fn add_all(&mut self, nodes: &[&Arc<Node>]) {
        for segment in nodes.iter().flat_map(|node| node.segments()) {
            let weight = self.policy.weight_of(self.message(segment.message));
            self.add(segment.ids, weight);
        }
    }

    /// Adds the replies of a run.
    fn add_run(&mut self, node: &Node) {
        let start = node.start();
        match node.run.reply {
            Some(message) => self.add_reply(node, &node.run.segments, start, Some(message)),
            None => {
                for (message, segments) in self.written_replies(&node.run) {
                    self.add_reply(node, &segments, start, Some(message));
                }
            }
        }
    }

    /// Returns the assistant's messages that the caller wrote and that ask for loss, each with its
    /// segments: from its first id to the token that stops the model.
    fn written_replies(&self, run: &Run) -> Vec<(usize, Vec<Segment>)> {
        let mut replies: Vec<(usize, Vec<Segment>)> = Vec::new();
        let mut open = None;
        for segment in &run.segments {
            let is_own = segment.message.is_some() && segment.message == open;
            match (segment.author, replies.last_mut().filter(|_| open.is_some())) {
                (Author::Caller, Some((_, segments))) if is_own => segments.push(segment.clone()),
                (Author::Caller, _) => {
                    open = segment.message.filter(|_| self.asks_for_loss(segment));
                    replies.extend(open.map(|message| (message, vec![segment.clone()])));
                }
                (_, Some((_, segments))) => {
                    let is_stop = |at: &usize| self.stop_ids.contains(&run.ids[*at]);
                    let stop = segment.ids.clone().find(is_stop);
                    let end = stop.unwrap_or(segment.ids.end);
                    segments.push(Segment { ids: segment.ids.start..end, ..segment.clone() });
                    if let Some(stop) = stop {
                        segments.push(Segment { ids: stop..stop + 1, part: SegmentPart::Stop, ..segment.clone() });
                        open = None;
                    }
                }
                _ => {}
            }
        }
        for (_, segments) in &mut replies {
            // What follows the last text is not part of the reply if no stop token follows it.
            let is_in = |segment: &Segment| segment.author == Author::Caller || segment.part == SegmentPart::Stop;
            segments.truncate(segments.iter().rposition(is_in).map_or(0, |last| last + 1));
        }
        replies
    }

    /// Reports whether a segment begins an assistant's message that asks for loss itself.
    fn asks_for_loss(&self, segment: &Segment) -> bool {
        let asks = |message: &Message| *message.role() == Role::Assistant && LossPolicy::own_weight(message).is_some();
        let is_body = matches!(segment.part, SegmentPart::Reasoning | SegmentPart::Content | SegmentPart::Calls);
        is_body && self.message(segment.message).is_some_and(asks)
    }

    /// Adds a reply: its parts, what stands between them, and the token that stops the model.
    fn add_reply(&mut self, node: &Node, segments: &[Segment], start: usize, message: Option<usize>) {
        let weight = self.policy.weight_of_reply(self.message(message), message == self.last);
        let weights = self.policy.weights;
        for (ids, part) in parts_of(&node.run, segments) {
            self.add(ids.start + start..ids.end + start, weight * weights.of(part));
        }
        for stop in segments.iter().filter(|segment| segment.part == SegmentPart::Stop) {
            self.add(stop.ids.start + start..stop.ids.end + start, weight * weights.closer);
        }
    }

    /// Adds the messages of roles that the policy names.
    fn add_roles(&mut self, node: &Node) {
        for role in &self.policy.roles {
            for segment in node.segments() {
                let is_in = match segment.author {
                    Author::Closing => false,
                    _ if segment.part == SegmentPart::AfterStop => false,
                    _ => role.whole_turn || segment.part == SegmentPart::Content,
                };
                let weight = || self.policy.weight_of_role(role, self.message(segment.message)?);
                if let (true, Some(weight)) = (is_in, weight()) {
                    self.add(segment.ids, weight);
                }
            }
        }
    }

    /// Refuses loss that covers a reply but not the token that stops it.
    fn check_stop(&self, node: &Node, stop: Range<usize>, message: usize) -> Result<(), Error> {
        let start = node.start();
        let covered = |ids: Range<usize>| self.weights[ids].iter().any(|weight| *weight > 0.0);
        let is_masked = covered(start..start + stop.start) && !covered(start + stop.start..start + stop.end);
        if is_masked && !self.policy.allow_masked_stop && self.policy.weights.closer > 0.0 {
            return Err(rolecall_render::Error::MaskedStop { message }.into());
        }
        Ok(())
    }
}

/// Returns the last message that the model sampled or that was imported as such, or else the last
/// one of the assistant.
fn last_reply(nodes: &[&Arc<Node>], messages: &[Arc<Message>]) -> Option<usize> {
    let sampled = nodes.iter().filter_map(|node| node.run.reply).max();
    sampled.or_else(|| messages.iter().rposition(|message| *message.role() == Role::Assistant))
}

fn stop_of(run: &Run) -> Option<Range<usize>> {
    run.segments.iter().find(|segment| segment.part == SegmentPart::Stop).map(|segment| segment.ids.clone())
}

/// Divides the ids of a reply into its parts. What stands between two parts goes to the one that it
/// opens or closes.
fn parts_of(run: &Run, segments: &[Segment]) -> Vec<(Range<usize>, ReplyPart)> {
    let body = segments.iter().filter(|segment| !matches!(segment.part, SegmentPart::Stop | SegmentPart::AfterStop));
    let body: Vec<&Segment> = body.collect();
    let (Some(first), Some(end)) = (body.first(), body.last()) else { return Vec::new() };
    let (first, end) = (first.ids.start, end.ids.end);
    let mut parts: Vec<(Range<usize>, ReplyPart)> = Vec::new();
    for segment in body {
        let part = match segment.part {
            SegmentPart::Reasoning => ReplyPart::Reasoning,
            SegmentPart::Content => ReplyPart::Content,
            SegmentPart::Calls => ReplyPart::Calls,
            _ => continue,
        };
        match parts.last_mut() {
            None => parts.push((first..segment.ids.end, part)),
            Some((before, same)) if *same == part => before.end = segment.ids.end,
            Some((before, other)) => {
                let from = run.text_of_ids(0..before.end).len();
                let between = run.text_of_ids(before.end..segment.ids.start);
                let length = other.closing_length(&String::from_utf8_lossy(between), part);
                let border = run.ends.partition_point(|end| (*end as usize) < from + length.max(1));
                let border = if length == 0 { before.end } else { (border + 1).clamp(before.end, segment.ids.start) };
                before.end = border;
                parts.push((border..segment.ids.end, part));
            }
        }
    }
    match parts.last_mut() {
        Some((last, _)) => last.end = end,
        None => parts.push((first..end, ReplyPart::Content)),
    }
    parts
}

/// Gives segments the weights of their ids, divided where these differ.
fn with_weights(segments: Vec<Segment>, weights: &[f32]) -> Vec<Segment> {
    let mut weighed: Vec<Segment> = Vec::with_capacity(segments.len());
    for segment in segments {
        let mut at = segment.ids.start;
        for same in weights[segment.ids.clone()].chunk_by(|one, other| one == other) {
            weighed.push(Segment { ids: at..at + same.len(), weight: same[0], ..segment.clone() });
            at += same.len();
        }
    }
    weighed
}
