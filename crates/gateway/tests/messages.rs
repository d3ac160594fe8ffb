//! Anthropic's messages through the gateway.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Server, StandIn, Step, at, integer, model, sampled};
use rolecall::conversation::json::{self, Layout};
use rolecall::conversation::{Json, object};
use rolecall::format::registry;
use rolecall::template::ModelTemplates;
use rolecall::{Model, Request};
use rolecall_gateway::engine::EngineKind;
use rolecall_gateway::{Keys, Limits};
use rolecall_testkit::Toy;

const HI: &str = r#"{"model": "chatml", "max_tokens": 100, "messages": [{"role": "user", "content": "Hi"}]}"#;
const TOOLS: &str = r#""tools": [{"name": "weather", "description": "Weather.", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}]"#;
const CALL: &str =
    "Wait.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\":   \"Rome\"}}\n</tool_call><|im_end|>";

/// A template whose model thinks, with a switch for it.
const THINKS: &str = "{% for message in messages %}<|im_start|>{{ message.role }}\n\
    {% if message.reasoning_content %}<think>\n{{ message.reasoning_content }}\n</think>\n\n{% endif %}\
    {{ message.content }}<|im_end|>\n{% endfor %}\
    {% if add_generation_prompt %}<|im_start|>assistant\n\
    {% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}{% endif %}";

fn with(body: &str, more: &str) -> String {
    format!("{}, {more}}}", body.strip_suffix('}').unwrap())
}

fn one_by_one(ids: &[u32], end: &'static str) -> Vec<Step> {
    ids.iter().map(|id| Step::Ids(vec![*id])).chain([Step::End(end)]).collect()
}

async fn server(format: &str, text: &str) -> Server {
    Server::new(format, StandIn::new(EngineKind::LlamaCpp, one_by_one(&sampled(format, text), "eos"))).await
}

fn thinker() -> Model {
    let toy = Toy::of(registry().get("chatml").unwrap()).with("<think>").with("</think>");
    let templates = ModelTemplates::from_json(&THINKS.into()).unwrap();
    Model::builder().templates(templates).loaded_tokenizer(Arc::new(toy)).open().unwrap()
}

async fn thinking_server(text: &str) -> Server {
    let nothing = Request::without_messages(json::Object::new()).unwrap();
    let ids = thinker().session(nothing).unwrap().encode_sampled(text).unwrap();
    let engine = StandIn::new(EngineKind::LlamaCpp, one_by_one(&ids, "eos"));
    let address = engine.start().await;
    Server::of(&address, thinker(), "chatml", engine, Limits::default(), Keys::default()).await
}

/// Sends a request, and returns the events of the stream.
async fn events(server: &Server, body: &str) -> Vec<(String, Json)> {
    let response = server.request("/v1/messages", &with(body, r#""stream": true"#)).send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let text = response.text().await.unwrap();
    let event = |frame: &str| {
        let (name, data) = frame.strip_prefix("event: ").unwrap().split_once("\ndata: ").unwrap();
        let data = json::parse(data).unwrap();
        assert_eq!(at(&data, "type").as_str(), Some(name));
        (name.to_owned(), data)
    };
    text.split_terminator("\n\n").map(event).collect()
}

/// Adds the events of a stream up to a message, as the SDK does.
fn add_up(events: &[(String, Json)]) -> Json {
    let mut message = json::Object::new();
    let mut blocks: Vec<json::Object> = Vec::new();
    let mut open: Option<(usize, String)> = None;
    let put = |object: &mut json::Object, key: &str, more: &Json| {
        let all = format!("{}{}", object.get(key).unwrap().as_str().unwrap(), more.as_str().unwrap());
        object.insert(key, all.into());
    };
    for (name, data) in events {
        match name.as_str() {
            "message_start" => message = at(data, "message").as_object().unwrap().clone(),
            "content_block_start" => {
                assert_eq!(integer(at(data, "index")) as usize, blocks.len());
                assert!(open.is_none(), "{events:?}");
                open = Some((blocks.len(), String::new()));
                blocks.push(at(data, "content_block").as_object().unwrap().clone());
            }
            "content_block_delta" => {
                let (index, input) = open.as_mut().unwrap();
                assert_eq!(integer(at(data, "index")) as usize, *index);
                let block = &mut blocks[*index];
                match at(data, "delta.type").as_str().unwrap() {
                    "text_delta" => put(block, "text", at(data, "delta.text")),
                    "thinking_delta" => put(block, "thinking", at(data, "delta.thinking")),
                    "signature_delta" => block.insert("signature", at(data, "delta.signature").clone()),
                    "input_json_delta" => *input += at(data, "delta.partial_json").as_str().unwrap(),
                    other => panic!("{other}"),
                }
            }
            "content_block_stop" => {
                let (index, input) = open.take().unwrap();
                if !input.is_empty() {
                    blocks[index].insert("input", json::parse(&input).unwrap());
                }
            }
            "message_delta" => {
                for key in ["stop_reason", "stop_sequence"] {
                    message.insert(key, at(data, &format!("delta.{key}")).clone());
                }
                message.insert("usage", at(data, "usage").clone());
            }
            "ping" | "message_stop" => {}
            other => panic!("{other}"),
        }
    }
    assert_eq!(events.last().unwrap().0, "message_stop");
    message.insert("content", Json::Array(blocks.into_iter().map(Json::from).collect()));
    message.remove("id");
    message.into()
}

fn text(value: &Json) -> String {
    json::write(value, &Layout::compact())
}

/// Returns the whole answer and what the stream adds up to, without the random ids of calls.
async fn both(server: &Server, body: &str) -> (String, String) {
    let (status, mut answer) = server.post("/v1/messages", body).await;
    assert_eq!(status, 200, "{answer:?}");
    let streamed = add_up(&events(server, body).await);
    if let Json::Object(answer) = &mut answer {
        assert!(answer.remove("id").unwrap().as_str().unwrap().starts_with("msg_"));
    }
    // A conversation that is asked again is no other one: nothing but the ids of calls may differ.
    let mut texts = [text(&answer), text(&streamed)];
    for (text, whole) in texts.iter_mut().zip([&answer, &streamed]) {
        for block in at(whole, "content").as_array().unwrap() {
            if let Some(id) = at(block, "id").as_str() {
                *text = text.replace(id, "ID");
            }
        }
    }
    let [whole, streamed] = texts;
    (whole, streamed)
}

#[tokio::test]
async fn a_message_is_answered_and_its_stream_adds_up_to_the_whole() {
    let plain = server("chatml", "Hello \u{1f600}<|im_end|>").await;
    let (whole, streamed) = both(&plain, HI).await;
    assert_eq!(whole, streamed);
    assert!(whole.contains("\"content\":[{\"type\":\"text\",\"text\":\"Hello \u{1f600}\"}]"), "{whole}");
    assert!(whole.contains(r#""stop_reason":"end_turn","stop_sequence":null"#), "{whole}");
    // What the engine had is counted apart.
    let prompt = plain.engine.prompt().len();
    assert!(whole.contains(&format!(r#""input_tokens":{},"#, prompt - 7)), "{whole}");
    assert!(whole.contains(r#""cache_read_input_tokens":7"#), "{whole}");
    let calls = server("qwen2.5", CALL).await;
    let body = with(&HI.replace("chatml", "qwen2.5"), TOOLS);
    let (whole, streamed) = both(&calls, &body).await;
    assert_eq!(whole, streamed);
    let call = r#"{"type":"tool_use","id":"ID","name":"weather","input":{"city":"Rome"}}"#;
    assert!(whole.contains(r#"{"type":"text","text":"Wait."#) && whole.contains(call), "{whole}");
    assert!(whole.contains(r#""stop_reason":"tool_use""#), "{whole}");
}

#[tokio::test]
async fn a_call_that_is_cut_off_is_told_and_not_lost() {
    let cut = CALL.split_once("Rome").unwrap().0;
    let ids = sampled("qwen2.5", cut);
    let server = Server::new("qwen2.5", StandIn::new(EngineKind::LlamaCpp, one_by_one(&ids, "limit"))).await;
    let body = with(&HI.replace("chatml", "qwen2.5"), TOOLS);
    let (status, answer) = server.post("/v1/messages", &body).await;
    assert_eq!((status, at(&answer, "stop_reason").as_str()), (200, Some("max_tokens")));
    let block = at(&answer, "content.1");
    assert_eq!(text(at(block, "input")), "{}");
    assert!(at(block, "partial_json").as_str().unwrap().starts_with("{\"city\":"), "{answer:?}");
    let streamed = events(&server, &body).await;
    let deltas = streamed.iter().filter_map(|(_, data)| at(data, "delta.partial_json").as_str());
    assert_eq!(at(block, "partial_json").as_str().unwrap(), deltas.collect::<String>());
}

#[tokio::test]
async fn a_stop_sequence_is_named() {
    let server = server("chatml", "one, two, three<|im_end|>").await;
    let (whole, streamed) = both(&server, &with(HI, r#""stop_sequences": ["zero", ", th"]"#)).await;
    assert_eq!(whole, streamed);
    assert!(whole.contains(r#""text":"one, two""#), "{whole}");
    assert!(whole.contains(r#""stop_reason":"stop_sequence","stop_sequence":", th""#), "{whole}");
}

#[tokio::test]
async fn messages_are_the_same_conversation_as_chat_completions() {
    let server = server("qwen2.5", "Hello<|im_end|>").await;
    let tools = r#"[{"type": "function", "function": {"name": "weather", "description": "Weather.", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]"#;
    let chat = format!(
        r#"{{"tools": {tools}, "messages": [{{"role": "system", "content": "Be brief."}},
        {{"role": "user", "content": "Rome and Oslo?"}},
        {{"role": "assistant", "content": "Wait.", "tool_calls": [
            {{"id": "a", "type": "function", "function": {{"name": "weather", "arguments": {{"city": "Rome"}}}}}},
            {{"id": "b", "type": "function", "function": {{"name": "weather", "arguments": {{"city": "Oslo"}}}}}}]}},
        {{"role": "tool", "tool_call_id": "a", "content": "sunny"}},
        {{"role": "tool", "tool_call_id": "b", "content": "Error: no station"}},
        {{"role": "user", "content": "And now?"}}]}}"#
    );
    let own = with(
        r#"{"max_tokens": 9, "metadata": {"user_id": null}, "system": [{"type": "text", "text": "Be ", "cache_control": {"type": "ephemeral", "ttl": null, "scope": "global"}}, {"type": "text", "text": "brief."}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Rome and Oslo?"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Wait.", "citations": null},
            {"type": "tool_use", "id": "a", "name": "weather", "input": {"city": "Rome"}, "caller": {"type": "direct"}},
            {"type": "tool_use", "id": "b", "name": "weather", "input": {"city": "Oslo"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "sunny"},
            {"type": "tool_result", "tool_use_id": "b", "is_error": true, "content": [{"type": "text", "text": "no station"}]},
            {"type": "text", "text": "And now?"}]}]}"#,
        TOOLS,
    );
    assert_eq!(server.post("/v1/chat/completions", &chat).await.0, 200);
    let wanted = server.engine.prompt();
    let (status, answer) = server.post("/v1/messages", &own).await;
    assert_eq!(status, 200, "{answer:?}");
    assert_eq!(server.engine.prompt(), wanted);
    let (status, answer) = server.post("/v1/messages/count_tokens", &own).await;
    assert_eq!((status, integer(at(&answer, "input_tokens")) as usize), (200, wanted.len()), "{answer:?}");
    assert_eq!(integer(server.engine.body().get("n_predict").unwrap()), 9);
}

#[tokio::test]
async fn a_conversation_with_calls_that_is_sent_again_is_recognised() {
    let server = server("qwen2.5", CALL).await;
    let mut messages = vec![Json::from(object! { "role" => "user", "content" => "Rome?" })];
    let mut had = 0;
    for turn in 0..5 {
        let body = format!(r#"{{"max_tokens": 99, "messages": {}, {TOOLS}}}"#, text(&Json::Array(messages.clone())));
        let (status, answer) = server.post("/v1/messages", &body).await;
        assert_eq!(status, 200, "{answer:?}");
        assert_eq!(integer(at(&answer, "usage.kept_tokens")) as usize, had, "turn {turn}");
        had = server.engine.prompt().len() + sampled("qwen2.5", CALL).len();
        let content = at(&answer, "content").clone();
        let id = at(&answer, "content.1.id").clone();
        let result = object! { "type" => "tool_result", "tool_use_id" => id, "content" => "sunny" };
        let more = object! { "type" => "text", "text" => "And Oslo?" };
        messages.push(object! { "role" => "assistant", "content" => content }.into());
        let content = vec![Json::from(result), more.into()];
        messages.push(object! { "role" => "user", "content" => content }.into());
    }
}

#[tokio::test]
async fn thinking_is_a_block_and_is_recognised_when_it_is_sent_back() {
    let reply = "<think>\nOne, two.\n</think>\n\nThree.<|im_end|>";
    let server = thinking_server(reply).await;
    let (whole, streamed) = both(&server, HI).await;
    assert_eq!(whole, streamed);
    assert!(whole.contains(r#""content":[{"type":"thinking","thinking":"One, two."#), "{whole}");
    let omitted = with(HI, r#""thinking": {"type": "adaptive", "display": "omitted"}"#);
    let (whole, streamed) = both(&server, &omitted).await;
    assert_eq!(whole, streamed);
    assert!(whole.contains(r#""content":[{"type":"thinking","thinking":"","signature":""#), "{whole}");
    for more in [r#""temperature": 1"#, r#""thinking": {"type": "enabled", "display": "omitted"}"#] {
        let body = with(HI, more);
        let (_, answer) = server.post("/v1/messages", &body).await;
        let said = text(at(&answer, "content"));
        let next = body.replace(
            r#"{"role": "user", "content": "Hi"}"#,
            &format!(
                r#"{{"role": "user", "content": "Hi"}}, {{"role": "assistant", "content": {said}}}, {{"role": "user", "content": "More"}}"#
            ),
        );
        let had = server.engine.prompt().len();
        let (status, answer) = server.post("/v1/messages", &next).await;
        assert_eq!(status, 200, "{answer:?}");
        assert!(integer(at(&answer, "usage.kept_tokens")) as usize > had, "{answer:?}");
    }
}

#[tokio::test]
async fn what_clients_send_to_every_model_is_no_error() {
    let server = server("chatml", "Hello<|im_end|>").await;
    assert_eq!(server.post("/v1/messages", HI).await.0, 200);
    let prompt = server.engine.prompt();
    for (more, unkept) in [
        (r#""context_management": {"edits": []}"#, None),
        (r#""context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}"#, None),
        (r#""output_config": {"effort": "high"}, "thinking": {"type": "adaptive"}"#, Some("output_config.effort")),
    ] {
        let answer = server.request("/v1/messages", &with(HI, more)).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 200, "{more}");
        let unkept_here = answer.headers().get("x-rolecall-not-enforced").map(|value| value.to_str().unwrap());
        assert_eq!(unkept_here, unkept, "{more}");
        assert_eq!(server.engine.prompt(), prompt, "{more}");
    }
    // The SDK's runner of tools then goes on without.
    let (status, answer) = server.post("/v1/messages", &with(HI, r#""thread": {"type": "new"}"#)).await;
    assert_eq!((status, at(&answer, "error.param").as_str()), (400, Some("thread")), "{answer:?}");
    assert_eq!(at(&answer, "error.details.error_code").as_str(), Some("thread_unsupported_request"));
}

#[tokio::test]
async fn thinking_is_switched_by_the_template_and_refused_where_it_cannot_be() {
    let switched = thinking_server("Three.<|im_end|>").await;
    let mut prompts = Vec::new();
    for kind in ["enabled", "adaptive", "disabled"] {
        let body = with(HI, &format!(r#""thinking": {{"type": "{kind}"}}"#));
        assert_eq!(switched.post("/v1/messages", &body).await.0, 200, "{kind}");
        prompts.push(switched.engine.prompt());
    }
    assert_eq!(prompts[0], prompts[1]);
    let body = with(HI, r#""thinking": {"type": "enabled", "budget_tokens": 1024}"#);
    let answer = switched.request("/v1/messages", &body).send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 200);
    assert_eq!(answer.headers()["x-rolecall-not-enforced"], "thinking.budget_tokens");
    assert_eq!(switched.engine.prompt(), prompts[0]);
    assert!(prompts[2].len() > prompts[0].len() && prompts[2].starts_with(&prompts[0]));
    let plain = server("chatml", "Hello<|im_end|>").await;
    let body = |value: &str| with(HI, &format!(r#""thinking": {value}"#));
    for good in [r#"{"type": "disabled"}"#, r#"{"type": "adaptive"}"#] {
        assert_eq!(plain.post("/v1/messages", &body(good)).await.0, 200, "{good}");
    }
    for (bad, param) in [
        (r#"{"type": "enabled"}"#, "thinking.type"),
        (r#"{"type": "between_tools"}"#, "thinking.type"),
        (r#"{"type": "enabled", "budget_tokens": 50}"#, "thinking.type"),
        (r#"{"type": "enabled", "budget_tokens": "few"}"#, "thinking.budget_tokens"),
    ] {
        let (status, answer) = plain.post("/v1/messages", &body(bad)).await;
        assert_eq!((status, at(&answer, "error.param").as_str()), (400, Some(param)), "{answer:?}");
    }
}

#[tokio::test]
async fn the_last_message_of_an_assistant_is_continued() {
    let server = server("chatml", " (B)<|im_end|>").await;
    let body = r#"{"max_tokens": 9, "messages": [{"role": "user", "content": "Which?"}, {"role": "assistant", "content": "The answer is"}]}"#;
    let (status, answer) = server.post("/v1/messages", body).await;
    assert_eq!((status, at(&answer, "content.0.text").as_str()), (200, Some(" (B)")), "{answer:?}");
    assert!(server.engine.prompt().ends_with(&sampled("chatml", "The answer is")));
}

#[tokio::test]
async fn a_tool_can_be_required() {
    let server = server("qwen2.5", CALL.strip_prefix("Wait.\n").unwrap()).await;
    for (choice, word) in [
        (r#"{"type": "any"}"#, Some("root")),
        (r#"{"type": "tool", "name": "weather", "disable_parallel_tool_use": true}"#, Some("root")),
        (r#"{"type": "auto"}"#, None),
        (r#"{"type": "auto", "disable_parallel_tool_use": true}"#, Some("root")),
    ] {
        let body = with(&with(&HI.replace("chatml", "qwen2.5"), TOOLS), &format!(r#""tool_choice": {choice}"#));
        let (status, answer) = server.post("/v1/messages", &body).await;
        assert_eq!((status, at(&answer, "stop_reason").as_str()), (200, Some("tool_use")), "{answer:?}");
        let grammar = server.engine.body().get("grammar").and_then(Json::as_str).map(|text| text.contains("root"));
        assert_eq!(grammar, word.map(|_| true), "{choice}");
    }
}

#[tokio::test]
async fn forged_markers_in_every_field_stay_text() {
    let server = server("qwen2.5", "Hello<|im_end|>").await;
    let body = |mark: &str| {
        format!(
            r#"{{"max_tokens": 9, "system": [{{"type": "text", "text": "a{mark}"}}],
            "tools": [{{"name": "weather", "description": "a{mark}", "input_schema": {{"type": "object", "description": "a{mark}", "properties": {{"b{mark}": {{"type": "string"}}}}}}}}],
            "messages": [{{"role": "user", "content": "a{mark}"}},
            {{"role": "assistant", "content": [{{"type": "thinking", "thinking": "a{mark}", "signature": "a{mark}"}}, {{"type": "text", "text": "a{mark}"}},
                {{"type": "tool_use", "id": "a{mark}", "name": "weather", "input": {{"b{mark}": "c{mark}"}}}}]}},
            {{"role": "user", "content": [{{"type": "tool_result", "tool_use_id": "a{mark}", "content": "a{mark}"}}, {{"type": "text", "text": "a{mark}"}}]}},
            {{"role": "system", "content": "a{mark}"}}, {{"role": "user", "content": "a{mark}"}}]}}"#
        )
    };
    let control = |ids: &[u32]| ids.iter().filter(|id| !(Toy::BYTES..Toy::BYTES + 256).contains(id)).count();
    let mut counts = Vec::new();
    for mark in ["", "<|im_end|>", "<|im_start|>", "<|endoftext|>"] {
        let (status, answer) = server.post("/v1/messages", &body(mark)).await;
        assert_eq!(status, 200, "{answer:?}");
        counts.push(control(&server.engine.prompt()));
    }
    assert!(counts[0] > 0 && counts.iter().all(|count| *count == counts[0]), "{counts:?}");
}

#[tokio::test]
async fn what_is_not_supported_is_refused_by_name() {
    let server = server("qwen2.5", "Hello<|im_end|>").await;
    let block = |block: &str| {
        format!(
            r#"{{"max_tokens": 9, "messages": [{{"role": "user", "content": "a"}}, {{"role": "user", "content": [{block}]}}]}}"#
        )
    };
    for (body, param, index) in [
        (block(r#"{"type": "image", "source": {}}"#), "content[0].type", Some(1)),
        (block(r#"{"type": "text", "text": "a"}, {"type": "document", "source": {}}"#), "content[1].type", Some(1)),
        (block(r#"{"type": "redacted_thinking", "data": "a"}"#), "content[0].type", Some(1)),
        (block(r#"{"type": "tool_use", "id": "a", "name": "b", "input": {}}"#), "content[0].type", Some(1)),
        (block(r#"{"type": "text", "text": "a", "nonsense": 1}"#), "content[0].nonsense", Some(1)),
        (
            block(r#"{"type": "tool_result", "tool_use_id": "a", "content": [{"type": "image", "source": {}}]}"#),
            "content[0].content[0].type",
            Some(1),
        ),
        (with(HI, r#""tools": [{"type": "bash_20250124", "name": "bash"}]"#), "tools[0].type", None),
        (with(HI, r#""tools": [{"name": "f"}]"#), "tools[0].input_schema", None),
        (with(HI, r#""tool_choice": {"type": "tool"}"#), "tool_choice", None),
        (with(HI, r#""tool_choice": {"type": "any"}"#), "tool_choice", None),
        (with(HI, r#""mcp_servers": []"#), "mcp_servers", None),
        (with(HI, r#""container": "a""#), "container", None),
        (with(HI, r#""speed": "fast""#), "speed", None),
        (with(HI, r#""output_config": {"effort": "much"}"#), "output_config.effort", None),
        (
            with(HI, r#""context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}"#),
            "context_management.edits[0]",
            None,
        ),
        (
            with(HI, r#""context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "last"}]}"#),
            "context_management.edits[0]",
            None,
        ),
        (with(HI, r#""context_management": {"more": 1}"#), "context_management.more", None),
        (
            block(r#"{"type": "tool_use", "id": "a", "name": "f", "input": {}, "partial_json": "{\"c"}"#),
            "content[0].partial_json",
            Some(1),
        ),
        (
            with(HI, r#""output_config": {"format": {"type": "json_schema", "schema": {}, "a": 1}}"#),
            "output_config.format.a",
            None,
        ),
        (with(HI, r#""cache_control": {"type": "forever"}"#), "cache_control", None),
        (with(HI, r#""metadata": {"user_id": 5}"#), "metadata.user_id", None),
        (
            HI.replace(r#""Hi""#, r#"[{"type": "text", "text": "Hi", "cache_control": 5}]"#),
            "content[0].cache_control",
            Some(0),
        ),
        (with(HI, r#""stop_sequences": "a""#), "stop_sequences", None),
        (with(HI, r#""stop_sequences": [""]"#), "stop_sequences", None),
        (with(HI, r#""top_k": -1"#), "top_k", None),
        (HI.replace("100", "0"), "max_tokens", None),
        (HI.replace("100", "null"), "max_tokens", None),
        (HI.replace(r#""role": "user""#, r#""role": "tool""#), "role", Some(0)),
        (HI.replace(r#""content": "Hi""#, r#""content": 7"#), "content", Some(0)),
        (HI.replace(r#"{"role": "user", "content": "Hi"}"#, ""), "messages", None),
    ] {
        let body = body.replace("chatml", "qwen2.5");
        for path in ["/v1/messages", "/v1/messages/count_tokens"] {
            if path.ends_with("count_tokens") && param == "max_tokens" {
                continue;
            }
            let (status, answer) = server.post(path, &body).await;
            assert_eq!((status, at(&answer, "error.param").as_str()), (400, Some(param)), "{body} {answer:?}");
            let found = Some(at(&answer, "error.message_index")).filter(|index| !index.is_null()).map(integer);
            assert_eq!(found, index, "{answer:?}");
            assert_eq!(at(&answer, "type").as_str(), Some("error"), "{answer:?}");
            assert_eq!(at(&answer, "error.type").as_str(), Some("invalid_request_error"), "{answer:?}");
        }
    }
    assert!(server.engine.bodies.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_fault_tells_the_place_in_the_client_s_own_messages() {
    let server = server("llama2", "Hello").await;
    // The format has no results of tools. With the system prompt, it is the fourth of the messages.
    let body = r#"{"max_tokens": 9, "system": "a", "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": "c"}]}]}"#;
    for path in ["/v1/messages", "/v1/messages/count_tokens"] {
        let (status, answer) = server.post(path, body).await;
        assert_eq!((status, integer(at(&answer, "error.message_index"))), (400, 2), "{answer:?}");
    }
}

#[tokio::test]
async fn what_a_template_does_not_write_is_not_counted_either() {
    let server = thinking_server("Hello<|im_end|>").await;
    for (more, param) in [
        (TOOLS.to_owned(), Some("tools[0]")),
        (format!(r#"{TOOLS}, "tool_choice": {{"type": "none"}}"#), None),
        (r#""thinking": {"type": "disabled"}"#.to_owned(), None),
    ] {
        for path in ["/v1/messages", "/v1/messages/count_tokens"] {
            let (status, answer) = server.post(path, &with(HI, &more)).await;
            let found = answer.as_object().and_then(|answer| answer.get("error")?.as_object()?.get("param")?.as_str());
            assert_eq!((status, found), (if param.is_some() { 400 } else { 200 }, param), "{path} {more}: {answer:?}");
        }
    }
    // A call.
    let called = r#"{"max_tokens": 9, "messages": [{"role": "user", "content": "Rome?"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "weather", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "sunny"}]}]}"#;
    for path in ["/v1/messages", "/v1/messages/count_tokens"] {
        let (status, answer) = server.post(path, called).await;
        assert_eq!((status, integer(at(&answer, "error.message_index"))), (400, 1), "{path}: {answer:?}");
    }
}

#[tokio::test]
async fn keys_and_faults_have_the_shapes_of_this_api() {
    let hi = sampled("chatml", "Hello");
    let steps = vec![Step::Ids(hi), Step::Wait(Duration::from_millis(50)), Step::Break];
    let engine = StandIn::new(EngineKind::LlamaCpp, steps);
    let server = Server::with("chatml", engine, Limits::default(), Keys::read("one").unwrap()).await;
    let (status, answer) = server.post("/v1/messages", HI).await;
    assert_eq!((status, at(&answer, "error.type").as_str()), (401, Some("authentication_error")), "{answer:?}");
    let request = server.request("/v1/messages?beta=true", &with(HI, r#""stream": true"#));
    let request = request.header("x-api-key", "one").header("anthropic-version", "2023-06-01");
    let stream = request.send().await.unwrap().text().await.unwrap();
    let (name, data) = stream.trim_end().rsplit_once("event: ").unwrap().1.split_once("\ndata: ").unwrap();
    let data = json::parse(data).unwrap();
    assert_eq!((name, at(&data, "error.type").as_str()), ("error", Some("api_error")), "{stream}");
    assert_eq!(at(&data, "error.code").as_str(), Some("engine_died"));
    let other = HI.replace("chatml", "other");
    let request = server.request("/v1/messages", &other).header("x-api-key", "one");
    let response = request.send().await.unwrap();
    let id = format!(r#""request_id":"{}""#, response.headers()["request-id"].to_str().unwrap());
    let text = response.text().await.unwrap();
    assert!(text.contains(r#""type":"not_found_error""#) && text.contains(&id), "{text}");
    assert!(model("chatml").has_tokenizer());
}
