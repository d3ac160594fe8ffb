use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use eventsource_stream::{EventStreamError, Eventsource};
use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use rolecall::grammar::{Grammar, Note};
use rolecall::tokenizer::Tokenizer;
use tokio::time::{Instant, timeout_at};

use super::body::Body;
use super::generating::{Frames, Phase, Sofar};
use super::hidden::Hidden;
use super::local::Local;
use super::model_choice::ModelChoice;
use super::trouble::{broken, cause, died, down, refused, slow};
use super::wire::Wire;
use super::{About, Ask, EngineKind, EngineShape, EngineStream, LocalOptions, Loss};
use crate::{Fault, FaultCode, Limits};

/// An engine.
#[derive(Clone, Debug)]
pub struct Engine {
    kind: EngineKind,
    pub(super) address: String,
    url: String,
    pub(super) client: reqwest::Client,
    hidden: Option<Arc<Hidden>>,
    local: Option<Arc<Local>>,
    /// The most ids of a prompt and its reply, if the engine says so, once it was asked.
    context: Arc<Mutex<Option<Option<u64>>>>,
    /// The time until which it is not asked for its context, because it did not answer in time.
    silent_until: Arc<Mutex<Option<Instant>>>,
    /// How it is told which of its models is meant, once it was asked.
    pub(super) choice: Arc<Mutex<Option<ModelChoice>>>,
    first_id: Duration,
    next_id: Duration,
}

impl Engine {
    /// Returns an engine at an address, `http://host:port`.
    pub fn new(kind: EngineKind, address: &str, limits: &Limits) -> Result<Engine, String> {
        let own = address.trim_end_matches('/').to_owned();
        let url = format!("{own}{}", kind.wire().path());
        if !url.contains("://") {
            return Err(format!("{address}: expected an address such as `http://{address}`"));
        }
        let parsed = reqwest::Url::parse(&url).map_err(|error| format!("{address}: {error}"))?;
        if parsed.scheme() != "http" || !parsed.has_host() {
            return Err(format!("{address}: expected `http://host:port`"));
        }
        // Prompts go to the engine and nowhere else.
        let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
        let client = client.connect_timeout(Duration::from_secs(10)).build();
        let client = client.map_err(|error| error.to_string())?;
        let (first_id, next_id) = (limits.first_id, limits.next_id);
        Ok(Engine {
            kind,
            address: own,
            url,
            client,
            hidden: None,
            local: None,
            context: Arc::default(),
            silent_until: Arc::default(),
            choice: Arc::default(),
            first_id,
            next_id,
        })
    }

    /// Starts llama.cpp's server for a model file, and stops it when the engine is dropped. It is not ready
    /// before [`Engine::ready`] says so.
    pub fn local(file: &Path, options: &LocalOptions, limits: &Limits) -> Result<Engine, String> {
        let local = Local::start(file, options)?;
        let engine = Engine::new(EngineKind::LlamaCpp, &local.address, limits)?;
        Ok(Engine { local: Some(Arc::new(local)), ..engine })
    }

    /// Opens an engine by its address: `http://host:port`, or `local:FILE.gguf` for llama.cpp's server, which is started.
    pub fn open(address: &str, kind: EngineKind, local: &LocalOptions, limits: &Limits) -> Result<Engine, String> {
        match (address.strip_prefix("local:"), kind) {
            (Some(file), EngineKind::LlamaCpp) => Engine::local(file.as_ref(), local, limits),
            (Some(_), _) => Err(format!("{address}: only llama.cpp's server can be started")),
            (None, kind) => Engine::new(kind, address, limits),
        }
    }

    /// Waits until the engine has loaded its model, and returns what it says of itself.
    pub async fn ready(&self, patience: Duration) -> Result<About, Fault> {
        let end = Instant::now() + patience;
        loop {
            match self.probe(PROBE.min(patience)).await {
                Err(fault) if fault.code != FaultCode::EngineDied && Instant::now() < end => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                answer => return answer,
            }
        }
    }

    /// Returns the same engine with the tokenizer of its model. An engine may not tell all ids,
    /// and some can only be found with it.
    #[must_use]
    pub fn knowing(self, tokenizer: &Arc<dyn Tokenizer>) -> Engine {
        let hidden = self.wire().hides_ids().then(|| Arc::new(Hidden::of(tokenizer)));
        Engine { hidden, ..self }
    }

    /// Starts a server of one's own again if it has ended. Returns what happened, once for each end.
    pub fn revive(&self) -> Option<String> {
        self.local.as_ref()?.revive()
    }

    /// Returns what became of a server of one's own that has ended and is not started again.
    pub fn loss(&self) -> Option<Loss> {
        self.local.as_ref()?.loss()
    }

    /// Reports whether this is a server of one's own.
    pub fn is_local(&self) -> bool {
        self.local.is_some()
    }

    /// Notes that a server of one's own is ready.
    pub(super) fn note_ready(&self) {
        if let Some(local) = &self.local {
            local.note_ready();
        }
    }

    /// Returns how a server of one's own ended, with its last output, if it has.
    pub fn last_output(&self) -> Option<String> {
        self.local.as_ref()?.story()
    }

    /// Returns the error of a server that was started, and has ended.
    pub(super) fn local_fault(&self) -> Option<Fault> {
        self.local.as_ref()?.fault()
    }

    /// Returns what is not as safe with this engine as with others, if anything is.
    pub fn warning(&self) -> Option<&'static str> {
        self.kind.is_by_text().then_some(
            "the engine gets text instead of ids, so control tokens that messages spell cannot be told from the template's",
        )
    }

    /// Returns the kind of engine.
    pub fn kind(&self) -> EngineKind {
        self.kind
    }

    pub(super) fn wire(&self) -> &'static dyn Wire {
        self.kind.wire()
    }

    /// Prints a grammar in the language of the engine, with notes of what the grammar does not say.
    pub fn shape_of(&self, grammar: &Grammar) -> Result<(EngineShape, Vec<Note>), Fault> {
        self.wire().shape(grammar)
    }

    /// Returns the most ids that a reply can have, if the engine says so. Not all engines by text do.
    async fn room(&self, ask: &Ask) -> Result<Option<u64>, Fault> {
        let context = self.known_context().await?;
        // An engine by text may put a token before the prompt. One that is too long is refused by the engine.
        let prompt = ask.ids.len() as u64 + u64::from(self.kind.is_by_text());
        match context {
            Some(context) => Ok(Some(context.saturating_sub(prompt).max(1))),
            None if self.kind.is_by_text() => Ok(None),
            None => {
                let message = "the engine does not say how long a reply may be, so the request must";
                Err(Fault::at("max_tokens", FaultCode::MissingField, message))
            }
        }
    }

    /// Returns the most ids of a prompt and its reply, if the engine says so. It is asked once, and again for a prompt
    /// that does not fit, because another model may run there by now.
    pub async fn context(&self, prompt: u64) -> Option<u64> {
        let known = self.context_in_time().await?;
        if prompt < known {
            return Some(known);
        }
        self.forget_context();
        self.context_in_time().await
    }

    /// Asks an engine that does not answer in time again after a while, and not for each request.
    async fn context_in_time(&self) -> Option<u64> {
        let is_silent = |until: Option<Instant>| until.is_some_and(|until| Instant::now() < until);
        if is_silent(*self.silent_until.lock().unwrap_or_else(PoisonError::into_inner)) {
            return self.said_context();
        }
        let answer = tokio::time::timeout(PROBE.min(self.first_id), self.known_context()).await;
        if answer.is_err() {
            *self.silent_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + SILENCE);
        }
        answer.ok()?.ok()?
    }

    /// Returns the most ids of a prompt and its reply, if the engine has said so already.
    pub fn said_context(&self) -> Option<u64> {
        self.context.lock().unwrap_or_else(PoisonError::into_inner).flatten()
    }

    /// An engine that does not answer is asked again the next time.
    async fn known_context(&self) -> Result<Option<u64>, Fault> {
        let known = *self.context.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(context) = known {
            return Ok(context);
        }
        let context = self.own_context().await?;
        *self.context.lock().unwrap_or_else(PoisonError::into_inner) = Some(context);
        Ok(context)
    }

    fn forget_context(&self) {
        *self.context.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Begins a reply.
    pub async fn generate(&self, ask: &Ask) -> Result<EngineStream, Fault> {
        let deadline = Instant::now() + self.first_id;
        let frames = Box::pin(self.frames(ask, deadline).await?);
        Ok(self.generating(frames, ask.logprobs, deadline))
    }

    /// Returns a reply that begins when it is read. An engine that samples one reply after the other finishes
    /// each of several only if the ones before it are read.
    pub fn generate_when_read(&self, ask: Ask) -> EngineStream {
        let deadline = Instant::now() + self.first_id;
        let (engine, logprobs) = (self.clone(), ask.logprobs);
        let frames = stream::once(async move { engine.frames(&ask, deadline).await }).try_flatten();
        self.generating(Box::pin(frames), logprobs, deadline)
    }

    fn generating(&self, frames: Frames, logprobs: Option<u32>, deadline: Instant) -> EngineStream {
        EngineStream {
            kind: self.kind,
            frames,
            sofar: Sofar { count: 0, logprobs },
            hidden: self.hidden.clone(),
            deadline,
            patience: self.first_id,
            next_id: self.next_id,
            phase: Phase::Replying,
        }
    }

    /// Sends a request, and returns the frames of the answer.
    async fn frames(
        &self,
        ask: &Ask,
        deadline: Instant,
    ) -> Result<impl Stream<Item = Result<String, Fault>> + Send + use<>, Fault> {
        let room = match self.wire().needs_room() && ask.sampling.max_tokens.is_none() {
            true => timeout_at(deadline, self.room(ask)).await.map_err(|_| slow(self.first_id))??,
            false => None,
        };
        let choice =
            timeout_at(deadline, self.choice(ask.model.as_deref())).await.map_err(|_| slow(self.first_id))??;
        let mut body = self.wire().body(ask, room);
        choice.add_to(&mut body);
        let body = match self.wire().ids_key() {
            Some(key) => Body::with_ids(key, &ask.ids, body),
            None => Body::new(body),
        };
        let request =
            self.client.post(&self.url).header("content-type", "application/json").body(reqwest::Body::wrap(body));
        let sent = timeout_at(deadline, request.send()).await.map_err(|_| slow(self.first_id))?;
        let response = sent.map_err(|error| self.local_fault().unwrap_or_else(|| down(&self.url, &error)))?;
        let status = response.status();
        if !status.is_success() {
            // Another model may run there now.
            self.forget_context();
            self.forget_choice();
            let start = tokio::time::timeout(self.next_id, response.bytes_stream().next()).await;
            let start = start.ok().flatten().and_then(Result::ok).unwrap_or_default();
            return Err(refused(status.as_u16(), &String::from_utf8_lossy(&start)));
        }
        self.note_ready();
        let mut frame = 0;
        let limited = response.bytes_stream().map(move |bytes| {
            let bytes = bytes.map_err(|error| died(&cause(&error)))?;
            frame = match bytes.iter().rposition(|byte| *byte == b'\n') {
                Some(end) => bytes.len() - end,
                None => frame + bytes.len(),
            };
            match frame <= MOST_FRAME {
                true => Ok(bytes),
                false => Err(broken(&format!("a frame has more than {MOST_FRAME} bytes"))),
            }
        });
        Ok(limited.eventsource().map(|frame| match frame {
            Ok(frame) => Ok(frame.data),
            Err(EventStreamError::Transport(fault)) => Err(fault),
            Err(EventStreamError::Utf8(error)) => Err(broken(&error.to_string())),
            Err(EventStreamError::Parser(error)) => Err(broken(&error.to_string())),
        }))
    }
}

/// How long one question to an engine that starts may take.
const PROBE: Duration = Duration::from_secs(5);

/// How long an engine that did not say its context in time is not asked for it again.
const SILENCE: Duration = Duration::from_secs(60);

/// The most bytes of a line of an engine's answer.
const MOST_FRAME: usize = 16 << 20;
