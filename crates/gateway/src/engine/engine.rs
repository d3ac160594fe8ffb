use std::time::Duration;

use eventsource_stream::Eventsource;
use futures_util::StreamExt;
use rolecall::conversation::json::{self, Layout};
use rolecall::grammar::Grammar;
use tokio::time::{Instant, timeout_at};

use super::generating::Sofar;
use super::trouble::{cause, down, refused, slow};
use super::{Ask, Generating, Kind, Shape};
use crate::{Fault, Limits};

/// An engine.
#[derive(Clone, Debug)]
pub struct Engine {
    kind: Kind,
    url: String,
    client: reqwest::Client,
    first_id: Duration,
    next_id: Duration,
}

impl Engine {
    /// Returns an engine at an address, `http://host:port`.
    pub fn new(kind: Kind, address: &str, limits: &Limits) -> Result<Engine, String> {
        let url = format!("{}{}", address.trim_end_matches('/'), kind.path());
        let parsed = reqwest::Url::parse(&url).map_err(|error| format!("{address}: {error}"))?;
        if parsed.scheme() != "http" || !parsed.has_host() {
            return Err(format!("{address}: expected `http://host:port`"));
        }
        // Prompts go to the engine and nowhere else.
        let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
        let client = client.connect_timeout(Duration::from_secs(10)).build();
        let client = client.map_err(|error| error.to_string())?;
        Ok(Engine { kind, url, client, first_id: limits.first_id, next_id: limits.next_id })
    }

    /// Returns the kind of engine.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Prints a grammar in the language of the engine.
    pub fn shape_of(&self, grammar: &Grammar) -> Result<Shape, Fault> {
        Shape::of(self.kind, grammar)
    }

    /// Begins a reply.
    pub async fn generate(&self, ask: &Ask) -> Result<Generating, Fault> {
        let deadline = Instant::now() + self.first_id;
        let body = json::write(&self.kind.body(ask), &Layout::compact());
        let request = self.client.post(&self.url).header("content-type", "application/json").body(body);
        let sent = timeout_at(deadline, request.send()).await.map_err(|_| slow(self.first_id))?;
        let response = sent.map_err(|error| down(&self.url, &error))?;
        let status = response.status();
        if !status.is_success() {
            let start = tokio::time::timeout(self.next_id, response.bytes_stream().next()).await;
            let start = start.ok().flatten().and_then(Result::ok).unwrap_or_default();
            return Err(refused(status.as_u16(), &String::from_utf8_lossy(&start)));
        }
        let mut frame = 0;
        let limited = response.bytes_stream().map(move |bytes| {
            let bytes = bytes.map_err(|error| cause(&error))?;
            frame = match bytes.iter().rposition(|byte| *byte == b'\n') {
                Some(end) => bytes.len() - end,
                None => frame + bytes.len(),
            };
            match frame <= MOST_FRAME {
                true => Ok(bytes),
                false => Err(format!("a frame has more than {MOST_FRAME} bytes")),
            }
        });
        let frames = limited.eventsource().map(|frame| match frame {
            Ok(frame) => Ok(frame.data),
            Err(error) => Err(error.to_string()),
        });
        Ok(Generating {
            kind: self.kind,
            frames: Box::pin(frames),
            sofar: Sofar { count: 0, logprobs: ask.logprobs },
            deadline,
            patience: self.first_id,
            next_id: self.next_id,
            has_ended: false,
        })
    }
}

/// The most bytes of a line of an engine's answer.
const MOST_FRAME: usize = 16 << 20;
