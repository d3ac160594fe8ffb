//! The body of the stand-in's answer: ids one by one, in the wire format that was asked for.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::grpc::{self, Chunk, Complete, Generated};

/// How an answer is written.
pub enum Wire {
    /// SGLang's `/generate` as a stream of events, each with its new ids.
    Events,
    /// SGLang's gRPC.
    Grpc { request_id: String, is_streamed: bool },
}

/// An answer that is being written.
pub struct Reply {
    pub wire: Wire,
    /// The ids that are repeated.
    pub ids: Arc<[u32]>,
    pub count: u32,
    /// The ids that were sent.
    pub sent: u32,
    pub pace: Pace,
    pub state: State,
}

/// When the next id comes.
pub enum Pace {
    /// At once, but in a packet of its own.
    AtOnce { has_yielded: bool },
    /// After a pause.
    Paused { pause: Duration, next: Pin<Box<Sleep>> },
}

/// What comes next.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum State {
    Ids,
    Last,
    Trailers,
    Over,
}

impl Reply {
    pub fn new(wire: Wire, ids: Arc<[u32]>, count: u32, pause: Duration) -> Reply {
        let pace = match pause.is_zero() {
            true => Pace::AtOnce { has_yielded: false },
            false => Pace::Paused { pause, next: Box::pin(sleep_until(Instant::now() + pause)) },
        };
        let state = match (&wire, count) {
            (Wire::Grpc { is_streamed: false, .. }, _) | (_, 0) => State::Last,
            _ => State::Ids,
        };
        Reply { wire, ids, count, sent: 0, pace, state }
    }

    fn id(&self, at: u32) -> u32 {
        self.ids.get(at as usize % self.ids.len().max(1)).copied().unwrap_or(0)
    }

    /// Writes the next id.
    fn next_id(&mut self) -> Bytes {
        let id = self.id(self.sent);
        self.sent += 1;
        let is_last = self.sent >= self.count;
        match &self.wire {
            Wire::Events => {
                let reason = if is_last { r#"{"type":"length","length":0}"# } else { "null" };
                let mut text = String::with_capacity(160);
                let _ = write!(
                    text,
                    "data: {{\"text\":\"\",\"output_ids\":[{id}],\"meta_info\":{{\"id\":\"0\",\"finish_reason\":{reason},\
                     \"prompt_tokens\":1,\"completion_tokens\":{},\"cached_tokens\":0}}}}\n\n",
                    self.sent
                );
                text.into()
            }
            Wire::Grpc { request_id, .. } => {
                let chunk = Chunk { ids: vec![id], prompt_tokens: 1, completion_tokens: self.sent };
                grpc::frame(&Generated { request_id: request_id.clone(), chunk: Some(chunk), complete: None })
            }
        }
    }

    /// Writes what comes after the ids.
    fn last(&self) -> Bytes {
        match &self.wire {
            Wire::Events => Bytes::from_static(b"data: [DONE]\n\n"),
            Wire::Grpc { request_id, .. } => {
                let complete = Complete {
                    ids: (0..self.count).map(|at| self.id(at)).collect(),
                    finish_reason: "length".to_owned(),
                    prompt_tokens: 1,
                    completion_tokens: self.count,
                };
                grpc::frame(&Generated { request_id: request_id.clone(), chunk: None, complete: Some(complete) })
            }
        }
    }

    /// Reports whether the next id may be sent now.
    fn is_due(&mut self, context: &mut Context<'_>) -> bool {
        match &mut self.pace {
            Pace::AtOnce { has_yielded } if *has_yielded => {
                *has_yielded = false;
                true
            }
            Pace::AtOnce { has_yielded } => {
                *has_yielded = true;
                context.waker().wake_by_ref();
                false
            }
            Pace::Paused { pause, next } => {
                if next.as_mut().poll(context).is_pending() {
                    return false;
                }
                let after = next.deadline() + *pause;
                next.as_mut().reset(after);
                true
            }
        }
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let reply = &mut *self;
        let frame = match reply.state {
            State::Ids => {
                if !reply.is_due(context) {
                    return Poll::Pending;
                }
                let bytes = reply.next_id();
                if reply.sent >= reply.count {
                    reply.state = State::Last;
                }
                Frame::data(bytes)
            }
            State::Last => {
                reply.state = match reply.wire {
                    Wire::Events => State::Over,
                    Wire::Grpc { .. } => State::Trailers,
                };
                Frame::data(reply.last())
            }
            State::Trailers => {
                reply.state = State::Over;
                let status = (HeaderName::from_static("grpc-status"), HeaderValue::from_static("0"));
                Frame::trailers(HeaderMap::from_iter([status]))
            }
            State::Over => return Poll::Ready(None),
        };
        Poll::Ready(Some(Ok(frame)))
    }
}
