//! Generates `files.rs`, which embeds the files of each framework's folder in `formats/`.

use std::path::Path;
use std::{env, fs};

fn main() {
    let folder = Path::new(&env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("formats");
    let mut entries = String::new();
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut frameworks: Vec<String> = fs::read_dir(&folder)
        .expect("formats/ is part of the package")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        // Other folders hold only format files.
        .filter(|name| {
            folder.join(name).join("about.json").is_file() || folder.join(name).join("registry.json").is_file()
        })
        .collect();
    frameworks.sort();
    for framework in frameworks {
        let folder = folder.join(&framework);
        println!("cargo::rerun-if-changed={}", folder.display());
        let mut names: Vec<String> = fs::read_dir(&folder)
            .expect("formats/ is part of the package")
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| name.ends_with(".toml") || name.ends_with(".json"))
            .collect();
        names.sort();
        for name in names {
            let path = format!("{framework}/{name}");
            entries.push_str(&format!(
                "    ({path:?}, include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/formats/{path}\"))),\n"
            ));
        }
    }
    let target = Path::new(&env::var_os("OUT_DIR").expect("cargo sets it")).join("files.rs");
    fs::write(target, format!("&[\n{entries}]\n")).expect("the output folder can be written");
}
