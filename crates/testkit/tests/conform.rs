//! The command `conform` never counts a row that it cannot run as passed.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the exit code and all output.
fn conform(arguments: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_conform")).args(arguments).output().unwrap();
    let said = [output.stdout, output.stderr].map(|stream| String::from_utf8(stream).unwrap());
    (output.status.code().unwrap(), said.concat())
}

/// Makes an empty folder with these files.
fn folder(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("conform").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    for (name, text) in files {
        fs::write(folder.join(name), text).unwrap();
    }
    folder
}

fn templates(name: &str, files: &[(&str, &str)], form: &str) -> (i32, String) {
    let folder = folder(name, files);
    conform(&[form, "1", "--templates", folder.to_str().unwrap(), "--only", "one.jinja"])
}

const ONE: (&str, &str) =
    ("one.jinja", "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}");

#[test]
fn a_run_that_tries_nothing_fails() {
    for form in ["--forge", "--outputs", "--infer"] {
        let (code, said) = conform(&[form, "0"]);
        assert!(code != 0 && said.contains("nothing was compared"), "{form}: {code} {said}");
        let (code, said) = conform(&[form, "1", "--only", "nothing like this"]);
        assert!(code != 0 && said.contains("matches no label"), "{form}: {code} {said}");
    }
}

#[test]
fn a_folder_that_cannot_be_read_fails() {
    for form in ["--forge", "--outputs", "--infer"] {
        for (name, files, why) in [
            ("empty", &[][..], "no `.jinja` file"),
            ("torn", &[ONE, ("index.json", "{")], "index.json: "),
            ("unlisted", &[ONE, ("index.json", "[]")], "expected a list `templates`"),
            ("nameless", &[ONE, ("index.json", r#"{"templates": [{}]}"#)], "expected `file` in every entry"),
            ("missing", &[ONE, ("index.json", r#"{"templates": [{"file": "b.jinja"}]}"#)], "b.jinja: "),
        ] {
            let (code, said) = templates(&format!("{name}{form}"), files, form);
            assert!(code == 2 && said.contains(why), "{form} {name}: {code} {said}");
        }
    }
    let folder = folder("tokenizers", &[]);
    let (code, said) = conform(&["--forge", "1", "--tokenizers", folder.to_str().unwrap()]);
    assert!(code == 2 && said.contains("no subfolder with a tokenizer"), "{said}");
}

#[test]
fn a_template_that_does_not_compile_is_named() {
    for form in ["--forge", "--outputs"] {
        let (code, said) = templates(&format!("broken{form}"), &[ONE, ("two.jinja", "{% if %}")], form);
        assert!(said.contains("left out: two.jinja: "), "{form}: {said}");
        // Nothing can be inferred from a template without calls and reasoning.
        assert!((code == 0) == (form == "--forge"), "{form}: {code} {said}");
    }
}

#[test]
fn an_option_of_another_form_is_refused() {
    for arguments in [
        ["--outputs", "1", "--pins", "x"],
        ["--outputs", "1", "--tokenizers", "x"],
        ["--infer", "1", "--tokenizers", "x"],
        ["--forge", "1", "--facts", "x"],
        ["--forge", "1", "--forge", "1"],
        ["x.jsonl", "x.jsonl", "--seed", "0"],
    ] {
        let (code, said) = conform(&arguments);
        assert!(
            code == 2 && (said.contains("does not apply to this form") || said.contains("twice")),
            "{arguments:?}: {said}"
        );
    }
}
