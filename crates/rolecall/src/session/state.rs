use std::sync::Arc;

use rolecall_conversation::Message;

use super::SessionError;
use super::reply::Reply;
use super::stock::{Next, Stock};
use crate::model::setup::Setup;

/// Where a session stands between the prompt that was sent last and the next one.
///
/// [`open`](super::Session::open) leads from `Idle` and `Replied` to `Open`, [`accept`](super::Session::accept) from
/// `Open` to `Replied`. A rewrite leads from `Replied` to `Idle`, because the reply is the template's own text then.
/// Everything else stays in its state.
#[derive(Clone)]
pub(super) enum State {
    /// No reply is awaited or known: at the beginning, after replies that nobody sampled here, and after a rewrite.
    Idle {
        /// What was sent, if anything was.
        sent: Option<SentPrompt>,
        waiting: Waiting,
    },
    /// A reply is awaited. Nothing can be appended.
    Open { sent: SentPrompt },
    /// The model has replied to what was sent. The reply may have no end yet.
    Replied { sent: SentPrompt, reply: Arc<Reply>, waiting: Waiting },
}

/// The rendering whose end was sent last.
#[derive(Clone)]
pub(super) struct SentPrompt {
    pub stock: Arc<Stock>,
    /// The setup with which it was rendered, if another one applies since.
    pub by: Option<Arc<Setup>>,
}

/// What goes into the next prompt.
#[derive(Clone, Default)]
pub(super) struct Waiting {
    /// Messages without ids yet.
    pub messages: Vec<Arc<Message>>,
    /// The rendering with them, if it was planned.
    pub next: Option<Arc<Next>>,
}

impl Default for State {
    fn default() -> State {
        State::Idle { sent: None, waiting: Waiting::default() }
    }
}

impl State {
    /// Returns the state after a prompt was sent that awaits no reply.
    pub fn sent(stock: Arc<Stock>) -> State {
        State::Idle { sent: Some(SentPrompt { stock, by: None }), waiting: Waiting::default() }
    }

    /// Returns the state after a prompt was sent that the model answers.
    pub fn opened(stock: Arc<Stock>) -> State {
        State::Open { sent: SentPrompt { stock, by: None } }
    }

    /// Returns the state after the model has replied to what was sent.
    pub fn replied(sent: SentPrompt, reply: Arc<Reply>) -> State {
        State::Replied { sent, reply, waiting: Waiting::default() }
    }

    /// Takes the awaited reply. Other states stay.
    pub fn reply_with(&mut self, reply: Arc<Reply>) {
        *self = match std::mem::take(self) {
            State::Open { sent } => State::replied(sent, reply),
            other => other,
        };
    }

    /// Returns what was sent for the awaited reply.
    pub fn awaited(&self) -> Result<&SentPrompt, SessionError> {
        match self {
            State::Open { sent } => Ok(sent),
            State::Idle { .. } | State::Replied { .. } => Err(SessionError::NotOpen),
        }
    }

    /// Returns what goes into the next prompt, if no reply is awaited.
    pub fn waiting(&self) -> Result<&Waiting, SessionError> {
        match self {
            State::Idle { waiting, .. } | State::Replied { waiting, .. } => Ok(waiting),
            State::Open { .. } => Err(SessionError::AwaitsReply),
        }
    }

    /// Returns what goes into the next prompt, if no reply is awaited, to change it.
    pub fn waiting_mut(&mut self) -> Result<&mut Waiting, SessionError> {
        match self {
            State::Idle { waiting, .. } | State::Replied { waiting, .. } => Ok(waiting),
            State::Open { .. } => Err(SessionError::AwaitsReply),
        }
    }

    /// Returns the messages without ids.
    pub fn pending(&self) -> &[Arc<Message>] {
        self.waiting().map_or(&[], |waiting| &waiting.messages)
    }

    /// Returns the rendering with the pending messages, if it was planned.
    pub fn next(&self) -> Option<&Arc<Next>> {
        self.waiting().ok()?.next.as_ref()
    }

    /// Returns what was sent last, if anything was.
    pub fn last_sent(&self) -> Option<&SentPrompt> {
        match self {
            State::Idle { sent, .. } => sent.as_ref(),
            State::Open { sent } | State::Replied { sent, .. } => Some(sent),
        }
    }

    /// Returns what was sent last, if anything was, to change it.
    pub fn last_sent_mut(&mut self) -> Option<&mut SentPrompt> {
        match self {
            State::Idle { sent, .. } => sent.as_mut(),
            State::Open { sent } | State::Replied { sent, .. } => Some(sent),
        }
    }

    /// Returns the rendering whose end was sent last.
    pub fn stock(&self) -> Option<&Arc<Stock>> {
        self.last_sent().map(|sent| &sent.stock)
    }

    /// Returns the reply since then.
    pub fn reply(&self) -> Option<&Arc<Reply>> {
        match self {
            State::Replied { reply, .. } => Some(reply),
            State::Idle { .. } | State::Open { .. } => None,
        }
    }

    /// Changes the last reply, if there is one.
    pub fn change_reply(&mut self, change: impl FnOnce(&mut Reply)) {
        if let State::Replied { reply, .. } = self {
            change(Arc::make_mut(reply));
        }
    }
}
