use std::sync::Arc;

use rolecall_encode::Encoded;
use rolecall_openai::Request;
use rolecall_render::Prompt;

use super::oldest;
use crate::model::ModelPrompt;

/// How a conversation with too many ids is made to fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Truncate {
    /// Ids are removed from the end.
    #[default]
    Right,
    /// Whole turns of the rendered text are removed from the start.
    Left,
    /// The oldest turns of the conversation are removed, and it is rendered again. System messages
    /// and tools stay, and a call is removed only together with its results.
    Oldest,
}

impl Truncate {
    /// The values by their names.
    pub const ALL: [(&'static str, Truncate); 3] =
        [("right", Truncate::Right), ("left", Truncate::Left), ("oldest", Truncate::Oldest)];

    /// Returns a stable name.
    pub fn name(self) -> &'static str {
        match self {
            Truncate::Right => "right",
            Truncate::Left => "left",
            Truncate::Oldest => "oldest",
        }
    }
}

/// The maximum number of ids of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The number of ids.
    pub ids: usize,
    /// How to make a longer conversation fit.
    pub by: Truncate,
}

/// What truncation removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TruncationReport {
    /// How the conversation was truncated.
    pub by: Truncate,
    /// The number of ids without truncation.
    pub ids: usize,
    /// The number of ids that are left.
    pub kept: usize,
    /// The number of ids that were removed from the end. With [`Truncate::Left`] and
    /// [`Truncate::Oldest`], this is not 0 only if what must stay is too long on its own.
    pub cut: usize,
    /// The indices of the messages that were removed and not rendered.
    pub messages: Vec<usize>,
    /// Whether no id that is left carries loss, although the conversation has loss.
    pub no_loss: bool,
}

/// Makes a conversation fit a limit. Returns what was removed, if anything was.
///
/// `render` renders and encodes a shorter request, which only [`Truncate::Oldest`] needs. It is
/// called once for each time that the number of removable turns can be halved.
///
/// ```
/// use rolecall::encode::{Encoded, EncodedToken};
/// use rolecall::training::{Limit, Truncate, truncate};
/// use rolecall::{Error, Model, Request};
/// let model = Model::open("chatml")?;
/// let prompt = model.prompt(Request::from_text(r#"{"messages": [{"role": "user", "content": "Hi"}]}"#)?)?;
/// let tokens = (0..9).map(|id| EncodedToken { id, start: 0, end: 1, control: false }).collect();
/// let encoded = Encoded { tokens, ..Encoded::default() };
/// let limit = Limit { ids: 4, by: Truncate::Right };
/// let (_, encoded, truncated) = truncate(prompt, encoded, limit, |_| Err(Error::NoTokenizer))?;
/// assert_eq!((encoded.ids(), truncated.map(|truncated| truncated.cut)), (vec![0, 1, 2, 3], Some(5)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn truncate<E>(
    prompt: ModelPrompt,
    encoded: Encoded,
    limit: Limit,
    render: impl FnMut(Arc<Request>) -> Result<(ModelPrompt, Encoded), E>,
) -> Result<(ModelPrompt, Encoded, Option<TruncationReport>), E> {
    let ids = encoded.tokens.len();
    if ids <= limit.ids {
        return Ok((prompt, encoded, None));
    }
    let (prompt, mut encoded, messages) = match limit.by {
        Truncate::Right => (prompt, encoded, Vec::new()),
        Truncate::Left => {
            let encoded = without_first_turns(prompt.prompt(), encoded, limit.ids);
            (prompt, encoded, Vec::new())
        }
        Truncate::Oldest => oldest::without_oldest(prompt, encoded, limit.ids, render)?,
    };
    let cut = encoded.tokens.len().saturating_sub(limit.ids);
    encoded.cut(limit.ids);
    let kept = encoded.tokens.len();
    Ok((prompt, encoded, Some(TruncationReport { by: limit.by, ids, kept, cut, messages, no_loss: false })))
}

/// Removes as few turns as possible from the start. The last turn stays.
fn without_first_turns(prompt: &Prompt, mut encoded: Encoded, most: usize) -> Encoded {
    let tokens = &encoded.tokens;
    // A token that straddles the start of a turn belongs to the turn before it.
    let firsts = prompt.turns().iter().map(|turn| tokens.partition_point(|token| token.start < turn.start));
    let firsts = firsts.filter(|first| *first < tokens.len());
    let mut first = 0;
    for next in firsts {
        first = next;
        if tokens.len() - first <= most {
            break;
        }
    }
    encoded.tokens.drain(..first);
    encoded
}
