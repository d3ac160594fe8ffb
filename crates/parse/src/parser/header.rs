//! Reads the header of a message: its author, recipient, channel and content type, in any order.

use std::ops::Range;
use std::sync::Arc;

use rolecall_format::Header;

use super::{Flow, OutputParser, State, TextPart};
use crate::call::OpenCall;
use crate::cursor::Cursor;
use crate::marks::MarkSearch;
use crate::reply::{Attribute, Headers, InHeader, Mark, Reply};
use crate::{Event, Malformed, Why};

/// The maximum length of a header, in bytes.
const LONGEST: usize = 4096;

/// A header, as far as it has been read.
#[derive(Clone, Debug, Default)]
pub(super) struct HeaderText {
    /// Its text, without that of the prompt. It becomes content if the header is unreadable.
    raw: String,
    /// Byte offset in the output.
    start: u64,
    /// The words so far, by the marker before them.
    words: Vec<(Attribute, String)>,
    /// Whether the author is required, because the marker before it was read.
    is_started: bool,
    /// Whether the prompt names the author.
    has_author: bool,
    /// Whether a brace was read. No word contains one.
    has_brace: bool,
    /// Whether the header interrupts reasoning.
    in_reasoning: bool,
}

/// The attributes of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Attributes<'h> {
    author: Option<&'h str>,
    recipient: Option<&'h str>,
    channel: Option<&'h str>,
    content_type: Option<&'h str>,
    /// Whether a channel is named without the marker before it.
    is_loose: bool,
}

impl HeaderText {
    /// Creates a header that begins with a marker at `start`.
    pub fn new(start: u64, mark: &str, first: InHeader, in_reasoning: bool) -> HeaderText {
        let is_started = first == InHeader::Start;
        let attribute = match first {
            InHeader::Attribute(attribute) => attribute,
            _ => Attribute::Author,
        };
        let words = vec![(attribute, String::new())];
        HeaderText { raw: mark.to_owned(), start, words, is_started, in_reasoning, ..HeaderText::default() }
    }

    /// Creates a header whose first word was read without a marker.
    fn of_word(start: u64, word: &str) -> HeaderText {
        let words = vec![(Attribute::Author, word.to_owned())];
        HeaderText { raw: word.to_owned(), start, words, ..HeaderText::default() }
    }

    /// Records that the text so far belongs to the prompt.
    pub fn hide(&mut self, words: &Header) {
        self.raw.clear();
        self.start = 0;
        // The author is a whole word, even if the output continues without white space.
        if let [(Attribute::Author, author)] = self.words.as_mut_slice()
            && author.trim() == words.author
        {
            author.clear();
            self.has_author = true;
        }
    }

    fn add(&mut self, text: &str, shown: &str) {
        self.raw.push_str(shown);
        match self.words.last_mut() {
            Some((_, words)) => words.push_str(text),
            None => self.words.push((Attribute::Author, text.to_owned())),
        }
    }

    /// Returns how many more bytes the header may have.
    fn room(&self, cap: usize) -> usize {
        cap.min(LONGEST).saturating_sub(self.raw.len())
    }

    /// Reports whether every remaining step needs input.
    pub fn is_settled(&self) -> bool {
        self.has_brace
    }

    fn is_blank(&self) -> bool {
        self.raw.trim().is_empty()
    }

    /// Returns the attributes, or the reason why they are ambiguous or incomplete.
    fn read<'h>(&'h self, layout: &'h Header) -> Result<Attributes<'h>, Why> {
        let mut found = Attributes::default();
        for (attribute, text) in &self.words {
            let mut is_first = true;
            for word in text.split_whitespace() {
                if word.contains('{') {
                    return Err(expected(&layout.body));
                }
                let to = word.strip_prefix(layout.recipient.as_str()).filter(|_| !layout.recipient.is_empty());
                let (place, word) = match (attribute, to) {
                    (_, Some(to)) => (&mut found.recipient, to),
                    (Attribute::Author, None) if word == layout.author && found.recipient.is_none() => {
                        (&mut found.author, word)
                    }
                    (Attribute::Author, None) if found.recipient.is_none() => {
                        let rest = word.strip_prefix(layout.author.as_str()).filter(|_| found.author.is_none());
                        let channel = rest.unwrap_or(word);
                        if layout.channel_of(channel) != Some(channel) {
                            return Err(Why::Expected(format!("the author `{}`", layout.author)));
                        }
                        found.is_loose = true;
                        found.author = found.author.or(rest.and(Some(&layout.author)));
                        (&mut found.channel, channel)
                    }
                    (Attribute::Channel, None) if is_first => (&mut found.channel, word),
                    _ => (&mut found.content_type, word),
                };
                is_first &= to.is_some();
                if word.is_empty() || place.is_some_and(|known| known != word) {
                    return Err(one_of_each());
                }
                *place = Some(word);
            }
        }
        let is_authored = !self.is_started || self.has_author || found.author.is_some() || found.is_loose;
        match is_authored {
            true => Ok(found),
            false => Err(Why::Expected(format!("the author `{}`", layout.author))),
        }
    }

    /// Returns the channel and the text that follows it without the marker before a message's text.
    fn glued<'h>(&'h self, layout: &'h Header) -> Option<(&'h str, &'h str)> {
        let ((attribute, text), before) = self.words.split_last()?;
        let channel = layout.channel_of(text.trim_start()).filter(|_| *attribute == Attribute::Channel)?;
        let rest = text.trim_start()[channel.len()..].trim_start();
        let others = HeaderText { words: before.to_vec(), ..self.clone() };
        let is_plain = others.read(layout).is_ok_and(|found| found.recipient.is_none() && found.channel.is_none());
        (is_plain && !rest.is_empty() && !self.has_brace).then_some((channel, rest))
    }

    /// Reports whether the text so far, without any marker, is no header.
    fn is_text(&self, layout: &Header) -> bool {
        let is_bare = matches!(self.words.as_slice(), [(Attribute::Author, _)]);
        is_bare && !self.is_started && !self.is_blank() && self.read(layout).is_err()
    }

    /// Reports whether a marker or a word occurs twice, although the header is readable.
    fn repeats(&self) -> bool {
        let count = |wanted| self.words.iter().filter(|(attribute, _)| *attribute == wanted).count();
        count(Attribute::Channel) > 1 || count(Attribute::ContentType) > 1
    }

    /// Reports whether all text so far names attributes, in which case the end of the output only
    /// cuts the header off. A content type may be any word, so it does not count.
    fn is_cut_off(&self, layout: &Header) -> bool {
        let is_named = self.words.len() > 1 || self.words.iter().any(|(attribute, _)| *attribute != Attribute::Author);
        let is_author = |text: &str| text.trim().is_empty() || layout.author.starts_with(text.trim());
        match self.read(layout) {
            Ok(found) => found.content_type.is_none() && (is_named || found.author.is_some() || self.is_blank()),
            Err(_) => self.is_started && matches!(self.words.as_slice(), [(_, text)] if is_author(text)),
        }
    }
}

impl<'h> Attributes<'h> {
    /// Returns the recipient, unless it is a person or the model itself.
    fn callee(&self, layout: &Header) -> Option<&'h str> {
        self.recipient.filter(|recipient| !layout.people.iter().any(|person| person == recipient))
    }
}

impl OutputParser {
    /// Returns the state at the start of a reply, or after its last message.
    pub(super) fn start(reply: &Reply) -> State {
        match reply.headers {
            Some(_) => State::Header(HeaderText::default()),
            None => State::Head { is_fresh: true },
        }
    }

    /// Continues to read a header.
    pub(super) fn header(&mut self, cursor: &mut Cursor<'_, '_>) -> Flow {
        let reply = Arc::clone(&self.shared.reply);
        let (Some(headers), State::Header(header)) = (&reply.headers, &mut self.state) else { return Flow::Wait };
        let (from, view) = (cursor.at, cursor.view());
        let room = view.up_to(from + header.room(self.shared.cap()));
        let (end, found) = match headers.marks.find(room.input(), from, room.is_last) {
            MarkSearch::Mark(start, end, action) => (start, Some((end, *headers.marks.action(action)))),
            MarkSearch::Open(start) => (start, None),
            MarkSearch::Nothing => (room.text().len(), None),
        };
        let text = &room.text()[from..end];
        if let Some(at) = text.find('{').filter(|_| !header.has_brace) {
            // No word of a header contains a brace, so the text of a call begins here without its
            // marker.
            header.has_brace = true;
            header.add(&text[..at], cursor.take_up_to(from + at));
            if header.read(&headers.words).is_ok_and(|found| found.callee(&headers.words).is_some()) {
                let at = cursor.offset();
                self.report(at..at, expected(&headers.words.body), cursor.on);
                self.body(headers, cursor);
            }
            return Flow::Again;
        }
        header.add(text, cursor.take_up_to(end));
        match found {
            Some((after, mark)) => self.in_header(headers, mark, after, cursor),
            None if room.is_shorter_than(view) => self.give_up(Why::TooLong, cursor),
            None => return Flow::Wait,
        }
        Flow::Again
    }

    /// Applies a marker in a header. The cursor is at the marker, which ends at `after`.
    fn in_header(&mut self, headers: &Headers, mark: InHeader, after: usize, cursor: &mut Cursor<'_, '_>) {
        let State::Header(header) = &mut self.state else { return };
        let (start, span) = (cursor.offset(), cursor.at..after);
        let shown = cursor.take_up_to(after);
        // The model began with text, and the header begins here.
        let is_text = matches!(mark, InHeader::Attribute(_) | InHeader::Start) && header.is_text(&headers.words);
        if is_text {
            let (from, text) = (header.start, std::mem::take(&mut header.raw));
            self.report(from..start, expected(&headers.words.body), cursor.on);
            self.state = State::Text { part: TextPart::Content, blank: None };
            self.shared.say_reported(start, false, &text, cursor.on);
            self.state = State::Header(HeaderText::new(start, shown, mark, false));
            return;
        }
        match mark {
            InHeader::Attribute(attribute) => {
                header.raw.push_str(shown);
                header.words.push((attribute, String::new()));
            }
            InHeader::Body => {
                header.raw.push_str(shown);
                self.body(headers, cursor);
            }
            // The output may repeat the marker with which the prompt began the header.
            InHeader::Start if header.is_blank() => {
                self.state = State::Header(HeaderText::new(start, shown, InHeader::Start, header.in_reasoning));
            }
            InHeader::Start => {
                self.give_up(expected(&headers.words.body), cursor);
                self.state = State::Header(HeaderText::new(start, shown, InHeader::Start, false));
            }
            InHeader::End(meaning) => {
                self.give_up(expected(&headers.words.body), cursor);
                self.apply(&Mark { meaning, pad: "".into() }, span, cursor);
            }
        }
    }

    /// Begins a header at a marker other than the one that begins headers.
    pub(super) fn header_without_start(
        &mut self,
        attribute: Option<Attribute>,
        span: Range<usize>,
        cursor: &mut Cursor<'_, '_>,
    ) {
        let reply = Arc::clone(&self.shared.reply);
        let Some(headers) = &reply.headers else { return };
        let at = cursor.view().offset(span.start);
        self.report(at..at, expected(&headers.words.start), cursor.on);
        let first = attribute.map_or(InHeader::Body, InHeader::Attribute);
        self.state = State::Header(HeaderText::new(at, cursor.shown(span), first, self.is_reasoning()));
        if first == InHeader::Body {
            self.body(headers, cursor);
        }
    }

    /// Begins a header at its first word, where the marker before it is missing.
    pub(super) fn header_at_word(&mut self, headers: &Headers, cursor: &mut Cursor<'_, '_>) -> Option<Flow> {
        let rest = cursor.rest();
        let author = Some(headers.words.author.as_str()).filter(|author| rest.starts_with(author));
        let Some(word) = author.or_else(|| headers.words.channel_of(rest)).map(str::len) else {
            return headers.words.may_become_word(rest).then_some(Flow::Wait).filter(|_| !cursor.is_last());
        };
        let start = cursor.offset();
        self.report(start..start, expected(&headers.words.start), cursor.on);
        let word = cursor.take_up_to(cursor.at + word);
        self.state = State::Header(HeaderText::of_word(start, word));
        Some(Flow::Again)
    }

    /// Begins a header at its usual marker.
    pub(super) fn header_at(&self, span: Range<usize>, cursor: &Cursor<'_, '_>) -> State {
        let start = cursor.view().offset(span.start);
        State::Header(HeaderText::new(start, cursor.shown(span), InHeader::Start, self.is_reasoning()))
    }

    fn is_reasoning(&self) -> bool {
        matches!(self.state, State::Text { part: TextPart::Reasoning, .. })
    }

    /// Begins the text of a message, whose header ends here.
    fn body(&mut self, headers: &Headers, cursor: &mut Cursor<'_, '_>) {
        let State::Header(header) = std::mem::replace(&mut self.state, State::Ended) else { return };
        let words = &headers.words;
        let found = match header.read(words) {
            Ok(found) => found,
            Err(why) => return self.give_up_on(&header, why, cursor),
        };
        if found.is_loose {
            self.report(header.start..cursor.offset(), expected(&words.channel), cursor.on);
        }
        // Something is glued to the name of a channel.
        if let Some(channel) = found.channel
            && let Some(known) = words.channel_of(channel).filter(|known| *known != channel)
        {
            self.report(header.start..cursor.offset(), Why::Expected(format!("the channel `{known}`")), cursor.on);
        }
        if header.repeats() {
            self.report(header.start..cursor.offset(), one_of_each(), cursor.on);
        }
        let is_known = |word: &str| words.content_types.is_empty() || words.content_types.iter().any(|own| own == word);
        if found.content_type.is_some_and(|word| !is_known(word)) {
            self.report(header.start..cursor.offset(), expected_one_of(&words.content_types), cursor.on);
        }
        let Some(callee) = found.callee(words) else {
            let part = part_of(found.channel, words);
            self.shared.reasoning_at = Some(header.start);
            self.state = State::Text { part, blank: None };
            return;
        };
        let shared = &self.shared;
        if shared.has_all_calls() {
            self.state = State::Text { part: TextPart::Content, blank: None };
            return self.say(&header.raw, cursor.offset(), false, cursor.on);
        }
        let is_code = words.code.iter().any(|code| code == callee);
        let program = if is_code { headers.code } else { headers.function };
        let name = callee.strip_prefix(words.functions.as_str()).unwrap_or(callee);
        let running = OpenCall::new(program, header.start, &header.raw, false).named(name);
        self.state = State::Call(Box::new(running));
    }

    /// Gives up on the header. Its text belongs to the message before it, or to the answer.
    fn give_up(&mut self, why: Why, cursor: &mut Cursor<'_, '_>) {
        if let State::Header(header) = std::mem::replace(&mut self.state, State::Ended) {
            self.give_up_on(&header, why, cursor);
        }
    }

    fn give_up_on(&mut self, header: &HeaderText, why: Why, cursor: &mut Cursor<'_, '_>) {
        self.report(header.start..cursor.offset(), why, cursor.on);
        if let Some(headers) = &Arc::clone(&self.shared.reply).headers
            && let Some((channel, text)) = header.glued(&headers.words)
        {
            let part = part_of(Some(channel), &headers.words);
            self.state = State::Text { part, blank: None };
            self.shared.reasoning_at = Some(header.start);
            let end = header.start + header.raw.len() as u64;
            return self.shared.say_up_to(end, part == TextPart::Reasoning, text, cursor.on);
        }
        let part = if header.in_reasoning { TextPart::Reasoning } else { TextPart::Content };
        self.state = State::Text { part, blank: None };
        // The marker that ends the header was read, but it is not part of the text.
        let end = header.start + header.raw.len() as u64;
        self.say(&header.raw, end, true, cursor.on);
    }

    /// Ends the output inside a header.
    pub(super) fn end_header(&mut self, header: &HeaderText, end: u64, on: &mut dyn FnMut(Event<'_>)) {
        let reply = Arc::clone(&self.shared.reply);
        let Some(headers) = &reply.headers else { return };
        self.report(header.start..end, expected(&headers.words.body), on);
        if let Some((channel, text)) = header.glued(&headers.words) {
            let is_reasoning = part_of(Some(channel), &headers.words) == TextPart::Reasoning;
            return self.shared.say_up_to(end, is_reasoning, text, on);
        }
        if !header.is_cut_off(&headers.words) {
            let end = header.start + header.raw.len() as u64;
            self.shared.say(end, header.in_reasoning, &header.raw, on);
        }
    }

    /// Reports a marker that has no meaning here. It is part of the text.
    pub(super) fn stray(&mut self, span: Range<usize>, cursor: &mut Cursor<'_, '_>) {
        let view = cursor.view();
        let why = Why::Expected("the end of the message".into());
        self.report(view.offset(span.start)..view.offset(span.end), why, cursor.on);
        self.say(cursor.shown(span.clone()), view.offset(span.end), true, cursor.on);
    }

    fn report(&self, span: Range<u64>, why: Why, on: &mut dyn FnMut(Event<'_>)) {
        if !self.shared.is_silent {
            on(Event::Malformed(Malformed { span, why }));
        }
    }
}

/// Returns the part of a reply that a message of a channel is.
fn part_of(channel: Option<&str>, layout: &Header) -> TextPart {
    match channel.is_some_and(|channel| layout.reasoning.iter().any(|known| known == channel)) {
        true => TextPart::Reasoning,
        false => TextPart::Content,
    }
}

fn expected(mark: &str) -> Why {
    Why::Expected(format!("`{mark}`"))
}

fn expected_one_of(types: &[String]) -> Why {
    Why::Expected(format!("one of the content types `{}`", types.join("`, `")))
}

fn one_of_each() -> Why {
    Why::Expected("one recipient, channel and content type".into())
}
