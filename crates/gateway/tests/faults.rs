//! What goes wrong: requests that are refused, and engines that fail. Each gives a typed error, and
//! nothing hangs.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::sync::Arc;
use std::time::Duration;

use rolecall::Model;
use rolecall::conversation::{Json, json};
use rolecall::format::registry;
use rolecall::session::OnRewrite;
use rolecall_gateway::engine::EngineKind;
use rolecall_gateway::{Config, Keys, Limits, ModelConfig};
use rolecall_testkit::Toy;

use crate::common::{Server, StandIn, Step, at, by_ids, engines, integer, kinds, sampled};

const HI: &str = r#"{"messages": [{"role": "user", "content": "Hi"}]}"#;
const STREAM: &str = r#"{"messages": [{"role": "user", "content": "Hi"}], "stream": true}"#;

fn impatient() -> Limits {
    Limits { first_id: Duration::from_millis(200), next_id: Duration::from_millis(200), ..Limits::default() }
}

#[tokio::test]
async fn requests_are_refused_by_the_name_of_what_is_wrong() {
    let server = Server::new("chatml", StandIn::new(EngineKind::LlamaCpp, Vec::new())).await;
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
        (r#""max_completion_tokens": 0"#, "max_completion_tokens", "wrong_value"),
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
        (r#""stream_options": {"include_usage": true}"#, "stream_options", "conflict"),
        (r#""functions": [{"name": "f"}]"#, "functions", "unsupported_parameter"),
        (r#""service_tier": "flex""#, "service_tier", "unsupported_parameter"),
        (r#""modalities": ["text", "audio"]"#, "modalities", "unsupported_parameter"),
        (r#""user": 5"#, "user", "wrong_type"),
        (r#""metadata": [1]"#, "metadata", "wrong_type"),
        (r#""metadata": {"a": 1}"#, "metadata", "wrong_value"),
        (
            r#""tool_choice": {"type": "function", "function": {"name": "f", "more": 1}}"#,
            "tool_choice.function.more",
            "unsupported_parameter",
        ),
        (r#""tool_choice": {"type": "function", "more": 1}"#, "tool_choice.more", "unsupported_parameter"),
        (r#""reasoning_effort": "low""#, "reasoning_effort", "unsupported_parameter"),
        (r#""reasoning_effort": "much""#, "reasoning_effort", "wrong_value"),
        (r#""reasoning_effort": 3"#, "reasoning_effort", "wrong_type"),
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
    let call = r#"{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}"#;
    let assistant = format!(r#"{{"role": "assistant", "tool_calls": [{call}]}}"#);
    for (message, field) in [
        (
            r#"{"role": "user", "content": [{"type": "text", "text": "Hi", "mood": "good"}]}"#.to_owned(),
            "content[0].mood",
        ),
        (assistant.replace(r#""id""#, r#""mood": "good", "id""#), "tool_calls[0].mood"),
        (assistant.replace(r#""name""#, r#""mood": "good", "name""#), "tool_calls[0].function.mood"),
        (r#"{"role": "user", "content": "Hi", "tool_call_id": "c"}"#.to_owned(), "tool_call_id"),
        (r#"{"role": "user", "content": null}"#.to_owned(), "content"),
        (r#"{"role": "user", "content": "Hi", "reasoning_content": "why"}"#.to_owned(), "reasoning_content"),
        (r#"{"role": "assistant", "content": "Hi", "reasoning": "a", "thinking": "b"}"#.to_owned(), "thinking"),
    ] {
        let body = format!(r#"{{"messages": [{{"role": "user", "content": "Hi"}}, {message}]}}"#);
        let (status, answer) = server.post("/v1/chat/completions", &body).await;
        assert_eq!((status, at(&answer, "error.param").as_str()), (400, Some(field)), "{answer:?}");
        assert_eq!(at(&answer, "error.message_index"), &1.into(), "{answer:?}");
    }
    let tool = r#""tools": [{"type": "function", "function": {"name": "f"}}]"#;
    let body = format!(r#"{{"tool_choice": {{"type": "function", "function": {{"name": "g"}}}}, {tool}, {}"#, &HI[1..]);
    let tooled = Server::new("qwen2.5", StandIn::new(EngineKind::LlamaCpp, Vec::new())).await;
    let (status, answer) = tooled.post("/v1/chat/completions", &body).await;
    let found = (status, at(&answer, "error.param").as_str(), at(&answer, "error.code").as_str());
    assert_eq!(found, (400, Some("tool_choice"), Some("unknown_tool")), "{answer:?}");
    let (status, answer) = server.post("/v1/chat/completions?mood=good", HI).await;
    assert_eq!((status, at(&answer, "error.param").as_str()), (400, Some("mood")), "{answer:?}");
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
    let engine = StandIn::new(EngineKind::LlamaCpp, steps);
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

/// Steps of an engine that fails, with the status and the code of the answer.
type Failing = (Vec<Step>, u16, &'static str);

fn raw(text: &str) -> Step {
    Step::Raw(format!("data: {text}\n\n"))
}

/// What goes wrong with every engine.
fn common_faults() -> Vec<Failing> {
    let broken = |steps: Vec<Step>| (steps, 502, "engine_broken");
    let half = || Step::Raw(r#"data: {"choices": [{"te"#.to_owned());
    vec![
        (vec![Step::Wait(Duration::from_secs(600))], 504, "engine_slow"),
        (vec![Step::Wait(Duration::from_millis(50)), Step::Break], 502, "engine_died"),
        (vec![half(), Step::Wait(Duration::from_millis(50)), Step::Break], 502, "engine_died"),
        broken(vec![half()]),
        broken(vec![]),
        broken(vec![raw("no JSON")]),
        broken(vec![raw("[1]")]),
        (vec![raw(r#"{"error": {"message": "no slot"}}"#)], 502, "engine_refused"),
        (vec![raw(r#"{"error": {"message": "no slot", "code": 503}}"#)], 503, "engine_refused"),
        broken(vec![raw("[DONE]")]),
        (vec![Step::End("none")], 502, "engine_aborted"),
    ]
}

/// What goes wrong with one engine.
fn own_faults(kind: EngineKind, before: usize) -> Vec<Failing> {
    let frames = engines::of(kind);
    let damaged = frames.damaged(before).into_iter().map(|frame| (vec![raw(&frame)], 502, "engine_broken"));
    let given_up = frames.given_up().into_iter().map(|(frame, status)| (vec![raw(frame)], status, "engine_aborted"));
    damaged.chain(given_up).chain([(without_ids(raw(&frames.empty(before))), 504, "engine_slow")]).collect()
}

#[tokio::test]
async fn every_fault_of_an_engine_is_a_typed_error() {
    let hi = sampled("chatml", "Hello");
    for kind in kinds() {
        // Once at the start, and once in mid-stream.
        for before in [vec![], vec![Step::Ids(hi.clone())]] {
            let count = before.len() * hi.len();
            for (steps, status, code) in common_faults().into_iter().chain(own_faults(kind, count)) {
                let all: Vec<Step> = before.iter().cloned().chain(steps).collect();
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
    }
    let engine = StandIn { status: 503, ..StandIn::new(EngineKind::LlamaCpp, vec![Step::Raw("busy".to_owned())]) };
    let server = Server::new("chatml", engine).await;
    let (status, answer) = server.post("/v1/chat/completions", HI).await;
    assert_eq!((status, at(&answer, "error.code").as_str()), (503, Some("engine_refused")));
    assert!(at(&answer, "error.message").as_str().unwrap().contains("503: busy"), "{answer:?}");
    let engine = StandIn::new(EngineKind::LlamaCpp, Vec::new());
    let server = Server::before("http://127.0.0.1:1", "chatml", engine, impatient(), Keys::default()).await;
    let (status, answer) = server.post("/v1/chat/completions", HI).await;
    assert_eq!((status, at(&answer, "error.code").as_str()), (502, Some("engine_down")), "{answer:?}");
}

#[tokio::test]
async fn log_probabilities_that_are_missing_or_damaged_are_a_typed_error() {
    let id = sampled("chatml", "a")[0];
    let body = HI.replacen('{', r#"{"logprobs": true, "top_logprobs": 1, "#, 1);
    let damaged =
        kinds().flat_map(|kind| engines::of(kind).damaged_odds(id).into_iter().map(move |frame| (kind, frame)));
    for (kind, frame) in damaged {
        let server = Server::new("chatml", StandIn::new(kind, vec![raw(&frame), Step::End("stop")])).await;
        let (status, answer) = server.post("/v1/chat/completions", &body).await;
        assert_eq!((status, at(&answer, "error.code").as_str()), (502, Some("engine_broken")), "{kind:?} {frame}");
    }
}

/// The last event of a stream, with its name if it has one, and all text before it.
fn last_event(text: &str) -> (Option<&str>, json::Json, &str) {
    let text = text.trim_end();
    let (before, last) = text.rsplit_once('\n').unwrap();
    let (name, before) = match before.rsplit_once("event: ") {
        Some((rest, name)) if !name.contains('\n') => (Some(name), rest),
        _ => (None, before),
    };
    (name, json::parse(last.strip_prefix("data: ").unwrap_or(last)).unwrap(), before)
}

#[tokio::test]
async fn a_stream_of_every_api_ends_with_its_own_error() {
    let apis = [
        ("/v1/messages", r#"{"model": "chatml", "max_tokens": 100, "messages": [{"role": "user", "content": "Hi"}]"#),
        ("/v1/completions", r#"{"prompt": "Hi""#),
        ("/v1/responses", r#"{"input": "Hi""#),
        ("/v1/chat/interactive", r#"{"prompt": "Hi", "session_id": 7, "interactive_mode": true"#),
    ];
    // What only a stream has that ended well.
    let ends = ["message_delta", "message_stop", "[DONE]", "response.completed", "response.incomplete"];
    let reasons = [r#""finish_reason":"stop""#, r#""finish_reason":"length""#];
    let faults = [
        (vec![Step::Wait(Duration::from_secs(600))], "engine_slow", "timeout_error"),
        (vec![Step::Wait(Duration::from_millis(50)), Step::Break], "engine_died", "api_error"),
        (vec![raw("no JSON")], "engine_broken", "api_error"),
        (vec![raw(r#"{"error": {"message": "no slot", "code": 503}}"#)], "engine_refused", "overloaded_error"),
        (vec![Step::End("none")], "engine_aborted", "api_error"),
        (vec![], "engine_broken", "api_error"),
    ];
    for kind in kinds() {
        for (steps, code, of_messages) in &faults {
            let all = [Step::Ids(sampled("chatml", "Hello"))].into_iter().chain(steps.iter().cloned()).collect();
            let server = Server::with("chatml", StandIn::new(kind, all), impatient(), Keys::default()).await;
            for (path, body) in apis {
                let what = format!("{kind:?} {path} {steps:?}");
                let response = server.request(path, &format!(r#"{body}, "stream": true}}"#)).send().await.unwrap();
                assert_eq!(response.status().as_u16(), 200, "{what}");
                let text = tokio::time::timeout(Duration::from_secs(10), response.text()).await.unwrap().unwrap();
                let (name, last, before) = last_event(&text);
                match path {
                    "/v1/messages" => {
                        assert_eq!(
                            (name, at(&last, "type").as_str()),
                            (Some("error"), Some("error")),
                            "{what}: {text}"
                        );
                        assert_eq!(at(&last, "error.type").as_str(), Some(*of_messages), "{what}: {text}");
                        assert_eq!(at(&last, "error.code").as_str(), Some(*code), "{what}: {text}");
                    }
                    "/v1/responses" => {
                        assert_eq!(name, Some("response.failed"), "{what}: {text}");
                        assert_eq!(at(&last, "response.status").as_str(), Some("failed"), "{what}: {text}");
                        let (name, last, _) = last_event(before);
                        assert_eq!((name, at(&last, "code").as_str()), (Some("error"), Some(*code)), "{what}: {text}");
                    }
                    _ => assert_eq!((name, at(&last, "error.code").as_str()), (None, Some(*code)), "{what}: {text}"),
                }
                assert!(before.contains(r#"":"H"#), "{what}: {text}");
                for end in ends.iter().chain(&reasons) {
                    assert!(!text.contains(end), "{what}: {end} in {text}");
                }
            }
        }
    }
}

#[tokio::test]
async fn an_engine_that_ignores_the_limit_is_held_to_it() {
    let id = sampled("chatml", "a")[0];
    for (kind, of_piece) in by_ids().zip([1, 3, 100].into_iter().cycle()) {
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
    let server = Server::with("chatml", StandIn::new(EngineKind::LlamaCpp, steps), limits, Keys::default()).await;
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

/// A bug in rolecall that one request meets is the error of this one. Those beside and after it are
/// answered, also on the same connection.
#[tokio::test]
async fn a_panic_in_one_request_is_its_error_and_the_others_go_on() {
    let toy = Toy::of(registry().get("chatml").unwrap()).panicking();
    let model = Model::builder().model("chatml").loaded_tokenizer(Arc::new(toy)).open().unwrap();
    let engine =
        StandIn::new(EngineKind::LlamaCpp, vec![Step::Ids(sampled("chatml", "Good<|im_end|>")), Step::End("eos")]);
    let address = engine.start().await;
    let server = Server::of(&address, model, "chatml", engine, Limits::default(), Keys::default()).await;
    // A short one is prepared at once, and a long one on another thread.
    let asks = |more: usize| {
        let planted = "\\u0007".to_owned() + &"a ".repeat(more);
        format!(r#"{{"messages": [{{"role": "user", "content": "{planted}"}}]}}"#)
    };
    for bad in [asks(0), asks(20_000)] {
        let chat = "/v1/chat/completions";
        let ((first, _), (status, error), (second, _)) =
            tokio::join!(server.post(chat, HI), server.post(chat, &bad), server.post(chat, HI));
        assert_eq!((first, status, second), (200, 500, 200));
        is_internal(at(&error, "error"));
    }
}

#[tokio::test]
async fn a_panic_in_one_reply_is_its_error_and_the_others_go_on() {
    let toy = Toy::of(registry().get("chatml").unwrap()).panicking();
    let model = Model::builder().model("chatml").loaded_tokenizer(Arc::new(toy)).open().unwrap();
    let mut engine = StandIn::new(EngineKind::LlamaCpp, vec![Step::Ids(sampled("chatml", "Good")), Step::End("eos")]);
    let good = engine.start().await;
    engine.steps.insert(1, Step::Ids(vec![Toy::BYTES + u32::from(Toy::PLANTED)]));
    let address = engine.start().await;
    let config = |name: &str, engine: &str| ModelConfig {
        name: name.to_owned(),
        model: model.clone(),
        engine: engine.to_owned(),
        kind: EngineKind::LlamaCpp,
        engine_model: None,
        on_rewrite: OnRewrite::Rewrite,
    };
    let models = vec![config("good", &good), config("bad", &address)];
    let server = Server::open(Config { models, ..Config::default() }, engine).await;
    let ask = |model: &str, more: &str| {
        format!(r#"{{"model": "{model}", "messages": [{{"role": "user", "content": "Hi"}}]{more}}}"#)
    };
    let chat = "/v1/chat/completions";
    let (bad, good) = (ask("bad", ""), ask("good", ""));
    let ((status, error), (beside, _)) = tokio::join!(server.post(chat, &bad), server.post(chat, &good));
    assert_eq!((status, beside), (500, 200));
    is_internal(at(&error, "error"));
    // What was sent before stays, and the error ends the stream.
    let frames = server.stream(&ask("bad", r#", "stream": true"#)).await;
    let error = json::parse(frames.iter().rfind(|frame| *frame != "[DONE]").unwrap()).unwrap();
    is_internal(at(&error, "error"));
    assert!(frames.iter().any(|frame| frame.contains(r#""content":"G""#)), "{frames:?}");
    let (status, _) = server.post(chat, &good).await;
    assert_eq!(status, 200);
}

/// Checks that an error says that this is a bug, and what to report.
fn is_internal(error: &Json) {
    let text = |key: &str| error.as_object().unwrap().get(key).unwrap().as_str().unwrap();
    assert_eq!((text("code"), text("type")), ("internal", "server_error"));
    assert!(text("message").contains("a bug in rolecall") && text("message").contains("planted"), "{error:?}");
    assert!(text("help").contains("report"), "{error:?}");
}
