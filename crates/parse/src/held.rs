use std::ops::Range;

use crate::Event;

/// Reasoning that is held back until it is known whether the model closes it.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldReasoning {
    /// The texts, each with its place in the output. Adjacent texts are one.
    texts: Vec<(Range<u64>, String)>,
    length: usize,
    /// Whether the reasoning is longer than the cap and is no longer held back.
    is_over: bool,
}

impl HeldReasoning {
    /// Keeps a text. Returns whether it is held back: if there is more than the cap, it is not.
    pub fn keep(&mut self, place: Range<u64>, text: &str, cap: usize) -> bool {
        self.is_over |= self.length + text.len() > cap;
        if self.is_over {
            return false;
        }
        self.length += text.len();
        match self.texts.last_mut() {
            Some((known, held)) if known.end == place.start => {
                known.end = place.end;
                held.push_str(text);
            }
            _ => self.texts.push((place, text.to_owned())),
        }
        true
    }

    /// Emits the texts as reasoning or as content.
    pub fn emit(&mut self, is_reasoning: bool, has_places: bool, on: &mut dyn FnMut(Event<'_>)) {
        self.length = 0;
        for (place, text) in self.texts.drain(..) {
            if has_places {
                on(Event::Place(place));
            }
            on(if is_reasoning { Event::Reasoning(&text) } else { Event::Content(&text) });
        }
    }

    /// Ends the block of reasoning. The next one is held back again.
    pub fn end(&mut self) {
        self.is_over = false;
    }
}
