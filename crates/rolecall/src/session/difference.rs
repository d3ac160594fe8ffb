//! How a session differs from the stock rendering of its messages.

use std::ops::Range;
use std::sync::Arc;

use rolecall_text::common_items;

use super::Session;
use super::align::{AlignPiece, SentPart, pieces};
use super::line::Node;
use super::state::State;
use super::stock::Stock;
use crate::Error;

/// How a session differs from the stock rendering of its messages.
///
/// Replacing the stock text of each gap by the session's gives the session's text, and outside the
/// gaps the ids are the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// The places that differ, in order. Two texts that differ have something equal between them.
    pub gaps: Vec<Gap>,
    /// The stock text, as far as it corresponds to what is sent. While a reply is awaited, this is
    /// the whole stock prompt.
    pub stock: String,
    /// Whether the session's ids are those that encoding the stock prompt as a whole returns, as
    /// far as they are sent.
    pub has_stock_ids: bool,
}

impl Difference {
    /// Reports whether the session's text is the stock text. Its ids may be others.
    pub fn has_stock_text(&self) -> bool {
        self.gaps.iter().all(Gap::is_ids_only)
    }
}

/// A place where a session differs from the stock rendering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The index of the message that the session's ids belong to, if any.
    pub message: Option<usize>,
    /// The part of the session.
    pub part: GapPart,
    /// The session's text: only what differs, or the text of the ids if only they do. Bytes that
    /// are not UTF-8 become U+FFFD.
    pub session: String,
    /// The stock text in its place.
    pub stock: String,
    /// The byte at which that text begins in the stock text. The session's text has it elsewhere if
    /// the texts of earlier gaps differ in length.
    pub byte: usize,
    /// The index of the first of the session's ids that differ.
    pub id: usize,
    /// The number of the session's ids that differ.
    pub ids: usize,
    /// The number of ids in their place in the encoded stock prompt.
    pub stock_ids: usize,
    is_ids_only: bool,
}

impl Gap {
    /// Reports whether the text is the same and only the ids differ, as where the session encodes a
    /// prompt and a reply separately.
    pub fn is_ids_only(&self) -> bool {
        self.is_ids_only
    }

    /// Returns a stable code: `opening`, `reply`, `between`, or `ids` if only the ids differ.
    pub fn code(&self) -> &'static str {
        match self.part {
            _ if self.is_ids_only => "ids",
            GapPart::Opening => "opening",
            GapPart::Reply => "reply",
            GapPart::Between => "between",
        }
    }
}

/// The part of a session where a difference begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GapPart {
    /// Before the first reply.
    Opening,
    /// In a reply.
    Reply,
    /// After a reply.
    Between,
}

impl Session {
    /// Compares the session with the stock rendering of its messages.
    ///
    /// Messages without ids are rendered too, because a template may write what precedes them in
    /// another way. The two are compared piece by piece: each reply, and what stands between two
    /// replies. A piece has at most one gap in its text, from the first to the last character that
    /// differs.
    pub fn difference(&self) -> Result<Difference, Error> {
        if self.is_empty() {
            return Ok(Difference { has_stock_ids: true, ..Difference::default() });
        }
        let stock = self.stock()?;
        let nodes = self.line.nodes();
        let sides = Sides { session: self.line.bytes(), stock: stock.prompt.text().as_bytes() };
        let sent = match &self.state {
            State::Open { .. } => SentPart::Whole,
            State::Idle { sent: Some(sent), .. } => SentPart::Until(sent.stock.end()),
            State::Idle { sent: None, .. } | State::Replied { .. } => SentPart::Unknown,
        };
        let pieces = pieces(&nodes, &stock, self.setup.reply_rule(), sent);
        let same = pieces.iter().flat_map(|piece| sides.same(piece)).collect::<Vec<_>>();
        let end = pieces.last().map_or(0, |piece| piece.stock.end);
        let ours = Tokens::of_session(&nodes);
        let encoded = self.setup.encoder.encode(&stock.prompt)?;
        let theirs = Tokens::of_stock(encoded.tokens.iter().map(|token| (token.id, token.end)));
        let blocks = blocks(&ours, &theirs, &same, (sides.session.len(), end));
        let sent_ids = theirs.ids.get(..blocks.last().map_or(0, |last| last.theirs.end));
        let differs =
            |block: &Block| ours.ids[block.ours.clone()] != theirs.ids[block.theirs.clone()] || !sides.is_same(block);
        let gaps = sides.join(blocks.into_iter().filter(differs)).into_iter().filter(differs);
        Ok(Difference {
            gaps: gaps.map(|block| self.gap(&block, &sides, &pieces, &nodes)).collect(),
            stock: stock.prompt.text().get(..end).unwrap_or_default().to_owned(),
            has_stock_ids: sent_ids == Some(&ours.ids[..]),
        })
    }

    /// Renders the session's messages as the next operation would.
    pub(super) fn stock(&self) -> Result<Stock, Error> {
        let messages = self.messages();
        let generates = self.is_open() || !self.state.pending().is_empty();
        let render = |generates| self.setup.render(&self.conversation_of(&messages, generates));
        // A template may refuse a conversation that ends with a reply.
        let (prompt, growth) = match generates {
            true => render(true)?,
            false => render(false).or_else(|_| render(true))?,
        };
        Ok(Stock { start: 0, prompt, growth, count: messages.len(), whole: None })
    }

    fn gap(&self, block: &Block, sides: &Sides<'_>, pieces: &[AlignPiece], nodes: &[&Arc<Node>]) -> Gap {
        let (ours, theirs) = (&sides.session[block.session.clone()], &sides.stock[block.stock.clone()]);
        let is_ids_only = ours == theirs;
        let (before, after) = sides.trimmed(block);
        let at = block.session.start + before;
        let piece = pieces.iter().find(|piece| at < piece.session.end).or(pieces.last());
        let segment = nodes.iter().flat_map(|node| node.segments()).find(|segment| segment.ids.end > block.ours.start);
        let reply = piece.and_then(|piece| piece.reply);
        let is_first = pieces.iter().take_while(|piece| piece.reply.is_none()).any(|piece| at < piece.session.end);
        let text = |bytes: &[u8]| String::from_utf8_lossy(&bytes[before..bytes.len() - after]).into_owned();
        Gap {
            message: reply.or_else(|| segment.and_then(|segment| segment.message)),
            part: match reply {
                Some(_) => GapPart::Reply,
                None if is_first => GapPart::Opening,
                None => GapPart::Between,
            },
            session: text(ours),
            stock: text(theirs),
            byte: block.stock.start + before,
            id: block.ours.start,
            ids: block.ours.len(),
            stock_ids: block.theirs.len(),
            is_ids_only,
        }
    }
}

/// The texts of a session and of the stock prompt.
struct Sides<'a> {
    session: Vec<u8>,
    stock: &'a [u8],
}

/// Bytes of the session and of the stock prompt that are equal.
struct Same {
    session: usize,
    stock: usize,
    length: usize,
}

impl Sides<'_> {
    /// Returns what is equal at the start and at the end of a piece.
    fn same(&self, piece: &AlignPiece) -> Vec<Same> {
        let (ours, theirs) = (&self.session[piece.session.clone()], &self.stock[piece.stock.clone()]);
        let (before, after) = shared(ours, theirs);
        vec![
            Same { session: piece.session.start, stock: piece.stock.start, length: before },
            Same { session: piece.session.end - after, stock: piece.stock.end - after, length: after },
        ]
    }

    /// Joins blocks with nothing equal between them. Where a piece was divided at another place than
    /// in the stock prompt, this leaves only what differs.
    fn join(&self, blocks: impl Iterator<Item = Block>) -> Vec<Block> {
        let mut joined: Vec<Block> = Vec::new();
        for block in blocks {
            if let Some(last) = joined.last_mut()
                && (last.session.end, last.stock.end) == (block.session.start, block.stock.start)
                && ((!self.is_same(last) && !self.is_same(&block)) || self.start(last) == self.start(&block))
            {
                last.ours.end = block.ours.end;
                last.theirs.end = block.theirs.end;
                last.session.end = block.session.end;
                last.stock.end = block.stock.end;
            } else {
                joined.push(block);
            }
        }
        joined
    }

    /// Returns the byte of the stock prompt at which a block differs.
    fn start(&self, block: &Block) -> usize {
        block.stock.start + self.trimmed(block).0
    }

    /// Returns the lengths of what a block's texts share at the start and at the end, or 0 if they
    /// are equal: then all of it is shown.
    fn trimmed(&self, block: &Block) -> (usize, usize) {
        let (ours, theirs) = (&self.session[block.session.clone()], &self.stock[block.stock.clone()]);
        if ours == theirs { (0, 0) } else { shared(ours, theirs) }
    }

    fn is_same(&self, block: &Block) -> bool {
        self.session[block.session.clone()] == self.stock[block.stock.clone()]
    }
}

/// Returns the lengths of what two texts share at the start and at the end, in whole characters
/// and without overlap.
fn shared(one: &[u8], other: &[u8]) -> (usize, usize) {
    let is_inside = |bytes: &[u8], at: usize| bytes.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
    let mut before = common_items(one, other);
    while before > 0 && (is_inside(one, before) || is_inside(other, before)) {
        before -= 1;
    }
    let (rest, others) = (&one[before..], &other[before..]);
    let mut after = rest.iter().rev().zip(others.iter().rev()).take_while(|(a, b)| a == b).count();
    while after > 0 && is_inside(rest, rest.len() - after) {
        after -= 1;
    }
    (before, after)
}

/// Ids with the ends of their texts, which do not decrease.
struct Tokens {
    ids: Vec<u32>,
    ends: Vec<usize>,
}

impl Tokens {
    fn of_session(nodes: &[&Arc<Node>]) -> Tokens {
        let mut start = 0;
        let mut each = Vec::new();
        for node in nodes {
            each.extend(node.run.ids.iter().zip(&node.run.ends).map(|(id, end)| (*id, start + *end as usize)));
            start += node.run.bytes.len();
        }
        Tokens::of_stock(each)
    }

    fn of_stock(each: impl IntoIterator<Item = (u32, usize)>) -> Tokens {
        let mut last = 0;
        let each = each.into_iter().map(|(id, end)| {
            last = last.max(end);
            (id, last)
        });
        let (ids, ends) = each.unzip();
        Tokens { ids, ends }
    }

    /// Returns the number of ids whose text ends at or before a byte, if one ends exactly there.
    fn border(&self, byte: usize) -> Option<usize> {
        let count = self.ends.partition_point(|end| *end <= byte);
        let end = count.checked_sub(1).map_or(0, |last| self.ends[last]);
        (end == byte).then_some(count)
    }
}

/// Ids of the session and of the stock prompt between two places where both have a border.
struct Block {
    ours: Range<usize>,
    theirs: Range<usize>,
    session: Range<usize>,
    stock: Range<usize>,
}

/// Divides both sides wherever equal text has a border of ids in both.
fn blocks(ours: &Tokens, theirs: &Tokens, same: &[Same], (ours_end, theirs_end): (usize, usize)) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut from = [0; 4];
    let mut add = |to: [usize; 4]| {
        if to != from {
            blocks.push(Block {
                ours: from[0]..to[0],
                theirs: from[1]..to[1],
                session: from[2]..to[2],
                stock: from[3]..to[3],
            });
        }
        from = to;
    };
    for Same { session, stock, length } in same {
        let first = ours.ends.partition_point(|end| end < session);
        let ends = ours.ends[first..].iter().copied().take_while(|end| *end <= session + length);
        for end in std::iter::once(*session).chain(ends) {
            let other = end - session + stock;
            if let (Some(one), Some(two)) = (ours.border(end), theirs.border(other)) {
                add([one, two, end, other]);
            }
        }
    }
    let rest = theirs.ends.partition_point(|end| *end <= theirs_end);
    add([ours.ids.len(), rest, ours_end, theirs_end]);
    blocks
}
