//! Answers written piece by piece, so that an answer is never in memory as a whole.

use std::io;

use rolecall_conversation::Json;
use rolecall_conversation::json::{Layout, Object, escape_into, write_into, write_string};
use rolecall_encode::{EncodedToken, Note};
use rolecall_render::Prompt;

use super::{cut, insert_end, of_note, of_origin, of_weight, training_notes};
use crate::loss::TokenLoss;
use crate::training::Truncated;

/// The parts of an answer, with tokens that can be iterated several times.
#[derive(Clone, Copy)]
pub struct Streamed<'a> {
    /// The id of the request, if it has one.
    pub id: Option<&'a Json>,
    /// The rendered conversation.
    pub prompt: &'a Prompt,
    /// The tokens, if they were requested.
    pub tokens: Option<&'a dyn Fn() -> Box<dyn Iterator<Item = EncodedToken> + 'a>>,
    /// Notes about the ends of the prompt.
    pub notes: &'a [Note],
    /// The byte ranges that carry loss, if they were requested.
    pub loss: Option<TokenLoss<'a>>,
    /// What truncation removed from the ids.
    pub truncated: Option<&'a Truncated>,
}

/// The number of bytes that are collected before they are written.
const PART: usize = 1 << 16;

/// A writer of JSON, piece by piece, with a space after each comma and colon, as in Python's
/// `json.dumps`.
pub struct Stream<'w> {
    out: &'w mut dyn io::Write,
    text: String,
}

/// Writes the answer of [`of_prompt`](super::of_prompt), [`of_encoded`](super::of_encoded) or
/// [`of_training`](super::of_training), with a space after each comma and colon.
///
/// `more` can add keys at the end.
///
/// ```
/// use rolecall::answer;
/// use rolecall::answer::Streamed;
/// use rolecall::conversation::{Conversation, Message, json};
/// use rolecall::format::registry;
/// use rolecall::render::{Options, render};
/// let registry = registry();
/// let conversation = Conversation::new(vec![Message::user("Hi")]);
/// let prompt = render(&conversation, registry.get("chatml").expect("built in"), &Options::default())?;
/// let mut written = Vec::new();
/// let streamed = Streamed { id: None, prompt: &prompt, tokens: None, notes: &[], loss: None, truncated: None };
/// answer::stream(&mut written, &streamed, |_| Ok(())).expect("memory takes all");
/// assert_eq!(written, json::write(&answer::of_prompt(None, &prompt), &json::Layout::default()).into_bytes());
/// # Ok::<(), rolecall::Error>(())
/// ```
pub fn stream(
    out: &mut dyn io::Write,
    answer: &Streamed<'_>,
    more: impl FnOnce(&mut Stream<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let Streamed { id, prompt, tokens, notes, loss, truncated } = *answer;
    let mut stream = Stream { out, text: String::from("{") };
    if let Some(id) = id {
        stream.text.push_str("\"id\": ");
        stream.value(id)?;
        stream.text.push_str(", ");
    }
    stream.text.push_str("\"prompt\": ");
    stream.string(prompt.text())?;
    let segments = prompt.segments().flat_map(|segment| {
        let span = segment.start..segment.start + segment.text.len();
        let pieces = match loss {
            None => vec![(span, None)],
            Some(loss) => {
                cut(span, &loss.loss.spans).into_iter().map(|(span, learned)| (span, Some(learned))).collect()
            }
        };
        pieces.into_iter().map(move |(span, learned)| (span, segment.origin.clone(), learned))
    });
    stream.list("segments", segments, |stream, (span, origin, learned)| {
        stream.text.push_str("{\"text\": ");
        stream.string(&prompt.text()[span])?;
        stream.text.push_str(", \"origin\": ");
        stream.value(&of_origin(&origin))?;
        if let Some(learned) = learned {
            stream.text.push_str(if learned { ", \"loss\": true" } else { ", \"loss\": false" });
        }
        stream.text.push('}');
        Ok(())
    })?;
    let mut end = Object::new();
    insert_end(&mut end, prompt);
    for (key, value) in end.iter() {
        stream.key(key);
        stream.value(value)?;
    }
    if let Some(tokens) = tokens {
        stream.numbers("ids", tokens().map(|token| token.id))?;
        stream.numbers("control_ids", tokens().filter(|token| token.control).map(|token| token.id))?;
        if !notes.is_empty() {
            stream.list("notes", notes.iter(), |stream, note| stream.value(&of_note(note)))?;
        }
        if let Some(loss) = loss {
            let mut weigher = loss.weigher();
            stream.numbers("loss_mask", tokens().map(|token| u32::from(weigher.weight(&token) > 0.0)))?;
            if !loss.loss.is_uniform() {
                let mut weigher = loss.weigher();
                let each = tokens().map(|token| weigher.weight(&token));
                stream.list("loss_weights", each, |stream, weight| stream.value(&of_weight(weight)))?;
            }
        }
    }
    for (key, value) in training_notes(loss, truncated, None) {
        stream.key(key);
        stream.value(&value)?;
    }
    more(&mut stream)?;
    stream.text.push('}');
    stream.out.write_all(stream.text.as_bytes())
}

impl Stream<'_> {
    /// Writes the separator and a key, before the value is written.
    fn key(&mut self, key: &str) {
        self.text.push_str(", ");
        write_string(&mut self.text, key, false);
        self.text.push_str(": ");
    }

    /// Writes a list under a key, after other keys.
    pub fn list<T>(
        &mut self,
        key: &str,
        items: impl Iterator<Item = T>,
        mut write: impl FnMut(&mut Self, T) -> io::Result<()>,
    ) -> io::Result<()> {
        self.key(key);
        self.text.push('[');
        for (at, item) in items.enumerate() {
            if at > 0 {
                self.text.push_str(", ");
            }
            write(self, item)?;
            self.flush_part()?;
        }
        self.text.push(']');
        Ok(())
    }

    fn numbers(&mut self, key: &str, numbers: impl Iterator<Item = u32>) -> io::Result<()> {
        let mut digits = [0; 10];
        self.list(key, numbers, |stream, number| {
            stream.text.push_str(super::decimal(number, &mut digits));
            Ok(())
        })
    }

    /// Writes a value.
    pub fn value(&mut self, value: &Json) -> io::Result<()> {
        write_into(&mut self.text, value, &Layout::default());
        self.flush_part()
    }

    fn string(&mut self, string: &str) -> io::Result<()> {
        self.text.push('"');
        let mut rest = string;
        while !rest.is_empty() {
            let mut end = rest.len().min(PART);
            while !rest.is_char_boundary(end) {
                end -= 1;
            }
            let (part, after) = rest.split_at(end);
            escape_into(&mut self.text, part, false);
            self.flush_part()?;
            rest = after;
        }
        self.text.push('"');
        Ok(())
    }

    fn flush_part(&mut self) -> io::Result<()> {
        if self.text.len() >= PART {
            self.out.write_all(self.text.as_bytes())?;
            self.text.clear();
        }
        Ok(())
    }
}
