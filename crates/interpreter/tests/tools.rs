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
    fn start(folder: &Folder, more: &[&str]) -> Http {
        let mut command = Command::new("python3");
        command.arg("server.py").arg("http").args(more).current_dir(&folder.0);
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

#[test]
fn tools_of_mcp_servers_by_standard_streams_and_by_http() {
    let folder = Folder::new("mcp", &[("server.py", SERVER)]);
    let http = Http::start(&folder, &[]);
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
    // What is wrong is said, not where in the SDK.
    let gone = folder.read("[[mcp]]\nname = \"gone\"\nurl = \"http://127.0.0.1:9/mcp\"\ntimeout = 2");
    assert!(gone.servers[0].connect().unwrap_err().to_string().starts_with("the MCP server `gone` cannot be used"));
}

#[test]
fn a_server_over_https_is_reached_if_its_certificate_is_trusted() {
    let pem = include_str!("common/tls/server.pem");
    let authority = include_str!("common/tls/authority.pem");
    let folder = Folder::new("tls", &[("server.py", SERVER), ("server.pem", pem), ("authority.pem", authority)]);
    let server = Http::start(&folder, &["tls=server.pem", "token=secret"]);
    let text =
        format!("[[mcp]]\nname = \"far\"\nurl = \"https://127.0.0.1:{}/mcp\"\ntoken_env = \"FAR_TOKEN\"", server.1);
    // Without the variable, nobody is asked.
    let error = folder.read(&text).servers[0].connect().unwrap_err().to_string();
    assert!(error.contains("the environment variable `FAR_TOKEN` has no token"), "{error}");
    std::fs::write(folder.0.join("tools.toml"), text).unwrap();
    let run = |token: &str, authority: &str| {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["tools::a_process_that_trusts_a_certificate", "--exact", "--nocapture"]);
        child.env("ROLECALL_TEST_FOLDER", &folder.0).env("FAR_TOKEN", token);
        let ran = child.env("SSL_CERT_FILE", folder.0.join(authority)).output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
        String::from_utf8(ran.stdout).unwrap()
    };
    let said = run("secret", "authority.pem");
    assert!(said.contains("far_echo_it, far_fail"), "{said}");
    let said = run("wrong", "authority.pem");
    assert!(said.contains("the MCP server `far` cannot be used") && said.contains("401"), "{said}");
    // A certificate that nobody vouches for.
    let said = run("secret", "server.py");
    assert!(said.contains("the MCP server `far` cannot be used") && said.contains("peer certificate"), "{said}");
}

/// A part of the test above, in a process of its own.
#[test]
fn a_process_that_trusts_a_certificate() {
    let Some(folder) = std::env::var_os("ROLECALL_TEST_FOLDER").map(std::path::PathBuf::from) else { return };
    let text = std::fs::read_to_string(folder.join("tools.toml")).unwrap();
    let file = ToolsFile::read(&text, &folder, &options()).unwrap();
    match file.servers[0].connect() {
        Ok(tools) => println!("{}", tools.iter().map(|tool| tool.name()).collect::<Vec<&str>>().join(", ")),
        Err(error) => println!("{error}"),
    }
}

#[test]
fn a_token_is_not_sent_where_others_read_it() {
    let folder = Folder::new("token", &[]);
    let read = |url: &str| {
        let text = format!("[[mcp]]\nname = \"far\"\nurl = \"{url}\"\ntoken_env = \"T\"");
        ToolsFile::read(&text, &folder.0, &options()).map(|_| ())
    };
    for good in ["https://a.example/mcp", "http://127.0.0.1:9/mcp", "http://localhost/mcp", "http://[::1]:9"] {
        assert!(read(good).is_ok(), "{good}");
    }
    for bad in [
        "http://a.example/mcp",
        "http://127.0.0.1.example",
        "http://localhost.example:9/",
        "http://127.0.0.1@a.example",
    ] {
        assert!(read(bad).unwrap_err().to_string().contains("https://"), "{bad}");
    }
    let text = "[[mcp]]\nname = \"a\"\nargv = [\"x\"]\ntoken_env = \"T\"";
    assert!(ToolsFile::read(text, &folder.0, &options()).is_err());
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
