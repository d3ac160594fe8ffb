//! `rolecall serve` as a process: its settings, `--check`, and signals.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rolecall::conversation::{Json, json};

/// A folder with a small model, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = Folder(std::env::temp_dir().join(format!("rolecall-serve-{}-{name}", std::process::id())));
        let model = folder.0.join("tiny");
        std::fs::create_dir_all(&model).unwrap();
        let tokenizer = r#"{"version": "1.0", "added_tokens": [{"id": 2, "content": "<end>", "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false}], "model": {"type": "WordLevel", "unk_token": "u", "vocab": {"u": 0, "Hi": 1, "<end>": 2}}}"#;
        std::fs::write(model.join("tokenizer.json"), tokenizer).unwrap();
        let config =
            r#"{"chat_template": "{% for m in messages %}{{ m.content }}<end>{% endfor %}", "eos_token": "<end>"}"#;
        std::fs::write(model.join("tokenizer_config.json"), config).unwrap();
        std::fs::write(model.join("generation_config.json"), r#"{"temperature": 0.6, "eos_token_id": 2}"#).unwrap();
        folder
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        command(&self.0, args)
    }

    /// Runs the command to its end.
    fn run(&self, args: &[&str]) -> Ran {
        let output = self.command(args).stdin(Stdio::null()).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rolecall"));
    command.arg("serve").args(args).current_dir(folder).env("NO_COLOR", "1");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A gateway that runs, ended by force at the end.
struct Running {
    child: Child,
    address: String,
    /// What it writes to standard error from now on.
    said: BufReader<std::process::ChildStderr>,
}

impl Running {
    #[expect(clippy::zombie_processes, reason = "it is waited for when it is dropped")]
    fn start(mut command: Command) -> Running {
        let mut child = command.stdin(Stdio::null()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut all = String::new();
        loop {
            let mut line = String::new();
            assert!(said.read_line(&mut line).unwrap() > 0, "it ended: {all}");
            all += &line;
            if let Some((_, address)) = line.split_once("listening on http://") {
                let address = address.trim().trim_end_matches(['"', '}']).to_owned();
                return Running { child, address, said };
            }
        }
    }

    /// Waits for a line of the log with a word.
    fn wait_for(&mut self, word: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(self.said.read_line(&mut line).unwrap() > 0, "it ended");
            if line.contains(word) {
                return line;
            }
        }
    }

    fn signal(&self, name: &str) {
        let done = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status().unwrap();
        assert!(done.success());
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// Sends a request and returns the whole answer.
    fn get(&self, path: &str, key: &str) -> String {
        let mut stream = self.connect();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\nconnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Begins a chat completion and leaves it running.
    fn ask(&self) -> TcpStream {
        self.send(r#"{"messages": [{"role": "user", "content": "Hi"}]}"#)
    }

    fn send(&self, body: &str) -> TcpStream {
        let mut stream = self.connect();
        let length = body.len();
        let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json";
        write!(stream, "{head}\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
        stream
    }

    /// Waits until it ends, and returns its exit code.
    fn end(mut self) -> (Option<i32>, String) {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(20) {
            if let Some(status) = self.child.try_wait().unwrap() {
                let mut rest = String::new();
                self.said.read_to_string(&mut rest).unwrap();
                return (status.code(), rest);
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("it does not end");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts an engine that answers `/health` at once, and anything else with one id, after a pause before it and another
/// before its end.
fn engine(pauses: [Duration; 2]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || answer(stream, pauses));
        }
    });
    address
}

fn answer(mut stream: TcpStream, pauses: [Duration; 2]) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut first, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or_default() == 0 {
            return;
        }
        if first.is_empty() {
            first.clone_from(&line);
        }
        if let Some(count) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = count.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    reader.read_exact(&mut vec![0; length]).unwrap();
    let head = "HTTP/1.1 200 OK\r\nconnection: close\r\n";
    if first.starts_with("GET ") {
        let _ = write!(stream, "{head}content-length: 2\r\n\r\n{{}}");
        return;
    }
    let first = r#"{"content": "", "tokens": [1], "stop": false, "tokens_predicted": 1}"#;
    let last = r#"{"content": "", "tokens": [], "stop": true, "stop_type": "eos"}"#;
    thread::sleep(pauses[0]);
    let _ = write!(stream, "{head}content-type: text/event-stream\r\n\r\ndata: {first}\n\n");
    thread::sleep(pauses[1]);
    let _ = write!(stream, "data: {last}\n\n");
}

fn at<'a>(value: &'a Json, path: &str) -> &'a Json {
    path.split('.').fold(value, |value, key| match value {
        Json::Array(items) => &items[key.parse::<usize>().unwrap()],
        Json::Object(object) => object.get(key).unwrap_or(&Json::Null),
        _ => &Json::Null,
    })
}

#[test]
fn a_wrong_setting_is_refused_by_its_name_and_place() {
    let folder = Folder::new("wrong");
    let model = "[[models]]\nmodel = \"tiny\"\nengine = \"http://127.0.0.1:1\"\n";
    for (file, code, place, message) in [
        ("[limits]\n  requets = 5\n", 1, "gateway.toml:2:3", "unknown_key"),
        ("[limit]\nrequests = 5\n", 1, "gateway.toml:1:2", "unknown_key"),
        ("[[models]]\nmodell = \"a\"\n", 1, "gateway.toml:2:1", "did you mean `model`?"),
        ("listen = 5\n", 1, "gateway.toml:1:10", "expected a text, found 5"),
        ("drain = \"soon\"\n", 1, "gateway.toml:1:9", "expected a time"),
        ("limits.requests = 0\n", 1, "gateway.toml:1:19", "a whole number from 1"),
        ("models = 1\n", 1, "gateway.toml:1:10", "[[models]]"),
        ("listen = \n", 1, "gateway.toml:1", "not_toml"),
        ("[[models]]\nmodel = \"tiny\"\n", 1, "gateway.toml:1", "the model has no `engine`"),
        ("[[models]]\nmodel = \"nowhere/at/all\"\nengine = \"http://a\"\n", 1, "gateway.toml:1", "model_unreadable"),
        ("[[models]]\nmodel = \"tiny\"\nengine = \"ftp://a\"\n", 1, "", "ftp://a"),
    ] {
        folder.write("gateway.toml", file);
        let ran = folder.run(&["--config", "gateway.toml"]);
        assert_eq!(ran.code, Some(code), "{file}: {}", ran.stderr);
        assert!(ran.stderr.contains(place) && ran.stderr.contains(message), "{file}: {}", ran.stderr);
    }
    folder.write("gateway.toml", model);
    let ran = folder.run(&["--config", "gateway.toml", "--drain", "soon"]);
    assert_eq!((ran.code, ran.stderr.contains("command line, --drain")), (Some(2), true), "{}", ran.stderr);
    let ran = folder.command(&["--config", "gateway.toml"]).env("ROLECALL_LIMITS_REQUESTS", "many").output().unwrap();
    let said = String::from_utf8(ran.stderr).unwrap();
    assert!(ran.status.code() == Some(2) && said.contains("environment, ROLECALL_LIMITS_REQUESTS"), "{said}");
    let ran = folder.run(&[]);
    assert!(ran.code == Some(2) && ran.stderr.contains("no_models"), "{}", ran.stderr);
    let ran = folder.run(&["--config", "nothing.toml"]);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    let ran = folder.run(&["--model", "tiny", "--engine", "http://127.0.0.1:1", "--keys", "nothing.txt"]);
    assert!(ran.code == Some(3) && ran.stderr.contains("command line, --keys"), "{}", ran.stderr);
    folder.write("keys.txt", "good\nsha256:bad\n");
    let ran = folder.run(&["--model", "tiny", "--engine", "http://127.0.0.1:1", "--keys", "keys.txt"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("line 2") && !ran.stderr.contains("bad"), "{}", ran.stderr);
}

#[test]
fn a_store_that_cannot_be_used_is_refused_by_its_own_code() {
    let folder = Folder::new("store");
    let engine = engine([Duration::ZERO; 2]);
    let flags = |at| ["--model", "tiny", "--engine", &engine, "--listen", "127.0.0.1:0", "--store-at", at];
    folder.write("damaged.redb", "this is not a store");
    let running = Running::start(folder.command(&flags("used.redb")));
    for (at, code) in [
        ("damaged.redb", "store_damaged"),
        ("used.redb", "store_locked"),
        ("nowhere/store.redb", "store_refused"),
        ("redis://127.0.0.1:1", "store_down"),
    ] {
        let ran = folder.run(&flags(at));
        assert_eq!(ran.code, Some(1), "{at}: {}", ran.stderr);
        assert!(ran.stderr.contains(&format!("error[{code}]")) && ran.stderr.contains("help"), "{at}: {}", ran.stderr);
        assert!(!ran.stderr.contains("panicked"), "{at}: {}", ran.stderr);
        // The check finds the same, but a gateway that runs is no mistake.
        let is_good = code == "store_locked";
        let ran = folder.run(&[&flags(at)[..], &["--check"]].concat());
        assert_eq!(ran.code, Some(i32::from(!is_good)), "{at}: {}", ran.stderr);
        assert_eq!(ran.stderr.contains(&format!("error[{code}]")), !is_good, "{at}: {}", ran.stderr);
        let ran = folder.run(&[&flags(at)[..], &["--check", "--json"]].concat());
        let report = json::parse(&ran.stdout).unwrap();
        assert_eq!(self::at(&report, "good"), &is_good.into(), "{at}: {}", ran.stdout);
    }
    drop(running);
    for flag in ["--listen", "--traces-endpoint"] {
        let ran = folder.run(&["--model", "tiny", "--engine", &engine, "--store-at", "memory", flag, "foo", "--check"]);
        assert_eq!(ran.code, Some(1), "{flag}: {}", ran.stderr);
        assert!(ran.stderr.contains("error[cannot_run]") && ran.stderr.contains("foo"), "{flag}: {}", ran.stderr);
    }
}

#[test]
fn a_flag_replaces_a_variable_and_a_variable_replaces_the_file() {
    let folder = Folder::new("order");
    folder.write(
        "gateway.toml",
        "listen = \"127.0.0.1:1\"\ndrain = \"1s\"\nlimits.requests = 1\n[[models]]\nmodel = \"tiny\"\nengine = \"http://127.0.0.1:1\"\n",
    );
    let mut command =
        folder.command(&["--config", "gateway.toml", "--limits-requests", "3", "--check", "--name", "mine"]);
    command.env("ROLECALL_LIMITS_REQUESTS", "2").env("ROLECALL_DRAIN", "2s").env("ROLECALL_DRAYN", "1");
    let ran = command.output().unwrap();
    let (out, said) = (String::from_utf8(ran.stdout).unwrap(), String::from_utf8(ran.stderr).unwrap());
    // The engine does not answer.
    assert_eq!(ran.status.code(), Some(1), "{out} {said}");
    for line in [
        "listen = 127.0.0.1:1  (gateway.toml:1:10)",
        "drain = 2s  (environment, ROLECALL_DRAIN)",
        "limits.requests = 3  (command line, --limits-requests)",
        "models.0.name = mine  (command line, --name)",
        "models.0.engine = http://127.0.0.1:1  (gateway.toml:6:10)",
    ] {
        assert!(out.contains(line), "{line}: {out}");
    }
    assert!(said.contains("ROLECALL_DRAYN` is not known") && said.contains("`ROLECALL_DRAIN`?"), "{said}");
}

#[test]
fn check_shows_what_was_understood_and_what_each_engine_answers() {
    let folder = Folder::new("check");
    let engine = engine([Duration::ZERO; 2]);
    folder.write("keys.txt", "one\ntwo\n");
    let args = ["--model", "tiny", "--engine", &engine, "--keys", "keys.txt", "--check"];
    let ran = folder.run(&args);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for part in ["tiny\n", "2 <end>", "temperature 0.6", "llama.cpp at http://", "API keys        2", "it is ready"] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    let ran = folder.run(&[&args[..], &["--json"]].concat());
    let report = json::parse(&ran.stdout).unwrap();
    assert_eq!((ran.code, at(&report, "good")), (Some(0), &true.into()), "{}", ran.stdout);
    assert_eq!(at(&report, "models.0.stops.0.id"), &2.into());
    assert!(!ran.stdout.contains("one"), "{}", ran.stdout);
    let ran = folder.run(&["--model", "tiny", "--engine", "http://127.0.0.1:1", "--check", "--json"]);
    let report = json::parse(&ran.stdout).unwrap();
    assert_eq!((ran.code, at(&report, "models.0.answer.good")), (Some(1), &false.into()), "{}", ran.stdout);
}

#[test]
fn a_hashed_key_is_as_good_as_the_key() {
    let folder = Folder::new("hash");
    let mut child = folder.command(&["--hash-key"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"secret\n").unwrap();
    let line = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    assert!(line.starts_with("sha256:") && !line.contains("secret"), "{line}");
    folder.write("keys.txt", &line);
    let engine = engine([Duration::ZERO; 2]);
    let flags = ["--model", "tiny", "--engine", &engine, "--listen", "127.0.0.1:0", "--keys", "keys.txt"];
    let running = Running::start(folder.command(&flags));
    assert!(running.get("/v1/models", "secret").starts_with("HTTP/1.1 200"));
    assert!(running.get("/v1/models", line.trim()).starts_with("HTTP/1.1 401"));
}

#[cfg(unix)]
#[test]
fn keys_are_read_again_at_sighup_and_a_broken_file_changes_nothing() {
    let folder = Folder::new("hup");
    let engine = engine([Duration::ZERO; 2]);
    folder.write("keys.txt", "old\n");
    let flags = ["--model", "tiny", "--engine", &engine, "--listen", "127.0.0.1:0", "--keys", "keys.txt"];
    let mut running = Running::start(folder.command(&flags));
    let is_good = |running: &Running, key: &str| running.get("/v1/models", key).starts_with("HTTP/1.1 200");
    assert!(is_good(&running, "old") && !is_good(&running, "new"));
    folder.write("keys.txt", "new\n");
    running.signal("HUP");
    let line = running.wait_for("keys_read");
    assert!(is_good(&running, "new") && !is_good(&running, "old"), "{line}");
    folder.write("keys.txt", "newer\nsha256:broken\n");
    running.signal("HUP");
    let line = running.wait_for("keys_not_read");
    assert!(line.contains("stay as they were") && line.contains("line 2"), "{line}");
    assert!(is_good(&running, "new") && !is_good(&running, "newer"));
    running.signal("TERM");
    assert_eq!(running.end().0, Some(0));
}

#[cfg(unix)]
#[test]
fn a_running_request_is_answered_after_sigterm_and_no_other_one_is_accepted() {
    let folder = Folder::new("term");
    let engine = engine([Duration::from_millis(800), Duration::ZERO]);
    let flags = ["--model", "tiny", "--engine", &engine, "--listen", "127.0.0.1:0"];
    let running = Running::start(folder.command(&flags));
    let mut asked = running.ask();
    let idle = running.connect();
    thread::sleep(Duration::from_millis(300));
    running.signal("TERM");
    thread::sleep(Duration::from_millis(200));
    assert!(TcpStream::connect(&running.address).is_err(), "it still accepts connections");
    let mut answer = String::new();
    asked.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"content\":\"Hi\""), "{answer}");
    assert_eq!(running.end().0, Some(0));
    drop(idle);
}

#[cfg(unix)]
#[test]
fn requests_end_with_an_error_when_the_time_is_over_or_at_a_second_signal() {
    let folder = Folder::new("cut");
    let (never, now) = (Duration::from_secs(600), Duration::ZERO);
    let ways = [
        ("300ms", &["TERM"][..], [never, now], ""),
        ("300ms", &["TERM"], [now, never], ""),
        ("10m", &["INT", "INT"], [now, never], ", \"stream\": true"),
    ];
    for (drain, signals, pauses, streamed) in ways {
        let engine = engine(pauses);
        let flags = ["--model", "tiny", "--engine", &engine, "--listen", "127.0.0.1:0", "--drain", drain];
        let running = Running::start(folder.command(&flags));
        let body = format!(r#"{{"messages": [{{"role": "user", "content": "Hi"}}]{streamed}}}"#);
        let mut asked = running.send(&body);
        thread::sleep(Duration::from_millis(300));
        for signal in signals {
            running.signal(signal);
            thread::sleep(Duration::from_millis(200));
        }
        let mut answer = String::new();
        asked.read_to_string(&mut answer).unwrap();
        let status = if streamed.is_empty() { "HTTP/1.1 503" } else { "HTTP/1.1 200" };
        assert!(answer.starts_with(status), "{answer}");
        let (_, error) = answer.split_once("{\"error\":").unwrap();
        assert!(error.contains("\"code\":\"shutting_down\""), "{answer}");
        assert_eq!(answer.contains("\"content\":\"Hi\""), !streamed.is_empty(), "{answer}");
        let (code, said) = running.end();
        assert_eq!(code, Some(4), "{drain}: {said}");
        assert!(said.contains("1 connection was cut"), "{drain}: {said}");
    }
}
