//! Lists the files of `formats/` so that the library carries them.

use std::path::Path;
use std::{env, fs};

fn main() {
    let folder = Path::new(&env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("formats");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut names: Vec<String> = fs::read_dir(&folder)
        .expect("formats/ is part of the package")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".toml"))
        .collect();
    names.sort();
    let entries: Vec<String> = names
        .iter()
        .map(|name| {
            format!("    ({name:?}, include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/formats/{name}\"))),\n")
        })
        .collect();
    let source = format!("&[\n{}]\n", entries.concat());
    let target = Path::new(&env::var_os("OUT_DIR").expect("cargo sets it")).join("builtin.rs");
    fs::write(target, source).expect("the output folder can be written");
}
