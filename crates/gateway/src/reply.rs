use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures_util::stream;
use rolecall::answer::{Chunks, Completion};
use rolecall::conversation::json::{self, Layout};
use rolecall::conversation::{Json, object};
use rolecall::parse::IdParser;
use rolecall::{Event, Reading, Stop};
use tokio::sync::OwnedSemaphorePermit;

use crate::Fault;
use crate::engine::{End, Generating, broken};
use crate::fault::answer;
use crate::stop_texts::StopTexts;
use crate::turn::Turn;

/// A reply while the engine samples it.
pub struct Reply {
    generating: Generating,
    /// `None` once the reply is over.
    reader: Option<IdParser>,
    /// The ids that end it, each with whether the parser must get it.
    stop_ids: Vec<(u32, bool)>,
    stops: StopTexts,
    prompt_ids: usize,
    reply_ids: u64,
    cached: Option<u64>,
    /// The place among the requests at the same time.
    _permit: OwnedSemaphorePermit,
}

impl Reply {
    pub fn new(
        turn: Turn,
        prompt_ids: usize,
        generating: Generating,
        stop: Vec<String>,
        permit: OwnedSemaphorePermit,
    ) -> Reply {
        Reply {
            generating,
            reader: Some(turn.reader),
            stop_ids: turn.stops,
            stops: StopTexts::new(stop),
            prompt_ids,
            reply_ids: 0,
            cached: None,
            _permit: permit,
        }
    }

    /// Waits for the next ids and passes their events on. Returns false after the last.
    async fn advance(&mut self, sink: &mut (dyn FnMut(Event<'_>) + Send)) -> Result<bool, Fault> {
        let Some(reader) = &mut self.reader else { return Ok(false) };
        let Some(piece) = self.generating.next().await? else { return Ok(false) };
        self.cached = piece.cached.or(self.cached);
        let stops = &mut self.stops;
        let mut end = piece.end;
        for id in &piece.ids {
            self.reply_ids += 1;
            let stop = self.stop_ids.iter().find(|(known, _)| known == id);
            if stop.is_none_or(|(_, is_read)| *is_read) {
                let taken = reader.push(*id, &mut |event| before_stops(stops, event, sink));
                taken.map_err(|error| broken(&error.to_string()))?;
            }
            // What comes after it is not wanted. The engine stops when the connection closes.
            if stop.is_some() || stops.is_over() {
                end = Some(End::Stop);
                break;
            }
        }
        let stop = match end {
            None => return Ok(true),
            Some(End::Stop) => Stop::End,
            Some(End::Length) => Stop::Length,
            Some(End::Abort) => return Err(Fault::new(502, "engine_aborted", "the engine gave the reply up")),
        };
        if piece.end.is_none() && !stops.is_over() {
            self.cached = self.generating.last_word().await.or(self.cached);
        }
        if let Some(reader) = self.reader.take() {
            reader.finish(stop, &mut |event| before_stops(stops, event, sink));
        }
        if stops.is_over() {
            sink(Event::Stop(Stop::End));
        }
        Ok(true)
    }

    fn usage(&self) -> Json {
        let (prompt, reply) = (self.prompt_ids as i64, i64::try_from(self.reply_ids).unwrap_or(i64::MAX));
        let mut usage = object! {
            "prompt_tokens" => prompt, "completion_tokens" => reply, "total_tokens" => prompt.saturating_add(reply),
        };
        if let Some(cached) = self.cached {
            let cached = i64::try_from(cached).unwrap_or(i64::MAX);
            usage.insert("prompt_tokens_details", object! { "cached_tokens" => cached }.into());
        }
        usage.into()
    }

    /// Waits for the whole reply, and returns it as a `chat.completion`.
    pub async fn whole(mut self, completion: Completion) -> Result<Response, Fault> {
        let mut reading = Reading::default();
        while self.advance(&mut |event| reading.add(&event)).await? {}
        let mut value = completion.of_reading(&reading);
        if let Json::Object(value) = &mut value {
            value.insert("usage", self.usage());
        }
        Ok(answer(&value))
    }

    /// Returns the reply as a stream of `chat.completion.chunk`s. The first ids are waited for, so that
    /// an engine that refuses the request gives an error with a status.
    pub async fn streamed(mut self, chunks: Chunks, has_usage: bool) -> Result<Response, Fault> {
        let mut chunks = chunks;
        let first = frames(&mut self, &mut chunks).await?;
        let state = State { reply: self, chunks, waiting: first, has_usage };
        let body = Body::from_stream(stream::unfold(Some(state), |state| async move {
            let mut state = state?;
            let bytes = match state.waiting.take() {
                Some(bytes) => bytes,
                None => match frames(&mut state.reply, &mut state.chunks).await {
                    Ok(Some(bytes)) => bytes,
                    Ok(None) => return Some((Ok::<_, Infallible>(state.end()), None)),
                    Err(fault) => return Some((Ok(frame(&fault.to_json()).into()), None)),
                },
            };
            Some((Ok(bytes), Some(state)))
        }));
        let mut response = Response::new(body);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        Ok(response)
    }
}

/// A stream that is being sent.
struct State {
    reply: Reply,
    chunks: Chunks,
    waiting: Option<Bytes>,
    has_usage: bool,
}

impl State {
    fn end(self) -> Bytes {
        let mut text = String::new();
        if self.has_usage {
            text += &frame(&self.chunks.of_usage(self.reply.usage()));
        }
        text += "data: [DONE]\n\n";
        text.into()
    }
}

/// Waits for the next chunks. Returns `None` after the last.
async fn frames(reply: &mut Reply, chunks: &mut Chunks) -> Result<Option<Bytes>, Fault> {
    loop {
        let mut text = String::new();
        let goes_on =
            reply.advance(&mut |event| chunks.of_event(&event).iter().for_each(|chunk| text += &frame(chunk))).await?;
        if !goes_on {
            return Ok(None);
        }
        if !text.is_empty() {
            return Ok(Some(text.into()));
        }
    }
}

fn frame(value: &Json) -> String {
    format!("data: {}\n\n", json::write(value, &Layout::compact()))
}

/// Passes an event on, but no content from a stop text on.
fn before_stops(stops: &mut StopTexts, event: Event<'_>, sink: &mut (dyn FnMut(Event<'_>) + Send)) {
    if stops.is_over() {
        return;
    }
    if let Event::Content(text) = event {
        let kept = stops.push(text);
        if !kept.is_empty() {
            sink(Event::Content(&kept));
        }
        return;
    }
    let held = stops.finish();
    if !held.is_empty() {
        sink(Event::Content(&held));
    }
    sink(event);
}
