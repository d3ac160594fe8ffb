use std::ops::Range;
use std::sync::Arc;

use rolecall_format::Format;
use rolecall_render::{LossPolicy, Options, Prompt, Writer};

use super::{Refusal, Telling};

/// What one format writes for a conversation.
#[derive(Clone, Debug)]
pub struct DiffSide {
    /// The prompt to be answered.
    pub chat: Result<Prompt, Refusal>,
    /// The training text, as the framework's training code writes it, or `None` if the conversation
    /// has no answer.
    pub lesson: Option<Result<Lesson, Refusal>>,
    /// The prompt for the last answer of the training text.
    pub question: Option<Result<Prompt, Refusal>>,
    /// The texts at which the engine stops.
    pub stops: Vec<String>,
    /// The tokens that open a text, as the files of a model with a chat template name them.
    pub opens: Vec<String>,
}

/// A training text.
#[derive(Clone, Debug)]
pub struct Lesson {
    /// The text.
    pub prompt: Prompt,
    /// The byte ranges that carry loss.
    pub loss: Vec<Range<usize>>,
}

impl DiffSide {
    pub(super) fn new(telling: &Telling, format: &Arc<Format>, options: &Options) -> DiffSide {
        let writer = Writer::format(Arc::clone(format), options.clone());
        let lesson = telling.lesson().map(|conversation| {
            let writer = Writer::format(Arc::clone(format.for_training()), options.clone());
            let prompt = writer.render(&conversation)?;
            let loss = writer.loss(&prompt, &conversation, &[], &LossPolicy::assistant())?.ranges();
            Ok(Lesson { prompt, loss })
        });
        DiffSide {
            chat: writer.render(&telling.conversation),
            lesson,
            question: telling.question().map(|conversation| writer.render(&conversation)),
            stops: stops(format),
            opens: Vec::new(),
        }
    }
}

/// Returns the stop texts of a format. The closing token of the tokenizer always ends an answer.
pub(super) fn stops(format: &Format) -> Vec<String> {
    let mut stops = format.generation.stop.clone();
    let closing = format
        .controls
        .iter()
        .filter(|control| control.ends_turn || control.own == Some(crate::format::BoundaryToken::Eos));
    stops.extend(closing.flat_map(|control| control.texts().map(str::to_owned)));
    stops.retain(|stop| !stop.is_empty());
    stops.sort();
    stops.dedup();
    stops
}
