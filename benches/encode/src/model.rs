//! The tokenizers that are measured: a folder of each, and its ranks in a file if its ids are ranks.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// The splitting pattern of Kimi K2:
/// https://huggingface.co/moonshotai/Kimi-K2-Instruct tokenization_kimi.py
const KIMI_PATTERN: &str = r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const KIMI_RANKS: usize = 163_584;
const KIMI_CONFIG: &str = r#"{"tokenizer_class": "TikTokenTokenizer", "auto_map": {"AutoTokenizer": ["tokenization_kimi.TikTokenTokenizer", null]}}"#;

/// A tokenizer.
pub struct Model {
    pub name: String,
    /// Its own file.
    pub file: PathBuf,
    pub ranks: Option<Ranks>,
}

/// The ranks of a tokenizer, for libraries that read nothing else.
pub struct Ranks {
    /// A file in tiktoken's format.
    pub file: PathBuf,
    pub pattern: String,
    /// The id of rank 0.
    pub first: u32,
    /// Whether the tokenizer's text is composed (NFC) first.
    pub nfc: bool,
}

/// Finds the tokenizers of a folder that holds one folder for each, and adds one with the pattern of
/// Kimi K2.
pub fn find(folder: &Path) -> Result<Vec<Model>, String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut folders: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    let mut models: Vec<Model> = folders.iter().filter_map(|folder| read(folder)).collect();
    let most = |model: &&Model| model.ranks.as_ref().is_some_and(|ranks| lines(&ranks.file) >= KIMI_RANKS);
    if let Some(ranks) = models.iter().find(most).and_then(|model| model.ranks.as_ref()) {
        models.push(kimi_like(&ranks.file)?);
    }
    Ok(models)
}

fn read(folder: &Path) -> Option<Model> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).collect();
    files.sort();
    let named = |name: &str| files.iter().find(|file| file.file_name().is_some_and(|found| found == name));
    let own = |file: &&PathBuf| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        name.contains(".model") || name.starts_with("tekken")
    };
    let file = named("tokenizer.json").or_else(|| files.iter().find(own))?.clone();
    let name = folder.file_name()?.to_string_lossy().into_owned();
    let json = std::fs::read(&file).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    let ranks = json.and_then(|json| tekken_ranks(&name, &json).or_else(|| byte_level_ranks(&name, &json)));
    Some(Model { name, file, ranks })
}

/// Returns the ranks of a `tokenizer.json` whose ids are ranks: one pattern, then merges of bytes.
fn byte_level_ranks(name: &str, json: &Value) -> Option<Ranks> {
    let [split, bytes] = &json["pre_tokenizer"]["pretokenizers"].as_array()?[..] else { return None };
    let pattern = split["pattern"]["Regex"].as_str()?;
    if bytes["type"] != "ByteLevel" {
        return None;
    }
    let alphabet: Vec<char> = (0..=255).map(byte_character).collect();
    let byte = |c: char| alphabet.iter().position(|known| *known == c).map(|byte| byte as u8);
    let mut ranks = Vec::new();
    for (text, id) in json["model"]["vocab"].as_object()? {
        ranks.push((id.as_u64()?, text.chars().map(byte).collect::<Option<Vec<u8>>>()?));
    }
    let file = write(name, ranks)?;
    Some(Ranks { file, pattern: pattern.to_owned(), first: 0, nfc: json["normalizer"]["type"] == "NFC" })
}

/// Returns the ranks of a Tekken file.
fn tekken_ranks(name: &str, json: &Value) -> Option<Ranks> {
    let config = &json["config"];
    let first = config["default_num_special_tokens"].as_u64()?;
    let count = config["default_vocab_size"].as_u64()? - first;
    let token = |token: &Value| Some((token["rank"].as_u64()?, STANDARD.decode(token["token_bytes"].as_str()?).ok()?));
    let ranks: Option<Vec<_>> = json["vocab"].as_array()?.iter().map(token).collect();
    let ranks = ranks?.into_iter().filter(|(rank, _)| *rank < count).collect();
    let pattern = config["pattern"].as_str()?.to_owned();
    Some(Ranks { file: write(name, ranks)?, pattern, first: u32::try_from(first).ok()?, nfc: false })
}

/// Makes a tokenizer with the pattern and the number of ranks of Kimi K2. The ranks are not Kimi's:
/// they are the first ones of another vocabulary.
fn kimi_like(ranks: &Path) -> Result<Model, String> {
    let folder = made("kimi-like");
    let file = folder.join("tiktoken.model");
    let all = std::fs::read_to_string(ranks).map_err(|error| error.to_string())?;
    let first: String = all.split_inclusive('\n').take(KIMI_RANKS).collect();
    let write = || {
        std::fs::create_dir_all(&folder)?;
        std::fs::write(&file, first)?;
        std::fs::write(folder.join("tokenizer_config.json"), KIMI_CONFIG)
    };
    write().map_err(|error: std::io::Error| format!("{}: {error}", folder.display()))?;
    let ranks = Ranks { file: file.clone(), pattern: KIMI_PATTERN.to_owned(), first: 0, nfc: false };
    Ok(Model { name: "kimi-like".to_owned(), file, ranks: Some(ranks) })
}

/// Writes ranks in tiktoken's format. They must be complete, from 0.
fn write(name: &str, mut ranks: Vec<(u64, Vec<u8>)>) -> Option<PathBuf> {
    ranks.sort();
    let complete = ranks.iter().enumerate().all(|(at, (rank, _))| *rank == at as u64);
    let lines: String = ranks.iter().map(|(rank, bytes)| format!("{} {rank}\n", STANDARD.encode(bytes))).collect();
    let file = made("ranks").join(format!("{name}.tiktoken"));
    std::fs::create_dir_all(made("ranks")).ok()?;
    std::fs::write(&file, lines).ok()?;
    complete.then_some(file)
}

/// Returns a folder for files that the benchmark makes.
pub fn made(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/target/made")).join(name)
}

fn lines(file: &Path) -> usize {
    std::fs::read(file).map_or(0, |bytes| bytes.iter().filter(|byte| **byte == b'\n').count())
}

/// Returns the character for a byte in byte-level vocabularies.
fn byte_character(byte: u8) -> char {
    let printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    if printable(byte) {
        return char::from(byte);
    }
    char::from_u32(256 + (0..byte).filter(|&byte| !printable(byte)).count() as u32).unwrap_or_default()
}
