//! OpenAI's older completions through the gateway.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

mod common;

use std::sync::Arc;

use common::{Server, StandIn, Step, at, integer, model, sampled};
use rolecall::Model;
use rolecall::conversation::Json;
use rolecall::conversation::json::{self, Layout};
use rolecall::format::registry;
use rolecall_gateway::engine::Kind;
use rolecall_gateway::{Keys, Limits};
use rolecall_testkit::Toy;

fn steps(ids: &[u32], end: &'static str) -> Vec<Step> {
    ids.iter().map(|id| Step::Ids(vec![*id])).chain([Step::End(end)]).collect()
}

async fn server(format: &str, text: &str) -> Server {
    Server::new(format, StandIn::new(Kind::LlamaCpp, steps(&sampled(format, text), "eos"))).await
}

/// Returns the ids of ordinary text.
fn bytes(text: &str) -> Vec<u32> {
    text.bytes().map(|byte| Toy::BYTES + u32::from(byte)).collect()
}

/// Returns the chunks of a stream as values.
async fn chunks(server: &Server, body: &str) -> Vec<Json> {
    let body = format!("{}, \"stream\": true}}", body.strip_suffix('}').unwrap());
    let response = server.request("/v1/completions", &body).send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let text = response.text().await.unwrap();
    let mut frames: Vec<&str> =
        text.split_terminator("\n\n").map(|frame| frame.strip_prefix("data: ").unwrap()).collect();
    assert_eq!(frames.pop(), Some("[DONE]"));
    frames.into_iter().map(|frame| json::parse(frame).unwrap()).collect()
}

#[tokio::test]
async fn a_text_is_continued_as_text_and_the_stream_adds_up_to_the_whole() {
    let call = "Hi \u{1f600}<tool_call>\n{\"name\": \"f\"}\n</tool_call>";
    let server = server("qwen2.5", &format!("{call}<|im_end|>")).await;
    let body = r#"{"model": "qwen2.5", "prompt": "Once<|im_end|>", "stream_options": {"include_usage": true}}"#;
    let (status, answer) = server.post("/v1/completions", body).await;
    assert_eq!((status, at(&answer, "object").as_str()), (200, Some("text_completion")), "{answer:?}");
    // A forged marker is text. Calls are not parsed, and their markers are left out.
    assert_eq!(server.engine.prompt(), bytes("Once<|im_end|>"));
    let text = at(&answer, "choices.0.text").as_str().unwrap().to_owned();
    assert_eq!(text, "Hi \u{1f600}\n{\"name\": \"f\"}\n");
    assert_eq!(at(&answer, "choices.0.finish_reason").as_str(), Some("stop"));
    assert_eq!(integer(at(&answer, "usage.prompt_tokens")), 14);
    let streamed = chunks(&server, body).await;
    let pieces = streamed.iter().filter_map(|chunk| at(chunk, "choices").as_array().unwrap().first());
    assert_eq!(pieces.clone().map(|piece| at(piece, "text").as_str().unwrap()).collect::<String>(), text);
    let reasons: Vec<&str> = pieces.filter_map(|piece| at(piece, "finish_reason").as_str()).collect();
    assert_eq!(reasons, ["stop"]);
    assert_eq!(at(streamed.last().unwrap(), "usage"), at(&answer, "usage"));
    // With control tokens, nothing is left out.
    let body = body.replacen('{', r#"{"skip_special_tokens": false, "#, 1);
    let (_, answer) = server.post("/v1/completions", &body).await;
    assert_eq!(at(&answer, "choices.0.text").as_str(), Some(call));
}

#[tokio::test]
async fn ids_are_sent_as_they_are_and_only_if_the_model_has_them() {
    let server = server("chatml", "Hi<|im_end|>").await;
    let ids = sampled("chatml", "a<|im_start|>b");
    let (status, answer) = server.post("/v1/completions", &format!(r#"{{"prompt": {ids:?}, "echo": true}}"#)).await;
    assert_eq!((status, server.engine.prompt()), (200, ids));
    assert_eq!(at(&answer, "choices.0.text").as_str(), Some("a<|im_start|>bHi"));
    for bad in
        ["[4294967295]", "[5]", "[-1]", "[]", "[[]]", "[1.5]", "\"\"", "null", "7", r#"[["a"]]"#, r#"["a", 1000097]"#]
    {
        let (status, answer) = server.post("/v1/completions", &format!(r#"{{"prompt": {bad}}}"#)).await;
        assert_eq!((status, at(&answer, "error.param").as_str()), (400, Some("prompt")), "{bad} {answer:?}");
    }
}

#[tokio::test]
async fn several_prompts_have_several_replies_each() {
    let server = server("chatml", "Hi<|im_end|>").await;
    let body =
        format!(r#"{{"prompt": ["a", "bc"], "n": 2, "best_of": 2, "echo": true, "seed": 7, "more": {}}}"#, "null");
    let (status, answer) = server.post("/v1/completions", &body).await;
    assert_eq!(status, 200, "{answer:?}");
    let choices = at(&answer, "choices").as_array().unwrap();
    let texts: Vec<&str> = choices.iter().map(|choice| at(choice, "text").as_str().unwrap()).collect();
    assert_eq!(texts, ["aHi", "aHi", "bcHi", "bcHi"]);
    let indexes: Vec<u32> = choices.iter().map(|choice| integer(at(choice, "index"))).collect();
    assert_eq!(indexes, [0, 1, 2, 3]);
    assert_eq!(integer(at(&answer, "usage.prompt_tokens")), 3);
    assert_eq!(integer(at(&answer, "usage.completion_tokens")), 4 * 3);
    // The engine had seven ids of each prompt.
    assert_eq!(integer(at(&answer, "usage.prompt_tokens_details.cached_tokens")), 14);
    let mut added = vec![String::new(); 4];
    for chunk in chunks(&server, &body).await {
        let choice = at(&chunk, "choices.0");
        added[integer(at(choice, "index")) as usize] += at(choice, "text").as_str().unwrap();
    }
    assert_eq!(added, texts);
    let many = format!(r#"{{"prompt": [{}"a"], "n": 64}}"#, "\"a\", ".repeat(2));
    let (status, answer) = server.post("/v1/completions", &many).await;
    assert_eq!((status, at(&answer, "error.code").as_str()), (400, Some("too_many_prompts")));
}

#[tokio::test]
async fn the_tokenizer_s_own_first_token_comes_before_a_text() {
    let server = server("llama2", "Hi").await;
    let without = r#"{"prompt": "a", "add_special_tokens": false}"#;
    assert_eq!(server.post("/v1/completions", without).await.0, 200);
    assert_eq!(server.engine.prompt(), bytes("a"));
    assert_eq!(server.post("/v1/completions", r#"{"prompt": "a"}"#).await.0, 200);
    let toy = Toy::of(registry().get("llama2").unwrap());
    let toy: Arc<dyn rolecall::tokenizer::Tokenizer> = Arc::new(toy);
    let wanted: Vec<u32> = toy.adds_bos().into_iter().chain(bytes("a")).collect();
    assert_eq!(server.engine.prompt(), wanted);
}

#[tokio::test]
async fn settings_stops_and_limits_apply() {
    let server = server("chatml", "one, two, three<|im_end|>").await;
    let body =
        r#"{"prompt": "a", "stop": [", th"], "temperature": 0.5, "max_tokens": 19, "logit_bias": {"1000042": 1}}"#;
    let (status, answer) = server.post("/v1/completions", body).await;
    assert_eq!((status, at(&answer, "choices.0.text").as_str()), (200, Some("one, two")));
    let sent = json::write(&server.engine.body().into(), &Layout::compact());
    for part in [r#""temperature":0.5"#, r#""n_predict":19"#, r#""logit_bias":[[1000042,1]]"#] {
        assert!(sent.contains(part), "{sent}");
    }
    let ids = sampled("chatml", "cut");
    let cut = Server::new("chatml", StandIn::new(Kind::LlamaCpp, steps(&ids, "limit"))).await;
    let (_, answer) = cut.post("/v1/completions", r#"{"prompt": "a"}"#).await;
    assert_eq!(at(&answer, "choices.0.finish_reason").as_str(), Some("length"));
    for (more, param) in [
        (r#""suffix": "b""#, "suffix"),
        (r#""best_of": 3"#, "best_of"),
        (r#""best_of": "1""#, "best_of"),
        (r#""logprobs": 1"#, "logprobs"),
        (r#""ignore_eos": true"#, "ignore_eos"),
        (r#""n": 0"#, "n"),
        (r#""nonsense": 1"#, "nonsense"),
        (r#""messages": []"#, "messages"),
        (r#""max_completion_tokens": 1"#, "max_completion_tokens"),
        (r#""stream": 1"#, "stream"),
    ] {
        let (status, answer) = server.post("/v1/completions", &format!(r#"{{"prompt": "a", {more}}}"#)).await;
        assert_eq!((status, at(&answer, "error.param").as_str()), (400, Some(param)), "{more} {answer:?}");
    }
    let engine = StandIn::new(Kind::LlamaCpp, steps(&ids, "limit"));
    let limits = Limits { prompt_ids: 2, ..Limits::default() };
    let small = Server::with("chatml", engine, limits, Keys::default()).await;
    for long in [r#""abc""#, "[1000097, 1000097, 1000097]"] {
        let (status, answer) = small.post("/v1/completions", &format!(r#"{{"prompt": {long}}}"#)).await;
        assert_eq!((status, at(&answer, "error.code").as_str()), (400, Some("context_length_exceeded")), "{answer:?}");
    }
}

#[tokio::test]
async fn a_character_that_is_cut_off_is_replaced_and_not_lost() {
    let mut ids = bytes("a\u{1f600}");
    ids.pop();
    let server = Server::new("chatml", StandIn::new(Kind::LlamaCpp, steps(&ids, "limit"))).await;
    let (_, answer) = server.post("/v1/completions", r#"{"prompt": "a"}"#).await;
    assert_eq!(at(&answer, "choices.0.text").as_str(), Some("a\u{fffd}"));
    let whole: Model = model("chatml");
    assert!(whole.has_tokenizer());
}
