//! Commands and MCP servers of a file of tools.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use rolecall_interpreter::Stop;
use rolecall_interpreter::agent::{Callable, ToolsFile};

use crate::common::{can_run, options};

/// A folder with files, removed at the end. Every user can read it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, files: &[(&str, &str)]) -> Folder {
        let folder = Folder(env::temp_dir().join(format!("rolecall-tools-{}-{name}", std::process::id())));
        fs::create_dir_all(&folder.0).unwrap();
        fs::set_permissions(&folder.0, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        for (name, text) in files {
            fs::write(folder.0.join(name), text).unwrap();
        }
        folder
    }

    fn read(&self, text: &str) -> ToolsFile {
        ToolsFile::read(text, &self.0, &options()).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_command_gets_its_arguments_on_standard_input_alone() {
    if !can_run() {
        return;
    }
    let program = "import sys, os, json\nprint(sys.argv[1:], json.load(sys.stdin), os.getcwd(), os.path.exists('/root'), 'CARGO' in os.environ)";
    let folder = Folder::new("arguments", &[("tool.py", program), ("data.txt", "d")]);
    let file =
        folder.read("[[tool]]\nname = \"t\"\nargv = [\"python3\", \"tool.py\", \"-x\"]\nread = [\"data.txt\"]\n");
    let text = file.commands[0].call(r#"{"a": "--flag; $(rm x)"}"#, &Stop::default()).unwrap();
    assert_eq!(text, "['-x'] {'a': '--flag; $(rm x)'} /mnt/data False False");
}

#[test]
fn a_command_that_fails_takes_too_long_or_goes_too_far_says_so() {
    if !can_run() {
        return;
    }
    let folder = Folder::new(
        "fails",
        &[
            ("sleep.py", "import time\nwhile True: time.sleep(1)"),
            ("memory.py", "bytearray(2 ** 31)"),
            ("network.py", "import socket; socket.create_connection(('127.0.0.1', 9))"),
            ("fork.py", "import subprocess; subprocess.Popen(['sleep', '300'])\nprint('left')"),
        ],
    );
    let file = folder.read(
        "[[tool]]\nname = \"slow\"\nargv = [\"python3\", \"sleep.py\"]\ntimeout = 0.5\n[[tool]]\nname = \"memory\"\nargv = [\"python3\", \"memory.py\"]\n[[tool]]\nname = \"network\"\nargv = [\"python3\", \"network.py\"]\n[[tool]]\nname = \"gone\"\nargv = [\"no-such-program\"]\n[[tool]]\nname = \"fork\"\nargv = [\"python3\", \"fork.py\"]",
    );
    let call = |at: usize| file.commands[at].call("{}", &Stop::default());
    assert_eq!(call(0).unwrap_err().to_string(), "it took longer than 0.5 s");
    assert!(call(1).unwrap_err().message.contains("MemoryError"));
    assert!(call(2).unwrap_err().message.contains("ConnectionRefusedError"));
    assert_eq!(call(3).unwrap_err().code, "command_failed");
    // What a command leaves running ends with it.
    let begin = Instant::now();
    assert_eq!(call(4).unwrap(), "left");
    assert!(begin.elapsed() < Duration::from_secs(10));
    let stop = Stop::default();
    let stopper = stop.clone();
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(200));
        stopper.stop();
    });
    let slow = folder.read("[[tool]]\nname = \"slow\"\nargv = [\"python3\", \"sleep.py\"]\n");
    assert_eq!(slow.commands[0].call("{}", &stop).unwrap_err().code, "stopped");
}

#[test]
fn long_output_of_a_command_is_cut_with_a_note() {
    if !can_run() {
        return;
    }
    let folder = Folder::new("long", &[("long.py", "print('x' * 200000 + '\\x1b[31m')")]);
    let file = folder.read("[[tool]]\nname = \"long\"\nargv = [\"python3\", \"long.py\"]\n");
    let text = file.commands[0].call("{}", &Stop::default()).unwrap();
    assert!(text.ends_with("more bytes of output were cut; at most 65536 are kept]") && text.len() < 66_000);
}

/// A server of the Model Context Protocol, on standard input and output or over HTTP.
const SERVER: &str = include_str!("common/mcp_server.py");

/// A server over HTTP, ended with the test.
struct Http(Child, u16);

impl Http {
    fn start(folder: &Folder) -> Http {
        let mut child =
            Command::new("python3").arg(folder.0.join("server.py")).arg("http").stdout(Stdio::piped()).spawn().unwrap();
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

#[test]
fn tools_of_mcp_servers_by_standard_streams_and_by_http() {
    let folder = Folder::new("mcp", &[("server.py", SERVER)]);
    let http = Http::start(&folder);
    let text = format!(
        "[[mcp]]\nname = \"own\"\nargv = [\"python3\", \"server.py\"]\n[[mcp]]\nname = \"far\"\nurl = \"http://127.0.0.1:{}/mcp\"",
        http.1
    );
    for (server, name) in folder.read(&text).servers.iter().zip(["own", "far"]) {
        let tools = server.connect().unwrap();
        let names: Vec<&str> = tools.iter().map(|tool| tool.name()).collect();
        assert_eq!(names, [format!("{name}_echo_it"), format!("{name}_fail")]);
        let text = tools[0].call(r#"{"text": "x"}"#, &Stop::default()).unwrap();
        assert_eq!(text, "echo.it {\"text\": \"x\"}\n[a picture of the type image/png]");
        let error = tools[1].call("{}", &Stop::default()).unwrap_err();
        assert_eq!((error.code, error.message.starts_with("fail {}")), ("mcp_tool", true));
    }
    let gone = folder.read("[[mcp]]\nname = \"gone\"\nurl = \"http://127.0.0.1:9/mcp\"\ntimeout = 2");
    assert!(gone.servers[0].connect().unwrap_err().to_string().starts_with("the MCP server `gone` cannot be used"));
}

#[test]
fn a_command_without_a_sandbox_does_not_run_what_code_has_left() {
    let left = rolecall_interpreter::Folder::new(&options()).unwrap();
    left.write("json.py", b"raise SystemExit('code of the model')").unwrap();
    let folder = Folder::new("unsafe", &[]);
    let file = folder.read("[[tool]]\nname = \"t\"\nsandbox = false\nargv = [\"python3\", \"-c\", \"import json, os; print(os.getcwd())\"]\n");
    let mut command = (*file.commands[0]).clone();
    command.folder = Some(left);
    let text = command.call("{}", &Stop::default()).unwrap();
    assert_eq!(std::path::Path::new(&text), folder.0.canonicalize().unwrap());
    // What it leaves running does not hold it.
    let file = folder
        .read("[[tool]]\nname = \"t\"\nsandbox = false\nargv = [\"sh\", \"-c\", \"setsid sleep 8 & echo started\"]\n");
    let begin = Instant::now();
    let _ = file.commands[0].call("{}", &Stop::default());
    assert!(begin.elapsed() < Duration::from_secs(5));
}
