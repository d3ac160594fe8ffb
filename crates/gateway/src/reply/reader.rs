use std::sync::Arc;

use rolecall::encode::{Decoder, Error};
use rolecall::parse::{IdParser, Within};
use rolecall::{Event, Stop};

use crate::reply::characters::Characters;

/// What reads the ids of a reply.
#[derive(Clone)]
pub enum ReplyReader {
    /// The parser of a conversation's turn.
    Turn(Box<IdParser>),
    /// A decoder: all of the reply is text.
    Text(TextReader),
}

/// Reads ids as text.
#[derive(Clone)]
pub struct TextReader {
    decoder: Arc<Decoder>,
    /// Whether control tokens are left out of the text.
    skips_markers: bool,
    characters: Characters,
}

impl ReplyReader {
    /// Returns a reader that emits the place of each text before it. A text whose place is not emitted
    /// follows the one before it.
    pub fn with_places(self) -> ReplyReader {
        match self {
            ReplyReader::Turn(parser) => ReplyReader::Turn(Box::new(parser.with_places())),
            ReplyReader::Text(reader) => ReplyReader::Text(reader),
        }
    }

    /// Reads an id. One that the tokenizer does not have is an error.
    pub fn push(&mut self, id: u32, sink: &mut impl FnMut(Event<'_>)) -> Result<(), Error> {
        match self {
            ReplyReader::Turn(parser) => parser.push(id, sink),
            ReplyReader::Text(reader) => reader.push(id, sink),
        }
    }

    /// Reads text that was sampled with ordinary tokens.
    pub fn push_text(&mut self, text: &str, sink: &mut impl FnMut(Event<'_>)) {
        match self {
            ReplyReader::Turn(parser) => parser.push_text(text, sink),
            ReplyReader::Text(reader) => {
                reader.characters.bytes.extend_from_slice(text.as_bytes());
                reader.pass(sink);
            }
        }
    }

    /// Reads text of an engine that returns no ids, in which what spells a marker is one.
    pub fn push_spelled(&mut self, text: &str, sink: &mut impl FnMut(Event<'_>)) {
        match self {
            ReplyReader::Turn(parser) => parser.push_spelled(text, sink),
            ReplyReader::Text(_) => self.push_text(text, sink),
        }
    }

    /// Reports whether an id is left out of the reply.
    pub fn skips(&self, id: u32) -> bool {
        match self {
            ReplyReader::Turn(_) => false,
            ReplyReader::Text(reader) => reader.skips_markers && reader.decoder.is_marker(id),
        }
    }

    /// Reports whether an id is a marker that the format does not know: it would be written as text.
    pub fn writes_only_text(&self, id: u32, decoder: &Decoder) -> bool {
        let (mut with, mut without) = (EventTexts::default(), EventTexts::default());
        self.clone().finish(Stop::End, &mut |event| without.add(&event));
        let mut reader = self.clone();
        if reader.push(id, &mut |event| with.add(&event)).is_err() {
            return false;
        }
        reader.finish(Stop::End, &mut |event| with.add(&event));
        let mut marker = Vec::new();
        let is_known = decoder.append(id, &mut marker).is_ok();
        let rest = with.text.as_bytes().strip_suffix(&marker[..]);
        is_known && with.others == without.others && rest.is_some_and(|rest| rest.starts_with(without.text.as_bytes()))
    }

    /// Returns the part of the turn that the reply has reached.
    pub fn within(&self) -> Within {
        match self {
            ReplyReader::Turn(parser) => parser.within(),
            ReplyReader::Text(_) => Within::Content,
        }
    }

    /// Ends the reply.
    pub fn finish(self, stop: Stop, sink: &mut impl FnMut(Event<'_>)) {
        match self {
            ReplyReader::Turn(parser) => parser.finish(stop, sink),
            ReplyReader::Text(mut reader) => {
                reader.pass_rest(sink);
                sink(Event::Stop(stop));
            }
        }
    }
}

/// What events give.
#[derive(Default)]
struct EventTexts {
    /// The text of the answer and of the reasoning.
    text: String,
    /// The number of events of calls.
    others: usize,
}

impl EventTexts {
    fn add(&mut self, event: &Event<'_>) {
        match event {
            Event::Content(text) | Event::Reasoning(text) => self.text += text,
            Event::Place(_) | Event::Stop(_) | Event::Malformed(_) => {}
            _ => self.others += 1,
        }
    }
}

impl TextReader {
    pub fn new(decoder: Arc<Decoder>, skips_markers: bool) -> TextReader {
        TextReader { decoder, skips_markers, characters: Characters::default() }
    }

    fn push(&mut self, id: u32, sink: &mut impl FnMut(Event<'_>)) -> Result<(), Error> {
        if self.decoder.is_marker(id) {
            self.pass_rest(sink);
            if self.skips_markers {
                return Ok(());
            }
        }
        self.decoder.append(id, &mut self.characters.bytes)?;
        self.pass(sink);
        Ok(())
    }

    /// Passes the characters on that are complete.
    fn pass(&mut self, sink: &mut impl FnMut(Event<'_>)) {
        let text = self.characters.complete();
        if !text.is_empty() {
            sink(Event::Content(&text));
        }
    }

    /// Passes all on, even an incomplete character.
    fn pass_rest(&mut self, sink: &mut impl FnMut(Event<'_>)) {
        if !self.characters.is_empty() {
            sink(Event::Content(&self.characters.rest()));
        }
    }
}
