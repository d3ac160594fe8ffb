use std::sync::Arc;

use crate::ids;
use crate::marks::{Here, Input, Marks};
use crate::reply::{Mark, Reply};
use crate::{CallsInReasoning, Event, ParseOptions, Reading, Stop};

/// State that all parts of the parser share.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub reply: Arc<Reply>,
    pub options: ParseOptions,
    /// The number of calls that have begun.
    pub calls: usize,
    /// The number of calls when a group of calls was last closed.
    pub closed: usize,
    /// The byte at which a group of calls was closed, until text that follows is reported.
    pub closed_at: Option<u64>,
    /// The byte at which reasoning was opened inside the answer, until it is closed.
    pub reasoning_at: Option<u64>,
    /// Whether the input is the end of the prompt, whose text emits no events.
    pub is_silent: bool,
    /// The calls that the prompt began. They are emitted when the output begins.
    pub opened: Reading,
    /// Whether the answer has any text yet.
    pub has_spoken: bool,
    /// The reason the output ended, once it has.
    pub stop: Option<Stop>,
    /// The previous character, to detect a marker in backticks.
    pub last: Option<char>,
    /// A reusable buffer for arguments as JSON text.
    pub scratch: String,
}

/// The maximum number of bytes of white space to skip when looking for the end of a call.
const BEHIND: usize = 256;

/// The default of [`ParseOptions::cap`].
pub(crate) const CAP: usize = 1 << 20;

impl Shared {
    pub fn new(reply: &Arc<Reply>, options: ParseOptions) -> Shared {
        Shared {
            reply: Arc::clone(reply),
            options,
            calls: 0,
            closed: 0,
            closed_at: None,
            reasoning_at: None,
            is_silent: true,
            opened: Reading::default(),
            has_spoken: false,
            stop: None,
            last: None,
            scratch: String::new(),
        }
    }

    /// Returns how to treat calls inside reasoning.
    pub fn calls_in_reasoning(&self) -> CallsInReasoning {
        self.options.calls_in_reasoning.unwrap_or(self.reply.calls_in_reasoning)
    }

    /// Returns the markers to search for in content or in reasoning.
    pub fn marks(&self, is_reasoning: bool) -> &Marks<Mark> {
        self.reply.marks(is_reasoning, self.calls_in_reasoning())
    }

    /// Emits text as content or as reasoning.
    pub fn say(&mut self, is_reasoning: bool, text: &str, on: &mut dyn FnMut(Event<'_>)) {
        self.has_spoken = true;
        if !text.is_empty() && !self.is_silent {
            on(match is_reasoning {
                true => Event::Reasoning(text),
                false => Event::Content(text),
            });
        }
    }

    /// Reports whether the text at a byte ends a call: another call, or the end of the calls or of
    /// the turn. Returns `None` if that is not known yet.
    pub fn ends_call(&self, input: Input<'_>, at: usize, is_last: bool) -> Option<bool> {
        let rest = &input.text[at..];
        let start = at + rest.len() - rest.trim_start().len();
        match self.reply.after_call.at(input, start, is_last) {
            // Longer white space is not scanned again for each chunk.
            _ if start - at > BEHIND => Some(true),
            _ if start == input.text.len() => is_last.then_some(true),
            Here::Mark(..) => Some(true),
            Here::Open => None,
            // Another call may follow on its own line.
            Here::Nothing => Some(self.reply.next_call.is_some() && rest[..start - at].contains('\n')),
        }
    }

    /// Returns the maximum number of bytes to keep for one open value.
    pub fn cap(&self) -> usize {
        self.options.cap.unwrap_or(CAP)
    }

    /// Generates the id of the next call, for a model that writes none.
    pub fn make_id(&self, name: &str) -> String {
        ids::make(&self.reply.call_ids, self.options.ids, name, self.calls)
    }
}
