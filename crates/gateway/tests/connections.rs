//! Connections of clients that are slow, or greedy.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Server, StandIn, at};
use rolecall_gateway::engine::EngineKind;
use rolecall_gateway::{Keys, Limits};

async fn server(limits: Limits) -> Server {
    Server::with("chatml", StandIn::new(EngineKind::LlamaCpp, Vec::new()), limits, Keys::default()).await
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address.strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

/// Reads until the other side closes.
fn rest(stream: &mut TcpStream) -> String {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("it does not close: {error}"),
        _ => String::from_utf8(rest).unwrap(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_does_not_arrive_ends_the_connection() {
    let server = server(Limits { head: Duration::from_millis(300), ..Limits::default() }).await;
    // Nothing at all, and one byte after the other.
    for is_dripping in [false, true] {
        let mut stream = connect(&server);
        let start = Instant::now();
        if is_dripping {
            let mut writer = stream.try_clone().unwrap();
            thread::spawn(move || {
                for byte in b"GET /health HTTP/1.1\r\nx-long: ".iter().chain(&[b'a'; 1_000]) {
                    if writer.write_all(&[*byte]).is_err() {
                        return;
                    }
                    thread::sleep(Duration::from_millis(20));
                }
            });
        }
        rest(&mut stream);
        assert!(start.elapsed() < Duration::from_secs(5), "{is_dripping}: {:?}", start.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_without_another_request_ends() {
    let server = server(Limits { head: Duration::from_millis(300), ..Limits::default() }).await;
    let mut stream = connect(&server);
    stream.write_all(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let start = Instant::now();
    let answer = rest(&mut stream);
    assert!(answer.starts_with("HTTP/1.1 200") && start.elapsed() < Duration::from_secs(5), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_is_too_large_is_refused() {
    let server = server(Limits { head_bytes: 1_000, ..Limits::default() }).await;
    let mut stream = connect(&server);
    let head = format!("GET /health HTTP/1.1\r\nhost: x\r\nx-long: {}\r\n\r\n", "a".repeat(2_000));
    stream.write_all(head.as_bytes()).unwrap();
    let answer = rest(&mut stream);
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_does_not_arrive_is_a_typed_error() {
    let server = server(Limits { body: Duration::from_millis(300), ..Limits::default() }).await;
    let mut stream = connect(&server);
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\nconnection: close\r\n\r\n{";
    stream.write_all(head.as_bytes()).unwrap();
    let answer = rest(&mut stream);
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("slow_request"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_above_the_limit_wait_for_a_place() {
    let limits = Limits { connections: 2, head: Duration::from_millis(700), ..Limits::default() };
    let server = server(limits).await;
    let idle = [connect(&server), connect(&server)];
    tokio::time::sleep(Duration::from_millis(100)).await;
    let mut third = connect(&server);
    third.write_all(b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    third.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!(third.peek(&mut [0]).is_err(), "it was answered while all places were taken");
    third.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let answer = rest(&mut third);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    drop(idle);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_models_may_contain_slashes() {
    let engine = StandIn::new(EngineKind::LlamaCpp, Vec::new());
    let address = engine.start().await;
    let (limits, keys) = (Limits::default(), Keys::default());
    let server = Server::of(&address, crate::common::model("chatml"), "an org/a model", engine, limits, keys).await;
    for path in ["an%20org%2Fa%20model", "an%20org/a%20model"] {
        let (status, model) = server.get(&format!("/v1/models/{path}")).await;
        assert_eq!((status, at(&model, "id").as_str()), (200, Some("an org/a model")), "{path}: {model:?}");
    }
    assert_eq!(server.get("/v1/models/an%20org%2Fanother").await.0, 404);
}
