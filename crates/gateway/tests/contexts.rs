//! Prompts that are too long for the model or its engine.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::time::{Duration, Instant};

use rolecall::conversation::json;
use rolecall_gateway::Limits;
use rolecall_gateway::engine::EngineKind;

use crate::common::{SILENT, Server, StandIn, Step, at, integer, kinds, model_with, sampled};

async fn server(format: &str, kind: EngineKind) -> Server {
    let steps = vec![Step::Ids(sampled(format, "Hi")), Step::End("stop")];
    Server::new(format, StandIn { context: 2048, ..StandIn::new(kind, steps) }).await
}

fn body(length: usize, more: &str) -> String {
    format!(r#"{{"messages": [{{"role": "user", "content": "{}"}}]{more}}}"#, "a".repeat(length))
}

#[tokio::test]
async fn a_prompt_that_the_engine_has_no_room_for_is_refused_with_both_numbers() {
    for kind in kinds() {
        let server = server("chatml", kind).await;
        let (status, answer) = server.post("/v1/chat/completions", &body(3000, "")).await;
        assert_eq!((status, at(&answer, "error.code").as_str()), (400, Some("context_length_exceeded")), "{answer:?}");
        let message = at(&answer, "error.message").as_str().unwrap();
        assert!(message.starts_with("This model's maximum context length is 2048 tokens. However, "), "{message}");
        assert!(message.contains("your messages resulted in 30"), "{message}");
        assert_eq!(at(&answer, "error.type").as_str(), Some("invalid_request_error"));
        assert!(server.engine.bodies.lock().unwrap().is_empty(), "{kind:?}");
        assert_eq!(server.post("/v1/chat/completions", &body(100, "")).await.0, 200, "{kind:?}");
    }
}

#[tokio::test]
async fn every_api_has_the_words_that_its_clients_know() {
    let server = server("chatml", EngineKind::LlamaCpp).await;
    let (status, answer) = server.post("/v1/messages", &body(3000, r#", "max_tokens": 5"#)).await;
    let message = at(&answer, "error.message").as_str().unwrap();
    assert_eq!((status, at(&answer, "error.type").as_str()), (400, Some("invalid_request_error")));
    assert!(message.starts_with("prompt is too long: 30") && message.ends_with(" tokens > 2048 maximum"), "{message}");
    let (status, answer) = server.post("/v1/completions", &format!(r#"{{"prompt": "{}"}}"#, "a".repeat(2049))).await;
    let message = at(&answer, "error.message").as_str().unwrap();
    assert!(status == 400 && message.contains("your prompt resulted in 2049 tokens"), "{message}");
    let (status, answer) = server.post("/v1/responses", &format!(r#"{{"input": "{}"}}"#, "a".repeat(3000))).await;
    assert_eq!((status, at(&answer, "error.code").as_str()), (400, Some("context_length_exceeded")), "{answer:?}");
    let full = format!(r#"{{"prompt": "{}"}}"#, "a".repeat(2048));
    assert_eq!(server.post("/v1/completions", &full).await.0, 400, "there is no room for a reply");
    let last = format!(r#"{{"prompt": "{}", "max_tokens": 9}}"#, "a".repeat(2047));
    assert_eq!(server.post("/v1/completions", &last).await.0, 200);
    // A reply ends where the engine does.
    assert_eq!(integer(server.engine.body().get("n_predict").unwrap()), 1);
}

#[tokio::test]
async fn what_the_model_was_made_for_counts_as_well() {
    let engine = StandIn::new(EngineKind::Vllm, vec![Step::Ids(sampled("chatml", "Hi")), Step::End("stop")]);
    let model = model_with("session_len = 100\nstop = [\"<|im_end|>\"]");
    let address = engine.start().await;
    let server = Server::of(&address, model, "short", engine, Default::default(), Default::default()).await;
    let (status, answer) = server.post("/v1/chat/completions", &body(100, "")).await;
    let message = at(&answer, "error.message").as_str().unwrap_or_default();
    assert!(status == 400 && message.contains("maximum context length is 100 tokens"), "{answer:?}");
    assert_eq!(server.post("/v1/chat/completions", &body(10, "")).await.0, 200);
    let sent = json::write(&server.engine.body().get("max_tokens").unwrap().clone(), &json::Layout::compact());
    assert!(sent.parse::<u32>().unwrap() < 90, "{sent}");
}

#[tokio::test]
async fn an_engine_that_does_not_say_its_context_holds_up_one_request() {
    let steps = vec![Step::Ids(sampled("chatml", "Hi")), Step::End("eos")];
    let engine = StandIn { context: SILENT, ..StandIn::new(EngineKind::LlamaCpp, steps) };
    let patience = Duration::from_secs(1);
    let limits = Limits { first_id: patience, ..Limits::default() };
    let server = Server::with("chatml", engine, limits, Default::default()).await;
    let mut took = Vec::new();
    for _ in 0..3 {
        let began = Instant::now();
        assert_eq!(server.post("/v1/chat/completions", &body(9, "")).await.0, 200);
        took.push(began.elapsed());
    }
    assert!(took[0] >= patience && took[1] + took[2] < patience, "{took:?}");
}
