//! Answers written piece by piece, so that an answer is never in memory as a whole.

use std::borrow::Borrow;
use std::fmt::Write;
use std::io;

use rolecall_conversation::Json;
use rolecall_conversation::json::{Layout, escape_into, write_into, write_string};
use rolecall_encode::{EncodedToken, Note};
use rolecall_render::{Origin, Prompt};

use super::fields::of_origin;
use super::visit::{AnswerParts, KeySink, visit};
use crate::loss::TokenLoss;
use crate::training::TruncationReport;

/// The parts of an answer, with tokens that can be iterated several times.
#[derive(Clone, Copy)]
pub struct StreamedAnswer<'a> {
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
    pub truncated: Option<&'a TruncationReport>,
}

/// The number of bytes that are collected before they are written.
const PART: usize = 1 << 16;

/// A writer of JSON, piece by piece.
pub struct Stream<'w> {
    /// What takes the text each time that enough of it is collected, or else all of it is kept.
    out: Option<&'w mut dyn io::Write>,
    text: String,
    spaces: Spaces,
    /// Whether the object or list has an item.
    has_items: bool,
}

/// Where a writer puts spaces.
struct Spaces {
    comma: &'static str,
    colon: &'static str,
    /// What a segment begins with, and what follows its text.
    segment: [&'static str; 2],
    layout: Layout,
}

/// Writes the answer of [`of_prompt`](super::of_prompt), [`of_encoded`](super::of_encoded) or
/// [`of_training`](super::of_training), with a space after each comma and colon.
///
/// `more` can add keys at the end.
///
/// ```
/// use rolecall::answer;
/// use rolecall::answer::StreamedAnswer;
/// use rolecall::conversation::{Conversation, Message, json};
/// use rolecall::format::registry;
/// use rolecall::render::{Options, Writer};
/// let registry = registry();
/// let conversation = Conversation::new(vec![Message::user("Hi")]);
/// let prompt = Writer::format(registry.get("chatml").expect("built in").clone(), Options::default()).render(&conversation)?;
/// let mut written = Vec::new();
/// let streamed = StreamedAnswer { id: None, prompt: &prompt, tokens: None, notes: &[], loss: None, truncated: None };
/// answer::stream(&mut written, &streamed, |_| Ok(())).expect("memory takes all");
/// assert_eq!(written, json::write(&answer::of_prompt(None, &prompt), &json::Layout::default()).into_bytes());
/// # Ok::<(), rolecall::Error>(())
/// ```
pub fn stream(
    out: &mut dyn io::Write,
    answer: &StreamedAnswer<'_>,
    more: impl FnOnce(&mut Stream<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let StreamedAnswer { id, prompt, tokens, notes, loss, truncated } = *answer;
    let parts = AnswerParts { id, side: None, prompt, notes, loss, truncated, part: None };
    let spaces =
        Spaces { comma: ", ", colon: ": ", segment: ["{\"text\": ", ", \"origin\": "], layout: Layout::default() };
    let mut stream = Stream { out: Some(out), text: String::from("{"), spaces, has_items: false };
    visit(&parts, tokens, &mut stream)?;
    more(&mut stream)?;
    stream.text.push('}');
    match stream.out {
        Some(out) => out.write_all(stream.text.as_bytes()),
        None => Ok(()),
    }
}

/// Appends an answer to a text, without spaces.
pub(super) fn append<I: Iterator<Item: Borrow<EncodedToken>>>(
    text: &mut String,
    parts: &AnswerParts<'_>,
    tokens: Option<impl Fn() -> I>,
) {
    let spaces = Spaces { comma: ",", colon: ":", segment: ["{\"text\":", ",\"origin\":"], layout: Layout::compact() };
    text.push('{');
    let mut stream = Stream { out: None, text: std::mem::take(text), spaces, has_items: false };
    // Memory takes all.
    let _ = visit(parts, tokens, &mut stream);
    *text = stream.text;
    text.push('}');
}

impl Stream<'_> {
    /// Writes a comma unless this is the first item of an object or list.
    fn separate(&mut self) {
        if self.has_items {
            self.text.push_str(self.spaces.comma);
        }
        self.has_items = true;
    }

    /// Writes a key, before the value is written.
    fn key(&mut self, key: &str) {
        self.separate();
        // The keys of answers are plain words.
        self.text.push('"');
        self.text.push_str(key);
        self.text.push('"');
        self.text.push_str(self.spaces.colon);
    }

    fn begin(&mut self, bracket: char) {
        self.text.push(bracket);
        self.has_items = false;
    }

    fn end(&mut self, bracket: char) {
        self.text.push(bracket);
        self.has_items = true;
    }

    /// Writes a list under a key, after other keys.
    pub fn list<T>(
        &mut self,
        key: &str,
        items: impl Iterator<Item = T>,
        mut write: impl FnMut(&mut Self, T) -> io::Result<()>,
    ) -> io::Result<()> {
        self.key(key);
        self.begin('[');
        for item in items {
            self.separate();
            write(self, item)?;
            self.flush_part()?;
        }
        self.end(']');
        Ok(())
    }

    /// Writes a value.
    pub fn value(&mut self, value: &Json) -> io::Result<()> {
        write_into(&mut self.text, value, &self.spaces.layout);
        self.flush_part()
    }

    fn string(&mut self, string: &str) -> io::Result<()> {
        if self.out.is_none() || string.len() < PART {
            write_string(&mut self.text, string, false);
            return self.flush_part();
        }
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

    fn origin(&mut self, origin: &Origin) -> io::Result<()> {
        match origin {
            Origin::Control(_) => self.text.push_str("\"control\""),
            Origin::Format => self.text.push_str("\"format\""),
            // Most segments come from messages, so they are written directly.
            Origin::Message { message, field } => {
                let Spaces { comma, colon, .. } = &self.spaces;
                let _ = write!(self.text, "{{\"message\"{colon}{message}{comma}\"field\"{colon}");
                write_string(&mut self.text, field, false);
                self.text.push('}');
            }
            other => return self.value(&of_origin(other)),
        }
        Ok(())
    }

    fn flush_part(&mut self) -> io::Result<()> {
        if let Some(out) = &mut self.out
            && self.text.len() >= PART
        {
            out.write_all(self.text.as_bytes())?;
            self.text.clear();
        }
        Ok(())
    }
}

impl KeySink for Stream<'_> {
    fn insert(&mut self, key: &str, value: &Json) -> io::Result<()> {
        self.key(key);
        self.value(value)
    }

    fn insert_text(&mut self, key: &str, text: &str) -> io::Result<()> {
        self.key(key);
        self.string(text)
    }

    fn insert_numbers(&mut self, key: &str, numbers: impl Iterator<Item = u32>) -> io::Result<()> {
        self.key(key);
        self.begin('[');
        let (mut bytes, mut before) = ([0; LONGEST_NUMBER], "");
        for number in numbers {
            self.text.push_str(decimal(before, number, &mut bytes));
            before = self.spaces.comma;
            self.flush_part()?;
        }
        self.end(']');
        Ok(())
    }

    fn insert_list(&mut self, key: &str, values: impl Iterator<Item = Json>) -> io::Result<()> {
        self.list(key, values, |stream, value| stream.value(&value))
    }

    fn begin_segments(&mut self) {
        self.key("segments");
        self.begin('[');
    }

    fn segment(&mut self, text: &str, origin: &Origin, learned: Option<bool>) -> io::Result<()> {
        self.separate();
        let [before_text, before_origin] = self.spaces.segment;
        self.text.push_str(before_text);
        self.string(text)?;
        self.text.push_str(before_origin);
        self.origin(origin)?;
        if let Some(learned) = learned {
            self.key("loss");
            self.text.push_str(if learned { "true" } else { "false" });
        }
        self.end('}');
        self.flush_part()
    }

    fn end_segments(&mut self) {
        self.end(']');
    }
}

/// The most bytes of a separator and a number.
const LONGEST_NUMBER: usize = 12;

/// Formats a number behind a separator. This is several times faster than the standard library.
fn decimal<'b>(separator: &str, mut number: u32, bytes: &'b mut [u8; LONGEST_NUMBER]) -> &'b str {
    let mut at = bytes.len();
    loop {
        at -= 1;
        bytes[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    for byte in separator.bytes().rev() {
        at -= 1;
        bytes[at] = byte;
    }
    std::str::from_utf8(&bytes[at..]).unwrap_or_default()
}
