use std::sync::Arc;

use crate::ids;
use crate::marks::{Here, Input};
use crate::reply::Reply;
use crate::{CallsInReasoning, Event, ParseOptions, Reading, Stop};

/// What all states need.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub reply: Arc<Reply>,
    pub options: ParseOptions,
    /// How many calls began.
    pub calls: usize,
    /// How many of them what stands around calls was closed behind.
    pub closed: usize,
    /// Whether what is read is the prompt's own end: its text is nobody's news.
    pub is_silent: bool,
    /// What began in the prompt's end and is to be said when the output begins.
    pub opened: Reading,
    /// Whether the answer said something yet.
    pub has_spoken: bool,
    /// Why the output is over, once it is.
    pub stop: Option<Stop>,
    /// The character before, to know what stands in quotes.
    pub last: Option<char>,
    /// Where text in JSON's words is put together.
    pub scratch: String,
}

/// White space behind a call's end that is looked through at most.
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
            is_silent: true,
            opened: Reading::default(),
            has_spoken: false,
            stop: None,
            last: None,
            scratch: String::new(),
        }
    }

    /// What a call inside reasoning is.
    pub fn calls_in_reasoning(&self) -> CallsInReasoning {
        self.options.calls_in_reasoning.unwrap_or(self.reply.calls_in_reasoning)
    }

    /// Says text as content or as reasoning.
    pub fn say(&mut self, is_reasoning: bool, text: &str, on: &mut dyn FnMut(Event<'_>)) {
        self.has_spoken = true;
        if !text.is_empty() && !self.is_silent {
            on(match is_reasoning {
                true => Event::Reasoning(text),
                false => Event::Content(text),
            });
        }
    }

    /// Whether what stands at a byte ends a call: another one, the end of them all, or of the turn; none, if that is not known yet.
    pub fn ends_call(&self, input: Input<'_>, at: usize, is_last: bool) -> Option<bool> {
        let rest = &input.text[at..];
        let start = at + rest.len() - rest.trim_start().len();
        match self.reply.after_call.at(input, start, is_last) {
            // So much white space is not looked through again for each piece of it that comes.
            _ if start - at > BEHIND => Some(true),
            _ if start == input.text.len() => is_last.then_some(true),
            Here::Mark(..) => Some(true),
            Here::Open => None,
            Here::Nothing => Some(false),
        }
    }

    /// The most bytes that are kept for one open value.
    pub fn cap(&self) -> usize {
        self.options.cap.unwrap_or(CAP)
    }

    /// The id of the next call, where the model writes none.
    pub fn make_id(&self, name: &str) -> String {
        ids::make(&self.reply.call_ids, self.options.ids, name, self.calls)
    }
}
