//! LMDeploy's interactive mode through the gateway.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::common::{Server, StandIn, Step, at, by_ids, integer, sampled, wait_for};
use rolecall::conversation::{Json, json};
use rolecall_gateway::engine::EngineKind;
use rolecall_gateway::{Keys, Limits};

const PATH: &str = "/v1/chat/interactive";

async fn server(format: &str, text: &str) -> Server {
    let ids = sampled(format, text);
    let steps = ids.iter().map(|id| Step::Ids(vec![*id])).chain([Step::End("eos")]).collect();
    Server::new(format, StandIn::new(EngineKind::LlamaCpp, steps)).await
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
    for key in ["input_tokens", "history_tokens"] {
        assert!(rest.iter().all(|line| at(line, key) == at(&answer, key)), "{key}: {text}");
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
        (r#""cancel": true"#, "session_id"),
        (r#""cancel": 1"#, "cancel"),
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

const CANCEL: &str = r#"{"prompt": "", "session_id": 7, "cancel": true}"#;

/// A server whose engine samples a text, and then nothing more.
async fn endless(kind: EngineKind, text: &str) -> Server {
    let steps = vec![Step::Ids(sampled("chatml", text)), Step::Wait(Duration::from_secs(600))];
    let keys = Keys::read("one\ntwo").unwrap();
    Server::with("chatml", StandIn::new(kind, steps), Limits::default(), keys).await
}

/// Sends a request that has no end of its own, and cancels it. Returns the answers to both.
async fn cancelled(server: &Server, path: &str, body: &str) -> [(u16, String); 2] {
    let send = |path: &str, body: &str| {
        let request = server.request(path, body).bearer_auth("one");
        async {
            let response = request.send().await.unwrap();
            (response.status().as_u16(), response.text().await.unwrap())
        }
    };
    let asked = server.engine.bodies.lock().unwrap().len();
    let cancel = async {
        wait_for(|| server.engine.bodies.lock().unwrap().len() > asked).await;
        // The ids arrive.
        tokio::time::sleep(Duration::from_millis(200)).await;
        send(PATH, CANCEL).await
    };
    let (answer, cancel) = tokio::join!(send(path, body), cancel);
    [answer, cancel]
}

#[tokio::test]
async fn a_cancelled_reply_ends_where_it_is_and_the_session_goes_on_with_it() {
    for kind in by_ids() {
        let server = endless(kind, "Hello").await;
        let whole = body(r#""Hi""#, 7, true);
        let streamed = whole.replace(r#""stream": false"#, r#""stream": true"#);
        let chat = r#"{"messages": [{"role": "user", "content": "Hi"}], "session_id": 7, "stream": true}"#.to_owned();
        let mut had = Vec::new();
        for (turn, (path, body)) in
            [(PATH, &whole), (PATH, &streamed), ("/v1/chat/completions", &chat)].into_iter().enumerate()
        {
            let [answer, cancel] = cancelled(&server, path, body).await;
            assert_eq!(cancel.0, 200, "{cancel:?}");
            assert!(at(&json::parse(&cancel.1).unwrap(), "finish_reason").is_null(), "{cancel:?}");
            assert_eq!(answer.0, 200, "{answer:?}");
            let has_all = answer.1.contains(r#""Hello""#) || answer.1.matches(r#":"l""#).count() == 2;
            assert!(has_all, "{answer:?}");
            assert!(answer.1.contains(r#""finish_reason":"length""#), "{answer:?}");
            wait_for(|| server.engine.dropped.load(Ordering::SeqCst) == turn + 1).await;
            // What was said before is still there.
            let prompt = server.engine.prompt();
            assert!(prompt.starts_with(&had), "{kind:?} {turn}");
            had = [prompt, sampled("chatml", "Hello")].concat();
        }
    }
}

#[tokio::test]
async fn a_turn_that_is_cancelled_before_its_reply_begins_is_not_kept() {
    let server = endless(EngineKind::LlamaCpp, "").await;
    for streamed in ["false", "true"] {
        let body = body(r#""Hi""#, 7, true).replace(r#""stream": false"#, &format!(r#""stream": {streamed}"#));
        let [answer, cancel] = cancelled(&server, PATH, &body).await;
        assert_eq!((answer.0, cancel.0), (409, 200), "{answer:?}");
        assert!(answer.1.contains(r#""code":"cancelled""#), "{answer:?}");
    }
    // Nor is one whose engine has not even answered yet.
    let busy = endless(EngineKind::LlamaCpp, "Hello").await;
    busy.engine.places.forget_permits(usize::MAX);
    let [answer, _] = cancelled(&busy, PATH, &body(r#""Hi""#, 7, true)).await;
    assert_eq!(answer.0, 409, "{answer:?}");
    busy.engine.places.add_permits(8);
    let [answer, _] = cancelled(&busy, PATH, &body(r#""Hi""#, 7, true)).await;
    assert!(answer.1.contains(r#""history_tokens":0"#), "{answer:?}");
}

#[tokio::test]
async fn nothing_else_is_cancelled() {
    let server = endless(EngineKind::LlamaCpp, "Hello").await;
    let text = body(r#""Hi""#, 7, true).replace(r#""stream": false"#, r#""stream": true"#);
    let mut response = server.request(PATH, &text).bearer_auth("one").send().await.unwrap();
    let first = response.chunk().await.unwrap().unwrap();
    assert!(std::str::from_utf8(&first).unwrap().contains(r#""finish_reason":null"#), "{first:?}");
    // Another owner's, another session's.
    for (key, cancel) in [("two", CANCEL.to_owned()), ("one", CANCEL.replace('7', "8"))] {
        let answer = server.request(PATH, &cancel).bearer_auth(key).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 200);
    }
    let rest = tokio::time::timeout(Duration::from_millis(300), async {
        while let Some(more) = response.chunk().await.unwrap() {
            assert!(!std::str::from_utf8(&more).unwrap().contains("length"), "{more:?}");
        }
    });
    assert!(rest.await.is_err(), "the reply ended");
    drop(response);
    wait_for(|| server.engine.dropped.load(Ordering::SeqCst) == 1).await;
    // A session in which nothing is said any more.
    let (status, cancel) = {
        let answer = server.request(PATH, CANCEL).bearer_auth("one").send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    assert_eq!(status, 200, "{cancel}");
}

#[tokio::test]
async fn a_turn_has_ended_when_its_cancel_is_answered() {
    let server = endless(EngineKind::LlamaCpp, "Hello").await;
    let mut had = Vec::new();
    for turn in 1..=3 {
        let request = server.request(PATH, &body(r#""Hi""#, 7, true)).bearer_auth("one");
        tokio::spawn(async move { request.send().await.unwrap().text().await.unwrap() });
        wait_for(|| server.engine.bodies.lock().unwrap().len() == turn).await;
        let prompt = server.engine.prompt();
        assert!(prompt.starts_with(&had), "{turn}");
        had = [prompt, sampled("chatml", "Hello")].concat();
        tokio::time::sleep(Duration::from_millis(200)).await;
        server.request(PATH, CANCEL).bearer_auth("one").send().await.unwrap();
    }
}
