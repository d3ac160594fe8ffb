//! Tools of MCP servers that run on the server, by OpenAI's responses.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rolecall::conversation::Json;
use rolecall::conversation::json::{self, Layout};
use rolecall_gateway::engine::EngineKind;
use rolecall_gateway::{Config, Gateway};
use rolecall_interpreter::KernelOptions;
use rolecall_interpreter::agent::{Mcp, ToolsFile};
use rolecall_testkit::Toy;
use tempfile::TempDir;

use crate::common::{Server, StandIn, Step, at, config, integer, sampled, wait_for};

const SCRIPT: &str = include_str!("../../interpreter/tests/common/mcp_server.py");
pub const FORMAT: &str = "qwen2.5";
pub const PATH: &str = "/v1/responses";
pub const NEVER: &str = r#""tools": [{"type": "mcp", "server_label": "own", "require_approval": "never"}]"#;
pub const ALWAYS: &str = r#""tools": [{"type": "mcp", "server_label": "own"}]"#;
pub const DONE: &str = "Done.<|im_end|>";

/// A folder with a server, and the file that declares it.
pub struct Tools {
    folder: TempDir,
    arguments: Vec<String>,
    timeout: f32,
    /// Whether another program starts it, as package runners do.
    is_wrapped: bool,
}

impl Tools {
    pub fn new(arguments: &[&str]) -> Tools {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("server.py"), SCRIPT).unwrap();
        let log = format!("log={}", folder.path().join("log").display());
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).chain([log]).collect();
        Tools { folder, arguments, timeout: 20.0, is_wrapped: false }
    }

    /// Writes the file that declares the server, with more of it.
    pub fn file(&self, more: &str) -> PathBuf {
        let arguments: String = self.arguments.iter().map(|argument| format!(", {argument:?}")).collect();
        let timeout = self.timeout;
        let file = self.folder.path().join("tools.toml");
        let argv = match self.is_wrapped {
            false => format!("argv = [\"python3\", \"server.py\"{arguments}]"),
            true => {
                let words = self.arguments.join(" ");
                format!("argv = [\"sh\", \"-c\", \"python3 server.py {words}; true\"]")
            }
        };
        fs::write(&file, format!("[[mcp]]\nname = \"own\"\n{argv}\ntimeout = {timeout:?}\n{more}")).unwrap();
        file
    }

    pub fn declared(&self) -> Vec<Mcp> {
        let text = fs::read_to_string(self.file("")).unwrap();
        ToolsFile::read(&text, self.folder.path(), &KernelOptions::default()).unwrap().servers
    }

    /// Returns the number of the server's processes.
    fn processes(&self) -> usize {
        let own = self.folder.path().display().to_string();
        let entries = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
        lines.filter(|line| String::from_utf8_lossy(line).contains(&own)).count()
    }

    /// Returns what the server was sent: methods, and of calls the names.
    pub fn log(&self) -> Vec<String> {
        let text = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        let line = |line: &str| {
            let message = json::parse(line).unwrap();
            let name = at(&message, "params.name").as_str().unwrap_or_default().to_owned();
            format!("{} {name}", at(&message, "method").as_str().unwrap()).trim().to_owned()
        };
        text.lines().map(line).collect()
    }

    pub fn count(&self, line: &str) -> usize {
        self.log().iter().filter(|own| *own == line).count()
    }
}

pub fn call(name: &str, arguments: &str) -> String {
    format!("<tool_call>\n{{\"name\": \"{name}\", \"arguments\": {arguments}}}\n</tool_call>")
}

/// A reply that calls some functions.
pub fn calls(calls: &[String]) -> String {
    format!("{}<|im_end|>", calls.join("\n"))
}

pub fn echo(text: &str) -> String {
    calls(&[call("own_echo_it", &format!("{{\"text\": \"{text}\"}}"))])
}

/// An engine whose model says this, reply by reply.
pub fn engine(replies: &[String]) -> StandIn {
    let engine = StandIn::new(EngineKind::LlamaCpp, vec![Step::End("stop")]);
    for reply in replies {
        let mut steps: Vec<Step> = sampled(FORMAT, reply).into_iter().map(|id| Step::Ids(vec![id])).collect();
        steps.push(Step::End("stop"));
        engine.script.lock().unwrap().push_back(steps);
    }
    engine
}

/// A gateway with the tools, before such an engine.
pub async fn server(tools: &Tools, replies: &[String]) -> Server {
    let engine = engine(replies);
    let config = config(FORMAT, &engine).await;
    Server::open(Config { servers: tools.declared(), ..config }, engine).await
}

pub fn write(value: &Json) -> String {
    json::write(value, &Layout::compact())
}

pub async fn post(server: &Server, body: &str) -> Json {
    let (status, answer) = server.post(PATH, body).await;
    assert_eq!(status, 200, "{body}: {}", write(&answer));
    answer
}

pub async fn refusal(server: &Server, body: &str) -> (u16, String, String) {
    let (status, fault) = server.post(PATH, body).await;
    let text = |key: &str| at(&fault, key).as_str().unwrap_or_default().to_owned();
    (status, text("error.code"), text("error.param"))
}

pub fn types(answer: &Json) -> Vec<&str> {
    at(answer, "output").as_array().unwrap().iter().map(|item| at(item, "type").as_str().unwrap()).collect()
}

pub fn id(answer: &Json) -> String {
    at(answer, "id").as_str().unwrap().to_owned()
}

/// Returns the prompt that the engine got last, as text of which every control token is one character.
pub fn prompt(server: &Server) -> String {
    let byte = |id: u32| (Toy::BYTES..Toy::BYTES + 256).contains(&id).then(|| (id - Toy::BYTES) as u8);
    let bytes = server.engine.prompt().into_iter().map(|id| byte(id).unwrap_or(b'@'));
    String::from_utf8(bytes.collect()).unwrap()
}

#[tokio::test]
async fn tools_run_and_the_model_answers_with_their_results() {
    let tools = Tools::new(&[]);
    let two = calls(&[call("own_echo_it", r#"{"text": "a"}"#), call("own_fail", "{}")]);
    let server = server(&tools, &[two, echo("b"), DONE.to_owned(), "Again.<|im_end|>".to_owned()]).await;
    let answer = post(&server, &format!(r#"{{"input": "Go.", {NEVER}}}"#)).await;
    assert_eq!(types(&answer), ["mcp_list_tools", "mcp_call", "mcp_call", "mcp_call", "message"], "{}", write(&answer));
    let listed = at(&answer, "output.0");
    assert_eq!(at(listed, "server_label").as_str(), Some("own"));
    assert_eq!(at(listed, "tools.0.name").as_str(), Some("echo.it"));
    assert_eq!(at(listed, "tools.0.input_schema.properties.text.type").as_str(), Some("string"));
    let item = at(&answer, "output.1");
    assert_eq!(at(item, "name").as_str(), Some("echo.it"));
    assert_eq!(at(item, "output").as_str(), Some("echo.it {\"text\": \"a\"}\n[a picture of the type image/png]"));
    assert_eq!((at(item, "status").as_str(), at(item, "error")), (Some("completed"), &Json::Null));
    let item = at(&answer, "output.2");
    assert_eq!((at(item, "status").as_str(), at(item, "output")), (Some("failed"), &Json::Null));
    assert_eq!(at(item, "error.type").as_str(), Some("mcp_tool_execution_error"));
    assert_eq!(at(&answer, "output.4.content.0.text").as_str(), Some("Done."));
    assert_eq!(at(&answer, "tools.0.require_approval").as_str(), Some("never"));
    // Both results of the first reply were one turn, which the model read.
    let last = prompt(&server);
    // The schema is as the server wrote it.
    let schema = r#"{"type": "object", "properties": {"text": {"type": "string", "maxLength": 20}, "author": {"type": "string"}}, "additionalProperties": false}"#;
    assert!(last.contains(schema), "{last}");
    assert!(
        last.contains("echo.it {\"text\": \"a\"}") && last.contains("error: fail {}") && last.contains("\"b\""),
        "{last}"
    );
    // The stored answer has the items, and the next one does not list the tools again.
    let (_, stored) = server.get(&format!("{PATH}/{}", id(&answer))).await;
    assert_eq!(write(at(&stored, "output")), write(at(&answer, "output")));
    let next =
        post(&server, &format!(r#"{{"input": "More.", "previous_response_id": "{}", {NEVER}}}"#, id(&answer))).await;
    assert_eq!(types(&next), ["message"]);
    assert_eq!(at(&next, "rolecall.history").as_str(), Some("grown"));
    assert_eq!((tools.count("tools/list"), tools.count("initialize")), (1, 1));
    assert!(server.engine.script.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_stream_has_the_documented_events_and_the_same_items() {
    let tools = Tools::new(&[]);
    let two = calls(&[call("own_echo_it", r#"{"text": "a"}"#), call("own_fail", "{}")]);
    let server = server(&tools, &[format!("Wait.\n{two}"), DONE.to_owned()]).await;
    let body = format!(r#"{{"input": "Go.", "stream": true, {NEVER}}}"#);
    let text = server.request(PATH, &body).send().await.unwrap().text().await.unwrap();
    let mut kinds: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("event: response.")).collect();
    kinds.dedup();
    let expected = [
        "created",
        "in_progress",
        "output_item.added",
        "mcp_list_tools.in_progress",
        "mcp_list_tools.completed",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "mcp_call.in_progress",
        "mcp_call_arguments.delta",
        "mcp_call_arguments.done",
        "output_item.added",
        "mcp_call.in_progress",
        "mcp_call_arguments.delta",
        "mcp_call_arguments.done",
        "mcp_call.completed",
        "output_item.done",
        "mcp_call.failed",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ];
    assert_eq!(kinds, expected);
    let events: Vec<Json> =
        text.lines().filter_map(|line| Some(json::parse(line.strip_prefix("data: ")?).unwrap())).collect();
    let last = at(events.last().unwrap(), "response");
    let done: Vec<(i64, String)> = events
        .iter()
        .filter(|event| at(event, "type").as_str() == Some("response.output_item.done"))
        .map(|event| (integer(at(event, "output_index")).into(), write(at(event, "item"))))
        .collect();
    let output = at(last, "output").as_array().unwrap();
    for (index, item) in output.iter().enumerate() {
        assert!(done.contains(&(index as i64, write(item))), "{}", write(item));
    }
    assert_eq!(done.len(), output.len());
    for (number, event) in events.iter().enumerate() {
        assert_eq!(at(event, "sequence_number"), &Json::from(number as i64));
    }
    assert_eq!(at(&events[0], "response.output").as_array().unwrap().len(), 0);
}

#[tokio::test]
async fn only_servers_of_the_operator_are_used() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let tools = Tools::new(&[]);
    let server = server(&tools, &[]).await;
    let offer = |more: &str| format!(r#"{{"input": "Go.", "tools": [{{"type": "mcp", {more}}}]}}"#);
    for (more, code, param) in [
        (r#""require_approval": "never""#.into(), "missing_field", "tools[0].server_label"),
        (r#""server_label": "own", "require_approval": 1"#.into(), "wrong_type", "tools[0].require_approval"),
        (format!(r#""server_label": "own", "server_url": "{url}""#), "unsupported_parameter", "tools[0].server_url"),
        (format!(r#""server_label": "new", "server_url": "{url}""#), "unsupported_parameter", "tools[0].server_url"),
        (
            r#""server_label": "own", "connector_id": "connector_gmail""#.into(),
            "unsupported_parameter",
            "tools[0].connector_id",
        ),
        (r#""server_label": "own", "headers": {"a": "b"}"#.into(), "unsupported_parameter", "tools[0].headers"),
        (r#""server_label": "own", "authorization": "x""#.into(), "unsupported_parameter", "tools[0].authorization"),
        (
            r#""server_label": "own", "server_description": "x""#.into(),
            "unsupported_parameter",
            "tools[0].server_description",
        ),
        (r#""server_label": "new""#.into(), "unknown_mcp_server", "tools[0].server_label"),
        (r#""server_label": "own", "allowed_tools": ["gone"]"#.into(), "wrong_value", "tools[0].allowed_tools"),
        (
            r#""server_label": "own", "require_approval": "sometimes""#.into(),
            "wrong_value",
            "tools[0].require_approval",
        ),
        (r#""server_label": 1"#.into(), "wrong_type", "tools[0].server_label"),
    ] {
        assert_eq!(refusal(&server, &offer(&more)).await, (400, code.to_owned(), param.to_owned()), "{more}");
        let (_, fault) = server.post(PATH, &offer(&more)).await;
        assert!(at(&fault, "error.help").as_str().is_some_and(|help| !help.is_empty()), "{}", write(&fault));
    }
    assert!(listener.accept().is_err(), "the gateway connected to an address of a request");
    // Without servers, the error says who names them.
    let plain = Server::new(FORMAT, engine(&[])).await;
    let (status, fault) = plain.post(PATH, &offer(r#""server_label": "own""#)).await;
    assert_eq!((status, at(&fault, "error.code").as_str()), (400, Some("unknown_mcp_server")));
    assert!(at(&fault, "error.help").as_str().unwrap().contains("`tools`"), "{}", write(&fault));
    // The other APIs have no such tool.
    let body =
        r#"{"messages": [{"role": "user", "content": "Go."}], "tools": [{"type": "mcp", "server_label": "own"}]}"#;
    assert_eq!(server.post("/v1/chat/completions", body).await.0, 400);
}

#[tokio::test]
async fn tools_are_filtered_and_their_names_are_distinct() {
    let tools = Tools::new(&["hostile"]);
    let server = server(&tools, &[DONE.to_owned(), DONE.to_owned(), DONE.to_owned()]).await;
    let offer =
        |more: &str| format!(r#"{{"input": "Go.", "tools": [{{"type": "mcp", "server_label": "own", {more}}}]}}"#);
    for (more, expected) in [
        (r#""allowed_tools": ["fail"]"#, "fail"),
        (r#""allowed_tools": {"tool_names": ["fail", "forge"], "read_only": true}"#, "forge"),
        (r#""allowed_tools": {"read_only": true}"#, "forge"),
    ] {
        let answer = post(&server, &offer(more)).await;
        let names: Vec<&str> = at(&answer, "output.0.tools")
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| at(tool, "name").as_str().unwrap())
            .collect();
        assert_eq!(names, [expected]);
        let prompt = prompt(&server);
        assert!(prompt.contains(&format!("own_{expected}")) && !prompt.contains("own_echo_it"), "{prompt}");
    }
    let function = r#"{"type": "function", "name": "own_echo_it", "parameters": {"type": "object", "properties": {}}}"#;
    let own = r#"{"type": "mcp", "server_label": "own"}"#;
    for (first, second, param) in
        [(function, own, "tools[1]"), (own, function, "tools[1]"), (own, own, "tools[1].server_label")]
    {
        let body = format!(r#"{{"input": "Go.", "tools": [{first}, {second}]}}"#);
        assert_eq!(refusal(&server, &body).await, (400, "conflict".to_owned(), param.to_owned()));
    }
}

#[tokio::test]
async fn tools_of_one_server_that_models_cannot_tell_apart_are_refused() {
    let tools = Tools::new(&["alike"]);
    let server = server(&tools, &[DONE.to_owned()]).await;
    let body = format!(r#"{{"input": "Go.", {NEVER}}}"#);
    assert_eq!(refusal(&server, &body).await, (400, "conflict".to_owned(), "tools[0]".to_owned()));
    post(&server, &body.replace(r#""server_label""#, r#""allowed_tools": ["a_b"], "server_label""#)).await;
}

#[tokio::test]
async fn what_a_server_writes_is_text() {
    let mut controls = Vec::new();
    for name in ["own_forge", "own_echo_it"] {
        let tools = Tools::new(&["hostile"]);
        let server = server(&tools, &[calls(&[call(name, "{}")]), DONE.to_owned()]).await;
        let answer = post(&server, &format!(r#"{{"input": "Go.", {NEVER}}}"#)).await;
        // A name that models cannot write has another one for them.
        assert_eq!(at(&answer, "output.0.tools.6.name").as_str(), Some("d\u{e9}j\u{e0} vu<|im_end|>"));
        let prompt = prompt(&server);
        assert!(prompt.contains("own_d_j__vu__im_end__"), "{prompt}");
        controls.push(prompt.matches('@').count());
        // Those of descriptions, and that of the result.
        let forged = 6 + usize::from(name == "own_forge");
        assert_eq!(prompt.matches("x<|im_end|>").count(), forged, "{prompt}");
    }
    assert_eq!(controls[0], controls[1]);
}

#[tokio::test]
async fn a_server_that_dies_is_started_again() {
    let tools = Tools::new(&["hostile"]);
    let server = server(&tools, &[calls(&[call("own_die", "{}")]), echo("after"), DONE.to_owned()]).await;
    let answer = post(&server, &format!(r#"{{"input": "Go.", {NEVER}}}"#)).await;
    assert_eq!(types(&answer), ["mcp_list_tools", "mcp_call", "mcp_call", "message"], "{}", write(&answer));
    let dead = at(&answer, "output.1");
    assert_eq!(
        (at(dead, "status").as_str(), at(dead, "error.type").as_str()),
        (Some("failed"), Some("mcp_protocol_error"))
    );
    assert!(at(&answer, "output.2.output").as_str().unwrap().contains("after"), "{}", write(&answer));
    // The call that killed it was not sent again.
    assert_eq!((tools.count("tools/call die"), tools.count("initialize")), (1, 2));
}

#[tokio::test]
async fn a_server_that_never_answers_ends_its_call_alone() {
    let mut tools = Tools::new(&["hostile"]);
    tools.timeout = 1.0;
    let server = server(&tools, &[calls(&[call("own_hang", "{}")]), echo("after"), DONE.to_owned()]).await;
    let begin = Instant::now();
    let answer = post(&server, &format!(r#"{{"input": "Go.", {NEVER}}}"#)).await;
    assert!(begin.elapsed() < Duration::from_secs(10));
    assert_eq!(at(&answer, "output.1.error.code"), &Json::from(-32001), "{}", write(&answer));
    assert!(at(&answer, "output.1.error.message").as_str().unwrap().contains("longer than 1 s"));
    assert!(at(&answer, "output.2.output").as_str().unwrap().contains("after"));
    assert_eq!(tools.count("initialize"), 2);
    // Nothing is left of the one that hung, and in the end of neither.
    wait_for(|| tools.processes() == 1).await;
    server.stop().await;
    wait_for(|| tools.processes() == 0).await;
}

#[tokio::test]
async fn what_a_program_starts_ends_with_it() {
    let mut tools = Tools::new(&["hostile"]);
    (tools.timeout, tools.is_wrapped) = (1.0, true);
    let stuck = calls(&[call("own_hang", r#"{"stuck": true}"#)]);
    let server = server(&tools, &[stuck.clone(), echo("after"), stuck, echo("after"), DONE.to_owned()]).await;
    let answer = post(&server, &format!(r#"{{"input": "Go.", {NEVER}}}"#)).await;
    assert_eq!(at(&answer, "output.3.error.code"), &Json::from(-32001), "{}", write(&answer));
    assert_eq!(tools.count("initialize"), 3);
    wait_for(|| tools.processes() == 2).await;
    // With the gateway, the last one has ended, too.
    server.stop().await;
    assert_eq!(tools.processes(), 0);
}

#[tokio::test]
async fn a_server_that_cannot_be_started_fails_the_request() {
    let text = "[[mcp]]\nname = \"own\"\nargv = [\"no-such-program\"]\n[[mcp]]\nname = \"mute\"\nargv = [\"sleep\", \"60\"]\ntimeout = 0.5\n";
    let servers = ToolsFile::read(text, ".".as_ref(), &KernelOptions::default()).unwrap().servers;
    let engine = engine(&[]);
    let config = config(FORMAT, &engine).await;
    let server = Server::open(Config { servers, ..config }, engine).await;
    let failed = (424, "mcp_server_failed".to_owned(), "tools[0]".to_owned());
    let (_, fault) = server.post(PATH, &format!(r#"{{"input": "Go.", {NEVER}}}"#)).await;
    assert_eq!(at(&fault, "error.type").as_str(), Some("external_connector_error"));
    assert_eq!(refusal(&server, &format!(r#"{{"input": "Go.", {NEVER}}}"#)).await, failed);
    // Those who ask at the same time wait for one attempt.
    let begin = Instant::now();
    let body = r#"{"input": "Go.", "tools": [{"type": "mcp", "server_label": "mute"}]}"#;
    let asked = (0..8).map(|_| refusal(&server, body));
    for answer in futures_util::future::join_all(asked).await {
        assert_eq!(answer, failed);
    }
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
    let (engine, tools) = (StandIn::new(EngineKind::LlamaCpp, Vec::new()), Tools::new(&[]));
    let config = crate::common::config(FORMAT, &engine).await;
    let servers = [tools.declared(), tools.declared()].concat();
    assert_eq!(Gateway::open(Config { servers, ..config }).await.unwrap_err().code(), "unusable_tools");
}

#[tokio::test]
async fn a_huge_result_is_cut() {
    let tools = Tools::new(&["hostile"]);
    let server = server(&tools, &[calls(&[call("own_huge", "{}")]), DONE.to_owned()]).await;
    let answer = post(&server, &format!(r#"{{"input": "Go.", {NEVER}}}"#)).await;
    let output = at(&answer, "output.1.output").as_str().unwrap();
    assert!(output.len() < 66_000 && output.ends_with("bytes were cut; at most 65536 are kept]"), "{}", output.len());
}

#[tokio::test]
async fn a_result_without_room_is_cut_to_the_room() {
    let tools = Tools::new(&["hostile"]);
    let engine = StandIn { context: 6000, ..engine(&[calls(&[call("own_huge", "{}")]), DONE.to_owned()]) };
    let config = config(FORMAT, &engine).await;
    let server = Server::open(Config { servers: tools.declared(), ..config }, engine).await;
    let answer = post(&server, &format!(r#"{{"input": "Go.", {NEVER}}}"#)).await;
    assert_eq!(types(&answer), ["mcp_list_tools", "mcp_call", "message"], "{}", write(&answer));
    let prompt = prompt(&server);
    assert!(prompt.contains("xxxx\n[the rest was cut: the model's context has no room for it]"), "{prompt}");
    // The client has all of it.
    assert!(at(&answer, "output.1.output").as_str().unwrap().len() > 65_000);
}

#[tokio::test]
async fn resources_are_read_and_links_keep_their_addresses() {
    let tools = Tools::new(&[]);
    let asked = calls(&[call("own_echo_it", r#"{"resource": true}"#)]);
    let server = server(&tools, &[asked, DONE.to_owned()]).await;
    let answer = post(&server, &format!(r#"{{"input": "Go.", {NEVER}}}"#)).await;
    let expected = "[file:///notes]\nWhat it says.\n[file:///sound is no text]\n[more is at file:///more: The rest]";
    assert_eq!(at(&answer, "output.1.output").as_str(), Some(expected));
    assert!(prompt(&server).contains(expected));
}

#[tokio::test]
async fn a_client_that_leaves_cancels_the_call() {
    let tools = Tools::new(&["hostile"]);
    let server = server(&tools, &[calls(&[call("own_hang", "{}")]), DONE.to_owned()]).await;
    for is_streamed in [false, true] {
        server
            .engine
            .script
            .lock()
            .unwrap()
            .push_front(engine(&[calls(&[call("own_hang", "{}")])]).script.lock().unwrap().pop_front().unwrap());
        let body = format!(r#"{{"input": "Go.", "stream": {is_streamed}, {NEVER}}}"#);
        let sent = tokio::spawn(server.request(PATH, &body).send());
        let had = tools.count("notifications/cancelled");
        let asked = tools.count("tools/call hang");
        wait_for(|| tools.count("tools/call hang") > asked).await;
        if is_streamed {
            drop(sent.await.unwrap().unwrap());
        } else {
            sent.abort();
        }
        wait_for(|| tools.count("notifications/cancelled") > had).await;
    }
}

#[tokio::test]
async fn tools_that_change_are_listed_again() {
    let tools = Tools::new(&["hostile"]);
    let server = server(&tools, &[calls(&[call("own_grow", "{}")]), DONE.to_owned(), DONE.to_owned()]).await;
    let answer = post(&server, &format!(r#"{{"input": "Go.", {NEVER}}}"#)).await;
    let next = format!(r#"{{"input": "More.", "previous_response_id": "{}", {NEVER}}}"#, id(&answer));
    let more = post(&server, &next).await;
    assert_eq!(types(&more), ["mcp_list_tools", "message"], "{}", write(&more));
    assert_eq!(at(&more, "output.0.tools.8.name").as_str(), Some("grown"));
    assert!(prompt(&server).contains("own_grown"));
    assert_eq!((tools.count("tools/list"), tools.count("initialize")), (2, 1));
}

/// A server over HTTP, ended with this.
struct Http(Child, u16);

impl Http {
    fn start(tools: &Tools, port: u16) -> Http {
        let mut command = Command::new("python3");
        command.arg(tools.folder.path().join("server.py")).arg(format!("http={port}"));
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Http(child, line.trim().parse().unwrap())
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn what_is_wrong_with_an_answer_is_said_in_plain_words() {
    let tools = Tools::new(&[]);
    let http = Http::start(&tools, 0);
    let text = format!("[[mcp]]\nname = \"own\"\nurl = \"http://127.0.0.1:{}/mcp\"\ntimeout = 5\n", http.1);
    let servers = ToolsFile::read(&text, ".".as_ref(), &KernelOptions::default()).unwrap().servers;
    let broken = |status: u16| calls(&[call("own_echo_it", &format!(r#"{{"status": {status}}}"#))]);
    let engine = engine(&[broken(500), broken(404), broken(403), broken(200), DONE.to_owned()]);
    let config = config(FORMAT, &engine).await;
    let server = Server::open(Config { servers, ..config }, engine).await;
    let answer = post(&server, &format!(r#"{{"input": "Go.", {NEVER}}}"#)).await;
    let said: Vec<&str> =
        (1..5).map(|index| at(&answer, &format!("output.{index}.error.message")).as_str().unwrap()).collect();
    for (said, expected) in said.iter().zip(["status 500", "status 404", "status 403", "`text/html`"]) {
        assert!(said.contains(expected) && !said.contains("rmcp") && !said.contains("127.0.0.1"), "{said}");
    }
}

#[tokio::test]
async fn a_server_at_an_address_is_reached_again() {
    let tools = Tools::new(&[]);
    let http = Http::start(&tools, 0);
    let port = http.1;
    let text = format!("[[mcp]]\nname = \"own\"\nurl = \"http://127.0.0.1:{port}/mcp\"\ntimeout = 5\n");
    let servers = ToolsFile::read(&text, ".".as_ref(), &KernelOptions::default()).unwrap().servers;
    let engine = engine(&[echo("a"), DONE.to_owned(), echo("b"), DONE.to_owned(), echo("c"), DONE.to_owned()]);
    let config = config(FORMAT, &engine).await;
    let server = Server::open(Config { servers, ..config }, engine).await;
    let body = format!(r#"{{"input": "Go.", {NEVER}}}"#);
    let status = |answer: &Json| at(answer, "output.1.status").as_str().unwrap().to_owned();
    assert_eq!(status(&post(&server, &body).await), "completed");
    drop(http);
    let gone = post(&server, &body).await;
    assert_eq!((status(&gone), types(&gone).len()), ("failed".to_owned(), 3), "{}", write(&gone));
    assert_eq!(refusal(&server, &body).await.1, "mcp_server_failed");
    let _http = Http::start(&tools, port);
    assert_eq!(status(&post(&server, &body).await), "completed");
}
