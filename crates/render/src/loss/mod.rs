//! The bytes of a prompt that carry loss in training.
//!
//! `by_format` and `by_template` find the replies in a prompt: the text that the model itself would
//! write, from the end of the generation prompt to the token that stops it. They use turns and
//! origins and never search the text of messages. `weigh` applies a policy to the replies, for
//! formats and templates alike.

pub(crate) mod by_format;
mod by_template;
pub(crate) mod openings;
mod policy;
mod speech;
mod weigh;

use std::ops::Range;

use rolecall_conversation::Conversation;
use rolecall_format::LossRule;

use crate::{Error, Prompt, Writer};

pub use policy::{FinalStop, LossPolicy, LossTurns, PartWeights, ReplyPart, RoleLoss};

/// The text of a prompt that carries loss.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loss {
    /// The spans in order. They do not overlap and are not empty. Adjacent spans differ in weight.
    pub spans: Vec<LossSpan>,
    /// The text that the model writes, in order, whether or not the policy selects it.
    pub replies: Vec<ModelText>,
    /// What a trainer should know about the prompt.
    pub notes: Vec<LossNote>,
}

/// A byte range with a weight.
#[derive(Clone, Debug, PartialEq)]
pub struct LossSpan {
    /// The byte range.
    pub range: Range<usize>,
    /// The weight, which is greater than 0.
    pub weight: f32,
}

/// Text that the model writes without interruption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelText {
    /// The index of the message, from 0.
    pub message: Option<usize>,
    /// The bytes from the end of the generation prompt to the end of the stop token.
    pub range: Range<usize>,
    /// The bytes of the token that stops the model, at the end of `range`.
    pub stop: Option<Range<usize>>,
}

/// Something that a trainer should know about the loss of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossNote {
    /// The template writes no token that stops the model after a reply. The model does not learn to
    /// stop there.
    NoStop {
        /// The index of the message.
        message: usize,
        /// Whether it is the last reply.
        is_last: bool,
    },
    /// Text of which it could not be determined whether the model writes it: text of a message
    /// outside its own turn, or a turn that opens in another way than the generation prompt. It
    /// carries no loss.
    Undetermined {
        /// The index of the message.
        message: usize,
        /// The byte range.
        range: Range<usize>,
    },
    /// The generation prompt after this kind of message could not be determined. The reply carries
    /// no loss.
    NoOpening {
        /// The index of the message that carries no loss.
        message: usize,
    },
    /// Text that only one of the template's `{% generation %}` blocks and the derived loss covers.
    TagDiffers {
        /// The byte range.
        range: Range<usize>,
        /// Whether the template's block covers it. Otherwise the derived loss does.
        is_tagged: bool,
    },
}

impl Loss {
    /// Returns the ranges that carry loss, whatever their weights.
    pub fn ranges(&self) -> Vec<Range<usize>> {
        let mut ranges: Vec<Range<usize>> = Vec::with_capacity(self.spans.len());
        for span in &self.spans {
            match ranges.last_mut() {
                Some(last) if last.end == span.range.start => last.end = span.range.end,
                _ => ranges.push(span.range.clone()),
            }
        }
        ranges
    }

    /// Reports whether all weights are 1.
    pub fn is_uniform(&self) -> bool {
        self.spans.iter().all(|span| span.weight == 1.0)
    }
}

impl Writer {
    /// Determines which text of a prompt carries loss. The writer and the conversation must be those of the prompt.
    ///
    /// In an assistant's turn, these are the bytes that the model writes: everything after the
    /// generation prompt up to and including the token that ends the turn. Some families write that
    /// token only as the first token of the next turn. A message with `"weight": 0`, `"loss": false` or
    /// `"train": false` carries no loss under any policy. If no bytes carry loss, this is an error,
    /// because a trainer would otherwise silently learn nothing.
    ///
    /// `stops` are the texts of the tokens that may stop the model. A format needs none, because its layouts say which
    /// end a turn. To find where a template's reply begins, the beginning of the conversation is rendered once for each
    /// kind of message that a reply follows.
    ///
    /// ```
    /// use rolecall_conversation::{Conversation, Message};
    /// use rolecall_render::{ChatTemplate, LossPolicy, TemplateOptions, Writer};
    ///
    /// let source = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>\n{% endfor %}\
    ///               {% if add_generation_prompt %}<|assistant|>{% endif %}";
    /// let writer = Writer::template(ChatTemplate::compile(source, Vec::new())?, TemplateOptions::default());
    /// let conversation = Conversation::new(vec![Message::user("2+2?"), Message::assistant("4")]);
    /// let prompt = writer.render(&conversation)?;
    /// let loss = writer.loss(&prompt, &conversation, &["<|end|>".to_owned()], &LossPolicy::assistant())?;
    /// assert_eq!(loss.ranges().into_iter().map(|range| &prompt.text()[range]).collect::<Vec<_>>(), ["4<|end|>"]);
    /// # Ok::<(), rolecall_render::Error>(())
    /// ```
    pub fn loss(
        &self,
        prompt: &Prompt,
        conversation: &Conversation,
        stops: &[String],
        policy: &LossPolicy,
    ) -> Result<Loss, Error> {
        let has_tags = self.as_template().is_some_and(|template| template.has_generation_blocks());
        if policy.tagged && !has_tags {
            return Err(Error::NoTags);
        }
        let ((replies, notes), final_stop) = match self {
            Writer::Format(format, _) => {
                // A dialect's own rule says what is learned, even if its turns end without a stop token.
                let final_stop = match format.rules.loss {
                    LossRule::Reply => policy.final_stop,
                    LossRule::Turn | LossRule::Shifted => FinalStop::Ignore,
                };
                (by_format::replies(prompt, format), final_stop)
            }
            Writer::Template(template, options) => {
                (by_template::replies(prompt, conversation, template, options, stops), policy.final_stop)
            }
        };
        weigh::weigh(prompt, conversation, replies, notes, policy, final_stop)
    }
}
