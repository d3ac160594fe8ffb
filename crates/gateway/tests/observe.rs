//! What the gateway tells about itself: the log, metrics, traces, and whether it is ready.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::common::{Server, StandIn, Step, at, integer, sampled};
use axum::Router;
use axum::extract::{Request, State};
use rolecall::conversation::{Json, json};
use rolecall_gateway::engine::EngineKind;
use rolecall_gateway::settings::ModelSettings;
use rolecall_gateway::{Keys, Limits, Log, RunFault, Settings, Telling, Traces, run};
use tempfile::TempDir;
use tokio::net::TcpListener;

const HI: &str = r#"{"messages": [{"role": "user", "content": "Hi"}]}"#;
const STREAM: &str = r#"{"messages": [{"role": "user", "content": "Hi"}], "stream": true}"#;
const CHAT: &str = "/v1/chat/completions";

/// What was written to a log.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Written {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// Waits for a number of lines, and returns all of them.
    async fn lines(&self, count: usize) -> Vec<Json> {
        for _ in 0..500 {
            let text = self.text();
            if text.lines().count() >= count && text.ends_with('\n') {
                return text.lines().map(|line| json::parse(line).unwrap()).collect();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("there are no {count} lines: {}", self.text());
    }
}

/// An engine that says hello.
fn engine() -> StandIn {
    StandIn::new(EngineKind::LlamaCpp, vec![Step::Ids(sampled("chatml", "Hello")), Step::End("eos")])
}

fn telling(written: &Written) -> Telling {
    Telling { log: Log::to(written.clone()), ..Telling::default() }
}

#[tokio::test]
async fn each_request_is_one_line_of_the_log() {
    let written = Written::default();
    let server = Server::telling("chatml", engine(), Keys::default(), telling(&written)).await;
    assert_eq!(server.post(CHAT, HI).await.0, 200);
    server.stream(STREAM).await;
    assert_eq!(server.post(CHAT, "{").await.0, 400);
    assert_eq!(server.get("/v1/models/some-secret").await.0, 404);
    let lines = written.lines(4).await;
    assert_eq!(lines.len(), 4);
    for line in &lines[..2] {
        assert_eq!((at(line, "event").as_str(), at(line, "route").as_str()), (Some("request"), Some(CHAT)), "{line:?}");
        assert_eq!((at(line, "model").as_str(), integer(at(line, "status"))), (Some("chatml"), 200), "{line:?}");
        assert_eq!((integer(at(line, "reply_ids")), at(line, "whole")), (5, &true.into()), "{line:?}");
        assert!(integer(at(line, "prompt_ids")) > 0 && integer(at(line, "us")) > 0, "{line:?}");
        for stage in ["parse_us", "render_us", "encode_us", "wait_us", "first_token_us", "read_back_us"] {
            assert!(!at(line, stage).is_null(), "{stage}: {line:?}");
        }
        assert_eq!(at(line, "time").as_str().unwrap().len(), "2026-11-25T23:30:00.123Z".len());
    }
    assert_eq!((integer(at(&lines[2], "status")), at(&lines[2], "level").as_str()), (400, Some("warning")));
    assert!(at(&lines[2], "code").as_str().is_some(), "{:?}", lines[2]);
    assert_eq!(at(&lines[3], "route").as_str(), Some("/v1/models/NAME"));
    assert!(!written.text().contains("some-secret"));
}

#[tokio::test]
async fn nothing_that_is_said_is_in_the_log_unless_it_is_asked_for() {
    let body = r#"{"model": "qwen2.5", "messages": [{"role": "system", "content": "SECRET-system"},
        {"role": "user", "name": "SECRET-name", "content": "SECRET-user"},
        {"role": "assistant", "content": "SECRET-assistant"}, {"role": "user", "content": [{"type": "text", "text": "SECRET-part"}]}],
        "user": "SECRET-label", "stop": ["SECRET-stop"],
        "tools": [{"type": "function", "function": {"name": "SECRET-tool", "description": "SECRET-about", "parameters": {"type": "object"}}}]"#;
    let wrong = [
        r#", "SECRET-key": 1}"#,
        r#", "temperature": "SECRET-number"}"#,
        r#", "tool_choice": "SECRET-choice"}"#,
        r#", "logit_bias": {"SECRET-id": 1}}"#,
        r#", "response_format": {"type": "SECRET-format"}}"#,
        r#", "n": SECRET-json}"#,
        r#", "chat_template_kwargs": {"SECRET-kwarg": "SECRET-value"}}"#,
    ];
    for log_content in [false, true] {
        let written = Written::default();
        let steps = vec![Step::Ids(sampled("qwen2.5", "SECRET-reply")), Step::End("eos")];
        let engine = StandIn::new(EngineKind::LlamaCpp, steps);
        let telling = Telling { log_content, ..telling(&written) };
        let keys = Keys::read("SECRET-of-the-key").unwrap();
        let server = Server::telling("qwen2.5", engine, keys, telling).await;
        let send = async |path: &str, body: &str, key: &str| {
            let request = server.request(path, body).header("authorization", format!("Bearer {key}"));
            let request = request.header("cookie", "SECRET-cookie").header("x-request-id", "SECRET with a space");
            let response = request.send().await.unwrap();
            (response.status().as_u16(), response.text().await.unwrap())
        };
        let (status, answer) = send(CHAT, &format!("{body}}}"), "SECRET-of-the-key").await;
        assert!(status == 200 && answer.contains("SECRET-reply"), "{answer}");
        assert_eq!(send(CHAT, &format!("{body}, \"stream\": true}}"), "SECRET-of-the-key").await.0, 200);
        for wrong in wrong {
            assert_eq!(send(CHAT, &format!("{body}{wrong}"), "SECRET-of-the-key").await.0, 400, "{wrong}");
        }
        assert_eq!(send("/SECRET-path?SECRET-query", HI, "SECRET-of-the-key").await.0, 404);
        assert_eq!(send(CHAT, HI, "SECRET-wrong-key").await.0, 401);
        assert_eq!(send("/tokenize", r#"{"text": "SECRET-text"}"#, "SECRET-of-the-key").await.0, 200);
        written.lines(wrong.len() + 5).await;
        let text = written.text();
        assert_eq!(text.contains("SECRET"), log_content, "{text}");
        assert_eq!(text.contains("SECRET-user") && text.contains("SECRET-reply"), log_content, "{text}");
        for never in ["SECRET-of-the-key", "SECRET-wrong-key", "SECRET-cookie"] {
            assert!(!text.contains(never), "{never}: {text}");
        }
    }
    // An engine that refuses a request may repeat it.
    let written = Written::default();
    let refusing =
        StandIn { status: 400, ..StandIn::new(EngineKind::LlamaCpp, vec![Step::Raw("SECRET-prompt".to_owned())]) };
    let server = Server::telling("chatml", refusing, Keys::default(), telling(&written)).await;
    assert_eq!(server.post(CHAT, HI).await.0, 400);
    written.lines(1).await;
    assert!(!written.text().contains("SECRET") && written.text().contains("engine_refused"), "{}", written.text());
}

#[tokio::test]
async fn the_id_of_a_request_is_the_clients_if_it_is_sane() {
    let written = Written::default();
    let server = Server::telling("chatml", engine(), Keys::default(), telling(&written)).await;
    let send = async |id: &str| {
        let response = server.request(CHAT, HI).header("x-request-id", id).send().await.unwrap();
        assert_eq!(response.headers()["request-id"], response.headers()["x-request-id"]);
        response.headers()["x-request-id"].to_str().unwrap().to_owned()
    };
    assert_eq!(send("my-id.1:2_3").await, "my-id.1:2_3");
    for id in ["with space", "\"quoted\"", "", &"a".repeat(129)] {
        assert!(send(id).await.starts_with("req-"), "{id}");
    }
    let lines = written.lines(5).await;
    assert_eq!(at(&lines[0], "id").as_str(), Some("my-id.1:2_3"));
}

#[tokio::test]
async fn a_client_that_leaves_is_in_the_log() {
    let written = Written::default();
    let steps = vec![Step::Ids(sampled("chatml", "Hello")), Step::Wait(Duration::from_secs(600))];
    let engine = StandIn::new(EngineKind::LlamaCpp, steps);
    let server = Server::telling("chatml", engine, Keys::default(), telling(&written)).await;
    // One that gets nothing, and one that gets the beginning.
    let waiting = tokio::time::timeout(Duration::from_millis(300), server.post(CHAT, HI)).await;
    assert!(waiting.is_err());
    let lines = written.lines(1).await;
    assert_eq!((integer(at(&lines[0], "status")), at(&lines[0], "whole")), (499, &false.into()), "{lines:?}");
    let mut response = server.request(CHAT, STREAM).send().await.unwrap();
    assert!(response.chunk().await.unwrap().is_some());
    drop(response);
    let lines = written.lines(2).await;
    assert_eq!((integer(at(&lines[1], "status")), at(&lines[1], "whole")), (200, &false.into()), "{lines:?}");
}

#[tokio::test]
async fn a_log_that_nobody_reads_slows_no_request() {
    struct Stuck;
    impl Write for Stuck {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            std::thread::sleep(Duration::from_secs(600));
            Ok(0)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let telling = Telling { log: Log::to(Stuck), ..Telling::default() };
    let server = Server::telling("chatml", engine(), Keys::default(), telling).await;
    for _ in 0..4_200 {
        assert_eq!(server.get("/health").await.0, 200);
    }
    let dropped = value(&metrics(&server).await, "rolecall_dropped_log_lines_total");
    assert!(dropped > 50.0, "{dropped}");
}

async fn metrics(server: &Server) -> String {
    let response = reqwest::get(format!("{}/metrics", server.address)).await.unwrap();
    assert!(response.headers()["content-type"].to_str().unwrap().starts_with("application/openmetrics-text"));
    response.text().await.unwrap()
}

/// Returns the value of a metric, given with its labels.
fn value(text: &str, metric: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(metric)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("there is no {metric}: {text}")).parse().unwrap()
}

#[tokio::test]
async fn metrics_count_requests_faults_stages_and_ids() {
    let server = Server::new("chatml", engine()).await;
    for _ in 0..3 {
        assert_eq!(server.post(CHAT, HI).await.0, 200);
    }
    assert_eq!(server.post(CHAT, "{").await.0, 400);
    assert_eq!(server.get("/v1/nothing/at/all").await.0, 404);
    let text = metrics(&server).await;
    for (metric, wanted) in [
        (r#"rolecall_requests_total{route="/v1/chat/completions",status="200",model="chatml"}"#, 3.0),
        (r#"rolecall_requests_total{route="/v1/chat/completions",status="400",model=""}"#, 1.0),
        (r#"rolecall_requests_total{route="other",status="404",model=""}"#, 1.0),
        (r#"rolecall_request_seconds_count{route="/v1/chat/completions"}"#, 4.0),
        (r#"rolecall_stage_seconds_count{stage="render"}"#, 3.0),
        (r#"rolecall_stage_seconds_count{stage="first_token"}"#, 3.0),
        (r#"rolecall_stage_seconds_count{stage="read_back"}"#, 3.0),
        (r#"rolecall_ids_total{kind="reply",model="chatml"}"#, 15.0),
        (r#"rolecall_faults_total{code="not_found"}"#, 1.0),
        // The one that asks.
        ("rolecall_running_requests", 1.0),
        ("rolecall_dropped_spans_total", 0.0),
    ] {
        assert_eq!(value(&text, metric).to_bits(), f64::to_bits(wanted), "{metric}: {text}");
    }
    assert!(text.ends_with("# EOF\n"), "{text}");
}

#[tokio::test]
async fn each_stage_of_a_request_is_counted_once() {
    let server = Server::new("chatml", engine()).await;
    let stages = ["parse", "render", "encode", "wait", "first_token", "read_back"];
    for (count, body) in [(1.0, HI), (2.0, STREAM)] {
        server.request(CHAT, body).send().await.unwrap().text().await.unwrap();
        let text = metrics(&server).await;
        for stage in stages {
            let found = value(&text, &format!("rolecall_stage_seconds_count{{stage=\"{stage}\"}}"));
            assert_eq!(found.to_bits(), f64::to_bits(count), "{stage} after {body}: {text}");
            let sum = value(&text, &format!("rolecall_stage_seconds_sum{{stage=\"{stage}\"}}"));
            assert!(sum > 0.0 && sum < 60.0, "{stage}: {sum}");
        }
        assert_eq!(text.matches("rolecall_stage_seconds_count{").count(), stages.len(), "{text}");
    }
}

#[tokio::test]
async fn a_gateway_is_ready_if_its_engine_answers() {
    let server = Server::new("chatml", engine()).await;
    let (status, answer) = server.get("/ready").await;
    assert_eq!((status, at(&answer, "models.0.ready")), (200, &true.into()), "{answer:?}");
    let keys = Keys::read("key").unwrap();
    let server = Server::before("http://127.0.0.1:1", "chatml", engine(), Limits::default(), keys).await;
    // Neither needs a key, which who asks often does not have.
    let (status, answer) = server.get("/ready").await;
    assert_eq!((status, at(&answer, "models.0.name").as_str()), (503, Some("chatml")), "{answer:?}");
    assert_eq!(server.get("/health").await.0, 200);
}

#[tokio::test]
async fn an_engine_that_hangs_makes_a_gateway_unready_and_not_hang() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let server = Server::before(&address, "chatml", engine(), Limits::default(), Keys::default()).await;
    let start = Instant::now();
    let (one, other) = tokio::join!(server.get("/ready"), server.get("/ready"));
    assert_eq!((one.0, other.0), (503, 503));
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    drop(listener);
}

/// A collector, with the bodies that it got.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<String>>>);

impl Collector {
    async fn start(&self) -> String {
        async fn take(State(collector): State<Collector>, request: Request) -> &'static str {
            assert_eq!(
                (request.uri().path(), &request.headers()["content-type"]),
                ("/v1/traces", &"application/json".parse().unwrap())
            );
            let body = axum::body::to_bytes(request.into_body(), usize::MAX).await.unwrap();
            collector.0.lock().unwrap().push(String::from_utf8(body.to_vec()).unwrap());
            "{}"
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(take).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        address
    }

    /// Waits for a number of spans, and returns all of them.
    async fn spans(&self, count: usize) -> Vec<Json> {
        for _ in 0..500 {
            let bodies = self.0.lock().unwrap().clone();
            let spans = |body: &String| {
                let body = json::parse(body).unwrap();
                assert_eq!(at(&body, "resourceSpans.0.resource.attributes.0.value.stringValue").as_str(), Some("mine"));
                at(&body, "resourceSpans.0.scopeSpans.0.spans").as_array().unwrap().to_vec()
            };
            let spans: Vec<Json> = bodies.iter().flat_map(spans).collect();
            if spans.len() >= count {
                return spans;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("there are no {count} spans: {:?}", self.0.lock().unwrap());
    }
}

#[test]
fn an_engine_by_text_is_warned_of_when_the_gateway_starts() {
    let folder = TempDir::new().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write(
        "tokenizer.json",
        r#"{"version": "1.0", "added_tokens": [], "model": {"type": "WordLevel", "unk_token": "u", "vocab": {"u": 0}}}"#,
    );
    write("tokenizer_config.json", r#"{"chat_template": "{% for m in messages %}{{ m.content }}{% endfor %}"}"#);
    // Nobody can listen there a second time, so it ends at once.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    for (kind, wanted) in [(EngineKind::LlamaCpp, None), (EngineKind::OpenAi, Some("unsafe_engine"))] {
        let model = ModelSettings {
            name: Some("mine".to_owned()),
            model: Some(folder.path().to_str().unwrap().to_owned()),
            engine: Some("http://127.0.0.1:1".to_owned()),
            engine_kind: Some(kind),
            ..ModelSettings::default()
        };
        let listen = taken.local_addr().unwrap().to_string();
        let settings = Settings { listen, store: "memory".to_owned(), models: vec![model], ..Settings::default() };
        let written = Written::default();
        let fault = run(&settings, &Log::to(written.clone())).unwrap_err();
        assert!(matches!(fault, RunFault::System(_)), "{fault:?}");
        let lines: Vec<Json> = written.text().lines().map(|line| json::parse(line).unwrap()).collect();
        let events: Vec<&str> = lines.iter().map(|line| at(line, "event").as_str().unwrap()).collect();
        assert_eq!(events, Vec::from_iter(wanted), "{kind:?}");
        for line in &lines {
            assert_eq!(at(line, "level").as_str(), Some("warning"));
            let message = at(line, "message").as_str().unwrap();
            assert!(message.starts_with("mine: the engine gets text"), "{message}");
        }
    }
}

#[tokio::test]
async fn a_request_is_a_span_in_its_callers_trace_with_one_for_each_stage() {
    let collector = Collector::default();
    let traces = Traces::to(&collector.start().await, "mine").unwrap();
    let telling = Telling { traces, ..Telling::default() };
    let server = Server::telling("chatml", engine(), Keys::default(), telling).await;
    let (trace, parent) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
    let send = async |flags: &str| {
        let header = format!("00-{trace}-{parent}-{flags}");
        let sent = server.request(CHAT, STREAM).header("traceparent", header).send().await.unwrap();
        sent.text().await.unwrap();
    };
    // A trace that is not recorded comes first.
    send("00").await;
    send("01").await;
    let spans = collector.spans(7).await;
    assert_eq!(spans.len(), 7);
    let names: Vec<&str> = spans.iter().map(|span| at(span, "name").as_str().unwrap()).collect();
    assert_eq!(names, [CHAT, "parse", "render", "encode", "wait", "first_token", "read_back"]);
    let own = at(&spans[0], "spanId").as_str().unwrap();
    let time = |span: &Json, key: &str| at(span, key).as_str().unwrap().parse::<u128>().unwrap();
    for (index, span) in spans.iter().enumerate() {
        assert_eq!(at(span, "traceId").as_str(), Some(trace));
        assert_eq!(at(span, "parentSpanId").as_str(), Some(if index == 0 { parent } else { own }));
        assert!(time(span, "startTimeUnixNano") <= time(span, "endTimeUnixNano"), "{span:?}");
        assert!(time(&spans[0], "startTimeUnixNano") <= time(span, "startTimeUnixNano"), "{span:?}");
        assert!(time(span, "endTimeUnixNano") <= time(&spans[0], "endTimeUnixNano"), "{span:?}");
    }
    assert!(collector.0.lock().unwrap().iter().all(|body| !body.contains("Hello")));
}

#[tokio::test]
async fn a_collector_that_is_down_or_hangs_slows_no_request() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let hanging = format!("http://{}", listener.local_addr().unwrap());
    for address in ["http://127.0.0.1:1", &hanging] {
        let traces = Traces::to(address, "mine").unwrap();
        let telling = Telling { traces, ..Telling::default() };
        let server = Server::telling("chatml", engine(), Keys::default(), telling).await;
        let start = Instant::now();
        for _ in 0..3_000 {
            assert_eq!(server.get("/health").await.0, 200);
        }
        assert!(start.elapsed() < Duration::from_secs(20), "{address}: {:?}", start.elapsed());
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        let dropped = value(&metrics(&server).await, "rolecall_dropped_spans_total");
        assert!(dropped > 0.0, "{address}: {dropped}");
    }
    assert!(Traces::to("https://secure", "mine").is_err() && Traces::to("nonsense", "mine").is_err());
}
