//! The scenarios of the makers' documents in which a model calls tools and writes code: `fixtures/scenarios/`.
//!
//! Each file has the model's words, what the tools return, and the text that the model sees and writes in the end. The
//! tests of each door play all of them: the library, the terminal, the gateway, and the Python package, which reads the
//! files itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use rolecall::conversation::json::{self, Layout, Object};
use rolecall::conversation::{Json, object};
use rolecall::format::Format;
use rolecall::tokenizer::Tokenizer;

use crate::{Toy, root};

/// A scenario of a document.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The name of the file.
    pub name: String,
    /// The format of the model.
    pub format: String,
    /// The messages before the first one of the user.
    pub messages: Vec<Json>,
    /// The tools that the model may call.
    pub tools: Vec<ScenarioTool>,
    /// Whether the model may write code.
    pub has_code: bool,
    /// The files that go with the first message, by name.
    pub files: BTreeMap<String, String>,
    /// The turns, in order.
    pub turns: Vec<ScenarioTurn>,
    /// The text that the model sees and writes, as the texts that follow each other in it. What is between them depends
    /// on the machine.
    pub text: Vec<String>,
    /// What the model writes in another way than the format does: the model's text, and the format's.
    pub respelled: Vec<(String, String)>,
    /// The pictures that the code leaves.
    pub pictures: Vec<String>,
}

/// A tool, and the one call of it.
#[derive(Clone, Debug)]
pub struct ScenarioTool {
    /// The name, the description and the parameters.
    pub definition: Object,
    /// The arguments of the call.
    pub arguments: Json,
    /// What it returns.
    pub result: String,
}

/// What the user says, and what the model does until it answers.
#[derive(Clone, Debug)]
pub struct ScenarioTurn {
    /// What the user says.
    pub user: String,
    /// What the model samples, reply by reply.
    pub replies: Vec<String>,
    /// The answer, without white space around it.
    pub answer: String,
}

impl Scenario {
    /// Reads all scenarios, by name.
    pub fn all() -> Vec<Scenario> {
        let folder = root().join("fixtures/scenarios");
        let files = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut paths: Vec<_> = files.flatten().map(|file| file.path()).collect();
        paths.sort();
        let read = |path: &std::path::PathBuf| {
            let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            Scenario::read(name, &text)
        };
        paths.iter().map(read).collect()
    }

    fn read(name: String, text: &str) -> Scenario {
        let Ok(Json::Object(all)) = json::parse(text) else { panic!("{name}: expected an object") };
        let items = |key: &str| list(&all, key);
        let tools = items("tools").into_iter().map(|tool| {
            let tool = object(tool);
            let definition = tool.get("definition").and_then(Json::as_object).cloned().unwrap_or_default();
            let arguments = tool.get("arguments").cloned().unwrap_or(Json::Null);
            ScenarioTool { definition, arguments, result: word(&tool, "result") }
        });
        let turns = items("turns").into_iter().map(|turn| {
            let turn = object(turn);
            ScenarioTurn { user: word(&turn, "user"), replies: words(&turn, "replies"), answer: word(&turn, "answer") }
        });
        let files = all.get("files").and_then(Json::as_object).cloned().unwrap_or_default();
        let files = files.iter().map(|(name, lines)| (name.to_owned(), repeated(lines))).collect();
        Scenario {
            format: word(&all, "format"),
            messages: items("messages"),
            tools: tools.collect(),
            has_code: all.get("interpreter") == Some(&Json::Bool(true)),
            files,
            turns: turns.collect(),
            text: words(&all, "text"),
            respelled: respelled(&all),
            pictures: words(&all, "pictures"),
            name,
        }
    }

    /// Checks the text that a model saw and wrote.
    pub fn check(&self, door: &str, text: &str) {
        let mut rest = text;
        for (at, part) in self.text.iter().enumerate() {
            let found = if at == 0 { rest.starts_with(part).then_some(0) } else { rest.find(part.as_str()) };
            let at = found.unwrap_or_else(|| panic!("{}, {door}: not there: {part:?}\nin: {rest:?}", self.name));
            rest = &rest[at + part.len()..];
        }
        assert!(rest.is_empty() && !self.text.is_empty(), "{}, {door}: more text: {rest:?}", self.name);
    }

    fn format(&self) -> Arc<Format> {
        let registry = rolecall::format::registry();
        let format = registry.find(&self.format);
        Arc::clone(format.unwrap_or_else(|| panic!("{}: no such format", self.format)))
    }

    /// Returns the text of ids, of the format's tokens and bytes.
    pub fn written(&self, ids: &[u32]) -> String {
        let format = self.format();
        let toy = Toy::of(&format);
        let is_control = |id: &u32| format.controls.iter().find(|control| control.id == Some(*id));
        let parts = ids.chunk_by(|a, b| is_control(a).is_none() && is_control(b).is_none());
        let texts = parts.map(|part| match is_control(&part[0]) {
            Some(control) => control.text.clone(),
            None => toy.written(part),
        });
        texts.collect()
    }

    /// Returns a `tokenizer.json` of the format, in which bytes are tokens.
    pub fn tokenizer_json(&self) -> String {
        let bytes = (0..=u8::MAX).map(|byte| (letter(byte).to_string(), i64::from(Toy::BYTES) + i64::from(byte)));
        let toy = Toy::of(&self.format());
        let own = toy.added_tokens().iter().map(|token| (token.text.clone(), i64::from(token.id)));
        let vocab: Object = bytes.chain(own).map(|(text, id)| (text, id.into())).collect();
        let added = toy.added_tokens().iter().map(|token| {
            let (id, content) = (i64::from(token.id), token.text.as_str());
            let no = Json::Bool(false);
            Json::from(object! {
                "id" => id, "content" => content, "special" => true, "normalized" => no.clone(),
                "lstrip" => no.clone(), "rstrip" => no.clone(), "single_word" => no,
            })
        });
        let level = object! { "type" => "ByteLevel", "add_prefix_space" => false, "trim_offsets" => true, "use_regex" => false };
        let file = object! {
            "version" => "1.0",
            "added_tokens" => added.collect::<Vec<Json>>(),
            "pre_tokenizer" => level.clone(),
            "decoder" => level,
            "model" => object! { "type" => "BPE", "vocab" => vocab, "merges" => Vec::<Json>::new() },
        };
        json::write(&file.into(), &Layout::compact())
    }
}

/// The letter that stands for a byte in byte-level tokenizers.
fn letter(byte: u8) -> char {
    let is_own = |byte: &u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    match is_own(&byte) {
        true => char::from(byte),
        false => {
            let before = (0..byte).filter(|other| !is_own(other)).count();
            char::from_u32(256 + before as u32).unwrap_or_default()
        }
    }
}

fn object(value: Json) -> Object {
    match value {
        Json::Object(object) => object,
        other => panic!("expected an object, found {other:?}"),
    }
}

fn list(object: &Object, key: &str) -> Vec<Json> {
    object.get(key).and_then(Json::as_array).map(<[Json]>::to_vec).unwrap_or_default()
}

fn word(object: &Object, key: &str) -> String {
    object.get(key).and_then(Json::as_str).unwrap_or_else(|| panic!("expected a text as `{key}`")).to_owned()
}

fn words(object: &Object, key: &str) -> Vec<String> {
    list(object, key).iter().filter_map(|word| Some(word.as_str()?.to_owned())).collect()
}

fn respelled(all: &Object) -> Vec<(String, String)> {
    let rows = list(all, "respelled");
    let pairs = rows.iter().map(|row| match row.as_array() {
        Some([Json::String(of_model), Json::String(of_format)]) => (of_model.clone(), of_format.clone()),
        _ => panic!("expected two texts, found {row:?}"),
    });
    pairs.collect()
}

/// Returns lines, each of which is written a number of times: `[[3, "line"], ..]`.
fn repeated(lines: &Json) -> String {
    let mut text = String::new();
    for row in lines.as_array().unwrap_or_default() {
        let [Json::Number(count), Json::String(line)] = row.as_array().unwrap_or_default() else {
            panic!("expected a count and a line, found {row:?}")
        };
        let count = usize::try_from(count.as_i64().unwrap_or_default()).unwrap_or_default();
        text.push_str(&format!("{line}\n").repeat(count));
    }
    text
}
