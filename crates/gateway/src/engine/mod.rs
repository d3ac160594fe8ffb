//! Engines: ids in, ids out.
//!
//! Each engine has a file with two functions without side effects: the body of a request, and what a
//! frame of the answer says. [`Engine::generate`] does the rest for all of them: it connects, waits no
//! longer than the limits allow, and checks the frames. Dropping a [`Generating`] closes the connection,
//! which every one of these engines takes as the order to stop.

mod llama_cpp;
mod sglang;
mod vllm;

use std::pin::Pin;
use std::time::Duration;

use eventsource_stream::Eventsource;
use futures_util::{Stream, StreamExt};
use rolecall::conversation::Json;
use rolecall::conversation::json::{self, Layout, Object};
use tokio::time::{Instant, timeout_at};

use crate::number::of_double;
use crate::sampling::Sampling;
use crate::{Fault, Limits, number};

/// A kind of engine, by its wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// llama.cpp's server: `/completion`.
    LlamaCpp,
    /// vLLM: `/v1/completions` with `return_token_ids`.
    Vllm,
    /// SGLang: `/generate`.
    Sglang,
}

impl Kind {
    /// The kinds by their words.
    pub const ALL: [(&'static str, Kind); 3] =
        [("llama.cpp", Kind::LlamaCpp), ("vllm", Kind::Vllm), ("sglang", Kind::Sglang)];

    fn path(self) -> &'static str {
        match self {
            Kind::LlamaCpp => "/completion",
            Kind::Vllm => "/v1/completions",
            Kind::Sglang => "/generate",
        }
    }

    fn body(self, ask: &Ask) -> Json {
        Json::Object(match self {
            Kind::LlamaCpp => llama_cpp::body(ask),
            Kind::Vllm => vllm::body(ask),
            Kind::Sglang => sglang::body(ask),
        })
    }
}

/// What an engine is to generate.
#[derive(Clone, Debug, Default)]
pub struct Ask {
    /// The ids of the prompt.
    pub ids: Vec<u32>,
    /// How to sample.
    pub sampling: Sampling,
    /// The ids that end the reply.
    pub stop_ids: Vec<u32>,
    /// A grammar that the reply must follow, in GBNF.
    pub gbnf: Option<String>,
    /// The engine's name for the model.
    pub model: Option<String>,
}

/// A part of an engine's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// The ids that were sampled.
    pub ids: Vec<u32>,
    /// What was sampled after them, if the engine does not tell the ids.
    pub spoken: Option<Spoken>,
    /// Why the reply ended, if it did.
    pub end: Option<End>,
    /// The number of ids of the prompt that the engine already had, if it says so.
    pub cached: Option<u64>,
}

/// Text of ordinary tokens whose ids an engine does not tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spoken {
    /// The text.
    pub text: String,
    /// The number of ids.
    pub count: usize,
}

/// Why a reply ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The model stopped.
    Stop,
    /// The limit of ids was reached.
    Length,
    /// The engine gave up.
    Abort,
}

/// An engine.
#[derive(Clone, Debug)]
pub struct Engine {
    kind: Kind,
    url: String,
    client: reqwest::Client,
    first_id: Duration,
    next_id: Duration,
}

/// A reply in the making.
pub struct Generating {
    kind: Kind,
    frames: Pin<Box<dyn Stream<Item = Result<String, String>> + Send>>,
    /// The number of ids so far.
    count: usize,
    /// When the next id must be there, and how long that was from the id before.
    deadline: Instant,
    patience: Duration,
    next_id: Duration,
    has_ended: bool,
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
            count: 0,
            deadline,
            patience: self.first_id,
            next_id: self.next_id,
            has_ended: false,
        })
    }
}

impl Generating {
    /// Returns the number of ids that the engine already had, if it still says so after a stop token.
    pub async fn last_word(&mut self) -> Option<u64> {
        tokio::time::timeout(LAST_WORD, self.next()).await.ok()?.ok()??.cached
    }

    /// Reports whether the last piece was read.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Returns the next piece, or `None` after the last.
    pub async fn next(&mut self) -> Result<Option<Piece>, Fault> {
        if self.has_ended {
            return Ok(None);
        }
        // Frames without ids do not buy time.
        let next = timeout_at(self.deadline, self.frames.next()).await.map_err(|_| slow(self.patience))?;
        let frame = match next {
            Some(Ok(frame)) if frame.trim() != "[DONE]" => frame,
            Some(Err(error)) => return Err(broken(&error)),
            // A reply that ends without a reason was cut off.
            _ => return Err(broken("the answer ended before the reply did")),
        };
        let Ok(Json::Object(frame)) = json::parse(&frame) else {
            return Err(broken("a frame is no JSON object"));
        };
        if let Some(error) = frame.get("error").filter(|error| !error.is_null()) {
            let status =
                error.as_object().and_then(|error| count(error, "code")).and_then(|code| u16::try_from(code).ok());
            return Err(refused(status.unwrap_or(500), &json::write(error, &Layout::compact())));
        }
        let piece = match self.kind {
            Kind::LlamaCpp => llama_cpp::piece(&frame, self.count),
            Kind::Vllm => vllm::piece(&frame),
            Kind::Sglang => sglang::piece(&frame, self.count),
        };
        let piece = piece.ok_or_else(|| broken("a frame does not have what it should have"))?;
        let new = piece.ids.len() + piece.spoken.as_ref().map_or(0, |spoken| spoken.count);
        self.count += new;
        if new > 0 {
            self.deadline = Instant::now() + self.next_id;
            self.patience = self.next_id;
        }
        self.has_ended = piece.end.is_some();
        Ok(Some(piece))
    }
}

/// The most bytes of a line of an engine's answer.
const MOST_FRAME: usize = 16 << 20;

/// How long an engine that sampled a stop token may take to say so. Most say it at once, with the usage.
const LAST_WORD: Duration = Duration::from_millis(50);

/// Reads ids. Returns `None` if an item is no id.
fn ids(value: Option<&Json>) -> Option<Vec<u32>> {
    value?.as_array()?.iter().map(number::id).collect()
}

fn count(object: &Object, key: &str) -> Option<u64> {
    number::count(object.get(key)?)
}

/// Adds what is set.
fn set(object: &mut Object, key: &str, value: Option<impl Into<Json>>) {
    if let Some(value) = value {
        object.insert(key, value.into());
    }
}

/// Adds the settings that all engines have under the same names.
fn set_shared(object: &mut Object, sampling: &Sampling) {
    set(object, "temperature", sampling.temperature.map(of_double));
    set(object, "top_p", sampling.top_p.map(of_double));
    set(object, "min_p", sampling.min_p.map(of_double));
    set(object, "presence_penalty", sampling.presence_penalty.map(of_double));
    set(object, "frequency_penalty", sampling.frequency_penalty.map(of_double));
}

/// Returns what is added to logits, by ids as texts.
fn biases_by_id(sampling: &Sampling) -> Option<Object> {
    let bias = |(id, bias): &(u32, f64)| (id.to_string(), of_double(*bias));
    (!sampling.logit_bias.is_empty()).then(|| sampling.logit_bias.iter().map(bias).collect())
}

fn json_ids(ids: &[u32]) -> Json {
    Json::Array(ids.iter().map(|id| Json::from(i64::from(*id))).collect())
}

fn whole(number: Option<u64>) -> Option<i64> {
    number.map(|number| i64::try_from(number).unwrap_or(i64::MAX))
}

fn down(url: &str, error: &reqwest::Error) -> Fault {
    let help = Some("check that the engine runs at this address".into());
    Fault { help, ..Fault::new(502, "engine_down", format!("the engine at {url} does not answer: {}", cause(error))) }
}

/// Returns the innermost reason of an error.
fn cause(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

fn slow(patience: Duration) -> Fault {
    Fault::new(504, "engine_slow", format!("the engine sent no ids for {} s", patience.as_secs_f64()))
}

pub(crate) fn broken(what: &str) -> Fault {
    Fault::new(502, "engine_broken", format!("the engine's answer is damaged: {what}"))
}

fn refused(status: u16, text: &str) -> Fault {
    let text: String = text.chars().take(500).collect();
    let own = match status {
        400 | 413 | 422 => 400,
        429 | 503 => 503,
        _ => 502,
    };
    Fault::new(own, "engine_refused", format!("the engine refused the request with status {status}: {text}"))
}
