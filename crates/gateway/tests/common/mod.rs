//! A stand-in for an engine, and a gateway in front of it.

#![allow(clippy::panic, clippy::unwrap_used, dead_code, reason = "tests panic to fail, and each uses a part of this")]

pub mod engines;

use std::collections::{HashSet, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use futures_util::stream;
use rolecall::Model;
use rolecall::conversation::{Json, json};
use rolecall::format::registry;
use rolecall::session::OnRewrite;
use rolecall_gateway::engine::EngineKind;
use rolecall_gateway::{Config, Gateway, Keys, Limits, ModelConfig, Telling, serve};
use rolecall_testkit::Toy;
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::JoinHandle;

use engines::FrameIds;

/// Returns all kinds of engines.
pub fn kinds() -> impl Iterator<Item = EngineKind> {
    EngineKind::ALL.into_iter().map(|(_, kind)| kind)
}

/// Returns the kinds that get ids.
pub fn by_ids() -> impl Iterator<Item = EngineKind> {
    kinds().filter(|kind| !kind.is_by_text())
}

/// An id with its log probability, and those of the most likely tokens.
pub type Sampled = (u32, f64, Vec<(u32, f64)>);

/// What a stand-in answers.
#[derive(Clone, Debug)]
pub enum Step {
    Ids(Vec<u32>),
    /// Ids with their log probabilities.
    Odds(Vec<Sampled>),
    /// Ids of which llama.cpp tells only the last, with their text.
    Hidden(Vec<u32>, &'static str),
    /// Text of an engine that returns no ids.
    Text(String),
    /// The end of the reply: `stop`, `length`, or a word of the engine's own.
    End(&'static str),
    Raw(String),
    Wait(Duration),
    /// The connection breaks.
    Break,
}

#[derive(Clone)]
pub struct StandIn {
    pub kind: EngineKind,
    pub steps: Vec<Step>,
    /// The steps of the next answers, before those.
    pub script: Arc<Mutex<VecDeque<Vec<Step>>>>,
    pub status: u16,
    /// The most ids of a prompt and its reply that it says it has.
    pub context: usize,
    /// Whether frames of SGLang have all ids so far.
    pub is_cumulative: bool,
    pub bodies: Arc<Mutex<Vec<String>>>,
    /// The answers that were dropped before their end.
    pub dropped: Arc<AtomicUsize>,
    /// The answers that may be sent at the same time. Others wait without a status.
    pub places: Arc<Semaphore>,
    /// The connections on which it was asked for replies.
    pub peers: Arc<Mutex<HashSet<SocketAddr>>>,
}

impl StandIn {
    pub fn new(kind: EngineKind, steps: Vec<Step>) -> StandIn {
        let (bodies, dropped) = (Arc::default(), Arc::default());
        let places = Arc::new(Semaphore::new(Semaphore::MAX_PERMITS));
        StandIn {
            kind,
            steps,
            script: Arc::default(),
            status: 200,
            context: 1 << 20,
            is_cumulative: true,
            bodies,
            dropped,
            places,
            peers: Arc::default(),
        }
    }

    /// Starts it, and returns its address.
    pub async fn start(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(answer).with_state(self.clone());
        let router = router.into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        format!("http://{address}")
    }

    /// Returns the last body that it received.
    pub fn body(&self) -> json::Object {
        let bodies = self.bodies.lock().unwrap();
        json::parse(bodies.last().unwrap()).unwrap().as_object().unwrap().clone()
    }

    /// Returns the ids of the prompt that it received.
    pub fn prompt(&self) -> Vec<u32> {
        let body = self.body();
        let ids = body.get(engines::of(self.kind).ids_key()).unwrap();
        ids.as_array().unwrap().iter().map(integer).collect()
    }

    fn frame(&self, step: &Step, before: &[u32]) -> String {
        let ids =
            |new| FrameIds { new, all: before.iter().chain(new).copied().collect(), is_cumulative: self.is_cumulative };
        let frames = engines::of(self.kind);
        let text = match step {
            Step::Odds(odds) => {
                let new: Vec<u32> = odds.iter().map(|(id, ..)| *id).collect();
                frames.odds(&ids(&new), odds)
            }
            Step::Hidden(ids, text) => {
                let (last, total) = (ids.last().unwrap(), before.len() + ids.len());
                format!(r#"{{"content": {text:?}, "tokens": [{last}], "stop": false, "tokens_predicted": {total}}}"#)
            }
            Step::End(word) => frames.frame(&ids(&[]), Some(word)),
            Step::Text(text) => engines::written(text),
            Step::Ids(new) => frames.frame(&ids(new), None),
            Step::Raw(text) => return text.clone(),
            Step::Wait(_) | Step::Break => return String::new(),
        };
        format!("data: {text}\n\n")
    }
}

/// Counts answers that are dropped before their end.
struct Guard {
    dropped: Arc<AtomicUsize>,
    has_ended: bool,
    _place: OwnedSemaphorePermit,
}

impl Guard {
    fn end(mut self) {
        self.has_ended = true;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.has_ended {
            self.dropped.fetch_add(1, Ordering::SeqCst);
        }
    }
}

async fn answer(
    State(mut engine): State<StandIn>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response {
    if request.method() == axum::http::Method::GET {
        if engine.context == SILENT && request.uri().path() == "/props" {
            std::future::pending::<()>().await;
        }
        return page(engine.kind, request.uri().path(), engine.context);
    }
    if request.uri().path() != engines::of(engine.kind).path() {
        return missing();
    }
    engine.peers.lock().unwrap().insert(peer);
    let body = axum::body::to_bytes(request.into_body(), usize::MAX).await.unwrap();
    if let Some(steps) = engine.script.lock().unwrap().pop_front() {
        engine.steps = steps;
    }
    engine.bodies.lock().unwrap().push(String::from_utf8(body.to_vec()).unwrap());
    let place = Arc::clone(&engine.places).acquire_owned().await.unwrap();
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::from_u16(engine.status).unwrap();
    let guard = Guard { dropped: Arc::clone(&engine.dropped), has_ended: false, _place: place };
    let state = (engine, 0, Vec::new(), guard);
    *response.body_mut() = Body::from_stream(stream::unfold(state, |(engine, at, mut all, guard)| async move {
        let Some(step) = engine.steps.get(at).cloned() else {
            guard.end();
            return None;
        };
        if let Step::Wait(time) = &step {
            tokio::time::sleep(*time).await;
        }
        let bytes: Result<Bytes, std::io::Error> = match &step {
            Step::Break => Err(std::io::Error::other("broken on purpose")),
            step => Ok(engine.frame(step, &all).into()),
        };
        match &step {
            Step::Ids(ids) | Step::Hidden(ids, _) => all.extend(ids),
            Step::Odds(odds) => all.extend(odds.iter().map(|(id, ..)| *id)),
            _ => {}
        }
        Some((bytes, (engine, at + 1, all, guard)))
    }));
    response
}

/// The context of a stand-in for SGLang that has an adapter.
pub const WITH_ADAPTER: usize = 4096;

/// The context of a stand-in for llama.cpp that does not answer when it is asked for it.
pub const SILENT: usize = 0;

/// What an engine says of itself.
fn page(kind: EngineKind, path: &str, context: usize) -> Response {
    match engines::of(kind).page(path, context) {
        Some(text) => Response::new(Body::from(text.replace("CONTEXT", &context.to_string()))),
        None => missing(),
    }
}

fn missing() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}

/// A model of a built-in format, whose tokens are bytes.
pub fn model(format: &str) -> Model {
    let toy = Toy::of(registry().get(format).unwrap());
    Model::builder().model(format).loaded_tokenizer(Arc::new(toy)).open().unwrap()
}

/// A model of ChatML with other lines under `[generation]`, in which `STOPHERE` may be a stop text.
pub fn model_with(generation: &str) -> Model {
    let chatml = include_str!("../../../../formats/chatml.toml").replacen(
        "name   = \"chatml\"",
        "name = \"own\"\nplain-marks = [\"STOPHERE\"]",
        1,
    );
    let (chatml, _) = chatml.split_once("stop = [").unwrap();
    let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    std::fs::write(file.path(), format!("{chatml}\n{generation}\n")).unwrap();
    let toy = Toy::of(registry().get("chatml").unwrap());
    let builder = Model::builder().format(file.path().display().to_string());
    builder.loaded_tokenizer(Arc::new(toy)).open().unwrap()
}

/// Returns the ids of a text that the model samples.
pub fn sampled(format: &str, text: &str) -> Vec<u32> {
    let session = rolecall::Request::without_messages(json::Object::new()).unwrap();
    model(format).session(session).unwrap().encode_sampled(text).unwrap()
}

/// Starts an engine, and returns the configuration of a gateway in front of it.
pub async fn config(format: &str, engine: &StandIn) -> Config {
    let (name, kind, engine_model) = (format.to_owned(), engine.kind, None);
    let (model, address, on_rewrite) = (model(format), engine.start().await, OnRewrite::Rewrite);
    let model = ModelConfig { name, model, engine: address, kind, engine_model, on_rewrite };
    Config { models: vec![model], ..Config::default() }
}

pub struct Server {
    pub address: String,
    pub engine: StandIn,
    client: reqwest::Client,
    end: oneshot::Sender<()>,
    running: JoinHandle<()>,
}

impl Server {
    pub async fn new(format: &str, engine: StandIn) -> Server {
        Server::with(format, engine, Limits::default(), Keys::default()).await
    }

    pub async fn with(format: &str, engine: StandIn, limits: Limits, keys: Keys) -> Server {
        let address = engine.start().await;
        Server::before(&address, format, engine, limits, keys).await
    }

    pub async fn before(address: &str, format: &str, engine: StandIn, limits: Limits, keys: Keys) -> Server {
        Server::of(address, model(format), format, engine, limits, keys).await
    }

    pub async fn of(address: &str, model: Model, name: &str, engine: StandIn, limits: Limits, keys: Keys) -> Server {
        let (name, kind) = (name.to_owned(), engine.kind);
        let model = ModelConfig {
            name,
            model,
            engine: address.to_owned(),
            kind,
            engine_model: None,
            on_rewrite: OnRewrite::Rewrite,
        };
        Server::open(Config { models: vec![model], limits, keys, ..Config::default() }, engine).await
    }

    /// Starts a server that tells what it does.
    pub async fn telling(format: &str, engine: StandIn, keys: Keys, telling: Telling) -> Server {
        let config = config(format, &engine).await;
        Server::open(Config { keys, telling, ..config }, engine).await
    }

    pub async fn open(config: Config, engine: StandIn) -> Server {
        Server::run(Gateway::open(config).await.unwrap(), engine).await
    }

    pub async fn run(gateway: Gateway, engine: StandIn) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (end, ended) = oneshot::channel();
        let running = tokio::spawn(async move {
            let end = async {
                // Without the server's value, it runs as long as the test.
                if ended.await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            serve(gateway, listener, end).await.unwrap();
        });
        Server { address, engine, client: reqwest::Client::new(), end, running }
    }

    /// Ends the server, whose gateway is dropped.
    pub async fn stop(self) {
        let Server { end, running, client, .. } = self;
        drop(client);
        end.send(()).unwrap();
        running.await.unwrap();
    }

    pub fn request(&self, path: &str, body: &str) -> reqwest::RequestBuilder {
        let request = self.client.post(format!("{}{path}", self.address));
        request.header("content-type", "application/json").body(body.to_owned())
    }

    /// Sends a request, and returns the status and the answer.
    pub async fn post(&self, path: &str, body: &str) -> (u16, Json) {
        read(self.request(path, body)).await
    }

    pub async fn get(&self, path: &str) -> (u16, Json) {
        read(self.client.get(format!("{}{path}", self.address))).await
    }

    /// Sends a request, and returns the frames of the answer.
    pub async fn stream(&self, body: &str) -> Vec<String> {
        let response = self.request("/v1/chat/completions", body).send().await.unwrap();
        assert_eq!(response.headers()["content-type"], "text/event-stream", "{:?}", response.status());
        let text = response.text().await.unwrap();
        text.split_terminator("\n\n").map(|frame| frame.strip_prefix("data: ").unwrap().to_owned()).collect()
    }
}

async fn read(request: reqwest::RequestBuilder) -> (u16, Json) {
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    (status, json::parse(&text).unwrap_or_else(|_| panic!("{status} {text}")))
}

/// Waits until something is so.
pub async fn wait_for(is_so: impl Fn() -> bool) {
    for _ in 0..500 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it did not come to pass within 5 s");
}

/// Returns the value at a path such as `choices.0.message`.
pub fn at<'a>(value: &'a Json, path: &str) -> &'a Json {
    path.split('.').fold(value, |value, key| match value {
        Json::Array(items) => &items[key.parse::<usize>().unwrap()],
        Json::Object(object) => object.get(key).unwrap_or(&Json::Null),
        _ => &Json::Null,
    })
}

pub fn integer(value: &Json) -> u32 {
    let Json::Number(number) = value else { panic!("{value:?}") };
    number.as_i64().unwrap().try_into().unwrap()
}
