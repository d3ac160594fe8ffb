//! Runs every case of `fixtures/cli` against the command.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rolecall::conversation::json;
use rolecall_testkit::{Fixture, write_gguf};

/// Each case is a process of its own.
#[test]
fn every_case_holds() {
    Fixture::check_side_by_side("cli", |case| {
        if let Some(feature) = case.section("feature").map(str::trim_end)
            && !is_built(feature)
        {
            println!("skipped without the feature `{feature}`: {}", case.path.display());
            return;
        }
        let folder = Folder::of(case);
        let output = run(&folder.0, &words(case.needed("args").trim_end()), case.section("input").unwrap_or_default());
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the command writes UTF-8");
        case.expect("stdout", &text(output.stdout));
        case.expect("stderr", &text(output.stderr));
        case.expect("exit", &output.status.code().unwrap_or(-1).to_string());
    });
}

#[test]
fn a_line_is_answered_before_the_next_one_comes() {
    let mut child = command(Path::new("."), &["render".into(), "--format".into(), "chatml".into(), "--jsonl".into()])
        .spawn()
        .expect("the command starts");
    let mut stdin = child.stdin.take().expect("it is a pipe");
    let mut stdout = child.stdout.take().expect("it is a pipe");
    for round in 0..3 {
        writeln!(stdin, r#"{{"id": {round}, "messages": [{{"role": "user", "content": "Hi"}}]}}"#).expect("it reads");
        let mut line = Vec::new();
        let mut byte = [0];
        while byte != [b'\n'] {
            stdout.read_exact(&mut byte).expect("the answer comes while the input is still open");
            line.push(byte[0]);
        }
        let line = String::from_utf8(line).expect("it is UTF-8");
        assert!(line.starts_with(&format!(r#"{{"id":{round},"prompt":"#)), "{line}");
    }
    drop(stdin);
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn a_reader_that_has_seen_enough_ends_the_command_quietly() {
    let mut child = command(Path::new("."), &["formats".into(), "--json".into()]).spawn().expect("the command starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn every_shell_gets_a_completion_script() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = run(Path::new("."), &["completions".into(), shell.into()], "");
        let script = String::from_utf8(output.stdout).expect("the command writes UTF-8");
        assert!(output.status.success() && script.contains("reference-encoding"), "{shell}: {script}");
    }
}

/// Reports whether the command has a feature, named in a case's section `feature`.
fn is_built(feature: &str) -> bool {
    let known = [("parquet", cfg!(feature = "parquet")), ("gateway", cfg!(feature = "gateway"))];
    known.iter().find(|(known, _)| *known == feature).expect("no case may need another feature").1
}

/// The temporary folder that a case runs in, with its files, removed after the case. GGUF files are
/// given by their metadata as JSON.
struct Folder(PathBuf);

impl Folder {
    fn of(case: &Fixture) -> Folder {
        let path = case.path.strip_prefix(rolecall_testkit::root()).unwrap_or(&case.path).with_extension("");
        let name = path.display().to_string().replace(['/', '\\'], "-");
        let folder = Folder(std::env::temp_dir().join(format!("rolecall-cli-{}-{name}", std::process::id())));
        fs::create_dir_all(&folder.0).expect("the folder can be made");
        for (name, text) in case.sections() {
            let (path, bytes) = match name.split_once(' ') {
                Some(("file", path)) => (folder.0.join(path), text.as_bytes().to_vec()),
                Some(("gguf", path)) => {
                    let metadata = json::parse(text).expect("a section of GGUF is JSON");
                    let metadata = metadata.as_object().expect("a section of GGUF is an object");
                    (folder.0.join(path), write_gguf(metadata))
                }
                _ => continue,
            };
            fs::create_dir_all(path.parent().expect("it is inside the folder")).expect("the folder can be made");
            fs::write(path, bytes).expect("the file can be written");
        }
        folder
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn command(folder: &Path, args: &[String]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rolecall"));
    command.args(args).current_dir(folder).env_remove("NO_COLOR").env("COLUMNS", "100");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(folder: &Path, args: &[String], input: &str) -> Output {
    let mut child = command(folder, args).spawn().expect("the command starts");
    let mut stdin = child.stdin.take().expect("it is a pipe");
    // Ignore the error of a command that closes its input without reading it.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    child.wait_with_output().expect("the command ends")
}

/// Splits words as a shell does: at white space, except inside single quotes.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    for character in line.chars() {
        match character {
            '\'' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            c if c.is_whitespace() && !quoted => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}
