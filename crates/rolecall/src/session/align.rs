//! Which part of a stock prompt corresponds to which part of a session.

use std::ops::Range;
use std::sync::Arc;

use rolecall_render::growth::ReplyRule;
use rolecall_text::common_items;

use super::line::Node;
use super::stock::Stock;
use super::{Author, SegmentPart};

/// A reply or what stands between two replies, in the session and in a stock prompt.
#[derive(Clone, Debug)]
pub(super) struct AlignPiece {
    /// The message that was sampled.
    pub reply: Option<usize>,
    /// The bytes of the session.
    pub session: Range<usize>,
    /// The bytes of the stock prompt.
    pub stock: Range<usize>,
}

/// A piece of a session: bytes, and whether it ends with a token that stops the model.
struct Spoken {
    reply: Option<usize>,
    text: Vec<u8>,
    /// The length of the text without the stop token.
    body: usize,
    has_stop: bool,
}

/// How much of a stock prompt corresponds to what is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SentPart {
    /// All of it.
    Whole,
    /// The text before this byte, if the prompt is the one that was sent.
    Until(usize),
    /// As much as the last piece says.
    Unknown,
}

/// Aligns a session with a whole stock prompt. The replies are found by their messages, not by
/// their text. The pieces cover the session, and the stock prompt as far as it is sent.
pub(super) fn pieces(nodes: &[&Arc<Node>], stock: &Stock, rule: ReplyRule<'_>, sent: SentPart) -> Vec<AlignPiece> {
    let spoken = spoken(nodes);
    let session = spoken.iter().flat_map(|part| &part.text).copied().collect::<Vec<u8>>();
    let length = stock.prompt.text().len();
    let mut pieces: Vec<AlignPiece> = Vec::new();
    let (mut at, mut byte) = (0, 0);
    // Up to which byte of the session it is as the stock prompt, if that is this many bytes ahead.
    let mut same = (None, 0);
    for (index, part) in spoken.iter().enumerate() {
        let range = at..at + part.text.len();
        let rest = stock.text_from(byte).as_bytes();
        let ahead = byte.wrapping_sub(at);
        if same.0 != Some(ahead) || same.1 < at {
            let length = common_items(&session[at..], rest);
            same = (Some(ahead), at + length);
        }
        let is_equal = same.1 == session.len() && (sent != SentPart::Whole || rest.len() == session.len() - at);
        let end = if is_equal {
            byte + part.text.len()
        } else if index + 1 == spoken.len() && sent == SentPart::Whole {
            length
        } else if let Some(message) = part.reply {
            reply_end(part, message, stock, byte, rule)
        } else {
            match spoken.get(index + 1) {
                _ if rest.starts_with(&part.text) => byte + part.text.len(),
                Some(next) => opening_end(part, next, stock, byte, rule),
                None => {
                    if let SentPart::Until(end) = sent {
                        end
                    } else {
                        byte
                    }
                }
            }
        };
        let end = (byte..=end.min(length)).rev().find(|end| stock.prompt.text().is_char_boundary(*end)).unwrap_or(byte);
        pieces.push(AlignPiece { reply: part.reply, session: range.clone(), stock: byte..end });
        (at, byte) = (range.end, end);
    }
    pieces
}

/// Returns the byte of the stock prompt at which a reply that begins at a byte ends.
fn reply_end(part: &Spoken, message: usize, stock: &Stock, byte: usize, rule: ReplyRule<'_>) -> usize {
    let end = stock.reply_end(message, byte, rule);
    let said = || stock.said_until(&end, Some(byte), &part.text[..part.body]);
    match &end.stop {
        Some(stop) if part.has_stop => {
            let is_same = stock.text_from(stop.start).as_bytes().starts_with(&part.text[part.body..]);
            if end.is_own || is_same { stop.end } else { said() }
        }
        Some(stop) if end.is_own => stop.start,
        _ => said(),
    }
}

/// Returns the byte of the stock prompt at which the reply after a piece begins: in what the prompt
/// writes before the reply's own text, the place around which most is as in the session.
fn opening_end(part: &Spoken, next: &Spoken, stock: &Stock, byte: usize, rule: ReplyRule<'_>) -> usize {
    let Some(span) = next.reply.and_then(|message| stock.opening_span(message, byte, rule)) else { return byte };
    let text = stock.text_from(byte).as_bytes();
    let score = |at: &usize| {
        let (before, after) = text.split_at_checked(at - byte).unwrap_or_default();
        let before = part.text.iter().rev().zip(before.iter().rev()).take(MOST).take_while(|(a, b)| a == b).count();
        before + next.text.iter().zip(after).take(MOST).take_while(|(a, b)| a == b).count()
    };
    let is_border = |at: &usize| stock.prompt.text().is_char_boundary(at - stock.start);
    let places = (span.start.max(byte)..=span.end.max(byte)).take(MOST_PLACES).filter(is_border);
    // Of equal places, the last one: what precedes a reply is the template's.
    places.max_by_key(score).unwrap_or(byte)
}

/// The number of bytes that are compared on each side of a place, and the number of places.
const MOST: usize = 256;
const MOST_PLACES: usize = 4096;

/// Divides a session into replies, each with what closes it, and what stands between them.
fn spoken(nodes: &[&Arc<Node>]) -> Vec<Spoken> {
    let mut spoken: Vec<Spoken> = Vec::new();
    for node in nodes {
        let run = &node.run;
        for segment in &run.segments {
            let text = run.text_of_ids(segment.ids.clone());
            let is_stop = segment.part == SegmentPart::Stop;
            let closes = segment.author == Author::Closing;
            let is_said = segment.author != Author::Template && segment.part != SegmentPart::AfterStop;
            let is_reply = run.reply.filter(|_| is_said).or(segment.message.filter(|_| closes));
            match spoken.last_mut() {
                Some(last) if last.reply == is_reply => {
                    last.text.extend_from_slice(text);
                    last.has_stop |= is_stop;
                    last.body += if is_stop { 0 } else { text.len() };
                }
                _ => spoken.push(Spoken {
                    reply: is_reply,
                    text: text.to_vec(),
                    body: if is_stop { 0 } else { text.len() },
                    has_stop: is_stop,
                }),
            }
        }
    }
    spoken
}
