//! An engine that gets text and returns text.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use crate::common::{Server, StandIn, Step, at, integer, kinds, model, sampled};
use rolecall::Request;
use rolecall::conversation::json::{self, Layout};
use rolecall::conversation::{Json, object};
use rolecall_gateway::engine::{Engine, EngineKind};
use rolecall_gateway::{Config, Gateway, Limits, ModelConfig};

const HI: &str =
    r#"{"messages": [{"role": "user", "content": "Hi<|im_end|>"}], "max_tokens": 7, "seed": 3, "temperature": 0.5}"#;
const CALL: &str = "Well. <tool_call>\n{\"name\": \"look\", \"arguments\": {\"at\": \"it\"}}\n</tool_call>";

fn usage(count: u32) -> Step {
    let usage = format!(r#"{{"completion_tokens": {count}, "prompt_tokens_details": {{"cached_tokens": 4}}}}"#);
    Step::Raw(format!("data: {{\"choices\": [], \"usage\": {usage}}}\n\ndata: [DONE]\n\n"))
}

async fn server(format: &str, pieces: &[&str]) -> Server {
    let text = pieces.iter().map(|piece| Step::Text((*piece).to_owned()));
    Server::new(format, StandIn::new(EngineKind::OpenAi, text.chain([Step::End("stop"), usage(9)]).collect())).await
}

/// A request that offers a tool.
fn with_tool(more: &str) -> String {
    format!(
        r#"{{"messages": [{{"role": "user", "content": "Hi"}}], {more} "tools": [{{"type": "function", "function": {{"name": "look", "parameters": {{"type": "object"}}}}}}]}}"#
    )
}

#[tokio::test]
async fn the_engine_gets_the_text_of_the_prompt_and_only_fields_of_openai() {
    let server = server("chatml", &["Hel", "lo"]).await;
    let (status, answer) = server.post("/v1/chat/completions", HI).await;
    assert_eq!((status, at(&answer, "choices.0.message.content").as_str()), (200, Some("Hello")), "{answer:?}");
    assert_eq!(integer(at(&answer, "usage.completion_tokens")), 9);
    assert_eq!(integer(at(&answer, "usage.prompt_tokens_details.cached_tokens")), 4);
    let prompt = model("chatml").prompt(Request::from_text(HI).unwrap()).unwrap();
    let wanted = object! {
        "prompt" => prompt.text(), "stream" => true, "stream_options" => object! { "include_usage" => true },
        "max_tokens" => 7, "stop" => vec![Json::from("<|im_end|>")], "temperature" => json::parse("0.5").unwrap(),
        "seed" => 3,
    };
    assert_eq!(Json::from(server.engine.body()), Json::from(wanted));
    // A message that is continued.
    let begun = r#"{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "So"}], "continue_final_message": true, "add_generation_prompt": false}"#;
    assert_eq!(server.post("/v1/chat/completions", begun).await.0, 200);
    let prompt = model("chatml").prompt(Request::from_text(begun).unwrap()).unwrap();
    assert_eq!(server.engine.body().get("prompt").and_then(Json::as_str), Some(prompt.text()));
}

#[tokio::test]
async fn a_call_is_read_whole_wherever_its_text_is_cut() {
    let whole = {
        let ids = sampled("qwen2.5", &format!("{CALL}<|im_end|>"));
        let engine = StandIn::new(EngineKind::LlamaCpp, vec![Step::Ids(ids), Step::End("eos")]);
        let (_, answer) = Server::new("qwen2.5", engine).await.post("/v1/chat/completions", &with_tool("")).await;
        at(&answer, "choices.0").clone()
    };
    assert_eq!(at(&whole, "message.tool_calls.0.function.name").as_str(), Some("look"), "{whole:?}");
    // Some engines leave the end in.
    for end in ["", "<|im_end|>"] {
        let text = format!("{CALL}{end}");
        for cut in 0..=text.len() {
            let server = server("qwen2.5", &[&text[..cut], &text[cut..]]).await;
            let (_, answer) = server.post("/v1/chat/completions", &with_tool("")).await;
            let mut found = at(&answer, "choices.0").clone();
            forget_id(&mut found);
            let mut wanted = whole.clone();
            forget_id(&mut wanted);
            assert_eq!(found, wanted, "{cut}");
        }
    }
}

/// Ids of calls are made for each answer.
fn forget_id(choice: &mut Json) {
    let text = json::write(choice, &Layout::compact());
    let id = at(choice, "message.tool_calls.0.id").as_str().unwrap().to_owned();
    *choice = json::parse(&text.replace(&id, "id")).unwrap();
}

#[tokio::test]
async fn a_stop_text_of_the_client_ends_the_reply() {
    let server = server("chatml", &["one tw", "o three"]).await;
    let body = HI.replacen('{', r#"{"stop": "two", "#, 1);
    let (_, answer) = server.post("/v1/chat/completions", &body).await;
    assert_eq!(at(&answer, "choices.0.message.content").as_str(), Some("one "), "{answer:?}");
    // The engine's count comes too late. Each frame counts.
    assert_eq!(integer(at(&answer, "usage.completion_tokens")), 2);
    assert_eq!(server.engine.body().get("stop").and_then(Json::as_array).map(<[Json]>::len), Some(1));
    // An engine may go on, and end for another reason.
    let steps = ["one tw", "o three", " four"].map(|piece| Step::Text(piece.to_owned()));
    let steps = steps.into_iter().chain([Step::End("length")]).collect();
    let server = Server::new("chatml", StandIn::new(EngineKind::OpenAi, steps)).await;
    let (_, answer) = server.post("/v1/chat/completions", &body).await;
    let choice = at(&answer, "choices.0");
    let found = ["message.content", "finish_reason"].map(|key| at(choice, key).as_str());
    assert_eq!(found, [Some("one "), Some("stop")], "{answer:?}");
    assert_eq!(integer(at(&answer, "usage.completion_tokens")), 2);
}

#[tokio::test]
async fn a_limit_is_told_and_missing_counts_are_estimated() {
    let steps = vec![Step::Text("a".to_owned()), Step::Text("b".to_owned()), Step::End("length")];
    let server = Server::new("chatml", StandIn::new(EngineKind::OpenAi, steps)).await;
    let (_, answer) = server.post("/v1/chat/completions", HI).await;
    assert_eq!(at(&answer, "choices.0.finish_reason").as_str(), Some("length"), "{answer:?}");
    assert_eq!(integer(at(&answer, "usage.completion_tokens")), 2);
}

#[tokio::test]
async fn a_conversation_goes_on_and_no_ids_are_kept() {
    let server = server("chatml", &["Hello"]).await;
    let user = |text: &str| Json::from(object! { "role" => "user", "content" => text });
    let mut messages = vec![user("Hi")];
    for turn in 0..3 {
        let body = json::write(&object! { "messages" => messages.clone() }.into(), &Layout::compact());
        let response = server.request("/v1/chat/completions", &body).send().await.unwrap();
        let session = response.headers()["x-rolecall-session"].to_str().unwrap().to_owned();
        assert!(
            session.starts_with(if turn == 0 { "history=new; kept=0;" } else { "history=grown; kept=0;" }),
            "{session}"
        );
        let answer = json::parse(&response.text().await.unwrap()).unwrap();
        assert_eq!(integer(at(&answer, "usage.prompt_tokens_details.kept_tokens")), 0);
        let prompt = model("chatml").prompt(Request::from_text(&body).unwrap()).unwrap();
        assert_eq!(server.engine.body().get("prompt").and_then(Json::as_str), Some(prompt.text()), "turn {turn}");
        messages.extend([at(&answer, "choices.0.message").clone(), user("Go on")]);
    }
}

#[tokio::test]
async fn what_the_engine_cannot_do_is_refused_by_name() {
    let server = server("chatml", &["Hello"]).await;
    for (more, param) in [
        (r#""logprobs": true,"#, "logprobs"),
        (
            r#""response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}},"#,
            "response_format",
        ),
        (r#""tool_choice": "required","#, "tool_choice"),
        (r#""tool_choice": "none","#, "tool_choice"),
        (r#""parallel_tool_calls": false,"#, "parallel_tool_calls"),
        (r#""top_k": 4,"#, "top_k"),
        (r#""min_p": 0.1,"#, "min_p"),
        (r#""repetition_penalty": 1.1,"#, "repetition_penalty"),
        (r#""logit_bias": {"1000005": 1},"#, "logit_bias"),
    ] {
        let (status, answer) = server.post("/v1/chat/completions", &with_tool(more)).await;
        assert_eq!((status, at(&answer, "error.param").as_str()), (400, Some(param)), "{answer:?}");
    }
    for (more, param) in [
        (r#""top_k": 4"#, "top_k"),
        (r#""add_special_tokens": false"#, "add_special_tokens"),
        (r#""skip_special_tokens": false"#, "skip_special_tokens"),
        (r#""logprobs": 0"#, "logprobs"),
    ] {
        let (status, answer) = server.post("/v1/completions", &format!(r#"{{"prompt": "a", {more}}}"#)).await;
        assert_eq!((status, at(&answer, "error.param").as_str()), (400, Some(param)), "{answer:?}");
    }
    let body = r#"{"input": "Hi", "include": ["message.output_text.logprobs"]}"#;
    let (status, answer) = server.post("/v1/responses", body).await;
    assert_eq!((status, at(&answer, "error.param").as_str()), (400, Some("include")), "{answer:?}");
    assert!(server.engine.bodies.lock().unwrap().is_empty());
}

#[tokio::test]
async fn completions_get_the_text_and_ids_that_are_no_text_are_refused() {
    let server = server("chatml", &["Hello"]).await;
    let ids = sampled("chatml", "caf\u{e9}");
    for prompt in ["\"caf\u{e9}\"".to_owned(), format!("{ids:?}")] {
        let (status, answer) = server.post("/v1/completions", &format!(r#"{{"prompt": {prompt}}}"#)).await;
        assert_eq!((status, at(&answer, "choices.0.text").as_str()), (200, Some("Hello")), "{answer:?}");
        assert_eq!(server.engine.body().get("prompt").and_then(Json::as_str), Some("caf\u{e9}"));
    }
    let (status, answer) = server.post("/v1/completions", &format!(r#"{{"prompt": {:?}}}"#, &ids[..4])).await;
    assert_eq!((status, at(&answer, "error.code").as_str()), (400, Some("not_text")), "{answer:?}");
}

#[tokio::test]
async fn the_danger_is_told() {
    let config = |kind| {
        let (name, model, engine) = ("m".to_owned(), model("chatml"), "http://127.0.0.1:1".to_owned());
        let on_rewrite = rolecall::session::OnRewrite::Rewrite;
        Config {
            models: vec![ModelConfig { name, model, engine, kind, engine_model: None, on_rewrite }],
            ..Config::default()
        }
    };
    for kind in kinds() {
        let warnings = Gateway::open(config(kind)).await.unwrap().warnings();
        assert_eq!(warnings.len(), usize::from(kind.is_by_text()), "{warnings:?}");
        assert!(warnings.iter().all(|warning| warning.starts_with("m: the engine gets text")), "{warnings:?}");
        let warning = Engine::new(kind, "http://127.0.0.1:1", &Limits::default()).unwrap().warning();
        assert_eq!(warning.is_some(), kind.is_by_text());
    }
}
