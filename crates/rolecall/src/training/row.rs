//! Rows of a dataset, each converted to what a trainer takes.

use std::fmt;
use std::sync::Arc;

use rolecall_conversation::{Conversation, Json, Place, Role};
use rolecall_encode::Encoded;
use rolecall_openai::Request;
use rolecall_render::{LeafKind, Remedy};

use super::note::empty_replies;
use super::{
    Limit, PreparedSample, SampleNumber, Samples, ServedSample, Slot, TooLong, Truncate, TruncationReport, as_served,
    prepare,
};
use crate::Error;
use crate::dataset::{self, Shape, Side};
use crate::loss::{Edges, Loss, LossPolicy, LossTurns, TokenLoss, weights};
use crate::model::{AccountTime, Model, ModelPrompt, Purpose};

/// How the rows of a dataset become prompts and samples. The command and the Python package use it.
///
/// ```
/// use rolecall::training::RowRecipe;
/// use rolecall::{Model, conversation::json};
/// let model = Model::open("chatml")?;
/// let recipe = RowRecipe::default();
/// let row = json::parse(r#"{"prompt": "2+2?", "completion": "4"}"#)?;
/// let (_, ready) = recipe.read(&model, row)?;
/// assert!(ready[0].1.prompt.text().starts_with("<|im_start|>user\n2+2?"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowRecipe {
    /// The shape of the rows, or `None` to determine it from the keys of each.
    pub shape: Option<Shape>,
    /// Whether prompts end with the generation prompt, or `None` for what each row says.
    pub generation: Option<bool>,
    /// Whether the last message is to be continued.
    pub continue_final_message: bool,
    /// The purpose of the prompts.
    pub purpose: Purpose,
    /// Whether every part of a conversation must be in the prompt.
    pub strict: bool,
    /// Whether prompts come with every token that ends a reply, see [`ModelPrompt::find_stops`].
    pub stops: bool,
    /// Which text carries loss, if any is to.
    pub policy: Option<LossPolicy>,
    /// What to do with a token that straddles the border of loss.
    pub edges: Edges,
    /// Whether to append a stop token if the template writes none after the last reply.
    pub append_final_stop: bool,
    /// How a conversation is divided into samples. Without loss it is always whole.
    pub samples: Samples,
    /// How prompts are encoded, or `None` to leave them as text.
    pub encoding: Option<RowEncoding>,
}

/// How the prompts of rows are encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowEncoding {
    /// Whether to encode as the reference implementation does, which is unsafe if messages come from
    /// users.
    pub reference: bool,
    /// The maximum number of ids.
    pub limit: Option<Limit>,
}

/// A conversation of a row, ready to be written: rendered, encoded, with its loss, and truncated.
#[derive(Clone, Debug)]
pub struct Ready {
    /// The prompt.
    pub prompt: ModelPrompt,
    /// The ids, if they were requested.
    pub encoded: Option<Encoded>,
    /// The text that carries loss, if that was requested.
    pub loss: Option<Loss>,
    /// What truncation removed.
    pub truncated: Option<TruncationReport>,
    /// Which of several samples of the conversation it is.
    pub part: Option<SampleNumber>,
}

/// The reason why a row has no sample.
#[derive(Debug)]
#[non_exhaustive]
pub enum RowError {
    /// The row cannot be read, rendered or encoded, or it has no loss.
    Library(Error),
    /// A part of the conversation is not in the prompt as it was given, and the recipe is strict.
    LeftOut {
        /// The first such part.
        place: Place,
        /// What became of it.
        kind: LeafKind,
        /// The same for people, with the number of parts.
        message: String,
        /// Whether it helps to pass calls in the form that the template writes.
        as_wanted: bool,
    },
    /// A reply is empty, and the recipe is strict.
    EmptyReply {
        /// The index of the message.
        message: usize,
    },
    /// The conversation is too large to be rendered once for each of its replies.
    TooManyReplies {
        /// The number of replies.
        replies: usize,
    },
    /// The sample does not fit a sequence.
    Unpacked(TooLong),
    /// The row is a preference pair, and samples are packed.
    PackedPair,
}

/// The conversations of a row, each with its side of a preference pair.
pub type ReadyRow = Vec<(Option<Side>, Ready)>;

impl RowRecipe {
    /// Reads a row that was parsed, and prepares its conversations: either all of them, or none.
    pub fn read(&self, model: &Model, row: Json) -> Result<(Shape, ReadyRow), RowError> {
        let (shape, samples) = dataset::from_json(row, self.shape)?;
        Ok((shape, self.prepare_all(model, samples)?))
    }

    /// Prepares the conversations of a row that was read: either all of them, or none.
    pub fn prepare_all(&self, model: &Model, samples: Vec<dataset::Sample>) -> Result<ReadyRow, RowError> {
        let mut all = Vec::with_capacity(samples.len());
        for sample in samples {
            let side = sample.side;
            all.extend(self.prepare(model, sample.request)?.into_iter().map(|ready| (side, ready)));
        }
        Ok(all)
    }

    /// Renders a request, divides it into samples if that is requested, and prepares each of them.
    pub fn prepare(&self, model: &Model, request: Request) -> Result<Vec<Ready>, RowError> {
        let (Some(policy), false) = (&self.policy, self.samples == Samples::Whole) else {
            return Ok(vec![self.prepare_prompt(model, self.prompt(model, request)?)?]);
        };
        let whole = self.render(model, request)?;
        check_replies(&whole.request().conversation, whole.text().len())?;
        let last = last_reply(&whole);
        let mut served = as_served(whole.clone(), self.samples, |request| self.render(model, request))?;
        if policy.turns == LossTurns::Last {
            served.retain(|served| last_reply(&served.prompt) == last);
        }
        // A sample in which no reply is chosen is left out.
        let mut lenient = policy.clone();
        lenient.allow_empty = true;
        let mut samples = Vec::new();
        for served in served {
            let rewritten = served.rewritten;
            let from = served.from;
            let ready = self.prepare_served(model, served, &lenient)?;
            let has_loss = ready.loss.as_ref().is_some_and(|loss| !loss.spans.is_empty());
            if has_loss || ready.truncated.as_ref().is_some_and(|truncated| truncated.no_loss) {
                samples.push((ready, from, rewritten));
            }
        }
        if samples.is_empty() {
            let whole = ServedSample { prompt: whole, from: 0, rewritten: None };
            return Ok(vec![self.prepare_served(model, whole, policy)?]);
        }
        let of = samples.len();
        let each = samples.into_iter().enumerate().map(|(index, (mut ready, from, rewritten))| {
            ready.part = (of > 1).then_some(SampleNumber { index, of, from, rewritten });
            ready
        });
        Ok(each.collect())
    }

    /// Prepares a prompt that was rendered.
    pub fn prepare_prompt(&self, model: &Model, prompt: ModelPrompt) -> Result<Ready, RowError> {
        self.prepare_with(model, ServedSample { prompt, from: 0, rewritten: None }, self.policy.as_ref())
    }

    fn prepare_served(&self, model: &Model, mut served: ServedSample, policy: &LossPolicy) -> Result<Ready, RowError> {
        self.append_stop(&mut served.prompt)?;
        self.prepare_with(model, served, Some(policy))
    }

    fn prepare_with(
        &self,
        model: &Model,
        ServedSample { prompt, from, .. }: ServedSample,
        policy: Option<&LossPolicy>,
    ) -> Result<Ready, RowError> {
        let Some(encoding) = self.encoding else {
            let loss = policy.map(|policy| prompt.loss(policy)).transpose()?;
            return Ok(Ready { prompt, encoded: None, loss, truncated: None, part: None });
        };
        let encoded = encoding.encode(&prompt)?;
        let policy = policy.map(|policy| (policy, self.edges));
        let render = |request: Arc<Request>| -> Result<_, RowError> {
            let prompt = self.prompt(model, request)?;
            let encoded = encoding.encode(&prompt)?;
            Ok((prompt, encoded))
        };
        let prepared = prepare(prompt, encoded, policy, from, encoding.limit, render)?;
        let PreparedSample { prompt, encoded, loss, truncated } = prepared;
        Ok(Ready { prompt, encoded: Some(encoded), loss, truncated, part: None })
    }

    /// Renders a request, with a stop token if one is to be appended.
    pub fn prompt(&self, model: &Model, request: impl Into<Arc<Request>>) -> Result<ModelPrompt, RowError> {
        let mut prompt = self.render(model, request)?;
        self.append_stop(&mut prompt)?;
        Ok(prompt)
    }

    fn append_stop(&self, prompt: &mut ModelPrompt) -> Result<(), RowError> {
        if self.append_final_stop {
            prompt.append_final_stop()?;
        }
        Ok(())
    }

    /// Renders a request. Its own settings take precedence, except for how the prompt ends.
    fn render(&self, model: &Model, request: impl Into<Arc<Request>>) -> Result<ModelPrompt, RowError> {
        let mut request = Arc::unwrap_or_clone(request.into());
        if let Some(generation) = self.generation {
            request.conversation.add_generation_prompt = Some(generation);
            request.conversation.continue_final_message = false;
        }
        request.conversation.continue_final_message |= self.continue_final_message;
        // Each row is told what became of its parts.
        let mut prompt = model.accounted_prompt(Arc::new(request), self.purpose, AccountTime::AtOnce)?;
        if self.stops {
            prompt.find_stops()?;
        }
        if self.strict
            && let Some(lost) = prompt.account().refused()
        {
            let as_wanted = lost.remedy == Some(Remedy::FormsAsWanted);
            let (place, message) = (lost.first.place.clone(), lost.to_string());
            return Err(RowError::LeftOut { place, kind: lost.kind, message, as_wanted });
        }
        if self.strict
            && let [message, ..] = empty_replies(&prompt.request().conversation)[..]
        {
            return Err(RowError::EmptyReply { message });
        }
        Ok(prompt)
    }
}

impl RowEncoding {
    /// Returns all tokens of a prompt, without truncation.
    pub fn encode(self, prompt: &ModelPrompt) -> Result<Encoded, Error> {
        if self.reference { prompt.encode_reference() } else { prompt.encode() }
    }
}

impl Ready {
    /// Returns the loss weight of each id. Without loss, all are 0.
    pub fn weights(&self, edges: Edges) -> Vec<f32> {
        let Some(encoded) = &self.encoded else { return Vec::new() };
        match &self.loss {
            Some(loss) => weights(encoded, loss, edges).collect(),
            None => vec![0.0; encoded.tokens.len()],
        }
    }

    /// Returns the loss, and how it applies to tokens.
    pub fn token_loss(&self, edges: Edges) -> Option<TokenLoss<'_>> {
        self.loss.as_ref().map(|loss| TokenLoss { loss, edges })
    }

    /// Returns the sample for packing in sequences of at most `length` ids.
    pub fn slot<T>(&self, source: T, side: Option<Side>, edges: Edges, length: u32) -> Result<Slot<T>, RowError> {
        if side.is_some() {
            return Err(RowError::PackedPair);
        }
        let ids = self.encoded.as_ref().map(Encoded::ids).unwrap_or_default();
        if ids.is_empty() || ids.len() > length as usize {
            return Err(RowError::Unpacked(TooLong { ids: ids.len(), most: length as usize }));
        }
        Ok(Slot { source, ids, weights: self.weights(edges) })
    }
}

/// Returns what truncation did, each with a stable code.
pub fn truncation_notes(truncated: &TruncationReport) -> Vec<(&'static str, String)> {
    let TruncationReport { by, ids, kept, cut, messages, no_loss } = truncated;
    let how = match (by, messages.len()) {
        (Truncate::Right, _) => "from the right".to_owned(),
        (Truncate::Left, _) if *cut > 0 => "by whole turns from the left, and the last turn from the right".into(),
        (Truncate::Left, _) => "by whole turns from the left".into(),
        (Truncate::Oldest, count) => {
            let rest = if *cut > 0 { ", and the rest from the right" } else { "" };
            let messages = if count == 1 { "message" } else { "messages" };
            format!("by the {count} oldest {messages}{rest}")
        }
    };
    let mut notes = vec![("truncated", format!("truncated {how}: {kept} of {ids} ids are left"))];
    if *no_loss {
        notes.push(("truncated_loss", "no id that truncation left carries loss".into()));
    }
    notes
}

/// The limit for the size of a request in bytes times the number of its replies.
const MOST_RENDERED: usize = 1 << 27;

/// Refuses a conversation that is too large to be rendered once for each reply; `bytes` is its
/// size.
pub fn check_replies(conversation: &Conversation, bytes: usize) -> Result<(), RowError> {
    let replies = conversation.messages.iter().filter(|message| *message.role() == Role::Assistant).count();
    match replies.saturating_mul(bytes) > MOST_RENDERED {
        true => Err(RowError::TooManyReplies { replies }),
        false => Ok(()),
    }
}

fn last_reply(prompt: &ModelPrompt) -> Option<usize> {
    let messages = &prompt.request().conversation.messages;
    messages.iter().rposition(|message| *message.role() == Role::Assistant)
}

impl RowError {
    /// Returns a stable name for the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            RowError::Library(error) => error.code(),
            RowError::LeftOut { kind, .. } => kind.name(),
            RowError::EmptyReply { .. } => "empty_reply",
            RowError::TooManyReplies { .. } => "too_many_replies",
            RowError::Unpacked(_) => "not_packed",
            RowError::PackedPair => "preference_pair",
        }
    }

    /// Returns the place in the conversation, if the error has one.
    pub fn place(&self) -> Option<Place> {
        match self {
            RowError::Library(error) => error.place(),
            RowError::LeftOut { place, .. } => Some(place.clone()),
            RowError::EmptyReply { message } => Some(Place::message(*message, "content")),
            _ => None,
        }
    }

    /// Returns advice on how to fix the error.
    pub fn help(&self) -> Option<String> {
        Some(match self {
            RowError::Library(error) => return error.help(),
            RowError::LeftOut { as_wanted: true, .. } => {
                "pass the conversation in the forms that the template writes".into()
            }
            RowError::LeftOut { .. } => "remove it, or do not be strict".into(),
            RowError::EmptyReply { .. } => "write the reply, or do not be strict".into(),
            RowError::TooManyReplies { .. } => "split the conversation".into(),
            RowError::Unpacked(_) => "truncate it from the right, from the left, or by its oldest turns".into(),
            RowError::PackedPair => "do not pack the samples".into(),
        })
    }
}

impl fmt::Display for RowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RowError::Library(error) => write!(f, "{error}"),
            RowError::LeftOut { message, .. } => f.write_str(message),
            RowError::EmptyReply { message } => write!(f, "message {message}: the reply is empty"),
            RowError::TooManyReplies { replies } => {
                write!(f, "the conversation is too long to be rendered once for each of its {replies} replies")
            }
            RowError::Unpacked(error) => write!(f, "{error}"),
            RowError::PackedPair => f.write_str("a preference pair cannot be packed: a trainer compares its answers"),
        }
    }
}

impl std::error::Error for RowError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            RowError::Library(error) => Some(error),
            RowError::Unpacked(error) => Some(error),
            _ => None,
        }
    }
}

impl From<Error> for RowError {
    fn from(error: Error) -> RowError {
        RowError::Library(error)
    }
}

impl From<rolecall_openai::Error> for RowError {
    fn from(error: rolecall_openai::Error) -> RowError {
        RowError::Library(error.into())
    }
}
