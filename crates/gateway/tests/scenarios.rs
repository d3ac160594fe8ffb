//! The scenarios of the makers' documents by OpenAI's responses: the code runs in a container of the gateway, files are
//! uploaded, and the client runs the tools.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use rolecall::conversation::json::{self, Layout};
use rolecall::conversation::{Json, object};
use rolecall_gateway::engine::EngineKind;
use rolecall_gateway::{Config, ContainerConfig};
use rolecall_testkit::Scenario;

use crate::common::{Server, StandIn, Step, at, config, sampled};
use crate::containers::can_run;

fn write(value: impl Into<Json>) -> String {
    json::write(&value.into(), &Layout::compact())
}

/// The tools as the client offers them.
fn tools(scenario: &Scenario) -> Vec<Json> {
    let function = |definition: &json::Object| {
        let mut function = object! { "type" => "function" };
        definition.iter().for_each(|(key, value)| function.insert(key, value.clone()));
        Json::from(function)
    };
    let functions = scenario.tools.iter().map(|tool| function(&tool.definition));
    let code = object! { "type" => "code_interpreter", "container" => object! { "type" => "auto" } };
    functions.chain(scenario.has_code.then(|| code.into())).collect()
}

/// Uploads a file, and returns the part that attaches it.
async fn upload(server: &Server, name: &str, text: &str) -> Json {
    let body = format!(
        "--B\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nuser_data\r\n--B\r\nContent-Disposition: form-data; \
         name=\"file\"; filename=\"{name}\"\r\n\r\n{text}\r\n--B--\r\n"
    );
    let request = reqwest::Client::new().post(format!("{}/v1/files", server.address));
    let request = request.header("content-type", "multipart/form-data; boundary=B").body(body);
    let answer = json::parse(&request.send().await.unwrap().text().await.unwrap()).unwrap();
    object! { "type" => "input_file", "file_id" => at(&answer, "id").as_str().unwrap() }.into()
}

async fn play(scenario: &Scenario) {
    let engine = StandIn::new(EngineKind::LlamaCpp, vec![Step::End("stop")]);
    let replies: Vec<&String> = scenario.turns.iter().flat_map(|turn| &turn.replies).collect();
    for reply in &replies {
        let steps = vec![Step::Ids(sampled(&scenario.format, reply)), Step::End("stop")];
        engine.script.lock().unwrap().push_back(steps);
    }
    let config = config(&scenario.format, &engine).await;
    let containers = ContainerConfig { is_on: true, ..ContainerConfig::default() };
    let server = Server::open(Config { containers, ..config }, engine).await;
    let mut parts = Vec::new();
    for (name, text) in &scenario.files {
        parts.push(upload(&server, name, text).await);
    }
    let (mut previous, mut pictures) = (Json::Null, Vec::new());
    for (index, turn) in scenario.turns.iter().enumerate() {
        parts.push(object! { "type" => "input_text", "text" => turn.user.as_str() }.into());
        let mut input = if index == 0 { scenario.messages.clone() } else { Vec::new() };
        input.push(object! { "role" => "user", "content" => std::mem::take(&mut parts) }.into());
        let answer = loop {
            let body = object! { "input" => input, "tools" => tools(scenario), "previous_response_id" => previous };
            let (status, answer) = server.post("/v1/responses", &write(body)).await;
            assert_eq!(status, 200, "{}: {}", scenario.name, write(answer));
            previous = at(&answer, "id").clone();
            let output = at(&answer, "output").as_array().unwrap().to_vec();
            let of_type = |kind: &str| {
                let is_it = |item: &&Json| at(item, "type").as_str() == Some(kind);
                output.iter().filter(is_it).cloned().collect::<Vec<Json>>()
            };
            pictures.extend(of_type("code_interpreter_call"));
            let calls = of_type("function_call");
            if calls.is_empty() {
                break of_type("message").last().cloned().unwrap();
            }
            input = calls.iter().map(|call| result(scenario, call)).collect();
        };
        assert_eq!(at(&answer, "content.0.text").as_str().map(str::trim), Some(&*turn.answer), "{}", scenario.name);
    }
    let text = scenario.written(&server.engine.prompt()) + replies.last().unwrap();
    scenario.check("gateway", &text);
    assert!(server.engine.script.lock().unwrap().is_empty());
    for picture in &scenario.pictures {
        let container = at(pictures.last().unwrap(), "container_id").as_str().unwrap();
        let (_, files) = server.get(&format!("/v1/containers/{container}/files")).await;
        let files = at(&files, "data").as_array().unwrap();
        let path = format!("/mnt/data/{picture}");
        let file = files.iter().find(|file| at(file, "path").as_str() == Some(&*path)).unwrap();
        let id = at(file, "id").as_str().unwrap();
        let url = format!("{}/v1/containers/{container}/files/{id}/content", server.address);
        let bytes = reqwest::get(url).await.unwrap().bytes().await.unwrap();
        assert!(bytes.starts_with(b"\x89PNG") && bytes.len() > 5000, "{}", scenario.name);
    }
}

/// The result of a call, which the client runs.
fn result(scenario: &Scenario, call: &Json) -> Json {
    let (name, arguments) = (at(call, "name").as_str(), at(call, "arguments").as_str().unwrap());
    let tool = scenario.tools.iter().find(|tool| tool.definition.get("name").and_then(Json::as_str) == name).unwrap();
    assert_eq!(json::parse(arguments).unwrap(), tool.arguments);
    let call_id = at(call, "call_id").clone();
    object! { "type" => "function_call_output", "call_id" => call_id, "output" => tool.result.as_str() }.into()
}

#[tokio::test]
async fn every_scenario_of_the_documents_runs_on_the_gateway() {
    if !can_run() {
        return;
    }
    for scenario in Scenario::all() {
        play(&scenario).await;
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_attached_is_refused_by_name() {
    if !can_run() {
        return;
    }
    let engine = StandIn::new(EngineKind::LlamaCpp, vec![Step::Ids(sampled("internlm2", "a<|im_end|>"))]);
    let config = config("internlm2", &engine).await;
    let containers = ContainerConfig { is_on: true, ..ContainerConfig::default() };
    let server = Server::open(Config { containers, ..config }, engine).await;
    let file = upload(&server, "a.csv", "1,2").await;
    let id = at(&file, "file_id").as_str().unwrap();
    let code = r#""tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]"#;
    let good = format!(r#""file_id": "{id}""#);
    let renamed = format!(r#""file_id": "{id}", "filename": "b.csv""#);
    for (part, rest, status, code, param) in [
        (good.as_str(), "", 400, "unsupported_part", "input[0].content[0]"),
        (r#""file_id": "file-1""#, code, 404, "file_not_found", "input[0].content[0].file_id"),
        (r#""file_data": "data:,a""#, code, 400, "unsupported_parameter", "input[0].content[0].file_data"),
        (&renamed, code, 400, "conflict", "input[0].content[0].filename"),
        ("", code, 400, "missing_field", "input[0].content[0].file_id"),
    ] {
        let (comma, rest) = if part.is_empty() { ("", rest) } else { (", ", rest) };
        let tools = if rest.is_empty() { String::new() } else { format!(", {rest}") };
        let body =
            format!(r#"{{"input": [{{"role": "user", "content": [{{"type": "input_file"{comma}{part}}}]}}]{tools}}}"#);
        let (found, answer) = server.post("/v1/responses", &body).await;
        let error = at(&answer, "error");
        let found = (found, at(error, "code").as_str(), at(error, "param").as_str());
        assert_eq!(found, (status, Some(code), Some(param)), "{body}: {}", write(answer.clone()));
    }
}
