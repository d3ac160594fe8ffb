//! Conversations with tools and reasoning. Over fifty turns, a stable template sends only what is new, and
//! with one that rewrites history, the answer says what was done. A gateway that is started again goes on
//! with the ids that were sampled.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{Server, StandIn, Step, at, integer};
use rolecall::conversation::json::{self, Layout, Object};
use rolecall::conversation::{Json, object};
use rolecall::format::registry;
use rolecall::session::OnRewrite;
use rolecall::template::{Forms, ModelTemplates};
use rolecall::{Model, Request};
use rolecall_gateway::engine::EngineKind;
use rolecall_gateway::{Bounds, Config, Gateway, Keys, Limits, ModelConfig, OpenFault, StoreConfig, StoreFault};
use rolecall_testkit::Toy;
use tempfile::TempDir;

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
    Model::builder().templates(templates).loaded_tokenizer(Arc::new(toy)).forms(Forms::AsWanted).open().unwrap()
}

/// A server whose model always replies with the same text.
async fn server(when: &str) -> (Server, Vec<u32>) {
    let model = model(when);
    let nothing = Request::without_messages(Object::new()).unwrap();
    let ids = model.session(nothing).unwrap().encode_sampled(REPLY).unwrap();
    let engine = StandIn::new(EngineKind::LlamaCpp, vec![Step::Ids(ids.clone()), Step::End("eos")]);
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
async fn reasoning_that_was_sent_back_may_be_left_out_later() {
    let (server, sampled) = server("true").await;
    let (mut messages, mut had) = (vec![user("Look")], Vec::new());
    for turn in 0..4 {
        let (reply, kept, _) = say(&server, &messages, None).await;
        assert_eq!(kept, had.len(), "turn {turn}");
        had = server.engine.prompt();
        had.extend(&sampled);
        messages.push(sent_back(&reply, true));
        messages.extend(answers(&reply, turn));
    }
    for message in &mut messages {
        let mut object = message.as_object().unwrap().clone();
        object.remove("reasoning_content");
        *message = object.into();
    }
    let (_, kept, history) = say(&server, &messages, None).await;
    assert_eq!((kept, &*history), (had.len(), "grown"));
    assert!(server.engine.prompt().starts_with(&had));
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

#[tokio::test]
async fn what_a_client_leaves_out_of_a_reply_is_there_after_other_tools() {
    let (server, _) = server("true").await;
    let tools = |name: &str| {
        let function = object! { "name" => name, "parameters" => object! { "type" => "object" } };
        vec![Json::from(object! { "type" => "function", "function" => function })]
    };
    let body = |messages: &[Json], name: &str, session: Option<i64>| {
        let mut body = object! { "messages" => messages.to_vec(), "tools" => tools(name) };
        session.into_iter().for_each(|session| body.insert("session_id", session.into()));
        json::write(&body.into(), &Layout::compact())
    };
    let mut messages = vec![user("Look")];
    let (status, answer) = server.post("/v1/chat/completions", &body(&messages, "look", Some(7))).await;
    assert_eq!(status, 200, "{answer:?}");
    let reply = at(&answer, "choices.0.message").clone();
    let results = answers(&reply, 1);
    // With other tools, the conversation is written anew.
    let new: Vec<Json> = [sent_back(&reply, false)].into_iter().chain(results.clone()).collect();
    let (status, answer) = server.post("/v1/chat/completions", &body(&new, "find", Some(7))).await;
    assert_eq!(status, 200, "{answer:?}");
    messages.push(sent_back(&reply, true));
    messages.extend(results);
    let whole = Request::from_text(&body(&messages, "find", None)).unwrap();
    assert_eq!(server.engine.prompt(), model("true").prompt(whole).unwrap().encode().unwrap().ids());
}

/// The client gets the beginning of such a call as text, and sends it back.
#[tokio::test]
async fn a_call_that_was_cut_off_stays_where_the_template_rewrites_it() {
    for start in ["", "Well. ", "<tool_call>\n{\"name\": \"look\", \"arguments\": {}}\n</tool_call>"] {
        let model = model("loop.index0 > last.user");
        let nothing = Request::without_messages(Object::new()).unwrap();
        let text = format!("<think>\nHm. </think>\n\n{start}<tool_call>\n{{\"na");
        let ids = model.session(nothing).unwrap().encode_sampled(&text).unwrap();
        let engine = StandIn::new(EngineKind::LlamaCpp, vec![Step::Ids(ids), Step::End("limit")]);
        let address = engine.start().await;
        let server = Server::of(&address, model.clone(), "m", engine, Limits::default(), Keys::default()).await;
        let mut messages = vec![user("Look")];
        let (reply, ..) = say(&server, &messages, None).await;
        assert!(at(&reply, "content").as_str().unwrap().ends_with("<tool_call>\n{\"na"), "{reply:?}");
        messages.extend([reply, user("And now?")]);
        say(&server, &messages, None).await;
        let whole = Request::from_text(&body(&messages, None)).unwrap();
        assert_eq!(server.engine.prompt(), model.prompt(whole).unwrap().encode().unwrap().ids(), "{start}");
    }
}

/// The ways in which a conversation is found.
#[derive(Clone, Copy, Debug)]
enum Way {
    SentAgain,
    Session,
    Response,
}

/// A server with a store in a file.
async fn server_on(path: PathBuf, engine: StandIn, address: &str) -> Server {
    server_with(model("true"), path, engine, address).await
}

/// A server of a model with a store in a file. What used the file before may not have closed it yet.
async fn server_with(model: Model, path: PathBuf, engine: StandIn, address: &str) -> Server {
    let config = || {
        let (model, engine) = (model.clone(), address.to_owned());
        let model = ModelConfig {
            name: "m".to_owned(),
            model,
            engine,
            kind: EngineKind::LlamaCpp,
            engine_model: None,
            on_rewrite: OnRewrite::Rewrite,
        };
        let store = StoreConfig::Embedded { path: path.clone(), bounds: Bounds::default() };
        Config { models: vec![model], store, ..Config::default() }
    };
    let began = Instant::now();
    loop {
        match Gateway::open(config()).await {
            Err(OpenFault::Store(StoreFault::Locked(_))) if began.elapsed() < Duration::from_secs(20) => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            opened => return Server::run(opened.unwrap(), engine).await,
        }
    }
}

/// Takes turns, and returns the prompts that the engine received, each with the number of ids that were
/// kept. With `restarts`, the gateway is started again after each turn. The ids of all calls are added to `calls`, and
/// are those of no other.
async fn prompts(way: Way, restarts: bool, calls: &mut HashSet<String>) -> Vec<(Vec<u32>, usize)> {
    let nothing = Request::without_messages(Object::new()).unwrap();
    let sampled = model("true").session(nothing).unwrap().encode_sampled(REPLY).unwrap();
    let engine = StandIn::new(EngineKind::LlamaCpp, vec![Step::Ids(sampled.clone()), Step::End("eos")]);
    let address = engine.start().await;
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store");
    let mut server = server_on(path.clone(), engine, &address).await;
    let (mut messages, mut new) = (Vec::new(), vec![user("Look")]);
    let (mut previous, mut seen) = (None, Vec::new());
    for turn in 0..6 {
        messages.extend(new.clone());
        let body = match way {
            Way::SentAgain => body(&messages, None),
            Way::Session => body(&new, None).replacen('{', "{\"session_id\": 7, ", 1),
            Way::Response => response_body(&new, previous.as_ref()),
        };
        let kind = if let Way::Response = way { "/v1/responses" } else { "/v1/chat/completions" };
        let (status, answer) = server.post(kind, &body).await;
        assert_eq!(status, 200, "{way:?} {turn}: {answer:?}");
        let (kept, call) = match way {
            Way::Response => {
                previous = Some(at(&answer, "id").clone());
                let items = at(&answer, "output").as_array().unwrap();
                let is_call = |item: &&Json| at(item, "type").as_str() == Some("function_call");
                let call = at(items.iter().find(is_call).unwrap(), "call_id").clone();
                (integer(at(&answer, "rolecall.kept_tokens")), call)
            }
            Way::SentAgain | Way::Session => {
                let reply = at(&answer, "choices.0.message");
                messages.push(sent_back(reply, turn % 2 == 0));
                let kept = integer(at(&answer, "usage.prompt_tokens_details.kept_tokens"));
                (kept, at(reply, "tool_calls.0.id").clone())
            }
        };
        assert!(calls.insert(call.as_str().unwrap().to_owned()), "a call has the id of another one: {call:?}");
        seen.push((server.engine.prompt(), kept as usize));
        let said = object! { "tool_calls" => vec![Json::from(object! { "id" => call })] };
        new = answers(&said.into(), turn);
        if restarts {
            let engine = server.engine.clone();
            server.stop().await;
            server = server_on(path.clone(), engine, &address).await;
        }
    }
    for pair in seen.windows(2) {
        let had: Vec<u32> = pair[0].0.iter().chain(&sampled).copied().collect();
        assert!(pair[1].0.starts_with(&had), "{way:?}");
        assert_eq!(pair[1].1, had.len(), "{way:?}");
    }
    seen
}

/// Messages as the request for a response.
fn response_body(new: &[Json], previous: Option<&Json>) -> String {
    let item = |message: &Json| match at(message, "role").as_str() {
        Some("tool") => object! {
            "type" => "function_call_output", "call_id" => at(message, "tool_call_id").clone(),
            "output" => at(message, "content").clone(),
        }
        .into(),
        _ => message.clone(),
    };
    let tool = object! { "type" => "function", "name" => "look", "parameters" => object! { "type" => "object" } };
    let input: Vec<Json> = new.iter().map(item).collect();
    let mut body = object! { "input" => input, "tools" => vec![Json::from(tool)] };
    if let Some(previous) = previous {
        body.insert("previous_response_id", previous.clone());
    }
    json::write(&body.into(), &Layout::compact())
}

#[tokio::test]
async fn a_gateway_that_is_started_again_sends_the_ids_that_were_sampled() {
    let mut calls = HashSet::new();
    for way in [Way::SentAgain, Way::Session, Way::Response] {
        let wanted = prompts(way, false, &mut calls).await;
        assert_eq!(prompts(way, true, &mut calls).await, wanted, "{way:?}");
    }
}

/// The template writes the id of a call when a message follows it.
#[tokio::test]
async fn a_call_has_its_id_after_a_restart() {
    let when = r#"false -%}{%- endif -%}{%- if m.tool_calls and not loop.last -%}{{ "(" + m.tool_calls[0].id + ")" }}
        {%- endif -%}{%- if m.reasoning_content and false"#;
    let nothing = Request::without_messages(Object::new()).unwrap();
    let sampled = model(when).session(nothing).unwrap().encode_sampled(REPLY).unwrap();
    let engine = StandIn::new(EngineKind::LlamaCpp, vec![Step::Ids(sampled), Step::End("eos")]);
    let address = engine.start().await;
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store");
    let with_session = |messages: &[Json]| body(messages, None).replacen('{', "{\"session_id\": 7, ", 1);
    let server = server_with(model(when), path.clone(), engine.clone(), &address).await;
    let (_, answer) = server.post("/v1/chat/completions", &with_session(&[user("Look")])).await;
    let reply = at(&answer, "choices.0.message").clone();
    server.stop().await;
    let server = server_with(model(when), path, engine, &address).await;
    let (status, answer) = server.post("/v1/chat/completions", &with_session(&answers(&reply, 1))).await;
    assert_eq!(status, 200, "{answer:?}");
    let prompt = Toy::of(registry().get("qwen2.5").unwrap()).written(&server.engine.prompt());
    let id = at(&reply, "tool_calls.0.id").as_str().unwrap();
    assert!(prompt.contains(&format!("({id})")), "{id}: {prompt}");
}

/// The file and memory change together, even if the client closes the connection between the two.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_while_a_response_is_deleted_does_not_bring_it_back() {
    let nothing = Request::without_messages(Object::new()).unwrap();
    let sampled = model("true").session(nothing).unwrap().encode_sampled(REPLY).unwrap();
    let engine = StandIn::new(EngineKind::LlamaCpp, vec![Step::Ids(sampled), Step::End("eos")]);
    let address = engine.start().await;
    let folder = TempDir::new().unwrap();
    let server = server_on(folder.path().join("store"), engine, &address).await;
    let mut deleted = 0;
    for at_once in 0..60 {
        let (_, answer) = server.post("/v1/responses", &response_body(&[user("Look")], None)).await;
        let id = at(&answer, "id").as_str().unwrap().to_owned();
        let delete = reqwest::Client::new().delete(format!("{}/v1/responses/{id}", server.address)).send();
        // The connection closes when the request is dropped.
        let _ = tokio::time::timeout(Duration::from_micros(at_once * 50), delete).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
        let (status, _) = server.get(&format!("/v1/responses/{id}")).await;
        deleted += u32::from(status == 404);
        let (next, answer) =
            server.post("/v1/responses", &response_body(&[user("Look")], Some(&id.as_str().into()))).await;
        // On a slow machine, the deletion may end between the two.
        let is_late = status == 200 && next != 200 && server.get(&format!("/v1/responses/{id}")).await.0 == 404;
        assert!((next == 200) == (status == 200) || is_late, "{at_once}: {status} {answer:?}");
    }
    assert!(deleted > 0);
}

#[tokio::test]
async fn a_turn_that_must_not_be_stored_goes_on_in_memory_alone() {
    let nothing = Request::without_messages(Object::new()).unwrap();
    let sampled = model("true").session(nothing).unwrap().encode_sampled(REPLY).unwrap();
    let engine = StandIn::new(EngineKind::LlamaCpp, vec![Step::Ids(sampled), Step::End("eos")]);
    let address = engine.start().await;
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store");
    for (word, later) in [("kept", "grown"), ("unkept", "new")] {
        let server = server_on(path.clone(), engine.clone(), &address).await;
        let mut messages = vec![user(word)];
        let mut request = body(&messages, None);
        if later == "new" {
            request = request.replacen('{', "{\"store\": false, ", 1);
        }
        let (status, answer) = server.post("/v1/chat/completions", &request).await;
        assert_eq!(status, 200, "{answer:?}");
        let reply = at(&answer, "choices.0.message");
        messages.push(sent_back(reply, true));
        messages.extend(answers(reply, 1));
        let request = body(&messages, None).replacen('{', "{\"store\": false, ", 1);
        let answer = server.request("/v1/chat/completions", &request).send().await.unwrap();
        assert!(answer.headers()["x-rolecall-session"].to_str().unwrap().starts_with("history=grown"), "{word}");
        server.stop().await;
        let server = server_on(path.clone(), engine.clone(), &address).await;
        assert_eq!(say(&server, &messages, None).await.2, later, "{word}");
        server.stop().await;
    }
}
