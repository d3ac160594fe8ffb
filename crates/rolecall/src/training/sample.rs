use std::ops::Range;
use std::sync::Arc;

use rolecall_encode::Encoded;
use rolecall_openai::Request;
use rolecall_render::{Loss, LossNote, LossPolicy};

use super::{Limit, TruncationReport, restrict, truncate};
use crate::Error;
use crate::loss::{Edges, TokenLoss, weights};
use crate::model::{Model, ModelPrompt, Purpose};

/// How samples are made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recipe {
    /// Which text carries loss.
    pub policy: LossPolicy,
    /// What to do with a token that straddles the border of loss.
    pub edges: Edges,
    /// Whether to append a stop token if the template writes none after the last reply.
    pub append_final_stop: bool,
    /// The maximum number of ids.
    pub limit: Option<Limit>,
}

/// A conversation as a trainer takes it.
///
/// ```no_run
/// use rolecall::training::{Limit, Recipe, Sample, Truncate};
/// use rolecall::{Model, Request};
/// let model = Model::open("path/to/model")?;
/// let request = Request::from_text(
///     r#"{"messages": [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}]}"#,
/// )?;
/// let recipe = Recipe { limit: Some(Limit { ids: 4096, by: Truncate::Oldest }), ..Recipe::default() };
/// let sample = Sample::new(&model, request, &recipe)?;
/// assert_eq!(sample.ids.len(), sample.weights.len());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// The token ids.
    pub ids: Vec<u32>,
    /// The loss weight of each id, 0 for none.
    pub weights: Vec<f32>,
    /// The turns in order: the index of the message, if the turn has one, and the ids. An id that
    /// straddles a border belongs to the turn in which it starts.
    pub turns: Vec<(Option<usize>, Range<usize>)>,
    /// What truncation removed.
    pub truncated: Option<TruncationReport>,
    /// Notes about the loss.
    pub notes: Vec<LossNote>,
}

/// A prompt that is ready to become a sample or another kind of result.
#[derive(Clone, Debug)]
pub struct PreparedSample {
    /// The prompt. If the oldest turns were removed, it is that of the shorter conversation.
    pub prompt: ModelPrompt,
    /// The ids that are left.
    pub encoded: Encoded,
    /// The text that carries loss.
    pub loss: Option<Loss>,
    /// What truncation removed.
    pub truncated: Option<TruncationReport>,
}

impl Sample {
    /// Renders, encodes and truncates a request.
    pub fn new(model: &Model, request: impl Into<Arc<Request>>, recipe: &Recipe) -> Result<Sample, Error> {
        let render = |request: Arc<Request>| {
            let mut prompt = model.prompt_for(request, Purpose::Training)?;
            if recipe.append_final_stop {
                prompt.append_final_stop()?;
            }
            let encoded = prompt.encode()?;
            Ok::<_, Error>((prompt, encoded))
        };
        let (prompt, encoded) = render(request.into())?;
        let prepared = prepare(prompt, encoded, Some((&recipe.policy, recipe.edges)), 0, recipe.limit, render)?;
        Ok(Sample::of(&prepared, recipe.edges))
    }

    /// Returns the sample of a prepared prompt.
    pub fn of(prepared: &PreparedSample, edges: Edges) -> Sample {
        let PreparedSample { prompt, encoded, loss, truncated } = prepared;
        let tokens = &encoded.tokens;
        let first = |byte: usize| tokens.partition_point(|token| token.start < byte);
        let turns = prompt.prompt().turns().iter().enumerate().map(|(at, turn)| {
            let span = prompt.prompt().turn_span(at);
            // A token without bytes, such as one that the tokenizer adds, belongs to the turn next to it.
            let end = if at + 1 == prompt.prompt().turns().len() { tokens.len() } else { first(span.end) };
            (turn.message, if at == 0 { 0 } else { first(span.start) }..end)
        });
        Sample {
            ids: encoded.ids(),
            weights: match loss {
                Some(loss) => weights(encoded, loss, edges).collect(),
                None => vec![0.0; tokens.len()],
            },
            turns: turns.filter(|(_, ids)| !ids.is_empty()).collect(),
            truncated: truncated.clone(),
            notes: loss.as_ref().map(|loss| loss.notes.clone()).unwrap_or_default(),
        }
    }
}

/// Determines the loss of a prompt and makes it fit a limit.
///
/// Only text from message `from` on carries loss. A conversation without loss is an error under the
/// policy, but loss that truncation removes is only reported. `render` is that of [`truncate()`].
pub fn prepare<E: From<Error>>(
    prompt: ModelPrompt,
    encoded: Encoded,
    policy: Option<(&LossPolicy, Edges)>,
    from: usize,
    limit: Option<Limit>,
    render: impl FnMut(Arc<Request>) -> Result<(ModelPrompt, Encoded), E>,
) -> Result<PreparedSample, E> {
    let loss_of = |prompt: &ModelPrompt, from: usize, policy: &LossPolicy| -> Result<Loss, Error> {
        let mut loss = prompt.loss(policy)?;
        restrict(&mut loss, prompt.prompt(), from);
        Ok(loss)
    };
    let mut loss = policy.map(|(policy, _)| loss_of(&prompt, from, policy)).transpose()?;
    let Some(limit) = limit else { return Ok(PreparedSample { prompt, encoded, loss, truncated: None }) };
    let (prompt, encoded, mut truncated) = truncate(prompt, encoded, limit, render)?;
    if let (Some(truncated), Some(whole), Some((policy, edges))) = (&mut truncated, &mut loss, policy) {
        let had_loss = !whole.spans.is_empty();
        if !truncated.messages.is_empty() {
            let gone = truncated.messages.iter().filter(|message| **message < from).count();
            let mut policy = policy.clone();
            policy.allow_empty = true;
            *whole = loss_of(&prompt, from - gone, &policy)?;
        }
        let mut weigher = TokenLoss { loss: whole, edges }.weigher();
        truncated.no_loss = had_loss && encoded.tokens.iter().all(|token| weigher.weight(token) <= 0.0);
    }
    Ok(PreparedSample { prompt, encoded, loss, truncated })
}
