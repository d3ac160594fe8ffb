use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures_util::stream;
use rolecall::answer::{Chunks, Completion};
use rolecall::conversation::json::{self, Layout};
use rolecall::conversation::{Json, object};
use rolecall::parse::IdParser;
use rolecall::{Event, Reading, Stop};
use tokio::sync::mpsc;

use crate::Fault;
use crate::engine::{End, Generating, broken};
use crate::fault::answer;
use crate::gateway::Permit;
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
    _permit: Permit,
}

impl Reply {
    pub fn new(turn: Turn, prompt_ids: usize, generating: Generating, stop: Vec<String>, permit: Permit) -> Reply {
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
        if let (Some(spoken), None) = (&piece.spoken, end.filter(|_| piece.end.is_none())) {
            self.reply_ids += spoken.count as u64;
            reader.push_text(&spoken.text, &mut |event| before_stops(stops, event, sink));
            if stops.is_over() {
                end = Some(End::Stop);
            }
        }
        let stop = match end {
            None => return Ok(true),
            Some(End::Stop) => Stop::End,
            Some(End::Length) => Stop::Length,
            Some(End::Abort) => return Err(Fault::new(502, "engine_aborted", "the engine aborted the reply")),
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
    ///
    /// A client that does not read for as long as `patience` is given up.
    pub async fn streamed(
        mut self,
        mut chunks: Chunks,
        has_usage: bool,
        patience: Duration,
    ) -> Result<Response, Fault> {
        let mut next = frames(&mut self, &mut chunks).await?;
        let (sender, receiver) = mpsc::channel::<String>(WAITING);
        tokio::spawn(async move {
            while let Some(text) = next {
                if sender.send_timeout(text, patience).await.is_err() {
                    return;
                }
                let found = tokio::select! {
                    // The client left.
                    () = sender.closed() => return,
                    found = frames(&mut self, &mut chunks) => found,
                };
                next = match found {
                    Ok(text) => text,
                    Err(fault) => {
                        let _ = sender.send_timeout(frame(&fault.to_json()), patience).await;
                        return;
                    }
                };
            }
            let mut last = String::new();
            if has_usage {
                last += &frame(&chunks.of_usage(self.usage()));
            }
            last += "data: [DONE]\n\n";
            let _ = sender.send_timeout(last, patience).await;
        });
        let body = stream::unfold(receiver, |mut receiver| async move {
            let text = receiver.recv().await?;
            Some((Ok::<_, Infallible>(Bytes::from(text)), receiver))
        });
        let mut response = Response::new(Body::from_stream(body));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        Ok(response)
    }
}

/// The most pieces that wait for a client to read them.
const WAITING: usize = 16;

/// Waits for the next chunks. Returns `None` after the last.
async fn frames(reply: &mut Reply, chunks: &mut Chunks) -> Result<Option<String>, Fault> {
    loop {
        let mut text = String::new();
        let goes_on =
            reply.advance(&mut |event| chunks.of_event(&event).iter().for_each(|chunk| text += &frame(chunk))).await?;
        if !goes_on {
            return Ok(None);
        }
        if !text.is_empty() {
            return Ok(Some(text));
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
    // Its text is content, too.
    if let Event::Malformed(_) = event {
        return sink(event);
    }
    let held = stops.finish();
    if !held.is_empty() {
        sink(Event::Content(&held));
    }
    sink(event);
}
