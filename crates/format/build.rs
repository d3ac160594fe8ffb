//! Lists the files of `formats/`, `formats/calls/`, `formats/corrections/` and `formats/replies/`
//! for inclusion in the library.

use std::path::Path;
use std::{env, fs};

fn main() {
    list("formats", "builtin.rs");
    list("formats/calls", "calls.rs");
    list("formats/corrections", "corrections.rs");
    list("formats/replies", "replies.rs");
}

/// Writes a Rust list of a folder's files, with their names and texts, sorted by name.
fn list(folder: &str, target: &str) {
    let path = Path::new(&env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join(folder);
    println!("cargo::rerun-if-changed={}", path.display());
    let mut names: Vec<String> = fs::read_dir(&path)
        .expect("formats/ is part of the package")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".toml"))
        .collect();
    names.sort();
    let entries: Vec<String> = names
        .iter()
        .map(|name| {
            format!("    ({name:?}, include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/{folder}/{name}\"))),\n")
        })
        .collect();
    let source = format!("&[\n{}]\n", entries.concat());
    let target = Path::new(&env::var_os("OUT_DIR").expect("cargo sets it")).join(target);
    fs::write(target, source).expect("the output folder can be written");
}
