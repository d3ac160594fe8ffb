use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt, stream};
use rolecall::conversation::Json;
use rolecall::conversation::json::{self, Layout};
use tokio::time::{Instant, timeout_at};

use super::fields::{count, given};
use super::hidden::Hidden;
use super::trouble::{broken, refused, slow};
use super::{EngineKind, EnginePiece, Odds, Word};
use crate::Fault;

/// The data of server-sent events.
pub(super) type Frames = Pin<Box<dyn Stream<Item = Result<String, Fault>> + Send>>;

/// A reply in the making.
pub struct EngineStream {
    pub(super) kind: EngineKind,
    pub(super) frames: Frames,
    pub(super) sofar: Sofar,
    pub(super) hidden: Option<Arc<Hidden>>,
    /// When the next id must be there, and how long that was from the id before.
    pub(super) deadline: Instant,
    pub(super) patience: Duration,
    pub(super) next_id: Duration,
    pub(super) phase: Phase,
}

/// How far the answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The reply is being sampled.
    Replying,
    /// The reply ended, and the engine may still count its ids.
    Counting,
    /// Nothing more is read.
    Over,
}

/// What the frames so far have, and what was asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sofar {
    /// The number of ids.
    pub count: usize,
    /// The number of most likely tokens that were asked for.
    pub logprobs: Option<u32>,
}

impl EngineStream {
    /// Returns what the engine still says of the numbers of ids after the reply ended.
    pub async fn last_word(&mut self) -> EnginePiece {
        let patience = if self.kind.is_by_text() { LAST_COUNT } else { LAST_WORD };
        let end = Instant::now() + patience;
        while let Ok(Ok(Some(piece))) = timeout_at(end, self.next()).await {
            if piece.count() > 0 || piece.cached.is_some() || piece.counted.is_some() {
                return piece;
            }
        }
        EnginePiece::default()
    }

    /// Reads what the engine sends after the end of the reply, so that the connection can serve another
    /// request. Without this, the connection is closed, and an engine that still samples stops.
    pub fn release(&mut self) {
        let mut rest = std::mem::replace(&mut self.frames, Box::pin(stream::empty()));
        tokio::spawn(async move {
            let drained = async { while rest.next().await.is_some() {} };
            let _ = tokio::time::timeout(REST, drained).await;
        });
    }

    /// Reports whether the last piece was read.
    pub fn has_ended(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Returns the next piece, or `None` after the last.
    pub async fn next(&mut self) -> Result<Option<EnginePiece>, Fault> {
        if self.phase == Phase::Over {
            return Ok(None);
        }
        // Frames without ids do not buy time.
        let next = timeout_at(self.deadline, self.frames.next()).await.map_err(|_| slow(self.patience))?;
        let frame = match next {
            Some(Ok(frame)) if frame.trim() != "[DONE]" => frame,
            Some(Err(fault)) => return Err(fault),
            _ if self.phase == Phase::Counting => {
                self.phase = Phase::Over;
                return Ok(None);
            }
            // A reply that ends without a reason was cut off.
            _ => return Err(broken("the answer ended before the reply did")),
        };
        let Ok(Json::Object(frame)) = json::parse(&frame) else {
            return Err(broken("a frame is no JSON object"));
        };
        if let Some(error) = given(&frame, "error") {
            let status =
                error.as_object().and_then(|error| count(error, "code")).and_then(|code| u16::try_from(code).ok());
            return Err(refused(status.unwrap_or(500), &json::write(error, &Layout::compact())));
        }
        let mut piece = self.kind.wire().piece(&frame, &self.sofar).map_err(|trouble| trouble.fault())?;
        self.reveal(&mut piece);
        self.sofar.count += piece.count();
        if piece.count() > 0 {
            self.deadline = Instant::now() + self.next_id;
            self.patience = self.next_id;
        }
        if piece.end.is_some() {
            let counts_later = self.kind.wire().counts_last() && piece.counted.is_none();
            self.phase = if counts_later { Phase::Counting } else { Phase::Over };
        }
        Ok(Some(piece))
    }
}

impl EngineStream {
    /// Finds the ids that an engine does not tell. Nothing is known of their odds, except of the last.
    fn reveal(&self, piece: &mut EnginePiece) {
        let Some(spoken) = &piece.spoken else { return };
        let Some(ids) = self.hidden.as_ref().and_then(|hidden| hidden.ids(spoken)) else {
            piece.odds.clear();
            return;
        };
        if let Some(last) = piece.odds.pop() {
            let unknown = |id: &u32| Odds { word: Word::Id(*id), logprob: None, top: Vec::new() };
            piece.odds = ids.iter().take(ids.len() - 1).map(unknown).collect();
            piece.odds.push(last);
        }
        piece.ids = ids;
        piece.spoken = None;
    }
}

/// How long an engine that sampled a stop token may take to say so. Most say it at once, with the usage.
const LAST_WORD: Duration = Duration::from_millis(50);

/// How long an engine by text may take to count the ids of its reply. Nothing else tells their number.
const LAST_COUNT: Duration = Duration::from_secs(1);

/// How long the rest of an answer may take after its reply, for the connection to be kept.
const REST: Duration = Duration::from_secs(1);
