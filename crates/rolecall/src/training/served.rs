//! Samples of a conversation as a server sees it. A template may rewrite earlier turns when it
//! renders a later one, for example without their reasoning. Such a conversation becomes several
//! samples, so that every reply is trained in the context in which the model writes it.

use std::sync::Arc;

use rolecall_conversation::Role;
use rolecall_openai::Request;
use rolecall_render::{Loss, LossNote, Prompt};
use rolecall_text::common_prefix;

use crate::Error;
use crate::loss::note_message;
use crate::model::ModelPrompt;

/// How a conversation is divided into samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Samples {
    /// One sample, rendered as a whole.
    #[default]
    Whole,
    /// One sample per reply.
    Turns,
    /// One sample as long as the template keeps what it wrote, and a new one after each change.
    AsServed,
}

impl Samples {
    /// The values by their words.
    pub const ALL: [(&'static str, Samples); 3] =
        [("whole", Samples::Whole), ("turns", Samples::Turns), ("auto", Samples::AsServed)];
}

/// One of the samples of a conversation.
#[derive(Clone, Debug)]
pub struct ServedSample {
    /// The conversation up to the last reply of the sample.
    pub prompt: ModelPrompt,
    /// The index of the first message that carries loss in this sample. Earlier messages carry loss
    /// in earlier samples.
    pub from: usize,
    /// Why the next sample does not continue this one.
    pub rewritten: Option<Rewritten>,
}

/// Which of several samples of a conversation one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleNumber {
    /// The index of the sample, from 0.
    pub index: usize,
    /// The number of samples.
    pub of: usize,
    /// The index of the first message that carries loss in this sample.
    pub from: usize,
    /// Why the next sample does not continue this one.
    pub rewritten: Option<Rewritten>,
}

/// A change to text that was already rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rewritten {
    /// The index of the message whose turn changes first, if it belongs to one.
    pub message: Option<usize>,
    /// The index of the last message of the conversation that changes it.
    pub by: usize,
    /// The number of bytes that stay the same.
    pub kept: usize,
}

/// Divides a conversation into samples. `render` renders the beginnings of the conversation: once
/// for each reply.
///
/// Each message from `from` on carries loss in exactly one sample; [`restrict`] removes it from the
/// others. A conversation that is never rewritten gives one sample, unless each reply is to have
/// its own.
pub fn as_served<E: From<Error>>(
    whole: ModelPrompt,
    samples: Samples,
    mut render: impl FnMut(Arc<Request>) -> Result<ModelPrompt, E>,
) -> Result<Vec<ServedSample>, E> {
    let request = whole.request().clone();
    let messages = &request.conversation.messages;
    let is_reply = |index: &usize| *messages[*index].role() == Role::Assistant;
    let mut ends: Vec<usize> = (0..messages.len()).filter(is_reply).collect();
    if samples == Samples::Whole || ends.is_empty() {
        return Ok(vec![ServedSample { prompt: whole, from: 0, rewritten: None }]);
    }
    if ends.last() != Some(&(messages.len() - 1)) {
        ends.push(messages.len() - 1);
    }
    let mut beginning = |end: usize| match end + 1 == messages.len() {
        true => Ok(whole.clone()),
        false => {
            let mut request = request.clone();
            request.conversation.messages.truncate(end + 1);
            render(Arc::new(request))
        }
    };
    let mut served = Vec::new();
    let (mut from, mut prompt) = (0, beginning(ends[0])?);
    for pair in ends.windows(2) {
        let next = beginning(pair[1])?;
        let kept = kept(&prompt, &next, pair[0])?;
        if kept.is_none() && samples == Samples::AsServed {
            prompt = next;
            continue;
        }
        add_stop(&mut prompt, &next, pair[0])?;
        let rewritten = kept.map(|kept| Rewritten { message: message_at(prompt.prompt(), kept), by: pair[1], kept });
        served.push(ServedSample { prompt: std::mem::replace(&mut prompt, next), from, rewritten });
        from = pair[0] + 1;
    }
    served.push(ServedSample { prompt, from, rewritten: None });
    Ok(served)
}

/// Returns `None` if the later prompt begins with the earlier one up to the end of a reply, or else
/// how many bytes they share.
fn kept(earlier: &ModelPrompt, later: &ModelPrompt, reply: usize) -> Result<Option<usize>, Error> {
    let (text, other) = (earlier.text(), later.text());
    if other.starts_with(text) {
        return Ok(None);
    }
    // Text after the reply may differ: the model does not write it.
    let end = earlier.replies()?.into_iter().rfind(|written| written.message == Some(reply));
    let end = end.map_or(text.len(), |written| written.range.end);
    match other.as_bytes().starts_with(&text.as_bytes()[..end]) {
        true => Ok(None),
        false => Ok(Some(common_prefix(text, other))),
    }
}

/// Appends the stop token of a reply that the template writes only before the next turn.
fn add_stop(earlier: &mut ModelPrompt, later: &ModelPrompt, reply: usize) -> Result<(), Error> {
    let of = |prompt: &ModelPrompt| -> Result<_, Error> {
        Ok(prompt.replies()?.into_iter().rfind(|written| written.message == Some(reply)))
    };
    let Some(own) = of(earlier)? else { return Ok(()) };
    if own.stop.is_none()
        && own.range.end == earlier.text().len()
        && let Some(stop) = of(later)?.and_then(|written| written.stop)
    {
        earlier.append_stop(&later.text()[stop]);
    }
    Ok(())
}

fn message_at(prompt: &Prompt, byte: usize) -> Option<usize> {
    let turn = prompt.turns().iter().take_while(|turn| turn.start <= byte).last();
    turn.and_then(|turn| turn.message)
}

/// Removes the loss, and the notes, of all text before the turn of message `from`. The stop token
/// of the reply before it counts as that reply's, even if it opens the turn.
pub fn restrict(loss: &mut Loss, prompt: &Prompt, from: usize) {
    if from == 0 {
        return;
    }
    let is_before = |message: Option<usize>| message.is_some_and(|message| message < from);
    let turn = prompt.turns().iter().find(|turn| turn.message.is_some_and(|message| message >= from));
    let turn = turn.map_or(prompt.text().len(), |turn| turn.start);
    let replies = loss.replies.iter().filter(|reply| is_before(reply.message)).map(|reply| reply.range.end);
    let start = replies.fold(turn, usize::max);
    for span in &mut loss.spans {
        span.range.start = span.range.start.max(start);
    }
    loss.spans.retain(|span| span.range.start < span.range.end);
    loss.replies.retain(|reply| !is_before(reply.message));
    loss.notes.retain(|note| match note {
        LossNote::TagDiffers { range, .. } => range.end > start,
        note => !is_before(note_message(note)),
    });
}
