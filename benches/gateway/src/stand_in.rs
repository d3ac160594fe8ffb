//! The stand-in for an engine: SGLang's `/generate` over HTTP, and its gRPC, on one port and one thread.
//!
//! Every reply has as many ids as the request allows at most, so the request decides how long it is.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use prost::Message;
use tokio::net::TcpListener;

use crate::Outcome;
use crate::grpc::{Generate, Healthy, Load, Loads, ModelInfo, SERVICE, ServerInfo, frame, message};
use crate::reply::{Reply, Wire};

type Answer = UnsyncBoxBody<Bytes, Infallible>;

/// What the stand-in knows.
struct StandIn {
    model: String,
    pause: Duration,
    /// The ids of its replies, which `/reply` sets.
    ids: Mutex<Arc<[u32]>>,
    /// The last requests of both kinds, which `/last/http` and `/last/grpc` return.
    last: [Mutex<Bytes>; 2],
}

/// Answers requests until the process ends.
pub async fn serve(port: u16, model: String, pause: u64) -> Outcome<()> {
    let pause = Duration::from_millis(pause);
    let state = Arc::new(StandIn { model, pause, ids: Mutex::new(Arc::from([0])), last: Default::default() });
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let state = Arc::clone(&state);
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let state = Arc::clone(&state);
                async move { Ok::<_, Infallible>(answer(&state, request).await) }
            });
            let mut server = auto::Builder::new(TokioExecutor::new());
            server.http2().max_concurrent_streams(100_000);
            // A client that leaves is no fault.
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(state: &StandIn, request: Request<Incoming>) -> Response<Answer> {
    let path = request.uri().path().to_owned();
    let Ok(body) = request.into_body().collect().await else { return failed("the request did not arrive") };
    let body = body.to_bytes();
    let [http, grpc] = &state.last;
    match path.as_str() {
        "/generate" => {
            *lock(http) = body.clone();
            match longest(&body) {
                Some(count) => http_reply(state, count),
                None => failed("expected `max_new_tokens`"),
            }
        }
        "/reply" => match serde_json::from_slice::<Vec<u32>>(&body) {
            Ok(ids) => {
                *lock(&state.ids) = ids.into();
                text(Bytes::new())
            }
            Err(error) => failed(&error.to_string()),
        },
        "/last/http" => text(lock(http).clone()),
        "/last/grpc" => text(lock(grpc).clone()),
        path => match path.strip_prefix(SERVICE) {
            Some("Generate") => {
                *lock(grpc) = body.clone();
                match message::<Generate>(&body) {
                    Ok(wanted) => grpc_reply(state, wanted),
                    Err(error) => failed(&error),
                }
            }
            Some("HealthCheck") => grpc_whole(&Healthy { is_healthy: true }),
            Some("GetModelInfo") => grpc_whole(&ModelInfo {
                model_path: state.model.clone(),
                tokenizer_path: state.model.clone(),
                is_generation: true,
                served_model_name: "model".to_owned(),
                max_context_length: 1 << 20,
            }),
            Some("GetServerInfo") => grpc_whole(&ServerInfo { server_type: "grpc".to_owned() }),
            Some("GetLoads") => {
                let load = Load { most_tokens: 1 << 30, most_requests: 1 << 20 };
                grpc_whole(&Loads { ranks: 1, loads: vec![load] })
            }
            _ => unknown(),
        },
    }
}

/// Finds the length of the reply. Parsing thousands of ids would take longer than the rest.
fn longest(body: &[u8]) -> Option<u32> {
    const KEY: &[u8] = b"\"max_new_tokens\":";
    let at = body.windows(KEY.len()).rposition(|window| window == KEY)? + KEY.len();
    let digits = body.get(at..)?.iter().take_while(|byte| byte.is_ascii_digit());
    digits.map(|byte| u32::from(byte - b'0')).reduce(|number, digit| number.wrapping_mul(10).wrapping_add(digit))
}

fn http_reply(state: &StandIn, count: u32) -> Response<Answer> {
    let reply = Reply::new(Wire::Events, lock(&state.ids).clone(), count, state.pause);
    with_type("text/event-stream", UnsyncBoxBody::new(reply))
}

fn grpc_reply(state: &StandIn, wanted: Generate) -> Response<Answer> {
    let Generate { request_id, sampling, is_streamed } = wanted;
    let count = sampling.and_then(|sampling| sampling.max_new_tokens).unwrap_or(16);
    let wire = Wire::Grpc { request_id, is_streamed };
    let reply = Reply::new(wire, lock(&state.ids).clone(), count, state.pause);
    with_type("application/grpc", UnsyncBoxBody::new(reply))
}

fn grpc_whole(message: &impl Message) -> Response<Answer> {
    let body = Full::new(frame(message)).with_trailers(async { Some(Ok(status("0"))) });
    with_type("application/grpc", UnsyncBoxBody::new(body))
}

/// Says that a method is not there, as gRPC does.
fn unknown() -> Response<Answer> {
    let mut response = with_type("application/grpc", UnsyncBoxBody::new(Full::new(Bytes::new())));
    response.headers_mut().extend(status("12"));
    response
}

fn status(code: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(HeaderName::from_static("grpc-status"), HeaderValue::from_static(code))])
}

fn text(body: Bytes) -> Response<Answer> {
    with_type("application/octet-stream", UnsyncBoxBody::new(Full::new(body)))
}

fn failed(why: &str) -> Response<Answer> {
    let mut response = text(Bytes::copy_from_slice(why.as_bytes()));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response
}

fn with_type(name: &'static str, body: Answer) -> Response<Answer> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(name));
    response
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
