//! A build without the feature `parquet` or `gateway` says so where it is asked for columns or a server.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

#[cfg(not(feature = "gateway"))]
#[test]
fn a_server_is_refused_whatever_its_flags_are() {
    for args in [&["serve", "--model", "a", "--engine", "b"][..], &["serve", "--check"], &["serve"]] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_rolecall")).args(args).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("error[not_built]") && said.contains("--features gateway"), "{said}");
    }
}

#[cfg(not(feature = "parquet"))]
#[test]
fn columns_are_refused_and_json_lines_written() {
    use std::io::Write;
    use std::process::{Command, Stdio};

    let folder = std::env::temp_dir().join(format!("rolecall-not-built-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let tokenizer = r#"{"version": "1.0", "added_tokens": [], "model": {"type": "WordLevel", "unk_token": "u", "vocab": {"u": 0, "Hi": 1}}}"#;
    std::fs::write(folder.join("tokenizer.json"), tokenizer).unwrap();
    std::fs::write(folder.join("t.jinja"), "{{ messages[0].content }}").unwrap();
    let run = |file: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rolecall"))
            .args(["encode", "--jsonl", "--template", "t.jinja", "--tokenizer", "tokenizer.json", "--output", file])
            .current_dir(&folder)
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        command.stdin.take().unwrap().write_all(b"[{\"role\": \"user\", \"content\": \"Hi\"}]\n").unwrap();
        let output = command.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for file in ["rows.parquet", "rows.arrow"] {
        let (code, said) = run(file);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("error[not_built]") && said.contains("--features parquet"), "{said}");
        assert!(!folder.join(file).exists());
    }
    assert_eq!(run("rows.jsonl").0, Some(0));
    std::fs::remove_dir_all(&folder).unwrap();
}
