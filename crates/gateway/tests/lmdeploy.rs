//! What only LMDeploy's clients send. Their own client is driven end to end by `e2e/test_lmdeploy.py`.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use rolecall::conversation::Json;
use rolecall_gateway::engine::EngineKind;
use rolecall_gateway::{Keys, Limits};

use crate::common::{Server, StandIn, Step, at, integer, model, sampled};

async fn server(limits: Limits) -> Server {
    let steps = vec![Step::Ids(sampled("chatml", "Hi<|im_end|>")), Step::End("stop")];
    Server::with("chatml", StandIn::new(EngineKind::LlamaCpp, steps), limits, Keys::default()).await
}

fn ids(value: &Json) -> Vec<u32> {
    value.as_array().unwrap().iter().map(integer).collect()
}

fn ids_of(request: &str) -> Vec<u32> {
    let request = rolecall::Request::from_text(request).unwrap();
    model("chatml").prompt(request).unwrap().encode().unwrap().ids()
}

#[tokio::test]
async fn messages_that_are_a_text_are_the_users() {
    let server = server(Limits::default()).await;
    let (status, answer) = server.post("/v1/chat/completions", r#"{"messages": "Hi<|im_end|>"}"#).await;
    assert_eq!(status, 200, "{answer:?}");
    assert_eq!(server.engine.prompt(), ids_of(r#"{"messages": [{"role": "user", "content": "Hi<|im_end|>"}]}"#));
}

#[tokio::test]
async fn encode_has_the_ids_of_texts_and_of_messages() {
    let server = server(Limits { prompt_ids: 100, ..Limits::default() }).await;
    let post = async |body: &str| server.post("/v1/encode", body).await;
    let (_, one) = post(r#"{"input": "Hi<|im_end|>"}"#).await;
    let plain = ids(at(&one, "input_ids"));
    // Text never becomes a control token.
    assert_eq!((plain.len(), integer(at(&one, "length"))), (12, 12));
    let (_, many) = post(r#"{"input": ["Hi<|im_end|>", "a"], "do_preprocess": null}"#).await;
    assert_eq!(ids(at(&many, "input_ids.0")), plain);
    assert_eq!(ids(at(&many, "length")), [12, 1]);
    let (_, whole) = post(r#"{"input": "Hi", "do_preprocess": true}"#).await;
    assert_eq!(ids(at(&whole, "input_ids")), ids_of(r#"{"messages": [{"role": "user", "content": "Hi"}]}"#));
    // The turn that a message adds to a conversation begins after the stop token of the reply before it.
    let (_, later) = post(r#"{"input": "Hi", "do_preprocess": true, "add_bos": false}"#).await;
    assert_eq!(ids(at(&later, "input_ids"))[1..], ids(at(&whole, "input_ids"))[..]);
    for (body, param) in [
        (r#"{"input": 5}"#, "input"),
        (r#"{"input": ["a", 5]}"#, "input"),
        (r#"{}"#, "input"),
        (r#"{"input": "a", "add_bos": 1}"#, "add_bos"),
        (r#"{"input": "a", "text": "b"}"#, "text"),
        (&format!(r#"{{"input": "{}"}}"#, "a".repeat(101)), "input"),
    ] {
        let (status, answer) = post(body).await;
        assert_eq!((status, at(&answer, "error.param").as_str()), (400, Some(param)), "{answer:?}");
    }
}

#[tokio::test]
async fn settings_that_change_nothing_are_accepted_and_others_refused() {
    let server = server(Limits::default()).await;
    let usual = r#""session_id": -1, "ignore_eos": false, "skip_special_tokens": true, "spaces_between_special_tokens": true,
        "top_logprobs": 0, "logprobs": false, "min_new_tokens": 0, "kwargs": {}, "user": null"#;
    let chat = |more: &str| format!(r#"{{"messages": "Hi", {more}}}"#);
    assert_eq!(server.post("/v1/chat/completions", &chat(usual)).await.0, 200);
    for (more, param) in [
        (r#""ignore_eos": true"#, "ignore_eos"),
        (r#""skip_special_tokens": false"#, "skip_special_tokens"),
        (r#""spaces_between_special_tokens": 1"#, "spaces_between_special_tokens"),
        (r#""min_new_tokens": 3"#, "min_new_tokens"),
        (r#""kwargs": {"a": 1}"#, "kwargs"),
        (r#""top_logprobs": 1"#, "top_logprobs"),
    ] {
        let (status, answer) = server.post("/v1/chat/completions", &chat(more)).await;
        assert_eq!((status, at(&answer, "error.param").as_str()), (400, Some(param)), "{answer:?}");
    }
    let completions = r#"{"prompt": "Hi", "session_id": -1, "ignore_eos": false, "max_completion_tokens": 5, "kwargs": {},
        "spaces_between_special_tokens": true, "min_new_tokens": 0}"#;
    let (status, answer) = server.post("/v1/completions", completions).await;
    assert_eq!(status, 200, "{answer:?}");
    assert_eq!(integer(server.engine.body().get("n_predict").unwrap()), 5);
}

/// LMDeploy's clients know a conversation that is too long by an empty answer that ends with `length`.
#[tokio::test]
async fn an_interactive_conversation_without_room_ends_with_length() {
    let mut engine = StandIn::new(EngineKind::LlamaCpp, vec![]);
    engine.context = 64;
    let server = Server::new("chatml", engine).await;
    let body = format!(r#"{{"prompt": "{}", "session_id": 3, "interactive_mode": true}}"#, "a".repeat(200));
    let (status, answer) = server.post("/v1/chat/interactive", &body).await;
    assert_eq!((status, at(&answer, "text").as_str(), integer(at(&answer, "tokens"))), (200, Some(""), 0));
    assert_eq!(at(&answer, "finish_reason").as_str(), Some("length"));
    assert!(integer(at(&answer, "input_tokens")) > 200);
    assert!(server.engine.bodies.lock().unwrap().is_empty());
}
