//! Parsing tables for replies that consist of messages, each with a header.

use std::sync::Arc;

use rolecall_format::{Format, Header};

use super::program::{Item, Program, Syntax};
use super::{Mark, Meaning, Reply};
use crate::literal::Literal;
use crate::marks::Marks;

/// The markers of a header, and what its words mean.
#[derive(Clone, Debug)]
pub(crate) struct Headers {
    /// Markers in a header.
    pub marks: Marks<InHeader>,
    pub words: Header,
    /// The program for a call whose text is a JSON object.
    pub function: usize,
    /// The program for a call whose text is code.
    pub code: usize,
}

/// The meaning of a marker in a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InHeader {
    /// Another header begins.
    Start,
    /// An attribute follows.
    Attribute(Attribute),
    /// The message's text begins.
    Body,
    /// The message ends without a text. The marker may end the turn, too.
    End(Meaning),
}

/// What the words after a marker of a header name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Attribute {
    /// The author and the recipient, before any other marker.
    #[default]
    Author,
    Channel,
    ContentType,
}

impl Headers {
    /// Fills the tables of a reply whose messages have headers.
    pub fn build(reply: &mut Reply, format: &Format, words: &Header, tokens: &[String]) -> Headers {
        let literal = |text: &str| {
            let mut literal = Literal::of(text);
            literal.mark_tokens(tokens);
            literal
        };
        let mut headers = Headers { marks: Marks::new(), words: words.clone(), function: 0, code: 1 };
        let (mut text, mut between) = (Vec::new(), Vec::new());
        let channel = Some(Attribute::Channel);
        let content_type = Some(Attribute::ContentType);
        // Each marker, its meaning in a header, in a message's text, and after a message.
        let marks = [
            (&words.start, InHeader::Start, Meaning::Header, Meaning::Header),
            (
                &words.channel,
                InHeader::Attribute(Attribute::Channel),
                Meaning::HeaderWithoutStart(channel),
                Meaning::HeaderWithoutStart(channel),
            ),
            (
                &words.content_type,
                InHeader::Attribute(Attribute::ContentType),
                Meaning::Stray,
                Meaning::HeaderWithoutStart(content_type),
            ),
            (&words.body, InHeader::Body, Meaning::Stray, Meaning::HeaderWithoutStart(None)),
        ];
        for (mark, in_header, in_text, after) in marks {
            headers.marks.add("", &literal(mark), in_header);
            text.push((literal(mark), in_text));
            between.push((literal(mark), after));
        }
        let stops = format.stops();
        let ends_turn = |end: &str| {
            stops.contains(&end) || format.controls.iter().any(|control| control.ends_turn && control.text == end)
        };
        let all = words.ends.iter().map(String::as_str).chain(stops.iter().copied());
        for end in all {
            let meaning = if ends_turn(end) { Meaning::End } else { Meaning::MessageEnd };
            headers.marks.add("", &literal(end), InHeader::End(meaning));
            text.push((literal(end), meaning));
            between.push((literal(end), meaning));
        }
        let mut closes = Marks::new();
        for (mark, _) in text.iter().filter(|(_, meaning)| *meaning != Meaning::Stray) {
            closes.add("", mark, ());
        }
        let mark = |meaning| Mark { meaning, pad: "".into() };
        for (literal, meaning) in text {
            reply.content.add("", &literal, mark(meaning));
            reply.reasoning.add("", &literal, mark(meaning));
            reply.reasoning_with_calls.add("", &literal, mark(meaning));
        }
        for (literal, meaning) in between {
            reply.after_call.add("", &literal, mark(meaning));
        }
        reply.opening = literal(&words.start);
        let program = |items| Program { items, ..Program::default() };
        reply.programs = Arc::new([
            program(vec![Item::NoArguments(closes.clone()), Item::Arguments(Syntax::Json)]),
            program(vec![Item::Body(closes)]),
        ]);
        headers
    }
}
