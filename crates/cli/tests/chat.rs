//! `rolecall chat` and `rolecall interpreter` as processes. The model's words are from a record.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::env;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rolecall::conversation::{Json, json};
use rolecall::tokenizer::{HuggingFace, TextPlace, Tokenizer};

const TOKENIZER: &str = r#"{"added_tokens": [
  {"id": 22, "content": "<|im_start|>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
  {"id": 23, "content": "<|im_end|>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
  {"id": 24, "content": "<tool_call>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": false},
  {"id": 25, "content": "</tool_call>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": false}],
  "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "\\s|[a-zA-Z]+|."}, "behavior": "Isolated", "invert": false},
  "model": {"type": "WordLevel", "unk_token": "[unk]", "vocab": {"[unk]": 0, "user": 1, "assistant": 2, "system": 3, "tool": 4, "\n": 5, "hi": 6, " ": 7, "hello": 8, "sunny": 9, "name": 10, "arguments": 11, "city": 12, "get": 13, "_": 14, "\"": 15, "{": 16, "}": 17, ":": 18, ",": 19, "Paris": 20, "weather": 21}}}"#;

const TEMPLATE: &str = r#"{% if tools %}<|im_start|>system
{% for t in tools %}{{ t | tojson }}{% endfor %}<|im_end|>
{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content or '' }}{% for c in m.tool_calls or [] %}<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"#;

const TOOLS: &str = "[[tool]]\nname = \"get_weather\"\nargv = [\"cat\"]\n";

const CALL: &str =
    "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call><|im_end|>";

/// A folder that is removed at the end.
pub struct TestFolder(pub PathBuf);

impl TestFolder {
    pub fn new(name: &str) -> TestFolder {
        let folder = env::temp_dir().join(format!("rolecall-chat-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        TestFolder(folder)
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A folder with a model, a file of tools and a record.
struct Folder(TestFolder);

impl Folder {
    fn new(name: &str, replies: &[&str], results: &[&str]) -> Folder {
        let folder = Folder(TestFolder::new(name));
        std::fs::create_dir_all(folder.path("m")).unwrap();
        for (file, text) in [
            ("m/tokenizer.json", TOKENIZER),
            ("m/tokenizer_config.json", "{\"eos_token\": \"<|im_end|>\"}"),
            ("m/chat_template.jinja", TEMPLATE),
            ("tools.toml", TOOLS),
        ] {
            std::fs::write(folder.path(file), text).unwrap();
        }
        let tokenizer = HuggingFace::from_bytes(TOKENIZER.as_bytes(), None).unwrap();
        let mut record = String::new();
        for reply in replies {
            let mut tokens = Vec::new();
            tokenizer.encode_reference(reply, TextPlace::Inside, &mut tokens).unwrap();
            let ids: Vec<String> = tokens.iter().map(|token| token.id.to_string()).collect();
            record += &format!("{{\"type\": \"message\", \"ids\": [{}], \"finish\": \"stop\"}}\n", ids.join(", "));
        }
        for result in results {
            record += &format!(
                "{{\"type\": \"result\", \"name\": \"get_weather\", \"arguments\": \"{{\\\"city\\\": \\\"Paris\\\"}}\", \"text\": \"{result}\"}}\n"
            );
        }
        std::fs::write(folder.path("record.jsonl"), record).unwrap();
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.0.join(name)
    }

    fn run(&self, arguments: &[&str], input: &str) -> (i32, String, String) {
        run(&self.0.0, arguments, input, &[])
    }

    fn chat(&self, more: &[&str], input: &str) -> (i32, String, String) {
        let arguments = [&["chat", "--model", "m", "--replay", "record.jsonl", "--tools", "tools.toml"], more].concat();
        self.run(&arguments, input)
    }
}

/// Returns whether kernels run here. A check that must be complete sets a variable, and fails without them.
pub fn can_run(test: &str) -> bool {
    let (code, out, _) = run(&env::temp_dir(), &["interpreter", "--check", "--json"], "", &[]);
    if code != 0 {
        assert!(env::var_os("ROLECALL_COMPLETE").is_none(), "no kernel runs here: {out}");
        eprintln!("NOT TESTED: no kernel runs here: {out}");
        if let Some(path) = env::var_os("ROLECALL_SKIPPED") {
            let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
            writeln!(file, "{test}\tcode that runs").unwrap();
        }
    }
    code == 0
}

pub fn run(folder: &std::path::Path, arguments: &[&str], input: &str, set: &[(&str, &str)]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rolecall"));
    command.args(arguments).current_dir(folder).envs(set.iter().copied());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_chat_shows_calls_and_results_and_is_saved_as_a_conversation() {
    let folder = Folder::new("save", &[CALL, "sunny<|im_end|>"], &["sun"]);
    let (code, out, err) = folder.chat(&["--allow", "get_weather", "--system", "hi"], "weather\n:save chat.json\n");
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(out, "get_weather {\"city\": \"Paris\"}\n→ sun\nsunny\nsaved to chat.json\n");
    // Every other command reads it, and a chat goes on with it.
    let (code, prompt, err) = folder.run(&["render", "--model", "m", "chat.json"], "");
    assert_eq!(code, 0, "{err}");
    assert!(prompt.ends_with("<|im_start|>system\nhi<|im_end|>\n<|im_start|>user\nweather<|im_end|>\n<|im_start|>assistant\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call><|im_end|>\n<|im_start|>tool\nsun<|im_end|>\n<|im_start|>assistant\nsunny<|im_end|>\n"), "{prompt}");
    let again = Folder::new("again", &["hello<|im_end|>"], &[]);
    std::fs::copy(folder.path("chat.json"), again.path("chat.json")).unwrap();
    let (code, out, err) =
        again.run(&["chat", "--model", "m", "--replay", "record.jsonl", "chat.json"], "hi\n:prompt\n");
    assert_eq!(code, 0, "{err}");
    assert!(out.starts_with("hello\n") && out.contains("sunny"), "{out}");
}

#[test]
fn what_nobody_allows_is_refused_where_nobody_can_be_asked() {
    let folder = Folder::new("refuse", &[CALL, "hello<|im_end|>"], &["sun"]);
    let (code, out, _) = folder.chat(&[], "weather\n");
    assert_eq!(
        (code, out.as_str()),
        (0, "get_weather {\"city\": \"Paris\"}\n→ error: this call was refused: nobody allowed it\nhello\n")
    );
}

#[test]
fn a_message_is_taken_back() {
    let folder = Folder::new("undo", &["hello<|im_end|>", "hi<|im_end|>"], &[]);
    let input = "hi\n:undo\n:undo\nhello\n:nothing\n:save \"my chat.json\"\n:save \"open\n";
    let (_, out, _) = folder.chat(&[], input);
    assert!(
        out.contains("taken back")
            && out.contains("there is nothing to take back")
            && out.contains("expected one of :prompt")
            && out.contains("a quotation mark is not closed"),
        "{out}"
    );
    let saved = std::fs::read_to_string(folder.path("my chat.json")).unwrap();
    let Json::Object(saved) = json::parse(&saved).unwrap() else { panic!("{saved:?}") };
    assert_eq!(saved.get("messages").and_then(Json::as_array).unwrap().len(), 2, "one message, and its reply");
}

#[test]
fn steps_as_json_are_a_record() {
    let folder = Folder::new("json", &[CALL, "sunny<|im_end|>"], &["sun"]);
    let (_, steps, _) = folder.chat(&["--json", "--allow", "all", "--record", "again.jsonl"], "weather\n");
    for line in steps.lines() {
        let Json::Object(step) = json::parse(line).unwrap() else { panic!("{line}") };
        assert!(step.get("type").is_some(), "{line}");
    }
    let (code, again, err) = folder.run(
        &["chat", "--model", "m", "--replay", "again.jsonl", "--tools", "tools.toml", "--json", "--allow", "all"],
        "weather\n",
    );
    assert_eq!((code, again), (0, steps), "{err}");
}

#[test]
fn mistakes_are_named() {
    let folder = Folder::new("mistakes", &[], &[]);
    let (code, _, err) = folder.chat(&[], "hi\n");
    assert!(code != 0 && err.contains("the record has no further reply"), "{err}");
    for (tools, message) in [
        ("[[tool]]\nname = \"a\"\n", "line 1: expected `argv`"),
        ("\n[[tool]]\nname = 1\nargv = [\"x\"]", "line 3: expected a text for `name`"),
        ("[[tool]]\nname = \"a\"\nargv = [\"x\"]\ntime = 3", "line 4: expected one of name"),
        (
            "[[tool]]\nname = \"a\"\nargv = [\"x\"]\n[[tool]]\nname = \"a\"\nargv = [\"x\"]",
            "two tools have the name `a`",
        ),
        ("[[mcp]]\nname = \"a\"", "expected either `argv` or `url`"),
        ("tool = 1", "expected `[[tool]]` or `[[mcp]]`"),
        ("[[tool]]\nname = \"code_interpreter\"\nargv = [\"x\"]", "expected a name"),
        (
            "[[mcp]]\nname = \"gone\"\nargv = [\"/nonexistent/server\"]",
            "the MCP server `gone` cannot be used: the program `/nonexistent/server` cannot be started",
        ),
        // The file is named without a folder.
        (
            "[[mcp]]\nname = \"gone\"\nargv = [\"true\"]",
            "the MCP server `gone` cannot be used: the program ended before it answered",
        ),
        ("not toml", "line 1:"),
    ] {
        std::fs::write(folder.path("tools.toml"), tools).unwrap();
        let (code, _, err) = folder.chat(&[], "hi\n");
        assert!(code != 0 && err.contains(message), "{tools}: {err}");
    }
    let (code, _, err) =
        folder.run(&["chat", "--model", "m", "--engine", "http://127.0.0.1:9", "--engine-kind", "x"], "");
    assert!(code != 0 && err.contains("expected one of llama.cpp"), "{err}");
    let (code, _, err) = folder.run(&["chat", "--model", "m"], "");
    assert!(code == 2 && err.contains("--engine"), "{err}");
}

#[test]
fn code_needs_a_sandbox_unless_it_is_spelled_out() {
    let folder = Folder::new("sandbox", &[], &[]);
    std::fs::create_dir(folder.path("bin")).unwrap();
    let bin = folder.path("bin").display().to_string();
    let (code, out, err) = run(&folder.0.0, &["interpreter"], "print(1)", &[("PATH", &bin)]);
    assert!(
        code != 0 && out.is_empty() && (err.contains("bwrap") || err.contains("ipykernel") || err.contains("bash")),
        "{err}"
    );
    let (code, out, _) = run(&folder.0.0, &["interpreter", "--check"], "", &[("PATH", &bin)]);
    assert!(code == 1 && out.contains("bubblewrap") && out.contains("apt-get install -y"), "{out}");
}

#[test]
fn code_runs_and_its_files_come_out() {
    let folder = Folder::new("code", &[], &[]);
    if !can_run("chat::code_runs_and_its_files_come_out") {
        return;
    }
    std::fs::write(folder.path("data.csv"), "1,2\n").unwrap();
    let (code, out, err) = folder.run(
        &["interpreter", "--file", "data.csv", "--out", "files"],
        "print(open('data.csv').read())\nopen('new', 'w').write('x')",
    );
    assert_eq!((code, out.as_str(), err.as_str()), (0, "1,2\n\n1\n", ""));
    assert_eq!(std::fs::read_to_string(folder.path("files/new")).unwrap(), "x");
    // A note begins a line of its own.
    let (code, out, err) =
        folder.run(&["interpreter", "--code-time", "1"], "print('x', end='', flush=True)\nimport time\ntime.sleep(9)");
    assert!(
        code == 1 && out.starts_with("x\n") && out.ends_with("[the code was stopped after 1 s, its limit]\n"),
        "{out}{err}"
    );
    let (code, _, err) = folder.run(&["interpreter", "--file", "data.csv", "--out", "data.csv"], "1");
    assert!(code != 0 && err.contains("cannot write `data.csv/data.csv`") && !err.contains("session"), "{err}");
    let (code, out, _) = folder.run(&["interpreter", "--json"], "1 / 0");
    assert!(code == 1 && out.contains("\"is_good\": false") && out.contains("ZeroDivisionError"), "{out}");
    let (code, out, _) = folder.run(&["interpreter", "--unsafe-no-sandbox"], "import os; os.path.exists('/sys')");
    assert_eq!((code, out.as_str()), (0, "True\n"));
}
