//! The scenarios of the makers' documents in the terminal: `rolecall chat` as a process, before an engine over HTTP whose
//! words are from the scenario, with commands as tools and a real kernel.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use rolecall::conversation::Json;
use rolecall::conversation::json::{self, Object};
use rolecall::{Model, Request};
use rolecall_testkit::Scenario;

use crate::chat::{TestFolder, can_run, run};

/// A stand-in for llama.cpp's server.
struct Engine {
    address: String,
    /// The ids of the prompts, in order.
    prompts: Arc<Mutex<Vec<Vec<u32>>>>,
}

impl Engine {
    fn new(replies: VecDeque<Vec<u32>>) -> Engine {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (prompts, replies) = (Arc::default(), Arc::new(Mutex::new(replies)));
        let seen = Arc::clone(&prompts);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                answer(stream.unwrap(), &replies, &seen);
            }
        });
        Engine { address, prompts }
    }
}

fn answer(mut stream: TcpStream, replies: &Mutex<VecDeque<Vec<u32>>>, prompts: &Mutex<Vec<Vec<u32>>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).unwrap();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let (status, kind, text) = if first.starts_with("POST /completion ") {
        let body = json::parse(std::str::from_utf8(&body).unwrap()).unwrap();
        let ids = body.as_object().unwrap().get("prompt").and_then(Json::as_array).unwrap().iter().map(|id| match id {
            Json::Number(id) => u32::try_from(id.as_i64().unwrap()).unwrap(),
            other => panic!("{other:?}"),
        });
        prompts.lock().unwrap().push(ids.collect());
        let reply = replies.lock().unwrap().pop_front().expect("a further reply");
        let end = r#"{"content": "", "tokens": [], "stop": true, "stop_type": "eos"}"#;
        let text = format!("data: {{\"content\": \"\", \"tokens\": {reply:?}, \"stop\": false}}\n\ndata: {end}\n\n");
        ("200 OK", "text/event-stream", text)
    } else if first.starts_with("GET /props ") {
        let text = r#"{"default_generation_settings": {"n_ctx": 65536}, "total_slots": 1, "build_info": "b1"}"#;
        ("200 OK", "application/json", text.to_owned())
    } else if first.starts_with("GET /health ") {
        ("200 OK", "application/json", r#"{"status": "ok"}"#.to_owned())
    } else {
        ("404 Not Found", "text/plain", String::new())
    };
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n", text.len());
    stream.write_all(format!("{head}connection: close\r\n\r\n{text}").as_bytes()).unwrap();
}

/// A file of tools: commands that print what the scenario says.
fn tools(scenario: &Scenario) -> String {
    let mut file = String::new();
    for tool in &scenario.tools {
        let text = |key: &str| tool.definition.get(key).and_then(Json::as_str).unwrap();
        let (name, about) = (text("name"), text("description"));
        let parameters = inline(tool.definition.get("parameters").unwrap());
        let print = format!("cat > /dev/null; printf %s '{}'", tool.result);
        let _ = write!(
            file,
            "[[tool]]\nname = \"{name}\"\ndescription = \"{about}\"\nparameters = {parameters}\n\
             argv = [\"sh\", \"-c\", \'\'\'{print}\'\'\']\n"
        );
    }
    file
}

/// Writes JSON as a value of TOML.
fn inline(value: &Json) -> String {
    let list = |items: Vec<String>| items.join(", ");
    match value {
        Json::Object(object) => {
            let row = |(key, value): (&str, &Json)| format!("{key} = {}", inline(value));
            format!("{{{}}}", list(object.iter().map(row).collect()))
        }
        Json::Array(items) => format!("[{}]", list(items.iter().map(inline).collect())),
        other => json::write(other, &json::Layout::compact()),
    }
}

fn play(scenario: &Scenario, folder: &Path) {
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
    write("tokenizer.json", &scenario.tokenizer_json());
    write("tools.toml", &tools(scenario));
    let tokenizer = folder.join("tokenizer.json");
    let model = Model::builder().format(&scenario.format).tokenizer(tokenizer).open().unwrap();
    let nothing = Request::without_messages(Object::new()).unwrap();
    let session = model.session(nothing).unwrap();
    let replies: Vec<&String> = scenario.turns.iter().flat_map(|turn| &turn.replies).collect();
    let engine = Engine::new(replies.iter().map(|reply| session.encode_sampled(reply).unwrap()).collect());
    let (mut arguments, mut input) = (vec!["chat", "--allow", "all", "--format", &scenario.format], String::new());
    arguments.extend(["--tokenizer", "tokenizer.json", "--engine", &engine.address, "--tools", "tools.toml"]);
    let system = scenario.messages.iter().filter_map(|message| message.as_object()?.get("content")?.as_str());
    system.for_each(|system| arguments.extend(["--system", system]));
    if scenario.has_code {
        arguments.push("--interpreter");
    }
    for (name, text) in &scenario.files {
        write(name, text);
        arguments.extend(["--file", name]);
    }
    scenario.turns.iter().for_each(|turn| input += &format!("{}\n", turn.user));
    scenario.pictures.iter().for_each(|picture| input += &format!(":get {picture} {picture}\n"));
    let (code, out, err) = run(folder, &arguments, &format!("{input}:save chat.json\n"), &[]);
    assert_eq!(code, 0, "{}: {out}\n{err}", scenario.name);
    for turn in &scenario.turns {
        assert!(out.contains(&turn.answer), "{}: {out}", scenario.name);
    }
    // The last prompt and the last reply are all that the model saw and wrote.
    let prompts = engine.prompts.lock().unwrap();
    let text = scenario.written(prompts.last().unwrap()) + replies.last().unwrap();
    scenario.check("chat", &text);
    // The saved chat is a conversation for other commands.
    let arguments = ["render", "--format", &scenario.format, "chat.json"];
    let (code, whole, err) = run(folder, &arguments, "", &[]);
    assert_eq!(code, 0, "{}: {err}", scenario.name);
    let of_format = |text: String, (model, format): &(String, String)| text.replace(model, format);
    let text = scenario.respelled.iter().fold(text, of_format);
    // The token that ends the last answer is not a part of every format's text.
    let (text, whole) = (text.trim_end(), whole.trim_end());
    assert!(whole.starts_with(text) || text.starts_with(whole), "{}: {text}\n---\n{whole}", scenario.name);
    for picture in &scenario.pictures {
        assert!(fs::read(folder.join(picture)).unwrap().starts_with(b"\x89PNG"), "{}", scenario.name);
    }
}

#[test]
fn every_scenario_of_the_documents_runs_in_the_terminal() {
    if !can_run("scenarios::every_scenario_of_the_documents_runs_in_the_terminal") {
        return;
    }
    for scenario in Scenario::all() {
        let folder = TestFolder::new(&format!("scenario-{}", scenario.name));
        play(&scenario, &folder.0);
    }
}
