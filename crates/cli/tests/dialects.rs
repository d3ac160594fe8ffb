//! Checks that `docs/dialects.md` is the output of the command, or rewrites it with `UPDATE=1`.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a panic fails the test, as intended")]

use std::process::Command;
use std::{env, fs};

#[test]
fn the_document_of_dialects_is_what_the_command_writes() {
    let root = rolecall_testkit::root();
    let mut command = Command::new(env!("CARGO_BIN_EXE_rolecall"));
    let output = command.args(["diff", "--models", "formats/xtuner/models.json"]).current_dir(&root).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let written = String::from_utf8(output.stdout).unwrap();
    let path = root.join("docs/dialects.md");
    if fs::read_to_string(&path).is_ok_and(|text| text == written) {
        return;
    }
    assert!(env::var_os("UPDATE").is_some(), "docs/dialects.md is stale; run `UPDATE=1 cargo test` to rewrite it");
    fs::create_dir_all(root.join("docs")).unwrap();
    fs::write(path, written).unwrap();
}
