use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::HeaderValue;
use axum::response::Response;
use http_body::{Frame, SizeHint};

use crate::FaultCode;

use super::RequestLog;
use super::request_log::REQUEST_ID;

/// Watches a request until its answer has been sent, or the client has left.
#[derive(Debug)]
pub struct Watch {
    seen: RequestLog,
    /// The status of the answer. Until there is one, that of nginx for clients that leave.
    status: u16,
    is_whole: bool,
}

impl Watch {
    pub fn new(seen: RequestLog) -> Watch {
        Watch { seen, status: 499, is_whole: false }
    }

    /// Goes on with watching an answer while it is sent.
    pub fn answer(mut self, response: Response) -> Response {
        let (mut head, body) = response.into_parts();
        self.status = head.status.as_u16();
        // A response carries the code of its error to the log.
        if let Some(code) = head.extensions.get::<FaultCode>() {
            self.seen.fault(*code);
        }
        if let Ok(id) = HeaderValue::from_str(self.seen.id()) {
            // The SDKs of OpenAI and of Anthropic look for it in different places.
            head.headers.insert("request-id", id.clone());
            head.headers.insert(REQUEST_ID, id);
        }
        self.is_whole = body.is_end_stream();
        Response::from_parts(head, Body::new(WatchedBody { body, watch: self }))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.seen.end(self.status, self.is_whole);
    }
}

/// The body of an answer that is watched.
struct WatchedBody {
    body: Body,
    watch: Watch,
}

impl HttpBody for WatchedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let next = Pin::new(&mut self.body).poll_frame(context);
        match &next {
            Poll::Ready(None) => self.watch.is_whole = true,
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(part) = frame.data_ref() {
                    self.watch.seen.reply(part);
                }
                // The server does not ask again after the last part of a body whose length it knows.
                self.watch.is_whole = self.body.is_end_stream();
            }
            _ => {}
        }
        next
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
