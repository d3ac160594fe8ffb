//! Code that runs on the server, in containers, by OpenAI's responses.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::env;
use std::io::Write;
use std::sync::OnceLock;
use std::time::Duration;

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
    server_of(replies, keys, ContainerConfig { is_on: true, ..ContainerConfig::default() }).await
}

async fn server_of(replies: &[String], keys: Keys, containers: ContainerConfig) -> Server {
    let engine = StandIn::new(EngineKind::LlamaCpp, vec![Step::End("stop")]);
    for reply in replies {
        let mut steps: Vec<Step> = sampled("internlm2", reply).into_iter().map(|id| Step::Ids(vec![id])).collect();
        steps.push(Step::End("stop"));
        engine.script.lock().unwrap().push_back(steps);
    }
    let config = config("internlm2", &engine).await;
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
async fn code_of_a_client_that_has_left_never_begins() {
    if !can_run() {
        return;
    }
    let replies = [
        call("x = 1"),
        "Done.<|im_end|>".to_owned(),
        call("import time; time.sleep(3)"),
        call("open('ghost', 'w').write('x')"),
        "Done.<|im_end|>".to_owned(),
    ];
    let server = server(&replies, Keys::default()).await;
    let answer = post(&server, &format!(r#"{{"input": "Go.", {TOOLS}}}"#)).await;
    let id = at(&answer, "output.1.container_id").as_str().unwrap().to_owned();
    let body = format!(r#"{{"input": "Go.", "tools": [{{"type": "code_interpreter", "container": "{id}"}}]}}"#);
    let first = server.request("/v1/responses", &body).send();
    let first = tokio::spawn(first);
    tokio::time::sleep(Duration::from_millis(700)).await;
    // The next one waits for the container, and its client leaves.
    let next = server.request("/v1/responses", &body).timeout(Duration::from_millis(700)).send().await;
    assert!(next.is_err());
    assert_eq!(first.await.unwrap().unwrap().status().as_u16(), 200);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (_, files) = server.get(&format!("/v1/containers/{id}/files")).await;
    assert!(at(&files, "data").as_array().unwrap().is_empty(), "{}", write(&files));
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

/// Options of containers whose folders are within this one.
fn few(folder: &tempfile::TempDir, most: usize, idle: Duration) -> ContainerConfig {
    let kernel = KernelOptions { folder: Some(folder.path().to_owned()), ..KernelOptions::default() };
    ContainerConfig { is_on: true, most, idle, kernel, ..ContainerConfig::default() }
}

/// Returns a file that code has written into a container.
fn container(folder: &tempfile::TempDir) -> Option<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder.path()).unwrap().flatten();
    entries.map(|entry| entry.path().join("data/mark")).find(|path| path.exists())
}

fn in_container(id: &str) -> String {
    format!(
        r#"{{"input": "Go.", "tools": [{{"type": "code_interpreter", "container": "{id}"}}], "include": ["code_interpreter_call.outputs"]}}"#
    )
}

#[tokio::test]
async fn an_idle_container_ends_without_another_request() {
    if !can_run() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let replies = [call("open('mark', 'w').close()"), "Done.<|im_end|>".to_owned()];
    let server = server_of(&replies, Keys::default(), few(&folder, 4, Duration::from_secs(1))).await;
    post(&server, &format!(r#"{{"input": "Go.", {TOOLS}}}"#)).await;
    let end = std::time::Instant::now() + Duration::from_secs(15);
    // One is ready for the next session. The container's is the other.
    assert!(container(&folder).is_some());
    while container(&folder).is_some() {
        assert!(std::time::Instant::now() < end, "the container is kept");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn requests_that_run_no_code_take_no_place() {
    if !can_run() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut replies = vec!["Plain.<|im_end|>".to_owned(); 3];
    replies.extend([call("x = 1"), "Done.<|im_end|>".to_owned(), call("x = 2"), "Done.<|im_end|>".to_owned()]);
    replies.push(call("x = 3"));
    let keys = Keys::read("one\ntwo\n").unwrap();
    let server = server_of(&replies, keys, few(&folder, 1, Duration::from_secs(600))).await;
    let ask = |key: &'static str, body: String| {
        let request = server.request("/v1/responses", &body).bearer_auth(key);
        async move {
            let response = request.send().await.unwrap();
            let after = response.headers().get("retry-after").map(|after| after.to_str().unwrap().to_owned());
            (response.status().as_u16(), after, json::parse(&response.text().await.unwrap()).unwrap())
        }
    };
    let auto = format!(r#"{{"input": "Go.", {TOOLS}}}"#);
    for _ in 0..3 {
        assert_eq!(ask("two", auto.clone()).await.0, 200);
    }
    let file = r#"{"input": "Read.", "tools": [{"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["file-x"]}}]}"#;
    let (status, _, fault) = ask("two", file.to_owned()).await;
    assert_eq!((status, at(&fault, "error.param").as_str()), (404, Some("tools[0].container.file_ids")));
    assert!(at(&fault, "error.help").as_str().is_some());
    // There is a place, and the owner's container that nobody uses makes room for the next.
    let (status, _, first) = ask("one", auto.clone()).await;
    assert_eq!(status, 200, "{}", write(&first));
    let (status, _, second) = ask("one", auto.clone()).await;
    assert_eq!(status, 200, "{}", write(&second));
    let gone = at(&first, "output.1.container_id").as_str().unwrap();
    let (status, _, fault) = ask("one", in_container(gone)).await;
    assert_eq!((status, at(&fault, "error.param").as_str()), (404, Some("tools[0].container")));
    // Another owner waits until it ends.
    let (status, after, fault) = ask("two", auto).await;
    assert_eq!((status, at(&fault, "error.code").as_str()), (429, Some("containers_full")), "{}", write(&fault));
    let after: u64 = after.unwrap().parse().unwrap();
    assert!((500..=600).contains(&after), "{after}");
}

#[tokio::test]
async fn a_file_waits_for_the_code_of_a_later_answer() {
    if !can_run() {
        return;
    }
    let replies = ["Seen.<|im_end|>".to_owned(), call("print(open('data.csv').read())"), "Read.<|im_end|>".to_owned()];
    let server = server(&replies, Keys::default()).await;
    let file = upload(&server, "data.csv").await;
    let tools = format!(
        r#""tools": [{{"type": "code_interpreter", "container": {{"type": "auto", "file_ids": ["{file}"]}}}}]"#
    );
    let first = post(&server, &format!(r#"{{"input": "Look.", {tools}}}"#)).await;
    let delete = reqwest::Client::new().delete(format!("{}/v1/files/{file}", server.address)).send().await.unwrap();
    assert_eq!(delete.status().as_u16(), 200);
    let id = at(&first, "id").as_str().unwrap();
    let next = post(&server, &format!(r#"{{"input": "Read.", "previous_response_id": "{id}", {TOOLS}}}"#)).await;
    assert_eq!(at(&next, "output.1.outputs.0.logs").as_str(), Some("1"), "{}", write(&next));
}

#[tokio::test]
async fn a_container_that_is_deleted_stops_its_code() {
    if !can_run() {
        return;
    }
    let code = "import time\nend = time.time() + 20\nwhile time.time() < end: pass\nprint('on', 6 * 7)";
    let replies = [call("x = 1"), "Done.<|im_end|>".to_owned(), call(code), "Done.<|im_end|>".to_owned()];
    let server = server(&replies, Keys::default()).await;
    let answer = post(&server, &format!(r#"{{"input": "Go.", {TOOLS}}}"#)).await;
    let id = at(&answer, "output.1.container_id").as_str().unwrap().to_owned();
    let running = tokio::spawn(server.request("/v1/responses", &in_container(&id)).send());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let begun = std::time::Instant::now();
    let delete = reqwest::Client::new().delete(format!("{}/v1/containers/{id}", server.address)).send().await.unwrap();
    assert_eq!(delete.status().as_u16(), 200);
    let answer = running.await.unwrap().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(15));
    let answer = json::parse(&answer.text().await.unwrap()).unwrap();
    assert_eq!(at(&answer, "output.1.status").as_str(), Some("incomplete"), "{}", write(&answer));
    let logs = write(at(&answer, "output.1.outputs"));
    assert!(logs.contains("the container was deleted") && !logs.contains("on 42"), "{logs}");
}

/// Uploads a file whose content is `1`, and returns its id.
async fn upload(server: &Server, name: &str) -> String {
    let (status, upload) = try_upload(server, name).await;
    assert_eq!(status, 200, "{}", write(&upload));
    at(&upload, "id").as_str().unwrap().to_owned()
}

async fn try_upload(server: &Server, name: &str) -> (u16, Json) {
    let body = format!(
        "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n1\r\n--B\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nassistants\r\n--B--\r\n"
    );
    let request = reqwest::Client::new().post(format!("{}/v1/files", server.address));
    let response = request.header("content-type", "multipart/form-data; boundary=B").body(body).send().await.unwrap();
    (response.status().as_u16(), json::parse(&response.text().await.unwrap()).unwrap())
}

#[tokio::test]
async fn names_that_no_file_can_have_are_refused_at_the_upload() {
    if !can_run() {
        return;
    }
    let replies = [call("open('a b\\n', 'w').write('x'); open('c', 'w').write('x')"), "Done.<|im_end|>".to_owned()];
    let server = server(&replies, Keys::default()).await;
    let long = "x".repeat(256);
    for name in ["", ".", "..", "x/", &long] {
        let (status, fault) = try_upload(&server, name).await;
        assert_eq!(
            (status, at(&fault, "error.code").as_str()),
            (400, Some("wrong_value")),
            "{name}: {}",
            write(&fault)
        );
        assert!(at(&fault, "error.help").as_str().is_some());
    }
    for name in [r#"\"q\".txt"#, r#""q".txt"#] {
        let (_, quoted) = try_upload(&server, name).await;
        assert_eq!(at(&quoted, "filename").as_str(), Some("\"q\".txt"), "{name}");
    }
    // What is listed can be fetched.
    let answer = post(&server, &format!(r#"{{"input": "Go.", {TOOLS}}}"#)).await;
    let id = at(&answer, "output.1.container_id").as_str().unwrap();
    let (_, files) = server.get(&format!("/v1/containers/{id}/files")).await;
    let files = at(&files, "data").as_array().unwrap();
    assert_eq!(files.len(), 1, "{}", write(&Json::from(files.to_vec())));
    for file in files {
        let path = format!("/v1/containers/{id}/files/{}/content", at(file, "id").as_str().unwrap());
        assert_eq!(reqwest::get(format!("{}{path}", server.address)).await.unwrap().status().as_u16(), 200);
    }
}

#[tokio::test]
async fn a_new_container_has_what_it_was_made_with() {
    if !can_run() {
        return;
    }
    let server = server(&[], Keys::default()).await;
    let file = upload(&server, "data.csv").await;
    let create = async |body: &str| server.post("/v1/containers", body).await;
    let body = format!(
        r#"{{"name": "n", "file_ids": ["{file}"], "expires_after": {{"anchor": "last_active_at", "minutes": 5}}}}"#
    );
    let (status, own) = create(&body).await;
    assert_eq!((status, at(&own, "expires_after.minutes")), (200, &Json::from(5)), "{}", write(&own));
    let id = at(&own, "id").as_str().unwrap();
    let (_, files) = server.get(&format!("/v1/containers/{id}/files")).await;
    assert_eq!(at(&files, "data.0.path").as_str(), Some("/mnt/data/data.csv"));
    let path = format!("/v1/containers/{id}/files/{}/content", at(&files, "data.0.id").as_str().unwrap());
    assert_eq!(reqwest::get(format!("{}{path}", server.address)).await.unwrap().text().await.unwrap(), "1");
    // Longer than the operator's is as long as that.
    let (_, long) = create(r#"{"name": "n", "expires_after": {"anchor": "last_active_at", "minutes": 5000}}"#).await;
    assert_eq!(at(&long, "expires_after.minutes"), &Json::from(20));
    for (body, expected, code, param) in [
        (r#"{"name": 5}"#, 400, "wrong_type", "name"),
        (r#"{"name": "n", "zzz": 1}"#, 400, "unsupported_parameter", "zzz"),
        (r#"{"name": "n", "file_ids": [1]}"#, 400, "wrong_type", "file_ids"),
        (r#"{"name": "n", "file_ids": ["file-x"]}"#, 404, "file_not_found", "file_ids"),
        (
            r#"{"name": "n", "expires_after": {"anchor": "created_at", "minutes": 5}}"#,
            400,
            "wrong_value",
            "expires_after",
        ),
        (
            r#"{"name": "n", "expires_after": {"anchor": "last_active_at", "minutes": 0}}"#,
            400,
            "wrong_value",
            "expires_after",
        ),
    ] {
        let (status, fault) = create(body).await;
        let found = (status, at(&fault, "error.code").as_str(), at(&fault, "error.param").as_str());
        assert_eq!(found, (expected, Some(code), Some(param)), "{body}");
    }
    let (_, all) = server.get("/v1/containers?limit=1&order=asc").await;
    assert_eq!((at(&all, "data").as_array().unwrap().len(), at(&all, "has_more")), (1, &Json::Bool(true)));
    let first = at(&all, "last_id").as_str().unwrap();
    let (_, rest) = server.get(&format!("/v1/containers?order=asc&after={first}")).await;
    assert_eq!((at(&rest, "data").as_array().unwrap().len(), at(&rest, "has_more")), (1, &Json::Bool(false)));
    for query in ["limit=0", "limit=101", "order=up", "after=x", "zzz=1"] {
        let (status, fault) = server.get(&format!("/v1/files?{query}")).await;
        assert_eq!(status, 400, "{query}: {}", write(&fault));
    }
    let (status, fault) = server.get("/v1/containers/cntr_x").await;
    assert!(status == 404 && at(&fault, "error.help").as_str().is_some(), "{}", write(&fault));
}
