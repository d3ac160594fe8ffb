//! Identifies the format of a model by its name and by the contents of its folder, whatever the
//! folder's name.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use rolecall::conversation::{Conversation, Json, json, object};
use rolecall::format::Registry;
use rolecall::identify::{Clues, Identification, ModelWarning, Unidentified, identify, read_folder};
use rolecall::render::{Bos, Options, Writer};
use rolecall_testkit::{Makers, Pair};
use toml::de::{DeTable, DeValue};

#[test]
fn every_name_of_the_list_has_its_format_or_is_unknown() {
    let registry = rolecall::format::registry();
    let named = Names::read();
    for (section, warned) in [("chat", false), ("base", true), ("clothes", false)] {
        for (name, format) in &named.formats[section] {
            let found = by_name(name, &registry).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(found.format.name, *format, "{name}");
            let is_warned = found.warnings.iter().any(|warning| matches!(warning, ModelWarning::BaseModel { .. }));
            assert_eq!(is_warned, warned, "{name}: {:?}", found.warnings);
            assert!(!found.evidence.is_empty(), "{name}");
        }
    }
    for name in &named.unknown {
        let found = by_name(name, &registry).map(|found| found.format.name.clone());
        assert!(matches!(found, Err(Unidentified::Unknown { .. })), "{name}: {found:?}");
    }
}

#[test]
fn every_row_of_xtuners_table_is_in_the_list() {
    let Some(shared) = rolecall_testkit::shared() else {
        rolecall_testkit::say_skipped("XTuner's table of models is not compared with fixtures/models.toml");
        return;
    };
    let table = parse(&fs::read_to_string(shared.join("facts/xtuner_model_table.json")).unwrap());
    let rows = table.as_object().unwrap().get("rows").unwrap().as_array().unwrap();
    let named = Names::read();
    for row in rows {
        let model = field(row, "model");
        let is_base = named.formats["base"].contains_key(model);
        assert!(is_base || named.formats["chat"].contains_key(model), "{model} is not in fixtures/models.toml");
        // The table marks base models as untrained, and two chat models as well.
        let is_marked = row.as_object().unwrap().get("starred").and_then(Json::as_bool).unwrap();
        assert!(is_base || !is_marked || model.ends_with("-it"), "{model}");
    }
    eprintln!("{} rows resolve", rows.len());
    assert_eq!(rows.len(), 59);
}

/// The makers' templates, each alone in a folder whose name says nothing.
#[test]
fn a_real_template_in_a_folder_without_a_name_is_recognised_or_left_alone() {
    let Some(shared) = rolecall_testkit::shared() else {
        rolecall_testkit::say_skipped("no real chat template is recognised");
        return;
    };
    let registry = rolecall::format::registry();
    let goldens = Goldens::read(&fs::read_to_string(shared.join("golden/hf_jinja.jsonl")).unwrap());
    let index = parse(&fs::read_to_string(shared.join("templates/index.json")).unwrap());
    let makers = Makers::read();
    let (mut own, mut others, mut left, mut wrong) = (0, 0, 0, Vec::new());
    for (number, row) in index.as_object().unwrap().get("templates").unwrap().as_array().unwrap().iter().enumerate() {
        let file = field(row, "file");
        let pairs: Vec<&Pair> = makers.pairs.iter().filter(|pair| pair.template == file).collect();
        let expected = expected_of(file, field(row, "model"), &pairs, &registry);
        let folder = Folder::new(&format!("m{number}"));
        let template = fs::read_to_string(shared.join("templates").join(file)).unwrap();
        let token = |key: &str| row.as_object().unwrap().get(key).cloned().unwrap_or(Json::Null);
        let bos = token("bos_token");
        let config = object! { "bos_token" => bos, "eos_token" => token("eos_token"), "chat_template" => template };
        folder.write("tokenizer_config.json", &json::write(&Json::Object(config), &json::Layout::default()));
        let model = folder.model();
        let Ok(found) = identify(&model, &registry) else {
            left += usize::from(expected.is_empty());
            wrong.extend(expected.first().map(|expected| format!("{file} is not recognised as `{expected}`")));
            continue;
        };
        let name = &found.format.name;
        if expected.is_empty() {
            others += 1;
            eprintln!("{file} writes as `{name}`");
        } else if expected.contains(name) {
            own += 1;
        } else {
            wrong.push(format!("{file}: expected one of {expected:?}, found `{name}`"));
        }
        let options = pairs.iter().find(|pair| pair.format == *name).map(|pair| pair.options.clone());
        wrong.extend(goldens.differences(file, &found, &options.unwrap_or_default()));
    }
    eprintln!(
        "{own} templates of built-in formats are recognised, and {others} others that write the same; {left} are not recognised"
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!((own, others, left), (15, 8, 180));
}

/// Returns the formats that a template belongs to: by `fixtures/makers.toml`, or else by its
/// model's name.
fn expected_of(file: &str, model: &str, pairs: &[&Pair], registry: &Registry) -> Vec<String> {
    // These templates differ from their families: one keeps a place for the system text, the
    // default system text of the other ends differently.
    if ["unsloth--vicuna.jinja", "hfjs--TheBloke--deepseek-coder-33B-instruct-AWQ.jinja"].contains(&file) {
        return Vec::new();
    }
    let name = model.strip_prefix("hub--").unwrap_or(model);
    let named = registry.fits(name).into_iter().map(|fit| fit.format.name.clone());
    pairs.iter().map(|pair| pair.format.clone()).chain(named).collect()
}

/// A case: description, files, format, and the codes of the warnings.
type Case = (&'static str, Vec<(&'static str, String)>, &'static str, &'static [&'static str]);

/// The ways to recognise the model of a folder, each in a folder whose name says nothing.
#[test]
fn a_folder_is_recognised_by_what_is_in_it() {
    let chatml = r"{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n' }}{% endfor %}";
    let config = |template: &str, tokens: &[&str]| {
        let added = tokens
            .iter()
            .enumerate()
            .map(|(id, token)| (id.to_string(), Json::Object(object! { "content" => *token })));
        let mut config = object! { "added_tokens_decoder" => Json::Object(added.collect()) };
        if !template.is_empty() {
            config.insert("chat_template", Json::from(template));
        }
        json::write(&Json::Object(config), &json::Layout::default())
    };
    let plugin = ["<|im_start|>", "<|im_end|>", "<|plugin|>", "<|interpreter|>", "<|action_start|>", "<|action_end|>"];
    let architecture = |name: &str| format!(r#"{{"architectures": ["{name}"]}}"#);
    let named = format!(
        r#"{{"chat_template": [{{"name": "tool_use", "template": "x"}}, {{"name": "default", "template": {}}}]}}"#,
        json::write(&Json::from(chatml), &json::Layout::default())
    );
    let tokenizer = r#"{"version": "1.0", "added_tokens": [{"id": 1, "content": "[gMASK]"}, {"id": 2, "content": "sop"}, {"id": 3, "content": "<|user|>"}, {"id": 4, "content": "<|assistant|>"}], "model": {"vocab": {}}}"#;
    let cases: [Case; 10] = [
        ("a template", vec![("tokenizer_config.json", config(chatml, &[]))], "chatml", &[]),
        ("a template in its own file", vec![("chat_template.jinja", chatml.into())], "chatml", &[]),
        ("a list of templates", vec![("tokenizer_config.json", named)], "chatml", &[]),
        ("a template and tokens", vec![("tokenizer_config.json", config(chatml, &plugin))], "internlm2", &[]),
        (
            "a template and tokens, but another architecture",
            vec![
                ("tokenizer_config.json", config(chatml, &plugin)),
                ("config.json", architecture("InternLM3ForCausalLM")),
            ],
            "chatml",
            &["contradiction"],
        ),
        (
            "a template and the token that opens a prompt",
            vec![("tokenizer_config.json", config(chatml, &["<|startoftext|>", "<|im_end|>"]))],
            "yi",
            &[],
        ),
        ("tokens", vec![("tokenizer.json", tokenizer.into())], "chatglm3", &["no_template"]),
        ("an architecture", vec![("config.json", architecture("QWenLMHeadModel"))], "qwen", &["no_template"]),
        (
            "a template against an architecture",
            vec![("chat_template.jinja", chatml.into()), ("config.json", architecture("QWenLMHeadModel"))],
            "chatml",
            &["contradiction"],
        ),
        (
            "a name in the config",
            vec![("config.json", r#"{"_name_or_path": "internlm/internlm2-7b"}"#.into())],
            "internlm2",
            &["base_model"],
        ),
    ];
    let registry = rolecall::format::registry();
    for (what, files, format, warnings) in cases {
        let folder = Folder::new(&what.replace(' ', "-"));
        for (name, text) in &files {
            folder.write(name, text);
        }
        let found = identify(&folder.model(), &registry).unwrap_or_else(|error| panic!("{what}: {error}"));
        let codes: Vec<&str> = found.warnings.iter().map(ModelWarning::code).collect();
        assert_eq!((found.format.name.as_str(), codes.as_slice()), (format, warnings), "{what}");
    }
}

#[test]
fn a_template_that_nobody_knows_is_not_overruled_by_tokens() {
    let folder = Folder::new("own-template");
    folder.write("chat_template.jinja", "{{ messages }}");
    folder.write(
        "added_tokens.json",
        r#"{"<|plugin|>": 1, "<|interpreter|>": 2, "<|action_start|>": 3, "<|action_end|>": 4}"#,
    );
    let error =
        identify(&folder.model(), &rolecall::format::registry()).map(|found| found.format.name.clone()).unwrap_err();
    assert_eq!(error.code(), "unknown_model");
    assert_eq!(error.candidates()[0].format, "internlm2");
}

fn by_name<'a>(name: &str, registry: &'a Registry) -> Result<Identification<'a>, Unidentified> {
    identify(&Clues { name: name.to_owned(), folder: None }, registry)
}

/// The contents of `fixtures/models.toml`.
struct Names {
    formats: BTreeMap<String, BTreeMap<String, String>>,
    unknown: Vec<String>,
}

impl Names {
    fn read() -> Names {
        let source = fs::read_to_string(rolecall_testkit::root().join("fixtures/models.toml")).unwrap();
        let mut names = Names { formats: BTreeMap::new(), unknown: Vec::new() };
        for (section, table) in DeTable::parse(&source).unwrap().get_ref() {
            let DeValue::Table(table) = table.get_ref() else { panic!("expected a table in {section}") };
            for (key, value) in table {
                match value.get_ref() {
                    DeValue::String(format) => {
                        let formats = names.formats.entry(section.get_ref().to_string()).or_default();
                        formats.insert(key.get_ref().to_string(), format.to_string());
                    }
                    DeValue::Array(items) => {
                        names
                            .unknown
                            .extend(items.iter().filter_map(|item| item.get_ref().as_str()).map(str::to_owned));
                    }
                    _ => panic!("expected a format or a list in {key}"),
                }
            }
        }
        names
    }
}

/// The folder of a model, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = Folder(std::env::temp_dir().join(format!("rolecall-{}-{name}", std::process::id())));
        fs::create_dir_all(&folder.0).unwrap();
        folder
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).unwrap();
    }

    fn model(&self) -> Clues {
        let folder = read_folder(&self.0).unwrap_or_else(|error| panic!("{error}"));
        Clues { name: self.0.display().to_string(), folder: Some(folder) }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The texts that transformers renders for plain conversations.
struct Goldens {
    conversations: Vec<(&'static str, Conversation)>,
    /// The texts by template and case.
    texts: BTreeMap<(String, String), String>,
}

impl Goldens {
    fn read(text: &str) -> Goldens {
        let rows: Vec<Json> = text.lines().map(parse).collect();
        let conversation = |case: &str| {
            let row = rows.iter().find(|row| field(row, "kind") == "case" && field(row, "id") == case);
            let messages = row.and_then(|row| row.as_object()?.get("messages")).unwrap().clone();
            Conversation::from_json(Json::Object(object! { "messages" => messages })).unwrap()
        };
        let conversations = ["plain", "system", "multi_turn"].map(|case| (case, conversation(case))).into();
        let texts = rows.iter().filter(|row| field(row, "kind") == "golden").filter_map(|row| {
            let output = row.as_object()?.get("output")?.as_str()?.to_owned();
            Some(((field(row, "template").to_owned(), field(row, "case").to_owned()), output))
        });
        Goldens { conversations, texts: texts.collect() }
    }

    /// Describes each case in which the format's text differs from the template's, if both have
    /// one.
    fn differences(&self, template: &str, found: &Identification<'_>, choices: &[(String, String)]) -> Vec<String> {
        // The tokenizer adds the opening token that the format, according to a warning, does not
        // write.
        let opening = found.warnings.iter().find_map(|warning| match warning {
            ModelWarning::NoOpening { bos } => Some(bos.as_str()),
            _ => None,
        });
        let mut differences = Vec::new();
        for (case, conversation) in &self.conversations {
            let Some(golden) = self.texts.get(&(template.to_owned(), (*case).to_owned())) else { continue };
            let texts = [Bos::Write, Bos::LeaveToTokenizer].map(|bos| {
                let options = Options { bos, choices: choices.to_vec(), ..Options::default() };
                let prompt = Writer::format(found.format.clone(), options.clone()).render(conversation).ok()?;
                Some(opening.unwrap_or_default().to_owned() + prompt.text())
            });
            let mut given = texts.iter().flatten().peekable();
            if given.peek().is_some() && !given.any(|text| text == golden) {
                let name = &found.format.name;
                differences.push(format!("{template} {case} differs from `{name}`\n  {texts:?}\n  {golden:?}"));
            }
        }
        differences
    }
}

fn parse(text: &str) -> Json {
    json::parse(text).unwrap_or_else(|error| panic!("{error}"))
}

fn field<'a>(row: &'a Json, key: &str) -> &'a str {
    row.as_object().and_then(|row| row.get(key)).and_then(Json::as_str).unwrap_or_default()
}
