//! The frameworks' own templates: every file is a format, and the formats agree with the
//! frameworks' code and documents.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use rolecall::conversation::json::Object;
use rolecall::conversation::{Conversation, Json, Message, json};
use rolecall::format::{Registry, builtin_sources};
use rolecall::interop;
use rolecall::interop::dialects;
use rolecall::render::{Options, Writer};

#[test]
fn no_two_formats_share_a_name() {
    let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
    let registry = rolecall::format::registry();
    for format in registry.iter() {
        for name in format.names() {
            let other = seen.insert(name, &format.name);
            assert_eq!(other, None, "`{name}` of `{}` is also a name of another format", format.name);
            assert_eq!(registry.get(name).map(|found| found.name.as_str()), Some(format.name.as_str()));
        }
    }
    // Formats with clashing names would be left out.
    let all = builtin_sources().len() + interop::formats().len();
    assert_eq!(registry.iter().count(), all);
}

#[test]
fn every_file_of_a_framework_is_a_format() {
    for framework in interop::FRAMEWORKS.iter().map(|framework| framework.name) {
        let beside = ["about", "models", "registry"];
        let files = files(framework).into_iter().filter(|(stem, _)| !beside.contains(&stem.as_str()));
        let names = files.map(|(stem, text)| match json::parse(&text) {
            // LMDeploy's files contain their name.
            Ok(Json::Object(file)) if framework == "lmdeploy" => named(framework, text_of(&file, "model_name")),
            _ => named(framework, &stem),
        });
        let expected: BTreeSet<String> = names.collect();
        let registry = rolecall::format::registry();
        assert_eq!(names_of(&registry, framework), expected);
        for format in registry.iter().filter(|format| expected.contains(&format.name)) {
            assert!(!format.title.is_empty() && !format.sources.is_empty(), "{}", format.name);
        }
    }
}

#[test]
fn the_lists_of_frameworks_name_each() {
    for page in ["README.md", "crates/interop/Cargo.toml"] {
        let text = fs::read_to_string(rolecall_testkit::root().join(page)).unwrap().to_lowercase();
        for framework in &interop::FRAMEWORKS {
            assert!(text.contains(framework.name), "{page} does not name {}", framework.name);
        }
    }
}

#[test]
fn every_template_of_xtuner_has_its_format_and_every_format_its_template() {
    let Some(facts) = facts("xtuner_templates.json") else { return };
    let templates = object(&facts, "templates");
    let wanted: BTreeSet<String> = templates.iter().map(|(name, _)| named("xtuner", name)).collect();
    let registry = rolecall::format::registry();
    let mut found = names_of(&registry, "xtuner");
    // This project's own format for having no template.
    assert!(found.remove("xtuner:none"));
    assert_eq!(found, wanted);
    let files: BTreeMap<String, String> = files("xtuner").into_iter().collect();
    for (name, fact) in templates.iter() {
        let Ok(Json::Object(file)) = json::parse(&files[name]) else { panic!("{name}") };
        let fact = fact.as_object().unwrap();
        for field in fact.get("explicit_fields").and_then(Json::as_array).unwrap().iter().filter_map(Json::as_str) {
            assert_eq!(file.get(field), fact.get(field), "{name}: {field}");
        }
        let format = registry.get(&named("xtuner", name)).unwrap();
        assert_eq!(format.generation.stop, texts(fact, "STOP_WORDS"), "{name}");
    }
    let systems: Vec<&str> = object(&facts, "system_templates").iter().map(|(name, _)| name).collect();
    let format = registry.get("xtuner:default").unwrap();
    assert_eq!(format.defaults.system_templates.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), systems);
}

#[test]
fn every_preset_of_lmflow_has_its_format_and_the_others_are_the_documents() {
    let Some(facts) = facts("lmflow_templates.json") else { return };
    let presets = object(&facts, "presets");
    let registry = rolecall::format::registry();
    let files: BTreeMap<String, String> = files("lmflow").into_iter().collect();
    for (name, fact) in presets.iter() {
        assert!(registry.get(&named("lmflow", name)).is_some(), "{name}");
        let Ok(Json::Object(file)) = json::parse(&files[name]) else { panic!("{name}") };
        // The code has no generation prompt: these ends are the document's.
        for (field, value) in file.iter().filter(|(field, _)| *field != "generate") {
            assert_eq!(fact.as_object().unwrap().get(field), Some(value), "{name}: {field}");
        }
    }
    for name in names_of(&registry, "lmflow") {
        let stem = name.strip_prefix("lmflow:").unwrap();
        if presets.get(stem).is_none() {
            let format = registry.get(&name).unwrap();
            assert!(format.sources.iter().any(|(key, source)| key == "document" && source.contains(stem)), "{name}");
        }
    }
}

#[test]
fn every_registered_name_of_lmdeploy_resolves_to_what_its_code_says() {
    let Some(facts) = facts("lmdeploy_templates.json") else { return };
    let registry = rolecall::format::registry();
    let registered = texts(&facts, "registration_order_v0.2.6");
    assert_eq!(registered.len(), 49);
    let templates = object(&facts, "v0.2.6");
    for name in &registered {
        let format = registry.get(&named("lmdeploy", name)).unwrap_or_else(|| panic!("no format `lmdeploy:{name}`"));
        let fact = templates.get(name).and_then(Json::as_object).unwrap();
        assert_eq!(format.generation.session_len, whole(fact, "session_len"), "{name}");
        assert_eq!(format.generation.stop, texts(fact, "stop_words"), "{name}");
        let capability = format.choices.iter().find(|choice| choice.name == "capability").unwrap();
        assert_eq!(capability.default, text_of(fact, "capability"), "{name}");
    }
    // A name that this release lacks is from the document, or from a later release, which its
    // sources name.
    let documents = object(&facts, "seed_commit");
    let known = |name: &str| registered.iter().any(|known| known == name) || documents.get(name).is_some();
    for format in registry.iter().filter(|format| format.name.starts_with("lmdeploy:")) {
        let later = format.sources.iter().any(|(_, source)| source.contains("v0.7.3"));
        assert!(later || format.names().all(|name| known(&name["lmdeploy:".len()..])), "{}", format.name);
    }
}

#[test]
fn lmdeploys_sampling_defaults_are_those_of_its_document() {
    let Some(facts) = facts("lmdeploy_templates.json") else { return };
    let registry = rolecall::format::registry();
    let mut told = BTreeSet::new();
    for (name, fact) in object(&facts, "seed_commit").iter() {
        let format = registry.get(&named("lmdeploy", name)).unwrap_or_else(|| panic!("no format `lmdeploy:{name}`"));
        let (fact, generation) = (fact.as_object().unwrap(), &format.generation);
        assert_eq!(generation.top_p, number(fact, "top_p"), "{name}");
        assert_eq!(generation.top_k, whole(fact, "top_k"), "{name}");
        assert_eq!(generation.temperature, number(fact, "temperature"), "{name}");
        assert_eq!(generation.repetition_penalty, number(fact, "repetition_penalty"), "{name}");
        assert_eq!(generation.session_len, whole(fact, "session_len"), "{name}");
        told.insert(format.name.clone());
    }
    // The document says nothing about the others, so they have no defaults.
    for format in registry.iter().filter(|format| format.name.starts_with("lmdeploy:") && !told.contains(&format.name))
    {
        let generation = &format.generation;
        assert_eq!((generation.top_p, generation.top_k, generation.temperature), (None, None, None), "{}", format.name);
    }
    assert!(told.len() >= 12, "{told:?}");
}

#[test]
fn lmdeploys_rules_for_paths_are_tried_in_the_order_of_its_registry() {
    let Some(facts) = facts("lmdeploy_templates.json") else { return };
    let rules = object(&facts, "path_match_v0.2.6").get("rules").and_then(Json::as_array).unwrap();
    let rules: Vec<&Object> = rules.iter().filter_map(Json::as_object).collect();
    let first = |path: &str| rules.iter().find(|rule| fits(rule, path)).map(|rule| text_of(rule, "returns"));
    let registry = rolecall::format::registry();
    let paths: Vec<String> = rules.iter().flat_map(|rule| paths_of(rule)).collect();
    for rule in &rules {
        let returns = text_of(rule, "returns");
        let reached = paths_of(rule).into_iter().filter(|path| first(path) == Some(returns)).count();
        assert!(reached > 0, "no path gives `{returns}`");
        assert!(registry.get(&named("lmdeploy", returns)).is_some(), "no format `lmdeploy:{returns}`");
    }
    // Each path alone, in capitals, and before each other path, so that the order matters.
    for path in &paths {
        assert_eq!(interop::lmdeploy::match_path(path), first(path), "{path}");
        assert_eq!(interop::lmdeploy::match_path(&path.to_uppercase()), first(path), "{path}");
        for other in &paths {
            let both = format!("{path}/{other}");
            assert_eq!(interop::lmdeploy::match_path(&both), first(&both), "{both}");
        }
    }
    assert_eq!(interop::lmdeploy::match_path("acme/unheard-of"), None);
}

#[test]
fn every_model_of_xtuners_table_has_its_dialect_and_base_models_a_warning() {
    let Some(facts) = facts("xtuner_model_table.json") else { return };
    let rows = facts.get("rows").and_then(Json::as_array).unwrap();
    let registry = rolecall::format::registry();
    let mut warned = 0;
    for row in rows.iter().filter_map(Json::as_object) {
        let (model, template) = (text_of(row, "model"), named("xtuner", text_of(row, "template")));
        assert!(registry.get(&template).is_some(), "{template}");
        let starred = row.get("starred").and_then(Json::as_bool).unwrap();
        // The table also stars two chat models that have their own template.
        let base = starred && template == "xtuner:default";
        // As published, in upper case, and as a folder path.
        for path in [model.to_owned(), model.to_uppercase(), format!("/models/{model}/")] {
            let found = dialects(&path);
            let dialect = found.iter().find(|dialect| dialect.format == template);
            let dialect = dialect.unwrap_or_else(|| panic!("{path}: no {template} among {found:?}"));
            assert_eq!(dialect.warning.is_some(), base, "{path}: {:?}", dialect.warning);
        }
        warned += usize::from(base);
    }
    assert_eq!((rows.len(), warned), (59, 20));
}

#[test]
fn a_program_adds_its_own_template_to_the_registry_and_a_clash_is_an_error() {
    let mut registry = rolecall::format::registry();
    let text = r#"{"INSTRUCTION": "Q: {input}\nA:", "SEP": "\n"}"#;
    let mine = || interop::import(text, "mine").unwrap();
    assert_eq!(registry.add(mine()).unwrap().name, "mine");
    let conversation =
        Conversation::new(vec![Message::user("2+2?"), Message::assistant("4"), Message::user("{input}")]);
    let prompt =
        Writer::format(registry.get("mine").unwrap().clone(), Options::default()).render(&conversation).unwrap();
    assert_eq!(prompt.text(), "<s>Q: 2+2?\nA:4</s>\nQ: {input}\nA:");

    let clash = registry.add(mine()).unwrap_err();
    assert_eq!((clash.name.as_str(), clash.of.as_str()), ("mine", "mine"));
    // A name, an alias, and an own alias that is another format's name.
    for (name, alias, of) in [
        ("xtuner:default", None, "xtuner:default"),
        ("lmdeploy:llama-2-chat", None, "lmdeploy:llama2"),
        ("mine-too", Some("llama2"), "llama2"),
    ] {
        let mut format = mine();
        format.name = name.to_owned();
        format.aliases.extend(alias.map(str::to_owned));
        let clash = registry.add(format).unwrap_err();
        assert_eq!((clash.name.as_str(), clash.of.as_str()), (alias.unwrap_or(name), of));
    }
}

/// Returns the files of a framework's folder: file stems and texts.
fn files(framework: &str) -> Vec<(String, String)> {
    let entries = fs::read_dir(rolecall_testkit::root().join("formats").join(framework)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let files = paths
        .map(|path| (path.file_stem().unwrap().to_string_lossy().into_owned(), fs::read_to_string(&path).unwrap()));
    files.collect()
}

/// Returns a file of facts from `../shared`, if it exists.
fn facts(file: &str) -> Option<Object> {
    let Some(shared) = rolecall_testkit::shared() else {
        rolecall_testkit::say_skipped(&format!("the formats are not compared with facts/{file}"));
        return None;
    };
    match json::parse(&fs::read_to_string(shared.join("facts").join(file)).unwrap()) {
        Ok(Json::Object(facts)) => Some(facts),
        other => panic!("{file}: {other:?}"),
    }
}

fn named(framework: &str, name: &str) -> String {
    format!("{framework}:{name}")
}

fn names_of(registry: &Registry, framework: &str) -> BTreeSet<String> {
    let prefix = named(framework, "");
    registry.iter().map(|format| format.name.clone()).filter(|name| name.starts_with(&prefix)).collect()
}

fn object<'a>(object: &'a Object, key: &str) -> &'a Object {
    object.get(key).and_then(Json::as_object).unwrap_or_else(|| panic!("no object `{key}`"))
}

fn text_of<'a>(object: &'a Object, key: &str) -> &'a str {
    object.get(key).and_then(Json::as_str).unwrap_or_else(|| panic!("no text `{key}`"))
}

/// Returns the texts of a list, or none if it is missing or null.
fn texts(object: &Object, key: &str) -> Vec<String> {
    let items = object.get(key).and_then(Json::as_array).unwrap_or_default();
    items.iter().map(|item| item.as_str().unwrap().to_owned()).collect()
}

fn number(object: &Object, key: &str) -> Option<f64> {
    match object.get(key) {
        Some(Json::Number(number)) => number.as_f64(),
        _ => None,
    }
}

fn whole(object: &Object, key: &str) -> Option<u64> {
    number(object, key).map(|number| number as u64)
}

/// Reports whether a rule of the facts matches a path in lower case.
fn fits(rule: &Object, path: &str) -> bool {
    let has = |word: &String| path.contains(word.as_str());
    let any = texts(rule, "any");
    texts(rule, "all").iter().all(has)
        && (any.is_empty() || any.iter().any(has))
        && !texts(rule, "none").iter().any(has)
}

/// Returns paths made of a rule's own words, one for each word of which any suffices.
fn paths_of(rule: &Object) -> Vec<String> {
    let all = texts(rule, "all").join("-");
    let any = texts(rule, "any");
    match any.is_empty() {
        true => vec![all],
        false => any.iter().map(|word| format!("{all}-{word}")).collect(),
    }
}
