//! Compares the next turn of a session with rendering and encoding the whole conversation, and with
//! `bridge_to_next_turn` of the Python package `renderers`.
//!
//!     cargo bench -p rolecall-benches --bench sessions [-- FOLDER]
//!
//! FOLDER contains `tokenizers/qwen3`; the default is ../shared next to the project. The peer needs
//! a `python3` with its packages, for example that of a virtual environment:
//!
//!     python3 -m venv peers
//!     peers/bin/pip install transformers==5.23.0 jinja2==3.1.6 renderers==0.1.12 httpx
//!     PATH="$PWD/peers/bin:$PATH" taskset -c 0 cargo bench -p rolecall-benches --bench sessions

use std::cell::RefCell;
use std::path::Path;

use rolecall::conversation::{Message, json};
use rolecall::session::{Finish, OnRewrite, Session};
use rolecall::template::{Forms, ModelTemplates};
use rolecall::{Model, Request};
use rolecall_benches::{Python, Runner, race};
use serde_json::{Value, json};

/// The numbers of messages before the new one.
const MESSAGES: [usize; 4] = [2, 20, 200, 2000];
const OWN: &str = include_str!("../templates/session.jinja");
const RESULT: &str =
    "{\"temperature\": 22, \"unit\": \"celsius\", \"wind\": \"north-west, 4 km/h\", \"sky\": \"cloudy\"}";
const REPLY: &str =
    "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\"}}\n</tool_call><|im_end|>";

fn main() {
    let folder = rolecall_benches::folder();
    let Some(tokenizer) = rolecall_benches::tokenizer_in(&folder) else { return };
    let templates = ModelTemplates::from_json(&OWN.into()).expect("a template");
    let model = Model::builder().templates(templates).tokenizer(&tokenizer).eos_token("<|im_end|>");
    // The peer receives arguments as objects too.
    let model = model.forms(Forms::AsWanted).open().expect("a model");
    let cases: Vec<Case> = MESSAGES.iter().map(|messages| Case::new(&model, *messages)).collect();
    let mut python = start(&tokenizer, &cases);
    match &python {
        Some((_, versions)) => println!("{versions}"),
        None => println!("no python3 with renderers found, so its column is left out"),
    }
    println!(
        "{:>8} {:>7} {:>4} {:>9} {:>9} {:>9} {:>10} {:>10} {:>8} {:>10}",
        "messages", "ids", "new", "turn", "accept", "both", "whole", "renderers", "× whole", "× renderers"
    );
    for (at, case) in cases.iter().enumerate() {
        case.print(at, python.as_mut().map(|(python, _)| python));
    }
    println!();
    println!("times in µs, medians; turn: fork, plan, append and open of a tool's result after an accepted reply;");
    println!("accept: fork, and accept of the reply; both: both in a session that goes on, without the fork;");
    println!("whole: rendering and encoding of the whole conversation; renderers: `bridge_to_next_turn`;");
    println!("× whole: its time / that of both; × renderers: its time / that of turn");
}

/// A session before and after a reply.
struct Case {
    model: Model,
    messages: usize,
    /// The reply is awaited.
    open: Session,
    /// The reply is accepted.
    replied: Session,
    reply: Vec<u32>,
    whole: Request,
}

impl Case {
    /// A question, and then calls and their results.
    fn new(model: &Model, messages: usize) -> Case {
        let decode = |text: &str| ids_of(model, text);
        let reply = decode(REPLY);
        let mut session = model.session(request(&[said("user", "Weather?")])).expect("a session");
        session.open().expect("it opens");
        for _ in 0..(messages / 2).saturating_sub(1) {
            session.accept(&reply, Finish::Stop).expect("a reply");
            turn(&mut session);
        }
        let open = session.clone();
        session.accept(&reply, Finish::Stop).expect("a reply");
        let mut next = session.clone();
        turn(&mut next);
        let said: Vec<Message> = next.messages().iter().map(|message| (**message).clone()).collect();
        let whole = request(&said);
        let of_whole = model.prompt(whole.clone()).expect("it renders").encode().expect("it encodes").ids();
        assert!(next.ids() == of_whole, "a session's ids are those of the whole conversation");
        Case { model: model.clone(), messages, open, replied: session, reply, whole }
    }

    fn print(&self, at: usize, mut python: Option<&mut Python>) {
        let mut next = self.replied.clone();
        let before = next.len();
        turn(&mut next);
        let new = &next.ids()[before..];
        if let Some(python) = &mut python {
            let answer = python.ask(&json!({"action": "answer", "case": at}).to_string());
            let answer: Vec<u32> = serde_json::from_str(&answer).expect("ids");
            assert!(answer == new, "renderers: {answer:?}, rolecall: {new:?}");
        }
        let result = [said("tool", RESULT)];
        let session = RefCell::new(self.replied.clone());
        let mut runners = vec![
            Runner::new("turn", || {
                let mut session = self.replied.clone();
                append(&mut session, &result)
            }),
            Runner::new("accept", || {
                let mut session = self.open.clone();
                session.accept(&self.reply, Finish::Stop).expect("a reply")
            }),
            // One session goes on, as in use: each turn adds a few ids, and the next one drops what
            // this one no longer needs.
            Runner::with_input(
                "both",
                || drop(session.replace(self.replied.clone())),
                |()| {
                    let mut session = session.borrow_mut();
                    append(&mut session, &result);
                    session.accept(&self.reply, Finish::Stop).expect("a reply")
                },
            ),
            Runner::with_input(
                "whole",
                || self.whole.clone(),
                |request| self.model.prompt(request).expect("it renders").encode().expect("ids"),
            ),
        ];
        if let Some(python) = python {
            let time = move |times| python.time(&json!({"action": "time", "case": at, "times": times}).to_string());
            runners.push(Runner::elsewhere("renderers", time));
        }
        let micros: Vec<f64> = race(runners).iter().map(|(_, time)| time.as_secs_f64() * 1e6).collect();
        let shown = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"));
        println!(
            "{:>8} {:>7} {:>4} {:>9.2} {:>9.2} {:>9.2} {:>10.1} {:>10} {:>8.1} {:>10}",
            self.messages,
            before,
            new.len(),
            micros[0],
            micros[1],
            micros[2],
            micros[3],
            shown(micros.get(4).copied()),
            micros[3] / micros[2],
            shown(micros.get(4).map(|peer| peer / micros[0])),
        );
    }
}

fn turn(session: &mut Session) {
    append(session, &[said("tool", RESULT)]);
}

fn append(session: &mut Session, result: &[Message]) -> usize {
    let plan = session.plan(result).expect("a plan");
    session.append(plan, OnRewrite::Refuse).expect("it is stable");
    session.open().expect("it opens").ids.len()
}

fn said(role: &str, content: &str) -> Message {
    let message = json::parse(&json!({"role": role, "content": content}).to_string()).expect("JSON");
    Message::from_object(message.as_object().expect("an object").clone()).expect("a message")
}

fn request(messages: &[Message]) -> Request {
    let mut request = Request::from_text(r#"{"messages": [{"role": "user", "content": ""}]}"#).expect("a request");
    request.conversation.messages = messages.to_vec();
    request.conversation.add_generation_prompt = Some(true);
    request
}

/// Returns the ids of a reply, with its markers as tokens.
fn ids_of(model: &Model, text: &str) -> Vec<u32> {
    let tokenizer = model.tokenizer().expect("a tokenizer");
    let mut tokens = Vec::new();
    let place = rolecall::tokenizer::TextPlace::Inside;
    tokenizer.encode_reference(text, place, &mut tokens).expect("it encodes");
    tokens.iter().map(|token| token.id).collect()
}

/// Starts the peer, if its packages are installed.
fn start(tokenizer: &Path, cases: &[Case]) -> Option<(Python, String)> {
    let cases: Vec<Value> = cases
        .iter()
        .map(|case| {
            json!({
                "prompt": case.open.ids(), "completion": case.reply, "tools": null,
                "new": [{"role": "tool", "content": RESULT}],
            })
        })
        .collect();
    let job = json!({"tokenizer": tokenizer, "cases": cases});
    let (python, ready) = Python::start(include_str!("peers.py"), &job.to_string())?;
    let versions = ready["versions"].as_str().unwrap_or_default().to_owned();
    Some((python, versions))
}
