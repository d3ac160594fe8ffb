//! LMDeploy's interactive mode through the gateway.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

mod common;

use common::{Server, StandIn, Step, at, integer, sampled};
use rolecall::conversation::{Json, json};
use rolecall_gateway::engine::Kind;

const PATH: &str = "/v1/chat/interactive";

async fn server(format: &str, text: &str) -> Server {
    let ids = sampled(format, text);
    let steps = ids.iter().map(|id| Step::Ids(vec![*id])).chain([Step::End("eos")]).collect();
    Server::new(format, StandIn::new(Kind::LlamaCpp, steps)).await
}

/// Sends what LMDeploy's own client sends.
fn body(prompt: &str, session: i64, is_interactive: bool) -> String {
    format!(
        r#"{{"prompt": {prompt}, "session_id": {session}, "interactive_mode": {is_interactive}, "stream": false, "stop": null,
        "request_output_len": 512, "top_p": 0.8, "top_k": 40, "temperature": 0.8, "repetition_penalty": 1.0, "ignore_eos": false}}"#
    )
}

async fn say(server: &Server, prompt: &str, session: i64, is_interactive: bool) -> (u32, u32, Json) {
    let (status, answer) = server.post(PATH, &body(prompt, session, is_interactive)).await;
    assert_eq!(status, 200, "{answer:?}");
    (integer(at(&answer, "input_tokens")), integer(at(&answer, "history_tokens")), answer)
}

#[tokio::test]
async fn a_session_goes_on_until_it_is_ended() {
    let server = server("chatml", "Hello<|im_end|>").await;
    let reply = sampled("chatml", "Hello<|im_end|>");
    let (input, history, answer) = say(&server, r#""Hi""#, 7, true).await;
    let first = server.engine.prompt();
    assert_eq!((input as usize, history), (first.len(), 0));
    assert_eq!((at(&answer, "text").as_str(), integer(at(&answer, "tokens"))), (Some("Hello"), 6));
    assert_eq!(at(&answer, "finish_reason").as_str(), Some("stop"));
    let had = [first.clone(), reply].concat();
    let (input, history, _) = say(&server, r#""More""#, 7, true).await;
    assert!(server.engine.prompt().starts_with(&had));
    assert_eq!((history as usize, (input + history) as usize), (had.len(), server.engine.prompt().len()));
    // Without the mode, it goes on once more, and ends.
    let (_, history, _) = say(&server, r#""More""#, 7, false).await;
    assert!(history > 0);
    assert_eq!(say(&server, r#""Hi""#, 7, true).await.1, 0);
    assert_eq!(server.engine.prompt(), first);
    // An empty prompt for no ids ends it at once, and asks no engine.
    let asked = server.engine.bodies.lock().unwrap().len();
    let end = body(r#""""#, 7, false).replace("512", "0");
    let wrong = end.replace(r#""top_k""#, r#""top_kk""#);
    assert_eq!(server.post(PATH, &wrong).await.0, 400);
    let (status, answer) = server.post(PATH, &end).await;
    assert_eq!((status, at(&answer, "finish_reason").as_str()), (200, Some("stop")), "{answer:?}");
    assert_eq!(server.engine.bodies.lock().unwrap().len(), asked);
    assert_eq!(say(&server, r#""Hi""#, 7, true).await.1, 0);
}

#[tokio::test]
async fn a_request_without_a_session_keeps_none() {
    let server = server("chatml", "Hello<|im_end|>").await;
    for is_interactive in [false, true] {
        for _ in 0..2 {
            assert_eq!(say(&server, r#""Hi""#, -1, is_interactive).await.1, 0);
        }
    }
    let messages = r#"[{"role": "system", "content": "Brief."}, {"role": "user", "content": "Hi<|im_end|>"}]"#;
    assert_eq!(server.post("/v1/chat/completions", &format!(r#"{{"messages": {messages}}}"#)).await.0, 200);
    let wanted = server.engine.prompt();
    say(&server, messages, -1, false).await;
    assert_eq!(server.engine.prompt(), wanted);
    // LMDeploy's client sends these in chat completions, too.
    let chat =
        format!(r#"{{"messages": {messages}, "session_id": -1, "ignore_eos": false, "skip_special_tokens": true}}"#);
    let (status, answer) = server.post("/v1/chat/completions", &chat).await;
    assert_eq!(status, 200, "{answer:?}");
}

#[tokio::test]
async fn a_stream_has_a_value_in_each_line_and_adds_up_to_the_whole() {
    let server = server("chatml", "Hello \u{1f600}<|im_end|>").await;
    let (_, answer) = server.post(PATH, &body(r#""Hi""#, -1, false)).await;
    let stream = body(r#""Hi""#, -1, false).replace(r#""stream": false"#, r#""stream": true"#);
    let response = server.request(PATH, &stream).send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let text = response.text().await.unwrap();
    let lines: Vec<Json> = text.lines().map(|line| json::parse(line).unwrap()).collect();
    let (last, rest) = lines.split_last().unwrap();
    let added: String = lines.iter().map(|line| at(line, "text").as_str().unwrap()).collect();
    assert_eq!(Some(&*added), at(&answer, "text").as_str());
    for key in ["tokens", "input_tokens", "history_tokens", "finish_reason"] {
        assert_eq!(at(last, key), at(&answer, key), "{key}");
    }
    let counts: Vec<u32> = rest.iter().map(|line| integer(at(line, "tokens"))).collect();
    assert!(
        counts.is_sorted() && counts[0] == 1 && rest.iter().all(|line| at(line, "finish_reason").is_null()),
        "{text}"
    );
}

#[tokio::test]
async fn what_is_not_supported_is_refused_by_name() {
    let server = server("chatml", "Hello<|im_end|>").await;
    for (more, param) in [
        (r#""image_url": "http://x""#, "image_url"),
        (r#""adapter_name": "a""#, "adapter_name"),
        (r#""cancel": true"#, "cancel"),
        (r#""ignore_eos": true"#, "ignore_eos"),
        (r#""skip_special_tokens": false"#, "skip_special_tokens"),
        (r#""min_new_tokens": 3"#, "min_new_tokens"),
        (r#""session_id": "a""#, "session_id"),
        (r#""session_id": -2"#, "session_id"),
        (r#""interactive_mode": 1"#, "interactive_mode"),
        (r#""request_output_len": 0"#, "request_output_len"),
        (r#""nonsense": 1"#, "nonsense"),
        (r#""messages": []"#, "messages"),
    ] {
        let (status, answer) = server.post(PATH, &format!(r#"{{"prompt": "a", {more}}}"#)).await;
        assert_eq!((status, at(&answer, "error.param").as_str()), (400, Some(param)), "{more} {answer:?}");
    }
    assert_eq!(server.post(PATH, r#"{"prompt": 7}"#).await.0, 400);
    let good = r#"{"prompt": "a", "image_url": null, "cancel": false, "min_new_tokens": null, "spaces_between_special_tokens": true, "skip_special_tokens": true, "adapter_name": null, "seed": null, "min_p": 0.0}"#;
    let (status, answer) = server.post(PATH, good).await;
    assert_eq!(status, 200, "{answer:?}");
}
