use std::ops::Range;

use rolecall_format::Format;
use rolecall_render::{LossPolicy, Options, Prompt, loss_spans, render};

use super::{Refusal, Telling};

/// What one format makes of a conversation.
#[derive(Clone, Debug)]
pub struct Written {
    /// The prompt to be answered.
    pub chat: Result<Prompt, Refusal>,
    /// The text to be learned from, as the framework's training code writes it; none where nothing can be learned.
    pub lesson: Option<Result<Lesson, Refusal>>,
    /// The prompt for the last answer of that text.
    pub question: Option<Result<Prompt, Refusal>>,
    /// The texts that end an answer: where the engine stops.
    pub stops: Vec<String>,
}

/// A text to be learned from.
#[derive(Clone, Debug)]
pub struct Lesson {
    /// The text.
    pub prompt: Prompt,
    /// Its bytes that carry loss.
    pub loss: Vec<Range<usize>>,
}

impl Written {
    pub(super) fn new(telling: &Telling, format: &Format, options: &Options) -> Written {
        let lesson = telling.lesson().map(|conversation| {
            let format = format.for_training();
            let prompt = render(&conversation, format, options)?;
            let loss = loss_spans(&prompt, &conversation, format, LossPolicy::Assistant)?;
            Ok(Lesson { prompt, loss })
        });
        Written {
            chat: render(&telling.conversation, format, options),
            lesson,
            question: telling.question().map(|conversation| render(&conversation, format, options)),
            stops: stops(format),
        }
    }
}

/// What the format says to stop at; a tokenizer's own closing token always ends an answer.
pub(super) fn stops(format: &Format) -> Vec<String> {
    let mut stops = format.generation.stop.clone();
    let closing =
        format.controls.iter().filter(|control| control.ends_turn || control.own == Some(crate::format::Own::Eos));
    stops.extend(closing.flat_map(|control| control.texts().map(str::to_owned)));
    stops.retain(|stop| !stop.is_empty());
    stops.sort();
    stops.dedup();
    stops
}
