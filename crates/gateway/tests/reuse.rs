//! Fifty turns with tools and reasoning: a stable template sends only what is new, and with one that
//! rewrites history, the answer says what was done.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

mod common;

use std::sync::Arc;

use common::{Server, StandIn, Step, at, integer};
use rolecall::conversation::json::{self, Layout, Object};
use rolecall::conversation::{Json, object};
use rolecall::format::registry;
use rolecall::template::{CallForm, ModelTemplates};
use rolecall::{Model, Request};
use rolecall_gateway::engine::Kind;
use rolecall_gateway::{Keys, Limits};
use rolecall_testkit::Toy;

const REPLY: &str = "<think>\nHm. </think>\n\n<tool_call>\n{\"name\": \"look\", \"arguments\": {\"at\":  \"it\"}}\n</tool_call><|im_end|>";

/// A template in ChatML. `when` says where it writes the reasoning of earlier turns.
fn model(when: &str) -> Model {
    let source = r#"{%- set last = namespace(user=0) -%}
{%- for m in messages -%}{%- if m.role == "user" -%}{%- set last.user = loop.index0 -%}{%- endif -%}{%- endfor -%}
{%- if tools -%}{{ "<|im_start|>system\n" }}{%- for tool in tools -%}{{ tool | tojson }}{{ "\n" }}{%- endfor -%}{{ "<|im_end|>\n" }}{%- endif -%}
{%- for m in messages -%}
{{- "<|im_start|>" + m.role + "\n" -}}
{%- if m.reasoning_content and WHEN -%}{{ "<think>\n" + m.reasoning_content + "</think>\n\n" }}{%- endif -%}
{{- m.content if m.content else "" -}}
{%- for call in m.tool_calls or [] -%}
{{- "<tool_call>\n{\"name\": \"" + call.function.name + "\", \"arguments\": " + (call.function.arguments | tojson) + "}\n</tool_call>" -}}
{%- endfor -%}
{{- "<|im_end|>\n" -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ "<|im_start|>assistant\n" }}{%- endif -%}"#;
    let templates = ModelTemplates::from_json(&source.replace("WHEN", when).into()).unwrap();
    let toy = Toy::of(registry().get("qwen2.5").unwrap());
    Model::builder().templates(templates).loaded_tokenizer(Arc::new(toy)).tool_calls(CallForm::AsWanted).open().unwrap()
}

/// A server whose model always replies with the same text.
async fn server(when: &str) -> (Server, Vec<u32>) {
    let model = model(when);
    let nothing = Request::without_messages(Object::new()).unwrap();
    let ids = model.session(nothing).unwrap().encode_sampled(REPLY).unwrap();
    let engine = StandIn::new(Kind::LlamaCpp, vec![Step::Ids(ids.clone()), Step::End("eos")]);
    let address = engine.start().await;
    (Server::of(&address, model, "m", engine, Limits::default(), Keys::default()).await, ids)
}

fn body(messages: &[Json], policy: Option<&str>) -> String {
    let function = object! { "name" => "look", "parameters" => object! { "type" => "object" } };
    let tools = vec![Json::from(object! { "type" => "function", "function" => function })];
    let mut body = object! { "messages" => messages.to_vec(), "tools" => tools };
    if let Some(policy) = policy {
        body.insert("on_rewrite", policy.into());
    }
    json::write(&body.into(), &Layout::compact())
}

/// Sends messages, and returns the reply, the number of ids that were kept, and what was done with history.
async fn say(server: &Server, messages: &[Json], policy: Option<&str>) -> (Json, usize, String) {
    let response = server.request("/v1/chat/completions", &body(messages, policy)).send().await.unwrap();
    let session = response.headers()["x-rolecall-session"].to_str().unwrap().to_owned();
    let answer = json::parse(&response.text().await.unwrap()).unwrap();
    let kept = integer(at(&answer, "usage.prompt_tokens_details.kept_tokens")) as usize;
    assert!(session.contains(&format!("kept={kept};")), "{session}");
    let history = session.split(';').next().unwrap().strip_prefix("history=").unwrap().to_owned();
    (at(&answer, "choices.0.message").clone(), kept, history)
}

fn user(text: &str) -> Json {
    object! { "role" => "user", "content" => text }.into()
}

/// A reply as clients send it back: some without its reasoning, and with calls in a spelling of their own.
fn sent_back(reply: &Json, has_reasoning: bool) -> Json {
    let mut reply = reply.as_object().unwrap().clone();
    if !has_reasoning {
        reply.remove("reasoning_content").unwrap();
    }
    let text = json::write(&reply.into(), &Layout::compact());
    json::parse(&text.replace(r#"{\"at\":  \"it\"}"#, r#"{\"at\":\"it\"}"#)).unwrap()
}

/// What answers a reply in some turn: the result of its call, or after that another message, too.
fn answers(reply: &Json, turn: usize) -> Vec<Json> {
    let id = at(reply, "tool_calls.0.id").clone();
    let result = Json::from(object! { "role" => "tool", "tool_call_id" => id, "content" => "It is <|im_end|>." });
    if turn.is_multiple_of(3) { vec![result, user("And now?")] } else { vec![result] }
}

#[tokio::test]
async fn a_stable_template_sends_the_ids_that_the_engine_has_and_the_new_turn() {
    let (server, sampled) = server("true").await;
    let (mut messages, mut had) = (vec![user("Look")], Vec::new());
    for turn in 0..50 {
        let (reply, kept, history) = say(&server, &messages, None).await;
        assert_eq!((kept, &*history), (had.len(), if turn == 0 { "new" } else { "grown" }), "turn {turn}");
        let prompt = server.engine.prompt();
        assert!(prompt.starts_with(&had), "turn {turn}");
        // The rest is what the template writes, and no other control token.
        let new = prompt.len() - had.len();
        assert!(turn == 0 || new < 120, "turn {turn}: {new}");
        had = prompt;
        had.extend(&sampled);
        messages.push(sent_back(&reply, turn % 2 == 0));
        messages.extend(answers(&reply, turn));
    }
}

#[tokio::test]
async fn where_a_template_rewrites_history_the_policy_decides_and_the_answer_says_so() {
    // The reasoning of earlier turns is dropped once the user says something new.
    let (server, sampled) = server("loop.index0 > last.user").await;
    let mut messages = vec![user("Look")];
    let (reply, _, history) = say(&server, &messages, None).await;
    assert_eq!(history, "new");
    let mut had = server.engine.prompt();
    had.extend(&sampled);
    messages.push(sent_back(&reply, true));
    messages.extend(answers(&reply, 0));
    for (policy, word) in [(None, "rewritten"), (Some("rewrite"), "rewritten"), (Some("keep"), "kept")] {
        let (_, kept, history) = say(&server, &messages, policy).await;
        assert_eq!(history, word, "{policy:?}");
        let prompt = server.engine.prompt();
        assert_eq!(prompt[..kept], had[..kept], "{policy:?}");
        if word == "kept" {
            assert_eq!(kept, had.len());
            continue;
        }
        assert!(kept < had.len());
        // It is what the model was trained on.
        let whole = Request::from_text(&body(&messages, None)).unwrap();
        let whole = model("loop.index0 > last.user").prompt(whole).unwrap().encode().unwrap().ids();
        assert_eq!(prompt, whole);
    }
    let (status, answer) = server.post("/v1/chat/completions", &body(&messages, Some("refuse"))).await;
    assert_eq!((status, at(&answer, "error.code").as_str()), (400, Some("rewrites")), "{answer:?}");
    // The result of a call alone changes nothing.
    messages.pop();
    assert_eq!(say(&server, &messages, None).await.2, "grown");
}
