//! What goes wrong: requests that are refused, and engines that fail. Each gives a typed error, and
//! nothing hangs.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

mod common;

use std::time::Duration;

use common::{Server, StandIn, Step, at, integer, sampled};
use rolecall::conversation::json;
use rolecall_gateway::engine::Kind;
use rolecall_gateway::{Keys, Limits};

const HI: &str = r#"{"messages": [{"role": "user", "content": "Hi"}]}"#;
const STREAM: &str = r#"{"messages": [{"role": "user", "content": "Hi"}], "stream": true}"#;

fn impatient() -> Limits {
    Limits { first_id: Duration::from_millis(200), next_id: Duration::from_millis(200), ..Limits::default() }
}

#[tokio::test]
async fn requests_are_refused_by_the_name_of_what_is_wrong() {
    let server = Server::new("chatml", StandIn::new(Kind::LlamaCpp, Vec::new())).await;
    for (more, param, code) in [
        (r#""n": 0"#, "n", "wrong_value"),
        (r#""n": 129"#, "n", "wrong_value"),
        (r#""n": 2, "session_id": "a""#, "n", "conflict"),
        (r#""session_id": """#, "session_id", "wrong_value"),
        (r#""on_rewrite": "forget""#, "on_rewrite", "wrong_value"),
        (r#""top_logprobs": 3"#, "top_logprobs", "conflict"),
        (r#""logprobs": true, "top_logprobs": 21"#, "top_logprobs", "wrong_value"),
        (r#""store": true"#, "store", "unsupported_parameter"),
        (r#""best_of": 3"#, "best_of", "unsupported_parameter"),
        (r#""chat_template": "{{ 1 }}""#, "chat_template", "unsupported_parameter"),
        (r#""bos_token": "<|im_end|>""#, "bos_token", "unsupported_parameter"),
        (r#""format": "llama3""#, "format", "unsupported_parameter"),
        (r#""options": {}"#, "options", "unsupported_parameter"),
        (r#""response_format": {"type": "regex"}"#, "response_format.type", "wrong_value"),
        (r#""response_format": {"type": "text", "strict": true}"#, "response_format.strict", "unsupported_parameter"),
        (r#""response_format": {"type": "json_schema"}"#, "response_format.json_schema", "wrong_value"),
        (
            r#""response_format": {"type": "json_schema", "json_schema": {"strict": true, "schema": {"uniqueItems": true, "type": "array"}}}"#,
            "response_format",
            "unsupported_schema",
        ),
        (r#""temperature": 3"#, "temperature", "wrong_value"),
        (r#""temperature": "hot""#, "temperature", "wrong_value"),
        (r#""top_p": 0"#, "top_p", "wrong_value"),
        (r#""max_tokens": -1"#, "max_tokens", "wrong_value"),
        (r#""max_tokens": 1, "max_completion_tokens": 2"#, "max_tokens", "conflict"),
        (r#""stop": [""]"#, "stop", "wrong_value"),
        (r#""logit_bias": {"x": 1}"#, "logit_bias", "wrong_value"),
        (r#""logit_bias": {"4000000000": 1}"#, "logit_bias", "wrong_value"),
        (r#""tool_choice": "maybe""#, "tool_choice", "wrong_value"),
        (r#""stream": "yes""#, "stream", "wrong_type"),
        (r#""stream_options": {"chunks": 1}"#, "stream_options.chunks", "wrong_value"),
        (r#""max_tokens": 0"#, "max_tokens", "wrong_value"),
        (r#""add_generation_prompt": false"#, "add_generation_prompt", "unsupported_parameter"),
        (r#""chat_template_kwargs": {"bos_token": "x"}"#, "chat_template_kwargs.bos_token", "unsupported_parameter"),
        // Engines read these into 32 bits.
        (r#""max_tokens": 4294967299"#, "max_tokens", "wrong_value"),
        (r#""top_k": 2147483648"#, "top_k", "wrong_value"),
        (
            r#""session_id": "a", "continue_final_message": true, "add_generation_prompt": false"#,
            "continue_final_message",
            "conflict",
        ),
        (r#""nonsense": 1"#, "nonsense", "unsupported_parameter"),
        (r#""user": 5"#, "user", "wrong_type"),
        (r#""metadata": [1]"#, "metadata", "wrong_type"),
        (r#""tool_choice": {"type": "function", "function": {"name": "f", "more": 1}}"#, "tool_choice", "wrong_value"),
    ] {
        let body = format!("{}, {more}}}", HI.strip_suffix('}').unwrap());
        let (status, answer) = server.post("/v1/chat/completions", &body).await;
        let found = (status, at(&answer, "error.param").as_str(), at(&answer, "error.code").as_str());
        assert_eq!(found, (400, Some(param), Some(code)), "{more}: {answer:?}");
    }
    let body = HI.replace(r#""role": "user""#, r#""role": "user", "mood": "good""#);
    let (status, answer) = server.post("/v1/chat/completions", &body).await;
    assert_eq!((status, at(&answer, "error.param").as_str()), (400, Some("mood")), "{answer:?}");
    assert_eq!(at(&answer, "error.message_index"), &0.into(), "{answer:?}");
    let (status, answer) = server.post("/v1/chat/completions", r#"{"messages": [{"content": "Hi"}]}"#).await;
    assert_eq!((status, at(&answer, "error.message_index")), (400, &0.into()), "{answer:?}");
    let (status, answer) = server.post("/v1/chat/completions", r#"{"model": "x", "messages": []}"#).await;
    assert_eq!(status, 400, "{answer:?}");
    let (status, answer) = server.post("/v1/chat/completions", &HI.replacen('{', r#"{"model": "other", "#, 1)).await;
    assert_eq!((status, at(&answer, "error.code").as_str()), (404, Some("model_not_found")), "{answer:?}");
    assert_eq!(server.post("/v1/chat/completions", "{").await.0, 400);
    assert_eq!(server.post("/v1/nothing", HI).await.0, 404);
    assert_eq!(server.get("/v1/chat/completions").await.0, 405);
    let client = reqwest::Client::new();
    let head = client.head(format!("{}/health", server.address)).send().await.unwrap();
    assert_eq!((head.status().as_u16(), head.text().await.unwrap()), (200, String::new()));
    let wrong = client.put(format!("{}/v1/models", server.address)).send().await.unwrap();
    assert_eq!(
        (wrong.status().as_u16(), &wrong.headers()["allow"]),
        (405, &reqwest::header::HeaderValue::from_static("GET"))
    );
    let packed = server.request("/v1/chat/completions", HI).header("content-encoding", "gzip").send().await.unwrap();
    assert_eq!(packed.status().as_u16(), 415);
    // Nothing of this reached the engine.
    assert!(server.engine.bodies.lock().unwrap().is_empty());
}

#[tokio::test]
async fn keys_sizes_and_numbers_of_requests_are_limited() {
    let steps = vec![Step::Wait(Duration::from_secs(600))];
    let limits = Limits { body_bytes: 200, messages: 2, prompt_ids: 100, requests: 1, ..Limits::default() };
    let engine = StandIn::new(Kind::LlamaCpp, steps);
    let server = Server::with("chatml", engine, limits, Keys::read("one\ntwo").unwrap()).await;
    let send = async |key: &str, body: &str| {
        let request = server.request("/v1/chat/completions", body).header("authorization", format!("Bearer {key}"));
        let response = request.send().await.unwrap();
        let retry = response.headers().get("retry-after").is_some();
        (response.status().as_u16(), retry)
    };
    assert_eq!(server.post("/v1/chat/completions", HI).await.0, 401);
    assert_eq!(send("three", HI).await.0, 401);
    assert_eq!(send("two", &format!("{HI}{}", " ".repeat(200))).await.0, 413);
    let message = r#"{"role": "user", "content": "a"}"#;
    assert_eq!(send("one", &format!(r#"{{"messages": [{message}, {message}, {message}]}}"#)).await.0, 400);
    let long = format!(r#"{{"messages": [{{"role": "user", "content": "{}"}}]}}"#, "a".repeat(110));
    assert_eq!(send("one", &long).await.0, 400);
    let waiting = tokio::time::timeout(Duration::from_millis(500), send("one", HI));
    let second = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        send("one", HI).await
    };
    let (first, second) = tokio::join!(waiting, second);
    assert!(first.is_err(), "the engine does not answer");
    assert_eq!(second, (429, true));
}

#[tokio::test]
async fn every_fault_of_an_engine_is_a_typed_error() {
    let hi = sampled("chatml", "Hello");
    let raw = |text: &str| Step::Raw(format!("data: {text}\n\n"));
    let common = vec![
        (vec![Step::Wait(Duration::from_secs(600))], 504, "engine_slow"),
        (vec![Step::Wait(Duration::from_millis(50)), Step::Break], 502, "engine_broken"),
        (vec![], 502, "engine_broken"),
        (vec![raw("no JSON")], 502, "engine_broken"),
        (vec![raw("[1]")], 502, "engine_broken"),
        (vec![raw(r#"{"error": {"message": "no slot"}}"#)], 502, "engine_refused"),
        (vec![raw("[DONE]")], 502, "engine_broken"),
        (vec![Step::End("none")], 502, "engine_aborted"),
    ];
    let by_ids = vec![
        (vec![raw(r#"{"tokens": ["a"]}"#)], 502, "engine_broken"),
        (vec![raw(r#"{"tokens": [-1]}"#)], 502, "engine_broken"),
        (vec![raw(r#"{"tokens": [4294967295]}"#)], 502, "engine_broken"),
        (without_ids(raw(r#"{"tokens": [], "stop": false}"#)), 504, "engine_slow"),
    ];
    let by_text = vec![
        (vec![raw("{}")], 502, "engine_broken"),
        (vec![raw(r#"{"choices": {}}"#)], 502, "engine_broken"),
        (vec![raw(r#"{"choices": [7]}"#)], 502, "engine_broken"),
        (vec![raw(r#"{"choices": [{"text": 5}]}"#)], 502, "engine_broken"),
        (vec![raw(r#"{"choices": [{"text": "", "finish_reason": 5}]}"#)], 502, "engine_broken"),
        (without_ids(raw(r#"{"choices": [{"text": "", "finish_reason": null}]}"#)), 504, "engine_slow"),
    ];
    let of = |kind: Kind, own: Vec<(Vec<Step>, u16, &'static str)>| {
        common.clone().into_iter().chain(own).map(move |(steps, status, code)| (kind, steps, status, code))
    };
    for (kind, steps, status, code) in of(Kind::LlamaCpp, by_ids).chain(of(Kind::OpenAi, by_text)) {
        // Once at the start, and once in mid-stream.
        for before in [vec![], vec![Step::Ids(hi.clone())]] {
            let all: Vec<Step> = before.iter().chain(&steps).cloned().collect();
            let what = format!("{kind:?} {all:?}");
            let engine = StandIn::new(kind, all);
            let server = Server::with("chatml", engine, impatient(), Keys::default()).await;
            let (found, answer) = server.post("/v1/chat/completions", HI).await;
            assert_eq!((found, at(&answer, "error.code").as_str()), (status, Some(code)), "{what}");
            if before.is_empty() {
                let (found, answer) = server.post("/v1/chat/completions", STREAM).await;
                assert_eq!((found, at(&answer, "error.code").as_str()), (status, Some(code)), "{what}");
                continue;
            }
            let frames = server.stream(STREAM).await;
            let last = json::parse(frames.last().unwrap()).unwrap();
            assert_eq!(at(&last, "error.code").as_str(), Some(code), "{what}");
            assert!(frames.len() > 1 && !frames.iter().any(|frame| frame == "[DONE]"), "{frames:?}");
        }
    }
    let engine = StandIn { status: 503, ..StandIn::new(Kind::LlamaCpp, vec![Step::Raw("busy".to_owned())]) };
    let server = Server::new("chatml", engine).await;
    let (status, answer) = server.post("/v1/chat/completions", HI).await;
    assert_eq!((status, at(&answer, "error.code").as_str()), (503, Some("engine_refused")));
    assert!(at(&answer, "error.message").as_str().unwrap().contains("503: busy"), "{answer:?}");
    let engine = StandIn::new(Kind::LlamaCpp, Vec::new());
    let server = Server::before("http://127.0.0.1:1", "chatml", engine, impatient(), Keys::default()).await;
    let (status, answer) = server.post("/v1/chat/completions", HI).await;
    assert_eq!((status, at(&answer, "error.code").as_str()), (502, Some("engine_down")), "{answer:?}");
}

#[tokio::test]
async fn an_engine_that_ignores_the_limit_is_held_to_it() {
    let id = sampled("chatml", "a")[0];
    for (kind, of_piece) in [(Kind::LlamaCpp, 1), (Kind::Vllm, 3), (Kind::Sglang, 100)] {
        let engine = StandIn::new(kind, vec![Step::Ids(vec![id; of_piece]); 100_000]);
        let server = Server::new("chatml", engine).await;
        let body = r#"{"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4}"#;
        let (status, answer) = server.post("/v1/chat/completions", body).await;
        assert_eq!((status, at(&answer, "choices.0.message.content").as_str()), (200, Some("aaaa")), "{kind:?}");
        assert_eq!(at(&answer, "choices.0.finish_reason").as_str(), Some("length"));
        assert_eq!(integer(at(&answer, "usage.completion_tokens")), 4);
    }
}

/// Frames that keep coming, and have nothing.
fn without_ids(frame: Step) -> Vec<Step> {
    (0..20).flat_map(|_| [frame.clone(), Step::Wait(Duration::from_millis(150))]).collect()
}

#[tokio::test]
async fn a_client_that_does_not_read_is_given_up() {
    // More than the buffers of a connection take.
    let text: &str = Box::leak("x".repeat(1 << 16).into_boxed_str());
    let steps: Vec<Step> = std::iter::repeat_n(Step::Hidden(sampled("chatml", "xx"), text), 1_000).collect();
    let limits = Limits { requests: 1, ..impatient() };
    let server = Server::with("chatml", StandIn::new(Kind::LlamaCpp, steps), limits, Keys::default()).await;
    // The answer begins, and is not read.
    let response = server.request("/v1/chat/completions", STREAM).send().await.unwrap();
    assert_eq!(server.post("/v1/chat/completions", HI).await.0, 429);
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        if server.engine.dropped.load(std::sync::atomic::Ordering::SeqCst) == 1 {
            drop(response);
            return;
        }
    }
    panic!("the engine still works for a client that does not read");
}
