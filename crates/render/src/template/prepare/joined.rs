//! Texts that were joined of a content's parts, whose bytes keep the places of the parts.

use std::ops::Range;

use rolecall_conversation::{Message, Part};
use rolecall_jinja::Tag;

use super::Inputs;

/// A text of a message that several parts became, with a line break between them.
pub(super) struct JoinedText {
    /// The index of the text among the values.
    value: u32,
    message: usize,
    /// The bytes of each part, with its number.
    parts: Vec<(Range<usize>, usize)>,
}

/// A piece of a joined text: its bytes in the text, and the place of its part, or `None` for the line break.
pub(in crate::template) type PieceOfJoined = (Range<usize>, Option<(usize, String)>);

impl JoinedText {
    pub fn new(value: u32, index: usize, message: &Message) -> JoinedText {
        let (mut parts, mut start) = (Vec::new(), 0);
        for (number, part) in message.parts().enumerate() {
            if let Part::Text(text) = part {
                parts.push((start..start + text.len(), number));
                start += text.len() + 1;
            }
        }
        JoinedText { value, message: index, parts }
    }

    fn pieces(&self, bytes: Range<usize>) -> Vec<PieceOfJoined> {
        let (mut pieces, mut at) = (Vec::new(), bytes.start);
        for (part, number) in &self.parts {
            let range = part.start.max(at)..part.end.min(bytes.end);
            if range.is_empty() {
                continue;
            }
            if at < range.start {
                pieces.push((at..range.start, None));
            }
            at = range.end;
            pieces.push((range, Some((self.message, format!("content[{number}].text")))));
        }
        if at < bytes.end {
            pieces.push((at..bytes.end, None));
        }
        pieces
    }
}

impl Inputs<'_> {
    /// Notes that a message's content is a text of several parts.
    pub(super) fn add_joined(&mut self, index: usize) {
        let Some(number) = self.said_by.number(index) else { return };
        let content = self.values.get(number).and_then(|message| self.entry_of(message, "content"));
        let value = self.text_of_part(number).or(content.map(|content| content.handle.0));
        if let (Some(value), Some(message)) = (value, self.said_by.message(index)) {
            let joined = JoinedText::new(value, index, message);
            self.joined.push(joined);
        }
    }

    /// Reports whether any text was joined of parts.
    #[inline]
    pub fn has_joined(&self) -> bool {
        !self.joined.is_empty()
    }

    /// Divides bytes of an input into those of the parts that it was joined of, if it was.
    #[cold]
    pub fn divide(&self, tag: Tag, bytes: Range<usize>) -> Option<Vec<PieceOfJoined>> {
        let joined = self.joined.iter().find(|joined| u64::from(joined.value) == tag.0)?;
        Some(joined.pieces(bytes))
    }
}
