//! Templates that are Python code, in a process that the gateway keeps.
//!
//! A script stands in for the interpreter with the package: it numbers the rounds, as no loop over messages in a format
//! file would, and what it does beside that is told by the messages.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rolecall::Model;
use rolecall::conversation::json::{self, Layout};
use rolecall::conversation::{Json, object};
use rolecall::format::registry;
use rolecall::model::BosBy;
use rolecall::template::{CodeErrorKind, ModelTemplates};
use rolecall_gateway::engine::EngineKind;
use rolecall_gateway::{Keys, Limits, TemplateProcess};
use rolecall_testkit::Toy;
use tempfile::TempDir;

use crate::common::{Server, StandIn, Step, at, integer, sampled, wait_for};

const SCRIPT: &str = r#"#!/usr/bin/env python3
import json, os, sys, time
here = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(here, "starts"), "a") as starts:
    print(os.getpid(), file=starts)
assert sys.argv[1] == "-m", sys.argv
if sys.argv[3] == "broken.py":
    print(json.dumps({"error": {"message": "SyntaxError: invalid syntax", "code": "code_failed"}}), flush=True)
    sys.exit(1)
print(json.dumps({"name": "rounds", "stop_words": ["<|im_end|>", "THE END"]}), flush=True)
def say(**answer):
    print(json.dumps({"number": asked["number"], **answer}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    last = asked["messages"][-1]["content"]
    if last == "die":
        os._exit(9)
    if last == "hang":
        time.sleep(600)
    if last == "nonsense":
        print("nonsense", flush=True)
        continue
    if last == "refuse":
        error = {"message": "not this", "code": "text_not_found", "message_index": 0, "field": "content", "help": "no"}
        say(error=error)
        continue
    if last == "twice":
        say(pieces=[0])
    pieces, users = [], 0
    for at, message in enumerate(asked["messages"]):
        if message["role"] == "user":
            users += 1
            pieces += [f"<|im_start|>user\n[Round {users}] ", at, "<|im_end|>\n<|im_start|>assistant\n"]
        elif message["role"] == "system":
            pieces += ["<|im_start|>system\n", at, "<|im_end|>\n"]
        else:
            pieces += [at, "<|im_end|>\n"]
    if asked["switches"].get("shout"):
        pieces.append("!")
    say(pieces=pieces)
"#;

struct Code {
    folder: TempDir,
}

impl Code {
    fn new() -> Code {
        let folder = tempfile::tempdir().unwrap();
        let code = Code { folder };
        fs::write(code.python(), SCRIPT).unwrap();
        fs::set_permissions(code.python(), fs::Permissions::from_mode(0o755)).unwrap();
        code
    }

    fn python(&self) -> PathBuf {
        self.folder.path().join("python")
    }

    /// The processes that were started, in order.
    fn starts(&self) -> Vec<String> {
        let text = fs::read_to_string(self.folder.path().join("starts")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn model(&self) -> Model {
        let process = TemplateProcess::start(self.python(), "rounds.py".to_owned()).unwrap();
        // Long enough for a busy machine.
        let process = process.within(Duration::from_secs(3));
        let templates = ModelTemplates::of_code(Arc::new(process)).unwrap();
        let toy = Arc::new(Toy::of(registry().get("chatml").unwrap()));
        Model::builder().templates(templates).loaded_tokenizer(toy).bos(BosBy::Tokenizer).open().unwrap()
    }
}

/// A gateway whose model says this, reply by reply.
async fn server(code: &Code, replies: &[&str]) -> Server {
    let engine = StandIn::new(EngineKind::LlamaCpp, vec![Step::End("stop")]);
    for reply in replies {
        let steps = vec![Step::Ids(sampled("chatml", reply)), Step::End("stop")];
        engine.script.lock().unwrap().push_back(steps);
    }
    let address = engine.start().await;
    Server::of(&address, code.model(), "m", engine, Limits::default(), Keys::default()).await
}

fn message(role: &str, content: &str) -> Json {
    object! { "role" => role, "content" => content }.into()
}

fn body(messages: &[Json]) -> String {
    json::write(&object! { "messages" => messages.to_vec() }.into(), &Layout::compact())
}

/// The text of the prompt that the engine got, in which a token of ChatML is not the text that spells it.
fn prompt(server: &Server) -> String {
    let toy = Toy::of(registry().get("chatml").unwrap());
    let (mut text, mut bytes) = (String::new(), Vec::new());
    let flush =
        |bytes: &mut Vec<u8>, text: &mut String| text.push_str(&String::from_utf8(std::mem::take(bytes)).unwrap());
    use rolecall::tokenizer::Tokenizer;
    for id in server.engine.prompt() {
        match toy.added_tokens().iter().find(|token| token.id == id) {
            Some(token) => {
                flush(&mut bytes, &mut text);
                text.push_str(&token.text.replace("<|", "{").replace("|>", "}"));
            }
            None => assert!(toy.token_bytes(id, &mut bytes)),
        }
    }
    flush(&mut bytes, &mut text);
    text
}

#[tokio::test]
async fn a_conversation_is_written_by_code_and_goes_on() {
    let code = Code::new();
    let server = server(&code, &["Hello!<|im_end|>", "Yes.THE END and more", "Bye.<|im_end|>"]).await;
    let mut messages = vec![message("user", "Hi<|im_end|>")];
    let (status, answer) = server.post("/v1/chat/completions", &body(&messages)).await;
    assert_eq!((status, at(&answer, "choices.0.message.content").as_str()), (200, Some("Hello!")), "{answer:?}");
    // The client's text stays text.
    assert_eq!(prompt(&server), "{im_start}user\n[Round 1] Hi<|im_end|>{im_end}\n{im_start}assistant\n");
    messages.extend([message("assistant", "Hello!"), message("user", "More?")]);
    let (status, answer) = server.post("/v1/chat/completions", &body(&messages)).await;
    // The stop words of the code end a reply.
    assert_eq!((status, at(&answer, "choices.0.message.content").as_str()), (200, Some("Yes.")), "{answer:?}");
    let second = "{im_start}user\n[Round 1] Hi<|im_end|>{im_end}\n{im_start}assistant\nHello!{im_end}\n\
                  {im_start}user\n[Round 2] More?{im_end}\n{im_start}assistant\n";
    assert_eq!(prompt(&server), second);
    let kept = integer(at(&answer, "usage.prompt_tokens_details.kept_tokens"));
    assert!(kept > 40, "{answer:?}");
    assert_eq!(code.starts().len(), 1);
}

#[tokio::test]
async fn a_conversation_with_a_name_goes_on() {
    let code = Code::new();
    let server = server(&code, &["One.<|im_end|>", "Two.<|im_end|>"]).await;
    let (status, first) = server.post("/v1/responses", r#"{"input": "Hi"}"#).await;
    assert_eq!(status, 200, "{first:?}");
    let id = at(&first, "id").as_str().unwrap();
    let body = format!(r#"{{"input": "More?", "previous_response_id": "{id}"}}"#);
    let (status, second) = server.post("/v1/responses", &body).await;
    assert_eq!((status, at(&second, "output.0.content.0.text").as_str()), (200, Some("Two.")), "{second:?}");
    let wanted = "{im_start}user\n[Round 1] Hi{im_end}\n{im_start}assistant\nOne.{im_end}\n\
                  {im_start}user\n[Round 2] More?{im_end}\n{im_start}assistant\n";
    assert_eq!(prompt(&server), wanted);
}

#[tokio::test]
async fn what_code_does_not_take_is_refused() {
    let code = Code::new();
    let server = server(&code, &["One.<|im_end|>", "Two.<|im_end|>"]).await;
    let refused = async |body: &str| {
        let (status, answer) = server.post("/v1/chat/completions", body).await;
        (status, at(&answer, "error.code").as_str().unwrap_or_default().to_owned())
    };
    let named = r#"{"messages": [{"role": "user", "content": "a", "name": "bob"}]}"#;
    assert_eq!(refused(named).await, (400, "code_takes_less".to_owned()));
    let tools = r#"{"messages": [{"role": "user", "content": "a"}],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]}"#;
    assert_eq!(refused(tools).await.0, 400);
    let text = r#"{"messages": [{"role": "user", "content": "a"}], "chat_template_kwargs": {"shout": "yes"}}"#;
    assert_eq!(refused(text).await, (400, "code_takes_less".to_owned()));
    let unread = r#"{"messages": [{"role": "user", "content": "a"}], "chat_template_kwargs": {"whisper": true}}"#;
    assert_eq!(refused(unread).await.0, 400);
    assert_eq!(refused(&body(&[message("user", "refuse")])).await, (400, "text_not_found".to_owned()));
    let open = r#"{"messages": [{"role": "user", "content": "a"}], "add_generation_prompt": false}"#;
    assert_eq!(refused(open).await.0, 400);
    assert!(server.engine.bodies.lock().unwrap().is_empty());
    // A switch that the code reads has its effect, and parts of text are one text.
    let shout = r#"{"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}],
        "chat_template_kwargs": {"shout": true}}"#;
    let (status, answer) = server.post("/v1/chat/completions", shout).await;
    assert_eq!(status, 200, "{answer:?}");
    assert_eq!(prompt(&server), "{im_start}user\n[Round 1] a\nb{im_end}\n{im_start}assistant\n!");
}

#[tokio::test]
async fn a_process_that_dies_fails_its_request_and_is_started_again() {
    let code = Code::new();
    let server = server(&code, &["One.<|im_end|>", "Two.<|im_end|>"]).await;
    for (text, starts) in [("die", 1), ("nonsense", 2)] {
        let (status, answer) = server.post("/v1/chat/completions", &body(&[message("user", text)])).await;
        assert_eq!((status, at(&answer, "error.code").as_str()), (500, Some("code_unavailable")), "{answer:?}");
        assert_eq!(code.starts().len(), starts);
        let (status, answer) = server.post("/v1/chat/completions", &body(&[message("user", "a")])).await;
        assert_eq!(status, 200, "{answer:?}");
        assert_eq!(code.starts().len(), starts + 1);
    }
}

#[tokio::test]
async fn an_answer_is_that_of_its_question() {
    let code = Code::new();
    let server = server(&code, &["One.<|im_end|>", "Two.<|im_end|>"]).await;
    // The process says a line too much, which is no answer to anybody.
    let (status, answer) = server.post("/v1/chat/completions", &body(&[message("user", "twice")])).await;
    assert_eq!(status, 200, "{answer:?}");
    let starts = code.starts().len();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let (status, answer) = server.post("/v1/chat/completions", &body(&[message("user", "b")])).await;
    assert_eq!(status, 200, "{answer:?}");
    assert_eq!(prompt(&server), "{im_start}user\n[Round 1] b{im_end}\n{im_start}assistant\n");
    assert_eq!(code.starts().len(), starts + 1);
}

#[tokio::test]
async fn a_gateway_lives_while_code_hangs() {
    let code = Code::new();
    let server = server(&code, &["One.<|im_end|>"]).await;
    let hang = body(&[message("user", "hang")]);
    let hanging =
        async { futures_util::future::join_all((0..4).map(|_| server.post("/v1/chat/completions", &hang))).await };
    let health = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let start = Instant::now();
        let (status, _) = server.get("/health").await;
        (status, start.elapsed() < Duration::from_secs(2))
    };
    let start = Instant::now();
    let (answers, health) = tokio::join!(hanging, health);
    assert_eq!(health, (200, true));
    // They wait for one another, and not longer than a conversation may take.
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    for (status, answer) in answers {
        assert_eq!((status, at(&answer, "error.code").as_str()), (500, Some("code_unavailable")), "{answer:?}");
    }
    let (status, answer) = server.post("/v1/chat/completions", &body(&[message("user", "a")])).await;
    assert_eq!(status, 200, "{answer:?}");
}

#[tokio::test]
async fn an_empty_reply_is_kept_once() {
    let code = Code::new();
    let server = server(&code, &["<|im_end|>", "Two.<|im_end|>"]).await;
    let turn = |messages: &[Json]| {
        let mut body = json::parse(&body(messages)).unwrap().as_object().unwrap().clone();
        body.insert("on_rewrite", "keep".into());
        json::write(&body.into(), &Layout::compact())
    };
    let mut messages = vec![message("user", "a")];
    let (status, answer) = server.post("/v1/chat/completions", &turn(&messages)).await;
    assert_eq!(status, 200, "{answer:?}");
    messages.extend([message("assistant", ""), message("user", "b")]);
    let (status, answer) = server.post("/v1/chat/completions", &turn(&messages)).await;
    assert_eq!(status, 200, "{answer:?}");
    let wanted = "{im_start}user\n[Round 1] a{im_end}\n{im_start}assistant\n{im_end}\n\
                  {im_start}user\n[Round 2] b{im_end}\n{im_start}assistant\n";
    assert_eq!(prompt(&server), wanted);
}

#[test]
fn a_conversation_of_many_turns_is_written() {
    use rolecall::Request;
    let turns = (0..10_000).map(|at| message(["user", "assistant"][at % 2], "a")).collect::<Vec<Json>>();
    let prompt = Code::new().model().prompt(Request::from_text(&body(&turns)).unwrap()).unwrap();
    assert!(prompt.text().contains("[Round 5000] a"));
}

#[test]
fn code_that_takes_too_long_is_ended() {
    use rolecall::Request;
    let code = Code::new();
    let model = code.model();
    let start = Instant::now();
    let request = |text: &str| Request::from_text(&body(&[message("user", text)])).unwrap();
    let error = model.prompt(request("hang")).unwrap_err();
    assert_eq!(error.code(), CodeErrorKind::Unavailable.code(), "{error}");
    assert!((2..10).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    assert!(model.prompt(request("a")).is_ok());
    assert_eq!(code.starts().len(), 2);
}

#[tokio::test]
async fn a_process_ends_with_its_model() {
    let code = Code::new();
    let model = code.model();
    let process = PathBuf::from("/proc").join(&code.starts()[0]);
    assert!(process.exists());
    drop(model);
    wait_for(|| !process.exists()).await;
}

#[test]
fn code_that_cannot_be_imported_or_started_says_so() {
    let code = Code::new();
    let error = TemplateProcess::start(code.python(), "broken.py".to_owned()).unwrap_err();
    assert!(error.kind == CodeErrorKind::Failed && error.what.contains("SyntaxError"), "{error:?}");
    let error = TemplateProcess::start("/no/python".into(), "a.py".to_owned()).unwrap_err();
    assert!(error.kind == CodeErrorKind::Unavailable && error.what.contains("/no/python"), "{error:?}");
    // A program that is not the package's says nothing.
    let start = Instant::now();
    let error = TemplateProcess::start("/bin/true".into(), "a.py".to_owned()).unwrap_err();
    assert!(error.what.contains("its process has ended"), "{error:?}");
    assert!(start.elapsed() < Duration::from_secs(5));
}
