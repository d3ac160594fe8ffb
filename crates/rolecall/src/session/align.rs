//! Which part of a stock prompt corresponds to which part of a session.

use std::ops::Range;
use std::sync::Arc;

use super::line::Node;
use super::stock::Stock;
use super::{Author, Part};

/// A reply or what stands between two replies, in the session and in a stock prompt.
#[derive(Clone, Debug)]
pub(super) struct Piece {
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

/// Aligns a session with a whole stock prompt. The replies are found by their messages, not by
/// their text. `end` is the byte of the stock prompt up to which it is sent, if that is known.
pub(super) fn pieces(nodes: &[&Arc<Node>], stock: &Stock, stops: &[String], end: Option<usize>) -> Vec<Piece> {
    let spoken = spoken(nodes);
    let length = stock.prompt.text().len();
    let sent = end;
    let mut pieces: Vec<Piece> = Vec::new();
    let (mut at, mut byte) = (0, 0);
    for (index, part) in spoken.iter().enumerate() {
        let session = at..at + part.text.len();
        at = session.end;
        let Some(message) = part.reply else {
            let next = spoken.get(index + 1).and_then(|next| next.reply);
            let has_text = stock.text_from(byte).as_bytes().starts_with(&part.text);
            let end = match next {
                Some(_) if has_text => byte + part.text.len(),
                Some(message) => stock.message_start(message).unwrap_or(byte).max(byte),
                None => sent.unwrap_or(if has_text { byte + part.text.len() } else { byte }).clamp(byte, length),
            };
            pieces.push(Piece { reply: None, session, stock: byte..end });
            byte = end;
            continue;
        };
        let end = stock.reply_end(message, byte, stops);
        let text = stock.text_from(byte).as_bytes();
        let said = || stock.said_until(&end, Some(byte), &part.text[..part.body]);
        let end = match &end.stop {
            Some(stop) if part.has_stop => {
                let is_same = text
                    .get(stop.start.saturating_sub(byte)..)
                    .is_some_and(|text| text.starts_with(&part.text[part.body..]));
                if end.is_own || is_same { stop.end } else { said() }
            }
            Some(stop) if end.is_own => stop.start,
            _ => said(),
        };
        let end = end.clamp(byte, length);
        pieces.push(Piece { reply: Some(message), session, stock: byte..end });
        byte = end;
    }
    pieces
}

/// Divides a session into replies, each with what closes it, and what stands between them.
fn spoken(nodes: &[&Arc<Node>]) -> Vec<Spoken> {
    let mut spoken: Vec<Spoken> = Vec::new();
    for node in nodes {
        let run = &node.run;
        for segment in &run.segments {
            let text = run.text_of_ids(segment.ids.clone());
            let is_stop = segment.part == Part::Stop;
            let closes = segment.author == Author::Closing;
            let is_said = segment.author != Author::Template && segment.part != Part::AfterStop;
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
