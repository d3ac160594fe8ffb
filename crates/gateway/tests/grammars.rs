//! Engines that ignore the grammar of a request.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use rolecall_gateway::engine::EngineKind;

use crate::common::{Server, StandIn, Step, at, by_ids, sampled};

const TOOLS: &str = r#""tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
    "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": false}}},
    {"type": "function", "function": {"name": "g"}}]"#;
const SCHEMA: &str = r#""response_format": {"type": "json_schema", "json_schema": {"name": "s",
    "schema": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}}"#;

fn call(name: &str, arguments: &str) -> String {
    format!("<tool_call>\n{{\"name\": \"{name}\", \"arguments\": {arguments}}}\n</tool_call>")
}

async fn server(kind: EngineKind, text: &str) -> Server {
    let steps = vec![Step::Ids(sampled("qwen2.5", &format!("{text}<|im_end|>"))), Step::End("stop")];
    Server::new("qwen2.5", StandIn::new(kind, steps)).await
}

fn body(more: &str) -> String {
    format!(r#"{{"messages": [{{"role": "user", "content": "Hi"}}], {more}}}"#)
}

#[tokio::test]
async fn a_reply_that_the_grammar_forbids_is_an_error() {
    let required = format!(r#"{TOOLS}, "tool_choice": "required""#);
    let named = format!(r#"{TOOLS}, "tool_choice": {{"type": "function", "function": {{"name": "f"}}}}"#);
    let one = format!(r#"{TOOLS}, "parallel_tool_calls": false"#);
    let none = format!(r#"{TOOLS}, "tool_choice": "none""#);
    let object = r#""response_format": {"type": "json_object"}"#;
    let f = call("f", r#"{"a": 1}"#);
    for (more, reply, is_good) in [
        (required.as_str(), "I cannot do that.", false),
        (&required, "", false),
        (&required, &f, true),
        (&required, &call("f", r#"{"a": "x"}"#), false),
        (&required, &call("f", "{}"), false),
        (&named, &f, true),
        (&named, &call("g", "{}"), false),
        (&named, "text", false),
        (&one, &f, true),
        (&one, "text", true),
        (&one, &format!("{f}\n{f}"), false),
        (&none, "text", true),
        (&none, &f, false),
        (object, r#"{"b": 1}"#, true),
        (object, "{\"b\":", false),
        (object, "[1]", false),
        (object, "Sure!", false),
        (SCHEMA, r#"{"a": 1}"#, true),
        (SCHEMA, r#"{"a": "1"}"#, false),
        (SCHEMA, "{}", false),
    ] {
        let server = server(EngineKind::LlamaCpp, reply).await;
        let (status, answer) = server.post("/v1/chat/completions", &body(more)).await;
        let code = at(&answer, "error.code").as_str();
        let wanted = if is_good { (200, None) } else { (502, Some("grammar_ignored")) };
        assert_eq!((status, code), wanted, "{more}\n{reply}\n{answer:?}");
        let frames = server.stream(&body(&format!(r#"{more}, "stream": true"#))).await;
        let last = frames.last().unwrap();
        assert_eq!(last.contains("grammar_ignored"), !is_good, "{more}\n{reply}\n{frames:?}");
        assert_eq!(last == "[DONE]", is_good);
    }
}

#[tokio::test]
async fn every_api_and_engine_says_so() {
    for kind in by_ids() {
        let server = server(kind, "I cannot do that.").await;
        let (status, answer) =
            server.post("/v1/chat/completions", &body(&format!(r#"{TOOLS}, "tool_choice": "required""#))).await;
        assert_eq!((status, at(&answer, "error.code").as_str()), (502, Some("grammar_ignored")), "{answer:?}");
    }
    let server = server(EngineKind::LlamaCpp, "I cannot do that.").await;
    let message = r#""max_tokens": 20, "tools": [{"name": "f", "input_schema": {"type": "object"}}], "tool_choice": {"type": "any"}"#;
    let (status, answer) = server.post("/v1/messages", &body(message)).await;
    assert_eq!((status, at(&answer, "error.code").as_str()), (502, Some("grammar_ignored")), "{answer:?}");
    let response = r#"{"input": "Hi", "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}], "tool_choice": "required"}"#;
    let (status, answer) = server.post("/v1/responses", response).await;
    assert_eq!((status, at(&answer, "error.code").as_str()), (502, Some("grammar_ignored")), "{answer:?}");
}

#[tokio::test]
async fn a_reply_that_was_cut_off_is_no_proof() {
    let steps = vec![Step::Ids(sampled("qwen2.5", "<tool_call>\n{\"name\": \"f\"")), Step::End("limit")];
    let server = Server::new("qwen2.5", StandIn::new(EngineKind::LlamaCpp, steps)).await;
    let (status, answer) =
        server.post("/v1/chat/completions", &body(&format!(r#"{TOOLS}, "tool_choice": "required""#))).await;
    assert_eq!((status, at(&answer, "choices.0.finish_reason").as_str()), (200, Some("length")), "{answer:?}");
}
