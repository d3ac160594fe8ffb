//! Models of different kinds, what each is asked, and the library's answers.
//!
//! A case of `fixtures/doors` has a model, requests to it, and its replies. Its other sections are the
//! answers. `tests/doors.rs` compares them with the library; the tests of the command, the gateway and
//! the Python package compare them with what these return.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use rolecall::conversation::json::{self, Layout, Object};
use rolecall::conversation::{Json, object};

use crate::Fixture;

/// The keys of a template's analysis that are compared.
pub const ANALYSIS: [&str; 6] = ["supports", "arguments", "ids", "writes_bos", "switches", "findings"];

/// A model with requests and replies.
#[derive(Clone, Debug)]
pub struct DoorCase {
    /// The case's file.
    pub fixture: Fixture,
}

/// A reply of the model to its first request.
#[derive(Clone, Debug)]
pub struct DoorReply {
    /// The text, in which what spells a control token stands for the token.
    pub output: String,
    /// Why the model stopped, in OpenAI's terms.
    pub finish_reason: Option<String>,
    /// The policies by which it is parsed: names and words.
    pub policies: Vec<(String, String)>,
}

impl DoorCase {
    /// Runs a check on each model, and reports all that fail.
    pub fn check_all(mut check: impl FnMut(DoorCase)) {
        Fixture::check_all("doors", |fixture| check(DoorCase { fixture: fixture.clone() }));
    }

    /// Returns all models.
    pub fn all() -> Vec<DoorCase> {
        Fixture::of_folder("doors").into_iter().map(|fixture| DoorCase { fixture }).collect()
    }

    /// Returns the name of the kind of model.
    pub fn name(&self) -> String {
        self.fixture.path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Writes the model's folder: a tokenizer in which each byte is a token, and the template.
    pub fn write_model(&self, folder: &Path) {
        let model = self.model();
        let unflagged = model.get("unflagged").map(|_| texts(&model, "unflagged")).unwrap_or_default();
        let added = texts(&model, "tokens").into_iter().enumerate().map(|(at, token)| {
            let special = !unflagged.contains(&token);
            Json::Object(object! {
                "id" => 256 + at as i64, "content" => token, "special" => special, "normalized" => false, "lstrip" => false,
                "rstrip" => false, "single_word" => false,
            })
        });
        let mut vocabulary = Object::new();
        (0..=255u8).for_each(|byte| vocabulary.insert(letter(byte).to_string(), i64::from(byte).into()));
        let byte_level = object! {
            "type" => "ByteLevel", "add_prefix_space" => false, "trim_offsets" => true, "use_regex" => false,
        };
        let bpe = object! { "type" => "BPE", "vocab" => vocabulary, "merges" => Json::Array(Vec::new()) };
        let tokenizer = object! {
            "added_tokens" => added.collect::<Vec<Json>>(), "pre_tokenizer" => byte_level.clone(),
            "decoder" => byte_level, "model" => bpe,
        };
        let template = self.fixture.needed("template");
        let mut config = object! { "eos_token" => text(&model, "eos"), "chat_template" => template };
        if let Some(bos) = model.get("bos") {
            config.insert("bos_token", bos.clone());
        }
        for (name, content) in [("tokenizer.json", tokenizer), ("tokenizer_config.json", config)] {
            let content = json::write(&Json::Object(content), &Layout::compact());
            fs::write(folder.join(name), content).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }

    /// Returns the texts of tokens that must be among those that end a reply.
    pub fn stops(&self) -> Vec<String> {
        texts(&self.model(), "stops")
    }

    /// Returns the requests, as JSON. The replies are to the first one.
    pub fn requests(&self) -> Vec<&str> {
        self.fixture.needed("requests").lines().collect()
    }

    /// Returns the replies to the first request.
    pub fn replies(&self) -> Vec<DoorReply> {
        let read = |line: &str| {
            let reply = parsed(line);
            let policies = ["calls_in_reasoning", "unclosed_reasoning"].into_iter();
            let named = |name: &str| Some((name.to_owned(), reply.get(name)?.as_str()?.to_owned()));
            DoorReply {
                output: text(&reply, "output"),
                finish_reason: reply.get("finish_reason").and_then(Json::as_str).map(str::to_owned),
                policies: policies.filter_map(named).collect(),
            }
        };
        self.fixture.needed("replies").lines().map(read).collect()
    }

    /// Compares an answer with the case, as [`Fixture::expect`] does.
    pub fn expect(&mut self, question: &str, answer: &str) {
        self.fixture.expect(question, answer);
    }

    /// Compares the answer of a door with the library's.
    pub fn same(&self, door: &str, question: &str, answer: &str) {
        let name = self.name();
        assert_eq!(answer, self.fixture.needed(question), "{name}: `{question}` of {door}");
    }

    fn model(&self) -> Object {
        parsed(self.fixture.needed("model"))
    }
}

/// Returns lines of JSON.
pub fn lines(values: impl IntoIterator<Item = Json>) -> String {
    let lines: Vec<String> = values.into_iter().map(|value| json::write(&value, &Layout::compact())).collect();
    lines.join("\n")
}

/// Returns ids in ascending order, once each, as JSON.
pub fn sorted(ids: impl IntoIterator<Item = u32>) -> String {
    let ids: BTreeSet<u32> = ids.into_iter().collect();
    lines([Json::Array(ids.into_iter().map(|id| i64::from(id).into()).collect())])
}

/// Returns these keys of an object, as far as it has them.
pub fn part(answer: &Json, keys: &[&str]) -> Json {
    let mut part = Object::new();
    for key in keys {
        if let Some(value) = answer.as_object().and_then(|answer| answer.get(key)) {
            part.insert(*key, value.clone());
        }
    }
    Json::Object(part)
}

/// Returns what a parsed reply has, in one form for all doors: without the ids of calls, which are
/// random. `answer` is a result of `rolecall parse --json`, or has its keys.
pub fn reading(answer: &Json) -> Json {
    let field = |value: &Json, key: &str| value.as_object().and_then(|value| value.get(key)).cloned();
    let message = field(answer, "message").unwrap_or(Json::Null);
    let mut facts =
        object! { "content" => field(&message, "content").filter(|text| !text.is_null()).unwrap_or("".into()) };
    if let Some(reasoning) = field(&message, "reasoning_content").filter(|text| !text.is_null()) {
        facts.insert("reasoning_content", reasoning);
    }
    if let Some(Json::Array(calls)) = field(&message, "tool_calls") {
        let call = |call: &Json| part(&field(call, "function").unwrap_or(Json::Null), &["name", "arguments"]);
        facts.insert("calls", Json::Array(calls.iter().map(call).collect()));
    }
    facts.insert("finish_reason", field(answer, "finish_reason").unwrap_or(Json::Null));
    if let Some(Json::Array(malformed)) = field(answer, "malformed") {
        let code = |malformed: &Json| field(malformed, "code").unwrap_or(Json::Null);
        facts.insert("malformed", Json::Array(malformed.iter().map(code).collect()));
    }
    Json::Object(facts)
}

/// Returns the character that stands for a byte in byte-level vocabularies.
fn letter(byte: u8) -> char {
    let is_own = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    match is_own(byte) {
        true => char::from(byte),
        false => char::from_u32(256 + (0..byte).filter(|other| !is_own(*other)).count() as u32).unwrap_or_default(),
    }
}

fn parsed(text: &str) -> Object {
    let value = json::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    value.as_object().unwrap_or_else(|| panic!("{text}: expected an object")).clone()
}

fn text(object: &Object, key: &str) -> String {
    object.get(key).and_then(Json::as_str).unwrap_or_else(|| panic!("expected a text `{key}`")).to_owned()
}

fn texts(object: &Object, key: &str) -> Vec<String> {
    let list = object.get(key).and_then(Json::as_array).unwrap_or_else(|| panic!("expected a list `{key}`"));
    list.iter().filter_map(Json::as_str).map(str::to_owned).collect()
}
