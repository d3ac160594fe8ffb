use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Bytes;
use http_body::{Frame, SizeHint};
use rolecall::conversation::Json;
use rolecall::conversation::json::{self, Layout, Object};

use super::PromptIds;

/// The body of a request to an engine, in parts that are sent after each other without being copied.
#[derive(Clone, Debug)]
pub(super) struct Body {
    parts: VecDeque<Bytes>,
    len: u64,
}

impl Body {
    /// Writes an object.
    pub fn new(object: Object) -> Body {
        Body::of([json::write(&Json::Object(object), &Layout::compact()).into()])
    }

    /// Writes an object that also has ids.
    pub fn with_ids(key: &str, ids: &PromptIds, object: Object) -> Body {
        let rest = json::write(&Json::Object(object), &Layout::compact());
        let mut start = String::from("{");
        json::write_string(&mut start, key, false);
        start += ":[";
        let end = match rest.strip_prefix('{') {
            Some("}") | None => "]}".to_owned(),
            Some(rest) => format!("],{rest}"),
        };
        Body::of([Bytes::from(start)].into_iter().chain(ids.digits()).chain([end.into()]))
    }

    fn of(parts: impl IntoIterator<Item = Bytes>) -> Body {
        let parts: VecDeque<Bytes> = parts.into_iter().collect();
        let len = parts.iter().map(|part| part.len() as u64).sum();
        Body { parts, len }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let part = self.parts.pop_front();
        self.len -= part.as_ref().map_or(0, |part| part.len() as u64);
        Poll::Ready(part.map(|part| Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.parts.is_empty()
    }

    // With the exact size, the request has a `content-length`, which some engines need.
    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.len)
    }
}
