//! Code that runs on the server, in containers, by OpenAI's responses.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::env;
use std::io::Write;
use std::sync::OnceLock;

use rolecall::conversation::Json;
use rolecall::conversation::json::{self, Layout};
use rolecall_gateway::engine::EngineKind;
use rolecall_gateway::{Config, ContainerConfig, Keys};
use rolecall_interpreter::{KernelOptions, check};

use crate::common::{Server, StandIn, Step, at, config, sampled};

/// Returns whether kernels run here. A check that must be complete sets a variable, and fails without them.
pub fn can_run() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    let can = *CAN.get_or_init(|| {
        let check = check(&KernelOptions::default());
        let can = check.missing.is_empty();
        assert!(can || env::var_os("ROLECALL_COMPLETE").is_none(), "no kernel runs here: {check:?}");
        can
    });
    if !can && let Some(path) = env::var_os("ROLECALL_SKIPPED") {
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        writeln!(file, "{}\tcode that runs", std::thread::current().name().unwrap_or_default()).unwrap();
    }
    can
}

fn call(code: &str) -> String {
    format!("Let me see.<|action_start|><|interpreter|>\n```python\n{code}\n```<|action_end|>\n<|im_end|>")
}

/// A gateway that runs code, before a model that says this, reply by reply.
async fn server(replies: &[String], keys: Keys) -> Server {
    let engine = StandIn::new(EngineKind::LlamaCpp, vec![Step::End("stop")]);
    for reply in replies {
        let mut steps: Vec<Step> = sampled("internlm2", reply).into_iter().map(|id| Step::Ids(vec![id])).collect();
        steps.push(Step::End("stop"));
        engine.script.lock().unwrap().push_back(steps);
    }
    let config = config("internlm2", &engine).await;
    let containers = ContainerConfig { is_on: true, ..ContainerConfig::default() };
    Server::open(Config { containers, keys, ..config }, engine).await
}

fn write(value: &Json) -> String {
    json::write(value, &Layout::compact())
}

async fn post(server: &Server, body: &str) -> Json {
    let (status, answer) = server.post("/v1/responses", body).await;
    assert_eq!(status, 200, "{body}: {}", write(&answer));
    answer
}

fn types(answer: &Json) -> Vec<String> {
    let items = at(answer, "output").as_array().unwrap();
    items.iter().map(|item| at(item, "type").as_str().unwrap().to_owned()).collect()
}

const TOOLS: &str = r#""tools": [{"type": "code_interpreter", "container": {"type": "auto"}}], "include": ["code_interpreter_call.outputs"]"#;

const PLOT: &str = "import matplotlib.pyplot as plt\nx = 6 * 7\nprint('plotting')\nplt.plot([1, 2])\nplt.show()";

#[tokio::test]
async fn code_runs_and_the_model_answers_with_its_result() {
    if !can_run() {
        return;
    }
    let replies = [call(PLOT), "Here it is.<|im_end|>".to_owned(), call("x + 1"), "43.<|im_end|>".to_owned()];
    let server = server(&replies, Keys::default()).await;
    let answer = post(&server, &format!(r#"{{"input": "Plot.", {TOOLS}}}"#)).await;
    assert_eq!(types(&answer), ["message", "code_interpreter_call", "message"], "{}", write(&answer));
    assert_eq!(at(&answer, "output.2.content.0.text").as_str(), Some("Here it is."));
    let item = at(&answer, "output.1");
    assert_eq!(at(item, "status").as_str(), Some("completed"));
    assert_eq!(at(item, "outputs.0.logs").as_str(), Some("plotting"), "{}", write(item));
    // The model read the result as its format has it.
    let body = server.engine.bodies.lock().unwrap().last().cloned().unwrap();
    assert!(body.len() > 100);
    // The picture is a file of the container.
    let url = at(item, "outputs.1.url").as_str().unwrap().to_owned();
    let container = at(item, "container_id").as_str().unwrap().to_owned();
    let (status, files) = server.get(&format!("/v1/containers/{container}/files")).await;
    assert_eq!(
        (status, at(&files, "data.0.path").as_str()),
        (200, Some("/mnt/data/output-1.png")),
        "{}",
        write(&files)
    );
    assert!(url.contains(at(&files, "data.0.id").as_str().unwrap()));
    let response = reqwest::get(format!("{}{url}", server.address)).await.unwrap();
    assert_eq!(response.headers()["content-type"], "image/png");
    assert_eq!(&response.bytes().await.unwrap()[1..4], b"PNG");
    // The stored answer has all items, and the next one has the same container, with its variables.
    let id = at(&answer, "id").as_str().unwrap().to_owned();
    let (_, stored) = server.get(&format!("/v1/responses/{id}")).await;
    assert_eq!(write(at(&stored, "output")), write(at(&answer, "output")));
    let next = post(&server, &format!(r#"{{"input": "One more.", "previous_response_id": "{id}", {TOOLS}}}"#)).await;
    assert_eq!(at(&next, "output.1.outputs.0.logs").as_str(), Some("43"), "{}", write(&next));
    assert_eq!(at(&next, "output.1.container_id").as_str(), Some(container.as_str()));
    assert!(server.engine.script.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_stream_has_the_documented_events_and_the_same_items() {
    if !can_run() {
        return;
    }
    let replies = [call("print(1)"), "One.<|im_end|>".to_owned()];
    let server = server(&replies, Keys::default()).await;
    let body = format!(r#"{{"input": "Go.", "stream": true, {TOOLS}}}"#);
    let text = server.request("/v1/responses", &body).send().await.unwrap().text().await.unwrap();
    let events: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    let mut kinds = events.clone();
    kinds.dedup();
    let code = [
        "response.output_item.added",
        "response.code_interpreter_call.in_progress",
        "response.code_interpreter_call_code.delta",
        "response.code_interpreter_call_code.done",
        "response.code_interpreter_call.interpreting",
        "response.code_interpreter_call.completed",
        "response.output_item.done",
        "response.output_item.added",
    ];
    let at_code = kinds.windows(code.len()).position(|window| window == code);
    assert!(at_code.is_some(), "{kinds:?}");
    assert_eq!(kinds.last(), Some(&"response.completed"));
    let last = text.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap();
    let last = json::parse(last).unwrap();
    assert_eq!(types(at(&last, "response")), ["message", "code_interpreter_call", "message"]);
    // Each event counts on, and names its item's place.
    for (number, line) in text.lines().filter_map(|line| line.strip_prefix("data: ")).enumerate() {
        let event = json::parse(line).unwrap();
        assert_eq!(at(&event, "sequence_number"), &Json::from(number as i64));
    }
}

#[tokio::test]
async fn a_kernel_that_dies_is_what_the_model_reads() {
    if !can_run() {
        return;
    }
    let replies = [call("import os; os._exit(1)"), call("1 / 0"), "Sorry.<|im_end|>".to_owned()];
    let server = server(&replies, Keys::default()).await;
    let answer = post(&server, &format!(r#"{{"input": "Go.", {TOOLS}}}"#)).await;
    assert_eq!(at(&answer, "output.1.status").as_str(), Some("incomplete"), "{}", write(&answer));
    assert!(at(&answer, "output.1.outputs.0.logs").as_str().unwrap().contains("the kernel died"));
    let logs = at(&answer, "output.3.outputs.0.logs").as_str().unwrap();
    assert!(logs.contains("started again") && logs.contains("ZeroDivisionError"), "{logs}");
    assert_eq!(at(&answer, "output.4.content.0.text").as_str(), Some("Sorry."));
}

#[tokio::test]
async fn containers_belong_to_their_owners() {
    if !can_run() {
        return;
    }
    let keys = Keys::read("one\ntwo\n").unwrap();
    let server = server(&[call("x = 1"), "Done.<|im_end|>".to_owned()], keys).await;
    let ask = |key: &'static str, method: reqwest::Method, path: String, body: String| {
        let request = reqwest::Client::new().request(method, format!("{}{path}", server.address));
        async move {
            let response =
                request.bearer_auth(key).header("content-type", "application/json").body(body).send().await.unwrap();
            (response.status().as_u16(), json::parse(&response.text().await.unwrap()).unwrap_or(Json::Null))
        }
    };
    let get = reqwest::Method::GET;
    let (_, answer) =
        ask("one", reqwest::Method::POST, "/v1/responses".into(), format!(r#"{{"input": "Go.", {TOOLS}}}"#)).await;
    let id = at(&answer, "output.1.container_id").as_str().unwrap().to_owned();
    let (status, own) = ask("one", get.clone(), "/v1/containers".into(), String::new()).await;
    assert_eq!((status, at(&own, "data.0.id").as_str()), (200, Some(id.as_str())));
    let (_, others) = ask("two", get.clone(), "/v1/containers".into(), String::new()).await;
    assert!(at(&others, "data").as_array().unwrap().is_empty());
    for path in ["", "/files", "/files/x", "/files/x/content"] {
        let (status, fault) = ask("two", get.clone(), format!("/v1/containers/{id}{path}"), String::new()).await;
        assert_eq!((status, at(&fault, "error.code").as_str()), (404, Some("container_not_found")), "{path}");
    }
    let body = format!(r#"{{"input": "Go.", "tools": [{{"type": "code_interpreter", "container": "{id}"}}]}}"#);
    let (status, fault) = ask("two", reqwest::Method::POST, "/v1/responses".into(), body).await;
    assert_eq!((status, at(&fault, "error.code").as_str()), (404, Some("container_not_found")));
    let (status, _) = ask("one", reqwest::Method::DELETE, format!("/v1/containers/{id}"), String::new()).await;
    assert_eq!(status, 200);
    let (status, _) = ask("one", get, format!("/v1/containers/{id}"), String::new()).await;
    assert_eq!(status, 404);
}

#[tokio::test]
async fn without_the_operators_word_clients_run_the_code() {
    let engine = StandIn::new(EngineKind::LlamaCpp, vec![Step::End("stop")]);
    let mut steps: Vec<Step> = sampled("internlm2", &call("1")).into_iter().map(|id| Step::Ids(vec![id])).collect();
    steps.push(Step::End("stop"));
    engine.script.lock().unwrap().push_back(steps);
    let server = Server::new("internlm2", engine).await;
    let answer = post(&server, &format!(r#"{{"input": "Go.", {TOOLS}}}"#)).await;
    assert_eq!(types(&answer), ["message", "code_interpreter_call"]);
    assert_eq!(at(&answer, "output.1.outputs"), &Json::Null);
    let body = r#"{"input": "Go.", "tools": [{"type": "code_interpreter", "container": "cntr_1"}]}"#;
    let (status, fault) = server.post("/v1/responses", body).await;
    assert_eq!((status, at(&fault, "error.param").as_str()), (400, Some("tools[0].container")));
    let (status, fault) = server.get("/v1/containers").await;
    assert!(status == 404 && write(&fault).contains("interpreter.enabled"), "{}", write(&fault));
}

#[tokio::test]
async fn files_are_uploaded_and_given_to_containers() {
    if !can_run() {
        return;
    }
    let replies = [call("print(open('/mnt/data/data.csv').read(), end='')"), "Read.<|im_end|>".to_owned()];
    let server = server(&replies, Keys::default()).await;
    let client = reqwest::Client::new();
    let form = |path: &str| {
        let body = "--B\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nassistants\r\n--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"../data.csv\"\r\nContent-Type: text/csv\r\n\r\na,\u{e9}\r\n--B--\r\n";
        client
            .post(format!("{}{path}", server.address))
            .header("content-type", "multipart/form-data; boundary=B")
            .body(body)
    };
    let text = form("/v1/files").send().await.unwrap().text().await.unwrap();
    let upload = json::parse(&text).unwrap();
    assert_eq!(at(&upload, "filename").as_str(), Some("data.csv"), "{text}");
    let file = at(&upload, "id").as_str().unwrap().to_owned();
    let tools = format!(
        r#""tools": [{{"type": "code_interpreter", "container": {{"type": "auto", "file_ids": ["{file}"]}}}}]"#
    );
    let answer = post(&server, &format!(r#"{{"input": "Read.", {tools}}}"#)).await;
    assert_eq!(at(&answer, "output.1.outputs.0.logs").as_str(), Some("a,\u{e9}"), "{}", write(&answer));
    // A container of one's own, with a file by a form and one by its id.
    let (status, own) = server.post("/v1/containers", r#"{"name": "mine"}"#).await;
    assert_eq!((status, at(&own, "name").as_str()), (200, Some("mine")));
    let id = at(&own, "id").as_str().unwrap().to_owned();
    let put = form(&format!("/v1/containers/{id}/files")).send().await.unwrap();
    assert_eq!(put.status().as_u16(), 200);
    let put = json::parse(&put.text().await.unwrap()).unwrap();
    assert_eq!(at(&put, "path").as_str(), Some("/mnt/data/data.csv"));
    let (status, _) = server.post(&format!("/v1/containers/{id}/files"), &format!(r#"{{"file_id": "{file}"}}"#)).await;
    assert_eq!(status, 200);
    for (path, method, expected) in [
        (format!("/v1/files/{file}/content"), reqwest::Method::GET, 200),
        (format!("/v1/containers/{id}/files/{}", at(&put, "id").as_str().unwrap()), reqwest::Method::DELETE, 200),
        (format!("/v1/files/{file}"), reqwest::Method::DELETE, 200),
        (format!("/v1/files/{file}"), reqwest::Method::GET, 404),
    ] {
        let response = client.request(method, format!("{}{path}", server.address)).send().await.unwrap();
        assert_eq!(response.status().as_u16(), expected, "{path}");
    }
    let (status, fault) = server.post("/v1/files", "{}").await;
    assert_eq!((status, at(&fault, "error.code").as_str()), (415, Some("unsupported_content_type")));
    let broken =
        client.post(format!("{}/v1/files", server.address)).header("content-type", "multipart/form-data; boundary=B");
    assert_eq!(broken.body("nothing").send().await.unwrap().status().as_u16(), 400);
    let body = r#"{"input": "Read.", "tools": [{"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["file-x"]}}]}"#;
    let (status, fault) = server.post("/v1/responses", body).await;
    assert_eq!((status, at(&fault, "error.code").as_str()), (404, Some("file_not_found")));
}
