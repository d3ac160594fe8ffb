//! llama.cpp's server as a child, with a fake program and with the real package.

#![allow(
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a test that panics has failed, which is what it is for"
)]
#![cfg(unix)]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rolecall_gateway::engine::{Ask, Engine, LocalOptions};
use rolecall_gateway::settings::ModelSettings;
use rolecall_gateway::{Limits, Log, RunFault, Settings, run};

const PATIENCE: Duration = Duration::from_secs(60);

/// A folder with a model file and a program that is called instead of `llama-server`.
fn folder(name: &str, program: &str) -> (PathBuf, LocalOptions) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("local-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("model.gguf"), "").unwrap();
    let server = folder.join("llama-server");
    std::fs::write(&server, format!("#!/bin/sh\n{program}\n")).unwrap();
    std::fs::set_permissions(&server, std::fs::Permissions::from_mode(0o755)).unwrap();
    (folder, LocalOptions { server: Some(server), ..LocalOptions::default() })
}

#[tokio::test]
async fn a_server_that_does_not_come_up_gives_its_last_output() {
    let (folder, options) = folder("fails", "echo it has no weights >&2; exit 3");
    let engine = Engine::local(&folder.join("model.gguf"), &options, &Limits::default()).unwrap();
    let fault = engine.ready(PATIENCE).await.unwrap_err();
    assert_eq!(fault.code.name(), "engine_died", "{fault:?}");
    assert!(
        fault.message.contains('3') && !format!("{fault:?}").contains("weights"),
        "clients get no output: {fault:?}"
    );
    wait_for("the output", || engine.last_output().unwrap().contains("it has no weights"));
    let Err(fault) = engine.generate(&Ask::default()).await else { panic!("there is no server") };
    assert_eq!(fault.code.name(), "engine_died", "{fault:?}");
    assert!(Engine::local(&folder.join("missing.gguf"), &options, &Limits::default()).is_err());
}

#[tokio::test]
async fn a_server_that_ends_is_started_again_unless_it_had_just_been_started() {
    let (folder, options) = folder("again", "echo run >> \"$(dirname \"$0\")/runs\"; echo it ran >&2; exit 4");
    let runs = || std::fs::read_to_string(folder.join("runs")).unwrap_or_default().lines().count();
    let file = folder.join("model.gguf");
    let engine = Engine::local(&file, &options, &Limits::default()).unwrap();
    wait_for("its output", || engine.last_output().is_some_and(|output| output.contains("it ran")));
    let story = engine.revive().unwrap();
    assert!(story.contains("it ran") && story.contains("not started again"), "{story}");
    assert_eq!((engine.revive(), runs()), (None, 1), "each end is told once");

    let options = LocalOptions { least_run: Duration::ZERO, ..options };
    let engine = Engine::local(&file, &options, &Limits::default()).unwrap();
    for run in 2..4 {
        wait_for("its output", || engine.last_output().is_some_and(|output| output.contains("it ran")));
        let story = engine.revive().unwrap();
        assert!(story.ends_with("it is started again"), "{story}");
        wait_for("the next run", || runs() == run + 1);
    }
}

#[test]
fn a_gateway_ends_with_an_error_if_its_engine_was_never_ready() {
    let (folder, local) = folder("never", "echo it has no weights >&2; sleep 0.5; exit 3");
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write(
        "tokenizer.json",
        r#"{"version": "1.0", "added_tokens": [], "model": {"type": "WordLevel", "unk_token": "u", "vocab": {"u": 0}}}"#,
    );
    write("tokenizer_config.json", r#"{"chat_template": "{% for m in messages %}{{ m.content }}{% endfor %}"}"#);
    let model = ModelSettings {
        name: Some("mine".to_owned()),
        model: Some(folder.display().to_string()),
        engine: Some(format!("local:{}", folder.join("model.gguf").display())),
        ..ModelSettings::default()
    };
    let (listen, store) = ("127.0.0.1:0".to_owned(), "memory".to_owned());
    let settings = Settings { listen, store, local, models: vec![model], ..Settings::default() };
    let (sender, ended) = std::sync::mpsc::channel();
    let log = std::fs::File::create(folder.join("log")).unwrap();
    std::thread::spawn(move || sender.send(run(&settings, &Log::to(log))));
    let ended = ended.recv_timeout(PATIENCE).expect("the gateway goes on without its engine");
    let Err(RunFault::Engine { name, why }) = ended else { panic!("{ended:?}") };
    assert!(name == "mine" && why.contains("it has no weights"), "{name}: {why}");
    let log = std::fs::read_to_string(folder.join("log")).unwrap();
    assert!(log.contains("listening on http://127.0.0.1:"), "{log}");
}

#[test]
fn the_server_is_found_on_the_path() {
    let (folder, _) = folder("path", "echo it is this one >&2; exit 3");
    let path = std::env::var_os("PATH").unwrap();
    let path = std::env::join_paths([folder.clone()].into_iter().chain(std::env::split_paths(&path))).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["local::a_process_with_a_server_on_its_path", "--exact"]);
    let ran = child.env("PATH", path).env("ROLECALL_TEST_FOLDER", &folder).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
}

/// A part of the test above, in a process of its own.
#[tokio::test]
async fn a_process_with_a_server_on_its_path() {
    let Some(folder) = std::env::var_os("ROLECALL_TEST_FOLDER").map(PathBuf::from) else { return };
    let engine = Engine::local(&folder.join("model.gguf"), &LocalOptions::default(), &Limits::default()).unwrap();
    wait_for("its output", || engine.last_output().is_some_and(|output| output.contains("it is this one")));
}

#[tokio::test]
async fn a_program_ends_with_the_engine() {
    let (folder, options) = folder("stops", "echo $$ > \"$(dirname \"$0\")/pid\"; exec sleep 600");
    let engine = Engine::local(&folder.join("model.gguf"), &options, &Limits::default()).unwrap();
    let pid = folder.join("pid");
    wait_for("the program", || std::fs::read_to_string(&pid).is_ok_and(|text| text.ends_with('\n')));
    let pid = std::fs::read_to_string(pid).unwrap().trim().to_owned();
    assert!(is_alive(&pid));
    let start = Instant::now();
    drop(engine);
    wait_for("its end", || !is_alive(&pid));
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

/// Reports whether a process runs, and is not just not yet collected.
fn is_alive(pid: &str) -> bool {
    let state = Command::new("ps").args(["-o", "stat=", "-p", pid]).output().unwrap().stdout;
    state.first().is_some_and(|state| *state != b'Z')
}

fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..1000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{what} did not come to pass within 10 s");
}

/// The interpreter of `ROLECALL_PYTHON`, if it has the package, and the weights of `ROLECALL_GGUF`.
fn real() -> Option<(PathBuf, PathBuf)> {
    let path = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let (python, weights) = (path("ROLECALL_PYTHON")?, path("ROLECALL_GGUF")?);
    let output = Command::new(&python).args(["-c", "import xllamacpp"]).output().ok()?;
    output.status.success().then_some((python, weights))
}

#[tokio::test]
async fn the_package_serves_a_model_until_the_engine_is_dropped() {
    let Some((python, weights)) = real() else {
        eprintln!(
            "skipped: llama.cpp's server is not started without xllamacpp in `ROLECALL_PYTHON` and `ROLECALL_GGUF`"
        );
        return;
    };
    let options =
        LocalOptions { python: Some(python), context: 512, parallel: 1, threads: 1, ..LocalOptions::default() };
    let engine = Engine::local(&weights, &options, &Limits::default()).unwrap();
    let about = engine.ready(PATIENCE).await.unwrap();
    assert_eq!((about.context, about.slots), (Some(512), Some(1)), "{about:?}");
    let ask = Ask { ids: vec![1, 2, 3].into(), logprobs: Some(2), ..Ask::default() };
    let mut generating = engine.generate(&ask).await.unwrap();
    let piece = generating.next().await.unwrap().unwrap();
    assert_eq!((piece.ids.len(), piece.odds.len(), piece.odds[0].top.len()), (1, 1, 2), "{piece:?}");
    drop(generating);
    let start = Instant::now();
    drop(engine);
    assert!(start.elapsed() < Duration::from_secs(3), "it ends by itself: {:?}", start.elapsed());
}
