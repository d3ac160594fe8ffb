//! Transcripts of parsed model output, with deltas joined, and ways of splitting it.

use std::fmt;
use std::sync::Arc;

use rolecall::conversation::{Json, json};
use rolecall::parse::{OutputParser, ParseOptions, Reply};
use rolecall::{Event, Reading, Stop};

use crate::outputs::pieces;

/// The events of a parsed output, with neighbouring deltas joined. Equal for every split of the
/// output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transcript(Vec<Entry>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    /// The kind of a delta, and its text so far.
    Text(String, String),
    /// Any other event in words.
    Fact(String),
}

/// A piece of an output, as an engine delivers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TranscriptPiece {
    /// Text.
    Text(String),
    /// The bytes of an ordinary token.
    Bytes(Vec<u8>),
    /// A control token, by its text.
    Control(String),
}

impl Transcript {
    /// Adds the next event.
    pub fn add(&mut self, event: &Event<'_>) {
        let (kind, text) = match *event {
            Event::Content(text) => ("content".to_owned(), text),
            Event::Reasoning(text) => ("reasoning".to_owned(), text),
            Event::Arguments { index, text } => (format!("arguments {index}"), text),
            Event::Code { index, text } => (format!("code {index}"), text),
            ref event => return self.0.push(Entry::Fact(fact(event))),
        };
        match self.0.last_mut() {
            Some(Entry::Text(known, so_far)) if *known == kind => so_far.push_str(text),
            _ => self.0.push(Entry::Text(kind, text.to_owned())),
        }
    }
}

/// Writes one event per line: its kind, and its text as JSON.
impl fmt::Display for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, entry) in self.0.iter().enumerate() {
            let end = if at == 0 { "" } else { "\n" };
            match entry {
                Entry::Text(kind, text) => write!(f, "{end}{kind}\t{}", quoted(text))?,
                Entry::Fact(fact) => write!(f, "{end}{fact}")?,
            }
        }
        Ok(())
    }
}

fn fact(event: &Event<'_>) -> String {
    match event {
        Event::CallStarted { index, id, name } => format!("call {index}\t{}\tid {}", quoted(name), quoted(id)),
        Event::CodeStarted { index, id } => format!("interpreter {index}\tid {}", quoted(id)),
        Event::CallFinished { index, whole, id } => {
            let state = if *whole { "whole" } else { "cut off" };
            let id = id.map_or(String::new(), |id| format!("\tid {}", quoted(id)));
            format!("end {index}\t{state}{id}")
        }
        Event::Stop(Stop::End) => "stop".to_owned(),
        Event::Stop(Stop::Length) => "stop\tlength".to_owned(),
        Event::Stop(Stop::Abort) => "stop\tabort".to_owned(),
        Event::Malformed(malformed) => {
            let span = &malformed.span;
            format!("malformed\t{}..{}\t{}: {}", span.start, span.end, malformed.why.code(), malformed.why)
        }
        Event::Content(_) | Event::Reasoning(_) | Event::Arguments { .. } | Event::Code { .. } => String::new(),
        _ => panic!("unknown event: {event:?}"),
    }
}

/// Parses pieces one by one.
pub fn read_pieces(
    reply: &Arc<Reply>,
    options: &ParseOptions,
    pieces: impl IntoIterator<Item = TranscriptPiece>,
    stop: Stop,
) -> (Transcript, Reading) {
    let (mut transcript, mut reading) = (Transcript::default(), Reading::default());
    let mut sink = |event: Event<'_>| {
        transcript.add(&event);
        reading.add(&event);
    };
    let mut parser = OutputParser::new(reply, options.clone());
    for piece in pieces {
        match piece {
            TranscriptPiece::Text(text) => parser.push_text(&text, &mut sink),
            TranscriptPiece::Bytes(bytes) => parser.push_bytes(&bytes, false, &mut sink),
            TranscriptPiece::Control(text) => parser.push_bytes(text.as_bytes(), true, &mut sink),
        }
    }
    parser.finish(stop, &mut sink);
    (transcript, reading)
}

/// Parses texts one by one.
pub fn read_texts<'t>(
    reply: &Arc<Reply>,
    options: &ParseOptions,
    texts: impl IntoIterator<Item = &'t str>,
    stop: Stop,
) -> (Transcript, Reading) {
    read_pieces(reply, options, texts.into_iter().map(|text| TranscriptPiece::Text(text.to_owned())), stop)
}

/// Splits a text at random places, never inside a character, into mostly short pieces, as tokens
/// are.
pub fn random_chunks<'t>(text: &'t str, random: &mut fastrand::Rng) -> Vec<&'t str> {
    let longest = [1, 3, 8, 40][random.usize(..4)];
    pieces(text, longest, random)
}

fn quoted(text: &str) -> String {
    json::write(&Json::from(text), &json::Layout::compact())
}
