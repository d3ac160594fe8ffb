use crate::{Event, OutputParser, Stop, Within};

/// Splits the text of a reply into its reasoning and the text after it, while it streams.
///
/// This is for engines that parse reasoning first and pass the rest, as the model wrote it, to another
/// parser. [`OutputParser::after_reasoning`] parses that rest.
///
/// ```
/// use std::sync::Arc;
/// use rolecall_format::builtin;
/// use rolecall_parse::{OutputParser, ParseOptions, ReasoningSplit, Reply};
/// let registry = builtin();
/// let reply = Arc::new(Reply::new(registry.get("qwen2.5").expect("built in")));
/// let mut split = ReasoningSplit::new(OutputParser::new(&reply, ParseOptions::default()));
/// // This family has no reasoning.
/// assert!(split.is_over());
/// assert_eq!(split.push("Hi<|im_end|>", &mut |_| unreachable!()).rest, "Hi<|im_end|>");
/// ```
#[derive(Clone, Debug)]
pub struct ReasoningSplit {
    parser: OutputParser,
    stage: SplitStage,
    /// The text that may not be reasoning: that of a marker that has begun.
    held: String,
    /// White space that may follow the marker and belongs to it.
    pad: String,
    /// The number of bytes of the answer that the parser has emitted.
    said: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SplitStage {
    /// Reasoning may begin.
    Before,
    Reasoning,
    /// After the marker, in white space that belongs to it.
    Closed,
    Over,
}

/// The parts of a chunk, and of the text that was held back before it, as the model wrote them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SplitText {
    /// The reasoning with its markers.
    pub raw: String,
    /// The text after the reasoning, without the white space that belongs to the marker.
    pub rest: String,
}

impl ReasoningSplit {
    /// Returns a splitter for the reply that a parser would parse.
    pub fn new(parser: OutputParser) -> ReasoningSplit {
        let stage = match parser.within() {
            Within::Reasoning => SplitStage::Reasoning,
            _ if parser.may_reason() => SplitStage::Before,
            _ => SplitStage::Over,
        };
        ReasoningSplit { parser, stage, held: String::new(), pad: String::new(), said: 0 }
    }

    /// Reports whether the reasoning is over, or the reply has none.
    pub fn is_over(&self) -> bool {
        self.stage == SplitStage::Over
    }

    /// Takes the next chunk, and passes the text of the reasoning to `on`.
    pub fn push(&mut self, chunk: &str, on: &mut impl FnMut(&str)) -> SplitText {
        let mut parts = SplitText::default();
        for (at, character) in chunk.char_indices() {
            let text = &chunk[at..at + character.len_utf8()];
            if self.stage == SplitStage::Closed {
                if self.pad.starts_with(character) {
                    self.pad.drain(..text.len());
                    parts.raw.push_str(text);
                    self.stage = if self.pad.is_empty() { SplitStage::Over } else { SplitStage::Closed };
                    continue;
                }
                self.stage = SplitStage::Over;
            }
            if self.is_over() {
                parts.rest.push_str(&chunk[at..]);
                break;
            }
            self.held.push_str(text);
            let (mut is_answer, mut said) = (false, self.said);
            self.parser.push_text(text, &mut |event| match event {
                Event::Reasoning(text) => on(text),
                Event::Malformed(_) | Event::Place(_) => {}
                other => {
                    is_answer = true;
                    said += content_length(&other);
                }
            });
            self.said = said;
            self.advance(is_answer, &mut parts);
        }
        parts
    }

    /// Ends the reply, and passes the rest of the reasoning to `on`.
    pub fn finish(&mut self, stop: Stop, on: &mut impl FnMut(&str)) -> SplitText {
        let mut parts = SplitText::default();
        if let SplitStage::Closed | SplitStage::Over = std::mem::replace(&mut self.stage, SplitStage::Over) {
            return parts;
        }
        let (mut is_answer, mut said) = (false, self.said);
        self.parser.finish(stop, &mut |event| match event {
            Event::Reasoning(text) => on(text),
            Event::Malformed(_) | Event::Place(_) | Event::Stop(_) => {}
            other => {
                is_answer = true;
                said += content_length(&other);
            }
        });
        self.said = said;
        if !self.close(&mut parts) {
            match is_answer {
                true => self.answer(&mut parts),
                false => parts.raw = std::mem::take(&mut self.held),
            }
        }
        self.stage = SplitStage::Over;
        parts
    }

    /// Moves to the stage that the parser has reached.
    fn advance(&mut self, is_answer: bool, parts: &mut SplitText) {
        if self.close(parts) {
            return;
        }
        match self.stage {
            _ if self.parser.within() == Within::Reasoning && !is_answer => {
                self.stage = SplitStage::Reasoning;
                let settled = self.held.len().saturating_sub(self.parser.pending_text().len());
                parts.raw.extend(self.held.drain(..settled));
            }
            SplitStage::Before if !is_answer && self.parser.may_reason() => {}
            _ => {
                self.stage = SplitStage::Over;
                self.answer(parts);
            }
        }
    }

    /// Gives the held text back, which is no reasoning, without white space that belongs to the turn's
    /// opening.
    fn answer(&mut self, parts: &mut SplitText) {
        let held = std::mem::take(&mut self.held);
        let kept = self.said + self.parser.blank_length() + self.parser.pending_text().len();
        let opening = held.len().checked_sub(kept).and_then(|length| held.get(..length));
        let opening = opening.filter(|opening| opening.trim().is_empty()).unwrap_or_default();
        parts.raw.push_str(opening);
        parts.rest.push_str(&held[opening.len()..]);
    }

    /// Ends the reasoning if its closing marker was read, and returns whether it was.
    fn close(&mut self, parts: &mut SplitText) -> bool {
        let Some(closed) = self.parser.reasoning_end() else { return false };
        let after = usize::try_from(self.parser.length().saturating_sub(closed)).unwrap_or(usize::MAX);
        let mut end = self.held.len().saturating_sub(after);
        while !self.held.is_char_boundary(end) {
            end += 1;
        }
        let held = std::mem::take(&mut self.held);
        parts.raw.push_str(&held[..end]);
        let pad = self.parser.pad();
        let rest = &held[end..];
        let blank = common(rest, pad);
        let (skipped, rest) = rest.split_at(blank);
        parts.raw.push_str(skipped);
        parts.rest.push_str(rest);
        let missing = pad.get(blank..).unwrap_or_default();
        self.stage = SplitStage::Over;
        if rest.is_empty() && !missing.is_empty() {
            self.pad = missing.to_owned();
            self.stage = SplitStage::Closed;
        }
        true
    }
}

/// Returns the length of the white space that a text has in common with a pad.
fn common(text: &str, pad: &str) -> usize {
    let same = text.chars().zip(pad.chars()).take_while(|(one, other)| one == other && one.is_whitespace());
    same.map(|(one, _)| one.len_utf8()).sum()
}

fn content_length(event: &Event<'_>) -> usize {
    match event {
        Event::Content(text) => text.len(),
        _ => 0,
    }
}
