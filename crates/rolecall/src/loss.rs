//! Which bytes and which tokens of a training text carry loss.

use std::ops::Range;

use rolecall_encode::{Encoded, EncodedToken};
use rolecall_format::{Format, Op, Slot};
pub use rolecall_render::{
    FinalStop, Loss, LossNote, LossPolicy, LossSpan, LossTurns, ModelText, PartWeights, ReplyPart, RoleLoss,
};
use rolecall_render::{Prompt, Segment};

/// What to do with a token that straddles the border of the text that carries loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Edges {
    /// It carries loss, with the greatest weight among its bytes.
    #[default]
    Any,
    /// It carries loss only if all of its bytes do, with the least weight among them.
    Strict,
}

impl Edges {
    /// The values by their words.
    pub const ALL: [(&'static str, Edges); 2] = [("any", Edges::Any), ("strict", Edges::Strict)];
}

/// Splits the text of a part of a prompt where its origin changes and at the borders of loss. Each
/// segment is paired with whether it carries loss.
///
/// ```
/// use rolecall::loss::{LossPolicy, segments};
/// use rolecall::model::Purpose;
/// use rolecall::{Model, Request};
/// let messages = r#"{"messages": [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}]}"#;
/// let prompt = Model::open("chatml")?.prompt_for(Request::from_text(messages)?, Purpose::Training)?;
/// let loss = prompt.loss(&LossPolicy::assistant())?;
/// let learned = segments(prompt.prompt(), 0..prompt.text().len(), &loss).into_iter().filter(|(_, learned)| *learned);
/// assert_eq!(learned.map(|(segment, _)| segment.text).collect::<String>(), "4<|im_end|>");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn segments<'a>(prompt: &'a Prompt, part: Range<usize>, loss: &Loss) -> Vec<(Segment<'a>, bool)> {
    let mut found = Vec::new();
    let mut spans = first_behind(&loss.spans, part.start);
    for segment in prompt.segments_in(part) {
        let end = segment.start + segment.text.len();
        let mut start = segment.start;
        while start < end {
            spans = first_behind(spans, start);
            let span = spans.first().map_or(end..end, |span| span.range.clone());
            let learned = span.start <= start;
            let next = if learned { span.end } else { span.start }.min(end);
            let text = &prompt.text()[start..next];
            found.push((Segment { text, start, origin: segment.origin.clone(), is_made: segment.is_made }, learned));
            start = next;
        }
    }
    found
}

/// Returns, for each token, whether it carries loss. A token that straddles the border of a span
/// carries loss.
pub fn mask(encoded: &Encoded, loss: &Loss) -> impl Iterator<Item = bool> {
    weights(encoded, loss, Edges::Any).map(|weight| weight > 0.0)
}

/// Returns the weight of each token, from 0 for tokens without loss.
pub fn weights(encoded: &Encoded, loss: &Loss, edges: Edges) -> impl Iterator<Item = f32> {
    let mut weigher = Weigher::new(loss, edges);
    encoded.tokens.iter().map(move |token| weigher.weight(token))
}

/// Returns, for each token, whether it overlaps one of the ranges. Both are in order.
///
/// transformers 5.24: `apply_chat_template` masks every token that overlaps a `{% generation %}`
/// block, in one pass. An empty block within a token overlaps it.
pub fn overlapping(tokens: &[EncodedToken], ranges: &[Range<usize>]) -> Vec<bool> {
    let mut ranges = ranges.iter().peekable();
    let overlaps = |token: &EncodedToken| {
        while ranges.next_if(|range| token.start >= range.end).is_some() {}
        ranges.peek().is_some_and(|range| token.end > range.start)
    };
    tokens.iter().map(overlaps).collect()
}

/// The loss of a prompt, and how it applies to tokens.
#[derive(Clone, Copy, Debug)]
pub struct TokenLoss<'a> {
    /// The text that carries loss.
    pub loss: &'a Loss,
    /// What to do with a token that straddles a border.
    pub edges: Edges,
}

impl<'a> TokenLoss<'a> {
    /// Returns a weigher for the tokens of the prompt.
    pub fn weigher(self) -> Weigher<'a> {
        Weigher::new(self.loss, self.edges)
    }
}

impl<'a> From<&'a Loss> for TokenLoss<'a> {
    fn from(loss: &'a Loss) -> TokenLoss<'a> {
        TokenLoss { loss, edges: Edges::default() }
    }
}

/// Finds the weights of tokens, in one pass if the tokens are in order.
#[derive(Clone, Debug)]
pub struct Weigher<'a> {
    spans: &'a [LossSpan],
    edges: Edges,
    /// The index of the first span that may reach the next token.
    next: usize,
    /// The start of the last token.
    last: usize,
}

impl<'a> Weigher<'a> {
    /// Creates a weigher for the tokens of a prompt.
    pub fn new(loss: &'a Loss, edges: Edges) -> Weigher<'a> {
        Weigher { spans: &loss.spans, edges, next: 0, last: 0 }
    }

    /// Returns the weight of a token.
    pub fn weight(&mut self, token: &EncodedToken) -> f32 {
        if token.start < self.last {
            self.next = 0;
        }
        self.last = token.start;
        while self.spans.get(self.next).is_some_and(|span| span.range.end <= token.start) {
            self.next += 1;
        }
        // Most tokens lie between two spans or inside one.
        let Some(first) = self.spans.get(self.next).filter(|first| first.range.start < token.end) else { return 0.0 };
        if first.range.start <= token.start && token.end <= first.range.end {
            return first.weight;
        }
        let touching = self.spans[self.next..].iter().take_while(|span| span.range.start < token.end);
        match self.edges {
            Edges::Any => touching.map(|span| span.weight).fold(0.0, f32::max),
            Edges::Strict => {
                let (mut covered, mut least) = (token.start, f32::INFINITY);
                for span in touching {
                    if span.range.start <= covered {
                        covered = covered.max(span.range.end);
                        least = least.min(span.weight);
                    }
                }
                if covered >= token.end && least.is_finite() { least } else { 0.0 }
            }
        }
    }
}

/// The greatest weight of a part, a role or a message. Products of such weights are finite.
pub const GREATEST_WEIGHT: f32 = 1e6;

/// Returns a stable name for a kind of note.
pub fn note_code(note: &LossNote) -> &'static str {
    match note {
        LossNote::NoStop { is_last: true, .. } => "no_final_stop",
        LossNote::NoStop { .. } => "no_stop",
        LossNote::Undetermined { .. } => "undetermined_loss",
        LossNote::NoOpening { .. } => "no_opening",
        LossNote::TagDiffers { .. } => "tag_differs",
        _ => "loss_note",
    }
}

/// Returns a description of a note.
pub fn note_text(note: &LossNote) -> String {
    match note {
        LossNote::NoStop { message, .. } => {
            format!("message {message}: no stop token follows the reply, so the model does not learn to stop there")
        }
        LossNote::Undetermined { message, .. } => {
            format!("message {message}: part of its turn may not be the model's own text, so it carries no loss")
        }
        LossNote::NoOpening { message } => {
            format!("message {message}: the generation prompt before it could not be determined, so it carries no loss")
        }
        LossNote::TagDiffers { range, is_tagged: true } => format!(
            "bytes {} to {} are in a `{{% generation %}}` block, but the model does not write them",
            range.start, range.end
        ),
        LossNote::TagDiffers { range, is_tagged: false } => format!(
            "bytes {} to {} are not in a `{{% generation %}}` block, but the model writes them",
            range.start, range.end
        ),
        _ => "the loss has a note of an unknown kind".into(),
    }
}

/// Returns the index of the message that a note is about.
pub fn note_message(note: &LossNote) -> Option<usize> {
    match note {
        LossNote::NoStop { message, .. } | LossNote::Undetermined { message, .. } | LossNote::NoOpening { message } => {
            Some(*message)
        }
        _ => None,
    }
}

/// Returns the spans, which are sorted, starting with the first that ends after `at`.
pub(crate) fn first_behind(spans: &[LossSpan], at: usize) -> &[LossSpan] {
    &spans[spans.partition_point(|span| span.range.end <= at)..]
}

/// Returns the texts that may stop a model whose replies have the layouts of this format: those with
/// which turns end, and the format's stop texts.
pub fn closers(format: &Format) -> Vec<String> {
    let layouts = [Slot::Assistant, Slot::AssistantWithCalls].into_iter().filter_map(|slot| format.layout(slot));
    let literal = |ops: &[Op]| -> String {
        let each = ops.iter().map(|op| match op {
            Op::Literal(text) => text.as_str(),
            Op::Control(id) => format.control(*id).text.as_str(),
            _ => "",
        });
        each.collect()
    };
    let ends = layouts.map(|layout| {
        let ops = layout.ops();
        let last = ops.iter().rposition(|op| matches!(op, Op::Hole { .. } | Op::Group(_)));
        let end = literal(&ops[last.map_or(0, |at| at + 1)..]);
        // Some templates write a generation prompt even if none is requested. White space separates
        // the stop from what follows it.
        let opening =
            literal(&ops[..ops.iter().position(|op| matches!(op, Op::Hole { .. } | Op::Group(_))).unwrap_or(0)]);
        let opens = opening.char_indices().map(|(at, _)| at).chain([opening.len()]).rev().take_while(|at| *at > 2);
        let end = opens.filter_map(|at| end.trim().strip_suffix(&opening[..at])).next().unwrap_or(&end);
        first_word(end).to_owned()
    });
    ends.chain(format.generation.stop.iter().cloned()).filter(|end| !end.is_empty()).collect()
}

/// Returns the text up to the first white space that is not inside a marker.
fn first_word(text: &str) -> &str {
    let text = text.trim_start();
    // An angle bracket that is never closed is no marker.
    let has_markers = text.rfind('<').is_some_and(|open| text[open..].contains('>'));
    let is_outside = |at: usize| text[..at].rfind('<').is_none_or(|open| text[open..at].contains('>'));
    let spaces = text.char_indices().filter(|(_, c)| c.is_whitespace()).map(|(at, _)| at);
    let end = spaces.filter(|at| !has_markers || is_outside(*at)).min();
    &text[..end.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::{Edges, Loss, LossSpan, Weigher, first_behind};
    use crate::encode::EncodedToken;

    #[test]
    fn a_span_that_ends_at_a_byte_is_not_behind_it() {
        let spans = [0..2, 2..4].map(|range| LossSpan { range, weight: 1.0 });
        assert_eq!([1, 2, 3, 4].map(|at| first_behind(&spans, at).len()), [2, 1, 1, 0]);
    }

    #[test]
    fn a_token_over_several_spans_has_the_least_weight_if_they_cover_it_and_the_greatest_if_any_does() {
        let spans = [(0..2, 1.0), (2..4, 0.5), (5..6, 2.0)];
        let loss = Loss { spans: spans.map(|(range, weight)| LossSpan { range, weight }).into(), ..Loss::default() };
        let weight = |edges: Edges, start: usize, end: usize| {
            Weigher::new(&loss, edges).weight(&EncodedToken { id: 0, start, end, control: false })
        };
        for (start, end, strict, any) in [(0, 4, 0.5, 1.0), (1, 3, 0.5, 1.0), (3, 6, 0.0, 2.0), (3, 5, 0.0, 0.5)] {
            let found = [Edges::Strict, Edges::Any].map(|edges| weight(edges, start, end));
            assert_eq!(found, [strict, any], "{start}..{end}");
        }
    }
}
