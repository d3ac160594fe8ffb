//! Load: as many connections as requests at once, each with the next request as soon as it has the answer.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::Outcome;
use crate::client::{Answer, Client};
use crate::conversations::{Filling, Template};
use crate::figures::{Figures, milliseconds};
use crate::grpc::SERVICE;
use crate::process::Process;

/// The requests of a connection.
#[derive(Clone, Debug)]
pub struct Script {
    /// The request that begins a conversation, which is not measured.
    pub seed: Option<Template>,
    /// After how many requests another conversation begins.
    pub turns: u32,
    pub next: Template,
}

impl Script {
    pub fn of(next: Template) -> Script {
        Script { seed: None, turns: u32::MAX, next }
    }

    pub fn after(seed: Template, turns: u32, next: Template) -> Script {
        Script { seed: Some(seed), turns, next }
    }
}

/// Numbers that no other request of this run has.
static FRESH: AtomicU32 = AtomicU32::new(1);

pub fn fresh() -> u32 {
    FRESH.fetch_add(1, Ordering::Relaxed)
}

/// Measures a server for some time. `process` is the gateway whose processor time is counted.
pub async fn run(
    address: &str,
    script: &Script,
    at_once: usize,
    time: Duration,
    process: Option<&Process>,
) -> Outcome<Figures> {
    let mut connections = JoinSet::new();
    let before = process.map(Process::processor).transpose()?;
    let end = Instant::now() + time;
    for _ in 0..at_once {
        let (address, script) = (address.to_owned(), script.clone());
        connections.spawn(async move { connection(&address, &script, end).await });
    }
    let mut figures = collect(connections, at_once).await?;
    if let (Some(process), Some(before)) = (process, before) {
        let took = process.processor()?.saturating_sub(before);
        figures.processor = milliseconds(took) / figures.whole.len() as f64;
    }
    Ok(figures)
}

/// Measures the stand-in's gRPC with a request that a gateway sent, on one connection for all.
pub async fn run_grpc(address: &str, frame: Bytes, at_once: usize, time: Duration) -> Outcome<Figures> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = handshake::<_, _, Full<Bytes>>(TokioExecutor::new(), TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let mut calls = JoinSet::new();
    let end = Instant::now() + time;
    for _ in 0..at_once {
        let (sender, frame, uri) = (sender.clone(), frame.clone(), format!("http://{address}{SERVICE}Generate"));
        calls.spawn(async move { call(sender, frame, &uri, end).await });
    }
    let figures = collect(calls, at_once).await?;
    connection.abort();
    Ok(figures)
}

async fn connection(address: &str, script: &Script, end: Instant) -> Outcome<Figures> {
    let mut client = Client::open(address).await?;
    let (mut figures, mut request) = (Figures::default(), Vec::new());
    let mut filling = Filling::default();
    let mut turn = 0;
    while Instant::now() < end {
        if let Some(seed) = script.seed.as_ref().filter(|_| turn % script.turns == 0) {
            filling.round = fresh();
            seed.fill(&filling, &mut request);
            let answer = client.send(&request).await?;
            check(&answer, &client)?;
            remember(&client.body, &mut filling)?;
        }
        turn += 1;
        filling.fresh = fresh();
        script.next.fill(&filling, &mut request);
        let begin = Instant::now();
        let answer = client.send(&request).await?;
        check(&answer, &client)?;
        figures.whole.push(milliseconds(answer.end - begin));
        if let Some(first) = answer.first {
            figures.first.push(milliseconds(first - begin));
        }
    }
    Ok(figures)
}

async fn call(mut sender: SendRequest<Full<Bytes>>, frame: Bytes, uri: &str, end: Instant) -> Outcome<Figures> {
    let mut figures = Figures::default();
    while Instant::now() < end {
        let request = Request::post(uri).header("content-type", "application/grpc").header("te", "trailers");
        let request = request.body(Full::new(frame.clone()))?;
        let begin = Instant::now();
        let mut body = sender.send_request(request).await?.into_body();
        let mut first = None;
        while let Some(part) = body.frame().await {
            part?;
            first = first.or_else(|| Some(Instant::now()));
        }
        figures.whole.push(milliseconds(begin.elapsed()));
        figures.first.extend(first.map(|first| milliseconds(first - begin)));
    }
    Ok(figures)
}

/// Waits for all connections, and puts their figures together.
async fn collect(mut connections: JoinSet<Outcome<Figures>>, at_once: usize) -> Outcome<Figures> {
    let mut all = Figures::default();
    while let Some(figures) = connections.join_next().await {
        let figures = figures??;
        all.whole.extend(figures.whole);
        all.first.extend(figures.first);
    }
    all.sort();
    let seconds = all.whole.iter().sum::<f64>() / 1e3;
    all.rate = all.whole.len() as f64 * at_once as f64 / seconds;
    Ok(all)
}

/// Takes what the next request needs from the answer that began a conversation.
fn remember(body: &[u8], filling: &mut Filling) -> Outcome<()> {
    let answer: Value = serde_json::from_slice(body)?;
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    filling.id = text(answer.get("id"));
    let said = serde_json::to_string(&text(answer.pointer("/choices/0/message/content")))?;
    filling.said = said.trim_matches('"').to_owned();
    Ok(())
}

/// Reports an answer that is an error.
pub fn check(answer: &Answer, client: &Client) -> Outcome<()> {
    let body = String::from_utf8_lossy(&client.body);
    match answer.status {
        200 if !body.starts_with("data: {\"error\"") => Ok(()),
        status => Err(format!("status {status}: {body}").into()),
    }
}
