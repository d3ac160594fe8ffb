//! The ids of a session, as a chain of runs that forks share.

use std::ops::Range;
use std::sync::Arc;

use rolecall_conversation::Message;

use super::{Author, Segment, SegmentPart};

/// A chain of runs of ids. A clone shares all of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    last: Option<Arc<Node>>,
}

/// A run of ids that one operation added, and the messages that it completed.
#[derive(Debug)]
pub(super) struct Node {
    before: Line,
    pub run: Run,
    /// The numbers of ids, bytes and messages up to the end of this run.
    totals: Totals,
}

/// What an operation adds to a session.
#[derive(Clone, Debug, Default)]
pub(super) struct Run {
    pub ids: Vec<u32>,
    /// The end of each id's text, in bytes of this run.
    pub ends: Vec<u32>,
    /// The text of the ids. Sampled ids need not be valid UTF-8.
    pub bytes: Vec<u8>,
    /// The segments, with ids counted from the start of this run.
    pub segments: Vec<Segment>,
    /// The messages whose text ends in this run.
    pub messages: Vec<Arc<Message>>,
    /// The index of the message that the model sampled in this run.
    pub reply: Option<usize>,
    /// The byte of the stock prompt at which the run begins.
    pub stock: usize,
}

/// The usual number of bytes of an id's text.
const BYTES_PER_ID: usize = 5;

/// The usual number of segments of a run.
const SEGMENTS: usize = 8;

#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    ids: usize,
    bytes: usize,
    messages: usize,
}

impl Line {
    fn totals(&self) -> Totals {
        self.last.as_ref().map_or(Totals::default(), |node| node.totals)
    }

    /// Returns the number of ids.
    pub fn len(&self) -> usize {
        self.totals().ids
    }

    /// Returns the number of messages.
    pub fn messages(&self) -> usize {
        self.totals().messages
    }

    /// Reports whether two lines are the same one.
    pub fn is(&self, other: &Line) -> bool {
        match (&self.last, &other.last) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        }
    }

    /// Adds a run.
    pub fn push(&mut self, run: Run) {
        let before = std::mem::take(self);
        let totals = before.totals();
        let totals = Totals {
            ids: totals.ids + run.ids.len(),
            bytes: totals.bytes + run.bytes.len(),
            messages: totals.messages + run.messages.len(),
        };
        self.last = Some(Arc::new(Node { before, run, totals }));
    }

    /// Replaces the last message, for the same ids.
    pub fn replace_last_message(&mut self, message: Arc<Message>) {
        let Some(node) = &self.last else { return };
        let (mut run, mut before) = (node.run.clone(), node.before.clone());
        match run.messages.last_mut() {
            Some(last) => *last = message,
            // Ids that close a reply follow its run.
            None => before.replace_last_message(message),
        }
        *self = before;
        self.push(run);
    }

    /// Gives the last ids of the last run another author and part.
    pub fn relabel_last(&mut self, ids: usize, author: Author, part: SegmentPart) {
        let Some(node) = &self.last else { return };
        let mut run = node.run.clone();
        let before = node.before.clone();
        let first = run.ids.len().saturating_sub(ids);
        for segment in run.segments.iter_mut().filter(|segment| segment.ids.start >= first) {
            (segment.author, segment.part, segment.weight) = (author, part, 0.0);
        }
        *self = before;
        self.push(run);
    }

    /// Returns the runs, the last one first.
    pub fn back(&self) -> impl Iterator<Item = &Arc<Node>> {
        let mut next = self.last.as_ref();
        std::iter::from_fn(move || {
            let node = next?;
            next = node.before.last.as_ref();
            Some(node)
        })
    }

    /// Returns the runs in order.
    pub fn nodes(&self) -> Vec<&Arc<Node>> {
        let mut nodes: Vec<&Arc<Node>> = self.back().collect();
        nodes.reverse();
        nodes
    }

    /// Returns the line without the runs after the first `count` ones, if it has so many.
    pub fn first_runs(&self, count: usize) -> Option<Line> {
        let runs = self.back().count();
        match runs.checked_sub(count)? {
            0 => Some(self.clone()),
            later => self.back().nth(later - 1).map(|node| node.before.clone()),
        }
    }

    /// Returns all ids.
    pub fn ids(&self) -> Vec<u32> {
        let mut ids = Vec::with_capacity(self.len());
        for node in self.nodes() {
            ids.extend_from_slice(&node.run.ids);
        }
        ids
    }

    /// Returns the ids after the first `first` ones.
    pub fn ids_from(&self, first: usize) -> Vec<u32> {
        let mut ids = vec![0; self.len().saturating_sub(first)];
        let mut end = ids.len();
        for node in self.back() {
            let run = &node.run.ids;
            let new = &run[run.len().saturating_sub(end)..];
            ids[end - new.len()..end].copy_from_slice(new);
            end -= new.len();
            if end == 0 {
                break;
            }
        }
        ids
    }

    /// Returns the number of ids up to the last run that both lines have.
    pub fn common_ids(&self, other: &Line) -> usize {
        let (mut one, mut two) = (self.last.as_ref(), other.last.as_ref());
        while let (Some(a), Some(b)) = (one, two) {
            if Arc::ptr_eq(a, b) {
                return a.totals.ids;
            }
            // A run without ids has the totals of the run before it, which the other line may have.
            let order = a.totals.ids.cmp(&b.totals.ids).then(b.run.ids.len().min(1).cmp(&a.run.ids.len().min(1)));
            if order.is_ge() {
                one = a.before.last.as_ref();
            }
            if order.is_le() {
                two = b.before.last.as_ref();
            }
        }
        0
    }

    /// Returns the text of all ids.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.totals().bytes);
        for node in self.nodes() {
            bytes.extend_from_slice(&node.run.bytes);
        }
        bytes
    }

    /// Returns all messages in order.
    pub fn all_messages(&self) -> Vec<Arc<Message>> {
        let mut messages = Vec::with_capacity(self.messages());
        for node in self.nodes() {
            messages.extend(node.run.messages.iter().cloned());
        }
        messages
    }

    /// Returns at least the last `count` messages, in order.
    pub fn last_messages(&self, count: usize) -> Vec<&Message> {
        let mut runs: Vec<&[Arc<Message>]> = Vec::new();
        let mut found = 0;
        for node in self.back() {
            if found >= count {
                break;
            }
            found += node.run.messages.len();
            runs.push(&node.run.messages);
        }
        runs.iter().rev().flat_map(|run| run.iter().map(Arc::as_ref)).collect()
    }

    /// Returns the segments of all runs, with ids counted from the start of the session.
    pub fn segments(&self) -> Vec<Segment> {
        let mut segments = Vec::new();
        for node in self.nodes() {
            segments.extend(node.segments());
        }
        segments
    }

    /// Returns the segments from an id on. A segment that begins before it is cut.
    pub fn segments_from(&self, first: usize) -> Vec<Segment> {
        let mut runs: Vec<Vec<Segment>> = Vec::new();
        for node in self.back().take_while(|node| node.totals.ids > first) {
            let segments = node.segments().filter(|segment| segment.ids.end > first);
            runs.push(segments.map(|segment| segment.from(first)).collect());
        }
        runs.into_iter().rev().flatten().collect()
    }

    /// Returns the line without the runs after the first `ids` ids. A run that is cut keeps its
    /// first ids. The messages of the removed runs are returned too.
    pub fn cut(&self, ids: usize) -> (Line, Vec<Arc<Message>>) {
        let mut removed: Vec<&Arc<Node>> = Vec::new();
        let mut line = self;
        while let Some(node) = &line.last {
            if node.totals.ids <= ids {
                break;
            }
            removed.push(node);
            line = &node.before;
        }
        let messages = removed.iter().rev().flat_map(|node| node.run.messages.iter().cloned()).collect();
        let mut line = line.clone();
        if let Some(node) = removed.last()
            && node.start() < ids
        {
            line.push(node.run.up_to(ids - node.start()));
        }
        (line, messages)
    }

    /// Returns how many ids lie before a byte of the stock prompt, if the runs were rendered at the
    /// positions that they have now.
    pub fn ids_before_stock(&self, byte: usize) -> usize {
        match self.back().find(|node| node.run.stock <= byte) {
            Some(node) => {
                let within = byte - node.run.stock;
                node.start() + node.run.ends.partition_point(|end| *end as usize <= within)
            }
            None => 0,
        }
    }
}

impl Drop for Line {
    /// Drops a long chain without recursion.
    fn drop(&mut self) {
        let mut next = self.last.take();
        while let Some(node) = next {
            next = Arc::try_unwrap(node).ok().and_then(|mut node| node.before.last.take());
        }
    }
}

impl Node {
    /// Returns the line before this run.
    pub fn before(&self) -> &Line {
        &self.before
    }

    /// Returns the number of ids before this run.
    pub fn start(&self) -> usize {
        self.totals.ids - self.run.ids.len()
    }

    /// Returns the segments, with ids counted from the start of the session.
    pub fn segments(&self) -> impl Iterator<Item = Segment> {
        let start = self.start();
        self.run
            .segments
            .iter()
            .map(move |segment| Segment { ids: segment.ids.start + start..segment.ids.end + start, ..segment.clone() })
    }
}

impl Run {
    /// Returns a run with room for this many ids.
    pub fn with_capacity(ids: usize) -> Run {
        Run {
            ids: Vec::with_capacity(ids),
            ends: Vec::with_capacity(ids),
            bytes: Vec::with_capacity(ids * BYTES_PER_ID),
            segments: Vec::with_capacity(SEGMENTS),
            ..Run::default()
        }
    }

    /// Adds an id with its text and its author.
    pub fn push(
        &mut self,
        id: u32,
        bytes: &[u8],
        author: Author,
        message: Option<usize>,
        part: SegmentPart,
        weight: f32,
    ) {
        self.ids.push(id);
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len() as u32);
        self.label(self.ids.len() - 1, author, message, part, weight);
    }

    /// Says who wrote an id. The ids before it are labeled.
    pub fn label(&mut self, at: usize, author: Author, message: Option<usize>, part: SegmentPart, weight: f32) {
        self.label_all(at..at + 1, author, message, part, weight);
    }

    /// Says who wrote some ids. The ids before them are labeled.
    pub fn label_all(
        &mut self,
        ids: Range<usize>,
        author: Author,
        message: Option<usize>,
        part: SegmentPart,
        weight: f32,
    ) {
        match self.segments.last_mut() {
            Some(last)
                if (last.author, last.message, last.part) == (author, message, part) && last.weight == weight =>
            {
                last.ids.end = ids.end;
            }
            _ => self.segments.push(Segment { author, message, part, ids, weight }),
        }
    }

    /// Says that the text from a byte on, up to an id, is a part of calls, although it was taken for content or
    /// reasoning. The ids before that one are labeled. Returns the first id of that text.
    pub fn become_call(&mut self, byte: usize, to: usize) -> usize {
        let from = self.ends[..to].partition_point(|end| *end as usize <= byte);
        let kept = self.segments.partition_point(|segment| segment.ids.end <= from);
        let mut first = to;
        for segment in self.segments.split_off(kept) {
            let Segment { author, message, part, ids, weight } = segment;
            let (before, others) = (ids.start..from.clamp(ids.start, ids.end), from.max(ids.start)..ids.end);
            if !before.is_empty() {
                self.label_all(before, author, message, part, weight);
            }
            let part = match part {
                SegmentPart::Content | SegmentPart::Reasoning => {
                    first = first.min(others.start);
                    SegmentPart::Calls
                }
                part => part,
            };
            self.label_all(others, author, message, part, weight);
        }
        first
    }

    /// Returns the bytes of an id.
    pub fn text_of(&self, at: usize) -> Range<usize> {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        start..self.ends[at] as usize
    }

    /// Returns where the text of some of the ids is.
    pub fn range_of(&self, ids: &Range<usize>) -> Range<usize> {
        let end = |id: usize| id.checked_sub(1).map_or(0, |last| self.ends[last] as usize);
        end(ids.start)..end(ids.end)
    }

    /// Returns the bytes of some of the ids.
    pub fn text_of_ids(&self, ids: Range<usize>) -> &[u8] {
        &self.bytes[self.range_of(&ids)]
    }

    /// Returns the run with its first ids only, and without messages.
    fn up_to(&self, ids: usize) -> Run {
        let ids = ids.min(self.ids.len());
        let bytes = ids.checked_sub(1).map_or(0, |last| self.ends[last] as usize);
        let segments = self
            .segments
            .iter()
            .filter(|segment| segment.ids.start < ids)
            .map(|segment| Segment { ids: segment.ids.start..segment.ids.end.min(ids), ..segment.clone() });
        Run {
            ids: self.ids[..ids].to_vec(),
            ends: self.ends[..ids].to_vec(),
            bytes: self.bytes[..bytes].to_vec(),
            segments: segments.collect(),
            messages: Vec::new(),
            reply: self.reply,
            stock: self.stock,
        }
    }
}
